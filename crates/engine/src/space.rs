//! What a session sees of its project's worker space: slots at agents, prices, budgets, who could
//! run a tool.
//!
//! A step gets a [`SpaceSnapshot`] and decides on it. What it decides leaves as effects
//! ([`crate::Effect::TakeSlot`] and the others); the runtime performs them before any other session
//! of the project decides, so they find the space as the snapshot showed it.

mod facts;
mod working;

use std::collections::BTreeMap;
use std::sync::Arc;

use codelab_protocol::{AgentName, ErrorCode};
use serde::{Deserialize, Serialize};

use crate::{Instructions, NamedTools};

pub use facts::{AgentFacts, SessionModel, TeamFacts, TokenPrice};
pub(crate) use working::{Slot, WorkingSpace};

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

    /// The index of the task in its plan.
    pub fn task(self) -> Option<usize> {
        self.0
            .checked_sub(1)
            .filter(|_| self != Self::ASIDE)
            .map(|index| index as usize)
    }
}

/// The worker space at the moment of a step, as far as the session can see it. The default is the
/// space of a session that belongs to no project.
#[derive(Debug, Clone, Default)]
pub struct SpaceSnapshot {
    /// Every agent that is known to the project's bus.
    pub slots: BTreeMap<AgentName, AgentSlots>,
    /// The agents at which this session's threads hold a slot or wait for one. After a restart there
    /// is none, whatever the threads' state says.
    pub held: BTreeMap<Lane, AgentName>,
    /// The project's limits.
    pub budget: Budget,
    /// How much of the limits approvals added since a person last set them.
    pub granted: Spending,
    pub spent: Spending,
    /// Set aside for the model calls of other sessions.
    pub others_reserved: Spending,
    /// Set aside for the model calls of this session.
    pub reserved: BTreeMap<Lane, Spending>,
    pub facts: Arc<TeamFacts>,
    pub session_model: Option<SessionModel>,
    /// Tokens that a task of an agent used on average of late; absent for one that did none.
    pub usual_tokens: Arc<BTreeMap<AgentName, u64>>,
    /// Whether a client is there that could run a tool.
    pub client_attached: bool,
    /// The tools of MCP servers that agents can be offered.
    pub named_tools: Arc<NamedTools>,
    /// What the workspace of the session's client brings, as far as a person trusted it.
    pub instructions: Arc<Instructions>,
}

/// An agent's slots, and whether it takes work.
#[derive(Debug, Clone)]
pub struct AgentSlots {
    /// Tasks that the agent works on at once.
    pub limit: u64,
    pub active: u64,
    pub waiting: u64,
    /// Of the active and waiting ones: those that earlier inputs of the same commit gave back. They
    /// are free once that is stored.
    pub leaving: u64,
    /// Tasks that may wait before a new one is refused.
    pub new_queue: u64,
    /// Tasks that may wait before an accepted one is refused.
    pub accepted_queue: u64,
    /// For new work.
    pub for_new: AgentGate,
    /// For work that the agent accepted before.
    pub for_begun: AgentGate,
    /// The agent failed again and again, and has not succeeded since.
    pub is_failing: bool,
}

/// Whether an agent takes work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AgentGate {
    Open,
    /// One task may try the agent; then it is closed like this until that task ends.
    Trial {
        then: AgentClosed,
    },
    Closed(AgentClosed),
}

/// Why an agent takes no work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentClosed {
    pub code: ErrorCode,
    pub why: String,
    pub retry_after_seconds: u64,
}

impl AgentClosed {
    fn not_registered() -> Self {
        Self {
            code: ErrorCode::AgentUnavailable,
            why: "The agent takes no task: it is not registered".to_owned(),
            retry_after_seconds: 30,
        }
    }

    fn queue_full() -> Self {
        Self {
            code: ErrorCode::QueueFull,
            why: "The agent takes no task: its queue is full".to_owned(),
            retry_after_seconds: 1,
        }
    }
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
    /// Failed through no fault of the agent: a wrong key, an empty account.
    Hindered,
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

/// A budget and what is used of it.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct BudgetState {
    pub budget: Budget,
    /// How much of the budget approvals added since a person last set it.
    pub granted: Spending,
    pub spent: Spending,
    /// Set aside for the model calls under way.
    pub reserved: Spending,
}
