//! JSON requests to one server. Knows nothing about their meaning.

use std::time::Duration;

use bytes::Bytes;
use codelab_transport::{
    HttpClient, HttpLimits, NetworkOptions, TransportError, redirect_host, server_address,
};
use http::header::{CONTENT_TYPE, HeaderName, HeaderValue};
use http::{Method, Request, StatusCode};
use http_body_util::Full;
use serde_json::Value;

use crate::OptionsError;

const MAX_ANSWER_BYTES: usize = 64 * 1024 * 1024;
const LIMITS: HttpLimits = HttpLimits {
    connect_timeout: Duration::from_secs(3),
    idle_connections: 16,
    // Shorter than most servers' own limit, so that a call seldom meets a connection that is just
    // being closed.
    idle_connection_timeout: Duration::from_secs(50),
};

#[derive(Debug, thiserror::Error)]
pub enum HttpFailure {
    #[error("the server cannot be reached: {0}")]
    Unreachable(String),
    #[error("the server did not answer in time")]
    Timeout,
    #[error("the server's answer cannot be read: {0}")]
    Unreadable(String),
    #[error(
        "the server redirects to {0}; redirects are not followed, because they would carry the key"
    )]
    Redirected(String),
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
    /// Time limit for a request with its whole answer.
    timeout: Duration,
    client: HttpClient,
}

impl Http {
    pub fn new(
        url: &str,
        auth: Option<HttpAuth>,
        timeout: Duration,
        network: &NetworkOptions,
    ) -> Result<Self, OptionsError> {
        let base = url.trim().trim_end_matches('/').to_owned();
        let uri = server_address(url).map_err(|_| OptionsError::Url)?;
        Ok(Self {
            client: HttpClient::new(&uri, network, LIMITS)?,
            base,
            auth,
            timeout,
        })
    }

    /// The status and the JSON of the server's answer. The JSON is null if an error answer has
    /// none.
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
        let (head, body) = self
            .client
            .fetch(request, self.timeout, MAX_ANSWER_BYTES)
            .await?
            .into_parts();
        if let Some(host) = redirect_host(head.status, &head.headers) {
            return Err(HttpFailure::Redirected(host));
        }
        match serde_json::from_slice(&body) {
            Ok(answer) => Ok((head.status, answer)),
            Err(_) if !head.status.is_success() => Ok((head.status, Value::Null)),
            Err(_) => Err(HttpFailure::Unreadable("it is not JSON".into())),
        }
    }
}

impl From<TransportError> for HttpFailure {
    fn from(error: TransportError) -> Self {
        match error {
            TransportError::Connect(_) | TransportError::Cut(_) => {
                Self::Unreachable(error.to_string())
            }
            TransportError::Timeout { .. } => Self::Timeout,
            TransportError::TooLarge { .. } => Self::Unreadable(error.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(url: &str) -> Result<(), OptionsError> {
        Http::new(
            url,
            None,
            Duration::from_secs(1),
            &NetworkOptions::default(),
        )
        .map(|_| ())
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
            "http://user:1/secret@a",
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
