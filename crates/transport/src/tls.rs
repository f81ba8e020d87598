//! Whom TLS connections trust, and what a refused certificate means in words.

use std::error::Error;
use std::io;
use std::path::Path;
use std::sync::Arc;

use rustls::client::danger::ServerCertVerifier;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{CertificateError, ClientConfig};
use rustls_platform_verifier::Verifier;

use crate::TransportConfigError;

/// A CA file holds a handful of certificates; a bundle of all public ones has some hundred.
const MAX_CERTIFICATES: usize = 10_000;

/// Why a server's certificate was refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CertificateProblem {
    pub reason: String,
    pub kind: CertificateProblemKind,
}

/// What a person can do about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CertificateProblemKind {
    /// Trust the issuer, if it is known.
    UnknownIssuer,
    /// Use another name for the server.
    WrongName,
    /// Ask whoever runs the server, or set the clock.
    Invalid,
}

/// The one implementation of TLS's algorithms in this program.
pub fn crypto() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

/// All certificates of a PEM file; at least one.
pub fn read_certificates(
    path: &Path,
) -> Result<Vec<CertificateDer<'static>>, TransportConfigError> {
    let refused = |reason: String| TransportConfigError::CaFile {
        path: path.to_owned(),
        reason,
    };
    let found = CertificateDer::pem_file_iter(path).map_err(|error| refused(pem_text(&error)))?;
    let certificates = found
        .take(MAX_CERTIFICATES)
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| refused(pem_text(&error)))?;
    if certificates.is_empty() {
        return Err(refused("it holds no PEM certificate".to_owned()));
    }
    Ok(certificates)
}

/// Checks server certificates against the system's roots, and those in `ca_file`.
pub fn system_verifier(
    ca_file: Option<&Path>,
) -> Result<Arc<dyn ServerCertVerifier>, TransportConfigError> {
    let verifier = match ca_file {
        None => Verifier::new(crypto()).map_err(system_roots)?,
        Some(path) => {
            let extra = read_certificates(path)?;
            Verifier::new_with_extra_roots(extra, crypto()).map_err(|error| {
                TransportConfigError::CaFile {
                    path: path.to_owned(),
                    reason: error.to_string(),
                }
            })?
        }
    };
    Ok(Arc::new(verifier))
}

/// TLS as a client without a certificate of its own.
pub fn client_config(ca_file: Option<&Path>) -> Result<ClientConfig, TransportConfigError> {
    let builder = ClientConfig::builder_with_provider(crypto())
        .with_safe_default_protocol_versions()
        .map_err(system_roots)?;
    Ok(builder
        .dangerous()
        .with_custom_certificate_verifier(system_verifier(ca_file)?)
        .with_no_client_auth())
}

fn system_roots(error: rustls::Error) -> TransportConfigError {
    TransportConfigError::SystemRoots {
        reason: error.to_string(),
    }
}

/// The certificate problem behind a failed handshake, if that was the cause.
pub fn certificate_problem(error: &(dyn Error + 'static)) -> Option<CertificateProblem> {
    match rustls_error(error)? {
        rustls::Error::InvalidCertificate(problem) => Some(describe(problem)),
        _ => None,
    }
}

/// An `io::Error` holds TLS errors inside itself, where `source` does not show them.
fn rustls_error<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a rustls::Error> {
    let mut cause = Some(error);
    while let Some(inner) = cause {
        if let Some(found) = inner.downcast_ref::<rustls::Error>() {
            return Some(found);
        }
        let held: Option<&'a (dyn Error + 'static)> = inner
            .downcast_ref::<io::Error>()
            .and_then(io::Error::get_ref)
            .map(|held| held as _);
        cause = held.or_else(|| inner.source());
    }
    None
}

fn describe(problem: &CertificateError) -> CertificateProblem {
    use CertificateProblemKind::{Invalid, UnknownIssuer, WrongName};
    let (reason, kind) = match problem {
        CertificateError::UnknownIssuer => ("unknown issuer".to_owned(), UnknownIssuer),
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            ("it has expired".to_owned(), Invalid)
        }
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            ("it is not valid yet".to_owned(), Invalid)
        }
        CertificateError::NotValidForName => ("it is for another name".to_owned(), WrongName),
        CertificateError::NotValidForNameContext { presented, .. } => {
            let names = presented.iter().map(|name| plain_name(name));
            let names = names.collect::<Vec<_>>().join(", ");
            match names.is_empty() {
                true => ("it names no host".to_owned(), WrongName),
                false => (format!("it is only for {names}"), WrongName),
            }
        }
        CertificateError::Revoked => ("it was revoked".to_owned(), Invalid),
        // A server that presents its CA's own certificate is the usual self-made one.
        CertificateError::Other(other) if other.to_string().contains("CaUsedAsEndEntity") => {
            ("it is the certificate of an authority".to_owned(), Invalid)
        }
        other => (other.to_string(), Invalid),
    };
    CertificateProblem { reason, kind }
}

/// `DnsName("example.com")` as rustls reports it, without the wrapping.
fn plain_name(name: &str) -> &str {
    name.split_once('"')
        .and_then(|(_, rest)| rest.split_once('"'))
        .map_or(name, |(plain, _)| plain)
}

/// The reader's words for a file that cannot be opened name no path; ours do.
fn pem_text(error: &rustls::pki_types::pem::Error) -> String {
    match error {
        rustls::pki_types::pem::Error::Io(error) => error.to_string(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_without_a_certificate_is_refused_with_its_path() {
        let missing = read_certificates(Path::new("/nonexistent/ca.pem")).unwrap_err();
        assert_eq!(
            missing.to_string(),
            "the CA file /nonexistent/ca.pem cannot be used: No such file or directory (os error 2)"
        );
        let empty = read_certificates(Path::new("/dev/null")).unwrap_err();
        assert!(empty.to_string().ends_with("it holds no PEM certificate"));
    }

    #[test]
    fn names_are_shown_without_their_type() {
        assert_eq!(plain_name("DnsName(\"example.com\")"), "example.com");
        assert_eq!(plain_name("IpAddress(127.0.0.1)"), "IpAddress(127.0.0.1)");
    }
}
