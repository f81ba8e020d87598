//! Requests to a server's authorization server, and what it answers.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use codelab_transport::{NetworkOptions, redirect_host};
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue, Method, Request, StatusCode, Uri};
use http_body_util::Full;
use serde::Deserialize;
use serde_json::Value;

use super::metadata::ClientAuth;
use super::{Grant, OAuthError, OAuthTokens, now};
use crate::failure::visible;
use crate::http::client;

const REQUEST_TIMEOUT: Duration = Duration::from_secs(20);
const MAX_ANSWER_BYTES: usize = 256 * 1024;
const MAX_TOKEN_BYTES: usize = 32 * 1024;
const SHOWN_CHARS: usize = 300;

/// How requests leave this machine.
#[derive(Debug, Clone)]
pub struct Exchange {
    pub network: NetworkOptions,
    pub allow_private: bool,
}

/// What came back.
pub struct Answer {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub body: Bytes,
}

#[derive(Deserialize)]
struct TokenAnswer {
    access_token: String,
    #[serde(default)]
    token_type: Option<String>,
    #[serde(default)]
    refresh_token: Option<String>,
    /// A number; some providers send it as a text.
    #[serde(default)]
    expires_in: Option<Value>,
}

impl Exchange {
    pub async fn send(
        &self,
        method: Method,
        address: &str,
        headers: HeaderMap,
        body: Bytes,
    ) -> Result<Answer, OAuthError> {
        let uri = self.checked(address)?;
        let host = uri.host().unwrap_or_default().to_owned();
        let unusable = |reason: String| OAuthError::Unusable(format!("{host}: {reason}"));
        let client = client(&uri, &self.network, self.allow_private)
            .map_err(|error| unusable(error.to_string()))?;
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = method;
        *request.uri_mut() = uri;
        *request.headers_mut() = headers;
        let answer = client
            .fetch(request, REQUEST_TIMEOUT, MAX_ANSWER_BYTES)
            .await;
        let (head, body) = answer
            .map_err(|error| unusable(error.to_string()))?
            .into_parts();
        if let Some(target) = redirect_host(head.status, &head.headers) {
            let target = visible(&target, SHOWN_CHARS);
            return Err(unusable(format!(
                "it redirects to {target}, which is not followed"
            )));
        }
        Ok(Answer {
            status: head.status,
            headers: head.headers,
            body,
        })
    }

    /// The address of a page that a person is sent to. Parameters are added to it.
    pub fn for_a_person<'a>(&self, address: &'a str) -> Result<&'a str, OAuthError> {
        self.checked(address)?;
        match address.contains('#') {
            true => Err(OAuthError::Unusable(
                "the address where a person logs in has a fragment".to_owned(),
            )),
            false => Ok(address),
        }
    }

    /// Tokens go over TLS, unless private addresses are allowed: then it is somebody's own machine.
    fn checked(&self, address: &str) -> Result<Uri, OAuthError> {
        let unusable = |reason: &str| {
            let shown = visible(address.split('?').next().unwrap_or_default(), SHOWN_CHARS);
            OAuthError::Unusable(format!("the address {shown} {reason}"))
        };
        let uri: Uri = address.parse().map_err(|_| unusable("is malformed"))?;
        let is_plain = uri
            .authority()
            .is_some_and(|authority| !authority.as_str().contains('@'));
        if !is_plain {
            return Err(unusable("names no host, or holds a password"));
        }
        match uri.scheme_str() {
            Some("https") => Ok(uri),
            Some("http") if self.allow_private => Ok(uri),
            _ => Err(unusable("does not use https")),
        }
    }

    /// The JSON of a document; `None` if there is none.
    pub async fn document(&self, address: &str) -> Result<Option<Value>, OAuthError> {
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
        let answer = self
            .send(Method::GET, address, headers, Bytes::new())
            .await?;
        if !answer.status.is_success() {
            return Ok(None);
        }
        Ok(serde_json::from_slice(&answer.body).ok())
    }

    pub async fn tokens(
        &self,
        grant: &Grant,
        fields: &[(&str, &str)],
        kept_refresh_token: Option<String>,
    ) -> Result<OAuthTokens, OAuthError> {
        let mut fields = fields.to_vec();
        fields.push(("resource", &grant.resource));
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
        let form_type = HeaderValue::from_static("application/x-www-form-urlencoded");
        headers.insert(CONTENT_TYPE, form_type);
        let secret = grant.client_secret.as_deref().unwrap_or_default();
        match grant.client_auth {
            ClientAuth::None => fields.push(("client_id", &grant.client_id)),
            ClientAuth::Post => {
                fields.push(("client_id", &grant.client_id));
                fields.push(("client_secret", secret));
            }
            ClientAuth::Basic => {
                let pair = format!("{}:{}", encoded(&grant.client_id), encoded(secret));
                let value = HeaderValue::from_str(&format!("Basic {}", STANDARD.encode(pair)));
                let mut value = value.map_err(|_| {
                    OAuthError::Unusable("the client's secret cannot be sent".to_owned())
                })?;
                value.set_sensitive(true);
                headers.insert(AUTHORIZATION, value);
            }
        }
        let body = form(&fields).into();
        let answer = self
            .send(Method::POST, &grant.token_endpoint, headers, body)
            .await?;
        if !answer.status.is_success() {
            return Err(refusal(&answer, "the provider gave no token"));
        }
        let nonsense = || OAuthError::Unusable("the provider answered without a token".to_owned());
        let found: TokenAnswer = serde_json::from_slice(&answer.body).map_err(|_| nonsense())?;
        let is_bearer = |kind: &str| kind.eq_ignore_ascii_case("bearer");
        let sizes = [Some(&found.access_token), found.refresh_token.as_ref()];
        let is_too_long = sizes
            .into_iter()
            .flatten()
            .any(|token| token.len() > MAX_TOKEN_BYTES);
        if found.access_token.is_empty()
            || is_too_long
            || !found.token_type.as_deref().is_none_or(is_bearer)
        {
            return Err(nonsense());
        }
        let seconds = found.expires_in.and_then(|value| match value {
            Value::Number(number) => number.as_u64(),
            Value::String(text) => text.parse().ok(),
            _ => None,
        });
        Ok(OAuthTokens {
            access_token: found.access_token,
            refresh_token: found.refresh_token.or(kept_refresh_token),
            expires_at: seconds.map(|seconds| now().saturating_add(seconds)),
            grant: grant.clone(),
        })
    }
}

/// The provider's own words, of which the standard has two fields.
pub fn refusal(answer: &Answer, what: &str) -> OAuthError {
    let body: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
    let words = ["error", "error_description"].map(|key| body[key].as_str().unwrap_or_default());
    let said = words.join(" ");
    let said = visible(said.trim(), SHOWN_CHARS);
    let said = if said.is_empty() {
        said
    } else {
        format!(": {said}")
    };
    let text = format!("{what} (HTTP {}){said}", answer.status.as_u16());
    match answer.status.is_client_error() {
        true => OAuthError::Refused(text),
        false => OAuthError::Unusable(text),
    }
}

/// `a=b&c=d`, with all other characters than the plain ones encoded.
pub fn form(fields: &[(&str, &str)]) -> String {
    let pairs = fields
        .iter()
        .map(|(name, value)| format!("{name}={}", encoded(value)));
    pairs.collect::<Vec<_>>().join("&")
}

fn encoded(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    let pieces = text.bytes().map(|byte| match plain(byte) {
        true => char::from(byte).to_string(),
        false => format!("%{byte:02X}"),
    });
    pieces.collect()
}
