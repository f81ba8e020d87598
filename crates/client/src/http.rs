//! One HTTP exchange: building the request, proving access, bounding time and size, telling
//! failures apart.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use codelab_protocol::ErrorBody;
use http::header::{AUTHORIZATION, CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, Uri};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper_util::client::legacy::Client as Pool;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use tokio::time::timeout;

use crate::error::chain;
use crate::{ClientError, ClientLimits};

/// How the caller proves who it is.
#[derive(Clone)]
pub enum Credentials {
    InternalKey(String),
    Bearer(String),
    /// A bearer token for an address that others may have once the server is gone: nothing is sent
    /// there unless it is known to be the server's.
    BearerWhile(String, AddressCheck),
    None,
}

/// Tells whether the server still has its address. Asked before every request, so it must not take
/// long.
pub type AddressCheck = Arc<dyn Fn() -> bool + Send + Sync>;

/// Never shows the secret.
impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::InternalKey(_) => "InternalKey(…)",
            Self::Bearer(_) => "Bearer(…)",
            Self::BearerWhile(..) => "BearerWhile(…)",
            Self::None => "None",
        })
    }
}

/// An answer of any status, as it came.
#[derive(Debug, Clone)]
pub struct RawResponse {
    pub status: u16,
    pub headers: HeaderMap,
    pub body: Bytes,
}

const INTERNAL_KEY: HeaderName = HeaderName::from_static("x-internal-auth");

/// The connector is the one place where TLS would be added.
type Connector = HttpConnector;

pub(crate) struct Transport {
    pool: Pool<Connector, Full<Bytes>>,
    /// Scheme, authority and path prefix, without a trailing slash.
    base: String,
    access: Option<(HeaderName, HeaderValue)>,
    presence: Option<AddressCheck>,
    pub(crate) limits: ClientLimits,
}

impl Transport {
    pub(crate) fn new(
        base_url: &str,
        access: &Credentials,
        limits: ClientLimits,
    ) -> Result<Self, ClientError> {
        let base = base_url.trim_end_matches('/').to_owned();
        let uri: Uri = base
            .parse()
            .map_err(|error| invalid(format!("{base_url:?} is not an address: {error}")))?;
        if uri.scheme_str() != Some("http") || uri.query().is_some() {
            return Err(invalid(format!(
                "{base_url:?} is not an address of the form http://host:port"
            )));
        }
        let mut connector = Connector::new();
        connector.set_nodelay(true);
        connector.set_connect_timeout(Some(Duration::from_millis(limits.connect_timeout_ms)));
        let pool = Pool::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(Duration::from_millis(limits.idle_connection_timeout_ms))
            .pool_max_idle_per_host(limits.idle_connections)
            .build(connector);
        let presence = match access {
            Credentials::BearerWhile(_, presence) => Some(Arc::clone(presence)),
            Credentials::InternalKey(_) | Credentials::Bearer(_) | Credentials::None => None,
        };
        Ok(Self {
            pool,
            base,
            access: access_header(access)?,
            presence,
            limits,
        })
    }

    pub(crate) fn request(
        &self,
        method: Method,
        path: &str,
        body: Bytes,
    ) -> Result<Request<Full<Bytes>>, ClientError> {
        let uri: Uri = format!("{}{path}", self.base)
            .parse()
            .map_err(|error| invalid(format!("{path:?} is not a path of a request: {error}")))?;
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = method;
        *request.uri_mut() = uri;
        if let Some((name, value)) = &self.access {
            request.headers_mut().insert(name.clone(), value.clone());
        }
        Ok(request)
    }

    pub(crate) fn json_request<T: serde::Serialize>(
        &self,
        method: Method,
        path: &str,
        body: &T,
    ) -> Result<Request<Full<Bytes>>, ClientError> {
        let body = serde_json::to_vec(body)
            .map_err(|error| invalid(format!("the request is not JSON: {error}")))?;
        let mut request = self.request(method, path, body.into())?;
        request
            .headers_mut()
            .insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        Ok(request)
    }

    /// Sends the request and reads the whole answer, whatever its status.
    pub(crate) async fn exchange(
        &self,
        request: Request<Full<Bytes>>,
    ) -> Result<RawResponse, ClientError> {
        self.exchange_within(self.limits.answer_timeout_ms, request)
            .await
    }

    pub(crate) async fn exchange_within(
        &self,
        after_ms: u64,
        request: Request<Full<Bytes>>,
    ) -> Result<RawResponse, ClientError> {
        in_time(after_ms, async {
            let response = self.send(request).await?;
            self.read(response).await
        })
        .await
    }

