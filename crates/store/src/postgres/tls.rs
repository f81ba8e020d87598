//! TLS to PostgreSQL, with the parameters of libpq: `sslmode`, `sslrootcert`, `sslcert`, `sslkey`.
//!
//! The driver knows only whether a connection must be encrypted. Whom to trust is decided here.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use codelab_transport::tls::{crypto, read_certificates, system_verifier};
use percent_encoding::percent_decode_str;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{WebPkiServerVerifier, verify_server_cert_signed_by_trust_anchor};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use tokio_postgres::config::SslMode;
use tokio_postgres_rustls::MakeRustlsConnect;

use super::address::{parameters_start, with_parameters};
use crate::StoreError;

/// `sslrootcert=system` trusts the roots of the system.
const SYSTEM_ROOTS: &str = "system";
/// Where libpq looks for roots when the address names none, below the home folder.
const DEFAULT_ROOTS: &str = ".postgresql/root.crt";
const ALPN: &[u8] = b"postgresql";

/// How much a connection is protected, in libpq's words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum TlsMode {
    Disable,
    /// TLS if the server offers it. Certificates are not checked.
    #[default]
    Prefer,
    /// TLS, or no connection. Certificates are checked only if roots are named.
    Require,
    /// The server's certificate must come from a trusted root.
    VerifyCa,
    /// It must also be for the host in the address.
    VerifyFull,
}

/// The TLS parameters of a database address.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct TlsParameters {
    pub mode: TlsMode,
    roots: Option<String>,
    certificate: Option<PathBuf>,
    key: Option<PathBuf>,
}

impl TlsParameters {
    /// Takes the parameters out of a database address. Returns the address without those that the
    /// driver does not know.
    pub fn split(url: &str) -> Result<(String, Self), StoreError> {
        let mut tls = Self::default();
        let Some(start) = parameters_start(url) else {
            return Ok((url.to_owned(), tls));
        };
        let mut kept = Vec::new();
        let mut mode = None;
        for parameter in url[start + 1..].split('&') {
            let (name, value) = parameter.split_once('=').unwrap_or((parameter, ""));
            let value = percent_decode_str(value).decode_utf8_lossy().into_owned();
            match name {
                "sslmode" => mode = Some(TlsMode::parse(&value)?),
                "sslrootcert" => tls.roots = Some(value).filter(|value| !value.is_empty()),
                "sslcert" => tls.certificate = Some(value.into()),
                "sslkey" => tls.key = Some(value.into()),
                _ => kept.push(parameter),
            }
        }
        if tls.certificate.is_some() != tls.key.is_some() {
            return Err(invalid("sslcert and sslkey need each other"));
        }
        let has_system_roots = tls.roots.as_deref() == Some(SYSTEM_ROOTS);
        // As with libpq, the system's roots change the default: anybody can get a certificate from
        // one of them, so only the host's name tells servers apart.
        tls.mode = mode.unwrap_or(match has_system_roots {
            true => TlsMode::VerifyFull,
            false => TlsMode::default(),
        });
        if has_system_roots && tls.mode != TlsMode::VerifyFull {
            return Err(invalid("sslrootcert=system needs sslmode=verify-full"));
        }
        Ok((with_parameters(&url[..start], &kept), tls))
    }

    /// What the driver is told.
    pub fn driver_mode(&self) -> SslMode {
        match self.mode {
            TlsMode::Disable => SslMode::Disable,
            TlsMode::Prefer => SslMode::Prefer,
            TlsMode::Require | TlsMode::VerifyCa | TlsMode::VerifyFull => SslMode::Require,
        }
    }

    /// Reads the files that the parameters name. `None` if TLS is not wanted.
    pub fn connector(&self, home: Option<&Path>) -> Result<Option<MakeRustlsConnect>, StoreError> {
        if self.mode == TlsMode::Disable {
            return Ok(None);
        }
        let builder = ClientConfig::builder_with_provider(crypto())
            .with_safe_default_protocol_versions()
            .map_err(|error| invalid(&error.to_string()))?
            .dangerous()
            .with_custom_certificate_verifier(self.verifier(home)?);
        let mut config = match (&self.certificate, &self.key) {
            (Some(certificate), Some(key)) => {
                let chain = read(certificate)?;
                let key = PrivateKeyDer::from_pem_file(key).map_err(|error| {
                    invalid(&format!("sslkey {} cannot be used: {error}", key.display()))
                })?;
                builder
                    .with_client_auth_cert(chain, key)
                    .map_err(|error| invalid(&format!("sslcert and sslkey do not fit: {error}")))?
            }
            _ => builder.with_no_client_auth(),
        };
        config.alpn_protocols = vec![ALPN.to_vec()];
        Ok(Some(MakeRustlsConnect::new(config)))
    }

