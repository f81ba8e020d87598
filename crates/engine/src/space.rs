//! What a session sees of its project's worker space: places at agents, prices, budgets, who could run a tool.

use codelab_protocol::{AgentName, AgentStatus, ErrorCode};
use serde::{Deserialize, Serialize};

/// One thread of work within a turn: 0 is the turn's own, the tasks of a plan count from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
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
        self.0.checked_sub(1).filter(|_| self != Self::ASIDE).map(|index| index as usize)
    }
}

/// The answer to asking for a place at an agent.
#[derive(Debug, Clone, PartialEq)]
pub enum Place {
    Granted(AgentStatus),
    /// All places are taken; `Input::PlaceGranted` follows.
    Queued,
    Closed(Closed),
}

/// Why an agent takes no work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Closed {
    pub code: ErrorCode,
    pub why: String,
    pub retry_after_seconds: u64,
}

/// How a thread of work ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ended {
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
        Self { tokens: self.tokens.saturating_add(other.tokens), usd: self.usd + other.usd }
    }
}

/// What may be spent; an absent limit is none.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Budget {
    pub usd: Option<f64>,
    pub tokens: Option<u64>,
}

impl Budget {
    pub fn is_reached(&self, spent: Spending) -> bool {
        self.usd.is_some_and(|limit| spent.usd >= limit) || self.tokens.is_some_and(|limit| spent.tokens >= limit)
    }
}

/// A limit that the next model call would pass.
#[derive(Debug, Clone, PartialEq)]
pub struct BudgetReached {
    pub budget: Budget,
    pub spent: Spending,
}

/// The worker space, as the engine asks it. What changes in a step that is not committed is taken back by the runtime;
/// places and what is set aside do not outlive their owner, so a recovered session asks for them anew.
pub trait Space {
    /// Whether the agent takes work now.
    fn check(&self, agent: &AgentName) -> Result<(), Closed>;
    /// Asks for a place at the agent.
    fn enter(&mut self, lane: Lane, agent: &AgentName) -> Place;
    /// Gives the place back, or leaves the queue for one, whichever the lane has there, so that no grant follows; says
    /// how the agent stands then. After a restart there may be nothing to give back.
    fn leave(&mut self, lane: Lane, agent: &AgentName, ended: Option<Ended>) -> AgentStatus;
    /// Sets aside what the lane's next model call may cost the project, until `spend`.
    fn reserve(&mut self, lane: Lane, estimate: Spending) -> Result<(), BudgetReached>;
    /// The lane's model call ended and used this; what was set aside for it is free again.
    fn spend(&mut self, lane: Lane, used: Spending);
    /// The project's limits, and what is spent or set aside of them.
    fn standing(&self) -> (Budget, Spending);
    /// The project's limits from now on, also for the rest of this step.
    fn set_budget(&mut self, budget: Budget);
    /// What the agent's tasks used of late; `None` when it has done none.
    fn usual_tokens(&self, agent: &AgentName) -> Option<u64>;
    /// What so many tokens of the agent's model cost, where that is known.
    fn price_usd(&self, agent: &AgentName, tokens: u64) -> Option<f64>;
    /// What one model call may need.
    fn estimate_call(&self, agent: &AgentName) -> Spending;
    /// Whether a client is there that could run a tool.
    fn client_attached(&self) -> bool;
}

/// For sessions that belong to no project.
#[derive(Debug, Default)]
pub struct NoSpace;

impl Space for NoSpace {
    fn check(&self, _: &AgentName) -> Result<(), Closed> {
        Ok(())
    }

    fn enter(&mut self, _: Lane, _: &AgentName) -> Place {
        Place::Granted(AgentStatus::Processing)
    }

    fn leave(&mut self, _: Lane, _: &AgentName, _: Option<Ended>) -> AgentStatus {
        AgentStatus::Idle
    }

    fn reserve(&mut self, _: Lane, _: Spending) -> Result<(), BudgetReached> {
        Ok(())
    }

    fn spend(&mut self, _: Lane, _: Spending) {}

    fn standing(&self) -> (Budget, Spending) {
        (Budget::default(), Spending::default())
    }

    fn set_budget(&mut self, _: Budget) {}

    fn usual_tokens(&self, _: &AgentName) -> Option<u64> {
        None
    }

    fn price_usd(&self, _: &AgentName, _: u64) -> Option<f64> {
        None
    }

    fn estimate_call(&self, _: &AgentName) -> Spending {
        Spending::default()
    }

    fn client_attached(&self) -> bool {
        false
    }
}
