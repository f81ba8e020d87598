//! Whether this server can do its work: the database takes and gives, there is room on its disk,
//! the lease runs. Whoever asks gets an answer within [`DEADLINE`], whatever hangs.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use codelab_protocol::Reminder;
use codelab_store::{Pulse, Store, StoreError};
use tokio::sync::Notify;
use tokio::time::{Instant, timeout};

use crate::runtime::Runtime;

/// What worked within this time is not tried again.
const FRESH: Duration = Duration::from_secs(1);
/// How long somebody who asks waits for a trial.
const DEADLINE: Duration = Duration::from_millis(700);
/// A commit of a plan's step writes about as much.
const MIN_FREE_BYTES: u64 = 256 * 1024;

/// A rewriting after deletions that takes longer than this counts as a database that does not
/// answer.
const LONGEST_REWRITING: Duration = Duration::from_secs(10 * 60);

/// What is wrong with the database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DatabaseTrouble {
    DiskFull,
    /// It refuses, or cannot be reached.
    Refuses,
    /// It does not answer.
    Silent,
    /// Its file is rewritten after deletions: it can be read, and what is written waits.
    Rewriting,
}

/// The trials of the database, one at a time: one that hangs is not joined by others.
#[derive(Default)]
pub(crate) struct Trials {
    runs: AtomicBool,
    ended: Notify,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    begun_at: Option<Instant>,
    looked_at: Option<Instant>,
    free_bytes: Option<u64>,
    /// When the log was last told that it does not answer.
    reminder: Reminder,
}

impl Trials {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a trial hangs.
    fn hang(&self) -> bool {
        self.runs.load(Ordering::Acquire)
            && self
                .lock()
                .begun_at
                .is_some_and(|at| at.elapsed() >= DEADLINE)
    }

    /// Waits for the end of a trial, but not for one that hangs.
    async fn run(self: &Arc<Self>, store: &Store, server_id: &str) {
        let ended = self.ended.notified();
        tokio::pin!(ended);
        // Registered before the trial begins, so that its end is not missed.
        ended.as_mut().enable();
        if !self.runs.swap(true, Ordering::AcqRel) {
            self.lock().begun_at = Some(Instant::now());
            tokio::spawn(trial(
                Running(Arc::clone(self)),
                store.clone(),
                server_id.to_owned(),
            ));
        }
        let _ = timeout(DEADLINE, ended).await;
    }
}

/// A trial that runs. However it ends, others may follow.
struct Running(Arc<Trials>);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.runs.store(false, Ordering::Release);
        self.0.ended.notify_waiters();
    }
}

/// Its outcome is known to the store.
async fn trial(running: Running, store: Store, server_id: String) {
    let disk = store.clone();
    let free_bytes = tokio::task::spawn_blocking(move || disk.free_bytes())
        .await
        .unwrap_or_default();
    if !is_fresh(&store.reads()) {
        let _ = store.ping().await;
    }
    if !is_fresh(&store.writes()) {
        let _ = store.probe(&server_id).await;
    }
    let mut state = running.0.lock();
    state.free_bytes = free_bytes;
    state.looked_at = Some(Instant::now());
}

fn is_fresh(pulse: &Pulse) -> bool {
    pulse.failure.is_none() && pulse.worked.is_some_and(|ago| ago < FRESH)
}

fn trouble_of(pulse: &Pulse) -> Option<DatabaseTrouble> {
    match &pulse.failure {
        Some(StoreError::DiskFull) => Some(DatabaseTrouble::DiskFull),
        Some(_) => Some(DatabaseTrouble::Refuses),
        None => None,
    }
}

/// Whether the database file is being rewritten, and has not been for too long.
fn is_expected(rewrites_for: Option<Duration>) -> bool {
    rewrites_for.is_some_and(|time| time < LONGEST_REWRITING)
}

impl Runtime {
    /// What is wrong with the database at this moment.
    pub async fn database_trouble(&self) -> Option<DatabaseTrouble> {
        let (store, trials) = (&self.inner.store, &self.inner.trials);
        if store.has_lost_its_writer() {
            return Some(DatabaseTrouble::Refuses);
        }
        let looked = trials
            .lock()
            .looked_at
            .is_some_and(|at| at.elapsed() < FRESH);
        let is_known = looked && is_fresh(&store.reads()) && is_fresh(&store.writes());
        if !is_known && !trials.hang() {
            trials.run(store, &self.inner.cluster.server_id()).await;
        }
        let (reads, writes) = (store.reads(), store.writes());
        if let Some(trouble) = trouble_of(&writes).or_else(|| trouble_of(&reads)) {
            return Some(trouble);
        }
        // Others may still get through where a trial waits in line behind them.
        let is_silent = |pulse: &Pulse| pulse.worked.is_none_or(|ago| ago > FRESH);
        if trials.runs.load(Ordering::Acquire) && (is_silent(&reads) || is_silent(&writes)) {
            if is_expected(store.rewrites_for()) {
                return Some(DatabaseTrouble::Rewriting);
            }
            // Nothing has failed yet that would be told.
            if trials.lock().reminder.is_due(Instant::now().into_std()) {
                tracing::warn!("the database does not answer");
            }
            return Some(DatabaseTrouble::Silent);
        }
        let free_bytes = trials.lock().free_bytes;
        free_bytes
            .filter(|bytes| *bytes < MIN_FREE_BYTES)
            .map(|_| DatabaseTrouble::DiskFull)
    }

    /// Whether another server may take over what is this one's, by this machine's own clock. Nobody
    /// can while the file of an embedded database is rewritten: it is locked, and the renewal waits
    /// behind that.
    pub fn lease_has_lapsed(&self) -> bool {
        self.inner.cluster.lease.has_lapsed() && !is_expected(self.inner.store.rewrites_for())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rewriting_excuses_silence_for_a_while_only() {
        for (rewrites_for, expected) in [
            (None, false),
            (Some(30), true),
            (Some(599), true),
            (Some(600), false),
        ] {
            assert_eq!(
                is_expected(rewrites_for.map(Duration::from_secs)),
                expected,
                "{rewrites_for:?}"
            );
        }
    }

    #[tokio::test]
    async fn a_trial_that_panics_is_not_the_last() {
        let trials = Arc::new(Trials::default());
        trials.runs.store(true, Ordering::Release);
        let running = Running(Arc::clone(&trials));
        let panicked = tokio::spawn(async move {
            let running = running;
            assert!(!running.0.runs.load(Ordering::Acquire), "on purpose");
        });
        assert!(panicked.await.is_err_and(|error| error.is_panic()));
        assert!(
            !trials.runs.load(Ordering::Acquire),
            "the next one may begin"
        );
    }
}
