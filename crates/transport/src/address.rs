//! The address of a server: which ones are accepted, and which hosts are private.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use http::Uri;

use crate::no_proxy::bare;

/// Why an address cannot be used. Never repeats it, because it may hold a password.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum InvalidAddress {
    #[error("is not a valid address")]
    Malformed,
    #[error("must start with http:// or https://")]
    Scheme,
    #[error("must name a host")]
    NoHost,
    #[error("must not hold a user name or password; write an @ in its path as %40")]
    Credentials,
    #[error("must not have a query or a fragment")]
    Query,
}

/// Reads the address of a server, `http://host[:port][/path]` or `https://…`. Requests go to paths
/// below it.
pub fn server_address(text: &str) -> Result<Uri, InvalidAddress> {
    let text = text.trim();
    // An @ behind a slash counts too: a password with a slash would turn its user into the host.
    if text.contains('@') {
        return Err(InvalidAddress::Credentials);
    }
    let uri: Uri = text.parse().map_err(|_| InvalidAddress::Malformed)?;
    if !matches!(uri.scheme_str(), Some("http" | "https")) {
        return Err(InvalidAddress::Scheme);
    }
    if uri.host().is_none_or(str::is_empty) {
        return Err(InvalidAddress::NoHost);
    }
    // `Uri` takes a port that is no number for none.
    if uri.port_u16().is_none() && uri.authority().is_some_and(|host| has_port(host.as_str())) {
        return Err(InvalidAddress::Malformed);
    }
    // `Uri` drops a fragment silently.
    if uri.query().is_some() || text.contains('#') {
        return Err(InvalidAddress::Query);
    }
    Ok(uri)
}

/// Whether something stands behind the host as its port.
fn has_port(authority: &str) -> bool {
    let behind_literal = authority.rfind(']').map_or(0, |end| end + 1);
    authority[behind_literal..].contains(':')
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
    let host = bare(host);
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
    use crate::{NetworkOptions, ProxySettings};

    #[test]
    fn addresses_of_servers_may_have_a_path() {
        for text in [
            "http://a",
            " https://a.test:1/b/ ",
            "http://[::1]:8080",
            "http://a/b%40c",
        ] {
            assert!(server_address(text).is_ok(), "{text}");
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
            ("http://user:1/pass@a", InvalidAddress::Credentials),
            ("http://user:pa ss@a", InvalidAddress::Credentials),
            ("http://:80", InvalidAddress::NoHost),
            ("http://a:99999/b", InvalidAddress::Malformed),
            ("http://[::1]:70000", InvalidAddress::Malformed),
            ("http://a/?key=1", InvalidAddress::Query),
            ("http://a/#x", InvalidAddress::Query),
        ] {
            assert_eq!(server_address(base).err(), Some(wanted), "{base:?}");
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
    #[test]
    fn a_private_address_behind_a_readable_proxy_is_not_private() {
        let network = |variables: &'static [(&str, &str)]| NetworkOptions {
            proxies: ProxySettings::read(|name| {
                let found = variables.iter().find(|(set, _)| *set == name)?;
                Some(found.1.to_owned())
            }),
            ..NetworkOptions::default()
        };
        let direct = network(&[]);
        let proxied = network(&[
            ("HTTP_PROXY", "http://proxy.test:3128"),
            ("HTTPS_PROXY", "http://proxy.test:3128"),
        ]);
        let excepted = network(&[
            ("HTTP_PROXY", "http://proxy.test:3128"),
            ("NO_PROXY", "10.0.0.0/8"),
        ]);
        let unusable = network(&[("HTTP_PROXY", "socks5://proxy.test")]);
        for (network, url, expected) in [
            (&direct, "http://10.0.0.5:4000", true),
            (&direct, "http://model.test", false),
            (&direct, "https://model.test", false),
            (&proxied, "http://10.0.0.5:4000", false),
            (&proxied, " http://10.0.0.5:4000/v1 ", false),
            // A proxy sees only encrypted bytes.
            (&proxied, "https://10.0.0.5:4000", true),
            (&proxied, "HTTPS://10.0.0.5:4000", true),
            (&proxied, "HTTP://10.0.0.5:4000", false),
            (&proxied, "http://127.0.0.1:4000", true),
            (&proxied, "http://LOCALHOST:4000", true),
            (&proxied, "https://model.test", false),
            (&excepted, "http://10.0.0.5:4000", true),
            (&excepted, "http://192.168.1.7", false),
            (&unusable, "http://10.0.0.5:4000", false),
        ] {
            assert_eq!(network.keeps_private(url), expected, "{network:?} {url}");
        }
    }
}
