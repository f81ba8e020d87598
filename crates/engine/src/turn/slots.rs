//! The slot that a thread of a project holds at its agent: taken when it works, given back when it
//! waits or ends.

use codelab_protocol::ErrorCode;

use super::Thread;
use crate::session::Transition;
use crate::space::Slot;
use crate::{Effect, ThreadEnd, WorkOutcome};

impl Transition<'_, '_> {
    /// Asks for a slot at the thread's agent.
    pub(super) fn enter(&mut self, thread: &Thread) -> Slot {
        let (lane, agent) = (thread.lane, thread.agent.clone());
        let begun = thread.accepted_by.as_ref() == Some(&agent);
        let slot = self.space.enter(lane, &agent, begun);
        let effect = match &slot {
            Slot::Granted(_) => Some(Effect::TakeSlot { lane, agent, begun }),
            Slot::Queued => Some(Effect::QueueForSlot { lane, agent, begun }),
            Slot::Closed(closed) => {
                let is_full = closed.code == ErrorCode::QueueFull;
                is_full.then_some(Effect::AgentQueueFull { agent })
            }
        };
        if let Some(effect) = effect {
            self.output.push(effect);
        }
        slot
    }

    /// Stops the thread's clock and gives its slot back.
    pub(crate) fn leave(&mut self, thread: &mut Thread, outcome: Option<WorkOutcome>) {
        if let Some(since) = thread.since.take() {
            thread.worked_ms += self.world.now.millis_since(since).max(0) as u64;
        }
        self.release(thread);
        // Outside of a project, and while it waits for somebody, a thread holds no slot.
        let Some(agent) = thread.slot.take() else {
            return;
        };
        let (lane, worked_ms) = (thread.lane, thread.worked_ms);
        let ended = outcome.map(|outcome| ThreadEnd { outcome, worked_ms });
        let status = self.space.leave(lane, &agent, ended);
        self.output.push(Effect::LeaveSlot {
            lane,
            agent: agent.clone(),
            ended,
        });
        self.view().show_left(thread, agent, status);
    }
}
