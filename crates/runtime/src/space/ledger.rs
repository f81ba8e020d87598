//! What a project may spend, has spent, and has set aside for the model calls under way.

use std::collections::HashMap;
use std::time::Duration;

use codelab_engine::{Budget, BudgetState, Lane, ReserveFn, Spending};
use codelab_protocol::{AgentName, SessionId};
use codelab_store::{ProjectStore, StoreError};
use tokio::sync::watch;
use tokio::time::Instant;

use super::{Space, TeamSnapshot, lock};

/// How long the sums of the database are trusted; other servers spend as well.
const FRESH: Duration = Duration::from_secs(5);
/// How long averages are: they move slowly, and each is a query over many rows.
const AVERAGES_FRESH: Duration = Duration::from_secs(300);
const MICROS: f64 = 1_000_000.0;

#[derive(Default)]
pub(crate) struct Ledger {
    budget: Budget,
    granted: Spending,
    spent: Spending,
    reserved: HashMap<(SessionId, Lane), Spending>,
    /// Tokens that a task of an agent took on average.
    averages: HashMap<AgentName, u64>,
    read_at: Option<Instant>,
    /// Whether `spent` is a sum of the database, with what came since; else only what came since.
    is_summed: bool,
    averages_read_at: Option<Instant>,
    /// Spendings that are counted here and not committed yet.
    uncommitted: u64,
    /// How often something was spent or taken back.
    changes: u64,
}

/// How to take a change back.
#[derive(Debug)]
pub(crate) enum Undo {
    Spent(Spending),
    Reserved(Lane, Option<Spending>),
    Budget(Budget, Spending),
}

impl Space {
    /// Reads the sums again where they are old. Without a budget nobody asks what was spent, and it
    /// is not summed up.
    pub(crate) async fn refresh_ledger(&self, team: &TeamSnapshot) -> Result<(), StoreError> {
        let is_fresh = |read_at: Option<Instant>, limit| {
            read_at.is_some_and(|read_at| read_at.elapsed() < limit)
        };
        let (changes, needs_averages) = {
            let ledger = lock(&self.ledger);
            if is_fresh(ledger.read_at, FRESH) {
                return Ok(());
            }
            (
                ledger.changes,
                !is_fresh(ledger.averages_read_at, AVERAGES_FRESH),
            )
        };
        let Some(rows) = self.rows().await? else {
            return Err(StoreError::NotFound);
        };
        let row = rows.row();
        let budget = Budget {
            usd: row.budget_micro_usd.map(|micros| micros as f64 / MICROS),
            tokens: row.budget_tokens,
        };
        let spent = match budget == Budget::default() {
            true => None,
            false => Some(rows.spent().await?),
        };
        if needs_averages {
            self.read_averages(&rows, team).await?;
        }
        let granted = Spending {
            tokens: row.granted_tokens,
            usd: row.granted_micro_usd as f64 / MICROS,
        };
        let mut ledger = lock(&self.ledger);
        (ledger.budget, ledger.granted) = (budget, granted);
        let Some(spent) = spent else {
            ledger.is_summed = false;
            ledger.read_at = Some(Instant::now());
            return Ok(());
        };
        // A sum that may or may not hold what is being committed here would lose it or count it
        // twice. Then what was read before stays, with what was added to it since; where there is
        // none, the sum serves until the next step.
        let is_exact = ledger.changes == changes && ledger.uncommitted == 0;
        if is_exact || !ledger.is_summed {
            ledger.spent = Spending {
                tokens: spent.total_tokens,
                usd: spent.cost_micro_usd as f64 / MICROS,
            };
        }
        ledger.is_summed |= is_exact;
        ledger.read_at = ledger.is_summed.then(Instant::now);
        Ok(())
    }

    async fn read_averages(
        &self,
        rows: &ProjectStore,
        team: &TeamSnapshot,
    ) -> Result<(), StoreError> {
        let mut averages = HashMap::new();
        for agent in team.team.agents() {
            if let Some(tokens) = rows.agent_average_tokens(&agent.name).await? {
                averages.insert(agent.name.clone(), tokens);
            }
        }
        let mut ledger = lock(&self.ledger);
        ledger.averages = averages;
        ledger.averages_read_at = Some(Instant::now());
        Ok(())
    }

