//! What holds when a life is over.

use codelab_engine::{ApprovalOutcome, Session};

use super::Record;
use crate::it::space::TestSpace;

impl Record {
    /// Every accepted message came to an end; nothing is left open.
    pub fn at_rest(&self, session: &Session, space: &TestSpace) {
        assert!(session.turn().is_none(), "the session never came to rest");
        assert_eq!(session.open_rewind(), None, "a rewind never ended");
        assert_eq!(session.queued(), 0);
        assert_eq!(
            self.accepted,
            self.ended.keys().copied().collect(),
            "accepted and ended turns differ"
        );
        assert!(
            self.unanswered.is_empty(),
            "calls without results: {:?}",
            self.unanswered
        );
        for (call_id, call) in &self.calls {
            assert!(call.status.is_some(), "{call_id} is still open");
        }
        for (call_id, asked) in &self.approvals {
            let decided = asked.status.expect("an approval is still open");
            let rows = usize::from(decided != ApprovalOutcome::Cancelled);
            assert_eq!(
                asked.audited, rows,
                "{call_id} ({decided:?}) has {} audit rows",
                asked.audited
            );
        }
        self.workflows.at_rest();
        assert!(
            space.own_lanes().is_empty() && space.grants.is_empty() && space.reserved.is_empty()
        );
    }
}
