//! How a worker space comes, is used, and goes: made by its first use, closed to new tasks while it
//! is cleaned up, empty until the next use.

use std::time::Duration;

use tokio::time::Instant;

use super::{Space, lock};
use crate::bus::Draining;

#[derive(Default, Clone, Copy, PartialEq, Eq)]
pub(super) enum SpacePhase {
    /// Holds nothing; the next use builds it up.
    #[default]
    Absent,
    Live {
        since: Instant,
    },
    /// Takes no new tasks until it is vacated.
    Closing,
}

impl Space {
    pub(crate) fn used(&self) {
        *lock(&self.last_used) = Instant::now();
    }

    /// A use of the space, which makes it where it is not there.
    pub(super) fn wake(&self) {
        self.used();
        self.wake_locked(&mut lock(&self.phase));
    }

    pub(super) fn wake_locked(&self, phase: &mut SpacePhase) {
        if *phase == SpacePhase::Absent {
            *phase = SpacePhase::Live {
                since: Instant::now(),
            };
            self.metrics.worker_spaces_made.inc();
            tracing::info!(user = %self.key.user, project = %self.key.project, "worker space created");
        }
    }

    pub(super) fn is_present(&self) -> bool {
        *lock(&self.phase) != SpacePhase::Absent
    }

    /// Without waiting for whoever changes it at this moment: then it is not.
    pub(super) fn is_certainly_absent(&self) -> bool {
        self.phase
            .try_lock()
            .is_ok_and(|phase| *phase == SpacePhase::Absent)
    }

    pub(super) fn is_closing(&self) -> bool {
        *lock(&self.phase) == SpacePhase::Closing
    }

    pub(super) fn uptime(&self) -> Duration {
        match *lock(&self.phase) {
            SpacePhase::Live { since } => since.elapsed(),
            SpacePhase::Absent | SpacePhase::Closing => Duration::ZERO,
        }
    }

    /// Whether anything in it would be lost or disturbed if it went away now.
    pub(crate) fn is_working(&self) -> bool {
        let load = self.bus.load();
        load.active > 0 || load.waiting > 0 || !lock(&self.working).is_empty()
    }

    /// No task begins from now on. Gives what still runs, also where somebody else closes the space
    /// already.
    pub(super) fn close(&self) -> Vec<Draining> {
        let mut phase = lock(&self.phase);
        *phase = SpacePhase::Closing;
        self.bus.close_all()
    }

    /// Closes the space if nobody used it for this long.
    pub(super) fn close_if_idle(&self, idle: Duration) -> bool {
        let mut phase = lock(&self.phase);
        let is_idle = lock(&self.last_used).elapsed() >= idle;
        if !is_idle || !matches!(*phase, SpacePhase::Live { .. }) || self.is_working() {
            return false;
        }
        *phase = SpacePhase::Closing;
        true
    }

    /// Lets go of everything that can be rebuilt. Files of the user are never touched; clients that
    /// are there stay.
    pub(crate) async fn vacate(&self) {
        {
            let mut phase = lock(&self.phase);
            self.bus.clear();
            lock(&self.memo).forget();
            *lock(&self.ledger) = Default::default();
            *lock(&self.calls) = Default::default();
            *phase = SpacePhase::Absent;
        }
        self.room.send_replace(());
        self.mcp.let_go().await;
        self.clear_agent_cache().await;
        tracing::info!(user = %self.key.user, project = %self.key.project, "worker space cleaned up");
    }
}
