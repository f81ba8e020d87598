//! Streamable HTTP over the program's one transport: no redirect is followed, and the address is
//! checked before a connection is made. Bodies and events have their limit while they are read.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use codelab_transport::{
    AddressRule, HttpClient, HttpLimits, NetworkOptions, TransportConfigError, TransportError,
    read_whole, redirect_host,
};
use futures_util::stream::BoxStream;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, WWW_AUTHENTICATE};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode, Uri};
use http_body_util::Full;
use hyper::body::Incoming;
use rmcp::model::{
    ClientJsonRpcMessage, ClientRequest, ErrorData, JsonRpcMessage, ServerJsonRpcMessage,
};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::common::client_side_sse::ExponentialBackoff;
use rmcp::transport::streamable_http_client::{
    AuthRequiredError, InsufficientScopeError, SseError, StreamableHttpClient,
    StreamableHttpClientTransportConfig, StreamableHttpError, StreamableHttpPostResponse,
};
use sse_stream::Sse;

use crate::config::HttpConfig;
use crate::failure::{LastWords, visible};
use crate::limits::McpLimits;
use crate::oauth::{Authorization, OAuthClient};
use crate::values;

mod events;

const SESSION_ID: &str = "mcp-session-id";
const LAST_EVENT_ID: &str = "last-event-id";
const EVENT_STREAM: &str = "text/event-stream";
const JSON: &str = "application/json";
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
const IDLE_CONNECTIONS: usize = 4;
const IDLE_CONNECTION_TIMEOUT: Duration = Duration::from_secs(30);
/// An answer that says what is wrong.
const MAX_PROBLEM_BYTES: usize = 64 * 1024;
const SHOWN_PROBLEM_CHARS: usize = 300;
/// A server that says nothing on an open stream for so long is taken for gone.
const STREAM_SILENCE: Duration = Duration::from_secs(3_600);
/// New connections for a stream that broke.
const MAX_RECONNECTS: usize = 5;

/// Limits of all connections to MCP servers and their authorization servers.
pub const HTTP_LIMITS: HttpLimits = HttpLimits {
    connect_timeout: CONNECT_TIMEOUT,
    idle_connections: IDLE_CONNECTIONS,
    idle_connection_timeout: IDLE_CONNECTION_TIMEOUT,
};

/// Why a request has no usable answer.
#[derive(Debug, thiserror::Error)]
pub enum McpHttpFailure {
    #[error("{0}")]
    Transport(#[from] TransportError),
    #[error(
        "the server redirects to {0}, and redirects are not followed; if you trust it, use that \
         address"
    )]
    Redirect(String),
    #[error("the server answered HTTP {status}{said}")]
    Status { status: StatusCode, said: String },
    #[error("the server's answer is not of the protocol: {0}")]
    Malformed(String),
}

/// Answers of a server that did not take the request. Others of the kind 4xx can come from a gateway,
/// after the server had it.
const NO_EFFECT: [StatusCode; 9] = [
    StatusCode::BAD_REQUEST,
    StatusCode::UNAUTHORIZED,
    StatusCode::FORBIDDEN,
    StatusCode::NOT_FOUND,
    StatusCode::METHOD_NOT_ALLOWED,
    StatusCode::NOT_ACCEPTABLE,
    StatusCode::PAYLOAD_TOO_LARGE,
    StatusCode::UNSUPPORTED_MEDIA_TYPE,
    StatusCode::TOO_MANY_REQUESTS,
];

impl McpHttpFailure {
    /// Whether the request certainly had no effect.
    pub fn had_no_effect(&self) -> bool {
        match self {
            Self::Transport(error) => error.is_connect(),
            Self::Redirect(_) => true,
            Self::Status { status, .. } => NO_EFFECT.contains(status),
            Self::Malformed(_) => false,
        }
    }
}

type Failure = StreamableHttpError<McpHttpFailure>;

fn failed(failure: impl Into<McpHttpFailure>) -> Failure {
    StreamableHttpError::Client(failure.into())
}

/// One MCP server over HTTP.
#[derive(Clone)]
pub struct HttpServer {
    inner: Arc<Inner>,
}

struct Inner {
    client: HttpClient,
    uri: Uri,
    authorization: Option<Authorization>,
    oauth: OAuthClient,
    max_message_bytes: usize,
    last_words: Arc<LastWords>,
}

