//! The worker space within a step: a copy of the snapshot that grows with what the step decides, so
//! that two decisions of one step see each other.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Deref;

use codelab_protocol::{AgentName, AgentStatus};

use super::{
    AgentClosed, AgentGate, AgentSlots, Budget, BudgetState, Lane, SpaceSnapshot, Spending,
    ThreadEnd, WorkOutcome,
};

/// The answer to asking for a slot at an agent.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Slot {
    Granted(AgentStatus),
    /// All slots are in use; `Input::SlotGranted` follows.
    Queued,
    Closed(AgentClosed),
}

#[derive(Debug, Default)]
pub(crate) struct WorkingSpace {
    snapshot: SpaceSnapshot,
    /// Lanes that took a slot in this step, and did not only queue for one.
    took: BTreeSet<Lane>,
    /// Lanes that queued for a slot in this step.
    queued: BTreeSet<Lane>,
    /// Lanes that try a failing agent in this step, with the agent's gates as they were before: for
    /// new tasks, and for tasks that it has begun.
    trials: BTreeMap<Lane, [AgentGate; 2]>,
}

impl Deref for WorkingSpace {
    type Target = SpaceSnapshot;

    fn deref(&self) -> &SpaceSnapshot {
        &self.snapshot
    }
}

impl WorkingSpace {
    pub fn new(snapshot: SpaceSnapshot) -> Self {
        Self {
            snapshot,
            ..Self::default()
        }
    }

    /// Whether the agent would take a new task now, at once or in its turn.
    pub fn check(&self, agent: &AgentName) -> Result<(), AgentClosed> {
        let slots = self.snapshot.slots.get(agent);
        let slots = slots.ok_or_else(AgentClosed::not_registered)?;
        slots.admits(&slots.for_new, slots.new_queue)
    }

    /// Takes a slot at the agent, or queues for one. `begun`: the agent accepted this work before,
    /// so it takes it also when it takes no new work.
    pub fn enter(&mut self, lane: Lane, agent: &AgentName, begun: bool) -> Slot {
        let Some(slots) = self.snapshot.slots.get_mut(agent) else {
            return Slot::Closed(AgentClosed::not_registered());
        };
        let gate = if begun {
            &slots.for_begun
        } else {
            &slots.for_new
        };
        if let Err(closed) = slots.admits(gate, slots.accepted_queue) {
            return Slot::Closed(closed);
        }
        if let Some(gates) = slots.use_up_trial() {
            self.trials.insert(lane, gates);
        }
        self.snapshot.held.insert(lane, agent.clone());
        if slots.active >= slots.limit {
            slots.waiting += 1;
            self.queued.insert(lane);
            return Slot::Queued;
        }
        slots.active += 1;
        self.took.insert(lane);
        Slot::Granted(match slots.active >= slots.limit {
            _ if slots.is_failing => AgentStatus::Error,
            true => AgentStatus::Busy,
            false => AgentStatus::Processing,
        })
    }

    /// Gives the slot back, or leaves the queue for one, and frees what was set aside for the lane;
    /// says what the agent does then.
    pub fn leave(
        &mut self,
        lane: Lane,
        agent: &AgentName,
        ended: Option<ThreadEnd>,
    ) -> AgentStatus {
        self.snapshot.reserved.remove(&lane);
        let is_held = self.snapshot.held.get(&lane) == Some(agent);
        let Some(slots) = self.snapshot.slots.get_mut(agent) else {
            return AgentStatus::Idle;
        };
        if is_held {
            self.snapshot.held.remove(&lane);
            // Who leaves within the step has tried nothing: the next one may.
            if let Some([for_new, for_begun]) = self.trials.remove(&lane) {
                (slots.for_new, slots.for_begun) = (for_new, for_begun);
            }
            // What was taken within this step is free at once, the rest when the step is stored.
            // It goes to whoever waits for it.
            if self.took.remove(&lane) {
                match slots.waiting {
                    0 => slots.active = slots.active.saturating_sub(1),
                    _ => slots.waiting -= 1,
                }
            } else if self.queued.remove(&lane) {
                slots.waiting = slots.waiting.saturating_sub(1);
            } else {
                slots.leaving += 1;
            }
        }
        if slots.is_failing && ended.is_none_or(|ended| ended.outcome != WorkOutcome::Succeeded) {
            return AgentStatus::Error;
        }
        // A slot goes to whoever waits for it.
        match (slots.active + slots.waiting).saturating_sub(slots.leaving) {
            0 => AgentStatus::Idle,
            active if active >= slots.limit => AgentStatus::Busy,
            _ => AgentStatus::Processing,
        }
    }

    /// The project's budget.
    pub fn budget_state(&self) -> BudgetState {
        self.state_with(self.snapshot.reserved.values().copied())
    }

    /// The project's budget as it would be without what is set aside for this lane.
    pub fn budget_state_without(&self, lane: Lane) -> BudgetState {
        let others = self.snapshot.reserved.iter();
        self.state_with(
            others
                .filter(|(other, _)| **other != lane)
                .map(|(_, set)| *set),
        )
    }