    fn verifier(&self, home: Option<&Path>) -> Result<Arc<dyn ServerCertVerifier>, StoreError> {
        if self.roots.as_deref() == Some(SYSTEM_ROOTS) {
            return system_verifier(None).map_err(|error| invalid(&error.to_string()));
        }
        let usual = home
            .map(|home| home.join(DEFAULT_ROOTS))
            .filter(|path| path.exists());
        let roots = match self.roots.as_ref().map(PathBuf::from).or(usual) {
            Some(path) if self.mode != TlsMode::Prefer => Some(root_store(&path)?),
            _ => None,
        };
        match (self.mode, roots) {
            (TlsMode::VerifyCa | TlsMode::VerifyFull, None) => Err(invalid(
                "sslmode=verify-ca and verify-full need sslrootcert=FILE, or sslrootcert=system",
            )),
            (TlsMode::VerifyFull, Some(roots)) => {
                let verifier = WebPkiServerVerifier::builder_with_provider(roots.into(), crypto())
                    .build()
                    .map_err(|error| invalid(&error.to_string()))?;
                Ok(verifier)
            }
            // As with libpq, naming roots makes `require` check the certificate.
            (_, roots) => Ok(Arc::new(NamelessVerifier {
                roots,
                crypto: crypto(),
            })),
        }
    }
}

impl TlsMode {
    fn parse(text: &str) -> Result<Self, StoreError> {
        match text {
            "disable" => Ok(Self::Disable),
            "prefer" => Ok(Self::Prefer),
            "require" => Ok(Self::Require),
            "verify-ca" => Ok(Self::VerifyCa),
            "verify-full" => Ok(Self::VerifyFull),
            // `allow` would prefer a plain connection, which nobody wants on purpose.
            _ => Err(invalid(
                "sslmode must be disable, prefer, require, verify-ca or verify-full",
            )),
        }
    }
}

/// Checks who issued a certificate if there are roots, and never for which host.
#[derive(Debug)]
struct NamelessVerifier {
    roots: Option<RootCertStore>,
    crypto: Arc<CryptoProvider>,
}

impl ServerCertVerifier for NamelessVerifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        if let Some(roots) = &self.roots {
            verify_server_cert_signed_by_trust_anchor(
                &ParsedCertificate::try_from(end_entity)?,
                roots,
                intermediates,
                now,
                self.crypto.signature_verification_algorithms.all,
            )?;
        }
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.crypto.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signed, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.crypto.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.crypto
            .signature_verification_algorithms
            .supported_schemes()
    }
}

fn root_store(path: &Path) -> Result<RootCertStore, StoreError> {
    let mut roots = RootCertStore::empty();
    for certificate in read(path)? {
        roots.add(certificate).map_err(|error| {
            invalid(&format!(
                "sslrootcert {} cannot be used: {error}",
                path.display()
            ))
        })?;
    }
    Ok(roots)
}

fn read(path: &Path) -> Result<Vec<CertificateDer<'static>>, StoreError> {
    read_certificates(path).map_err(|error| invalid(&error.to_string()))
}

fn invalid(reason: &str) -> StoreError {
    StoreError::Invalid(format!("the postgres: database address: {reason}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_of_tls_leave_the_address() {
        for (url, plain, mode) in [
            ("postgres://a/b", "postgres://a/b", TlsMode::Prefer),
            (
                "postgres://u:p?q@a/b?sslmode=require",
                "postgres://u:p?q@a/b",
                TlsMode::Require,
            ),
            (
                "postgres://a/b?sslmode=verify-full&sslrootcert=%2Fca%20file.pem&connect_timeout=3",
                "postgres://a/b?connect_timeout=3",
                TlsMode::VerifyFull,
            ),
            (
                "postgres://a,b/c?target_session_attrs=read-write&sslmode=disable",
                "postgres://a,b/c?target_session_attrs=read-write",
                TlsMode::Disable,
            ),
            (
                "postgres://a/b?sslrootcert=system",
                "postgres://a/b",
                TlsMode::VerifyFull,
            ),
            (
                "postgres://a/b?sslrootcert=%2Fca.pem",
                "postgres://a/b",
                TlsMode::Prefer,
            ),
        ] {
            let (found, tls) = TlsParameters::split(url).unwrap();
            assert_eq!((found.as_str(), tls.mode), (plain, mode), "{url}");
        }
        let (_, tls) =
            TlsParameters::split("postgres://a/b?sslmode=verify-ca&sslrootcert=%2Fca%20file.pem")
                .unwrap();
        assert_eq!(tls.roots.as_deref(), Some("/ca file.pem"));
    }

    #[test]
    fn unusable_parameters_are_named() {
        for (parameters, named) in [
            ("sslmode=verify", "sslmode"),
            ("sslmode=allow", "sslmode"),
            ("sslcert=/a", "sslkey"),
            ("sslmode=require&sslrootcert=system", "verify-full"),
            ("sslrootcert=system&sslmode=prefer", "verify-full"),
        ] {
            let error = TlsParameters::split(&format!("postgres://a/b?{parameters}")).unwrap_err();
            assert!(error.to_string().contains(named), "{error}");
        }
        for (parameters, named) in [
            ("sslmode=verify-full", "sslrootcert"),
            (
                "sslmode=verify-ca&sslrootcert=/nonexistent/ca",
                "/nonexistent/ca",
            ),
            (
                "sslmode=require&sslrootcert=/nonexistent/ca",
                "/nonexistent/ca",
            ),
        ] {
            let (_, tls) = TlsParameters::split(&format!("postgres://a/b?{parameters}")).unwrap();
            let error = tls.connector(None).err().unwrap();
            assert!(error.to_string().contains(named), "{error}");
        }
        let (_, plain) = TlsParameters::split("postgres://a/b?sslmode=disable").unwrap();
        assert!(plain.connector(None).unwrap().is_none());
        let (_, usual) = TlsParameters::split("postgres://a/b?sslmode=require").unwrap();
        assert!(usual.connector(None).unwrap().is_some());
    }
}
