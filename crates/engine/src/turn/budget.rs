//! Budgets. Only what was really spent counts as used. How much a call may take is decided in
//! `reservation.rs`. If too little is left for the next call, a person is asked here.

use codelab_protocol::{CallId, ErrorCode, ErrorData, SessionKind, Usage, arguments_digest};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::approval::TIMEOUT;
use super::{Thread, ThreadPhase, error_data};
use crate::session::Transition;
use crate::world::{MAX_BUDGET_TOKENS, MAX_BUDGET_USD};
use crate::{
    AgentSpending, Approval, ApprovalKind, ApprovalOutcome, Budget, BudgetState, Decision, Effect,
    Lane, Refusal, Session, Spending,
};

/// Whose budget it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BudgetScope {
    Session,
    Project,
}

/// Why a person is asked about a budget.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BudgetWhy {
    /// What is left is too little for the next call.
    #[default]
    Used,
    /// There is a limit in dollars, and the price of the model is not known.
    Unpriced,
}

/// What a person is to be asked.
#[derive(Debug, Clone)]
pub(crate) struct BudgetQuestion {
    pub scope: BudgetScope,
    pub state: BudgetState,
    pub why: BudgetWhy,
    /// The model without a price.
    pub model: Option<String>,
}

impl Session {
    /// A person is asked once, however many tasks wait for the answer.
    fn open_budget_question(
        &self,
        wanted: BudgetScope,
        reason: BudgetWhy,
    ) -> Option<Box<Approval>> {
        self.turn
            .as_ref()?
            .threads()
            .find_map(|thread| match &thread.phase {
                ThreadPhase::AwaitingBudget {
                    approval,
                    scope,
                    why,
                } => ((*scope, *why) == (wanted, reason)).then(|| approval.clone()),
                ThreadPhase::Routing { .. }
                | ThreadPhase::Queued
                | ThreadPhase::Thinking { .. }
                | ThreadPhase::AwaitingResult { .. }
                | ThreadPhase::Calling { .. }
                | ThreadPhase::AwaitingApproval { .. }
                | ThreadPhase::AwaitingAnswer { .. }
                | ThreadPhase::AwaitingRoom => None,
            })
    }
}

impl Transition<'_, '_> {
    /// Gives back what was set aside for a call that will not be paid.
    pub(crate) fn release(&mut self, thread: &mut Thread) {
        if thread.reserved.take().is_some() {
            self.spend_budget(thread.lane, Spending::default());
        }
    }

    pub(crate) fn spend(&mut self, thread: &mut Thread, usage: Option<Usage>) {
        thread.reserved = None;
        self.space_spends(thread.lane, usage.as_ref());
        if let Some(usage) = usage {
            self.session.prompt_was(thread, usage.prompt_tokens);
            let before = thread.usage.take();
            thread.usage =
                Some(before.map_or_else(|| usage.clone(), |sum| sum.plus(usage.clone())));
            let agent = thread.agent.clone();
            let task = self
                .session
                .task_of(thread)
                .and_then(|origin| origin.task_id);
            self.spent(AgentSpending {
                agent,
                turn: thread.turn,
                task,
                usage,
            });
        }
    }

    pub(crate) fn space_spends(&mut self, lane: Lane, usage: Option<&Usage>) {
        if self.session.kind == SessionKind::Project {
            self.spend_budget(lane, usage.map(spending).unwrap_or_default());
        }
    }

    /// The lane's model call ended: nothing is set aside for it any more.
    pub(crate) fn spend_budget(&mut self, lane: Lane, used: Spending) {
        self.space.spend(lane, used);
        self.output.push(Effect::SpendBudget { lane, used });
    }

    pub(crate) fn spent(&mut self, spent: AgentSpending) {
        if self.session.kind == SessionKind::Runtime {
            return;
        }
        self.session.spent = self.session.spent.plus(spending(&spent.usage));
        self.output.push(Effect::Spent(spent));
    }

    pub(crate) fn ask_for_budget(&mut self, thread: Thread, question: BudgetQuestion) {
        let (scope, why) = (question.scope, question.why);
        let approval = match self.session.open_budget_question(scope, why) {
            Some(approval) => approval,
            None => {
                let approval = self.budget_approval(&question);
                self.view().show_approval(&thread, &approval, None);
                approval
            }
        };
        self.suspend(
            thread,
            ThreadPhase::AwaitingBudget {
                approval,
                scope,
                why,
            },
        );
    }

