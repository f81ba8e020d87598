//! The `NO_PROXY` list: hosts that are reached directly.

use std::net::IpAddr;
use std::str::FromStr;

use ipnet::IpNet;

/// The rules of a `NO_PROXY` list, as curl reads them, and with ports as Go reads them.
///
/// Entries are separated by commas or spaces. `*` matches every host. A name matches itself and its
/// subdomains, with or without a leading dot (`.example.com`) or `*.`. An IP address matches
/// itself, and `10.0.0.0/8` matches a network. `name:port` matches only that port. Host names are
/// never resolved for this, so a network matches only addresses that are written as numbers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NoProxy(Vec<Rule>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Rule {
    Everything,
    Network(IpNet),
    Host { name: HostRule, port: Option<u16> },
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum HostRule {
    Ip(IpAddr),
    /// Lower case, without a leading or trailing dot.
    Domain(String),
}

impl NoProxy {
    /// Entries that cannot be read are domain names that match nothing.
    pub fn parse(list: &str) -> Self {
        let entries = list.split([',', ' ', '\t']).map(str::trim);
        Self(
            entries
                .filter(|entry| !entry.is_empty())
                .map(Rule::parse)
                .collect(),
        )
    }

    /// `host` as it stands in an address, IPv6 in brackets or not.
    pub fn contains(&self, host: &str, port: u16) -> bool {
        let host = bare(host).to_lowercase();
        let ip = IpAddr::from_str(&host).ok().map(|ip| ip.to_canonical());
        self.0.iter().any(|rule| match rule {
            Rule::Everything => true,
            Rule::Network(network) => ip.is_some_and(|ip| network.contains(&ip)),
            Rule::Host { name, port: only } => {
                only.is_none_or(|only| only == port) && name.matches(&host, ip)
            }
        })
    }
}

impl Rule {
    fn parse(entry: &str) -> Self {
        if entry == "*" {
            return Self::Everything;
        }
        if let Ok(network) = entry.parse::<IpNet>() {
            return Self::Network(network);
        }
        if let Ok(ip) = bare(entry).parse::<IpAddr>() {
            return Self::host(HostRule::Ip(ip.to_canonical()), None);
        }
        let (host, port) = match entry.rsplit_once(':') {
            Some((host, port)) => match port.parse() {
                Ok(port) => (host, Some(port)),
                Err(_) => (entry, None),
            },
            None => (entry, None),
        };
        if let Ok(ip) = bare(host).parse::<IpAddr>() {
            return Self::host(HostRule::Ip(ip.to_canonical()), port);
        }
        let name = host.strip_prefix('*').unwrap_or(host);
        let name = name.trim_matches('.').to_lowercase();
        Self::host(HostRule::Domain(name), port)
    }

    fn host(name: HostRule, port: Option<u16>) -> Self {
        Self::Host { name, port }
    }
}

impl HostRule {
    fn matches(&self, host: &str, ip: Option<IpAddr>) -> bool {
        match self {
            Self::Ip(rule) => ip == Some(*rule),
            Self::Domain(domain) => {
                let host = host.trim_end_matches('.');
                !domain.is_empty()
                    && host
                        .strip_suffix(domain.as_str())
                        .is_some_and(|above| above.is_empty() || above.ends_with('.'))
            }
        }
    }
}

/// An IPv6 address without its brackets.
pub(crate) fn bare(host: &str) -> &str {
    host.strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'))
        .unwrap_or(host)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_match_hosts_suffixes_ports_and_networks() {
        for (list, host, port, expected) in [
            ("", "example.com", 443, false),
            ("*", "example.com", 443, true),
            ("example.com", "example.com", 443, true),
            ("example.com", "EXAMPLE.com.", 443, true),
            ("Example.COM", "api.example.com", 443, true),
            (".example.com", "example.com", 443, true),
            ("*.example.com", "api.example.com", 443, true),
            ("example.com", "notexample.com", 443, false),
            ("example.com", "example.com.evil.test", 443, false),
            ("a.test, b.test", "b.test", 80, true),
            ("a.test b.test", "b.test", 80, true),
            ("example.com:8443", "example.com", 8443, true),
            ("example.com:8443", "example.com", 443, false),
            (".example.com:8443", "api.example.com", 8443, true),
            ("10.0.0.5", "10.0.0.5", 80, true),
            ("10.0.0.5", "10.0.0.50", 80, false),
            ("10.0.0.5:80", "10.0.0.5", 81, false),
            ("10.0.0.0/8", "10.200.3.4", 80, true),
            ("10.0.0.0/8", "11.0.0.1", 80, false),
            ("10.0.0.0/8", "ten.example", 80, false),
            ("10.0.0.0/8", "[::ffff:10.0.0.1]", 80, true),
            ("fd00::/8", "[fd12::1]", 443, true),
            ("[fd12::1]", "fd12::1", 443, true),
            ("fd12::1", "[fd12::1]", 443, true),
            ("[fd12::1]:8080", "[fd12::1]", 8080, true),
            ("[fd12::1]:8080", "[fd12::1]", 443, false),
            (".", "example.com", 443, false),
            (",, ,", "example.com", 443, false),
        ] {
            let found = NoProxy::parse(list).contains(host, port);
            assert_eq!(found, expected, "{list:?} with {host}:{port}");
        }
    }
}
