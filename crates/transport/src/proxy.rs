//! Which proxy a connection goes through, from `HTTPS_PROXY`, `HTTP_PROXY` and `NO_PROXY`.

use std::fmt;
use std::net::IpAddr;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use http::{HeaderValue, Uri};
use percent_encoding::percent_decode_str;

use crate::error::TransportConfigError;
use crate::no_proxy::{NoProxy, bare};

/// The proxies of both schemes, and which hosts need none.
///
/// Loopback addresses and `localhost` are always reached directly. curl would ask the proxy for
/// them unless `NO_PROXY` names them. A proxy cannot reach this machine's loopback, and it would
/// see the token of the local server.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct ProxySettings {
    https: Option<ProxyVariable>,
    http: Option<ProxyVariable>,
    no_proxy: NoProxy,
}

#[derive(Clone, PartialEq, Eq)]
struct ProxyVariable {
    name: &'static str,
    proxy: Result<ProxyAddress, TransportConfigError>,
}

#[derive(Clone, PartialEq, Eq)]
pub(crate) struct ProxyAddress {
    /// Connections to the proxy itself use TLS.
    pub is_tls: bool,
    pub host: String,
    pub port: u16,
    /// The value of `Proxy-Authorization`.
    pub authorization: Option<HeaderValue>,
}

/// The proxy that is used for one address.
#[derive(Clone, Copy)]
pub struct ProxyChoice<'a> {
    /// The variable that named it.
    pub variable: &'static str,
    pub(crate) proxy: &'a ProxyAddress,
}

impl ProxySettings {
    /// Reads the variables through `lookup`. The lower-case name wins, as it does for curl. An
    /// empty variable counts as not set.
    pub fn read(lookup: impl Fn(&str) -> Option<String>) -> Self {
        let first = |names: [&'static str; 2]| {
            names.into_iter().find_map(|name| {
                let value = lookup(name).filter(|value| !value.trim().is_empty())?;
                Some((name, value))
            })
        };
        let proxy = |names| {
            let (name, value) = first(names)?;
            Some(ProxyVariable {
                name,
                proxy: ProxyAddress::parse(name, value.trim()),
            })
        };
        Self {
            https: proxy(["https_proxy", "HTTPS_PROXY"]),
            http: proxy(["http_proxy", "HTTP_PROXY"]),
            no_proxy: first(["no_proxy", "NO_PROXY"])
                .map(|(_, list)| NoProxy::parse(&list))
                .unwrap_or_default(),
        }
    }

    /// The proxy for an address, or `None` if it is reached directly. An unusable proxy address is
    /// an error only for addresses that would need it.
    pub fn choose(&self, uri: &Uri) -> Result<Option<ProxyChoice<'_>>, TransportConfigError> {
        let (variable, usual_port) = match uri.scheme_str() {
            Some("https") => (&self.https, 443),
            _ => (&self.http, 80),
        };
        let (Some(variable), Some(host)) = (variable, uri.host()) else {
            return Ok(None);
        };
        let port = uri.port_u16().unwrap_or(usual_port);
        if is_loopback(host) || self.no_proxy.contains(host, port) {
            return Ok(None);
        }
        match &variable.proxy {
            Ok(proxy) => Ok(Some(ProxyChoice {
                variable: variable.name,
                proxy,
            })),
            Err(error) => Err(error.clone()),
        }
    }
}

impl ProxyAddress {
    fn parse(variable: &'static str, text: &str) -> Result<Self, TransportConfigError> {
        // The text may hold a password, so no error repeats it.
        let refused = |reason| TransportConfigError::Proxy { variable, reason };
        let (scheme, rest) = text.split_once("://").unwrap_or(("http", text));
        let is_tls = match scheme.to_ascii_lowercase().as_str() {
            "http" => false,
            "https" => true,
            _ => return Err(refused("only http:// and https:// proxies are supported")),
        };
        let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
        // The authority ended inside the password, so its host would be the user name.
        if rest[authority.len()..].contains('@') {
            return Err(refused(
                "its password holds one of / ? #: percent-encode the password",
            ));
        }
        let (user, address) = match authority.rsplit_once('@') {
            Some((user, address)) => (Some(user), address),
            None => (None, authority),
        };
        let uri: Uri = format!("http://{address}/")
            .parse()
            .map_err(|_| refused("it must have the form http://user:password@host:port"))?;
        let host = uri
            .host()
            .filter(|host| !host.is_empty())
            .ok_or_else(|| refused("it names no host"))?;
        let has_bad_port = address
            .rsplit_once(':')
            .is_some_and(|(_, port)| !port.contains(']') && port.parse::<u16>().is_err());
        if has_bad_port {
            return Err(refused("its port is not a number"));
        }
        Ok(Self {
            is_tls,
            host: bare(host).to_owned(),
            port: uri.port_u16().unwrap_or(if is_tls { 443 } else { 80 }),
            authorization: user
                .map(|user| {
                    basic(user)
                        .ok_or_else(|| refused("its user name or password is not valid UTF-8"))
                })
                .transpose()?,
        })
    }
}

impl fmt::Display for ProxyAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.host.contains(':') {
            true => write!(f, "[{}]:{}", self.host, self.port),
            false => write!(f, "{}:{}", self.host, self.port),
        }
    }
}

impl fmt::Display for ProxyChoice<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.proxy, self.variable)
    }
}

/// Never shows a user name or password.
impl fmt::Debug for ProxySettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = |variable: &Option<ProxyVariable>| {
            let variable = variable.as_ref()?;
            let address = variable.proxy.as_ref().ok()?;
            Some(format!("{}={address}", variable.name))
        };
        f.debug_struct("ProxySettings")
            .field("https", &shown(&self.https))
            .field("http", &shown(&self.http))
            .field("no_proxy", &self.no_proxy)
            .finish()
    }
}

