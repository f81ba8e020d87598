//! JSON requests to one server: pooled, HTTP/1.1, with TLS only where the address asks for it.
//! Knows nothing of what is asked.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderName, HeaderValue};
use http::{Method, Request, Response, StatusCode, Uri};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::{Connect, HttpConnector};
use hyper_util::rt::{TokioExecutor, TokioTimer};
use serde_json::Value;

use crate::OptionsError;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);
const MAX_ANSWER_BYTES: usize = 64 * 1024 * 1024;
const MAX_IDLE_CONNECTIONS: usize = 16;
/// Shorter than the usual server's, so that a call seldom meets a connection that is just being
/// closed.
const IDLE_CONNECTION_TIMEOUT: Duration = Duration::from_secs(50);

#[derive(Debug, thiserror::Error)]
pub enum HttpFailure {
    #[error("the server cannot be reached: {0}")]
    Unreachable(String),
    #[error("the server did not answer in time")]
    Timeout,
    #[error("the server's answer cannot be read: {0}")]
    Unreadable(String),
}

/// The header that carries a key.
pub struct HttpAuth {
    name: HeaderName,
    value: HeaderValue,
}

impl HttpAuth {
    pub fn new(name: &str, value: &str) -> Result<Self, OptionsError> {
        let name = HeaderName::from_bytes(name.as_bytes()).map_err(|_| OptionsError::Key)?;
        let mut value = HeaderValue::from_str(value).map_err(|_| OptionsError::Key)?;
        value.set_sensitive(true);
        Ok(Self { name, value })
    }
}

pub struct Http {
    base: String,
    auth: Option<HttpAuth>,
    /// The longest a request takes, with its answer.
    timeout: Duration,
    transport: Transport,
}

enum Transport {
    Plain(Client<HttpConnector, Full<Bytes>>),
    Tls(Client<HttpsConnector<HttpConnector>, Full<Bytes>>),
}

impl Http {
    pub fn new(url: &str, auth: Option<HttpAuth>, timeout: Duration) -> Result<Self, OptionsError> {
        let base = url.trim().trim_end_matches('/').to_owned();
        let uri: Uri = base.parse().map_err(|_| OptionsError::Url)?;
        let has_user = uri
            .authority()
            .is_none_or(|authority| authority.as_str().contains('@'));
        if has_user
            || uri.host().is_none_or(str::is_empty)
            || uri.query().is_some()
            || base.contains('#')
        {
            return Err(OptionsError::Url);
        }
        let transport = match uri.scheme_str() {
            Some("http") => Transport::Plain(client(connector())),
            Some("https") => Transport::tls()?,
            _ => return Err(OptionsError::Url),
        };
        Ok(Self {
            base,
            auth,
            timeout,
            transport,
        })
    }

    /// The status and the JSON of the server's answer, which is null where an error has none.
    pub async fn call(
        &self,
        method: Method,
        path: &str,
        body: Option<Value>,
    ) -> Result<(StatusCode, Value), HttpFailure> {
        let mut request = Request::builder()
            .method(method)
            .uri(format!("{}{path}", self.base));
        if let Some(auth) = &self.auth {
            request = request.header(&auth.name, &auth.value);
        }
        let body = body.map_or_else(Bytes::new, |body| body.to_string().into());
        let request = request
            .header(CONTENT_TYPE, "application/json")
            .body(Full::new(body));
        let request = request.map_err(|error| HttpFailure::Unreachable(error.to_string()))?;
        let answer = async {
            let response = self.transport.send(request).await?;
            let status = response.status();
            let body = Limited::new(response.into_body(), MAX_ANSWER_BYTES)
                .collect()
                .await;
            Ok((
                status,
                body.map_err(|error| HttpFailure::Unreadable(error.to_string()))?
                    .to_bytes(),
            ))
        };
        let (status, body) = tokio::time::timeout(self.timeout, answer)
            .await
            .map_err(|_| HttpFailure::Timeout)??;
        match serde_json::from_slice(&body) {
            Ok(answer) => Ok((status, answer)),
            Err(_) if !status.is_success() => Ok((status, Value::Null)),
            Err(_) => Err(HttpFailure::Unreadable("it is no JSON".into())),
        }
    }
}

impl Transport {
    fn tls() -> Result<Self, OptionsError> {
        let mut http = connector();
        http.enforce_http(false);
        let https = HttpsConnectorBuilder::new()
            .with_provider_and_platform_verifier(Arc::new(rustls::crypto::ring::default_provider()))
            .map_err(|error| OptionsError::Certificates {
                reason: error.to_string(),
            })?
            .https_only()
            .enable_http1()
            .wrap_connector(http);
        Ok(Self::Tls(client(https)))
    }

    async fn send(&self, request: Request<Full<Bytes>>) -> Result<Response<Incoming>, HttpFailure> {
        let sent = match self {
            Self::Plain(client) => client.request(request).await,
            Self::Tls(client) => client.request(request).await,
        };
        sent.map_err(|error| {
            let cause = std::error::Error::source(&error)
                .map_or_else(|| error.to_string(), ToString::to_string);
            HttpFailure::Unreachable(cause)
        })
    }
}

fn connector() -> HttpConnector {
    let mut http = HttpConnector::new();
    http.set_nodelay(true);
    http.set_connect_timeout(Some(CONNECT_TIMEOUT));
    http
}

fn client<C: Connect + Clone>(connector: C) -> Client<C, Full<Bytes>> {
    Client::builder(TokioExecutor::new())
        .pool_timer(TokioTimer::new())
        .pool_idle_timeout(IDLE_CONNECTION_TIMEOUT)
        .pool_max_idle_per_host(MAX_IDLE_CONNECTIONS)
        .build(connector)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(url: &str) -> Result<(), OptionsError> {
        Http::new(url, None, Duration::from_secs(1)).map(|_| ())
    }

    #[test]
    fn addresses_and_keys_are_checked_before_they_are_used() {
        for url in [
            "http://127.0.0.1:6333",
            " http://qdrant:6333/ ",
            "http://proxy/qdrant",
        ] {
            assert_eq!(open(url), Ok(()), "{url}");
        }
        for url in [
            "",
            "qdrant:6333",
            "ftp://a",
            "http://",
            "http://a?b",
            "http://a#b",
            "http://user:secret@a",
        ] {
            assert_eq!(open(url), Err(OptionsError::Url), "{url}");
        }
        assert_eq!(
            HttpAuth::new("api-key", "a\nb").err(),
            Some(OptionsError::Key)
        );
        assert_eq!(HttpAuth::new("api key", "a").err(), Some(OptionsError::Key));
    }
}
