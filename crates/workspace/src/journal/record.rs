//! One line of the journal: a checksum, a space, JSON.

use codelab_protocol::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use super::{CallKey, JournalClaim};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct JournalRecord {
    #[serde(flatten)]
    pub key: CallKey,
    pub at: Timestamp,
    pub step: CallStage,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum CallStage {
    Claimed(JournalClaim),
    Started,
    Finished(Value),
    Acknowledged,
    /// Nothing of the call has run, and the server may offer it again.
    Released,
}

impl CallStage {
    pub fn name(&self) -> &'static str {
        match self {
            Self::Claimed(_) => "claimed",
            Self::Started => "started",
            Self::Finished(_) => "finished",
            Self::Acknowledged => "acknowledged",
            Self::Released => "released",
        }
    }
}

impl JournalRecord {
    pub fn to_line(&self) -> serde_json::Result<String> {
        let json = serde_json::to_string(self)?;
        Ok(format!("{} {json}\n", checksum(&json)))
    }

    /// `None` for a line that is torn or damaged.
    pub fn from_line(line: &str) -> Option<Self> {
        let (sum, json) = line.split_once(' ')?;
        if sum != checksum(json) {
            return None;
        }
        serde_json::from_str(json).ok()
    }
}

/// Against accidents, not against forgery: whoever can write the file is the user.
fn checksum(json: &str) -> String {
    const BYTES: usize = 8;
    hex::encode(&Sha256::digest(json.as_bytes())[..BYTES])
}
