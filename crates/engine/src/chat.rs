//! The one global Chat: what was said, the question that waits for an answer, who asks next, and
//! what wakes AdaptiveAgent.
//!
//! Pure and bounded, like a session. It lives in the memory of the server that owns it. Nothing of
//! it is stored, except on its way from one owner to the next ([`ChatHandover`]).

mod handover;
mod ids;
mod limits;
mod prompt;
mod questions;

use std::collections::VecDeque;
use std::sync::Arc;

use codelab_protocol::{
    ErrorCode, GlobalMessage, GlobalMessageId, GlobalMeta, GlobalRole, Timestamp, UserAnswer,
    UserId,
};

pub use self::handover::ChatHandover;
use self::ids::ChatIds;
pub use self::ids::IdBlock;
pub use self::limits::{ChatLimits, MAX_CHAT_TEXT_BYTES};
use self::limits::{checked_author, checked_tags, checked_text};
pub use self::prompt::{CHAT_PROMPT, chat_history, chat_request};
pub use self::questions::DEFAULT_ANSWER_SECONDS;
use self::questions::{NoAnswerReason, OrphanAnswer, PendingQuestion, QueuedQuestion};
use crate::Refusal;

/// Who answers in the Chat.
pub const ADAPTIVE_AGENT: &str = "AdaptiveAgent";
/// Who the server itself speaks as.
const CHAT_AGENT: &str = "ChatAgent";
const USER: &str = "user";
/// An agent's message with this tag wakes AdaptiveAgent.
const SIGNAL: &str = "signal";

/// Somebody who asked and waits; named by the runtime.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct AskerId(pub u64);

#[derive(Debug, Clone, PartialEq)]
pub enum ChatInput {
    AgentMessage {
        author: String,
        text: String,
        meta: GlobalMeta,
    },
    UserMessage {
        text: String,
        user: Option<UserId>,
    },
    /// What the server itself has to say.
    SystemMessage {
        text: String,
        meta: GlobalMeta,
    },
    Question {
        asker: AskerId,
        author: String,
        text: String,
        meta: GlobalMeta,
    },
    /// The asker's time is up.
    Expired(AskerId),
    /// The asker went away.
    Withdrawn(AskerId),
    /// AdaptiveAgent is done with what woke it.
    Rested,
    /// The time of [`Chat::next_expiry`] has come.
    ExpiryDue,
}

