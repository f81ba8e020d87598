//! The origin of a web page: scheme, host and port.

use axum::http::Uri;

use super::{ConfigError, wrong};

/// An `http` or `https` address, lower case.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HttpOrigin {
    scheme: String,
    authority: String,
    host: String,
}

impl HttpOrigin {
    pub(super) fn parse(setting: &str, text: &str) -> Result<Self, ConfigError> {
        let refused = || {
            wrong(
                setting,
                "must be an address such as https://codelab.example",
            )
        };
        let uri: Uri = text.trim().parse().map_err(|_| refused())?;
        let scheme = uri
            .scheme_str()
            .filter(|scheme| matches!(*scheme, "http" | "https"))
            .ok_or_else(refused)?;
        let authority = uri
            .authority()
            .filter(|authority| !authority.as_str().contains('@'))
            .ok_or_else(refused)?;
        Ok(Self {
            scheme: scheme.to_owned(),
            authority: authority.as_str().to_lowercase(),
            host: authority.host().to_lowercase(),
        })
    }

    /// As browsers send it.
    pub fn text(&self) -> String {
        format!("{}://{}", self.scheme, self.authority)
    }

    /// Whether browsers come over TLS.
    pub fn is_https(&self) -> bool {
        self.scheme == "https"
    }

    pub fn host(&self) -> &str {
        &self.host
    }
}
