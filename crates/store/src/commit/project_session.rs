//! The statements for what only project sessions commit.
//!
//! Statements read the user and project from the session's own row and not from the caller, so that
//! costs cannot be charged to another user. Words for the search are the exception: they are cut
//! before the statement runs, with the number of `Commit::search_user`. A search also asks whose the
//! session is, so a wrong number can hide a session but shows it to nobody else.

use super::{Commit, NewSessionRow, statements::json};
use crate::StoreError;
use crate::project_session::{NewInteraction, NewSpending, PlanSaved};
use crate::search::stored_words;
use crate::statement::{Param, Stmt};
use codelab_protocol::{Role, SessionKind};

// Changes nothing, but waits for a removal of the project, and the removal waits for it.
const HOLD_PROJECT: &str = "UPDATE projects SET name = name WHERE id = $1 AND user_id = $2";

const UPSERT_PLAN: &str = "INSERT INTO plans (session_key, plan_id, turn, status, created_at, updated_at, body) \
     VALUES ($1, $2, $3, $4, $5, $5, $6) ON CONFLICT (session_key, plan_id) DO UPDATE SET status = excluded.status, \
     updated_at = excluded.updated_at, body = excluded.body";

const INSERT_SPENDING: &str = "INSERT INTO spendings (agent, turn, task_id, prompt_tokens, completion_tokens, \
     total_tokens, cached_tokens, reasoning_tokens, model, cost_micro_usd, created_at, session_key, user_id, \
     project_id) SELECT $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, id, user_id, project_id FROM sessions \
     WHERE id = $12";

// Nothing is stored for an agent that was removed meanwhile.
const INSERT_INTERACTION: &str = "INSERT INTO interactions (task_id, type, success, text, metadata, created_at, \
     turn, agent, session_key, user_id, project_id) SELECT $1, $2, $3, $4, $5, $6, $7, project_agents.name, sessions.id, \
     sessions.user_id, sessions.project_id FROM sessions \
     JOIN project_agents ON project_agents.project_id = sessions.project_id \
     WHERE project_agents.name = $8 AND sessions.id = $9";

const SET_BUDGET: &str = "UPDATE projects SET budget_micro_usd = $1, budget_tokens = $2, granted_micro_usd = $3, \
     granted_tokens = $4, updated_at = $5 WHERE id = (SELECT project_id FROM sessions WHERE id = $6)";

// The first title stays, as in the session's own row.
const INSERT_WORDS: &str = "INSERT INTO session_texts (session_key, ord, words) VALUES ($1, $2, $3) \
     ON CONFLICT DO NOTHING";
/// Messages are numbered from 1.
pub(crate) const TITLE_ORD: u64 = 0;

/// Maximum number of tokens counted for one model call, so that a wrong number from a model server
/// cannot break the sums.
const MAX_PER_CALL: u64 = 1 << 40;
const MICRO_PER_USD: f64 = 1e6;

/// A session of a project can be created only while the project exists.
pub(super) fn hold_project(session: &NewSessionRow) -> Option<Stmt> {
    match (session.kind, session.user_id, session.project_id) {
        (SessionKind::Project, Some(user), Some(project)) => {
            Some(Stmt::one(HOLD_PROJECT, vec![project.into(), user.into()]))
        }
        _ => None,
    }
}

/// What a person reads in the session's history can be searched.
pub(super) fn insert_words(commit: &Commit, stmts: &mut Vec<Stmt>) {
    let Some(user) = commit.search_user else {
        return;
    };
    let insert = |ord: u64, words: String| {
        Stmt::any(
            INSERT_WORDS,
            vec![commit.key.into(), ord.into(), words.into()],
        )
    };
    stmts.extend(
        commit
            .title
            .as_deref()
            .map(|title| insert(TITLE_ORD, stored_words(user, title))),
    );
    for stored in &commit.messages {
        let message = &stored.message;
        if stored.is_own() && matches!(message.role, Role::User | Role::Assistant) {
            let words = stored_words(user, &message.content);
            stmts.extend((!words.is_empty()).then(|| insert(stored.ord, words)));
        }
    }
}

pub(super) fn append(commit: &mut Commit, stmts: &mut Vec<Stmt>) -> Result<(), StoreError> {
    for saved in &commit.plans {
        stmts.push(save_plan(commit.key.into(), saved)?);
    }
    stmts.extend(
        commit
            .spendings
            .iter()
            .map(|spending| insert_spending(commit.key.into(), spending)),
    );
    for new in std::mem::take(&mut commit.interactions) {
        let agent = Param::text(new.agent.as_str());
        let turn = Param::optional(new.turn.map(|turn| turn.0));
        let mut params = interaction_columns(new)?;
        params.extend([turn, agent, commit.key.into()]);
        stmts.push(Stmt::any(INSERT_INTERACTION, params));
    }
    if let Some(budget) = commit.project_budget {
        let params = vec![
            Param::optional(budget.budget_micro_usd),
            Param::optional(budget.budget_tokens),
            budget.granted_micro_usd.into(),
            budget.granted_tokens.into(),
            budget.at.into(),
            commit.key.into(),
        ];
        stmts.push(Stmt::one(SET_BUDGET, params));
    }
    Ok(())
}

/// The columns that an interaction brings itself, without whose it is.
pub(crate) fn interaction_columns(new: NewInteraction) -> Result<Vec<Param>, StoreError> {
    Ok(vec![
        Param::optional_text(new.task.as_ref().map(|task| task.as_str())),
        new.kind.into(),
        Param::optional(new.success),
        new.text.into(),
        json(&new.metadata)?,
        new.at.into(),
    ])
}

fn save_plan(key: Param, saved: &PlanSaved) -> Result<Stmt, StoreError> {
    let params = vec![
        key,
        Param::text(saved.plan.plan_id.as_str()),
        saved.turn.0.into(),
        saved.plan.status.as_str().into(),
        saved.at.into(),
        json(&saved.plan)?,
    ];
    Ok(Stmt::one(UPSERT_PLAN, params))
}

fn insert_spending(key: Param, spending: &NewSpending) -> Stmt {
    let usage = &spending.usage;
    let count = |number: u64| Param::from(number.min(MAX_PER_CALL));
    // A float becomes the nearest number that there is, and none becomes zero.
    let micro_usd = usage
        .cost_usd
        .map(|usd| count((usd * MICRO_PER_USD).round() as u64));
    let params = vec![
        Param::text(spending.agent.as_str()),
        spending.turn.0.into(),
        Param::optional_text(spending.task.as_ref().map(|task| task.as_str())),
        count(usage.prompt_tokens),
        count(usage.completion_tokens),
        count(usage.total_tokens),
        count(usage.cached_tokens),
        count(usage.reasoning_tokens),
        Param::optional_text(usage.model.as_deref()),
        Param::optional(micro_usd),
        spending.at.into(),
        key,
    ];
    Stmt::one(INSERT_SPENDING, params)
}
