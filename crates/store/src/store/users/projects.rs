//! Lists, creates, changes and removes projects.

use codelab_protocol::{Patch, ProjectId, Timestamp, UserId};

use super::agents::insert_agent;
use super::{ProjectStore, UserStore};
use crate::StoreError;
use crate::columns::Columns;
use crate::statement::{Expect, Param, Stmt};
use crate::store::Store;
use crate::store::life::{blank_audit, delete_attachments, note_erased};
use crate::user::{NewProject, ProjectChange, ProjectRow};

macro_rules! select_projects {
    ($where:literal) => {
        concat!(
            "SELECT id, name, description, budget_micro_usd, budget_tokens, granted_micro_usd, granted_tokens, ",
            "is_default, created_at, updated_at ",
            "FROM projects WHERE user_id = $1 ",
            $where
        )
    };
}
const PAGE: &str = select_projects!("ORDER BY id LIMIT $2 OFFSET $3");
const ONE: &str = select_projects!("AND id = $2");
const DEFAULT: &str = select_projects!("AND is_default = 1");
const OWNER: &str = "SELECT user_id FROM projects WHERE id = $1";
const COUNT: &str = "SELECT COUNT(*) FROM projects WHERE user_id = $1";

// There is only one default project. A later call finds the first one.
const INSERT: &str = "INSERT INTO projects (nonce, user_id, name, description, budget_micro_usd, budget_tokens, \
     is_default, created_at, updated_at) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $8) ON CONFLICT DO NOTHING";
const NUMBER: &str = "SELECT id FROM projects WHERE nonce = $1";

/// Fails the writes after it if the project is gone, and makes a removal of the project wait for
/// them.
pub(super) const FENCE: &str = "UPDATE projects SET updated_at = $1 WHERE id = $2 AND user_id = $3";
const SET_NAME: &str = "UPDATE projects SET name = $1 WHERE id = $2";
const SET_DESCRIPTION: &str = "UPDATE projects SET description = $1 WHERE id = $2";
const SET_BUDGET_USD: &str =
    "UPDATE projects SET budget_micro_usd = $1, granted_micro_usd = 0 WHERE id = $2";
const SET_BUDGET_TOKENS: &str =
    "UPDATE projects SET budget_tokens = $1, granted_tokens = 0 WHERE id = $2";

const DELETE: &str = "DELETE FROM projects WHERE id = $1 AND user_id = $2";
/// How many of the next statements come before all others.
const FIRST_OF_CONTENTS: usize = 3;
// The sessions' epoch is raised first. From then on no commit can add anything.
const DELETE_CONTENTS: [&str; 22] = [
    "DELETE FROM owners WHERE kind = 'project' AND number = $1",
    "DELETE FROM project_agents WHERE project_id = $1",
    "UPDATE sessions SET epoch = epoch + 1 WHERE project_id = $1",
    "DELETE FROM events WHERE session_key IN (SELECT id FROM sessions WHERE project_id = $1)",
    "DELETE FROM messages WHERE session_key IN (SELECT id FROM sessions WHERE project_id = $1)",
    "DELETE FROM session_texts WHERE session_key IN (SELECT id FROM sessions WHERE project_id = $1)",
    "DELETE FROM task_messages WHERE session_key IN (SELECT id FROM sessions WHERE project_id = $1)",
    "DELETE FROM plans WHERE session_key IN (SELECT id FROM sessions WHERE project_id = $1)",
    "DELETE FROM agent_contexts WHERE session_key IN (SELECT id FROM sessions WHERE project_id = $1)",
    "DELETE FROM agent_switches WHERE session_key IN (SELECT id FROM sessions WHERE project_id = $1)",
    "DELETE FROM pending_approvals WHERE session_key IN (SELECT id FROM sessions WHERE project_id = $1)",
    "DELETE FROM tool_calls WHERE session_key IN (SELECT id FROM sessions WHERE project_id = $1)",
    "DELETE FROM inputs WHERE session_key IN (SELECT id FROM sessions WHERE project_id = $1)",
    concat!(
        blank_audit!(),
        "session_key IN (SELECT id FROM sessions WHERE project_id = $1)"
    ),
    "DELETE FROM sessions WHERE project_id = $1",
    note_erased!("project_id = $1"),
    "DELETE FROM interactions WHERE project_id = $1",
    "DELETE FROM spendings WHERE project_id = $1",
    "DELETE FROM mcp_servers WHERE project_id = $1",
    "DELETE FROM mcp_definitions WHERE project_id = $1",
    "DELETE FROM mcp_permissions WHERE project_id = $1",
    "DELETE FROM mcp_authorizations WHERE project_id = $1",
];

