//! A worker space in memory: slots with limits, closed agents, other people's work, prices and a
//! budget.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use codelab_engine::{
    AgentClosed, AgentFacts, AgentGate, AgentSlots, Budget, BudgetState, Effect, Instructions,
    Lane, NamedTools, SpaceSnapshot, Spending, Team, TeamFacts, TokenPrice,
};
use codelab_protocol::{AgentName, AgentStatus, ErrorCode};

#[derive(Debug, Clone, Default)]
pub struct TestSpace {
    pub agents: BTreeMap<AgentName, TestSlots>,
    pub default_limit: usize,
    /// TestSlots that were given to lanes that waited, and that they have not heard of yet.
    pub grants: VecDeque<(Lane, AgentName)>,
    /// Lanes that waited at an agent that closed, and that have not heard of it yet.
    pub losses: VecDeque<Lane>,
    pub reserved: BTreeMap<Lane, Spending>,
    pub budget: Budget,
    pub granted: Spending,
    pub spent: Spending,
    /// What model calls of other sessions may take.
    pub others_reserved: Spending,
    /// What an agent's prompt and tools take.
    pub prompt_tokens: u64,
    /// Of a thousand tokens; absent when the price is not known.
    pub price_usd: Option<f64>,
    /// The context window of every agent's model.
    pub window: Option<u64>,
    /// What a task of any agent needed of late.
    pub usual_tokens: Option<u64>,
    pub client_attached: bool,
    pub named_tools: Arc<NamedTools>,
    pub instructions: Arc<Instructions>,
}

#[derive(Debug, Clone, Default)]
pub struct TestSlots {
    pub limit: Option<usize>,
    pub closed: bool,
    /// Takes no new work.
    pub retired: bool,
    pub held: BTreeSet<Lane>,
    pub waiting: VecDeque<Lane>,
}

/// Work of other sessions counts from here.
const FOREIGN: u32 = 1_000;

impl TestSpace {
    pub fn new() -> Self {
        Self {
            default_limit: 4,
            price_usd: Some(0.01),
            client_attached: true,
            named_tools: Arc::default(),
            instructions: Arc::default(),
            ..Self::default()
        }
    }

    /// What a stopped server leaves: nothing but what was written down.
    pub fn lose_slots(&mut self) {
        self.grants.clear();
        self.losses.clear();
        self.reserved.clear();
        for slots in self.agents.values_mut() {
            slots.held.clear();
            slots.waiting.clear();
        }
    }

    pub fn others_enter(&mut self, agent: &AgentName) {
        let next = FOREIGN
            + self
                .agents
                .values()
                .map(|slots| slots.held.len() as u32)
                .sum::<u32>();
        let limit = self.limit(agent);
        let slots = self.agents.entry(agent.clone()).or_default();
        if slots.held.len() < limit {
            let free = (next..)
                .map(Lane)
                .find(|lane| !slots.held.contains(lane))
                .unwrap();
            slots.held.insert(free);
        }
    }

    pub fn others_leave(&mut self, agent: &AgentName) {
        let slots = self.agents.entry(agent.clone()).or_default();
        if let Some(lane) = slots.held.iter().copied().find(|lane| lane.0 >= FOREIGN) {
            slots.held.remove(&lane);
        }
        self.let_in(agent);
    }

    /// The agent takes no more work; those who wait are sent away.
    pub fn close(&mut self, agent: &AgentName) {
        let slots = self.agents.entry(agent.clone()).or_default();
        slots.closed = true;
        self.losses.append(&mut slots.waiting);
    }

    pub fn limit(&self, agent: &AgentName) -> usize {
        self.agents
            .get(agent)
            .and_then(|slots| slots.limit)
            .unwrap_or(self.default_limit)
    }

    /// The lanes that hold a slot or wait for one.
    pub fn own_lanes(&self) -> BTreeSet<Lane> {
        let of = |slots: &TestSlots| {
            slots
                .held
                .iter()
                .chain(&slots.waiting)
                .copied()
                .collect::<Vec<_>>()
        };
        let lanes = self
            .agents
            .values()
            .flat_map(of)
            .chain(self.losses.iter().copied());
        lanes.filter(|lane| lane.0 < FOREIGN).collect()
    }

    pub fn check_limits(&self) {
        for (agent, slots) in &self.agents {
            assert!(
                slots.held.len() <= self.limit(agent),
                "{agent} works on {:?}",
                slots.held
            );
        }
    }

    pub fn status(&self, agent: &AgentName) -> AgentStatus {
        let held = self.agents.get(agent).map_or(0, |slots| slots.held.len());
        match held {
            0 => AgentStatus::Idle,
            held if held >= self.limit(agent) => AgentStatus::Busy,
            _ => AgentStatus::Processing,
        }
    }

    fn let_in(&mut self, agent: &AgentName) {
        let limit = self.limit(agent);
        let Some(slots) = self.agents.get_mut(agent) else {
            return;
        };
        while slots.held.len() < limit
            && let Some(next) = slots.waiting.pop_front()
        {
            slots.held.insert(next);
            self.grants.push_back((next, agent.clone()));
        }
    }
}

