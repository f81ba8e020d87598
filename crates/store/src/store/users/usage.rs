//! The usage of a user's agents.

use codelab_protocol::{AgentName, ProjectId};

use super::sessions::of_my_session;
use super::{ProjectStore, UserStore};
use crate::columns::Columns;
use crate::project_session::{
    AgentUsageRow, ProjectUsageRow, SessionUsageRow, UsageRows, UsageSum,
};
use crate::statement::Param;
use crate::{SessionKey, StoreError};

const MAX_SESSIONS: u64 = 100;
/// Projects, and agents, in a report.
const MAX_ROWS: u64 = 1000;

/// The number of newest tasks in an agent's average.
const AVERAGED_TASKS: u64 = 50;
/// The number of calls that are read for it. With very many calls per task, the average covers
/// fewer tasks.
const AVERAGED_CALLS: u64 = 5000;

macro_rules! sums {
    () => {
        "COUNT(*), CAST(COALESCE(SUM(prompt_tokens), 0) AS BIGINT), \
         CAST(COALESCE(SUM(completion_tokens), 0) AS BIGINT), CAST(COALESCE(SUM(total_tokens), 0) AS BIGINT), \
         CAST(COALESCE(SUM(cached_tokens), 0) AS BIGINT), CAST(COALESCE(SUM(reasoning_tokens), 0) AS BIGINT), \
         CAST(COALESCE(SUM(cost_micro_usd), 0) AS BIGINT), COUNT(cost_micro_usd) FROM "
    };
}
/// `$1` is the user and `$2` the project, NULL for all of them.
macro_rules! of_my_projects {
    ($columns:literal, $rest:literal) => {
        concat!(
            "SELECT ",
            $columns,
            sums!(),
            "spendings WHERE user_id = $1 AND (CAST($2 AS BIGINT) IS NULL OR project_id = $2)",
            $rest
        )
    };
}
const TOTAL: &str = of_my_projects!("", "");
const BY_PROJECT: &str = of_my_projects!(
    "project_id, ",
    " GROUP BY project_id ORDER BY project_id LIMIT $3"
);
const BY_AGENT: &str = of_my_projects!(
    "project_id, agent, ",
    " GROUP BY project_id, agent ORDER BY project_id, agent LIMIT $3"
);
const BY_SESSION: &str = concat!(
    "SELECT recent.session_id, recent.project_id, recent.title, ",
    sums!(),
    "(SELECT id, session_id, project_id, title, last_activity FROM sessions WHERE user_id = $1 AND realm = 'project' ",
    "AND deleted_at IS NULL AND project_id IS NOT NULL AND (CAST($2 AS BIGINT) IS NULL OR project_id = $2) ",
    "ORDER BY last_activity DESC, id DESC LIMIT $3) AS recent JOIN spendings ON spendings.session_key = recent.id ",
    "GROUP BY recent.id, recent.session_id, recent.project_id, recent.title, recent.last_activity ",
    "ORDER BY recent.last_activity DESC, recent.id DESC"
);
const OF_SESSION: &str = concat!("SELECT ", sums!(), "spendings", of_my_session!(""));
const OF_PROJECT: &str = concat!(
    "SELECT ",
    sums!(),
    "spendings WHERE user_id = $1 AND project_id = $2"
);

const RECENT_TASKS: &str = "SELECT CAST(COALESCE(SUM(tokens), 0) AS BIGINT), COUNT(*) FROM (\
     SELECT SUM(total_tokens) AS tokens FROM (SELECT id, session_key, turn, task_id, total_tokens FROM spendings \
     WHERE project_id = $1 AND agent = $2 ORDER BY id DESC LIMIT $3) AS calls \
     GROUP BY session_key, turn, task_id ORDER BY MAX(id) DESC LIMIT $4) AS tasks";