// While the sessions are still there.
const DELETE_ATTACHMENTS: [&str; 3] =
    delete_attachments!("SELECT id FROM sessions WHERE project_id = $1");

impl Store {
    /// A project of any user.
    pub async fn project_of_anyone(
        &self,
        id: ProjectId,
    ) -> Result<Option<ProjectStore>, StoreError> {
        match self
            .read_one(OWNER, vec![id.into()], |row| row.user())
            .await?
        {
            Some(owner) => self.of(owner).project(id).await,
            None => Ok(None),
        }
    }
}

impl UserStore {
    /// A page of the user's projects, oldest first, and how many there are.
    pub async fn projects(
        &self,
        limit: u64,
        offset: u64,
    ) -> Result<(Vec<ProjectRow>, u64), StoreError> {
        let total = self.count_projects().await?;
        let params = vec![self.user.into(), limit.into(), offset.into()];
        Ok((self.store.read(PAGE, params, project).await?, total))
    }

    pub async fn count_projects(&self) -> Result<u64, StoreError> {
        Ok(self
            .store
            .read_one(COUNT, vec![self.user.into()], |row| row.count())
            .await?
            .unwrap_or(0))
    }

    /// `None` when there is none or it is another user's.
    pub async fn project(&self, id: ProjectId) -> Result<Option<ProjectStore>, StoreError> {
        let row = self
            .store
            .read_one(ONE, vec![self.user.into(), id.into()], project)
            .await?;
        Ok(row.map(|row| self.bound(row)))
    }

    pub async fn default_project(&self) -> Result<Option<ProjectStore>, StoreError> {
        let row = self
            .store
            .read_one(DEFAULT, vec![self.user.into()], project)
            .await?;
        Ok(row.map(|row| self.bound(row)))
    }

    pub async fn create_project(
        &self,
        new: NewProject,
        now: Timestamp,
    ) -> Result<ProjectStore, StoreError> {
        let mut stmts = self.creation(new.clone(), false, now)?;
        stmts.push(Stmt {
            sql: NUMBER,
            params: vec![new.nonce.into()],
            expect: Expect::Number,
        });
        let id = self
            .store
            .write(None, stmts)
            .await?
            .number
            .and_then(ProjectId::new);
        let id = id.ok_or_else(|| StoreError::Corrupt("a new project has no number".to_owned()))?;
        self.project(id).await?.ok_or(StoreError::NotFound)
    }

    /// The default project. It is created from `new` if there is none. Concurrent calls create only
    /// one.
    pub async fn default_project_or(
        &self,
        new: NewProject,
        now: Timestamp,
    ) -> Result<ProjectStore, StoreError> {
        if let Some(project) = self.default_project().await? {
            return Ok(project);
        }
        self.store
            .write(None, self.creation(new, true, now)?)
            .await?;
        self.default_project().await?.ok_or(StoreError::NotFound)
    }

