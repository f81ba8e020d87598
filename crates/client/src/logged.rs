//! What the events of both kinds of session have in common for a reader: where their log is, and
//! which of them are pieces of an answer that is still being written.

use codelab_protocol::{
    Chunk, ChunkBody, Gap, MessageId, SessionEvent, SessionEventBody, SessionId,
};
use serde::de::DeserializeOwned;

/// An event of a session's log.
pub trait LoggedEvent: DeserializeOwned + Send + 'static {
    fn log_path(session: &SessionId) -> String;

    /// The piece of an unfinished answer that this event is.
    fn piece(&mut self) -> Option<DeltaPiece<'_>>;

    /// The answer that this event gives whole.
    fn finished(&self) -> Option<&MessageId>;

    /// The numbers that this event says are missing.
    fn gap(&self) -> Option<Gap>;
}

/// A part of an answer, to be cut where it was shown before.
#[derive(Debug)]
pub struct DeltaPiece<'a> {
    pub part: DeltaPart,
    pub message_id: &'a MessageId,
    pub attempt: u32,
    pub offset: &'a mut u64,
    pub content: &'a mut String,
}

/// Which text of an answer a delta belongs to. Each has offsets of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeltaPart {
    Text,
    Reasoning,
}

impl LoggedEvent for Chunk {
    fn log_path(session: &SessionId) -> String {
        format!("/sessions/{session}/events")
    }

    fn piece(&mut self) -> Option<DeltaPiece<'_>> {
        let (part, delta) = match &mut self.body {
            ChunkBody::AssistantDelta(delta) => (DeltaPart::Text, delta),
            ChunkBody::ReasoningDelta(delta) => (DeltaPart::Reasoning, delta),
            _ => return None,
        };
        Some(DeltaPiece {
            part,
            message_id: &delta.message_id,
            attempt: delta.attempt,
            offset: &mut delta.offset,
            content: &mut delta.content,
        })
    }

    fn finished(&self) -> Option<&MessageId> {
        match &self.body {
            ChunkBody::AssistantMessage(message) => Some(&message.message_id),
            _ => None,
        }
    }

    fn gap(&self) -> Option<Gap> {
        match &self.body {
            ChunkBody::Gap(gap) => Some(*gap),
            _ => None,
        }
    }
}

impl LoggedEvent for SessionEvent {
    fn log_path(session: &SessionId) -> String {
        format!("/my/chat/{session}/events")
    }

    fn piece(&mut self) -> Option<DeltaPiece<'_>> {
        let (part, delta) = match &mut self.body {
            SessionEventBody::MessageDelta(delta) => (DeltaPart::Text, delta),
            SessionEventBody::ReasoningDelta(delta) => (DeltaPart::Reasoning, delta),
            _ => return None,
        };
        Some(DeltaPiece {
            part,
            message_id: &delta.message_id,
            attempt: delta.attempt,
            offset: &mut delta.offset,
            content: &mut delta.content,
        })
    }

    fn finished(&self) -> Option<&MessageId> {
        match &self.body {
            SessionEventBody::MessageCreated(created) => Some(&created.message.message_id),
            _ => None,
        }
    }

    fn gap(&self) -> Option<Gap> {
        match &self.body {
            SessionEventBody::Gap(gap) => Some(*gap),
            _ => None,
        }
    }
}
