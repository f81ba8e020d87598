//! The Chat on its way from one owner to the next.
//!
//! The names of the fields are stored, and a server of the next release reads them during a rolling
//! upgrade. They never change, and a new field has a default.

use std::sync::Arc;

use codelab_protocol::{GlobalMessage, GlobalMessageId, GlobalMeta, Timestamp, UserAnswer};
use serde::{Deserialize, Serialize};

use super::questions::{OrphanAnswer, PendingQuestion, QueuedQuestion, Waiter};
use super::{Adaptive, Chat, ChatEffect, ChatLimits, DEFAULT_ANSWER_SECONDS, IdBlock, Step};

/// What the next owner of the Chat goes on with.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ChatHandover {
    /// Oldest first.
    #[serde(default)]
    history: Vec<Arc<GlobalMessage>>,
    #[serde(default)]
    shown: Option<ShownQuestion>,
    #[serde(default)]
    queued: Vec<OpenedQuestion>,
    /// Answers that no asker has come back for yet.
    #[serde(default)]
    answered: Vec<AnsweredQuestion>,
    /// For AdaptiveAgent. It begins again with the first.
    #[serde(default)]
    waiting: Vec<Arc<GlobalMessage>>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct ShownQuestion {
    question_id: GlobalMessageId,
    #[serde(flatten)]
    question: OpenedQuestion,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct OpenedQuestion {
    author: String,
    text: String,
    #[serde(default)]
    meta: GlobalMeta,
    /// Absent if an asker waited until now.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    expires_at: Option<Timestamp>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct AnsweredQuestion {
    author: String,
    text: String,
    answer: UserAnswer,
    expires_at: Timestamp,
}

impl ChatHandover {
    /// Shortens it until its JSON has at most so many bytes. The oldest messages go first. Then
    /// come kept answers and the questions that were asked last: their askers ask again anyway.
    pub fn shorten(&mut self, max_bytes: usize) {
        let history = std::mem::take(&mut self.history);
        let mut rest = json_bytes(self);
        while rest > max_bytes && (self.answered.pop().is_some() || self.queued.pop().is_some()) {
            rest = json_bytes(self);
        }
        // Each message counts with a comma, and the last one has none.
        let mut left = (max_bytes + 1).saturating_sub(rest);
        let fitting = history.iter().rev().take_while(|message| {
            let bytes = json_bytes(message.as_ref()) + 1;
            let fits = bytes <= left;
            left = left.saturating_sub(bytes);
            fits
        });
        let dropped = history.len() - fitting.count();
        self.history = history.into_iter().skip(dropped).collect();
    }
}

impl Chat {
    /// What another owner needs to go on. Askers do not go along: their questions do.
    pub fn hand_over(&self) -> ChatHandover {
        let waiting = match &self.adaptive {
            Adaptive::Resting => Vec::new(),
            Adaptive::Working { on, next } => std::iter::once(on).chain(next).cloned().collect(),
        };
        let answered = self.orphan_answers.iter().map(|orphan| AnsweredQuestion {
            author: orphan.author.clone(),
            text: orphan.text.clone(),
            answer: orphan.answer.clone(),
            expires_at: orphan.expires_at,
        });
        ChatHandover {
            history: self.history.iter().cloned().collect(),
            shown: self.pending.as_ref().map(|pending| ShownQuestion {
                question_id: pending.question_id,
                question: opened(&pending.question),
            }),
            queued: self.queued.iter().map(opened).collect(),
            answered: answered.collect(),
            waiting,
        }
    }

    /// Goes on where the owner before stopped. Numbers continue above all that were given. The
    /// effects wake AdaptiveAgent if something waits for it.
    pub fn resume(
        limits: ChatLimits,
        block: IdBlock,
        handover: ChatHandover,
        now: Timestamp,
    ) -> (Self, Vec<ChatEffect>) {
        let newest = handover.history.last().map_or(0, |last| last.id.get());
        let mut chat = Self::new(
            limits,
            IdBlock {
                after: block.after.max(newest),
                until: block.until,
            },
        );
        let orphan = |question| orphaned(question, now);
        handover
            .history
            .into_iter()
            .for_each(|message| chat.keep(message));
        chat.pending = handover.shown.map(|shown| PendingQuestion {
            question: orphan(shown.question),
            question_id: shown.question_id,
        });
        let room = limits.askers.saturating_sub(chat.askers());
        chat.queued = handover.queued.into_iter().take(room).map(orphan).collect();
        let answered = handover.answered.into_iter().take(limits.askers);
        chat.orphan_answers = answered.map(|answered| kept(answered, now)).collect();
        let mut step = Step {
            chat: &mut chat,
            now,
            effects: Vec::new(),
        };
        if step.chat.pending.is_none() {
            step.next_question();
        }
        for message in handover.waiting {
            let id = message.id;
            if !step.wake(message) {
                step.say_busy(id, "message");
            }
        }
        let effects = step.effects;
        (chat, effects)
    }
}

fn opened(question: &QueuedQuestion) -> OpenedQuestion {
    OpenedQuestion {
        author: question.author.clone(),
        text: question.text.clone(),
        meta: question.meta.clone(),
        expires_at: match question.waiter {
            Waiter::Asker(_) => None,
            Waiter::Orphan { expires_at } => Some(expires_at),
        },
    }
}

fn orphaned(question: OpenedQuestion, now: Timestamp) -> QueuedQuestion {
    let expires_at = expiry(question.expires_at, now);
    QueuedQuestion {
        waiter: Waiter::Orphan { expires_at },
        author: question.author,
        text: question.text,
        meta: question.meta,
    }
}

fn kept(answered: AnsweredQuestion, now: Timestamp) -> OrphanAnswer {
    OrphanAnswer {
        author: answered.author,
        text: answered.text,
        answer: answered.answer,
        expires_at: expiry(Some(answered.expires_at), now),
    }
}

/// Another move does not prolong the wait, and neither does a clock that is ahead.
fn expiry(set: Option<Timestamp>, now: Timestamp) -> Timestamp {
    let latest = now.plus_seconds(DEFAULT_ANSWER_SECONDS);
    set.map_or(latest, |set| set.min(latest))
}

/// Messages and questions are texts and numbers, which JSON can always express.
fn json_bytes(value: &impl Serialize) -> usize {
    serde_json::to_vec(value).map_or(usize::MAX, |json| json.len())
}
