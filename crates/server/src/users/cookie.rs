//! The cookie of a login: a random text that only the browser holds; the server knows its hash.

use axum::http::{HeaderMap, HeaderValue, header};
use codelab_protocol::Digest;
use codelab_runtime::random_hex;

const NAME: &str = "codelab_session";
const BYTES: usize = 32;
pub(super) const LIFETIME_SECONDS: u64 = 30 * 24 * 60 * 60;

pub(crate) struct WebSession(String);

impl WebSession {
    pub fn new() -> Self {
        Self(random_hex(BYTES))
    }

    /// The session a request names, if it looks like one.
    pub fn of(headers: &HeaderMap) -> Option<Self> {
        let all = headers
            .get_all(header::COOKIE)
            .iter()
            .filter_map(|value| value.to_str().ok());
        let mut pairs = all
            .flat_map(|value| value.split(';'))
            .filter_map(|pair| pair.trim().split_once('='));
        let (_, value) = pairs.find(|(name, _)| *name == NAME)?;
        let is_hex = value.len() == BYTES * 2 && value.bytes().all(|b| b.is_ascii_hexdigit());
        is_hex.then(|| Self(value.to_owned()))
    }

    pub fn hash(&self) -> Digest {
        Digest::of_bytes(self.0.as_bytes())
    }

    /// Scripts and other sites cannot read it. It is sent over TLS only, if browsers reach the server
    /// over TLS.
    pub fn set(&self, is_secure: bool) -> Option<HeaderValue> {
        cookie(&self.0, LIFETIME_SECONDS, is_secure)
    }

    pub fn clear(is_secure: bool) -> Option<HeaderValue> {
        cookie("", 0, is_secure)
    }
}

fn cookie(value: &str, max_age_seconds: u64, is_secure: bool) -> Option<HeaderValue> {
    let secure = if is_secure { "; Secure" } else { "" };
    let text = format!(
        "{NAME}={value}; Path=/; Max-Age={max_age_seconds}; HttpOnly; SameSite=Strict{secure}"
    );
    let mut header = HeaderValue::try_from(text).ok()?;
    header.set_sensitive(true);
    Some(header)
}