/// The header value for `user:password`, both percent-encoded.
fn basic(user: &str) -> Option<HeaderValue> {
    let (name, password) = user.split_once(':').unwrap_or((user, ""));
    let plain = |text| percent_decode_str(text).decode_utf8().ok();
    let pair = format!("{}:{}", plain(name)?, plain(password)?);
    let encoded = BASE64_STANDARD.encode(pair);
    let mut value = HeaderValue::try_from(format!("Basic {encoded}")).ok()?;
    value.set_sensitive(true);
    Some(value)
}

fn is_loopback(host: &str) -> bool {
    let host = bare(host).trim_end_matches('.');
    match host.parse::<IpAddr>() {
        Ok(ip) => ip.to_canonical().is_loopback(),
        Err(_) => {
            let host = host.to_ascii_lowercase();
            host == "localhost" || host.ends_with(".localhost")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(variables: &[(&str, &str)]) -> ProxySettings {
        ProxySettings::read(|name| {
            let found = variables.iter().find(|(set, _)| *set == name)?;
            Some(found.1.to_owned())
        })
    }

    fn chosen(settings: &ProxySettings, uri: &str) -> Option<String> {
        let choice = settings.choose(&uri.parse().unwrap()).unwrap();
        choice.map(|choice| choice.to_string())
    }

    #[test]
    fn each_scheme_has_its_proxy_and_loopback_has_none() {
        let both = settings(&[
            ("HTTPS_PROXY", "http://secure.test:3128"),
            ("http_proxy", "plain.test:8080"),
            ("HTTP_PROXY", "http://shadowed.test"),
            ("NO_PROXY", "direct.test,10.0.0.0/8"),
        ]);
        for (uri, expected) in [
            ("https://a.test/v1", Some("secure.test:3128 (HTTPS_PROXY)")),
            ("http://a.test/v1", Some("plain.test:8080 (http_proxy)")),
            ("https://direct.test", None),
            ("https://x.direct.test", None),
            ("http://10.1.2.3:6333", None),
            ("http://localhost:8080", None),
            ("https://model.localhost", None),
            ("http://127.0.0.1:8080", None),
            ("http://[::1]:8080", None),
        ] {
            assert_eq!(chosen(&both, uri).as_deref(), expected, "{uri}");
        }
        let none = settings(&[("HTTPS_PROXY", ""), ("https_proxy", " ")]);
        assert_eq!(chosen(&none, "https://a.test"), None);
    }

    #[test]
    fn an_empty_variable_counts_as_not_set() {
        let given = settings(&[
            ("https_proxy", ""),
            ("HTTPS_PROXY", "http://secure.test:3128"),
            ("http_proxy", " "),
            ("HTTP_PROXY", "http://plain.test:3128"),
            ("no_proxy", ""),
            ("NO_PROXY", "direct.test"),
        ]);
        for (uri, expected) in [
            ("https://a.test", Some("secure.test:3128 (HTTPS_PROXY)")),
            ("http://a.test", Some("plain.test:3128 (HTTP_PROXY)")),
            ("https://direct.test", None),
        ] {
            assert_eq!(chosen(&given, uri).as_deref(), expected, "{uri}");
        }
    }

    #[test]
    fn a_password_never_becomes_a_host() {
        for bad in [
            "http://user:1/canary@proxy.test:3128",
            "http://user:1?canary@proxy.test:3128",
            "http://user:1#canary@proxy.test:3128",
            "user/canary@proxy.test:3128",
        ] {
            let given = settings(&[("HTTP_PROXY", bad)]);
            let error = match given.choose(&"http://a.test".parse().unwrap()) {
                Ok(choice) => panic!("{bad} became {}", choice.unwrap()),
                Err(error) => error.to_string(),
            };
            assert!(error.contains("percent-encode the password"), "{error}");
            assert!(!error.contains("canary"), "{error}");
        }
    }

    #[test]
    fn credentials_are_decoded_and_never_shown() {
        let given = settings(&[("HTTPS_PROXY", "http://us%40er:can%3Aary@proxy.test:3128/")]);
        let uri: Uri = "https://a.test".parse().unwrap();
        let choice = given.choose(&uri).unwrap().unwrap();
        let expected = format!("Basic {}", BASE64_STANDARD.encode("us@er:can:ary"));
        assert_eq!(
            choice.proxy.authorization.as_ref().unwrap(),
            expected.as_str()
        );
        let shown = format!("{given:?} {choice} {:?}", choice.proxy.authorization);
        assert!(
            !shown.contains("ary") && !shown.contains("Basic"),
            "{shown}"
        );
        assert!(shown.contains("proxy.test:3128"), "{shown}");
    }

    #[test]
    fn an_unusable_proxy_is_an_error_only_where_it_is_needed() {
        for bad in [
            "socks5://canary@proxy.test",
            "http://",
            "http://ca nary@x:y",
        ] {
            let given = settings(&[("HTTPS_PROXY", bad)]);
            let choose = |uri: &str| given.choose(&uri.parse().unwrap()).map(|_| ());
            let error = choose("https://a.test").unwrap_err().to_string();
            assert!(error.starts_with("HTTPS_PROXY "), "{error}");
            assert!(!error.contains("nary"), "{error}");
            assert_eq!(choose("http://a.test"), Ok(()));
            assert_eq!(choose("https://localhost"), Ok(()));
        }
    }
}
