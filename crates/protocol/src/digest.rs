//! The digest of a tool call. It ensures that what a person approved is what runs.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use sha2::Digest as _;

/// SHA-256 as lower-case hex.
#[derive(
    Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, utoipa::ToSchema,
)]
#[serde(transparent)]
#[schema(value_type = String)]
pub struct Digest(String);

impl Digest {
    pub fn of_bytes(bytes: &[u8]) -> Self {
        Self(hex::encode(sha2::Sha256::digest(bytes)))
    }

    /// The digest of the RFC 8785 (canonical) form of a JSON value.
    pub fn of_json(value: &Value) -> Self {
        // A `Value` has string keys and finite numbers, so it always has a canonical form; if it
        // had none, its ordinary form would still tell it from every other value.
        let canonical = serde_json_canonicalizer::to_vec(value)
            .unwrap_or_else(|_| value.to_string().into_bytes());
        Self::of_bytes(&canonical)
    }

    /// A digest as a caller sent it. A text that is not a digest never matches.
    pub fn from_wire(text: &str) -> Self {
        Self(text.to_ascii_lowercase())
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// SHA-256 of the RFC 8785 JSON of `{tool, arguments}`.
pub fn arguments_digest(tool: &str, arguments: &Map<String, Value>) -> Digest {
    Digest::of_json(&serde_json::json!({ "tool": tool, "arguments": arguments }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_digest_ignores_key_order_and_sees_every_byte() {
        let one: Map<String, Value> =
            serde_json::from_str(r#"{"path":"a.py","content":"x = 1"}"#).unwrap();
        let same: Map<String, Value> =
            serde_json::from_str(r#"{"content":"x = 1","path":"a.py"}"#).unwrap();
        let other: Map<String, Value> =
            serde_json::from_str(r#"{"content":"x = 2","path":"a.py"}"#).unwrap();
        let digest = arguments_digest("write_file", &one);
        assert_eq!(digest, arguments_digest("write_file", &same));
        assert_ne!(digest, arguments_digest("write_file", &other));
        assert_ne!(digest, arguments_digest("read_file", &one));
        let canonical = br#"{"arguments":{"content":"x = 1","path":"a.py"},"tool":"write_file"}"#;
        assert_eq!(digest, Digest::of_bytes(canonical));
    }
}
