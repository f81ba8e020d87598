//! Reads the address of a model server: where calls go, and whether the host is private, so that it
//! may get the internal key.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use http::Uri;

/// Why an address cannot be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum InvalidAddress {
    #[error("is not a valid address")]
    Malformed,
    #[error("must start with http:// or https://")]
    Scheme,
    #[error("must name a host")]
    NoHost,
    #[error("must not hold a user name or password")]
    Credentials,
    #[error("must not have a query")]
    Query,
}

/// The address for chat completions. `base` may end in `/` or `/v1`.
pub(crate) fn completions_uri(base: &str) -> Result<Uri, InvalidAddress> {
    let base = base.trim();
    let uri: Uri = base.parse().map_err(|_| InvalidAddress::Malformed)?;
    if !matches!(uri.scheme_str(), Some("http" | "https")) {
        return Err(InvalidAddress::Scheme);
    }
    let authority = uri.authority().ok_or(InvalidAddress::NoHost)?;
    if authority.as_str().contains('@') {
        return Err(InvalidAddress::Credentials);
    }
    if uri.host().is_none_or(str::is_empty) {
        return Err(InvalidAddress::NoHost);
    }
    if uri.query().is_some() || base.contains('#') {
        return Err(InvalidAddress::Query);
    }
    let base = base.trim_end_matches('/');
    let base = base
        .strip_suffix("/v1")
        .unwrap_or(base)
        .trim_end_matches('/');
    format!("{base}/v1/chat/completions")
        .parse()
        .map_err(|_| InvalidAddress::Malformed)
}

/// Whether the host is this machine or a private network: `localhost`, or a loopback or private IP
/// literal.
///
/// A name that resolves to such an address does not count, because a name can point anywhere.
/// Link-local addresses do not count either, because cloud metadata services use them.
pub fn is_private_address(url: &str) -> bool {
    let Ok(uri) = url.trim().parse::<Uri>() else {
        return false;
    };
    let Some(host) = uri.host() else { return false };
    let host = host
        .strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'))
        .unwrap_or(host);
    match host.parse::<IpAddr>() {
        Ok(IpAddr::V4(ip)) => is_private_v4(ip),
        Ok(IpAddr::V6(ip)) => ip
            .to_ipv4_mapped()
            .map_or_else(|| is_private_v6(ip), is_private_v4),
        Err(_) => host.eq_ignore_ascii_case("localhost"),
    }
}

fn is_private_v4(ip: Ipv4Addr) -> bool {
    ip.is_loopback() || ip.is_private()
}

fn is_private_v6(ip: Ipv6Addr) -> bool {
    ip.is_loopback() || ip.is_unique_local()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn completions_are_posted_below_v1() {
        for (base, wanted) in [
            ("http://a:1", "http://a:1/v1/chat/completions"),
            ("http://a:1/", "http://a:1/v1/chat/completions"),
            ("http://a:1/v1", "http://a:1/v1/chat/completions"),
            (" http://a:1/v1/ ", "http://a:1/v1/chat/completions"),
            (
                "https://a.b/openai/v1",
                "https://a.b/openai/v1/chat/completions",
            ),
            ("https://a.b/api//", "https://a.b/api/v1/chat/completions"),
        ] {
            assert_eq!(completions_uri(base).unwrap().to_string(), wanted, "{base}");
        }
    }

    #[test]
    fn unusable_addresses_are_named() {
        for (base, wanted) in [
            ("", InvalidAddress::Malformed),
            ("http://", InvalidAddress::Malformed),
            ("http://a b", InvalidAddress::Malformed),
            ("localhost:8080", InvalidAddress::Scheme),
            ("/v1", InvalidAddress::Scheme),
            ("ftp://a", InvalidAddress::Scheme),
            ("http://user:pass@a", InvalidAddress::Credentials),
            ("http://:80", InvalidAddress::NoHost),
            ("http://a/?key=1", InvalidAddress::Query),
            ("http://a/#x", InvalidAddress::Query),
        ] {
            assert_eq!(completions_uri(base), Err(wanted), "{base:?}");
        }
    }

    #[test]
    fn only_near_addresses_are_private() {
        for near in [
            "http://localhost:1",
            "http://LOCALHOST",
            "http://127.0.0.1:11434/v1",
            "http://127.9.9.9",
            "https://10.0.0.5",
            "http://172.16.0.1",
            "http://192.168.1.7:80/x",
            "http://[::1]:8080",
            "http://[fd00::1]",
            "http://[::ffff:10.0.0.1]",
        ] {
            assert!(is_private_address(near), "{near}");
        }
        for far in [
            "https://api.openai.com/v1",
            "http://127.0.0.1@evil.example",
            "http://127.0.0.1.evil.example",
            "http://localhost.evil.example",
            "http://evil.example/127.0.0.1",
            "http://172.32.0.1",
            "http://169.254.169.254",
            "http://8.8.8.8",
            "http://[2001:db8::1]",
            "http://[::ffff:8.8.8.8]",
            "http://2130706433",
            "http://llm-proxy:8000",
            "",
            "not an address",
        ] {
            assert!(!is_private_address(far), "{far}");
        }
    }
}
