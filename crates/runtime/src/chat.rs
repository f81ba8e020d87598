//! The one global Chat at this server: in memory, for everybody, while this server owns it.
//!
//! What happens is decided by [`Chat`]; here its effects are performed and those who wait are
//! woken. One server of an installation owns the Chat; a server that is alone always does.

mod adaptive;
mod answer;
mod ids;
mod moving;
mod question;
mod reader;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use codelab_engine::{AskerId, Chat, ChatApplied, ChatEffect, ChatInput, ChatLimits, Refusal};
use codelab_protocol::{GlobalMessage, GlobalMessageId, GlobalMeta, UserAnswer, UserId};
use tokio::sync::{Notify, oneshot};
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

pub(crate) use adaptive::run as adaptive_agent;
pub(crate) use ids::{keep_ids, reserve as reserve_ids};
pub use question::{NoAnswer, OpenQuestion};
pub use reader::{ChatNews, ChatReader};

use self::answer::RunningAnswer;
use crate::RuntimeError;
use crate::clock::now;
use crate::cluster::ServerLease;
use crate::metrics::{Metrics, OpenGauge};

/// A page of the history ends with the message that exceeds this size.
const MAX_PAGE_BYTES: usize = 8 * 1024 * 1024;

pub struct GlobalChat {
    limits: ChatLimits,
    state: Mutex<State>,
    changed: Notify,
    /// Another block of numbers is needed.
    ids_low: Notify,
    /// AdaptiveAgent has something to do.
    woken: Notify,
    metrics: Arc<Metrics>,
    /// Nothing is shown or accepted while the server is paused.
    lease: Arc<ServerLease>,
}

struct State {
    /// `None` while another server owns the Chat.
    owned: Option<Owned>,
    /// How often this server became the owner.
    tenures: u64,
    last_asker: u64,
    stopped: bool,
}

/// What lives while this server owns the Chat.
struct Owned {
    tenure: u64,
    chat: Chat,
    waiting: HashMap<AskerId, oneshot::Sender<Result<UserAnswer, NoAnswer>>>,
    /// Not yet seen by AdaptiveAgent. The Chat wakes it only when it rests, so there is one at most.
    to_work_on: Option<Arc<GlobalMessage>>,
    /// From the message that wakes AdaptiveAgent until it rests.
    answer: Option<RunningAnswer>,
    /// This server does not own the Chat any more.
    ended: CancellationToken,
    /// Ends the questions whose askers do not come back.
    _expiry: Option<AbortOnDropHandle<()>>,
}

/// A message that AdaptiveAgent works on, until this server loses the Chat.
struct Assignment {
    message: Arc<GlobalMessage>,
    tenure: u64,
    ended: CancellationToken,
    /// Somebody stopped the answer.
    stop: CancellationToken,
}

impl State {
    /// What can be read.
    fn owned(&self) -> Result<&Owned, RuntimeError> {
        self.owned.as_ref().ok_or(RuntimeError::Elsewhere)
    }

    /// What can be changed.
    fn open(&mut self) -> Result<&mut Owned, RuntimeError> {
        if self.stopped {
            return Err(RuntimeError::Stopping);
        }
        self.owned.as_mut().ok_or(RuntimeError::Elsewhere)
    }
}

impl GlobalChat {
    /// Another server owns the Chat until [`GlobalChat::begin`].
    pub(crate) fn new(
        limits: ChatLimits,
        metrics: Arc<Metrics>,
        lease: Arc<ServerLease>,
    ) -> Arc<Self> {
        let state = Mutex::new(State {
            owned: None,
            tenures: 0,
            last_asker: 0,
            stopped: false,
        });
        let (changed, ids_low, woken) = Default::default();
        Arc::new(Self {
            limits,
            state,
            changed,
            ids_low,
            woken,
            metrics,
            lease,
        })
    }

    /// Whether this server owns the Chat.
    pub fn is_here(&self) -> bool {
        self.lock().owned.is_some()
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
        let mut state = self.lock();
        let asker = AskerId(state.last_asker + 1);
        let owned = state.open()?;
        owned.waiting.insert(asker, sender);
        let asked = self.take(
            owned,
            ChatInput::Question {
                asker,
                author,
                text,
                meta,
            },
        );
        if asked.is_err() {
            owned.waiting.remove(&asker);
        }
        state.last_asker = asker.0;
        drop(state);
        asked?;
        Ok(OpenQuestion::new(Arc::clone(self), asker, answer))
    }

    /// The newest messages, oldest first, as far as they fit in a page.
    pub fn last(&self, count: usize) -> Result<Vec<Arc<GlobalMessage>>, RuntimeError> {
        let state = self.lock();
        let mut page = page(state.owned()?.chat.newest_first(), count, MAX_PAGE_BYTES);
        page.reverse();
        Ok(page)
    }

    /// What was said after a message, oldest first, as far as it fits in a page.
    pub fn after(&self, id: i64, count: usize) -> Result<Vec<Arc<GlobalMessage>>, RuntimeError> {
        let state = self.lock();
        Ok(page(state.owned()?.chat.after(id), count, MAX_PAGE_BYTES))
    }

