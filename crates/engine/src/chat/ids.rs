//! The numbers of messages: they only grow, also across restarts and when the clock is set back.
//! Whoever runs the Chat reserves them in blocks before they are used.

use codelab_protocol::{ErrorCode, Timestamp};

use crate::Refusal;

/// A start time becomes a number by this, so that numbers tell roughly when something was said.
const IDS_PER_MILLISECOND: i64 = 1000;
/// Kept back for what the Chat itself has to say to those who wait already: the end of a question,
/// the next one.
const KEPT_BACK: i64 = 1000;

/// Numbers that nobody else has or will have: those after `after`, up to `until`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IdBlock {
    pub after: i64,
    pub until: i64,
}

impl IdBlock {
    /// A Chat that starts at this time gives only numbers above this one. It starts higher if
    /// higher numbers were given before.
    pub fn floor(started: Timestamp) -> i64 {
        started
            .as_millis()
            .max(0)
            .saturating_mul(IDS_PER_MILLISECOND)
    }
}

/// What is left of the block in use, and the block after it.
#[derive(Debug)]
pub(super) struct ChatIds {
    last: i64,
    until: i64,
    next: Option<IdBlock>,
}

impl ChatIds {
    pub fn new(block: IdBlock) -> Self {
        Self {
            last: block.after,
            until: block.until,
            next: None,
        }
    }

    pub fn last(&self) -> i64 {
        self.last
    }

    pub fn left(&self) -> i64 {
        self.until - self.last + self.next.map_or(0, |next| next.until - next.after)
    }

    /// Blocks come in the order of their numbers; one is held in reserve. A block below those in
    /// use was reserved before the Chat was here the last time, and is not used.
    pub fn add(&mut self, block: IdBlock) {
        if block.after < self.next.map_or(self.until, |next| next.until) {
            return;
        }
        self.next = Some(match self.next {
            Some(IdBlock { after, until }) if until == block.after => IdBlock {
                after,
                until: block.until,
            },
            Some(_) | None => block,
        });
    }

    /// Whether there are enough for something that comes from outside.
    pub fn check(&self) -> Result<(), Refusal> {
        if self.left() > KEPT_BACK {
            return Ok(());
        }
        Err(Refusal::new(
            ErrorCode::DbWriteError,
            "The Chat has no more numbers until the database answers",
        ))
    }

    pub fn take(&mut self) -> i64 {
        if self.last >= self.until
            && let Some(next) = self.next.take()
        {
            (self.last, self.until) = (next.after.max(self.last), next.until);
        }
        self.last += 1;
        self.last
    }
}
