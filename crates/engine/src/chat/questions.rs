//! Questions to the user: one is shown, the others wait for their turn.
//!
//! A question outlives the connection of its asker when the Chat gets another owner. It is then an
//! *orphan*: it keeps its place for an asker that comes back and asks the same again.

use codelab_protocol::{ErrorCode, GlobalMessageId, GlobalMeta, GlobalRole, Timestamp, UserAnswer};

use super::limits::{checked_author, checked_tags, checked_text};
use super::{ADAPTIVE_AGENT, AskerId, CHAT_AGENT, Chat, ChatEffect, Step, reply};
use crate::Refusal;

/// How long a question waits for its answer unless its asker says otherwise. An orphan waits this
/// long for its asker.
pub const DEFAULT_ANSWER_SECONDS: u64 = 300;

/// Who waits for an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Waiter {
    Asker(AskerId),
    /// Nobody until the asker comes back. The question ends at this time.
    Orphan {
        expires_at: Timestamp,
    },
}

impl Waiter {
    fn is_over(self, now: Timestamp) -> bool {
        match self {
            Self::Asker(_) => false,
            Self::Orphan { expires_at } => expires_at <= now,
        }
    }

    fn is_orphan(self) -> bool {
        matches!(self, Self::Orphan { .. })
    }
}

#[derive(Debug)]
pub(super) struct QueuedQuestion {
    pub waiter: Waiter,
    pub author: String,
    pub text: String,
    pub meta: GlobalMeta,
}

impl QueuedQuestion {
    fn is_orphan_of(&self, author: &str, text: &str) -> bool {
        self.waiter.is_orphan() && self.author == author && self.text == text
    }
}

/// A question that is shown.
#[derive(Debug)]
pub(super) struct PendingQuestion {
    pub question: QueuedQuestion,
    pub question_id: GlobalMessageId,
}

/// The answer to an orphan, kept for its asker.
#[derive(Debug)]
pub(super) struct OrphanAnswer {
    pub author: String,
    pub text: String,
    pub answer: UserAnswer,
    pub expires_at: Timestamp,
}

/// Why a question ends without an answer.
#[derive(Debug, Clone, Copy)]
pub(super) enum NoAnswerReason {
    Expired,
    Withdrawn,
}

impl NoAnswerReason {
    fn tag(self) -> &'static str {
        match self {
            Self::Expired => "expired",
            Self::Withdrawn => "withdrawn",
        }
    }

    fn text(self, author: &str) -> String {
        match self {
            Self::Expired => {
                format!("{author} gets no answer in time and does not wait any longer.")
            }
            Self::Withdrawn => format!("{author} does not wait for an answer any longer."),
        }
    }
}

impl Chat {
    /// When the next orphan ends. [`super::ChatInput::ExpiryDue`] is due then.
    pub fn next_expiry(&self) -> Option<Timestamp> {
        let shown = self.pending.as_ref().map(|pending| &pending.question);
        let questions = shown.into_iter().chain(&self.queued);
        let open = questions.filter_map(|question| match question.waiter {
            Waiter::Asker(_) => None,
            Waiter::Orphan { expires_at } => Some(expires_at),
        });
        let answered = self.orphan_answers.iter().map(|orphan| orphan.expires_at);
        open.chain(answered).min()
    }

    /// An asker comes back: it waits for its orphan's answer from now on.
    fn adopt(&mut self, asker: AskerId, author: &str, text: &str) -> Option<Adopted> {
        let answered = self
            .orphan_answers
            .iter()
            .position(|orphan| orphan.author == author && orphan.text == text);
        if let Some(orphan) = answered.and_then(|place| self.orphan_answers.remove(place)) {
            return Some(Adopted::Answered(orphan.answer));
        }
        if let Some(pending) = &mut self.pending
            && pending.question.is_orphan_of(author, text)
        {
            pending.question.waiter = Waiter::Asker(asker);
            return Some(Adopted::Shown(pending.question_id));
        }
        let queued = self
            .queued
            .iter_mut()
            .find(|question| question.is_orphan_of(author, text))?;
        queued.waiter = Waiter::Asker(asker);
        Some(Adopted::Queued)
    }
}

/// How far the orphan is that an asker adopted.
enum Adopted {
    Answered(UserAnswer),
    Shown(GlobalMessageId),
    Queued,
}

