//! Who holds slots and money in a life.

use std::collections::BTreeSet;

use codelab_engine::{Lane, Session, ThreadPhase};

use super::Record;
use crate::it::kit::Stage;

impl Record {
    /// A thread has a slot exactly while it works or waits for one; money is set aside for calls
    /// only.
    pub(super) fn check_slots(&self, session: &Session, stage: &Stage) {
        let space = &stage.space;
        space.check_limits();
        let threads = session.turn().into_iter().flat_map(|turn| turn.threads());
        let working = threads.filter(|thread| {
            matches!(
                thread.phase,
                ThreadPhase::Thinking { .. } | ThreadPhase::Queued
            )
        });
        let working: BTreeSet<Lane> = working.map(|thread| thread.lane()).collect();
        let held = space.own_lanes();
        // While the server stops, tasks wait for the next start without a slot.
        let fits = if stage.stopping {
            held.is_subset(&working)
        } else {
            held == working
        };
        assert!(
            fits,
            "{held:?} hold slots, {working:?} work or wait for one"
        );
        let calling: BTreeSet<Lane> = self.models.keys().map(|(_, lane)| *lane).collect();
        assert!(
            space.reserved.keys().all(|lane| calling.contains(lane)),
            "money is set aside for nothing"
        );
    }
}
