//! The slots that a session's threads hold at agents: what a step sees of the worker space, and what
//! it does to it.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Poll;
use std::time::Duration;

use codelab_engine::{
    AgentClosed, AgentGate, AgentSlots, Effect, Input, Lane, Session, SessionModel, SpaceSnapshot,
    ThreadEnd, TokenPrice, WorkOutcome,
};
use codelab_protocol::{AgentName, AgentStatus, ErrorCode, SessionId};

use super::ledger::Undo;
use super::{Space, TeamSnapshot};
use crate::bus::{BusEntry, Entry, Permit, Reason, SlotUse, TaskOutcome, Unavailable, WaitingTask};
use crate::metrics::Metrics;

/// What a session's threads hold, by lane.
#[derive(Default)]
pub(crate) struct HeldSlots(HashMap<Lane, Held>);

enum Held {
    Permit(Permit),
    Waiting(WaitingTask),
    /// An answer that was there at once, and that the session has not heard of.
    Unheard(Result<Permit, Unavailable>),
}

impl Held {
    fn agent(&self) -> Option<&AgentName> {
        match self {
            Self::Permit(permit) => Some(permit.agent()),
            Self::Waiting(waiting) => waiting.agent(),
            Self::Unheard(Ok(permit)) => Some(permit.agent()),
            Self::Unheard(Err(_)) => None,
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
    /// Waits until a thread that queues has its slot, or will not get it; for ever when none queues.
    pub async fn granted(&mut self, space: Option<&Space>) -> Input {
        let (lane, result) = match self.unheard() {
            Some(unheard) => unheard,
            None => self.answered().await,
        };
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

    fn unheard(&mut self) -> Option<(Lane, Result<Permit, Unavailable>)> {
        let is_unheard = |held: &Held| matches!(held, Held::Unheard(_));
        let lane = *self.0.iter().find(|(_, held)| is_unheard(held))?.0;
        match self.0.remove(&lane)? {
            Held::Unheard(result) => Some((lane, result)),
            Held::Permit(_) | Held::Waiting(_) => None,
        }
    }

    async fn answered(&mut self) -> (Lane, Result<Permit, Unavailable>) {
        std::future::poll_fn(|context| {
            for (lane, held) in &mut self.0 {
                if let Held::Waiting(waiting) = held
                    && let Poll::Ready(result) = Pin::new(waiting).poll(context)
                {
                    return Poll::Ready((*lane, result));
                }
            }
            Poll::Pending
        })
        .await
    }

    /// Whether a thread will hear of a slot.
    pub fn is_waiting(&self) -> bool {
        self.0.values().any(|held| !matches!(held, Held::Permit(_)))
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
            // One that only queued did no work.
            let Held::Permit(permit) = held else { continue };
            // A thread that only waits for somebody is not done; its slot is free.
            let Some(ThreadEnd { outcome, worked_ms }) = ended else {
                continue;
            };
            let outcome = match outcome {
                WorkOutcome::Succeeded => TaskOutcome::Succeeded,
                WorkOutcome::Failed => TaskOutcome::Failed,
                WorkOutcome::Hindered => TaskOutcome::Hindered,
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

impl HeldSlots {
    /// Performs what the engine decided about the worker space. The caller holds the bus's admission
    /// since the snapshot was made, so the bus answers as the engine expects.
    pub fn perform(
        &mut self,
        effects: &[Effect],
        space: &Space,
        session: &SessionId,
    ) -> SlotChanges {
        let mut changes = SlotChanges::default();
        for effect in effects {
            match effect {
                Effect::TakeSlot { lane, agent, begun } => {
                    match space.bus.enter(agent, *begun) {
                        Ok(BusEntry::Now(permit)) => {
                            self.hold(*lane, Held::Permit(permit), &mut changes);
                        }
                        // The thread works without a slot, which harms nobody but the count.
                        Ok(BusEntry::Later(_)) | Err(_) => {
                            tracing::error!(%session, %agent, "agent gave no slot although one was free");
                        }
                    }
                }
                Effect::QueueForSlot { lane, agent, begun } => {
                    let held = match space.bus.enter(agent, *begun) {
                        Ok(BusEntry::Later(waiting)) => Held::Waiting(waiting),
                        Ok(BusEntry::Now(permit)) => Held::Unheard(Ok(permit)),
                        Err(unavailable) => Held::Unheard(Err(unavailable)),
                    };
                    self.hold(*lane, held, &mut changes);
                }
                Effect::LeaveSlot { lane, ended, .. } => {
                    changes.ledger.push(space.release(session, *lane));
                    self.give_back(*lane, *ended, &mut changes);
                }
                Effect::AgentQueueFull { .. } => space.count_refusal(),
                Effect::ReserveBudget { lane, spending } => {
                    let undo = space.reserve(session, *lane, *spending);
                    changes.ledger.push(undo);
                }
                Effect::SpendBudget { lane, used } => {
                    changes.ledger.extend(space.spend(session, *lane, *used));
                }
                Effect::ProjectBudget { budget, granted } => {
                    changes.ledger.push(space.set_budget(*budget, *granted));
                }
                // Performed with the commit, or after it.
                Effect::Event(_)
                | Effect::Message(_)
                | Effect::Attached(_)
                | Effect::ForgetReasoning { .. }
                | Effect::Switched(_)
                | Effect::ApprovalOpened(_)
                | Effect::ApprovalClosed { .. }
                | Effect::ApprovalMoved { .. }
                | Effect::ApprovalPreviewed { .. }
                | Effect::CallOpened { .. }
                | Effect::CallClosed { .. }
                | Effect::HistoryHidden { .. }
                | Effect::HistoryShown { .. }
                | Effect::InputAccepted { .. }
                | Effect::Audit(_)
                | Effect::Title(_)
                | Effect::PlanSaved { .. }
                | Effect::Spent(_)
                | Effect::Remember(_)
                | Effect::CallTool { .. }
                | Effect::Elicited { .. }
                | Effect::CallModel(_) => {}
            }
        }
        changes
    }

    fn hold(&mut self, lane: Lane, held: Held, changes: &mut SlotChanges) {
        // A thread has one slot; a former one is given back with the step.
        self.give_back(lane, None, changes);
        self.0.insert(lane, held);
        changes.entered.push(lane);
    }

    fn give_back(&mut self, lane: Lane, ended: Option<ThreadEnd>, changes: &mut SlotChanges) {
        // After a restart, and for a thread that was refused, there is nothing to give back.
        let Some(held) = self.0.remove(&lane) else {
            return;
        };
        match changes.entered.iter().position(|entered| *entered == lane) {
            // Entered and left within one step.
            Some(entered) => drop(changes.entered.swap_remove(entered)),
            None => changes.left.push((lane, held, ended)),
        }
    }
}

impl Space {
    /// What a step of the session sees. `earlier` are the changes of the inputs before it that share
    /// its commit: the bus still counts what they gave back.
    pub(crate) fn snapshot(
        &self,
        session: &Session,
        team: &TeamSnapshot,
        slots: &HeldSlots,
        earlier: &[SlotChanges],
    ) -> SpaceSnapshot {
        let left = || earlier.iter().flat_map(|changes| &changes.left);
        let limits = self.bus.limits();
        let agent_slots = |(agent, slots): (AgentName, SlotUse)| {
            let leaving = left().filter(|(_, held, _)| held.agent() == Some(&agent));
            let slots = AgentSlots {
                limit: slots.concurrency_limit as u64,
                active: slots.active as u64,
                waiting: slots.waiting as u64,
                leaving: leaving.count() as u64,
                new_queue: limits.queue_length as u64,
                accepted_queue: limits.accepted_queue_length as u64,
                for_new: gate(&slots.for_new),
                for_begun: gate(&slots.for_begun),
                is_failing: slots.is_failing,
            };
            (agent, slots)
        };
        let held = slots.0.iter();
        let mut snapshot = SpaceSnapshot {
            slots: self.bus.slot_use().into_iter().map(agent_slots).collect(),
            held: held
                .filter_map(|(lane, held)| Some((*lane, held.agent()?.clone())))
                .collect(),
            facts: Arc::clone(&team.facts),
            client_attached: self.client_attached(),
            named_tools: self.named_tools(session.bound_client()),
            instructions: self.instructions(session.bound_client()),
            ..SpaceSnapshot::default()
        };
        snapshot.session_model = session.model().map(|model| SessionModel {
            model: model.to_owned(),
            price: self.price_of(model),
            window: self.model.window(model),
        });
        self.add_budget(session.id(), &mut snapshot);
        snapshot
    }

    /// What the tokens of a model cost, where that is known.
    pub(super) fn price_of(&self, model: &str) -> Option<TokenPrice> {
        let price = self.model.price(model)?;
        Some(TokenPrice {
            prompt_usd: price.input_usd(),
            answer_usd: price.output_usd(),
        })
    }

    pub(super) fn status(&self, agent: &AgentName) -> AgentStatus {
        self.bus
            .status(agent)
            .map_or(AgentStatus::Error, Into::into)
    }

    /// A task met a full queue. A queue that fills and empties between two looks at the space is told
    /// of all the same.
    pub(crate) fn count_refusal(&self) {
        self.refusals.fetch_add(1, Ordering::Relaxed);
        Metrics::count(&self.metrics.bus_tasks, "refused");
    }

    /// How many tasks met a full queue since this was asked last.
    pub(crate) fn take_refusals(&self) -> u64 {
        self.refusals.swap(0, Ordering::Relaxed)
    }
}

fn gate(entry: &Result<Entry, Unavailable>) -> AgentGate {
    match entry {
        Ok(Entry::Free) => AgentGate::Open,
        Ok(Entry::Trial { then }) => AgentGate::Trial { then: closed(then) },
        Err(unavailable) => AgentGate::Closed(closed(unavailable)),
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
