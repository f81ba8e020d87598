//! Budgets: what a model call may cost is set aside before it is made; where a limit is reached, a person is asked.

use codelab_protocol::{CallId, ErrorCode, ErrorData, Usage, arguments_digest};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::approval::TIMEOUT;
use super::{Phase, Thread, error_data};
use crate::session::Step;
use crate::{
    AgentSpending, Approval, ApprovalKind, ApprovalStatus, Budget, BudgetReached, Decision, Effect, Kind, Lane,
    Refusal, Spending,
};

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
        let reserved = self.session.turn.iter().flat_map(|turn| turn.threads()).filter_map(|other| other.reserved);
        let planner = self.session.turn.as_ref().and_then(|turn| turn.workflow()?.reserved);
        let spent = reserved.chain(planner).fold(self.session.spent, Spending::plus);
        let budget = self.session.budget;
        budget.is_reached(spent).then_some(BudgetReached { budget, spent })
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

    /// Approve grants as much again, edit sets new limits, reject ends the turn.
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
        let edited = match &decision {
            Decision::Edit { arguments } => Some(new_budget(arguments, &approval.arguments)?),
            _ => None,
        };
        let (status, modified, feedback) = match decision {
            Decision::Approve { .. } => (ApprovalStatus::Approved, None, None),
            Decision::Edit { arguments } => (ApprovalStatus::Edited, Some(arguments), None),
            Decision::Reject { feedback } => (ApprovalStatus::Rejected, None, feedback),
        };
        self.close_approval(&approval, status, modified, decided_by, feedback);
        if status == ApprovalStatus::Rejected {
            self.budget_refused(call_id, error_data(ErrorCode::Cancelled, "A person refused to spend more"));
            return Ok(());
        }
        self.change_budget(scope, edited.unwrap_or_else(|| more(&approval.arguments)));
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

/// The limits as they stood, once more from what is spent by now.
fn more(arguments: &Map<String, Value>) -> Budget {
    let number = |name: &str| arguments.get(name).and_then(Value::as_f64);
    let whole = |name: &str| arguments.get(name).and_then(Value::as_u64);
    Budget {
        usd: number("budget_usd").map(|limit| limit + number("spent_usd").unwrap_or_default()),
        tokens: whole("budget_tokens").map(|limit| limit + whole("spent_tokens").unwrap_or_default()),
    }
}

/// The limits a person wrote: `null` lifts one, one that is not named stays as it is.
fn new_budget(arguments: &Map<String, Value>, before: &Map<String, Value>) -> Result<Budget, Refusal> {
    let invalid = |why: &str| Refusal::new(ErrorCode::InvalidToolArguments, why);
    if !["budget_usd", "budget_tokens"].iter().any(|name| arguments.contains_key(*name)) {
        return Err(invalid("budget_usd or budget_tokens must be given"));
    }
    let given = |name: &str| arguments.get(name).or_else(|| before.get(name)).filter(|value| !value.is_null());
    let usd = given("budget_usd").map(|value| {
        let usd = value.as_f64().filter(|usd| usd.is_finite() && *usd >= 0.0);
        usd.ok_or_else(|| invalid("budget_usd must be a number that is not negative, or null"))
    });
    let tokens = given("budget_tokens").map(|value| {
        value.as_u64().ok_or_else(|| invalid("budget_tokens must be a whole number that is not negative, or null"))
    });
    Ok(Budget { usd: usd.transpose()?, tokens: tokens.transpose()? })
}
