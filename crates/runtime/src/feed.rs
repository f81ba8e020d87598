//! What readers of a session look at: its newest events and the answers that are being written.
//!
//! Readers pull at their own pace and keep only a cursor, so a slow one costs nothing: what has
//! left the buffer is read from the store, and tokens that came in the meantime are one piece.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use codelab_engine::StreamedAnswers;
use codelab_protocol::{AgentName, MessageId, ProjectId, TaskOrigin, ToolProgress, TurnId};
use codelab_store::{SessionKey, StoreError, StoredEvent};
use tokio::sync::Notify;

/// Events kept for readers that are close behind.
const MAX_RECENT_EVENTS: usize = 128;
const MAX_RECENT_BYTES: usize = 256 * 1024;
/// What is shown of one answer's reasoning while it is written. The rest is only kept with the
/// message.
const MAX_REASONING_BYTES: usize = 256 * 1024;

/// Tool calls whose progress is kept; the one that told longest ago makes room.
const MAX_PROGRESS_CALLS: usize = 64;

#[derive(Default)]
pub(crate) struct Feed {
    state: Mutex<FeedState>,
    pub changed: Notify,
}

#[derive(Default)]
pub(crate) struct FeedState {
    /// Whose events these are. After a purge another session can have the name.
    pub key: Option<SessionKey>,
    /// The number of the newest event, once the session's owner has said so.
    pub last_seq: Option<u64>,
    pub recent: VecDeque<Arc<StoredEvent>>,
    recent_bytes: usize,
    pub answers: Vec<PartialAnswer>,
    /// How far tool calls are: what was told last of each.
    pub progress: Vec<CallProgress>,
    progress_told: u64,
    /// Why what was done last is not stored yet, with a number that tells this trouble from an
    /// earlier one.
    pub trouble: Option<(u64, StoreError)>,
    troubles: u64,
    /// No turn runs or waits, so nothing more will come by itself.
    pub idle: bool,
    /// The session is gone; readers end.
    pub closed: bool,
    /// The server stops, or the session moves to another one; readers end, for good.
    pub stopped: bool,
    /// The project that the session belongs to.
    project: Option<ProjectId>,
}

/// How far a tool call is.
#[derive(Clone)]
pub(crate) struct CallProgress {
    pub turn: TurnId,
    /// Tells it from what was told before.
    pub number: u64,
    pub progress: ToolProgress,
}

/// The text of a model's answer so far.
#[derive(Clone)]
pub(crate) struct PartialAnswer {
    pub turn: TurnId,
    pub message_id: MessageId,
    pub agent: AgentName,
    pub attempt: u32,
    pub origin: TaskOrigin,
    pub text: String,
    /// What the model thought so far.
    pub reasoning: String,
}

impl FeedState {
    fn begin(&mut self, key: SessionKey, last_seq: u64) {
        self.recent.clear();
        self.recent_bytes = 0;
        self.trouble = None;
        self.key = Some(key);
        self.last_seq = Some(last_seq);
    }
}

impl Feed {
    pub fn lock(&self) -> MutexGuard<'_, FeedState> {
        // No code that holds this lock can leave the state half-changed.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The session's owner tells the number of the last event.
    pub fn opened(&self, key: SessionKey, last_seq: u64, idle: bool) {
        let mut state = self.lock();
        if (state.key, state.last_seq) != (Some(key), Some(last_seq)) {
            state.begin(key, last_seq);
        }
        state.idle = idle;
        state.closed = false;
        // Whoever wrote them is gone: their calls are made again.
        state.answers.clear();
        state.progress.clear();
        drop(state);
        self.changed.notify_waiters();
    }

    /// The number of the last event, as far as a reader knows that nobody owns the session.
    pub fn found(&self, key: SessionKey, last_seq: u64, idle: bool) {
        let mut state = self.lock();
        // A session with the same name that was made later has a higher key.
        if state.key < Some(key) {
            state.begin(key, last_seq);
            state.idle = idle;
            state.closed = false;
        }
    }