    /// The agents are inserted only if the project's row was inserted.
    fn creation(
        &self,
        new: NewProject,
        is_default: bool,
        now: Timestamp,
    ) -> Result<Vec<Stmt>, StoreError> {
        let nonce = new.nonce;
        let params = vec![
            Param::text(&nonce),
            self.user.into(),
            new.name.into(),
            Param::optional(new.description),
            Param::optional(new.budget_micro_usd),
            Param::optional(new.budget_tokens),
            is_default.into(),
            now.into(),
        ];
        let mut stmts = vec![Stmt::any(INSERT, params)];
        for agent in new.agents {
            stmts.push(insert_agent(&nonce, agent, now)?);
        }
        Ok(stmts)
    }

    fn bound(&self, row: ProjectRow) -> ProjectStore {
        ProjectStore {
            store: self.store.clone(),
            user: self.user,
            row,
        }
    }
}

impl ProjectStore {
    pub fn id(&self) -> ProjectId {
        self.row.id
    }

    /// Whose it is.
    pub fn user(&self) -> UserId {
        self.user
    }

    pub(in crate::store) fn store(&self) -> &Store {
        &self.store
    }

    /// The project as it was when this handle was created.
    pub fn row(&self) -> &ProjectRow {
        &self.row
    }

    /// Changes only the given fields, so that concurrent changes do not undo each other.
    pub async fn change(
        &self,
        change: ProjectChange,
        now: Timestamp,
    ) -> Result<ProjectRow, StoreError> {
        let mut stmts = vec![self.fence(now)];
        let mut set =
            |sql, value: Param| stmts.push(Stmt::one(sql, vec![value, self.row.id.into()]));
        if let Some(name) = change.name {
            set(SET_NAME, name.into());
        }
        if let Some(value) = patched(change.description) {
            set(SET_DESCRIPTION, value);
        }
        if let Some(value) = patched(change.budget_micro_usd) {
            set(SET_BUDGET_USD, value);
        }
        if let Some(value) = patched(change.budget_tokens) {
            set(SET_BUDGET_TOKENS, value);
        }
        self.store.write(None, stmts).await.map_err(missing)?;
        let params = vec![self.user.into(), self.row.id.into()];
        self.store
            .read_one(ONE, params, project)
            .await?
            .ok_or(StoreError::NotFound)
    }

    /// Removes the project with its agents, their interactions and usage, and its sessions. The
    /// audit log of the sessions stays, without arguments and reasons.
    pub async fn delete(&self) -> Result<(), StoreError> {
        let id = self.row.id;
        let mut stmts = vec![Stmt::one(DELETE, vec![id.into(), self.user.into()])];
        let (first, rest) = DELETE_CONTENTS.split_at(FIRST_OF_CONTENTS);
        let contents = first.iter().chain(&DELETE_ATTACHMENTS).chain(rest);
        stmts.extend(contents.map(|sql| Stmt::any(sql, vec![id.into()])));
        self.store.erase(None, stmts).await.map_err(missing)
    }

    pub(super) fn fence(&self, now: Timestamp) -> Stmt {
        Stmt::one(
            FENCE,
            vec![now.into(), self.row.id.into(), self.user.into()],
        )
    }
}

/// `None` if nothing changes.
pub(super) fn patched<T: Into<Param>>(patch: Patch<T>) -> Option<Param> {
    match patch {
        Patch::Absent => None,
        Patch::Null => Some(Param::Null),
        Patch::Value(value) => Some(value.into()),
    }
}

pub(in crate::store) fn missing(error: StoreError) -> StoreError {
    if error == StoreError::Conflict {
        StoreError::NotFound
    } else {
        error
    }
}

fn project(row: &mut Columns<'_>) -> Result<ProjectRow, StoreError> {
    Ok(ProjectRow {
        id: row.project()?,
        name: row.string()?,
        description: row.optional_string()?,
        budget_micro_usd: row.optional_count()?,
        budget_tokens: row.optional_count()?,
        granted_micro_usd: row.count()?,
        granted_tokens: row.count()?,
        is_default: row.flag()?,
        created_at: row.time()?,
        updated_at: row.time()?,
    })
}
