//! Makes connections: TCP, a proxy where one is set, and TLS for `https`.

use std::error::Error;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use http::Uri;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::connect::dns::GaiResolver;
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tower_service::Service;

use crate::error::{ConnectError, chain};
use crate::link::{Io, Link};
use crate::no_proxy::bare;
use crate::proxy::ProxyAddress;
use crate::reach::{AddressRule, NotPublic, RuledResolver};
use crate::tls::{CertificateProblemKind, certificate_problem};
use crate::tunnel::{self, NoTunnel};

const TCP_KEEPALIVE: Duration = Duration::from_secs(30);
const HTTPS_PORT: u16 = 443;
const HTTP_PORT: u16 = 80;

/// Connects to one server, directly or through one proxy.
#[derive(Clone)]
pub struct Connector {
    http: HttpConnector<RuledResolver>,
    /// For proxies, which no rule is about.
    unruled: HttpConnector<RuledResolver>,
    route: Arc<ConnectRoute>,
}

pub struct ConnectRoute {
    /// `None` where neither the server nor the proxy uses TLS.
    pub tls: Option<TlsConnector>,
    pub proxy: Option<NamedProxy>,
    /// The whole way: name resolution, TCP, the proxy's answer and TLS.
    pub connect_timeout: Duration,
    /// Where the server may be.
    pub rule: AddressRule,
}

pub struct NamedProxy {
    pub address: ProxyAddress,
    /// For error messages: the address, and the variable that named it.
    pub shown: String,
}

struct Target {
    is_tls: bool,
    host: String,
    port: u16,
}

impl Connector {
    pub fn new(route: ConnectRoute) -> Self {
        let connector = |rule| {
            let mut http = HttpConnector::new_with_resolver(RuledResolver {
                inner: GaiResolver::new(),
                rule,
            });
            http.set_nodelay(true);
            http.set_connect_timeout(Some(route.connect_timeout));
            http.set_keepalive(Some(TCP_KEEPALIVE));
            http
        };
        Self {
            http: connector(route.rule),
            unruled: connector(AddressRule::Any),
            route: Arc::new(route),
        }
    }

    async fn connect(self, target: Target) -> Result<Link, ConnectError> {
        let Some(proxy) = &self.route.proxy else {
            let forbidden = |reason| ConnectError::Forbidden {
                address: target.address(),
                reason,
            };
            let rule = self.route.rule;
            rule.check_host(&target.host).map_err(forbidden)?;
            let tcp = tcp(&self.http, &target.host, target.port).await;
            let tcp = tcp.map_err(|failure| match failure {
                NoTcp::Forbidden(reason) => forbidden(reason),
                NoTcp::Broken(reason) => ConnectError::Unreachable {
                    address: target.address(),
                    reason,
                },
            })?;
            return Ok(Link {
                io: self.secured(tcp, &target).await?,
                is_forwarded: false,
            });
        };
        let unreachable = |reason| ConnectError::Proxy {
            proxy: proxy.shown.clone(),
            reason,
        };
        self.check_behind_proxy(&target).await?;
        let tcp = tcp(&self.unruled, &proxy.address.host, proxy.address.port).await;
        let tcp = tcp.map_err(|failure| unreachable(failure.to_string()))?;
        let mut io: Box<dyn Io> = Box::new(tcp);
        if proxy.address.is_tls {
            io = self.tls(io, &proxy.address.host, &proxy.shown).await?;
        }
        if !target.is_tls {
            return Ok(Link {
                io,
                is_forwarded: true,
            });
        }
        let address = target.address();
        tunnel::open(&mut io, &address, proxy.address.authorization.as_ref())
            .await
            .map_err(|failure| match failure {
                NoTunnel::Refused(407) => ConnectError::ProxyCredentials {
                    proxy: proxy.shown.clone(),
                },
                NoTunnel::Refused(status) => ConnectError::ProxyRefused {
                    proxy: proxy.shown.clone(),
                    address,
                    status,
                },
                NoTunnel::Broken(reason) => unreachable(reason),
            })?;
        Ok(Link {
            io: self.secured(io, &target).await?,
            is_forwarded: false,
        })
    }

    /// What this machine can know of a server that a proxy connects to. A name that only the proxy
    /// can resolve is left to it.
    async fn check_behind_proxy(&self, target: &Target) -> Result<(), ConnectError> {
        let rule = self.route.rule;
        if rule == AddressRule::Any {
            return Ok(());
        }
        let forbidden = |reason| ConnectError::Forbidden {
            address: target.address(),
            reason,
        };
        rule.check_host(&target.host).map_err(forbidden)?;
        let found = tokio::net::lookup_host((target.host.as_str(), target.port)).await;
        for address in found.into_iter().flatten() {
            rule.check(address.ip()).map_err(forbidden)?;
        }
        Ok(())
    }

