//! Events that are too large to be held for a reader: they are read from the store piece by piece,
//! as fast as the reader takes them. So one that stalls costs a piece, whatever the size of the
//! event it stalls in.

use codelab_store::{SessionKey, Store, StoreError};

/// Larger events are handed over in pieces.
pub(crate) const MAX_WHOLE_BYTES: usize = 128 * 1024;
/// A character has at most four bytes.
const PIECE_CHARS: u64 = 64 * 1024;

/// What is left of one event.
pub(crate) struct EventPieces {
    store: Store,
    key: SessionKey,
    seq: u64,
    passed_chars: u64,
}

impl EventPieces {
    pub fn new(store: Store, key: SessionKey, seq: u64) -> Self {
        Self {
            store,
            key,
            seq,
            passed_chars: 0,
        }
    }

    /// The next piece; `None` at the end. An event that was pruned meanwhile is an error: its
    /// reader has the half of it. Waiting is cancel-safe.
    pub async fn next(&mut self) -> Result<Option<String>, StoreError> {
        let piece = self
            .store
            .event_piece(self.key, self.seq, self.passed_chars, PIECE_CHARS)
            .await?;
        let piece = piece.ok_or(StoreError::NotFound)?;
        self.passed_chars += PIECE_CHARS;
        Ok((!piece.is_empty()).then_some(piece))
    }
}
