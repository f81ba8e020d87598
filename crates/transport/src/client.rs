//! Requests to one server over connections that are used again.

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::header::{LOCATION, PROXY_AUTHORIZATION};
use http::{HeaderMap, HeaderValue, Request, Response, StatusCode, Uri};
use http_body_util::{BodyExt, Full};
use hyper::body::{Body, Incoming};
use hyper_util::client::legacy::Client as Pool;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use tokio::time::{Instant, timeout, timeout_at};
use tokio_rustls::TlsConnector;

use crate::connect::{ConnectRoute, Connector, NamedProxy};
use crate::error::chain;
use crate::{AddressRule, NetworkOptions, TransportConfigError, TransportError, tls};

/// How long, and for how many bytes, the rest of a finished answer is read, so that its connection
/// can be used again.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(1);
const MAX_DRAIN_BYTES: usize = 64 * 1024;
/// A host in an error message.
const MAX_SHOWN_HOST_CHARS: usize = 200;

/// Bounds of one [`HttpClient`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HttpLimits {
    /// Name resolution, TCP, proxy and TLS together.
    pub connect_timeout: Duration,
    /// Unused connections that are kept open.
    pub idle_connections: usize,
    /// How long they are kept. Should be shorter than the server's own limit, so that a request
    /// seldom meets a connection that is just being closed.
    pub idle_connection_timeout: Duration,
}

/// Sends requests to one server. Knows HTTP/1.1 only, and follows no redirect. `B` is the body of
/// its requests: bytes, or a stream.
pub struct HttpClient<B = Full<Bytes>> {
    pool: Pool<Connector, B>,
    /// What a proxy wants to see in each request that it forwards.
    proxy_authorization: Option<HeaderValue>,
}

impl HttpClient {
    /// `server` decides about proxy and TLS: all requests must have its scheme and host.
    pub fn new(
        server: &Uri,
        network: &NetworkOptions,
        limits: HttpLimits,
    ) -> Result<Self, TransportConfigError> {
        Self::streaming(server, network, limits)
    }

    /// Like [`HttpClient::new`], with a rule on the addresses that may be reached. It holds for
    /// the server; a proxy is the choice of whoever runs this program.
    pub fn ruled(
        server: &Uri,
        network: &NetworkOptions,
        limits: HttpLimits,
        rule: AddressRule,
    ) -> Result<Self, TransportConfigError> {
        Self::build(server, network, limits, rule)
    }

    /// Sends the request and reads the whole answer, in `limit` altogether.
    pub async fn fetch(
        &self,
        request: Request<Full<Bytes>>,
        limit: Duration,
        max_bytes: usize,
    ) -> Result<Response<Bytes>, TransportError> {
        within(limit, async {
            read_whole(self.send(request).await?, max_bytes).await
        })
        .await
    }
}

impl<B> HttpClient<B>
where
    B: Body + Send + Unpin + 'static,
    B::Data: Send,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    /// Like [`HttpClient::new`], for requests whose bodies are streams. Such a body is read piece
    /// by piece, as fast as the server takes it, and the answer can come before its end.
    pub fn streaming(
        server: &Uri,
        network: &NetworkOptions,
        limits: HttpLimits,
    ) -> Result<Self, TransportConfigError> {
        Self::build(server, network, limits, AddressRule::Any)
    }

    fn build(
        server: &Uri,
        network: &NetworkOptions,
        limits: HttpLimits,
        rule: AddressRule,
    ) -> Result<Self, TransportConfigError> {
        let is_https = server.scheme_str() == Some("https");
        let proxy = network.proxies.choose(server)?.map(|choice| NamedProxy {
            address: choice.proxy.clone(),
            shown: choice.to_string(),
        });
        // Certificates are read only where TLS is used: a machine without them can use plain HTTP.
        let needs_tls = is_https || proxy.as_ref().is_some_and(|proxy| proxy.address.is_tls);
        let tls = match needs_tls {
            true => Some(tls::client_config(network.ca_file.as_deref())?),
            false => None,
        };
        let forwarding = proxy.as_ref().filter(|_| !is_https);
        let proxy_authorization = forwarding.and_then(|proxy| proxy.address.authorization.clone());
        let connector = Connector::new(ConnectRoute {
            tls: tls.map(|config| TlsConnector::from(Arc::new(config))),
            proxy,
            connect_timeout: limits.connect_timeout,
            rule,
        });
        let pool = Pool::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(limits.idle_connection_timeout)
            .pool_max_idle_per_host(limits.idle_connections)
            .build(connector);
        Ok(Self {
            pool,
            proxy_authorization,
        })
    }

    /// Sends the request and waits for the head of the answer, of whatever status. Only connecting
    /// has a time limit here; callers bound the rest with [`within`] or a limit of their own.
    pub async fn send(
        &self,
        mut request: Request<B>,
    ) -> Result<Response<Incoming>, TransportError> {
        if let Some(value) = &self.proxy_authorization {
            request
                .headers_mut()
                .insert(PROXY_AUTHORIZATION, value.clone());
        }
        self.pool
            .request(request)
            .await
            .map_err(|error| TransportError::of_request(&error))
    }
}

