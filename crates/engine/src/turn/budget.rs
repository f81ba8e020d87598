//! Budgets: what a model call may cost is set aside before it is made; where a limit is reached, a person is asked.

use codelab_protocol::{CallId, ErrorCode, ErrorData, Usage, arguments_digest};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::approval::TIMEOUT;
use super::{Phase, Thread, error_data};
use crate::session::Step;
use crate::world::{MAX_BUDGET_TOKENS, MAX_BUDGET_USD};
use crate::{
    AgentSpending, Approval, ApprovalKind, ApprovalStatus, Budget, BudgetReached, Decision, Effect, Kind, Lane,
    Refusal, Spending, orchestrator,
};

/// What a person who approves grants at least, where no price is known.
const MIN_GRANT_USD: f64 = 0.01;

/// Whose budget was reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BudgetScope {
    Session,
    Project,
}

impl Step<'_, '_> {
    /// Sets aside what the next call may cost; says which limit that would pass.
    pub(crate) fn over_budget(&mut self, thread: &mut Thread) -> Option<(BudgetReached, BudgetScope)> {
        if self.session.kind == Kind::Runtime {
            return None;
        }
        let estimate = self.world.space.estimate_call(&thread.agent);
        let over = self.reserve(thread.lane, estimate);
        thread.reserved = over.is_none().then_some(estimate);
        over
    }

    pub(crate) fn reserve(&mut self, lane: Lane, estimate: Spending) -> Option<(BudgetReached, BudgetScope)> {
        if let Some(reached) = self.session_budget_reached() {
            return Some((reached, BudgetScope::Session));
        }
        let reserved = self.world.space.reserve(lane, estimate);
        reserved.err().map(|reached| (reached, BudgetScope::Project))
    }

    /// Gives back what was set aside for a call that will not be paid.
    pub(crate) fn release(&mut self, thread: &mut Thread) {
        if thread.reserved.take().is_some() {
            self.world.space.spend(thread.lane, Spending::default());
        }
    }

    /// Whether the session's own budget is used up, with what its calls under way may cost.
    fn session_budget_reached(&self) -> Option<BudgetReached> {
        let (budget, spent) = self.standing(BudgetScope::Session);
        budget.is_reached(spent).then_some(BudgetReached { budget, spent })
    }

    /// The limits as they are now, and what is spent or set aside of them.
    fn standing(&self, scope: BudgetScope) -> (Budget, Spending) {
        if scope == BudgetScope::Project {
            return self.world.space.standing();
        }
        let reserved = self.session.turn.iter().flat_map(|turn| turn.threads()).filter_map(|other| other.reserved);
        let planner = self.session.turn.as_ref().and_then(|turn| turn.workflow()?.reserved);
        (self.session.budget, reserved.chain(planner).fold(self.session.spent, Spending::plus))
    }

    /// What the calls may cost that wait for the answer to this question.
    fn awaited(&self, call_id: &CallId) -> Spending {
        let threads = self.session.turn.iter().flat_map(|turn| turn.threads());
        let waiting =
            threads.filter(|thread| thread.phase.call_id() == Some(call_id)).map(|thread| thread.agent.clone());
        let planner = self.planning_budget().map(|_| orchestrator());
        let costs = waiting.chain(planner).map(|agent| self.world.space.estimate_call(&agent));
        costs.fold(Spending::default(), Spending::plus)
    }

    pub(crate) fn spend(&mut self, thread: &mut Thread, usage: Option<Usage>) {
        thread.reserved = None;
        self.space_spends(thread.lane, usage);
        if let Some(usage) = usage {
            thread.usage = Some(thread.usage.map_or(usage, |before| before.plus(usage)));
            let agent = thread.agent.clone();
            let task = self.task_of(thread).and_then(|origin| origin.task_id);
            self.spent(AgentSpending { agent, turn: thread.turn, task, usage });
        }
    }

