//! How connections leave this machine: whom to trust, and through which proxies.

use std::path::PathBuf;

use http::Uri;

use crate::address::is_private_address;
use crate::proxy::ProxySettings;
use crate::{TransportConfigError, tls};

/// Settings of all outgoing connections. The default trusts the system's roots and uses no proxy.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NetworkOptions {
    /// PEM certificates that are trusted in addition to the system's roots.
    pub ca_file: Option<PathBuf>,
    pub proxies: ProxySettings,
}

impl NetworkOptions {
    /// Reads the CA file once, so that a wrong path is noticed before the first connection.
    pub fn check(&self) -> Result<(), TransportConfigError> {
        match &self.ca_file {
            Some(path) => tls::read_certificates(path).map(|_| ()),
            None => Ok(()),
        }
    }

    /// Whether only the private network sees a request to this address: its host is private, and no
    /// proxy can read the request.
    pub fn keeps_private(&self, url: &str) -> bool {
        let Ok(uri) = url.trim().parse::<Uri>() else {
            return false;
        };
        let is_unread =
            || uri.scheme_str() == Some("https") || matches!(self.proxies.choose(&uri), Ok(None));
        is_private_address(url) && is_unread()
    }
}
