//! What a session sees of its project's worker space: places at agents, prices, budgets, who could
//! run a tool.

use codelab_protocol::{AgentName, AgentStatus, ErrorCode};
use serde::{Deserialize, Serialize};

/// One thread of work within a turn: 0 is the turn's own, the tasks of a plan count from 1.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Lane(pub u32);

impl Lane {
    pub const OWN: Self = Self(0);
    /// Not part of any turn: the session's own upkeep.
    pub const ASIDE: Self = Self(u32::MAX);

    pub fn of_task(index: usize) -> Self {
        Self(index as u32 + 1)
    }

    /// The place of the task in its plan.
    pub fn task(self) -> Option<usize> {
        self.0
            .checked_sub(1)
            .filter(|_| self != Self::ASIDE)
            .map(|index| index as usize)
    }
}

/// The answer to asking for a place at an agent.
#[derive(Debug, Clone, PartialEq)]
pub enum Slot {
    Granted(AgentStatus),
    /// All places are taken; `Input::PlaceGranted` follows.
    Queued,
    Closed(AgentClosed),
}

/// Why an agent takes no work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentClosed {
    pub code: ErrorCode,
    pub why: String,
    pub retry_after_seconds: u64,
}

/// How a thread of work ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ThreadEnd {
    pub outcome: WorkOutcome,
    pub worked_ms: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WorkOutcome {
    Succeeded,
    Failed,
    Cancelled,
}

/// Tokens and dollars, spent or about to be.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Spending {
    pub tokens: u64,
    pub usd: f64,
}

impl Spending {
    pub fn plus(self, other: Self) -> Self {
        Self {
            tokens: self.tokens.saturating_add(other.tokens),
            usd: self.usd + other.usd,
        }
    }
}

/// What may be spent; an absent limit is none.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Budget {
    pub usd: Option<f64>,
    pub tokens: Option<u64>,
}

impl Budget {
    /// Whether anything is limited.
    pub fn is_set(&self) -> bool {
        self.usd.is_some() || self.tokens.is_some()
    }
}

/// How a budget stands.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct BudgetState {
    pub budget: Budget,
    /// How much of the budget approvals added since a person last set it.
    pub granted: Spending,
    pub spent: Spending,
    /// Set aside for the model calls under way.
    pub reserved: Spending,
}

/// Decides what to set aside, given how the budget stands without the asking lane; `None` sets
/// nothing aside.
pub type ReserveFn<'a> = dyn FnMut(&BudgetState) -> Option<Spending> + 'a;

/// The worker space, as the engine asks it. What changes in a step that is not committed is taken
/// back by the runtime; places and what is set aside do not outlive their owner, so a recovered
/// session asks for them anew.
pub trait WorkerSpace {
    /// Whether the agent takes work now.
    fn check(&self, agent: &AgentName) -> Result<(), AgentClosed>;
    /// Asks for a place at the agent. `begun`: it accepted this work before, so it takes it also
    /// when it takes no new work.
    fn enter(&mut self, lane: Lane, agent: &AgentName, begun: bool) -> Slot;
    /// Gives the place back, or leaves the queue for one, whichever the lane has there, so that no
    /// grant follows; says how the agent stands then. After a restart there may be nothing to give
    /// back.
    fn leave(&mut self, lane: Lane, agent: &AgentName, ended: Option<ThreadEnd>) -> AgentStatus;
    /// Sets aside what the lane's next model call may cost the project, until `spend`. Nobody
    /// else's call comes between the look and the decision. `Input::RoomChanged` follows when more
    /// is left than a call that found no room saw.
    fn reserve(&mut self, lane: Lane, fit: &mut ReserveFn<'_>);
    /// The lane's model call ended and used this; what was set aside for it is free again.
    fn spend(&mut self, lane: Lane, used: Spending);
    /// How the project's budget stands.
    fn standing(&self) -> BudgetState;
    /// The project's limits from now on, also for the rest of this step, and how much of them
    /// approvals added.
    fn set_budget(&mut self, budget: Budget, granted: Spending);
    /// What the agent's tasks used of late; `None` when it has done none.
    fn usual_tokens(&self, agent: &AgentName) -> Option<u64>;
    /// What so many tokens of the agent's model cost, where that is known.
    fn price_usd(&self, agent: &AgentName, tokens: u64) -> Option<f64>;
    /// The model that the agent's calls go to.
    fn model_of(&self, agent: &AgentName) -> String;
    /// What a call of the agent's model costs, of so many tokens each way, where that is known.
    fn call_cost_usd(
        &self,
        agent: &AgentName,
        prompt_tokens: u64,
        answer_tokens: u64,
    ) -> Option<f64>;
    /// What the agent's own prompt and its tools take in every call, by the estimate.
    fn prompt_tokens(&self, agent: &AgentName, lane: Lane) -> u64;
    /// Whether a client is there that could run a tool.
    fn client_attached(&self) -> bool;
}

/// For sessions that belong to no project.
#[derive(Debug, Default)]
pub struct NoSpace;

impl WorkerSpace for NoSpace {
    fn check(&self, _: &AgentName) -> Result<(), AgentClosed> {
        Ok(())
    }

    fn enter(&mut self, _: Lane, _: &AgentName, _: bool) -> Slot {
        Slot::Granted(AgentStatus::Processing)
    }

    fn leave(&mut self, _: Lane, _: &AgentName, _: Option<ThreadEnd>) -> AgentStatus {
        AgentStatus::Idle
    }

    fn reserve(&mut self, _: Lane, fit: &mut ReserveFn<'_>) {
        fit(&BudgetState::default());
    }

    fn spend(&mut self, _: Lane, _: Spending) {}

    fn standing(&self) -> BudgetState {
        BudgetState::default()
    }

    fn set_budget(&mut self, _: Budget, _: Spending) {}

    fn usual_tokens(&self, _: &AgentName) -> Option<u64> {
        None
    }

    fn price_usd(&self, _: &AgentName, _: u64) -> Option<f64> {
        None
    }

    fn model_of(&self, _: &AgentName) -> String {
        String::new()
    }

    fn call_cost_usd(&self, _: &AgentName, _: u64, _: u64) -> Option<f64> {
        Some(0.0)
    }

    fn prompt_tokens(&self, _: &AgentName, _: Lane) -> u64 {
        0
    }

    fn client_attached(&self) -> bool {
        false
    }
}
