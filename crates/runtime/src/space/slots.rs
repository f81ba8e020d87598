//! The places that a session's threads hold at agents, and the worker space as the engine asks it.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::atomic::Ordering;
use std::task::Poll;
use std::time::Duration;

use codelab_engine::{
    AgentClosed, Budget, BudgetState, Input, Lane, ReserveFn, Slot, Spending, ThreadEnd,
    WorkOutcome, WorkerSpace as EngineSpace,
};
use codelab_protocol::{AgentName, AgentStatus, ErrorCode, SessionId};

use super::ledger::Undo;
use super::{Space, TeamSnapshot};
use crate::bus::{BusEntry, Permit, Reason, TaskOutcome, Unavailable, WaitingTask};
use crate::metrics::Metrics;

/// What a session's threads hold, by lane.
#[derive(Default)]
pub(crate) struct HeldSlots(HashMap<Lane, Held>);

enum Held {
    Permit(Permit),
    Waiting(WaitingTask),
}

impl Held {
    fn agent(&self) -> Option<&AgentName> {
        match self {
            Self::Permit(permit) => Some(permit.agent()),
            Self::Waiting(waiting) => waiting.agent(),
        }
    }
}

/// What one step took and gave back; undone if the step is not committed.
#[derive(Default)]
pub(crate) struct SlotChanges {
    entered: Vec<Lane>,
    left: Vec<(Lane, Held, Option<ThreadEnd>)>,
    ledger: Vec<Undo>,
}

impl HeldSlots {
    /// Waits until a thread that queues has its place, or will not get it; for ever when none
    /// queues.
    pub async fn granted(&mut self, space: Option<&Space>) -> Input {
        let (lane, result) = std::future::poll_fn(|context| {
            for (lane, held) in &mut self.0 {
                if let Held::Waiting(waiting) = held
                    && let Poll::Ready(result) = Pin::new(waiting).poll(context)
                {
                    return Poll::Ready((*lane, result));
                }
            }
            Poll::Pending
        })
        .await;
        match result {
            Ok(permit) => {
                let status = space.map_or(AgentStatus::Processing, |space| {
                    space.status(permit.agent())
                });
                self.0.insert(lane, Held::Permit(permit));
                Input::SlotGranted { lane, status }
            }
            Err(unavailable) => {
                self.0.remove(&lane);
                Input::SlotLost {
                    lane,
                    closed: closed(&unavailable),
                }
            }
        }
    }

    pub fn is_waiting(&self) -> bool {
        self.0.values().any(|held| matches!(held, Held::Waiting(_)))
    }

    pub fn commit(&mut self, changes: SlotChanges, space: &Space) {
        for _ in changes
            .ledger
            .iter()
            .filter(|undo| matches!(undo, Undo::Spent(_)))
        {
            space.spending_committed();
        }
        for (_, held, ended) in changes.left {
            let Held::Permit(permit) = held else { continue };
            // A thread that only waits for somebody is not done; its place is free.
            let Some(ThreadEnd { outcome, worked_ms }) = ended else {
                continue;
            };
            let outcome = match outcome {
                WorkOutcome::Succeeded => TaskOutcome::Succeeded,
                WorkOutcome::Failed => TaskOutcome::Failed,
                WorkOutcome::Cancelled => TaskOutcome::Cancelled,
            };
            permit.finished(outcome, Duration::from_millis(worked_ms));
            space.task_ended(outcome);
        }
    }

    pub fn roll_back(&mut self, changes: SlotChanges, space: Option<&Space>, session: &SessionId) {
        for lane in changes.entered {
            self.0.remove(&lane);
        }
        if let Some(space) = space {
            changes
                .ledger
                .into_iter()
                .rev()
                .for_each(|undo| space.undo(session, undo));
        }
        for (lane, held, _) in changes.left.into_iter().rev() {
            self.0.insert(lane, held);
        }
    }
}

/// The worker space during one step of one session.
pub(crate) struct StepSpace<'a> {
    pub space: &'a Space,
    pub team: &'a TeamSnapshot,
    pub session: &'a SessionId,
    pub slots: &'a mut HeldSlots,
    /// Of the inputs before it that share its commit: the bus still counts what they gave back.
    pub earlier: &'a [SlotChanges],
    pub changes: SlotChanges,
}