    /// Sends the request and waits for the head of a successful answer.
    pub(crate) async fn open(
        &self,
        request: Request<Full<Bytes>>,
    ) -> Result<Response<Incoming>, ClientError> {
        in_time(self.limits.answer_timeout_ms, async {
            let response = self.send(request).await?;
            if response.status().is_success() {
                return Ok(response);
            }
            Err(refusal(&self.read(response).await?))
        })
        .await
    }

    async fn send(&self, request: Request<Full<Bytes>>) -> Result<Response<Incoming>, ClientError> {
        if self.presence.as_ref().is_some_and(|is_there| !is_there()) {
            return Err(ClientError::Connect(format!(
                "the server is no longer at {}",
                self.base
            )));
        }
        self.pool.request(request).await.map_err(failed_request)
    }

    async fn read(&self, response: Response<Incoming>) -> Result<RawResponse, ClientError> {
        let (head, mut incoming) = response.into_parts();
        let mut body = BytesMut::new();
        while let Some(frame) = incoming.frame().await {
            let frame = frame.map_err(|error| ClientError::Cut(chain(&error)))?;
            let Ok(data) = frame.into_data() else {
                continue;
            };
            if body.len() + data.len() > self.limits.answer_bytes {
                return Err(invalid(format!(
                    "the answer is larger than {} bytes",
                    self.limits.answer_bytes
                )));
            }
            body.extend_from_slice(&data);
        }
        Ok(RawResponse {
            status: head.status.as_u16(),
            headers: head.headers,
            body: body.freeze(),
        })
    }
}

async fn in_time<T>(
    after_ms: u64,
    work: impl Future<Output = Result<T, ClientError>>,
) -> Result<T, ClientError> {
    timeout(Duration::from_millis(after_ms), work)
        .await
        .unwrap_or(Err(ClientError::Timeout { after_ms }))
}

/// The path with those parameters that have a value. Names and values need no escaping.
pub(crate) fn with_query<T: fmt::Display>(path: &str, parameters: &[(&str, Option<T>)]) -> String {
    let given = parameters
        .iter()
        .filter_map(|(name, value)| Some(format!("{name}={}", value.as_ref()?)));
    let query = given.collect::<Vec<_>>().join("&");
    if query.is_empty() {
        path.to_owned()
    } else {
        format!("{path}?{query}")
    }
}

/// The answer if it is a success, else the refusal it says.
pub(crate) fn accepted(response: RawResponse) -> Result<RawResponse, ClientError> {
    if (200..300).contains(&response.status) {
        Ok(response)
    } else {
        Err(refusal(&response))
    }
}

pub(crate) fn parse<T: serde::de::DeserializeOwned>(body: &[u8]) -> Result<T, ClientError> {
    serde_json::from_slice(body)
        .map_err(|error| invalid(format!("the answer is not what was expected: {error}")))
}

fn refusal(response: &RawResponse) -> ClientError {
    let retry_after = response
        .headers
        .get(RETRY_AFTER)
        .and_then(|value| value.to_str().ok());
    ClientError::Status {
        status: response.status,
        body: serde_json::from_slice::<ErrorBody>(&response.body)
            .ok()
            .map(Box::new),
        text: String::from_utf8_lossy(&response.body).into_owned(),
        retry_after_seconds: retry_after.and_then(|seconds| seconds.trim().parse().ok()),
    }
}

fn failed_request(error: hyper_util::client::legacy::Error) -> ClientError {
    if error.is_connect() {
        ClientError::Connect(chain(&error))
    } else {
        ClientError::Cut(chain(&error))
    }
}

fn access_header(access: &Credentials) -> Result<Option<(HeaderName, HeaderValue)>, ClientError> {
    let (name, text) = match access {
        Credentials::InternalKey(key) => (INTERNAL_KEY, key.clone()),
        Credentials::Bearer(token) | Credentials::BearerWhile(token, _) => {
            (AUTHORIZATION, format!("Bearer {token}"))
        }
        Credentials::None => return Ok(None),
    };
    let mut value = HeaderValue::try_from(text)
        .map_err(|_| invalid("the key or token has characters no header can carry".into()))?;
    value.set_sensitive(true);
    Ok(Some((name, value)))
}

pub(crate) fn invalid(message: String) -> ClientError {
    ClientError::Invalid(message)
}
