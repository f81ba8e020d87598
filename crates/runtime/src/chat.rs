//! The one global Chat while the server runs: in memory, for everybody, gone with the process.
//!
//! What happens is decided by [`Chat`]; here its effects are performed and those who wait are
//! woken.

mod adaptive;
mod ids;
mod reader;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use codelab_engine::{
    AskerId, Chat, ChatApplied, ChatEffect, ChatInput, ChatLimits, IdBlock, Refusal,
};
use codelab_protocol::{GlobalMessage, GlobalMessageId, GlobalMeta, UserAnswer, UserId};
use tokio::sync::{Notify, mpsc, oneshot};

pub(crate) use adaptive::run as adaptive_agent;
pub(crate) use ids::{keep_ids, reserve as reserve_ids};
pub use reader::ChatReader;

use crate::RuntimeError;
use crate::clock::now;
use crate::metrics::{Metrics, OpenGauge};

/// A page of the history ends with the message that exceeds this size.
const MAX_PAGE_BYTES: usize = 8 * 1024 * 1024;

pub struct GlobalChat {
    state: Mutex<State>,
    changed: Notify,
    /// Another block of numbers is needed.
    ids_low: Notify,
    metrics: Arc<Metrics>,
    wake: mpsc::Sender<Arc<GlobalMessage>>,
}

struct State {
    chat: Chat,
    waiting: HashMap<AskerId, oneshot::Sender<UserAnswer>>,
    last_asker: u64,
    stopped: bool,
}

/// A question that was asked; dropping it takes it back.
pub struct OpenQuestion {
    chat: Arc<GlobalChat>,
    asker: AskerId,
    answer: oneshot::Receiver<UserAnswer>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NoAnswer {
    #[error("Nobody answered in time")]
    TimedOut,
    #[error("The server is stopping")]
    Stopping,
}

impl GlobalChat {
    /// The Chat, and what wakes AdaptiveAgent.
    pub(crate) fn new(
        limits: ChatLimits,
        ids: IdBlock,
        metrics: Arc<Metrics>,
    ) -> (Arc<Self>, mpsc::Receiver<Arc<GlobalMessage>>) {
        // The Chat wakes AdaptiveAgent only when it rests, so there is always room.
        let (wake, woken) = mpsc::channel(1);
        let chat = Chat::new(limits, ids);
        let state = Mutex::new(State {
            chat,
            waiting: HashMap::new(),
            last_asker: 0,
            stopped: false,
        });
        let (changed, ids_low) = Default::default();
        (
            Arc::new(Self {
                state,
                changed,
                ids_low,
                metrics,
                wake,
            }),
            woken,
        )
    }

    /// Accepted whether anybody reads or not.
    pub fn post_agent(
        &self,
        author: &str,
        text: &str,
        meta: GlobalMeta,
    ) -> Result<GlobalMessageId, RuntimeError> {
        let (author, text) = (author.to_owned(), text.to_owned());
        self.post(ChatInput::AgentMessage { author, text, meta })
    }

    /// Answers the question that is shown, if there is one.
    pub fn post_user(
        &self,
        text: &str,
        user: Option<UserId>,
    ) -> Result<GlobalMessageId, RuntimeError> {
        self.post(ChatInput::UserMessage {
            text: text.to_owned(),
            user,
        })
    }

    /// Asks as soon as the questions before it have ended.
    pub fn ask_user(
        self: &Arc<Self>,
        author: &str,
        question: &str,
        meta: GlobalMeta,
    ) -> Result<OpenQuestion, RuntimeError> {
        let (sender, answer) = oneshot::channel();
        let (author, text) = (author.to_owned(), question.to_owned());
        let mut state = self.open()?;
        state.last_asker += 1;
        let asker = AskerId(state.last_asker);
        state.waiting.insert(asker, sender);
        let asked = self.take(
            &mut state,
            ChatInput::Question {
                asker,
                author,
                text,
                meta,
            },
        );
        if asked.is_err() {
            state.waiting.remove(&asker);
        }
        drop(state);
        asked?;
        Ok(OpenQuestion {
            chat: Arc::clone(self),
            asker,
            answer,
        })
    }

    /// The newest messages, oldest first, as far as they fit in a page.
    pub fn last(&self, count: usize) -> Vec<Arc<GlobalMessage>> {
        let mut page = page(self.lock().chat.newest_first(), count, MAX_PAGE_BYTES);
        page.reverse();
        page
    }

    /// What was said after a message, oldest first, as far as it fits in a page.
    pub fn after(&self, id: i64, count: usize) -> Vec<Arc<GlobalMessage>> {
        page(self.lock().chat.after(id), count, MAX_PAGE_BYTES)
    }

    /// What was said before a message, newest first.
    fn known_to(&self, woken_by: GlobalMessageId, count: usize) -> Vec<Arc<GlobalMessage>> {
        self.lock()
            .chat
            .known_to(woken_by)
            .take(count)
            .cloned()
            .collect()
    }