impl EngineSpace for StepSpace<'_> {
    fn check(&self, agent: &AgentName) -> Result<(), AgentClosed> {
        self.space
            .bus
            .check(agent)
            .map_err(|unavailable| self.space.refused(&unavailable))
    }

    fn enter(&mut self, lane: Lane, agent: &AgentName, begun: bool) -> Slot {
        let (held, slot) = match self.space.bus.enter(agent, begun) {
            Ok(BusEntry::Now(permit)) => (
                Held::Permit(permit),
                Slot::Granted(self.space.status(agent)),
            ),
            Ok(BusEntry::Later(waiting)) => (Held::Waiting(waiting), Slot::Queued),
            Err(unavailable) => return Slot::Closed(self.space.refused(&unavailable)),
        };
        // A thread has one place; a former one is given back with the step.
        self.give_back(lane, None);
        self.slots.0.insert(lane, held);
        self.changes.entered.push(lane);
        slot
    }

    fn leave(&mut self, lane: Lane, agent: &AgentName, ended: Option<ThreadEnd>) -> AgentStatus {
        self.changes
            .ledger
            .push(self.space.release(self.session, lane));
        self.give_back(lane, ended);
        let failing = self.space.status(agent) == AgentStatus::Error;
        if failing && ended.is_none_or(|ended| ended.outcome != WorkOutcome::Succeeded) {
            return AgentStatus::Error;
        }
        // A place is free only after the commit, and then goes to whoever waits.
        let Some(metrics) = self.space.bus.metrics(agent) else {
            return AgentStatus::Idle;
        };
        let active = (metrics.active + metrics.queue_length).saturating_sub(self.given_back(agent));
        match active {
            0 => AgentStatus::Idle,
            active if active >= metrics.concurrency_limit => AgentStatus::Busy,
            _ => AgentStatus::Processing,
        }
    }

    fn reserve(&mut self, lane: Lane, fit: &mut ReserveFn<'_>) {
        self.changes
            .ledger
            .extend(self.space.reserve(self.session, lane, fit));
    }

    fn spend(&mut self, lane: Lane, used: Spending) {
        self.changes
            .ledger
            .extend(self.space.spend(self.session, lane, used));
    }

    fn standing(&self) -> BudgetState {
        self.space.standing()
    }

    fn set_budget(&mut self, budget: Budget, granted: Spending) {
        self.changes
            .ledger
            .push(self.space.set_budget(budget, granted));
    }

    fn usual_tokens(&self, agent: &AgentName) -> Option<u64> {
        self.space.average_tokens(agent)
    }

    fn price_usd(&self, agent: &AgentName, tokens: u64) -> Option<f64> {
        self.space.model.price_usd(self.model(agent), tokens)
    }

    fn model_of(&self, agent: &AgentName) -> String {
        self.model(agent).to_owned()
    }

    fn call_cost_usd(
        &self,
        agent: &AgentName,
        prompt_tokens: u64,
        answer_tokens: u64,
    ) -> Option<f64> {
        self.space
            .model
            .call_cost_usd(self.model(agent), prompt_tokens, answer_tokens)
    }

    fn prompt_tokens(&self, agent: &AgentName, lane: Lane) -> u64 {
        self.team
            .team
            .get(agent)
            .map_or(0, |agent| agent.prompt_tokens(lane))
    }

    fn client_attached(&self) -> bool {
        self.space.client_attached()
    }
}

impl StepSpace<'_> {
    /// The orchestrator is no agent of the project, and uses the server's model.
    fn model(&self, agent: &AgentName) -> &str {
        let own = self
            .team
            .team
            .get(agent)
            .and_then(|agent| agent.model.as_deref());
        own.unwrap_or(&self.space.default_model)
    }

    fn give_back(&mut self, lane: Lane, ended: Option<ThreadEnd>) {
        let Some(held) = self.slots.0.remove(&lane) else {
            return;
        };
        match self
            .changes
            .entered
            .iter()
            .position(|entered| *entered == lane)
        {
            // Entered and left within one step: there is nothing to give back.
            Some(slot) => drop(self.changes.entered.swap_remove(slot)),
            None => self.changes.left.push((lane, held, ended)),
        }
    }

    /// How many places at the agent are free once this is committed.
    fn given_back(&self, agent: &AgentName) -> u64 {
        let left = self
            .earlier
            .iter()
            .chain([&self.changes])
            .flat_map(|changes| &changes.left);
        left.filter(|(_, held, _)| held.agent() == Some(agent))
            .count() as u64
    }
}

impl Space {
    pub(super) fn status(&self, agent: &AgentName) -> AgentStatus {
        self.bus
            .status(agent)
            .map_or(AgentStatus::Error, Into::into)
    }

    /// A queue that fills and empties between two looks at the space is told of all the same.
    fn refused(&self, unavailable: &Unavailable) -> AgentClosed {
        if unavailable.reason == Reason::QueueFull {
            self.refusals.fetch_add(1, Ordering::Relaxed);
            Metrics::count(&self.metrics.bus_tasks, "refused");
        }
        closed(unavailable)
    }

    /// How many tasks met a full queue since this was asked last.
    pub(crate) fn take_refusals(&self) -> u64 {
        self.refusals.swap(0, Ordering::Relaxed)
    }
}

fn closed(unavailable: &Unavailable) -> AgentClosed {
    let seconds =
        unavailable.retry_after.as_secs() + u64::from(unavailable.retry_after.subsec_nanos() > 0);
    let code = match unavailable.reason {
        Reason::QueueFull => ErrorCode::QueueFull,
        Reason::NotRegistered | Reason::Deregistered | Reason::Broken => {
            ErrorCode::AgentUnavailable
        }
    };
    AgentClosed {
        code,
        why: unavailable.to_string(),
        retry_after_seconds: seconds.max(1),
    }
}