/// The transport to a server. Makes no connection yet.
pub fn transport(
    config: &HttpConfig,
    network: &NetworkOptions,
    allow_private: bool,
    authorization: Option<Authorization>,
    limits: &McpLimits,
    last_words: &Arc<LastWords>,
) -> Result<StreamableHttpClientTransport<HttpServer>, String> {
    let uri: Uri = config
        .url
        .trim()
        .parse()
        .map_err(|_| "its url is malformed")?;
    let server = HttpServer {
        inner: Arc::new(Inner {
            client: client(&uri, network, allow_private).map_err(|error| error.to_string())?,
            uri,
            authorization,
            oauth: OAuthClient::new(network.clone(), allow_private),
            max_message_bytes: limits.max_message_bytes,
            last_words: last_words.clone(),
        }),
    };
    let mut headers = HashMap::new();
    for (name, value) in &config.headers {
        let name = HeaderName::from_bytes(name.as_bytes()).map_err(|_| "a header is malformed")?;
        let mut value = HeaderValue::from_str(value).map_err(|_| "a header is malformed")?;
        value.set_sensitive(true);
        headers.insert(name, value);
    }
    let mut backoff = ExponentialBackoff::default();
    backoff.max_times = Some(MAX_RECONNECTS);
    backoff.max_delay = Some(limits.longest_restart_pause);
    let mut settings = StreamableHttpClientTransportConfig::with_uri(config.url.trim())
        .custom_headers(headers)
        .max_concurrent_requests(limits.max_calls)
        .max_sse_event_size(limits.max_message_bytes);
    settings.retry_config = Arc::new(backoff);
    // A new session may have other tools, so they are listed again before anything is called.
    settings.reinit_on_expired_session = false;
    Ok(StreamableHttpClientTransport::with_client(server, settings))
}

/// A client of one host, with the rule on addresses.
pub fn client(
    uri: &Uri,
    network: &NetworkOptions,
    allow_private: bool,
) -> Result<HttpClient, TransportConfigError> {
    let rule = match allow_private {
        true => AddressRule::Any,
        false => AddressRule::PublicOnly,
    };
    HttpClient::ruled(uri, network, HTTP_LIMITS, rule)
}

/// The parts of a request that are the same when it is sent a second time.
struct Sent {
    method: Method,
    headers: HeaderMap,
    body: Bytes,
}

impl Sent {
    fn new(method: Method, custom: HashMap<HeaderName, HeaderValue>) -> Self {
        let mut headers: HeaderMap = custom.into_iter().collect();
        let accepted = format!("{EVENT_STREAM}, {JSON}");
        if let Ok(accepted) = HeaderValue::from_str(&accepted) {
            headers.insert(ACCEPT, accepted);
        }
        Self {
            method,
            headers,
            body: Bytes::new(),
        }
    }

    fn header(&mut self, name: &'static str, value: Option<&str>) -> Result<(), Failure> {
        let Some(value) = value else { return Ok(()) };
        let value = HeaderValue::from_str(value).map_err(|_| {
            failed(McpHttpFailure::Malformed(format!(
                "its {name} cannot be sent"
            )))
        })?;
        self.headers.insert(HeaderName::from_static(name), value);
        Ok(())
    }
}

impl HttpServer {
    /// Sends, and once more with a new token if the server no longer takes the old one.
    async fn send(&self, sent: &Sent) -> Result<Response<Incoming>, Failure> {
        let inner = &self.inner;
        let token = match &inner.authorization {
            Some(authorization) => Some(authorization.current(&inner.oauth).await),
            None => None,
        };
        let response = self.send_once(sent, token.as_deref()).await?;
        if response.status() != StatusCode::UNAUTHORIZED {
            return Ok(response);
        }
        let (Some(authorization), Some(refused)) = (&inner.authorization, &token) else {
            return Ok(response);
        };
        match authorization.renewed(&inner.oauth, refused).await {
            Some(token) => self.send_once(sent, Some(&token)).await,
            None => Ok(response),
        }
    }

