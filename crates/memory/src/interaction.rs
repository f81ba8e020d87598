//! Interactions, queries and hits. They are validated here once, so that engines need not check
//! them.

use codelab_protocol::{SessionId, TaskId, Timestamp};
use serde_json::{Map, Value};

use crate::MemoryError;

const MAX_TEXT_BYTES: usize = 64 * 1024;
const MAX_LABEL_BYTES: usize = 256;
const MAX_METADATA_BYTES: usize = 16 * 1024;
const MAX_QUERY_BYTES: usize = 16 * 1024;
const MAX_TOP_K: usize = 100;
/// Maximum number of interactions in one call.
const MAX_BATCH: usize = 1000;

/// Chosen by the caller, who stores the interaction. Adding with the same id replaces the old one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct MemoryEntryId(pub u64);

/// Something that an agent did or was told.
#[derive(Debug, Clone, PartialEq)]
pub struct MemoryEntry {
    pub id: MemoryEntryId,
    pub text: String,
    /// Its `type`.
    pub kind: String,
    pub success: bool,
    pub task_id: Option<TaskId>,
    /// The session where it happened. It is removed with its session.
    pub session_id: Option<SessionId>,
    pub timestamp: Timestamp,
    pub metadata: Map<String, Value>,
}

/// Which interactions a search may return. `None` means any. Both times are inclusive.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Filter {
    pub kind: Option<String>,
    pub success: Option<bool>,
    pub since: Option<Timestamp>,
    pub until: Option<Timestamp>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Query {
    pub text: String,
    pub top_k: usize,
    pub filter: Filter,
}

/// A found interaction. Scores can be compared only within one result: they are BM25 sums, or fused
/// ranks if an embedding model is configured.
#[derive(Debug, Clone, PartialEq)]
pub struct Hit {
    pub id: MemoryEntryId,
    pub text: String,
    pub score: f32,
    pub kind: String,
    pub success: bool,
    pub task_id: Option<TaskId>,
    pub timestamp: Timestamp,
    pub metadata: Map<String, Value>,
}

impl Query {
    pub(crate) fn check(&self) -> Result<(), MemoryError> {
        require(!self.text.trim().is_empty(), "query must not be blank")?;
        at_most("query", self.text.len(), MAX_QUERY_BYTES)?;
        require(
            (1..=MAX_TOP_K).contains(&self.top_k),
            "top_k must be 1 to 100",
        )
    }
}

pub(crate) fn check_batch(interactions: &[MemoryEntry]) -> Result<(), MemoryError> {
    at_most("interactions", interactions.len(), MAX_BATCH)?;
    interactions.iter().try_for_each(MemoryEntry::check)
}

pub(crate) fn check_ids(ids: &[MemoryEntryId]) -> Result<(), MemoryError> {
    at_most("interactions", ids.len(), MAX_BATCH)
}

impl MemoryEntry {
    fn check(&self) -> Result<(), MemoryError> {
        require(!self.text.trim().is_empty(), "text must not be blank")?;
        at_most("text", self.text.len(), MAX_TEXT_BYTES)?;
        at_most("type", self.kind.len(), MAX_LABEL_BYTES)?;
        let metadata_bytes =
            serde_json::to_vec(&self.metadata).map_or(usize::MAX, |json| json.len());
        at_most("metadata", metadata_bytes, MAX_METADATA_BYTES)
    }
}

fn require(is_met: bool, reason: &str) -> Result<(), MemoryError> {
    if is_met {
        Ok(())
    } else {
        Err(MemoryError::Invalid {
            reason: reason.into(),
        })
    }
}

fn at_most(what: &str, actual: usize, max: usize) -> Result<(), MemoryError> {
    if actual <= max {
        return Ok(());
    }
    Err(MemoryError::Invalid {
        reason: format!("{what} must be at most {max} long"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_kept() {
        let good = MemoryEntry {
            id: MemoryEntryId(1),
            text: "a".repeat(MAX_TEXT_BYTES),
            kind: "task".into(),
            success: true,
            task_id: None,
            session_id: None,
            timestamp: Timestamp::from_millis(0),
            metadata: Map::new(),
        };
        let bad = [
            MemoryEntry {
                text: " \n".into(),
                ..good.clone()
            },
            MemoryEntry {
                text: "a".repeat(MAX_TEXT_BYTES + 1),
                ..good.clone()
            },
            MemoryEntry {
                kind: "k".repeat(MAX_LABEL_BYTES + 1),
                ..good.clone()
            },
            MemoryEntry {
                metadata: Map::from_iter([("m".into(), "v".repeat(MAX_METADATA_BYTES).into())]),
                ..good.clone()
            },
        ];
        for interaction in bad {
            assert!(check_batch(&[good.clone(), interaction]).is_err());
        }
        assert!(check_batch(std::slice::from_ref(&good)).is_ok());
        assert!(
            check_batch(&vec![
                MemoryEntry {
                    text: "a".into(),
                    ..good
                };
                MAX_BATCH + 1
            ])
            .is_err()
        );

        let query = |text: &str, top_k| {
            Query {
                text: text.into(),
                top_k,
                filter: Filter::default(),
            }
            .check()
        };
        assert!(query("a", 1).is_ok() && query("a", MAX_TOP_K).is_ok());
        assert!(
            query("", 1).is_err() && query("a", 0).is_err() && query("a", MAX_TOP_K + 1).is_err()
        );
        assert!(query(&"a".repeat(MAX_QUERY_BYTES + 1), 1).is_err());
    }
}