impl UserStore {
    /// The usage of one project or of all. Usage of deleted sessions is in everything but
    /// `by_session`.
    pub async fn usage(&self, project: Option<ProjectId>) -> Result<UsageRows, StoreError> {
        let whose = [self.user.into(), Param::optional(project)];
        let limited = |limit: u64| whose.iter().cloned().chain([limit.into()]).collect();
        let total = self
            .store
            .read_one(TOTAL, whose.to_vec(), usage_sum)
            .await?;
        let by_project = self.store.read(BY_PROJECT, limited(MAX_ROWS), |row| {
            Ok(ProjectUsageRow {
                project_id: row.project()?,
                usage: usage_sum(row)?,
            })
        });
        let by_session = self
            .store
            .read(BY_SESSION, limited(MAX_SESSIONS), session_usage);
        let by_agent = self.store.read(BY_AGENT, limited(MAX_ROWS), |row| {
            Ok(AgentUsageRow {
                project_id: row.project()?,
                agent: row.id()?,
                usage: usage_sum(row)?,
            })
        });
        Ok(UsageRows {
            total: total.unwrap_or_default(),
            by_project: by_project.await?,
            by_session: by_session.await?,
            by_agent: by_agent.await?,
        })
    }

    pub async fn session_usage(&self, key: SessionKey) -> Result<UsageSum, StoreError> {
        let sum = self
            .store
            .read_one(OF_SESSION, self.of(key).to_vec(), usage_sum)
            .await?;
        Ok(sum.unwrap_or_default())
    }
}

impl ProjectStore {
    pub async fn spent(&self) -> Result<UsageSum, StoreError> {
        let params = vec![self.user.into(), self.row.id.into()];
        Ok(self
            .store
            .read_one(OF_PROJECT, params, usage_sum)
            .await?
            .unwrap_or_default())
    }

    /// The average usage of the agent's newest tasks, with all calls of a task. `None` if it has
    /// done none.
    pub async fn agent_average_tokens(&self, agent: &AgentName) -> Result<Option<u64>, StoreError> {
        let limits = [AVERAGED_CALLS.into(), AVERAGED_TASKS.into()];
        let params = [self.row.id.into(), Param::text(agent.as_str())]
            .into_iter()
            .chain(limits)
            .collect();
        let recent = self
            .store
            .read_one(RECENT_TASKS, params, |row| Ok((row.count()?, row.count()?)))
            .await?;
        Ok(recent.and_then(|(tokens, tasks)| tokens.checked_div(tasks)))
    }
}

/// No usage, with a known cost of zero.
impl Default for UsageSum {
    fn default() -> Self {
        Self {
            calls: 0,
            prompt_tokens: 0,
            completion_tokens: 0,
            total_tokens: 0,
            cached_tokens: 0,
            reasoning_tokens: 0,
            cost_micro_usd: 0,
            cost_known: true,
        }
    }
}

fn session_usage(row: &mut Columns<'_>) -> Result<SessionUsageRow, StoreError> {
    Ok(SessionUsageRow {
        session_id: row.id()?,
        project_id: row.project()?,
        title: row.optional_string()?,
        usage: usage_sum(row)?,
    })
}

fn usage_sum(row: &mut Columns<'_>) -> Result<UsageSum, StoreError> {
    let calls = row.count()?;
    Ok(UsageSum {
        calls,
        prompt_tokens: row.count()?,
        completion_tokens: row.count()?,
        total_tokens: row.count()?,
        cached_tokens: row.count()?,
        reasoning_tokens: row.count()?,
        cost_micro_usd: row.count()?,
        cost_known: row.count()? == calls,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::query_plan::{assert_uses, empty};

    #[test]
    fn sqlite_finds_rows_by_the_intended_index() {
        let connection = empty();
        for (sql, index) in [
            (TOTAL, "spendings_by_user (user_id=?)"),
            (BY_PROJECT, "spendings_by_user (user_id=?)"),
            (BY_SESSION, "sessions_by_user (user_id=?)"),
            (BY_SESSION, "spendings_by_session (session_key=?)"),
            (OF_SESSION, "spendings_by_session (session_key=?)"),
            (OF_PROJECT, "spendings_by_user (user_id=? AND project_id=?)"),
            (
                RECENT_TASKS,
                "spendings_by_agent (project_id=? AND agent=?)",
            ),
        ] {
            assert_uses(&connection, sql, index);
        }
    }
}
