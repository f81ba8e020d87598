//! The key by which servers of one installation know each other.

use axum::http::{HeaderMap, HeaderValue};
use codelab_llm::Secret;
use hkdf::Hkdf;
use sha2::Sha256;
use subtle::ConstantTimeEq;

use super::wire;

/// The purpose of the derived key. Another purpose gives a key that tells nothing about this one.
const PURPOSE: &[u8] = b"codelab forwarding between servers 1";

/// Derived from the internal key, so that the internal key itself is never sent to another server.
pub(crate) struct ClusterKey(HeaderValue);

impl ClusterKey {
    pub fn derive(internal_api_key: &Secret) -> Self {
        let mut key = [0; 32];
        Hkdf::<Sha256>::new(None, internal_api_key.expose().as_bytes())
            .expand(PURPOSE, &mut key)
            .expect("HKDF gives 32 bytes");
        let text: String = key.iter().map(|byte| format!("{byte:02x}")).collect();
        let mut value = HeaderValue::try_from(text).expect("hexadecimal digits");
        value.set_sensitive(true);
        Self(value)
    }

    pub fn header(&self) -> HeaderValue {
        self.0.clone()
    }

    /// Whether a request has the key, exactly once.
    pub fn is_in(&self, headers: &HeaderMap) -> bool {
        let mut given = headers.get_all(wire::KEY).iter();
        match (given.next(), given.next()) {
            // Takes the same time wherever the first difference is.
            (Some(value), None) => value.as_bytes().ct_eq(self.0.as_bytes()).into(),
            _ => false,
        }
    }
}
