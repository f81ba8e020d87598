//! What a project may spend, has spent, and has set aside for the model calls under way.

use std::collections::HashMap;
use std::time::Duration;

use codelab_engine::{Budget, BudgetReached, Lane, Spending};
use codelab_protocol::{AgentName, SessionId};
use codelab_store::StoreError;
use tokio::time::Instant;

use super::{Crew, Space, lock};

/// How long the sums of the database are trusted; other servers spend as well.
const FRESH: Duration = Duration::from_secs(5);
const MICROS: f64 = 1_000_000.0;

#[derive(Default)]
pub(crate) struct Ledger {
    budget: Budget,
    spent: Spending,
    reserved: HashMap<(SessionId, Lane), Spending>,
    /// Tokens that a task of an agent took on average.
    averages: HashMap<AgentName, u64>,
    read_at: Option<Instant>,
}

/// How to take a change back.
#[derive(Debug)]
pub(crate) enum Undo {
    Spent(Spending),
    Reserved(Lane, Option<Spending>),
    Budget(Budget),
}

impl Space {
    /// Reads the sums again where they are old.
    pub(crate) async fn refresh_ledger(&self, crew: &Crew) -> Result<(), StoreError> {
        if lock(&self.ledger).read_at.is_some_and(|read_at| read_at.elapsed() < FRESH) {
            return Ok(());
        }
        let Some(rows) = self.rows().await? else { return Err(StoreError::NotFound) };
        let spent = rows.spent().await?;
        let mut averages = HashMap::new();
        for agent in crew.team.agents() {
            if let Some(tokens) = rows.agent_average_tokens(&agent.name).await? {
                averages.insert(agent.name.clone(), tokens);
            }
        }
        let row = rows.row();
        let mut ledger = lock(&self.ledger);
        ledger.budget =
            Budget { usd: row.budget_micro_usd.map(|micros| micros as f64 / MICROS), tokens: row.budget_tokens };
        ledger.spent = Spending { tokens: spent.total_tokens, usd: spent.cost_micro_usd as f64 / MICROS };
        ledger.averages = averages;
        ledger.read_at = Some(Instant::now());
        Ok(())
    }

    /// The project's row changed.
    pub fn budget_changed(&self) {
        lock(&self.ledger).read_at = None;
    }

    pub(super) fn reserve(&self, session: &SessionId, lane: Lane, estimate: Spending) -> Result<Undo, BudgetReached> {
        let mut ledger = lock(&self.ledger);
        let place = (session.clone(), lane);
        let before = ledger.reserved.remove(&place);
        let spent = ledger.reserved.values().copied().fold(ledger.spent, Spending::plus);
        if ledger.budget.is_reached(spent) {
            ledger.reserved.extend(before.map(|before| (place, before)));
            return Err(BudgetReached { budget: ledger.budget, spent });
        }
        ledger.reserved.insert(place, estimate);
        Ok(Undo::Reserved(lane, before))
    }

    /// The limits, and what is spent or set aside of them.
    pub(super) fn standing(&self) -> (Budget, Spending) {
        let ledger = lock(&self.ledger);
        (ledger.budget, ledger.reserved.values().copied().fold(ledger.spent, Spending::plus))
    }

    /// A call ended and used this; nothing is set aside for it any more.
    pub(super) fn spend(&self, session: &SessionId, lane: Lane, used: Spending) -> [Undo; 2] {
        let mut ledger = lock(&self.ledger);
        let before = ledger.reserved.remove(&(session.clone(), lane));
        let spent = std::mem::take(&mut ledger.spent);
        ledger.spent = spent.plus(used);
        [Undo::Spent(used), Undo::Reserved(lane, before)]
    }

    pub(super) fn set_budget(&self, budget: Budget) -> Undo {
        Undo::Budget(std::mem::replace(&mut lock(&self.ledger).budget, budget))
    }

    pub(super) fn release(&self, session: &SessionId, lane: Lane) -> Undo {
        Undo::Reserved(lane, lock(&self.ledger).reserved.remove(&(session.clone(), lane)))
    }

    /// Takes a change back whose step was not committed.
    pub(super) fn undo(&self, session: &SessionId, undo: Undo) {
        let mut ledger = lock(&self.ledger);
        match undo {
            Undo::Spent(used) => {
                ledger.spent.tokens = ledger.spent.tokens.saturating_sub(used.tokens);
                ledger.spent.usd -= used.usd;
            }
            Undo::Reserved(lane, Some(before)) => drop(ledger.reserved.insert((session.clone(), lane), before)),
            Undo::Reserved(lane, None) => drop(ledger.reserved.remove(&(session.clone(), lane))),
            Undo::Budget(before) => ledger.budget = before,
        }
    }

    pub(crate) fn release_all(&self, session: &SessionId) {
        lock(&self.ledger).reserved.retain(|(other, _), _| other != session);
    }

    pub(super) fn average_tokens(&self, agent: &AgentName) -> Option<u64> {
        lock(&self.ledger).averages.get(agent).copied()
    }
}
