//! When a session has nothing left to do.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use codelab_client::EventData;
use codelab_protocol::{ChunkBody, TurnStatus};

use super::{Visit, Watched};

/// Looked at again after this time even if nothing was shown.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// An answer under way, from the moment it was decided on.
pub(super) struct Answering {
    count: Arc<AtomicUsize>,
    watched: Arc<Watched>,
}

impl Drop for Answering {
    fn drop(&mut self) {
        self.count.fetch_sub(1, Ordering::SeqCst);
        self.watched.changed.notify_waiters();
    }
}

impl Visit {
    pub(super) fn begin_answer(&self) -> Answering {
        self.answering.fetch_add(1, Ordering::SeqCst);
        Answering {
            count: Arc::clone(&self.answering),
            watched: Arc::clone(&self.watched),
        }
    }

    /// Ends the visit once no turn runs, waits or is queued and no answer is on its way.
    pub(super) async fn wait_until_idle(&self) {
        while !self.is_over() {
            let changed = self.watched.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            let is_open = self.watched.ledger().open().is_some();
            let is_quiet = self.answering.load(Ordering::SeqCst) == 0;
            if !is_open && is_quiet && self.stands_idle().await {
                return self.end();
            }
            let _changed_or_not = tokio::time::timeout(LOOK_AGAIN, changed).await;
        }
    }

    /// Asks for the switch that was asked for last. A session that is idle is there already and
    /// shows nothing.
    async fn stands_idle(&self) -> bool {
        let (home, is_known) = {
            let ledger = self.watched.ledger();
            let last = ledger
                .switches
                .last()
                .map_or("orchestrator", |switch| switch.agent.as_str());
            (last.to_owned(), ledger.home().is_some())
        };
        let Some(stream) = self.switch(&home).await else {
            return false;
        };
        let events = match stream.collect().await {
            Ok(events) => events,
            Err(error) => {
                self.refused(&error);
                return false;
            }
        };
        let stored = events
            .iter()
            .filter(|event| self.record(event.id, &event.data).is_some())
            .count();
        let completed = events
            .iter()
            .any(|event| matches!(&event.data, EventData::Done(done) if done.status == TurnStatus::Completed));
        let switched = events.iter().any(
            |event| matches!(&event.data, EventData::Chunk(chunk) if matches!(chunk.body, ChunkBody::SwitchAgent(_))),
        );
        if is_known && completed && stored == 1 && switched {
            self.watched
                .ledger()
                .violate(format!("the acknowledged switch to {home} was lost"));
        }
        completed && stored == 0
    }
}