    async fn secured(&self, io: impl Io, target: &Target) -> Result<Box<dyn Io>, ConnectError> {
        match target.is_tls {
            true => self.tls(io, &target.host, &target.address()).await,
            false => Ok(Box::new(io)),
        }
    }

    async fn tls(
        &self,
        io: impl Io,
        host: &str,
        address: &str,
    ) -> Result<Box<dyn Io>, ConnectError> {
        let failed = |reason: String| ConnectError::Tls {
            address: address.to_owned(),
            reason,
        };
        let connector = self.route.tls.as_ref();
        let connector = connector.ok_or_else(|| failed("TLS is not configured".to_owned()))?;
        let name = ServerName::try_from(host.to_owned())
            .map_err(|_| failed("the host is not a name that a certificate can have".to_owned()))?;
        match connector.connect(name, io).await {
            Ok(stream) => Ok(Box::new(stream)),
            Err(error) => Err(match certificate_problem(&error) {
                Some(problem) => ConnectError::Certificate {
                    host: host.to_owned(),
                    reason: problem.reason,
                    advice: advice(problem.kind),
                },
                None => failed(error.to_string()),
            }),
        }
    }
}

/// Why there is no TCP connection.
#[derive(Debug, thiserror::Error)]
enum NoTcp {
    #[error("{0}")]
    Forbidden(NotPublic),
    #[error("{0}")]
    Broken(String),
}

async fn tcp(
    http: &HttpConnector<RuledResolver>,
    host: &str,
    port: u16,
) -> Result<TcpStream, NoTcp> {
    let uri = Uri::builder()
        .scheme("http")
        .authority(joined(host, port))
        .path_and_query("/")
        .build()
        .map_err(|error| NoTcp::Broken(error.to_string()))?;
    let mut http = http.clone();
    match http.call(uri).await {
        Ok(io) => Ok(io.into_inner()),
        Err(error) => Err(match not_public(&error) {
            Some(reason) => NoTcp::Forbidden(reason),
            None => {
                let text = chain(&error);
                let shown = text.strip_prefix("tcp connect error: ").unwrap_or(&text);
                NoTcp::Broken(shown.to_owned())
            }
        }),
    }
}

/// The resolver's refusal, which an `io::Error` holds inside itself.
fn not_public(error: &(dyn Error + 'static)) -> Option<NotPublic> {
    let mut cause = Some(error);
    while let Some(inner) = cause {
        let held = inner
            .downcast_ref::<io::Error>()
            .and_then(io::Error::get_ref);
        if let Some(found) = held.and_then(|held| held.downcast_ref::<NotPublic>()) {
            return Some(found.clone());
        }
        cause = inner.source();
    }
    None
}

fn advice(kind: CertificateProblemKind) -> &'static str {
    match kind {
        CertificateProblemKind::UnknownIssuer => {
            "if you trust its issuer, pass the issuer's certificate with --ca-file FILE, \
             CODELAB_CA_FILE or the setting http.ca_file"
        }
        CertificateProblemKind::WrongName => "use an address with a name that it is for",
        CertificateProblemKind::Invalid => {
            "ask whoever runs that server, and check this machine's clock"
        }
    }
}

impl Target {
    fn of(uri: &Uri) -> Self {
        let is_tls = uri.scheme_str() == Some("https");
        let usual = if is_tls { HTTPS_PORT } else { HTTP_PORT };
        Self {
            is_tls,
            host: bare(uri.host().unwrap_or_default()).to_owned(),
            port: uri.port_u16().unwrap_or(usual),
        }
    }

    fn address(&self) -> String {
        joined(&self.host, self.port)
    }
}

fn joined(host: &str, port: u16) -> String {
    match host.contains(':') {
        true => format!("[{host}]:{port}"),
        false => format!("{host}:{port}"),
    }
}

impl Service<Uri> for Connector {
    type Response = TokioIo<Link>;
    type Error = ConnectError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, ConnectError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), ConnectError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let connector = self.clone();
        Box::pin(async move {
            let target = Target::of(&uri);
            let address = target.address();
            let after = connector.route.connect_timeout;
            match tokio::time::timeout(after, connector.connect(target)).await {
                Ok(connected) => connected.map(TokioIo::new),
                Err(_) => Err(ConnectError::Timeout { address, after }),
            }
        })
    }
}
