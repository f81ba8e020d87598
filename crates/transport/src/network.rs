//! How connections leave this machine: whom to trust, and through which proxies.

use std::path::PathBuf;

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
}