    /// A spending is in the database now.
    pub(super) fn spending_committed(&self) {
        let mut ledger = lock(&self.ledger);
        ledger.uncommitted = ledger.uncommitted.saturating_sub(1);
    }

    /// The project's row changed.
    pub fn budget_changed(&self) {
        let mut ledger = lock(&self.ledger);
        ledger.read_at = None;
        ledger.is_summed = false;
        drop(ledger);
        self.room.send_replace(());
    }

    /// Tells whoever waits for room that more may be left.
    pub(crate) fn room(&self) -> watch::Receiver<()> {
        self.room.subscribe()
    }

    /// Nobody else's call comes between the look and the decision.
    pub(super) fn reserve(
        &self,
        session: &SessionId,
        lane: Lane,
        fit: &mut ReserveFn<'_>,
    ) -> Option<Undo> {
        let mut ledger = lock(&self.ledger);
        let slot = (session.clone(), lane);
        let before = ledger.reserved.remove(&slot);
        match fit(&ledger.standing()) {
            Some(taken) => {
                ledger.reserved.insert(slot, taken);
                Some(Undo::Reserved(lane, before))
            }
            None => {
                ledger.reserved.extend(before.map(|before| (slot, before)));
                None
            }
        }
    }

    pub(super) fn standing(&self) -> BudgetState {
        lock(&self.ledger).standing()
    }

    /// A call ended and used this; nothing is set aside for it any more.
    pub(super) fn spend(&self, session: &SessionId, lane: Lane, used: Spending) -> [Undo; 2] {
        let mut ledger = lock(&self.ledger);
        let before = ledger.reserved.remove(&(session.clone(), lane));
        let spent = std::mem::take(&mut ledger.spent);
        ledger.spent = spent.plus(used);
        ledger.changes += 1;
        ledger.uncommitted += 1;
        self.room.send_replace(());
        [Undo::Spent(used), Undo::Reserved(lane, before)]
    }

    pub(super) fn set_budget(&self, budget: Budget, granted: Spending) -> Undo {
        let mut ledger = lock(&self.ledger);
        let before = Undo::Budget(ledger.budget, ledger.granted);
        (ledger.budget, ledger.granted) = (budget, granted);
        self.room.send_replace(());
        before
    }

    pub(super) fn release(&self, session: &SessionId, lane: Lane) -> Undo {
        let mut ledger = lock(&self.ledger);
        let before = ledger.reserved.remove(&(session.clone(), lane));
        if before.is_some() {
            self.room.send_replace(());
        }
        Undo::Reserved(lane, before)
    }

    /// Takes a change back whose step was not committed.
    pub(super) fn undo(&self, session: &SessionId, undo: Undo) {
        let mut ledger = lock(&self.ledger);
        match undo {
            Undo::Spent(used) => {
                ledger.spent.tokens = ledger.spent.tokens.saturating_sub(used.tokens);
                ledger.spent.usd -= used.usd;
                ledger.changes += 1;
                ledger.uncommitted = ledger.uncommitted.saturating_sub(1);
            }
            Undo::Reserved(lane, Some(before)) => {
                ledger.reserved.insert((session.clone(), lane), before);
            }
            Undo::Reserved(lane, None) => drop(ledger.reserved.remove(&(session.clone(), lane))),
            Undo::Budget(budget, granted) => (ledger.budget, ledger.granted) = (budget, granted),
        }
        self.room.send_replace(());
    }

    pub(crate) fn release_all(&self, session: &SessionId) {
        let mut ledger = lock(&self.ledger);
        ledger.reserved.retain(|(other, _), _| other != session);
        self.room.send_replace(());
    }

    pub(super) fn average_tokens(&self, agent: &AgentName) -> Option<u64> {
        lock(&self.ledger).averages.get(agent).copied()
    }
}

impl Ledger {
    fn standing(&self) -> BudgetState {
        let reserved = self
            .reserved
            .values()
            .copied()
            .fold(Spending::default(), Spending::plus);
        BudgetState {
            budget: self.budget,
            granted: self.granted,
            spent: self.spent,
            reserved,
        }
    }
}
