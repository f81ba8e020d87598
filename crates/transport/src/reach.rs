//! Which addresses a connection may go to. Some servers are named by people who must not reach into
//! the network that this program runs in.

use std::future::Future;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::vec;

use hyper_util::client::legacy::connect::dns::{GaiResolver, Name};
use tower_service::Service;

/// Where connections of one client may go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AddressRule {
    Any,
    /// Only addresses of the public internet. A name counts by all addresses that it resolves to,
    /// and the connection goes to one of those that were checked.
    PublicOnly,
}

/// The address is not one of the public internet.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("it is an address of this machine or of a private network")]
pub struct NotPublic;

impl AddressRule {
    /// What can be said of a host before it is resolved: literals, and names of this machine.
    pub fn check_host(self, host: &str) -> Result<(), NotPublic> {
        if self == Self::Any {
            return Ok(());
        }
        if let Ok(ip) = host.parse::<IpAddr>() {
            return self.check(ip);
        }
        let name = host.trim_end_matches('.').to_ascii_lowercase();
        match name == "localhost" || name.ends_with(".localhost") {
            true => Err(NotPublic),
            false => Ok(()),
        }
    }

    pub fn check(self, ip: IpAddr) -> Result<(), NotPublic> {
        match self {
            Self::Any => Ok(()),
            Self::PublicOnly if is_public(ip) => Ok(()),
            Self::PublicOnly => Err(NotPublic),
        }
    }
}

/// Whether an address belongs to the public internet. An IPv6 address that stands for an IPv4
/// address counts as that one.
pub fn is_public(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => is_public_v4(ip),
        IpAddr::V6(ip) => match embedded_v4(ip) {
            Some(inner) => is_public_v4(inner),
            None => is_public_v6(ip),
        },
    }
}

fn is_public_v4(ip: Ipv4Addr) -> bool {
    let [a, b, c, _] = ip.octets();
    let is_shared = a == 100 && (64..128).contains(&b);
    let is_this_network = a == 0;
    let is_protocol = a == 192 && b == 0 && c == 0;
    // The relays of 6to4, which reach other networks.
    let is_relay = a == 192 && b == 88 && c == 99;
    let is_benchmark = a == 198 && (b == 18 || b == 19);
    // 240.0.0.0/4 is reserved; the broadcast address is its last.
    let is_reserved = a >= 240;
    !(ip.is_loopback()
        || ip.is_private()
        || ip.is_link_local()
        || ip.is_multicast()
        || ip.is_documentation()
        || is_shared
        || is_this_network
        || is_protocol
        || is_relay
        || is_benchmark
        || is_reserved)
}

/// Only 2000::/3 is given out to the public internet; loopback, link-local, unique local and
/// multicast addresses are outside of it.
fn is_public_v6(ip: Ipv6Addr) -> bool {
    let [first, second, ..] = ip.segments();
    let is_documentation = (first == 0x2001 && second == 0xdb8) || first == 0x3fff;
    // 2001::/23 is for protocols, Teredo among them, which hides an IPv4 address.
    let is_protocol = first == 0x2001 && second < 0x200;
    first & 0xe000 == 0x2000 && !is_documentation && !is_protocol
}

/// The IPv4 address in a mapped (`::ffff:a.b.c.d`), compatible (`::a.b.c.d`), translated (RFC
/// 2765, NAT64) or 6to4 address.
fn embedded_v4(ip: Ipv6Addr) -> Option<Ipv4Addr> {
    let segments = ip.segments();
    let octets = ip.octets();
    let tail = Ipv4Addr::new(octets[12], octets[13], octets[14], octets[15]);
    match segments {
        [0, 0, 0, 0, 0, 0xffff, ..] | [0, 0, 0, 0, 0xffff, 0, ..] => Some(tail),
        // `::` and `::1` are not public in any reading.
        [0, 0, 0, 0, 0, 0, ..] => Some(tail),
        [0x64, 0xff9b, 0, 0, 0, 0, ..] => Some(tail),
        [0x2002, ..] => Some(Ipv4Addr::new(octets[2], octets[3], octets[4], octets[5])),
        _ => None,
    }
}

/// Resolves names, and refuses those that lead to an address outside of the rule.
#[derive(Clone)]
pub struct RuledResolver<R = GaiResolver> {
    pub inner: R,
    pub rule: AddressRule,
}