    pub(crate) fn budget_approval(&mut self, question: &BudgetQuestion) -> Box<Approval> {
        let BudgetQuestion {
            scope,
            state,
            model,
            ..
        } = question;
        let arguments = budget_arguments(question);
        let whose = match scope {
            BudgetScope::Session => "session",
            BudgetScope::Project => "project",
        };
        let reason = match model {
            Some(model) => {
                format!(
                    "The price of {model} is not known, so its calls do not count for the {whose}'s budget in dollars"
                )
            }
            None => left_too_little(whose, state),
        };
        let call_id = self.world.ids.call_id();
        self.open_approval(Approval {
            call_id,
            kind: ApprovalKind::Budget,
            tool: "budget".to_owned(),
            digest: arguments_digest("budget", &arguments),
            mcp: None,
            arguments,
            parts: Vec::new(),
            reason,
            remember: None,
            created_at: self.world.now,
            expires_at: None,
            timeout_seconds: 0,
            preview: None,
        })
    }

    /// Approve grants what a person last set once more, edit sets new limits, reject ends the turn.
    /// What was shown when the question came up may be old by now: others spend, and others decide.
    pub(crate) fn decide_budget(
        &mut self,
        call_id: &CallId,
        decision: Decision,
        decided_by: String,
    ) -> Result<(), Refusal> {
        let asked_by = self
            .session
            .waiting_thread(call_id)
            .map(|thread| &thread.phase);
        let asked = asked_by.map_or_else(
            || self.session.planning_budget(),
            |phase| match phase {
                ThreadPhase::AwaitingBudget {
                    approval,
                    scope,
                    why,
                } => Some((approval.clone(), *scope, *why)),
                ThreadPhase::Routing { .. }
                | ThreadPhase::Queued
                | ThreadPhase::Thinking { .. }
                | ThreadPhase::AwaitingResult { .. }
                | ThreadPhase::Calling { .. }
                | ThreadPhase::AwaitingApproval { .. }
                | ThreadPhase::AwaitingAnswer { .. }
                | ThreadPhase::AwaitingRoom => None,
            },
        );
        let Some((approval, scope, why)) = asked else {
            never!("a budget question is pending that nobody waits for");
            return Ok(());
        };
        let state = self.funds().budget_state(scope);
        let granted = match (&decision, why) {
            (Decision::Approve { .. }, BudgetWhy::Used) => {
                Some(more(&state, self.funds().awaited(call_id)))
            }
            (Decision::Approve { .. }, BudgetWhy::Unpriced) => Some((state.budget, state.granted)),
            (Decision::Edit { arguments }, _) => Some(new_budget(arguments, &state)?),
            (Decision::Reject { .. }, _) => None,
        };
        let (status, modified, feedback) = match decision {
            Decision::Approve { .. } => (ApprovalOutcome::Approved, None, None),
            Decision::Edit { arguments } => (ApprovalOutcome::Edited, Some(arguments), None),
            Decision::Reject { feedback } => (ApprovalOutcome::Rejected, None, feedback),
        };
        self.close_approval(&approval, status, modified, decided_by, feedback);
        let Some((budget, by_approvals)) = granted else {
            self.budget_refused(
                call_id,
                error_data(ErrorCode::Cancelled, "A person refused to spend more"),
            );
            return Ok(());
        };
        self.session.unpriced_allowed |= why == BudgetWhy::Unpriced;
        if (budget, by_approvals) != (state.budget, state.granted) {
            self.change_budget(scope, budget, by_approvals);
        }
        self.planning_may_spend();
        // All of them leave the question before the first one may have to ask the next.
        let waiting: Vec<Thread> =
            std::iter::from_fn(|| self.session.take_waiting(call_id)).collect();
        waiting.into_iter().for_each(|thread| self.work(thread));
        Ok(())
    }

    pub(crate) fn budget_expired(&mut self, thread: Thread) {
        let ThreadPhase::AwaitingBudget { approval, .. } = thread.phase.clone() else {
            never!("a thread expires at a budget question that it does not wait for");
            return self.session.put(thread);
        };
        self.close_approval(
            &approval,
            ApprovalOutcome::Expired,
            None,
            TIMEOUT.to_owned(),
            None,
        );
        self.session.put(thread);
        let error = error_data(
            ErrorCode::HitlTimeout,
            "Nobody decided about the budget in time",
        );
        self.budget_refused(&approval.call_id, error);
    }

    /// The turn ends, with what was done so far as its answer.
    pub(crate) fn budget_refused(&mut self, call_id: &CallId, error: ErrorData) {
        if self.session.in_workflow() {
            self.stop_workflow(error);
        } else if let Some(thread) = self.session.take_waiting(call_id) {
            self.stop_thread(thread, error);
        }
    }

    fn change_budget(&mut self, scope: BudgetScope, budget: Budget, granted: Spending) {
        match scope {
            BudgetScope::Session => (self.session.budget, self.session.granted) = (budget, granted),
            BudgetScope::Project => {
                self.space.set_budget(budget, granted);
                self.output.push(Effect::ProjectBudget { budget, granted });
            }
        }
        self.output.mark_changed();
    }
}