    /// Follows the Chat after a message. Without one, or with an id that was never given out, it
    /// begins with the newest `last` messages.
    pub fn read(self: &Arc<Self>, after: Option<i64>, last: usize) -> ChatReader {
        let after = after
            .filter(|id| *id <= self.lock().chat.last_id())
            .unwrap_or_else(|| {
                let state = self.lock();
                let first = state.chat.newest_first().take(last).last();
                first.map_or(state.chat.last_id(), |first| first.id.get() - 1)
            });
        ChatReader::new(Arc::clone(self), after, OpenGauge::stream(&self.metrics))
    }

    pub(crate) fn say(&self, text: String, meta: GlobalMeta) {
        if let Err(error) = self.post(ChatInput::SystemMessage { text, meta }) {
            tracing::warn!(%error, "message from the server refused by the Chat");
        }
    }

    /// AdaptiveAgent takes the next message, if one waits.
    fn rested(&self) {
        // Only a stopped Chat refuses, and then nothing follows.
        let _ = self.perform(ChatInput::Rested);
    }

    /// Readers and askers end.
    pub(crate) fn stop(&self) {
        let mut state = self.lock();
        state.stopped = true;
        state.waiting.clear();
        drop(state);
        self.changed.notify_waiters();
    }

    fn post(&self, input: ChatInput) -> Result<GlobalMessageId, RuntimeError> {
        // Every input that comes here becomes a message.
        self.perform(input)?.posted.ok_or(RuntimeError::Stopping)
    }

    fn perform(&self, input: ChatInput) -> Result<ChatApplied, RuntimeError> {
        let mut state = self.open()?;
        Ok(self.take(&mut state, input)?)
    }

    fn take(&self, state: &mut State, input: ChatInput) -> Result<ChatApplied, Refusal> {
        let applied = state.chat.apply(input, now());
        if state.chat.ids_left() < ids::LOW {
            self.ids_low.notify_one();
        }
        let applied = applied.inspect_err(|refusal| {
            Metrics::count(&self.metrics.chat_refusals, refusal.code.as_str());
        })?;
        for effect in &applied.effects {
            match effect {
                ChatEffect::Push(message) => {
                    Metrics::count(&self.metrics.chat_messages, message.role.as_str());
                    self.changed.notify_waiters();
                }
                ChatEffect::Answer { asker, answer } => {
                    if let Some(waiting) = state.waiting.remove(asker) {
                        // An asker that left at this very moment does not hear it.
                        let _ = waiting.send(answer.clone());
                    }
                }
                ChatEffect::Expire(asker) => drop(state.waiting.remove(asker)),
                ChatEffect::Wake(message) => {
                    if self.wake.try_send(Arc::clone(message)).is_err() {
                        tracing::warn!("AdaptiveAgent is not running");
                    }
                }
            }
        }
        Ok(applied)
    }

    fn open(&self) -> Result<MutexGuard<'_, State>, RuntimeError> {
        let state = self.lock();
        if state.stopped {
            Err(RuntimeError::Stopping)
        } else {
            Ok(state)
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // No code that holds this lock can leave the state half-changed.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn gauges(&self) -> ChatGauges {
        let state = self.lock();
        ChatGauges {
            messages: state.chat.len(),
            askers: state.chat.askers(),
            backlog: state.chat.backlog(),
        }
    }
}

/// Messages up to a number and, but for the last of them, a size.
fn page<'a>(
    messages: impl Iterator<Item = &'a Arc<GlobalMessage>>,
    count: usize,
    max_bytes: usize,
) -> Vec<Arc<GlobalMessage>> {
    let mut bytes = 0;
    let fits = |message: &&Arc<GlobalMessage>| {
        let before = bytes;
        bytes += message.text.len();
        before < max_bytes
    };
    messages.take(count).take_while(fits).cloned().collect()
}

/// How full the Chat is.
pub(crate) struct ChatGauges {
    pub messages: usize,
    pub askers: usize,
    pub backlog: usize,
}

impl OpenQuestion {
    /// Waits for the user; for ever without a time limit.
    pub async fn wait_user(mut self, timeout: Option<Duration>) -> Result<UserAnswer, NoAnswer> {
        let Some(timeout) = timeout else {
            return (&mut self.answer).await.map_err(|_| NoAnswer::Stopping);
        };
        if let Ok(ended) = tokio::time::timeout(timeout, &mut self.answer).await {
            return ended.map_err(|_| NoAnswer::Stopping);
        }
        let expired = self.chat.perform(ChatInput::Expired(self.asker));
        // An answer that came at the last moment counts: the user was told that it did.
        match (self.answer.try_recv(), expired) {
            (Ok(answer), _) => Ok(answer),
            (Err(_), Ok(_)) => Err(NoAnswer::TimedOut),
            (Err(_), Err(_)) => Err(NoAnswer::Stopping),
        }
    }
}

impl Drop for OpenQuestion {
    fn drop(&mut self) {
        // After an answer or the end of its time nobody of this name waits any more.
        let _ = self.chat.perform(ChatInput::Withdrawn(self.asker));
    }
}