    fn state_with(&self, reserved: impl Iterator<Item = Spending>) -> BudgetState {
        let snapshot = &self.snapshot;
        BudgetState {
            budget: snapshot.budget,
            granted: snapshot.granted,
            spent: snapshot.spent,
            reserved: reserved.fold(snapshot.others_reserved, Spending::plus),
        }
    }

    pub fn reserve(&mut self, lane: Lane, spending: Spending) {
        self.snapshot.reserved.insert(lane, spending);
    }

    pub fn spend(&mut self, lane: Lane, used: Spending) {
        self.snapshot.reserved.remove(&lane);
        self.snapshot.spent = self.snapshot.spent.plus(used);
    }

    pub fn set_budget(&mut self, budget: Budget, granted: Spending) {
        (self.snapshot.budget, self.snapshot.granted) = (budget, granted);
    }
}

impl AgentSlots {
    fn admits(&self, gate: &AgentGate, max_waiting: u64) -> Result<(), AgentClosed> {
        if let AgentGate::Closed(closed) = gate {
            return Err(closed.clone());
        }
        if self.active >= self.limit && self.waiting >= max_waiting {
            return Err(AgentClosed::queue_full());
        }
        Ok(())
    }

    /// One task tries a failing agent; the others wait for what becomes of it. Returns the gates as
    /// they were, if this task is the one.
    fn use_up_trial(&mut self) -> Option<[AgentGate; 2]> {
        let before = [self.for_new.clone(), self.for_begun.clone()];
        let mut is_trial = false;
        for gate in [&mut self.for_new, &mut self.for_begun] {
            if let AgentGate::Trial { then } = gate {
                *gate = AgentGate::Closed(then.clone());
                is_trial = true;
            }
        }
        is_trial.then_some(before)
    }
}

#[cfg(test)]
mod tests {
    use codelab_protocol::ErrorCode;

    use super::*;

    fn agent() -> AgentName {
        "agent_coder".parse().unwrap()
    }

    fn closed() -> AgentClosed {
        AgentClosed {
            code: ErrorCode::AgentUnavailable,
            why: "closed".to_owned(),
            retry_after_seconds: 1,
        }
    }

    fn space(slots: AgentSlots) -> WorkingSpace {
        WorkingSpace::new(SpaceSnapshot {
            slots: [(agent(), slots)].into(),
            ..SpaceSnapshot::default()
        })
    }

    fn slots(limit: u64) -> AgentSlots {
        AgentSlots {
            limit,
            active: 0,
            waiting: 0,
            leaving: 0,
            new_queue: 0,
            accepted_queue: 1,
            for_new: AgentGate::Open,
            for_begun: AgentGate::Open,
            is_failing: false,
        }
    }

    #[test]
    fn decisions_of_one_step_see_each_other() {
        let mut space = space(slots(1));
        assert_eq!(space.check(&agent()), Ok(()));
        let granted = space.enter(Lane(1), &agent(), false);
        assert_eq!(granted, Slot::Granted(AgentStatus::Busy));
        assert_eq!(space.check(&agent()), Err(AgentClosed::queue_full()));
        assert_eq!(space.enter(Lane(2), &agent(), false), Slot::Queued);
        let full = Slot::Closed(AgentClosed::queue_full());
        assert_eq!(space.enter(Lane(3), &agent(), false), full);
        // What the step itself took is free at once, for the one that waits.
        space.leave(Lane(1), &agent(), None);
        assert_eq!(space.enter(Lane(3), &agent(), false), Slot::Queued);
    }

    #[test]
    fn a_slot_from_before_is_free_when_the_step_is_stored() {
        let mut space = space(AgentSlots {
            active: 1,
            ..slots(1)
        });
        space.snapshot.held.insert(Lane(1), agent());
        assert_eq!(space.leave(Lane(1), &agent(), None), AgentStatus::Idle);
        assert_eq!(space.enter(Lane(2), &agent(), false), Slot::Queued);
        assert_eq!(space.leave(Lane(2), &agent(), None), AgentStatus::Idle);
    }

    #[test]
    fn one_task_tries_a_failing_agent() {
        let mut space = space(AgentSlots {
            for_new: AgentGate::Trial { then: closed() },
            for_begun: AgentGate::Trial { then: closed() },
            is_failing: true,
            ..slots(4)
        });
        let granted = space.enter(Lane(1), &agent(), false);
        assert_eq!(granted, Slot::Granted(AgentStatus::Error));
        assert_eq!(space.enter(Lane(2), &agent(), true), Slot::Closed(closed()));
        // It left without having tried.
        space.leave(Lane(1), &agent(), None);
        let granted = space.enter(Lane(2), &agent(), true);
        assert_eq!(granted, Slot::Granted(AgentStatus::Error));
    }

    #[test]
    fn a_call_does_not_compete_with_itself() {
        let mut space = space(slots(1));
        let some = Spending {
            tokens: 7,
            usd: 0.1,
        };
        space.reserve(Lane::OWN, some);
        assert_eq!(space.budget_state().reserved, some);
        let without = space.budget_state_without(Lane::OWN).reserved;
        assert_eq!(without, Spending::default());
        space.spend(Lane::OWN, some);
        assert_eq!(space.budget_state().reserved, Spending::default());
        assert_eq!(space.budget_state().spent, some);
    }
}
