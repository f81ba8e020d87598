//! The lease of this server, by its own clock that nobody sets.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// How long a lease runs after it was renewed.
pub(crate) const LEASE: Duration = Duration::from_secs(10);
/// Two renewals that were answered further apart than this are no unbroken row: the database, or this
/// server, stood still. A server renews every three seconds.
const MAX_GAP: Duration = Duration::from_secs(5);

/// One run of this server under one name. It ends when others took over what it owned; then the
/// server goes on under another name.
#[derive(Debug)]
pub(crate) struct ServerRun {
    pub server_id: Arc<str>,
    pub ended: CancellationToken,
}

impl ServerRun {
    pub fn new(server_id: &str) -> Arc<Self> {
        Arc::new(Self {
            server_id: server_id.into(),
            ended: CancellationToken::new(),
        })
    }
}

/// Until when this server's lease runs at least.
pub(crate) struct ServerLease {
    state: Mutex<LeaseState>,
    renewed: Notify,
    /// Others can take over, so this server must not go on without its lease.
    is_shared: bool,
}

struct LeaseState {
    until: Instant,
    /// When the last renewal was answered.
    renewed_at: Instant,
    /// Since when it has been renewed without a break.
    unbroken_since: Instant,
}

impl ServerLease {
    /// A lease that was asked for at `asked_at`.
    pub fn new(asked_at: Instant, is_shared: bool) -> Self {
        Self {
            state: Mutex::new(LeaseState {
                until: asked_at + LEASE,
                renewed_at: asked_at,
                unbroken_since: asked_at,
            }),
            renewed: Notify::new(),
            is_shared,
        }
    }

    /// The time counts from when it was asked for: the database counts from when it heard of it.
    pub fn renewed(&self, asked_at: Instant) {
        let mut state = self.lock();
        let now = Instant::now();
        if now.duration_since(state.renewed_at) > MAX_GAP {
            state.unbroken_since = now;
        }
        state.renewed_at = now;
        state.until = asked_at + LEASE;
        drop(state);
        self.renewed.notify_waiters();
    }

    /// A renewal failed, so the row is broken.
    pub fn not_renewed(&self) {
        self.lock().unbroken_since = Instant::now();
    }

    /// This server begins anew under another name.
    pub fn begun(&self, asked_at: Instant) {
        let mut state = self.lock();
        state.until = asked_at + LEASE;
        state.renewed_at = asked_at;
        state.unbroken_since = Instant::now();
        drop(state);
        self.renewed.notify_waiters();
    }

    pub fn has_lapsed(&self) -> bool {
        Instant::now() > self.lock().until
    }

    /// Nothing may be committed, shown or answered now.
    pub fn is_paused(&self) -> bool {
        self.is_shared && self.has_lapsed()
    }

    /// Whether this server may judge others: it has been there for a whole lease. So a database
    /// that stood still costs a pause, and nobody takes over from servers that are well.
    pub fn may_fence(&self) -> bool {
        let state = self.lock();
        let now = Instant::now();
        // The next renewal may already be late.
        let is_current = now.duration_since(state.renewed_at) <= MAX_GAP;
        is_current && now <= state.until && now.duration_since(state.unbroken_since) >= LEASE
    }

    /// Waits while the server is paused. False once the run has ended.
    pub async fn held(&self, run: &ServerRun) -> bool {
        loop {
            let renewed = self.renewed.notified();
            tokio::pin!(renewed);
            // Registered before looking, so that no renewal goes unheard.
            renewed.as_mut().enable();
            if run.ended.is_cancelled() {
                return false;
            }
            if !self.is_paused() {
                return true;
            }
            tokio::select! {
                () = renewed => {}
                () = run.ended.cancelled() => return false,
            }
        }
    }

    /// Waits while the server is paused, whoever it is afterwards.
    pub async fn resumed(&self) {
        while self.is_paused() {
            let renewed = self.renewed.notified();
            tokio::pin!(renewed);
            renewed.as_mut().enable();
            if self.is_paused() {
                renewed.await;
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, LeaseState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn only_a_server_that_was_there_all_along_may_judge_others() {
        let lease = ServerLease::new(Instant::now(), true);
        let wait = |seconds| tokio::time::advance(Duration::from_secs(seconds));
        for _ in 0..3 {
            assert!(!lease.may_fence());
            wait(3).await;
            lease.renewed(Instant::now());
        }
        wait(1).await;
        assert!(lease.may_fence());
        // The database stood still.
        wait(14).await;
        assert!(lease.is_paused() && !lease.may_fence());
        lease.renewed(Instant::now());
        assert!(
            !lease.is_paused() && !lease.may_fence(),
            "it was away itself"
        );
        for _ in 0..4 {
            assert!(!lease.may_fence());
            wait(3).await;
            lease.renewed(Instant::now());
        }
        assert!(lease.may_fence());
        // It stood still for less than a lease: its own ran on, but those of others may have lapsed.
        wait(9).await;
        assert!(!lease.is_paused() && !lease.may_fence());
        lease.renewed(Instant::now());
        assert!(!lease.is_paused() && !lease.may_fence());
        // The answer came late: the lease counts from when it was asked for.
        let asked_at = Instant::now();
        wait(9).await;
        lease.renewed(asked_at);
        assert!(!lease.is_paused() && !lease.may_fence());
        for _ in 0..4 {
            wait(3).await;
            lease.renewed(Instant::now());
        }
        assert!(lease.may_fence());
        lease.not_renewed();
        assert!(!lease.may_fence());
    }

    #[tokio::test(start_paused = true)]
    async fn work_waits_for_the_lease_and_ends_with_the_run() {
        let (lease, run) = (ServerLease::new(Instant::now(), true), ServerRun::new("a"));
        assert!(lease.held(&run).await);
        tokio::time::advance(LEASE * 2).await;
        let renewed = async {
            tokio::task::yield_now().await;
            lease.renewed(Instant::now());
        };
        assert!(tokio::join!(lease.held(&run), renewed).0);
        tokio::time::advance(LEASE * 2).await;
        let ended = async {
            tokio::task::yield_now().await;
            run.ended.cancel();
        };
        assert!(!tokio::join!(lease.held(&run), ended).0);
    }

    #[tokio::test(start_paused = true)]
    async fn nobody_takes_over_from_the_only_server_of_an_embedded_database() {
        let lease = ServerLease::new(Instant::now(), false);
        tokio::time::advance(LEASE * 2).await;
        assert!(lease.has_lapsed() && !lease.is_paused());
    }
}