/// The result of `work`, or a timeout after `limit`.
pub async fn within<T, E: From<TransportError>>(
    limit: Duration,
    work: impl Future<Output = Result<T, E>>,
) -> Result<T, E> {
    timeout(limit, work)
        .await
        .unwrap_or_else(|_| Err(TransportError::Timeout { after: limit }.into()))
}

/// The answer with its whole body, of at most `max_bytes`.
pub async fn read_whole(
    response: Response<Incoming>,
    max_bytes: usize,
) -> Result<Response<Bytes>, TransportError> {
    let (head, mut incoming) = response.into_parts();
    let mut body = BytesMut::new();
    while let Some(frame) = incoming.frame().await {
        let frame = frame.map_err(|error| TransportError::Cut(chain(&error)))?;
        let Ok(data) = frame.into_data() else {
            continue;
        };
        if body.len() + data.len() > max_bytes {
            return Err(TransportError::TooLarge { max_bytes });
        }
        body.extend_from_slice(&data);
    }
    Ok(Response::from_parts(head, body.freeze()))
}

/// Reads a body piece by piece. Fails when nothing arrives for too long.
pub struct BodyReader {
    body: Incoming,
    idle_timeout: Duration,
    last_heard: Instant,
}

impl BodyReader {
    pub fn new(body: Incoming, idle_timeout: Duration) -> Self {
        Self {
            body,
            idle_timeout,
            last_heard: Instant::now(),
        }
    }

    /// The next piece; `None` at the end. Dropping the future loses nothing.
    pub async fn next(&mut self) -> Result<Option<Bytes>, TransportError> {
        loop {
            let silent_at = self.last_heard + self.idle_timeout;
            match timeout_at(silent_at, self.body.frame()).await {
                Ok(Some(Ok(frame))) => {
                    self.last_heard = Instant::now();
                    if let Ok(data) = frame.into_data() {
                        return Ok(Some(data));
                    }
                }
                Ok(Some(Err(error))) => return Err(TransportError::Cut(chain(&error))),
                Ok(None) => return Ok(None),
                Err(_) => {
                    let after = self.idle_timeout;
                    return Err(TransportError::Timeout { after });
                }
            }
        }
    }

    /// Reads and drops the rest, for at most `limit`, so that the connection can be used again.
    pub async fn drain(&mut self, limit: Duration) {
        // A server that keeps the body open costs the connection, and not the caller's time.
        let _ = timeout(limit, drain(&mut self.body)).await;
    }
}

/// Lets the connection of a complete answer go back to the pool. The caller does not wait for it.
pub fn recycle(mut body: Incoming) {
    tokio::spawn(async move { timeout(DRAIN_TIMEOUT, drain(&mut body)).await });
}

async fn drain(body: &mut Incoming) {
    let mut drained = 0;
    while let Some(Ok(frame)) = body.frame().await {
        drained += frame.data_ref().map_or(0, Bytes::len);
        if drained > MAX_DRAIN_BYTES {
            return;
        }
    }
}

/// Where an answer redirects to: a host, or words for another path of the same server. `None` if
/// it does not redirect.
pub fn redirect_host(status: StatusCode, headers: &HeaderMap) -> Option<String> {
    if !matches!(status.as_u16(), 301 | 302 | 303 | 307 | 308) {
        return None;
    }
    let location = headers.get(LOCATION)?.to_str().ok()?;
    let absolute = match location.strip_prefix("//") {
        Some(rest) => format!("http://{rest}"),
        None => location.to_owned(),
    };
    let uri: Option<Uri> = absolute.parse().ok();
    let host = uri.as_ref().and_then(Uri::host).map(|host| {
        let port = uri.as_ref().and_then(Uri::port_u16);
        port.map_or(host.to_owned(), |port| format!("{host}:{port}"))
    });
    let shown = host.unwrap_or_else(|| "another path of the same server".to_owned());
    Some(shown.chars().take(MAX_SHOWN_HOST_CHARS).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_redirect_shows_its_host_and_never_credentials() {
        for (status, location, expected) in [
            (302, "https://user:canary@b.test/x?y", Some("b.test")),
            (308, "http://b.test:8080/", Some("b.test:8080")),
            (307, "//c.test/x", Some("c.test")),
            (301, "/login", Some("another path of the same server")),
            (200, "https://b.test/", None),
            (304, "https://b.test/", None),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(LOCATION, HeaderValue::from_static(location));
            let found = redirect_host(StatusCode::from_u16(status).unwrap(), &headers);
            assert_eq!(found.as_deref(), expected, "{status} {location}");
        }
        assert_eq!(redirect_host(StatusCode::FOUND, &HeaderMap::new()), None);
    }
}