    async fn send_once(
        &self,
        sent: &Sent,
        token: Option<&str>,
    ) -> Result<Response<Incoming>, Failure> {
        let mut request = Request::new(Full::new(sent.body.clone()));
        *request.method_mut() = sent.method.clone();
        *request.uri_mut() = self.inner.uri.clone();
        *request.headers_mut() = sent.headers.clone();
        if let Some(token) = token {
            let value = HeaderValue::from_str(&format!("Bearer {token}"));
            let mut value = value.map_err(|_| {
                failed(McpHttpFailure::Malformed("its token cannot be sent".into()))
            })?;
            value.set_sensitive(true);
            request.headers_mut().insert(AUTHORIZATION, value);
        }
        self.inner.client.send(request).await.map_err(failed)
    }

    /// Passes on what can be used.
    async fn usable(&self, response: Response<Incoming>) -> Result<Response<Incoming>, Failure> {
        let status = response.status();
        if let Some(host) = redirect_host(status, response.headers()) {
            return Err(failed(McpHttpFailure::Redirect(visible(
                &host,
                SHOWN_PROBLEM_CHARS,
            ))));
        }
        let challenge = response.headers().get(WWW_AUTHENTICATE);
        let challenge =
            challenge.map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned());
        if let Some(challenge) = &challenge {
            self.inner.last_words.hear_challenge(challenge);
        }
        if status == StatusCode::UNAUTHORIZED {
            let required = AuthRequiredError::new(challenge.unwrap_or_default());
            return Err(StreamableHttpError::AuthRequired(required));
        }
        if let (StatusCode::FORBIDDEN, Some(challenge)) = (status, challenge) {
            let scope = InsufficientScopeError::new(challenge, None);
            return Err(StreamableHttpError::InsufficientScope(scope));
        }
        Ok(response)
    }

    /// An answer that is no success, in words. A JSON-RPC error in it is passed on as one.
    async fn refused(
        &self,
        response: Response<Incoming>,
        message: &ClientJsonRpcMessage,
        had_session: bool,
    ) -> Result<StreamableHttpPostResponse, Failure> {
        let status = response.status();
        if status == StatusCode::NOT_FOUND && had_session {
            self.inner
                .last_words
                .blame("it forgot the session".to_owned());
            return Err(StreamableHttpError::SessionExpired);
        }
        let body = read_whole(response, MAX_PROBLEM_BYTES).await;
        let body = body.map(Response::into_body).unwrap_or_default();
        let error = match serde_json::from_slice::<ServerJsonRpcMessage>(&body) {
            Ok(JsonRpcMessage::Error(error)) => Some(error),
            _ => None,
        };
        // An older server refuses the question which versions it knows in many ways.
        if let ClientJsonRpcMessage::Request(request) = message
            && matches!(request.request, ClientRequest::DiscoverRequest(_))
            && status.is_client_error()
            && status != StatusCode::FORBIDDEN
            && !had_session
        {
            let unknown = || ErrorData::invalid_request(format!("HTTP {status}"), None);
            let error = error.map_or_else(unknown, |error| error.error);
            let id = Some(request.id.clone());
            let answer = ServerJsonRpcMessage::error(error, id);
            return Ok(StreamableHttpPostResponse::Json(answer, None));
        }
        if let Some(error) = error {
            let answer = ServerJsonRpcMessage::Error(error);
            return Ok(StreamableHttpPostResponse::Json(answer, None));
        }
        let said = self.inner.last_words.hide(&String::from_utf8_lossy(&body));
        let said = visible(said.trim(), SHOWN_PROBLEM_CHARS);
        let said = if said.is_empty() {
            said
        } else {
            format!(": {said}")
        };
        Err(failed(McpHttpFailure::Status { status, said }))
    }

    fn events(
        &self,
        body: Incoming,
        max_event_bytes: usize,
    ) -> BoxStream<'static, Result<Sse, SseError>> {
        let last_words = self.inner.last_words.clone();
        events::stream(body, max_event_bytes, STREAM_SILENCE, last_words)
    }
}

impl StreamableHttpClient for HttpServer {
    type Error = McpHttpFailure;