impl ChatInput {
    /// Whether somebody new wants to speak; the others end what has begun.
    fn is_from_outside(&self) -> bool {
        match self {
            Self::AgentMessage { .. } | Self::UserMessage { .. } | Self::Question { .. } => true,
            Self::SystemMessage { .. }
            | Self::Expired(_)
            | Self::Withdrawn(_)
            | Self::Rested
            | Self::ExpiryDue => false,
        }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub enum ChatEffect {
    /// Said, and to be shown to everybody.
    Push(Arc<GlobalMessage>),
    /// The asker can go on.
    Answer { asker: AskerId, answer: UserAnswer },
    /// The asker gets no answer.
    Expire(AskerId),
    /// AdaptiveAgent begins to work on this; it says [`ChatInput::Rested`] when it is done.
    Wake(Arc<GlobalMessage>),
}

/// The outcome of an accepted input.
#[derive(Debug, Default)]
pub struct ChatApplied {
    /// The id of the message that the input became. A question that waits behind others has none
    /// yet.
    pub posted: Option<GlobalMessageId>,
    pub effects: Vec<ChatEffect>,
}

pub struct Chat {
    limits: ChatLimits,
    ids: ChatIds,
    history: VecDeque<Arc<GlobalMessage>>,
    history_bytes: usize,
    /// The question that the next user message answers.
    pending: Option<PendingQuestion>,
    /// Shown when their turn comes.
    queued: VecDeque<QueuedQuestion>,
    /// Answers whose askers have not come back yet.
    orphan_answers: VecDeque<OrphanAnswer>,
    adaptive: Adaptive,
}

enum Adaptive {
    Resting,
    Working {
        on: Arc<GlobalMessage>,
        next: VecDeque<Arc<GlobalMessage>>,
    },
}

impl Chat {
    pub fn new(limits: ChatLimits, block: IdBlock) -> Self {
        let ids = ChatIds::new(block);
        let (history, queued, orphan_answers) = Default::default();
        Self {
            limits,
            ids,
            history,
            history_bytes: 0,
            pending: None,
            queued,
            orphan_answers,
            adaptive: Adaptive::Resting,
        }
    }

    /// Takes one input. After an error nothing has changed.
    pub fn apply(&mut self, input: ChatInput, now: Timestamp) -> Result<ChatApplied, Refusal> {
        if input.is_from_outside() {
            self.ids.check()?;
        }
        let mut step = Step {
            chat: self,
            now,
            effects: Vec::new(),
        };
        let posted = match input {
            ChatInput::AgentMessage { author, text, meta } => {
                Some(step.agent_message(&author, text, meta)?)
            }
            ChatInput::UserMessage { text, user } => Some(step.user_message(&text, user)?),
            ChatInput::SystemMessage { text, meta } => Some(
                step.say(GlobalRole::System, CHAT_AGENT, checked_text(text)?, meta)
                    .id,
            ),
            ChatInput::Question {
                asker,
                author,
                text,
                meta,
            } => step.question(asker, &author, text, meta)?,
            ChatInput::Expired(asker) => {
                step.no_answer(asker, NoAnswerReason::Expired);
                None
            }
            ChatInput::Withdrawn(asker) => {
                step.no_answer(asker, NoAnswerReason::Withdrawn);
                None
            }
            ChatInput::Rested => {
                step.rested();
                None
            }
            ChatInput::ExpiryDue => {
                step.expire_orphans();
                None
            }
        };
        Ok(ChatApplied {
            posted,
            effects: step.effects,
        })
    }

    pub fn newest_first(&self) -> impl Iterator<Item = &Arc<GlobalMessage>> {
        self.history.iter().rev()
    }

    /// Everything said after a message, oldest first. The id need not exist any more.
    pub fn after(&self, id: i64) -> impl Iterator<Item = &Arc<GlobalMessage>> {
        self.history.iter().skip(
            self.history
                .partition_point(|message| message.id.get() <= id),
        )
    }

    /// What AdaptiveAgent knows when it begins to work on a message, newest first: also what was
    /// said since, but nothing that it is still to work on.
    pub fn known_to(&self, woken_by: GlobalMessageId) -> impl Iterator<Item = &Arc<GlobalMessage>> {
        let is_due = move |message: &GlobalMessage| match &self.adaptive {
            Adaptive::Resting => false,
            Adaptive::Working { next, .. } => next.iter().any(|waiting| waiting.id == message.id),
        };
        self.newest_first()
            .filter(move |message| message.id != woken_by && !is_due(message))
    }

    pub fn len(&self) -> usize {
        self.history.len()
    }

    pub fn is_empty(&self) -> bool {
        self.history.is_empty()
    }

    /// The number of the newest message, or where numbers begin.
    pub fn last_id(&self) -> i64 {
        self.ids.last()
    }

    /// How many messages can be numbered before another block is needed.
    pub fn ids_left(&self) -> i64 {
        self.ids.left()
    }

    /// A block that was reserved after all those before it.
    pub fn add_ids(&mut self, block: IdBlock) {
        self.ids.add(block);
    }

    /// The newest message; the oldest ones leave.
    fn keep(&mut self, message: Arc<GlobalMessage>) {
        self.history_bytes += size(&message);
        self.history.push_back(message);
        while self.history.len() > self.limits.history_messages
            || self.history_bytes > self.limits.history_bytes
        {
            let Some(oldest) = self.history.pop_front() else {
                never!("the history is too long and empty");
                break;
            };
            self.history_bytes -= size(&oldest);
        }
    }

    /// Askers without an answer, the one whose question is shown included.
    pub fn askers(&self) -> usize {
        self.queued.len() + usize::from(self.pending.is_some())
    }

    /// Messages that wait until AdaptiveAgent has time.
    pub fn backlog(&self) -> usize {
        match &self.adaptive {
            Adaptive::Resting => 0,
            Adaptive::Working { next, .. } => next.len(),
        }
    }
}

/// One input on its way through the Chat.
struct Step<'a> {
    chat: &'a mut Chat,
    now: Timestamp,
    effects: Vec<ChatEffect>,
}

impl Step<'_> {
    fn agent_message(
        &mut self,
        author: &str,
        text: String,
        meta: GlobalMeta,
    ) -> Result<GlobalMessageId, Refusal> {
        let (author, text) = (checked_author(author)?, checked_text(text)?);
        checked_tags(&meta.tags)?;
        let signals = author != ADAPTIVE_AGENT && meta.tags.iter().any(|tag| tag == SIGNAL);
        let message = self.say(GlobalRole::Agent, author, text, meta);
        let id = message.id;
        if signals && !self.wake(message) {
            // An agent's message is always accepted, so the Chat must show that nobody works on it.
            self.say_busy(id, "signal");
        }
        Ok(id)
    }