impl<R> Service<Name> for RuledResolver<R>
where
    R: Service<Name, Error = io::Error>,
    R::Response: Iterator<Item = SocketAddr>,
    R::Future: Send + 'static,
{
    type Response = vec::IntoIter<SocketAddr>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Self::Response>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, name: Name) -> Self::Future {
        let rule = self.rule;
        let named = rule.check_host(name.as_str());
        let found = self.inner.call(name);
        Box::pin(async move {
            named.map_err(io::Error::other)?;
            let addresses: Vec<SocketAddr> = found.await?.collect();
            for address in &addresses {
                rule.check(address.ip()).map_err(io::Error::other)?;
            }
            Ok(addresses.into_iter())
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use hyper_util::client::legacy::connect::HttpConnector;
    use tokio::net::TcpListener;

    use super::*;

    /// A name server that gives another answer each time, as those do that want to get past a check.
    #[derive(Clone)]
    struct Rebinding {
        asked: Arc<AtomicUsize>,
        answers: Vec<Vec<SocketAddr>>,
    }

    impl Service<Name> for Rebinding {
        type Response = vec::IntoIter<SocketAddr>;
        type Error = io::Error;
        type Future = std::future::Ready<io::Result<Self::Response>>;

        fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }

        fn call(&mut self, _: Name) -> Self::Future {
            let asked = self.asked.fetch_add(1, Ordering::Relaxed);
            std::future::ready(Ok(self.answers[asked].clone().into_iter()))
        }
    }

    #[tokio::test]
    async fn a_name_is_resolved_once_and_the_connection_goes_to_what_was_checked() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let inside = listener.local_addr().unwrap();
        let public: SocketAddr = "8.8.8.8:9".parse().unwrap();
        let asked = Arc::new(AtomicUsize::new(0));
        let connector = |rule, answers| {
            asked.store(0, Ordering::Relaxed);
            let inner = Rebinding {
                asked: asked.clone(),
                answers,
            };
            HttpConnector::new_with_resolver(RuledResolver { inner, rule })
        };
        let uri: http::Uri = format!("http://name.test:{}/", inside.port())
            .parse()
            .unwrap();

        let mut unruled = connector(AddressRule::Any, vec![vec![inside], vec![public]]);
        let connection = unruled.call(uri.clone()).await.unwrap();
        assert_eq!(connection.inner().peer_addr().unwrap(), inside);
        assert_eq!(asked.load(Ordering::Relaxed), 1);

        // One address inside is enough, wherever it stands.
        for answer in [vec![inside], vec![public, inside], vec![inside, public]] {
            let mut ruled = connector(AddressRule::PublicOnly, vec![answer]);
            assert!(ruled.call(uri.clone()).await.is_err());
            assert_eq!(asked.load(Ordering::Relaxed), 1);
        }
    }

    #[test]
    fn only_the_public_internet_is_public() {
        for inside in [
            "127.0.0.1",
            "127.255.255.254",
            "0.0.0.0",
            "0.1.2.3",
            "10.0.0.1",
            "10.255.255.255",
            "172.16.0.1",
            "172.31.255.255",
            "192.168.0.1",
            "169.254.169.254",
            "100.64.0.1",
            "100.127.255.255",
            "192.0.0.1",
            "192.0.2.1",
            "192.88.99.1",
            "198.18.0.1",
            "198.19.255.255",
            "198.51.100.1",
            "203.0.113.1",
            "224.0.0.1",
            "239.255.255.255",
            "240.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "::127.0.0.1",
            "::ffff:127.0.0.1",
            "::ffff:10.0.0.1",
            "::ffff:169.254.169.254",
            "::ffff:0:127.0.0.1",
            "64:ff9b::127.0.0.1",
            "64:ff9b::a9fe:a9fe",
            "64:ff9b:1::1",
            "2002:7f00:1::",
            "2002:a00:1::1",
            "2002:c0a8:1::",
            "2001::1",
            "2001:db8::1",
            "3fff::1",
            "fe80::1",
            "fec0::1",
            "fc00::1",
            "fd00:ec2::254",
            "ff02::1",
            "100::1",
            "5f00::1",
        ] {
            assert!(!is_public(inside.parse().unwrap()), "{inside}");
        }
        for outside in [
            "1.1.1.1",
            "8.8.8.8",
            "100.63.255.255",
            "100.128.0.1",
            "172.15.0.1",
            "172.32.0.1",
            "192.169.0.1",
            "223.255.255.255",
            "2606:4700::1111",
            "2a00:1450::1",
            "::ffff:8.8.8.8",
            "64:ff9b::8.8.8.8",
            "2002:808:808::1",
        ] {
            assert!(is_public(outside.parse().unwrap()), "{outside}");
        }
    }

    #[test]
    fn names_of_this_machine_are_known_without_asking() {
        let rule = AddressRule::PublicOnly;
        for inside in [
            "localhost",
            "LocalHost",
            "localhost.",
            "a.localhost",
            "127.0.0.1",
            "::1",
        ] {
            assert_eq!(rule.check_host(inside), Err(NotPublic), "{inside}");
            assert_eq!(AddressRule::Any.check_host(inside), Ok(()));
        }
        for outside in ["example.com", "localhost.example.com", "8.8.8.8"] {
            assert_eq!(rule.check_host(outside), Ok(()), "{outside}");
        }
    }
}
