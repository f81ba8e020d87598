//! How things move between living servers: what was idle goes to the server that is to have it, and
//! a server that leaves hands over everything.

use std::sync::Arc;
use std::time::Duration;

use codelab_store::{Epoch, OwnedRow, StoreError};
use tokio::time::timeout;

use super::{IDLE_SECONDS, OwnedThing, row_name};
use crate::metrics::Metrics;
use crate::runtime::{Inner, Runtime};
use crate::timers::{log_failure, pause};

const BALANCE_EVERY: Duration = Duration::from_secs(2);
/// How long a server that stops waits for the database. Others take over afterwards in any case.
const LEAVE_WITHIN: Duration = Duration::from_secs(5);

/// Hands over what is idle and another server's share, until this server stops.
pub(crate) async fn balance(runtime: Arc<Inner>) {
    while pause(&runtime, BALANCE_EVERY).await {
        if !runtime.cluster.is_among() || runtime.cluster.lease.is_paused() {
            continue;
        }
        let idle = match runtime.cluster.is_draining() {
            true => Duration::ZERO,
            false => Duration::from_secs(IDLE_SECONDS),
        };
        for thing in runtime.cluster.held.idle(idle) {
            if runtime.cluster.is_chosen(&thing) {
                continue;
            }
            if let Err(error) = runtime.hand_over(&thing, idle).await {
                log_failure(
                    &error,
                    "something could not be handed over to another server",
                );
            }
        }
        if runtime.cluster.is_draining() {
            runtime.end_readers_of_sleeping_sessions();
        }
    }
}

impl Inner {
    /// Others may take sessions of a server that drains without asking it. So their readers end, and
    /// resume with whoever has them.
    fn end_readers_of_sleeping_sessions(&self) {
        for name in self.registry.read_while_sleeping() {
            let thing = OwnedThing::Session(name.id.clone());
            if !self.cluster.is_chosen(&thing) {
                self.registry.end_readers_of_sleeping(&name);
            }
        }
    }

    /// Nobody owns it afterwards, if nobody used it for so long.
    async fn hand_over(&self, thing: &OwnedThing, idle: Duration) -> Result<(), StoreError> {
        let row = match thing {
            // The Chat moves only when its server leaves: its readers would be cut for nothing.
            OwnedThing::Chat if !self.cluster.is_draining() => return Ok(()),
            OwnedThing::Chat => OwnedRow::Chat,
            OwnedThing::Project(project) => {
                let space = self.spaces.of_project(*project);
                if space.is_some_and(|space| self.spaces.is_in_use(&space)) {
                    return Ok(());
                }
                OwnedRow::Project(*project)
            }
            OwnedThing::Session(_) => return Ok(()),
        };
        // Nobody claims it again before it is released.
        let _one_at_a_time = self.cluster.claim_lock(thing).lock().await;
        let Some(epoch) = self.cluster.held.let_go(thing, idle) else {
            return Ok(());
        };
        self.release(row, epoch).await
    }

    async fn release(&self, row: OwnedRow, epoch: u64) -> Result<(), StoreError> {
        match row {
            OwnedRow::Project(project) => {
                self.registry.end_readers_of(project);
                if let Some(space) = self.spaces.of_project(project) {
                    space.vacate().await;
                    self.spaces.forget(&space);
                }
                self.memories.leaves(project).await;
            }
            OwnedRow::Chat => self.chat_leaves().await?,
        }
        let server_id = self.cluster.server_id();
        self.store
            .release_row(row, &server_id, Epoch(epoch))
            .await?;
        Metrics::count(&self.metrics.cluster_handovers, row_name(row));
        Ok(())
    }

    /// What this server has just claimed may have been another's before.
    pub(super) async fn moved_here(&self, row: OwnedRow) -> Result<(), StoreError> {
        match row {
            OwnedRow::Project(project) => {
                self.memories.moved_here(project);
                Ok(())
            }
            OwnedRow::Chat => self.chat_arrives().await,
        }
    }

    /// This server stops: what it does not work on is free at once.
    pub(crate) async fn leave(&self) {
        if !self.cluster.is_among() {
            return;
        }
        self.cluster
            .draining
            .store(true, std::sync::atomic::Ordering::Relaxed);
        let server_id = self.cluster.server_id();
        let left = async {
            self.store.drain(&server_id).await?;
            // Whoever waits for an answer hears that it moved.
            let _one_at_a_time = self.cluster.claim_lock(&OwnedThing::Chat).lock().await;
            if let Some(epoch) = self.cluster.held.take(&OwnedThing::Chat) {
                self.release(OwnedRow::Chat, epoch).await?;
            }
            self.store.release_quiet_projects(&server_id).await
        };
        match timeout(LEAVE_WITHIN, left).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => log_failure(
                &error,
                "what this server owns could not be handed over before it stops",
            ),
            Err(_) => tracing::warn!(
                "the database did not answer, so what this server owns is not handed over before it stops"
            ),
        }
    }
}

impl Runtime {
    /// This server takes nothing new and hands over what it has, as it becomes idle. It still
    /// answers, by forwarding.
    pub async fn drain(&self) -> Result<(), StoreError> {
        let cluster = &self.inner.cluster;
        self.inner.store.drain(&cluster.server_id()).await?;
        cluster
            .draining
            .store(true, std::sync::atomic::Ordering::Relaxed);
        Ok(())
    }
}