fn spending(usage: &Usage) -> Spending {
    Spending {
        tokens: usage.total_tokens,
        usd: usage.cost_usd.unwrap_or_default(),
    }
}

/// What was spent, what running calls may take, and the limit, as separate fields. The limits are
/// there a second time, under the names by which an edit sets them.
fn budget_arguments(question: &BudgetQuestion) -> Map<String, Value> {
    let BudgetQuestion {
        scope,
        state,
        model,
        ..
    } = question;
    let BudgetState {
        budget,
        spent,
        reserved,
        ..
    } = state;
    let arguments = json!({
        "scope": scope,
        "budget_usd": budget.usd,
        "budget_tokens": budget.tokens,
        "limit": budget,
        "spent": spent,
        "reserved": reserved,
    });
    let mut arguments = match arguments {
        Value::Object(arguments) => arguments,
        _ => Map::new(),
    };
    if let Some(model) = model {
        arguments.insert("model".to_owned(), model.as_str().into());
    }
    arguments
}

fn left_too_little(whose: &str, state: &BudgetState) -> String {
    let BudgetState { budget, spent, .. } = state;
    let tokens = budget
        .tokens
        .map(|limit| format!("{} of {limit} tokens", spent.tokens));
    let usd = budget
        .usd
        .map(|limit| format!("${:.4} of ${limit:.4}", spent.usd));
    let used: Vec<String> = tokens.into_iter().chain(usd).collect();
    format!(
        "The {whose}'s budget leaves too little for the next call: {} spent",
        used.join(", ")
    )
}

/// The new limits after an approval, and what approvals have added in all. A limit that is too low
/// grows by what a person last set, and at least to what the waiting calls need. A limit that lets
/// them through stays.
fn more(state: &BudgetState, awaited: Spending) -> (Budget, Spending) {
    let BudgetState {
        budget,
        granted,
        spent,
        reserved,
    } = *state;
    let needed = spent.plus(reserved).plus(awaited);
    let tokens = budget.tokens.map(|limit| match limit >= needed.tokens {
        true => limit,
        false => {
            let set = limit.saturating_sub(granted.tokens);
            limit
                .saturating_add(set)
                .max(needed.tokens)
                .min(MAX_BUDGET_TOKENS)
        }
    });
    let usd = budget.usd.map(|limit| match limit >= needed.usd {
        true => limit,
        false => (limit + (limit - granted.usd).max(0.0))
            .max(needed.usd)
            .min(MAX_BUDGET_USD),
    });
    let added = Spending {
        tokens: tokens
            .zip(budget.tokens)
            .map_or(0, |(now, before)| now.saturating_sub(before)),
        usd: usd
            .zip(budget.usd)
            .map_or(0.0, |(now, before)| now - before),
    };
    (Budget { usd, tokens }, granted.plus(added))
}

/// The limits a person wrote: `null` lifts one, one that is not named stays as it is, with what
/// approvals added to it.
fn new_budget(
    arguments: &Map<String, Value>,
    state: &BudgetState,
) -> Result<(Budget, Spending), Refusal> {
    let (now, mut granted) = (state.budget, state.granted);
    let invalid = |why: String| Refusal::new(ErrorCode::InvalidToolArguments, why);
    if !["budget_usd", "budget_tokens"]
        .iter()
        .any(|name| arguments.contains_key(*name))
    {
        return Err(invalid(
            "budget_usd or budget_tokens must be given".to_owned(),
        ));
    }
    let usd = match arguments.get("budget_usd") {
        None => now.usd,
        Some(Value::Null) => None,
        Some(value) => {
            let usd = value
                .as_f64()
                .filter(|usd| (0.0..=MAX_BUDGET_USD).contains(usd));
            Some(usd.ok_or_else(|| {
                invalid(format!(
                    "budget_usd must be a number from 0 to {MAX_BUDGET_USD}, or null"
                ))
            })?)
        }
    };
    let tokens = match arguments.get("budget_tokens") {
        None => now.tokens,
        Some(Value::Null) => None,
        Some(value) => {
            let tokens = value.as_u64().filter(|tokens| *tokens <= MAX_BUDGET_TOKENS);
            let wrong = || {
                invalid(format!(
                    "budget_tokens must be a whole number from 0 to {MAX_BUDGET_TOKENS}, or null"
                ))
            };
            Some(tokens.ok_or_else(wrong)?)
        }
    };
    if arguments.contains_key("budget_usd") {
        granted.usd = 0.0;
    }
    if arguments.contains_key("budget_tokens") {
        granted.tokens = 0;
    }
    Ok((Budget { usd, tokens }, granted))
}
