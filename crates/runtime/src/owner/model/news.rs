//! What is heard of a call before its answer is there.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use codelab_engine::{Input, ModelCallId};
use codelab_protocol::{ModelFailureKind, Timestamp};

use crate::clock::now;

/// News of one call that its owner has not heard of yet; it retries fewer times, and tries fewer
/// models.
pub(super) const MAX_NEWS: usize = 32;

/// When a call was last heard, in milliseconds; 0 = not yet. The engine is told only when a clock
/// is due, because a token must cost no commit.
#[derive(Clone, Default)]
pub(super) struct Heard(Arc<AtomicI64>);

impl Heard {
    pub fn now(&self) {
        self.0.store(now().as_millis(), Ordering::Relaxed);
    }

    pub fn last(&self) -> Option<Timestamp> {
        match self.0.load(Ordering::Relaxed) {
            0 => None,
            millis => Some(Timestamp::from_millis(millis)),
        }
    }
}

/// What happens to a call before its answer begins.
pub(super) enum CallNews {
    /// The server announced when it can be asked again.
    Waits {
        kind: ModelFailureKind,
        wait: Duration,
    },
    /// Another model is asked.
    FellBack {
        from: String,
        to: String,
        kind: ModelFailureKind,
    },
}

impl CallNews {
    pub fn input(self, call: ModelCallId) -> Input {
        match self {
            Self::Waits { kind, wait } => Input::ModelWaits {
                call,
                ms: u64::try_from(wait.as_millis()).unwrap_or(u64::MAX),
                kind,
            },
            Self::FellBack { from, to, kind } => Input::ModelFellBack {
                call,
                from,
                to,
                kind,
            },
        }
    }
}