    async fn post_message(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session_id: Option<Arc<str>>,
        auth_header: Option<String>,
        custom_headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<StreamableHttpPostResponse, Failure> {
        let max = self.inner.max_message_bytes;
        self.post_message_with_max_sse_event_size(
            uri,
            message,
            session_id,
            auth_header,
            custom_headers,
            max,
        )
        .await
    }

    async fn post_message_with_max_sse_event_size(
        &self,
        _: Arc<str>,
        message: ClientJsonRpcMessage,
        session_id: Option<Arc<str>>,
        _: Option<String>,
        custom_headers: HashMap<HeaderName, HeaderValue>,
        max_event_bytes: usize,
    ) -> Result<StreamableHttpPostResponse, Failure> {
        let mut sent = Sent::new(Method::POST, custom_headers);
        sent.headers
            .insert(CONTENT_TYPE, HeaderValue::from_static(JSON));
        sent.header(SESSION_ID, session_id.as_deref())?;
        sent.body = serde_json::to_vec(&message)?.into();
        let response = self.usable(self.send(&sent).await?).await?;
        let status = response.status();
        if matches!(status, StatusCode::ACCEPTED | StatusCode::NO_CONTENT) {
            return Ok(StreamableHttpPostResponse::Accepted);
        }
        if !status.is_success() {
            return self.refused(response, &message, session_id.is_some()).await;
        }
        let header = |name: &str| {
            let value = response.headers().get(name)?;
            value.to_str().ok().map(str::to_owned)
        };
        let session_id = header(SESSION_ID);
        let content_type = header("content-type")
            .unwrap_or_default()
            .to_ascii_lowercase();
        if content_type.starts_with(EVENT_STREAM) {
            let events = self.events(response.into_body(), max_event_bytes);
            return Ok(StreamableHttpPostResponse::Sse(events, session_id));
        }
        let awaits_answer = matches!(message, ClientJsonRpcMessage::Request(_));
        let body = read_whole(response, self.inner.max_message_bytes).await;
        let body = body.map_err(failed)?.into_body();
        if let Some(fault) = values::fault(&body) {
            return Err(failed(McpHttpFailure::Malformed(fault)));
        }
        match serde_json::from_slice::<ServerJsonRpcMessage>(&body) {
            Ok(answer) if content_type.starts_with(JSON) => {
                Ok(StreamableHttpPostResponse::Json(answer, session_id))
            }
            // Nobody waits for an answer to these.
            _ if !awaits_answer => Ok(StreamableHttpPostResponse::Accepted),
            _ => {
                let said = visible(&String::from_utf8_lossy(&body), SHOWN_PROBLEM_CHARS);
                Err(failed(McpHttpFailure::Malformed(said)))
            }
        }
    }

    async fn delete_session(
        &self,
        _: Arc<str>,
        session_id: Arc<str>,
        _: Option<String>,
        custom_headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<(), Failure> {
        let mut sent = Sent::new(Method::DELETE, custom_headers);
        sent.header(SESSION_ID, Some(&session_id))?;
        // A server need not know this; the session ends by itself then.
        self.send(&sent).await.map(|_| ())
    }

    async fn get_stream(
        &self,
        uri: Arc<str>,
        session_id: Option<Arc<str>>,
        last_event_id: Option<String>,
        auth_header: Option<String>,
        custom_headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<BoxStream<'static, Result<Sse, SseError>>, Failure> {
        let max = self.inner.max_message_bytes;
        self.get_stream_with_max_sse_event_size(
            uri,
            session_id,
            last_event_id,
            auth_header,
            custom_headers,
            max,
        )
        .await
    }

    async fn get_stream_with_max_sse_event_size(
        &self,
        _: Arc<str>,
        session_id: Option<Arc<str>>,
        last_event_id: Option<String>,
        _: Option<String>,
        custom_headers: HashMap<HeaderName, HeaderValue>,
        max_event_bytes: usize,
    ) -> Result<BoxStream<'static, Result<Sse, SseError>>, Failure> {
        let mut sent = Sent::new(Method::GET, custom_headers);
        sent.headers
            .insert(ACCEPT, HeaderValue::from_static(EVENT_STREAM));
        sent.header(SESSION_ID, session_id.as_deref())?;
        sent.header(LAST_EVENT_ID, last_event_id.as_deref())?;
        let response = self.usable(self.send(&sent).await?).await?;
        let status = response.status();
        if !status.is_success() {
            // Whatever the reason, there is no such stream.
            return Err(match status {
                StatusCode::NOT_FOUND if session_id.is_some() => {
                    StreamableHttpError::SessionExpired
                }
                status if status.is_client_error() => StreamableHttpError::ServerDoesNotSupportSse,
                status => failed(McpHttpFailure::Status {
                    status,
                    said: String::new(),
                }),
            });
        }
        Ok(self.events(response.into_body(), max_event_bytes))
    }
}
