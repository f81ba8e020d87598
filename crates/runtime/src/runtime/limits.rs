//! How much a runtime holds in memory, and for how long it keeps old things.

use std::time::Duration;

/// How long old things are kept; 0 = for ever.
#[derive(Debug, Clone, Copy, Default)]
pub struct Retention {
    /// Sessions of the runtime kind without activity for this long are soft-deleted.
    pub session_hours: u64,
    /// Events older than this leave the log; readers that ask for them see a gap.
    pub event_days: u64,
}

/// Bounds of what is held in memory.
#[derive(Debug, Clone, Copy)]
pub struct LiveLimits {
    pub max_sessions: usize,
    /// Requests that wait for one session's owner.
    pub mailbox: usize,
    /// An owner without work leaves after this time.
    pub idle_ms: u64,
    /// Where more sessions than this are held, an owner without work leaves sooner.
    pub crowd: usize,
    pub crowded_idle_ms: u64,
}

impl Default for LiveLimits {
    fn default() -> Self {
        Self {
            max_sessions: 20_000,
            mailbox: 256,
            idle_ms: 10_000,
            crowd: 2_000,
            crowded_idle_ms: 500,
        }
    }
}

impl LiveLimits {
    /// How long an owner without work stays beside so many others.
    pub(crate) fn idle_time(&self, sessions: usize) -> Duration {
        Duration::from_millis(if sessions > self.crowd {
            self.crowded_idle_ms
        } else {
            self.idle_ms
        })
    }
}
