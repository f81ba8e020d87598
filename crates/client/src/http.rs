//! Requests to one CodeLab server: builds them, adds the credentials, limits time and size, and
//! turns refusals into errors.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use codelab_protocol::ErrorBody;
use codelab_transport::{
    HttpClient, HttpLimits, NetworkOptions, TransportError, read_whole, redirect_host,
    server_address, within,
};
use http::header::{AUTHORIZATION, CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode, Uri};
use http_body_util::Full;
use hyper::body::Incoming;

use crate::{ClientError, ClientLimits};

/// How the caller proves who it is.
#[derive(Clone)]
pub enum Credentials {
    InternalKey(String),
    Bearer(String),
    /// A bearer token for a server that can stop, and start again at another address. It is sent only
    /// to where the server is now: another program may have its old address.
    BearerAt(String, LiveAddress),
    None,
}

/// Where the server is now; `None` while it does not run. It is asked before every request, so it
/// must be quick.
pub type LiveAddress = Arc<dyn Fn() -> Option<String> + Send + Sync>;

/// Never shows the secret.
impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::InternalKey(_) => "InternalKey(…)",
            Self::Bearer(_) => "Bearer(…)",
            Self::BearerAt(..) => "BearerAt(…)",
            Self::None => "None",
        })
    }
}

/// An answer of any status, unchanged.
#[derive(Debug, Clone)]
pub struct RawResponse {
    pub status: u16,
    pub headers: HeaderMap,
    pub body: Bytes,
}

const INTERNAL_KEY: HeaderName = HeaderName::from_static("x-internal-auth");

pub(crate) struct ApiConnection {
    http: HttpClient,
    /// Scheme, authority and path prefix, without a trailing slash.
    base: String,
    access: Option<(HeaderName, HeaderValue)>,
    live_address: Option<LiveAddress>,
    pub(crate) limits: ClientLimits,
}

impl ApiConnection {
    pub(crate) fn new(
        base_url: &str,
        access: &Credentials,
        limits: ClientLimits,
        network: &NetworkOptions,
    ) -> Result<Self, ClientError> {
        let uri = server_address(base_url)
            .map_err(|error| invalid(format!("the server's address {error}")))?;
        let base = base_url.trim().trim_end_matches('/').to_owned();
        let http_limits = HttpLimits {
            connect_timeout: Duration::from_millis(limits.connect_timeout_ms),
            idle_connections: limits.idle_connections,
            idle_connection_timeout: Duration::from_millis(limits.idle_connection_timeout_ms),
        };
        let http = HttpClient::new(&uri, network, http_limits)
            .map_err(|error| invalid(error.to_string()))?;
        let live_address = match access {
            Credentials::BearerAt(_, address) => Some(Arc::clone(address)),
            Credentials::InternalKey(_) | Credentials::Bearer(_) | Credentials::None => None,
        };
        Ok(Self {
            http,
            base,
            access: access_header(access)?,
            live_address,
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
        within(Duration::from_millis(after_ms), async {
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
        within(
            Duration::from_millis(self.limits.answer_timeout_ms),
            async {
                let response = self.send(request).await?;
                if response.status().is_success() {
                    return Ok(response);
                }
                Err(refusal(&self.read(response).await?))
            },
        )
        .await
    }

    async fn send(
        &self,
        mut request: Request<Full<Bytes>>,
    ) -> Result<Response<Incoming>, ClientError> {
        if let Some(live_address) = &self.live_address {
            let gone = || format!("the server is no longer at {}", self.base);
            let now = live_address().ok_or_else(|| ClientError::Connect(gone()))?;
            let path = request
                .uri()
                .path_and_query()
                .map_or("/", |path| path.as_str());
            let moved = format!("{}{path}", now.trim_end_matches('/'));
            *request.uri_mut() = moved
                .parse()
                .map_err(|error| invalid(format!("{now:?} is not an address: {error}")))?;
        }
        Ok(self.http.send(request).await?)
    }

    async fn read(&self, response: Response<Incoming>) -> Result<RawResponse, ClientError> {
        let (head, body) = read_whole(response, self.limits.answer_bytes)
            .await?
            .into_parts();
        Ok(RawResponse {
            status: head.status.as_u16(),
            headers: head.headers,
            body,
        })
    }
}

impl From<TransportError> for ClientError {
    fn from(error: TransportError) -> Self {
        match error {
            TransportError::Connect(error) => Self::Connect(error.to_string()),
            TransportError::Cut(reason) => Self::Cut(reason),
            TransportError::Timeout { after } => Self::Timeout {
                after_ms: u64::try_from(after.as_millis()).unwrap_or(u64::MAX),
            },
            TransportError::TooLarge { .. } => Self::Invalid(error.to_string()),
        }
    }
}

/// The path with those parameters that have a value. Names and values must need no escaping.
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

/// The answer if its status is a success, otherwise the error that it describes.
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
    let status = StatusCode::from_u16(response.status).unwrap_or_default();
    if let Some(host) = redirect_host(status, &response.headers) {
        return invalid(format!(
            "the server redirects to {host} (HTTP {status}); redirects are not followed, because \
             they would carry your token along: use that address if you trust it",
            status = response.status
        ));
    }
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

fn access_header(access: &Credentials) -> Result<Option<(HeaderName, HeaderValue)>, ClientError> {
    let (name, text) = match access {
        Credentials::InternalKey(key) => (INTERNAL_KEY, key.clone()),
        Credentials::Bearer(token) | Credentials::BearerAt(token, _) => {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_with_credentials_is_refused_and_not_repeated() {
        let open = |url: &str| {
            let network = NetworkOptions::default();
            ApiConnection::new(url, &Credentials::None, ClientLimits::default(), &network)
        };
        for url in ["http://a.test:1", "https://a.test/codelab/"] {
            assert!(open(url).is_ok(), "{url}");
        }
        for url in [
            "http://user:canary@a.test",
            "http://canary@a.test",
            "http://user:1/canary@a.test",
            "http://user:canary@a b",
            "http://a.test/#canary",
            "http://a.test/?canary",
            "ftp://user:canary@a.test",
        ] {
            let error = match open(url) {
                Ok(_) => panic!("{url} was accepted"),
                Err(error) => error.to_string(),
            };
            assert!(error.starts_with("the server's address "), "{error}");
            assert!(!error.contains("canary"), "{error}");
        }
    }
}