    /// What was said before a message, newest first.
    fn known_to(&self, woken_by: GlobalMessageId, count: usize) -> Vec<Arc<GlobalMessage>> {
        let state = self.lock();
        let owned = state.owned.iter();
        let known = owned.flat_map(|owned| owned.chat.known_to(woken_by));
        known.take(count).cloned().collect()
    }

    /// Follows the Chat after a message. Without one, or with an id that was never given out, it
    /// begins with the newest `last` messages.
    pub fn read(
        self: &Arc<Self>,
        after: Option<i64>,
        last: usize,
    ) -> Result<ChatReader, RuntimeError> {
        let state = self.lock();
        let chat = &state.owned()?.chat;
        let after = after.filter(|id| *id <= chat.last_id()).unwrap_or_else(|| {
            let first = chat.newest_first().take(last).last();
            first.map_or(chat.last_id(), |first| first.id.get() - 1)
        });
        let open = OpenGauge::stream(&self.metrics);
        Ok(ChatReader::new(Arc::clone(self), after, open))
    }

    pub(crate) fn say(&self, text: String, meta: GlobalMeta) {
        if let Err(error) = self.post(ChatInput::SystemMessage { text, meta }) {
            tracing::warn!(%error, "message from the server refused by the Chat");
        }
    }

    /// Waits for what AdaptiveAgent is to work on. Only AdaptiveAgent may wait here.
    async fn next_assignment(&self) -> Assignment {
        loop {
            if let Some(assignment) = self.assignment() {
                return assignment;
            }
            self.woken.notified().await;
        }
    }

    fn assignment(&self) -> Option<Assignment> {
        let mut state = self.lock();
        let owned = state.owned.as_mut()?;
        let message = owned.to_work_on.take()?;
        Some(Assignment {
            message,
            tenure: owned.tenure,
            ended: owned.ended.clone(),
            stop: owned.answer.as_ref()?.stop(),
        })
    }

    /// AdaptiveAgent takes the next message, if one waits. If the Chat moved meanwhile, its owner
    /// has the message worked on again.
    fn rested(&self, tenure: u64) {
        let mut state = self.lock();
        // A stopped Chat refuses, and then nothing follows.
        if let Ok(owned) = state.open()
            && owned.tenure == tenure
        {
            owned.answer = None;
            let _ = self.take(owned, ChatInput::Rested);
        }
    }

    /// Readers and askers end.
    pub(crate) fn stop(&self) {
        let mut state = self.lock();
        state.stopped = true;
        if let Some(owned) = &mut state.owned {
            owned.waiting.clear();
        }
        drop(state);
        self.changed.notify_waiters();
    }

    fn post(&self, input: ChatInput) -> Result<GlobalMessageId, RuntimeError> {
        // Every input that comes here becomes a message.
        self.perform(input)?.posted.ok_or(RuntimeError::Stopping)
    }

    fn perform(&self, input: ChatInput) -> Result<ChatApplied, RuntimeError> {
        let mut state = self.lock();
        Ok(self.take(state.open()?, input)?)
    }

    fn take(&self, owned: &mut Owned, input: ChatInput) -> Result<ChatApplied, Refusal> {
        let applied = owned.chat.apply(input, now());
        if owned.chat.ids_left() < ids::LOW {
            self.ids_low.notify_one();
        }
        let applied = applied.inspect_err(|refusal| {
            Metrics::count(&self.metrics.chat_refusals, refusal.code.as_str());
        })?;
        self.perform_effects(owned, &applied.effects);
        Ok(applied)
    }

    fn perform_effects(&self, owned: &mut Owned, effects: &[ChatEffect]) {
        for effect in effects {
            match effect {
                ChatEffect::Push(message) => {
                    Metrics::count(&self.metrics.chat_messages, message.role.as_str());
                    self.changed.notify_waiters();
                }
                ChatEffect::Answer { asker, answer } => {
                    if let Some(waiting) = owned.waiting.remove(asker) {
                        // An asker that left at this very moment does not hear it.
                        let _ = waiting.send(Ok(answer.clone()));
                    }
                }
                ChatEffect::Expire(asker) => drop(owned.waiting.remove(asker)),
                ChatEffect::Wake(message) => {
                    owned.to_work_on = Some(Arc::clone(message));
                    owned.answer = Some(RunningAnswer::new(message.id));
                    self.woken.notify_one();
                }
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // No code that holds this lock can leave the state half-changed.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn gauges(&self) -> ChatGauges {
        let state = self.lock();
        let chat = state.owned.as_ref().map(|owned| &owned.chat);
        ChatGauges {
            messages: chat.map_or(0, Chat::len),
            askers: chat.map_or(0, Chat::askers),
            backlog: chat.map_or(0, Chat::backlog),
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

/// How full the Chat is; empty while another server owns it.
pub(crate) struct ChatGauges {
    pub messages: usize,
    pub askers: usize,
    pub backlog: usize,
}
