//! The entries of a collection's file, and their encoding.

use codelab_protocol::{TaskId, Timestamp};
use serde::{Deserialize, Serialize};

use super::FileFailure;
use crate::point::{DenseLayout, Point};
use crate::{Hit, MemoryEntryId};

#[derive(Debug, Serialize, Deserialize)]
pub enum LogEntry<'a> {
    /// The layout of the vectors in later records. If present, it comes before the first record.
    Dense(DenseLayout),
    /// A new interaction. It replaces an older one with the same id.
    #[serde(borrow)]
    Put(IndexedEntry<'a>),
    Delete(Vec<u64>),
}

/// An interaction with everything that a search needs.
#[derive(Debug, Serialize, Deserialize)]
pub struct IndexedEntry<'a> {
    pub id: u64,
    /// Milliseconds since 1970.
    pub timestamp: i64,
    pub success: bool,
    pub kind: &'a str,
    pub session: Option<&'a str>,
    task: Option<&'a str>,
    text: &'a str,
    /// JSON, unchanged.
    metadata: &'a str,
    /// Distinct, in rising order, with as many weights.
    pub terms: Vec<u32>,
    pub weights: Vec<f32>,
    /// Of length one.
    pub dense: Option<Vec<f32>>,
}

impl<'a> LogEntry<'a> {
    pub fn decode(bytes: &'a [u8]) -> Result<Self, FileFailure> {
        postcard::from_bytes(bytes)
            .map_err(|error| FileFailure::Broken(format!("an entry cannot be read: {error}")))
    }

    pub fn encode(&self) -> Result<Vec<u8>, FileFailure> {
        postcard::to_allocvec(self)
            .map_err(|error| FileFailure::Broken(format!("an entry cannot be written: {error}")))
    }
}

/// The entry that adds a point.
pub fn put(point: Point) -> Result<Vec<u8>, FileFailure> {
    let Point {
        interaction,
        sparse,
        dense,
    } = point;
    let metadata = serde_json::to_string(&interaction.metadata)
        .map_err(|error| FileFailure::Broken(error.to_string()))?;
    let (terms, weights) = sparse
        .map(|vector| (vector.indices, vector.values))
        .unwrap_or_default();
    let record = IndexedEntry {
        id: interaction.id.0,
        timestamp: interaction.timestamp.as_millis(),
        success: interaction.success,
        kind: &interaction.kind,
        session: interaction.session_id.as_ref().map(|id| id.as_str()),
        task: interaction.task_id.as_ref().map(|id| id.as_str()),
        text: &interaction.text,
        metadata: &metadata,
        terms,
        weights,
        dense: dense.map(super::dense::normalized),
    };
    LogEntry::Put(record).encode()
}

impl IndexedEntry<'_> {
    pub fn hit(&self, score: f32) -> Result<Hit, FileFailure> {
        let metadata = serde_json::from_str(self.metadata)
            .map_err(|error| FileFailure::Broken(error.to_string()))?;
        Ok(Hit {
            id: MemoryEntryId(self.id),
            text: self.text.to_owned(),
            score,
            kind: self.kind.to_owned(),
            success: self.success,
            task_id: self.task.and_then(|id| TaskId::parse(id).ok()),
            timestamp: Timestamp::from_millis(self.timestamp),
            metadata,
        })
    }
}
