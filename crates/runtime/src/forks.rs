//! A new session that begins with the history of another one of its project.

use std::collections::BTreeSet;

use codelab_engine::{Fork, MessageRecord, Refusal};
use codelab_protocol::{CallId, ErrorCode, ForkedFrom, Message, MessageId, Role, SessionId};
use codelab_store::{OwnedSession, SessionKey, SharedAttachment, Store, StoredMessage};
use tokio::sync::Semaphore;

use crate::RuntimeError;
use crate::owner::{Mail, NewFork, NewSession};
use crate::project_sessions::name;
use crate::runtime::Runtime;
use crate::space::SpaceKey;

/// Histories that are copied at the same time; each is in memory until it is stored.
const MAX_AT_ONCE: usize = 2;
/// What one fork copies at most.
const MAX_MESSAGES: usize = 10_000;
const MAX_BYTES: usize = 32 * 1024 * 1024;
/// As titles that people write.
const MAX_TITLE_CHARS: usize = 200;
const MARK: &str = " (fork)";

/// Lets a few histories be copied at a time.
pub(crate) struct ForkSlots(Semaphore);

impl Default for ForkSlots {
    fn default() -> Self {
        Self(Semaphore::new(MAX_AT_ONCE))
    }
}

impl Runtime {
    /// Makes a session with the history up to this message, the user's or an agent's. What the
    /// session does meanwhile does not matter: what is stored is copied.
    pub async fn fork_session(
        &self,
        session: &OwnedSession,
        at: &MessageId,
    ) -> Result<SessionId, RuntimeError> {
        let _slot = self.inner.fork_slots.0.acquire().await;
        let messages = history_until(&self.inner.store, session.key, at).await?;
        // Read after the messages, so that nothing in it is older than they are.
        let mine = self.inner.store.of(session.user());
        let original = mine.session(session.id()).await?;
        let original = original.ok_or(RuntimeError::SessionNotFound)?;
        let state = crate::state_of(&original)?;
        let attached = messages
            .iter()
            .flat_map(|record| &record.message.attachments);
        let files = attached.map(|file| SharedAttachment {
            from: original.key,
            digest: file.digest.clone(),
        });
        let new = NewSession {
            system_prompt: original.system_prompt.clone(),
            title: original.title.as_deref().map(title),
            budget: state.budget_as_set(),
            space: Some(SpaceKey::of_session(&original)),
            fork: Some(Box::new(NewFork {
                files: files.collect(),
                fork: Fork {
                    from: ForkedFrom {
                        session_id: original.id().clone(),
                        message_id: at.clone(),
                    },
                    original: Box::new(state),
                    messages,
                },
            })),
        };
        let id = crate::ids::session_id();
        self.ask(&name(&id), |reply| Mail::Create { new, reply })
            .await?;
        Ok(id)
    }
}

/// The session's own history up to this message, with the results of its tool calls.
async fn history_until(
    store: &Store,
    key: SessionKey,
    at: &MessageId,
) -> Result<Vec<MessageRecord>, RuntimeError> {
    let (mut copied, mut bytes, mut after) = (Vec::new(), 0, 0);
    let mut awaited: Option<BTreeSet<CallId>> = None;
    loop {
        let part = store.history(key, after).await?;
        let Some(last) = part.last() else { break };
        after = last.ord;
        for stored in part {
            let message = &stored.message;
            if message.rewound.is_some() {
                if message.message_id == *at {
                    return Err(taken_back());
                }
                continue;
            }
            match &mut awaited {
                // What comes later is not copied, except for the results.
                Some(calls) => {
                    let call = message.tool_call_id.as_ref();
                    if !call.is_some_and(|call| calls.remove(call)) {
                        continue;
                    }
                }
                None if message.message_id == *at => awaited = Some(calls_of(message)?),
                None => {}
            }
            bytes += size(message);
            copied.push(record(stored));
            if copied.len() > MAX_MESSAGES || bytes > MAX_BYTES {
                return Err(too_long());
            }
            if awaited.as_ref().is_some_and(BTreeSet::is_empty) {
                return Ok(copied);
            }
        }
    }
    match awaited {
        // A call that has no result yet gets one in the copy.
        Some(_) => Ok(copied),
        None => {
            let refusal = Refusal::new(ErrorCode::NotFound, "Message not found");
            Err(refusal.with("message_id", at.as_str()).into())
        }
    }
}

fn calls_of(message: &Message) -> Result<BTreeSet<CallId>, RuntimeError> {
    match message.role {
        Role::User | Role::Assistant => {
            let calls = message.tool_calls.iter();
            Ok(calls.map(|call| call.call_id.clone()).collect())
        }
        Role::Tool | Role::System => {
            let why = "A session is forked at a message of the user or of an agent";
            let refusal = Refusal::new(ErrorCode::ValidationError, why);
            Err(refusal.with("field", "at_message_id").into())
        }
    }
}

fn size(message: &Message) -> usize {
    let arguments = message.tool_calls.iter().flat_map(|call| &call.arguments);
    let arguments = arguments.map(|(name, value)| name.len() + value.to_string().len());
    message.content.len() + arguments.sum::<usize>()
}

/// The store numbers messages from 1.
fn record(stored: StoredMessage) -> MessageRecord {
    MessageRecord {
        ord: stored.ord.saturating_sub(1),
        turn: stored.turn,
        task: None,
        message: stored.message,
    }
}

fn taken_back() -> RuntimeError {
    let why = "A rewind took this message back. Undo the rewind, or fork at another message";
    let refusal = Refusal::new(ErrorCode::ValidationError, why);
    refusal.with("field", "at_message_id").into()
}

fn too_long() -> RuntimeError {
    let megabytes = MAX_BYTES / 1024 / 1024;
    let why = format!(
        "The history is too long to be copied: at most {MAX_MESSAGES} messages and {megabytes} MiB. \
         Fork at an earlier message"
    );
    Refusal::new(ErrorCode::PayloadTooLarge, why).into()
}

fn title(original: &str) -> String {
    let name = original.strip_suffix(MARK).unwrap_or(original);
    let room = MAX_TITLE_CHARS - MARK.len();
    let name: String = name.chars().take(room).collect();
    format!("{name}{MARK}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_title_says_that_it_is_a_fork_once() {
        assert_eq!(title("Tests"), "Tests (fork)");
        assert_eq!(title("Tests (fork)"), "Tests (fork)");
        let long = "ї".repeat(300);
        assert_eq!(title(&long).chars().count(), MAX_TITLE_CHARS);
    }
}