    fn user_message(
        &mut self,
        text: &str,
        user: Option<UserId>,
    ) -> Result<GlobalMessageId, Refusal> {
        let text = checked_text(text.trim().to_owned())?;
        let meta = |reply_to| GlobalMeta {
            reply_to,
            user_id: user,
            ..GlobalMeta::default()
        };
        if let Some(pending) = self.chat.pending.take() {
            let question_id = pending.question_id;
            let answer = UserAnswer {
                question_id,
                answer: text.clone(),
            };
            let id = self
                .say(GlobalRole::User, USER, text, meta(Some(question_id)))
                .id;
            self.give_answer(pending.question, answer);
            self.next_question();
            return Ok(id);
        }
        let backlog = self.chat.backlog();
        if matches!(self.chat.adaptive, Adaptive::Working { .. })
            && backlog >= self.chat.limits.backlog
        {
            return Err(Refusal::new(
                ErrorCode::QueueFull,
                format!("{backlog} messages are already waiting"),
            )
            .with("queue_length", backlog));
        }
        let message = self.say(GlobalRole::User, USER, text, meta(None));
        let id = message.id;
        self.wake(message);
        Ok(id)
    }

    /// False where AdaptiveAgent has as much to do as it may.
    fn wake(&mut self, message: Arc<GlobalMessage>) -> bool {
        match &mut self.chat.adaptive {
            Adaptive::Resting => {
                self.chat.adaptive = Adaptive::Working {
                    on: Arc::clone(&message),
                    next: VecDeque::new(),
                };
                self.effects.push(ChatEffect::Wake(message));
                true
            }
            Adaptive::Working { next, .. } if next.len() < self.chat.limits.backlog => {
                next.push_back(message);
                true
            }
            Adaptive::Working { .. } => false,
        }
    }

    fn rested(&mut self) {
        // It rests already: the input came twice.
        let Adaptive::Working { on, next } = &mut self.chat.adaptive else {
            return;
        };
        let done = on.id;
        match next.pop_front() {
            Some(message) => {
                *on = Arc::clone(&message);
                self.effects.push(ChatEffect::Wake(message));
            }
            None => self.chat.adaptive = Adaptive::Resting,
        }
        self.end_questions_about(done);
    }

    fn say_busy(&mut self, about: GlobalMessageId, what: &str) {
        let text = format!("{ADAPTIVE_AGENT} has too much to do and does not take this {what}.");
        self.say(GlobalRole::System, CHAT_AGENT, text, reply(about, "busy"));
    }

    fn say(
        &mut self,
        role: GlobalRole,
        author: &str,
        text: String,
        meta: GlobalMeta,
    ) -> Arc<GlobalMessage> {
        let chat = &mut *self.chat;
        let Some(id) = GlobalMessageId::new(chat.ids.take()) else {
            unreachable!("ids count up from 0")
        };
        let author = author.to_owned();
        let message = Arc::new(GlobalMessage {
            id,
            ts: self.now,
            role,
            author,
            text,
            meta: meta.known(),
        });
        chat.keep(Arc::clone(&message));
        self.effects.push(ChatEffect::Push(Arc::clone(&message)));
        message
    }
}

fn reply(to: GlobalMessageId, tag: &str) -> GlobalMeta {
    GlobalMeta {
        reply_to: Some(to),
        tags: vec![tag.to_owned()],
        user_id: None,
    }
}

/// What a message takes in memory, as far as its writer can choose.
fn size(message: &GlobalMessage) -> usize {
    let tags = message
        .meta
        .iter()
        .flat_map(|meta| &meta.tags)
        .map(String::len)
        .sum::<usize>();
    size_of::<GlobalMessage>() + message.author.len() + message.text.len() + tags
}
