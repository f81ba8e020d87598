//! Whether the database works. An outage is logged when it begins and then once a minute, however
//! many requests fail. The health routes show it at once.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use codelab_protocol::Reminder;

use crate::StoreError;

/// Reads and writes are counted separately, because a full disk stops only writes.
pub(crate) struct Vitals {
    pub reads: Side,
    pub writes: Side,
}

impl Default for Vitals {
    fn default() -> Self {
        Self {
            reads: Side::new(
                "the database cannot be read",
                "the database can be read again",
            ),
            writes: Side::new(
                "the database cannot be written",
                "the database can be written again",
            ),
        }
    }
}

pub(crate) struct Side {
    /// Log message of an outage.
    outage: &'static str,
    /// Log message when the outage is over.
    recovery: &'static str,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    worked_at: Option<Instant>,
    /// Why the last operation failed. `None` after a success.
    failure: Option<StoreError>,
    reminder: Reminder,
    /// Failures that were not logged yet.
    untold: u64,
    /// The outage was logged, but not its end.
    is_told: bool,
}

/// The state of reads or of writes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pulse {
    /// How long ago it last worked.
    pub worked: Option<Duration>,
    /// Why the last operation failed, if none succeeded since.
    pub failure: Option<StoreError>,
}

impl Side {
    fn new(outage: &'static str, recovery: &'static str) -> Self {
        Self {
            outage,
            recovery,
            state: Mutex::default(),
        }
    }

    pub fn note<T>(&self, outcome: &Result<T, StoreError>) {
        let now = Instant::now();
        match outcome {
            Err(error) if error.is_outage() => self.failed(error, now),
            // A refusal also shows that the database works.
            _ => self.worked(now),
        }
    }

    pub fn pulse(&self) -> Pulse {
        let state = self.lock();
        Pulse {
            worked: state.worked_at.map(|at| at.elapsed()),
            failure: state.failure.clone(),
        }
    }

    fn worked(&self, now: Instant) {
        let mut state = self.lock();
        state.worked_at = Some(now);
        state.failure = None;
        if std::mem::take(&mut state.is_told) {
            let failed = std::mem::take(&mut state.untold);
            drop(state);
            tracing::info!(failed, "{}", self.recovery);
        }
    }

    fn failed(&self, error: &StoreError, now: Instant) {
        let mut state = self.lock();
        state.failure = Some(error.clone());
        state.untold += 1;
        if !state.reminder.is_due(now) {
            return;
        }
        state.is_told = true;
        let failed = std::mem::take(&mut state.untold);
        drop(state);
        tracing::error!(%error, failed, "{}", self.outage);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outage_lasts_until_something_works_and_is_told_once_a_minute() {
        let side = Side::new("cannot be written", "can be written again");
        assert_eq!(
            side.pulse(),
            Pulse {
                worked: None,
                failure: None
            }
        );
        let begun = Instant::now();
        for second in 0..130 {
            side.failed(&StoreError::DiskFull, begun + Duration::from_secs(second));
        }
        assert_eq!(side.pulse().failure, Some(StoreError::DiskFull));
        {
            let state = side.lock();
            // Logged at 0, 60 and 120 seconds.
            assert_eq!((state.untold, state.is_told), (9, true));
        }
        // A conflict shows that the database works.
        side.note::<()>(&Err(StoreError::Conflict));
        let pulse = side.pulse();
        assert!(pulse.failure.is_none() && pulse.worked.is_some());
        assert!(!side.lock().is_told);
    }
}