impl TestSpace {
    /// What a step sees of it.
    pub fn snapshot(&self, team: &Team) -> SpaceSnapshot {
        let names = team.agents().iter().map(|agent| agent.name.clone());
        let own = |lanes: &mut dyn Iterator<Item = &Lane>| {
            lanes
                .copied()
                .filter(|lane| lane.0 < FOREIGN)
                .collect::<Vec<_>>()
        };
        let held = self.agents.iter().flat_map(|(agent, slots)| {
            own(&mut slots.held.iter().chain(&slots.waiting))
                .into_iter()
                .map(|lane| (lane, agent.clone()))
        });
        let price = self.price_usd.map(|price| TokenPrice {
            prompt_usd: price * 1000.0,
            answer_usd: price * 1000.0,
        });
        let facts = AgentFacts {
            model: "some-model".to_owned(),
            price,
            window: self.window,
            prompt_tokens: self.prompt_tokens,
            task_prompt_tokens: self.prompt_tokens,
        };
        SpaceSnapshot {
            slots: names
                .clone()
                .map(|agent| (agent.clone(), self.slots(&agent)))
                .collect(),
            held: held.collect(),
            budget: self.budget,
            granted: self.granted,
            spent: self.spent,
            others_reserved: self.others_reserved,
            reserved: self.reserved.clone(),
            facts: Arc::new(TeamFacts {
                agents: names.clone().map(|name| (name, facts.clone())).collect(),
                orchestrator: facts.clone(),
            }),
            usual_tokens: Arc::new(
                names
                    .flat_map(|name| self.usual_tokens.map(|tokens| (name, tokens)))
                    .collect(),
            ),
            client_attached: self.client_attached,
            named_tools: Arc::clone(&self.named_tools),
            instructions: Arc::clone(&self.instructions),
            session_model: None,
        }
    }

    fn slots(&self, agent: &AgentName) -> AgentSlots {
        let slots = self.agents.get(agent).cloned().unwrap_or_default();
        let gate = |is_shut: bool| match is_shut {
            true => AgentGate::Closed(AgentClosed {
                code: ErrorCode::AgentUnavailable,
                why: format!("{agent} failed several times in a row"),
                retry_after_seconds: 30,
            }),
            false => AgentGate::Open,
        };
        AgentSlots {
            limit: self.limit(agent) as u64,
            active: slots.held.len() as u64,
            waiting: slots.waiting.len() as u64,
            leaving: 0,
            new_queue: u64::MAX,
            accepted_queue: u64::MAX,
            for_new: gate(slots.closed || slots.retired),
            for_begun: gate(slots.closed),
            is_failing: false,
        }
    }

    /// Performs what a step decided, in its order.
    pub fn perform(&mut self, effect: &Effect) {
        match effect {
            Effect::TakeSlot { lane, agent, .. } => {
                self.assert_nowhere(*lane, agent);
                let limit = self.limit(agent);
                let slots = self.agents.entry(agent.clone()).or_default();
                assert!(
                    slots.held.len() < limit,
                    "{lane:?} takes a slot at {agent} that is not free"
                );
                slots.held.insert(*lane);
            }
            Effect::QueueForSlot { lane, agent, .. } => {
                self.assert_nowhere(*lane, agent);
                let slots = self.agents.entry(agent.clone()).or_default();
                slots.waiting.push_back(*lane);
                // One that the same step gave back.
                self.let_in(agent);
            }
            Effect::LeaveSlot { lane, agent, .. } => {
                let slots = self.agents.entry(agent.clone()).or_default();
                slots.held.remove(lane);
                slots.waiting.retain(|waiting| waiting != lane);
                self.grants.retain(|(granted, _)| granted != lane);
                self.losses.retain(|lost| lost != lane);
                self.let_in(agent);
            }
            Effect::ReserveBudget { lane, spending } => {
                let before = self.reserved.insert(*lane, *spending);
                assert_eq!(before, None, "{lane:?} sets aside twice");
            }
            Effect::SpendBudget { lane, used } => {
                self.reserved.remove(lane);
                self.spent = self.spent.plus(*used);
            }
            Effect::ProjectBudget { budget, granted } => {
                (self.budget, self.granted) = (*budget, *granted);
            }
            _ => {}
        }
    }

    fn assert_nowhere(&self, lane: Lane, agent: &AgentName) {
        let somewhere = self
            .agents
            .values()
            .any(|slots| slots.held.contains(&lane) || slots.waiting.contains(&lane));
        assert!(!somewhere, "{lane:?} asks for a second slot, at {agent}");
    }

    pub fn budget_state(&self) -> BudgetState {
        let reserved = self
            .reserved
            .values()
            .copied()
            .fold(self.others_reserved, Spending::plus);
        BudgetState {
            budget: self.budget,
            granted: self.granted,
            spent: self.spent,
            reserved,
        }
    }
}