    /// Shows committed events. An answer being written stays only while it is still `awaited`:
    /// otherwise it is one of the events now, or was given up.
    pub fn publish(&self, events: &[Arc<StoredEvent>], idle: bool, awaited: &[(&MessageId, u32)]) {
        let mut state = self.lock();
        state.idle = idle;
        state.trouble = None;
        state
            .answers
            .retain(|answer| awaited.contains(&(&answer.message_id, answer.attempt)));
        if idle {
            state.progress.clear();
        }
        for event in events {
            state.recent_bytes += event.body.len();
            state.last_seq = Some(event.seq);
            state.recent.push_back(Arc::clone(event));
        }
        while state.recent.len() > MAX_RECENT_EVENTS || state.recent_bytes > MAX_RECENT_BYTES {
            let Some(oldest) = state.recent.pop_front() else {
                break;
            };
            state.recent_bytes -= oldest.body.len();
        }
        drop(state);
        self.changed.notify_waiters();
    }

    /// The session's next events cannot be stored, so they are not shown. Storing is tried again.
    pub fn troubled(&self, error: &StoreError) {
        let mut state = self.lock();
        if state.trouble.is_none() {
            state.troubles += 1;
            state.trouble = Some((state.troubles, error.clone()));
            drop(state);
            self.changed.notify_waiters();
        }
    }

    /// Nothing waits to be stored any more, though nothing was shown: it was given up, or somebody
    /// else has it now.
    pub fn untroubled(&self) {
        self.lock().trouble = None;
    }

    pub fn begin_answer(&self, answer: PartialAnswer) {
        let mut state = self.lock();
        state
            .answers
            .retain(|other| other.message_id != answer.message_id);
        state.answers.push(answer);
    }

    /// Tells how far a call is. Readers see what was told last.
    pub fn progress(&self, turn: TurnId, progress: ToolProgress) {
        let mut state = self.lock();
        state.progress_told += 1;
        let number = state.progress_told;
        let call_id = &progress.call_id;
        state
            .progress
            .retain(|told| told.progress.call_id != *call_id);
        if state.progress.len() >= MAX_PROGRESS_CALLS {
            state.progress.remove(0);
        }
        state.progress.push(CallProgress {
            turn,
            number,
            progress,
        });
        drop(state);
        self.changed.notify_waiters();
    }

    /// Appends to the answer, if it is still the one being written.
    pub fn push_text(&self, message_id: &MessageId, attempt: u32, text: &str) {
        self.push(message_id, attempt, |answer| answer.text.push_str(text));
    }

    /// The same for what the model thinks.
    pub fn push_reasoning(&self, message_id: &MessageId, attempt: u32, text: &str) {
        self.push(message_id, attempt, |answer| {
            let room = MAX_REASONING_BYTES.saturating_sub(answer.reasoning.len());
            let fits = text.floor_char_boundary(room);
            answer.reasoning.push_str(&text[..fits]);
        });
    }

    fn push(&self, message_id: &MessageId, attempt: u32, add: impl FnOnce(&mut PartialAnswer)) {
        let mut state = self.lock();
        let is_it = |answer: &&mut PartialAnswer| {
            answer.message_id == *message_id && answer.attempt == attempt
        };
        let Some(answer) = state.answers.iter_mut().find(is_it) else {
            return;
        };
        add(answer);
        drop(state);
        self.changed.notify_waiters();
    }

    pub fn belongs_to(&self, project: Option<ProjectId>) {
        self.lock().project = project;
    }

    pub fn project(&self) -> Option<ProjectId> {
        self.lock().project
    }

    pub fn close(&self) {
        self.lock().closed = true;
        self.changed.notify_waiters();
    }

    pub fn stop(&self) {
        self.lock().stopped = true;
        self.changed.notify_waiters();
    }
}

impl StreamedAnswers for Feed {
    fn text(&self, message_id: &MessageId, attempt: u32) -> Option<String> {
        let state = self.lock();
        let is_it =
            |answer: &&PartialAnswer| answer.message_id == *message_id && answer.attempt == attempt;
        let answer = state.answers.iter().find(is_it)?;
        Some(answer.text.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trouble_ends_when_nothing_waits_to_be_stored() {
        let feed = Feed::default();
        feed.troubled(&StoreError::DiskFull);
        feed.troubled(&StoreError::Unknown);
        assert_eq!(
            feed.lock().trouble,
            Some((1, StoreError::DiskFull)),
            "the first reason stays"
        );
        feed.untroubled();
        assert_eq!(feed.lock().trouble, None);
        feed.troubled(&StoreError::Unknown);
        assert_eq!(
            feed.lock().trouble,
            Some((2, StoreError::Unknown)),
            "another trouble"
        );
        feed.opened(SessionKey::from_raw(1), 0, true);
        assert_eq!(feed.lock().trouble, None, "it was another log's");
    }
}