    pub(crate) fn space_spends(&mut self, lane: Lane, usage: Option<Usage>) {
        if self.session.kind == Kind::Project {
            self.world.space.spend(lane, usage.map(spending).unwrap_or_default());
        }
    }

    pub(crate) fn spent(&mut self, spent: AgentSpending) {
        if self.session.kind == Kind::Runtime {
            return;
        }
        self.session.spent = self.session.spent.plus(spending(spent.usage));
        self.effects.push(Effect::Spent(spent));
    }

    pub(crate) fn ask_for_budget(&mut self, thread: Thread, reached: BudgetReached, scope: BudgetScope) {
        let approval = match self.open_budget_question(scope) {
            Some(approval) => approval,
            None => {
                let approval = self.budget_approval(&reached, scope);
                self.show_approval(&thread, &approval, None);
                approval
            }
        };
        self.suspend(thread, Phase::AwaitingBudget { approval, scope });
    }

    /// A person is asked once, however many tasks wait for the answer.
    fn open_budget_question(&self, wanted: BudgetScope) -> Option<Box<Approval>> {
        self.session.turn.as_ref()?.threads().find_map(|thread| match &thread.phase {
            Phase::AwaitingBudget { approval, scope } if *scope == wanted => Some(approval.clone()),
            _ => None,
        })
    }

    pub(crate) fn budget_approval(&mut self, reached: &BudgetReached, scope: BudgetScope) -> Box<Approval> {
        let BudgetReached { budget, spent } = reached;
        let arguments = json!({
            "scope": scope,
            "budget_usd": budget.usd,
            "budget_tokens": budget.tokens,
            "spent_usd": spent.usd,
            "spent_tokens": spent.tokens,
        });
        let arguments = match arguments {
            Value::Object(arguments) => arguments,
            _ => Map::new(),
        };
        let whose = match scope {
            BudgetScope::Session => "session",
            BudgetScope::Project => "project",
        };
        let call_id = self.world.ids.call_id();
        self.open_approval(Approval {
            call_id,
            kind: ApprovalKind::Budget,
            tool: "budget".to_owned(),
            digest: arguments_digest("budget", &arguments),
            arguments,
            parts: Vec::new(),
            reason: format!("The budget of the {whose} is used up"),
            remember: None,
            created_at: self.world.now,
            expires_at: None,
            timeout_seconds: 0,
        })
    }

    /// Approve grants as much again where that is needed, edit sets new limits, reject ends the turn. What was shown when
    /// the question came up may be old by now: others spend, and others decide.
    pub(crate) fn decide_budget(
        &mut self,
        call_id: &CallId,
        decision: Decision,
        decided_by: String,
    ) -> Result<(), Refusal> {
        let asked_by = self.waiting_thread(call_id).map(|thread| &thread.phase);
        let Some((approval, scope)) = asked_by.map_or_else(
            || self.planning_budget(),
            |phase| match phase {
                Phase::AwaitingBudget { approval, scope } => Some((approval.clone(), *scope)),
                _ => None,
            },
        ) else {
            return Ok(());
        };
        let (budget, spent) = self.standing(scope);
        let granted = match &decision {
            Decision::Approve { .. } => Some(more(budget, spent, self.awaited(call_id))),
            Decision::Edit { arguments } => Some(new_budget(arguments, budget)?),
            Decision::Reject { .. } => None,
        };
        let (status, modified, feedback) = match decision {
            Decision::Approve { .. } => (ApprovalStatus::Approved, None, None),
            Decision::Edit { arguments } => (ApprovalStatus::Edited, Some(arguments), None),
            Decision::Reject { feedback } => (ApprovalStatus::Rejected, None, feedback),
        };
        self.close_approval(&approval, status, modified, decided_by, feedback);
        let Some(granted) = granted else {
            self.budget_refused(call_id, error_data(ErrorCode::Cancelled, "A person refused to spend more"));
            return Ok(());
        };
        if granted != budget {
            self.change_budget(scope, granted);
        }
        self.planning_may_spend();
        // All of them leave the question before the first one may have to ask the next.
        let waiting: Vec<Thread> = std::iter::from_fn(|| self.take_waiting(call_id)).collect();
        waiting.into_iter().for_each(|thread| self.work(thread));
        Ok(())
    }

