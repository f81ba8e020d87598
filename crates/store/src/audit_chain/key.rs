//! The key of the audit log. It is never stored in the database.

use std::fmt;

use codelab_protocol::{Digest, Timestamp};
use hmac::{Hmac, KeyInit as _, Mac as _};
use serde_json::{Value, json};
use sha2::Sha256;

/// Debug output does not show the key.
#[derive(Clone)]
pub struct AuditKey(Hmac<Sha256>);

impl AuditKey {
    pub const BYTES: usize = 32;

    pub fn new(bytes: &[u8; Self::BYTES]) -> Self {
        Self(Hmac::new_from_slice(bytes).expect("an HMAC takes a key of any length"))
    }

    /// Proves that the chains from before this key were sealed with it.
    pub(crate) fn seal_of_upgrade(&self, sealed_at: Timestamp) -> Digest {
        self.mac(&json!({"what": "upgrade", "sealed_at_ms": sealed_at.as_millis()}))
    }

    /// HMAC-SHA256 of the digest of a JSON value.
    pub(crate) fn mac(&self, value: &Value) -> Digest {
        let mut mac = self.0.clone();
        mac.update(Digest::of_json(value).as_str().as_bytes());
        Digest::from_wire(&hex::encode(mac.finalize().into_bytes()))
    }
}

impl fmt::Debug for AuditKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AuditKey")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_key_or_another_value_gives_another_mac() {
        let (one, other) = (AuditKey::new(&[1; 32]), AuditKey::new(&[2; 32]));
        let mac = one.mac(&json!({"a": 1, "b": 2}));
        assert_eq!(
            mac,
            one.mac(&json!({"b": 2, "a": 1})),
            "the order of keys does not count"
        );
        assert_ne!(mac, other.mac(&json!({"a": 1, "b": 2})));
        assert_ne!(mac, one.mac(&json!({"a": 1, "b": 3})));
        assert_eq!(
            (mac.as_str().len(), format!("{one:?}")),
            (64, "AuditKey".to_owned())
        );
    }
}