impl Step<'_> {
    pub(super) fn question(
        &mut self,
        asker: AskerId,
        author: &str,
        text: String,
        meta: GlobalMeta,
    ) -> Result<Option<GlobalMessageId>, Refusal> {
        let (author, text) = (checked_author(author)?.to_owned(), checked_text(text)?);
        checked_tags(&meta.tags)?;
        match self.chat.adopt(asker, &author, &text) {
            Some(Adopted::Answered(answer)) => {
                let question_id = answer.question_id;
                self.effects.push(ChatEffect::Answer { asker, answer });
                return Ok(Some(question_id));
            }
            Some(Adopted::Shown(question_id)) => return Ok(Some(question_id)),
            Some(Adopted::Queued) => return Ok(None),
            None => {}
        }
        let askers = self.chat.askers();
        if askers >= self.chat.limits.askers {
            return Err(Refusal::new(
                ErrorCode::QueueFull,
                format!("{askers} questions are already waiting"),
            )
            .with("queue_length", askers));
        }
        // AdaptiveAgent asks in other words when it works on a message again.
        if let Some(about) = meta.reply_to.filter(|_| author == ADAPTIVE_AGENT) {
            self.end_questions_about(about);
        }
        self.chat.queued.push_back(QueuedQuestion {
            waiter: Waiter::Asker(asker),
            author,
            text,
            meta,
        });
        if self.chat.pending.is_none() {
            self.next_question();
        }
        Ok(self
            .chat
            .pending
            .as_ref()
            .filter(|pending| pending.question.waiter == Waiter::Asker(asker))
            .map(|pending| pending.question_id))
    }

    /// Shows the question of whoever has waited longest, if anybody waits.
    pub(super) fn next_question(&mut self) {
        let Some(question) = self.chat.queued.pop_front() else {
            return;
        };
        let mut meta = question.meta.clone();
        meta.tags.insert(0, "question".to_owned());
        let text = question.text.clone();
        let question_id = self.say(GlobalRole::Agent, &question.author, text, meta).id;
        self.chat.pending = Some(PendingQuestion {
            question,
            question_id,
        });
    }

    pub(super) fn give_answer(&mut self, question: QueuedQuestion, answer: UserAnswer) {
        let expires_at = match question.waiter {
            Waiter::Asker(asker) => {
                return self.effects.push(ChatEffect::Answer { asker, answer });
            }
            Waiter::Orphan { expires_at } => expires_at,
        };
        let kept = &mut self.chat.orphan_answers;
        if kept.len() >= self.chat.limits.askers {
            kept.pop_front();
        }
        kept.push_back(OrphanAnswer {
            author: question.author,
            text: question.text,
            answer,
            expires_at,
        });
    }

    /// Ends an asker's wait; one that was answered meanwhile is not waiting any more.
    pub(super) fn no_answer(&mut self, asker: AskerId, reason: NoAnswerReason) {
        self.end_questions(reason, |question| question.waiter == Waiter::Asker(asker));
    }

    /// Ends the orphans whose askers did not come back in time.
    pub(super) fn expire_orphans(&mut self) {
        let now = self.now;
        self.chat
            .orphan_answers
            .retain(|orphan| orphan.expires_at > now);
        self.end_questions(NoAnswerReason::Expired, |question| {
            question.waiter.is_over(now)
        });
    }

    /// AdaptiveAgent asked about a message under the owner before, and does not need the answer
    /// now.
    pub(super) fn end_questions_about(&mut self, message: GlobalMessageId) {
        self.end_questions(NoAnswerReason::Withdrawn, |question| {
            question.waiter.is_orphan()
                && question.author == ADAPTIVE_AGENT
                && question.meta.reply_to == Some(message)
        });
    }

    /// A question that was never shown leaves no trace.
    fn end_questions(&mut self, reason: NoAnswerReason, is_over: impl Fn(&QueuedQuestion) -> bool) {
        let effects = &mut self.effects;
        let mut end = |question: &QueuedQuestion| {
            if let Waiter::Asker(asker) = question.waiter {
                effects.push(ChatEffect::Expire(asker));
            }
        };
        self.chat.queued.retain(|question| {
            let over = is_over(question);
            if over {
                end(question);
            }
            !over
        });
        let shown = self
            .chat
            .pending
            .take_if(|pending| is_over(&pending.question));
        let Some(PendingQuestion {
            question,
            question_id,
        }) = shown
        else {
            return;
        };
        end(&question);
        let text = reason.text(&question.author);
        self.say(
            GlobalRole::System,
            CHAT_AGENT,
            text,
            reply(question_id, reason.tag()),
        );
        self.next_question();
    }
}
