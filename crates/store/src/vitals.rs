//! Whether the database does what it is asked. An outage is told in the log once and then once a
//! minute, however many requests it refuses; whoever asks for the server's health learns of it at
//! once.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use codelab_protocol::Reminder;

use crate::StoreError;

/// Reads and writes apart: a full disk stops the ones and not the others.
pub(crate) struct Vitals {
    pub reads: Side,
    pub writes: Side,
}

impl Default for Vitals {
    fn default() -> Self {
        Self {
            reads: Side::new("read"),
            writes: Side::new("written"),
        }
    }
}

pub(crate) struct Side {
    done: &'static str,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    worked_at: Option<Instant>,
    /// Why the last one failed; nothing once one worked.
    failure: Option<StoreError>,
    reminder: Reminder,
    /// Failures that no line has told yet.
    untold: u64,
    /// A line says that it fails, and none that it works again.
    is_told: bool,
}

/// How one side stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pulse {
    /// How long ago it last worked.
    pub worked: Option<Duration>,
    /// Why the last one failed, if none worked since.
    pub failure: Option<StoreError>,
}

impl Side {
    fn new(done: &'static str) -> Self {
        Self {
            done,
            state: Mutex::default(),
        }
    }

    pub fn note<T>(&self, outcome: &Result<T, StoreError>) {
        let now = Instant::now();
        match outcome {
            Err(error) if error.is_outage() => self.failed(error, now),
            // Also where it refused: the database works.
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
            tracing::info!(failed, "the database can be {} again", self.done);
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
        tracing::error!(%error, failed, "the database cannot be {}", self.done);
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
        let side = Side::new("written");
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
            // Told at 0, 60 and 120 seconds.
            assert_eq!((state.untold, state.is_told), (9, true));
        }
        // A conflict is an answer.
        side.note::<()>(&Err(StoreError::Conflict));
        let pulse = side.pulse();
        assert!(pulse.failure.is_none() && pulse.worked.is_some());
        assert!(!side.lock().is_told);
    }
}
