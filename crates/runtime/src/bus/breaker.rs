//! When an agent is left alone after failing again and again. Pure: the time comes in, nothing
//! waits here.

use std::time::Duration;

use tokio::time::Instant;

use super::agent::Ticket;

#[derive(Debug)]
pub(super) enum Breaker {
    Closed {
        failures_in_a_row: u32,
    },
    /// Nothing is admitted before `until`, and one trial from then on.
    Open {
        until: Instant,
    },
    /// The trial has the one place; it may still wait for a slot.
    Trial {
        ticket: Ticket,
    },
}

/// What a new task may expect.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum BreakerVerdict {
    Free,
    TrialOnly,
    Shut { retry_after: Duration },
}

/// How long to stay away while somebody else's trial runs; nobody knows how long that takes.
const TRIAL_RETRY_AFTER: Duration = Duration::from_secs(1);

impl Breaker {
    pub(super) fn gate(&self, now: Instant) -> BreakerVerdict {
        match self {
            Self::Closed { .. } => BreakerVerdict::Free,
            Self::Open { until } if *until <= now => BreakerVerdict::TrialOnly,
            Self::Open { until } => BreakerVerdict::Shut {
                retry_after: *until - now,
            },
            Self::Trial { .. } => BreakerVerdict::Shut {
                retry_after: TRIAL_RETRY_AFTER,
            },
        }
    }

    pub(super) fn is_closed(&self) -> bool {
        matches!(self, Self::Closed { .. })
    }

    /// While it is open only the trial's own success counts: tasks from before say nothing about
    /// now.
    pub(super) fn succeeded(&mut self, ticket: Ticket) {
        match self {
            Self::Closed { failures_in_a_row } => *failures_in_a_row = 0,
            Self::Trial { ticket: trial } if *trial == ticket => {
                *self = Self::Closed {
                    failures_in_a_row: 0,
                }
            }
            Self::Open { .. } | Self::Trial { .. } => {}
        }
    }

    /// Whether it opened just now.
    pub(super) fn failed(
        &mut self,
        ticket: Ticket,
        limit: u32,
        pause: Duration,
        now: Instant,
    ) -> bool {
        let opens = match self {
            Self::Closed { failures_in_a_row } => {
                *failures_in_a_row = failures_in_a_row.saturating_add(1);
                *failures_in_a_row >= limit
            }
            Self::Trial { ticket: trial } => *trial == ticket,
            Self::Open { .. } => false,
        };
        if opens {
            *self = Self::Open { until: now + pause };
        }
        opens
    }

    /// The task went away without a verdict. A trial that does so leaves its place to the next.
    pub(super) fn left(&mut self, ticket: Ticket, now: Instant) {
        if matches!(self, Self::Trial { ticket: trial } if *trial == ticket) {
            *self = Self::Open { until: now };
        }
    }
}