    pub(crate) fn budget_expired(&mut self, thread: Thread) {
        let Phase::AwaitingBudget { approval, .. } = thread.phase.clone() else { return self.put(thread) };
        self.close_approval(&approval, ApprovalStatus::Expired, None, TIMEOUT.to_owned(), None);
        self.put(thread);
        let error = error_data(ErrorCode::HitlTimeout, "Nobody decided about the budget in time");
        self.budget_refused(&approval.call_id, error);
    }

    /// The turn ends, with everything in it.
    fn budget_refused(&mut self, call_id: &CallId, error: ErrorData) {
        if self.in_workflow() {
            self.end_workflow_early(error);
        } else if let Some(thread) = self.take_waiting(call_id) {
            self.fail_thread(thread, error);
        }
    }

    fn change_budget(&mut self, scope: BudgetScope, budget: Budget) {
        match scope {
            BudgetScope::Session => self.session.budget = budget,
            BudgetScope::Project => {
                self.world.space.set_budget(budget);
                self.effects.push(Effect::ProjectBudget(budget));
            }
        }
        self.changed = true;
    }
}

fn spending(usage: Usage) -> Spending {
    Spending { tokens: usage.total_tokens, usd: usage.cost_usd.unwrap_or_default() }
}

/// The limits once more, from what is spent by now; in any case enough for the calls that wait. A limit that lets them
/// through stays as it is.
fn more(budget: Budget, spent: Spending, awaited: Spending) -> Budget {
    let least = spent.plus(Spending { tokens: awaited.tokens.max(1), usd: awaited.usd.max(MIN_GRANT_USD) });
    let tokens = |limit: u64| match limit >= least.tokens {
        true => limit,
        false => limit.saturating_add(spent.tokens).max(least.tokens).min(MAX_BUDGET_TOKENS),
    };
    let usd = |limit: f64| match limit >= least.usd {
        true => limit,
        false => (limit + spent.usd).max(least.usd).min(MAX_BUDGET_USD),
    };
    Budget { usd: budget.usd.map(usd), tokens: budget.tokens.map(tokens) }
}

/// The limits a person wrote: `null` lifts one, one that is not named stays as it is.
fn new_budget(arguments: &Map<String, Value>, now: Budget) -> Result<Budget, Refusal> {
    let invalid = |why: String| Refusal::new(ErrorCode::InvalidToolArguments, why);
    if !["budget_usd", "budget_tokens"].iter().any(|name| arguments.contains_key(*name)) {
        return Err(invalid("budget_usd or budget_tokens must be given".to_owned()));
    }
    let usd = match arguments.get("budget_usd") {
        None => now.usd,
        Some(Value::Null) => None,
        Some(value) => {
            let usd = value.as_f64().filter(|usd| (0.0..=MAX_BUDGET_USD).contains(usd));
            Some(
                usd.ok_or_else(|| invalid(format!("budget_usd must be a number from 0 to {MAX_BUDGET_USD}, or null")))?,
            )
        }
    };
    let tokens = match arguments.get("budget_tokens") {
        None => now.tokens,
        Some(Value::Null) => None,
        Some(value) => {
            let tokens = value.as_u64().filter(|tokens| *tokens <= MAX_BUDGET_TOKENS);
            let wrong =
                || invalid(format!("budget_tokens must be a whole number from 0 to {MAX_BUDGET_TOKENS}, or null"));
            Some(tokens.ok_or_else(wrong)?)
        }
    };
    Ok(Budget { usd, tokens })
}
