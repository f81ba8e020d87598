//! A worker space in memory: places with limits, closed agents, other people's work, prices and a
//! budget.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use codelab_engine::{
    AgentClosed, Budget, BudgetState, Lane, ReserveFn, Slot, Spending, ThreadEnd, WorkerSpace,
};
use codelab_protocol::{AgentName, AgentStatus, ErrorCode};

#[derive(Debug, Clone, Default)]
pub struct TestSpace {
    pub agents: BTreeMap<AgentName, Places>,
    pub default_limit: usize,
    /// Places that were given to lanes that waited, and that they have not heard of yet.
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
    /// What a task of any agent needed of late.
    pub usual_tokens: Option<u64>,
    pub client_attached: bool,
}

#[derive(Debug, Clone, Default)]
pub struct Places {
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
            ..Self::default()
        }
    }

    /// What a stopped server leaves: nothing but what was written down.
    pub fn lose_places(&mut self) {
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

    /// The lanes that hold a place or wait for one.
    pub fn own_lanes(&self) -> BTreeSet<Lane> {
        let of = |slots: &Places| {
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

impl WorkerSpace for TestSpace {
    fn check(&self, agent: &AgentName) -> Result<(), AgentClosed> {
        let is_shut = |slots: &Places| slots.closed || slots.retired;
        match self.agents.get(agent).is_some_and(is_shut) {
            true => Err(AgentClosed {
                code: ErrorCode::AgentUnavailable,
                why: format!("{agent} failed several times in a row"),
                retry_after_seconds: 30,
            }),
            false => Ok(()),
        }
    }

    fn enter(&mut self, lane: Lane, agent: &AgentName, begun: bool) -> Slot {
        let somewhere = self
            .agents
            .values()
            .any(|p| p.held.contains(&lane) || p.waiting.contains(&lane));
        assert!(!somewhere, "{lane:?} asks for a second place, at {agent}");
        let is_closed = self.agents.get(agent).is_some_and(|slots| slots.closed);
        if let Err(closed) = self.check(agent)
            && (is_closed || !begun)
        {
            return Slot::Closed(closed);
        }
        let limit = self.limit(agent);
        let slots = self.agents.entry(agent.clone()).or_default();
        if slots.held.len() >= limit {
            slots.waiting.push_back(lane);
            return Slot::Queued;
        }
        slots.held.insert(lane);
        Slot::Granted(self.status(agent))
    }

    fn leave(&mut self, lane: Lane, agent: &AgentName, _: Option<ThreadEnd>) -> AgentStatus {
        let slots = self.agents.entry(agent.clone()).or_default();
        slots.held.remove(&lane);
        slots.waiting.retain(|waiting| *waiting != lane);
        self.grants.retain(|(granted, _)| *granted != lane);
        self.losses.retain(|lost| *lost != lane);
        self.let_in(agent);
        self.status(agent)
    }

    fn reserve(&mut self, lane: Lane, fit: &mut ReserveFn<'_>) {
        assert!(
            !self.reserved.contains_key(&lane),
            "{lane:?} sets aside twice"
        );
        if let Some(taken) = fit(&self.standing()) {
            self.reserved.insert(lane, taken);
        }
    }

    fn spend(&mut self, lane: Lane, used: Spending) {
        self.reserved.remove(&lane);
        self.spent = self.spent.plus(used);
    }

    fn standing(&self) -> BudgetState {
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

    fn set_budget(&mut self, budget: Budget, granted: Spending) {
        (self.budget, self.granted) = (budget, granted);
    }

    fn usual_tokens(&self, _: &AgentName) -> Option<u64> {
        self.usual_tokens
    }

    fn price_usd(&self, _: &AgentName, tokens: u64) -> Option<f64> {
        self.price_usd.map(|price| price * tokens as f64 / 1000.0)
    }

    fn model_of(&self, _: &AgentName) -> String {
        "some-model".to_owned()
    }

    fn call_cost_usd(&self, _: &AgentName, prompt_tokens: u64, answer_tokens: u64) -> Option<f64> {
        self.price_usd
            .map(|price| price * (prompt_tokens + answer_tokens) as f64 / 1000.0)
    }

    fn prompt_tokens(&self, _: &AgentName, _: Lane) -> u64 {
        self.prompt_tokens
    }

    fn client_attached(&self) -> bool {
        self.client_attached
    }
}
