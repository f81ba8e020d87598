//! The agents of a project.

use codelab_protocol::{AgentId, AgentName, Patch, ProjectId, Timestamp, UserId};
use serde::Serialize;

use super::ProjectStore;
use super::projects::{missing, patched};
use crate::StoreError;
use crate::columns::Columns;
use crate::statement::{Expect, Param, Stmt};
use crate::store::Store;
use crate::store::life::note_erased;
use crate::user::{AgentChange, AgentRow, NewAgent};

macro_rules! select_agents {
    ($where:literal) => {
        concat!(
            "SELECT agent_id, name, role, description, model, fallback_models, temperature, max_tokens, ",
            "system_prompt, allowed_tools, file_restrictions, concurrency_limit, registered, created_at, updated_at ",
            "FROM project_agents WHERE project_id = $1 ",
            $where
        )
    };
}
const PAGE: &str = select_agents!("ORDER BY id LIMIT $2 OFFSET $3");
const ONE: &str = select_agents!("AND agent_id = $2");
const COUNT: &str = "SELECT COUNT(*) FROM project_agents WHERE project_id = $1";
const OF_ALL: &str = "SELECT project_agents.id, projects.user_id, projects.id, project_agents.name FROM project_agents \
     JOIN projects ON projects.id = project_agents.project_id WHERE project_agents.id > $1 \
     ORDER BY project_agents.id LIMIT $2";
const COUNT_OF_NAME: &str =
    "SELECT COUNT(*) FROM project_agents WHERE project_id = $1 AND name = $2";

macro_rules! insert_into_agents {
    ($source:literal) => {
        concat!(
            "INSERT INTO project_agents (agent_id, name, role, description, model, fallback_models, temperature, ",
            "max_tokens, system_prompt, allowed_tools, file_restrictions, concurrency_limit, created_at, updated_at, ",
            "project_id) SELECT $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $13, id FROM projects ",
            $source
        )
    };
}
const INSERT_WITH_PROJECT: &str = insert_into_agents!("WHERE nonce = $14");
const INSERT: &str = insert_into_agents!("WHERE id = $14 ON CONFLICT DO NOTHING");

const TOUCH: &str =
    "UPDATE project_agents SET updated_at = $1 WHERE project_id = $2 AND agent_id = $3";
const SET_ROLE: &str = "UPDATE project_agents SET role = $1 WHERE agent_id = $2";
const SET_DESCRIPTION: &str = "UPDATE project_agents SET description = $1 WHERE agent_id = $2";
const SET_MODEL: &str = "UPDATE project_agents SET model = $1 WHERE agent_id = $2";
const SET_FALLBACK_MODELS: &str =
    "UPDATE project_agents SET fallback_models = $1 WHERE agent_id = $2";
const SET_TEMPERATURE: &str = "UPDATE project_agents SET temperature = $1 WHERE agent_id = $2";
const SET_MAX_TOKENS: &str = "UPDATE project_agents SET max_tokens = $1 WHERE agent_id = $2";
const SET_SYSTEM_PROMPT: &str = "UPDATE project_agents SET system_prompt = $1 WHERE agent_id = $2";
const SET_ALLOWED_TOOLS: &str = "UPDATE project_agents SET allowed_tools = $1 WHERE agent_id = $2";
const SET_FILE_RESTRICTIONS: &str =
    "UPDATE project_agents SET file_restrictions = $1 WHERE agent_id = $2";
const SET_CONCURRENCY_LIMIT: &str =
    "UPDATE project_agents SET concurrency_limit = $1 WHERE agent_id = $2";
const SET_REGISTERED: &str =
    "UPDATE project_agents SET registered = $1 WHERE project_id = $2 AND agent_id = $3";
const NOTE_FORGOTTEN: &str = note_erased!(
    "project_id = $1 AND agent = (SELECT name FROM project_agents WHERE project_id = $1 AND agent_id = $2)"
);
const FORGET: &str = "DELETE FROM interactions WHERE project_id = $1 AND agent = \
     (SELECT name FROM project_agents WHERE project_id = $1 AND agent_id = $2)";
const DELETE: &str = "DELETE FROM project_agents WHERE project_id = $1 AND agent_id = $2";

/// The user, project and name of an agent, for maintenance of all agents.
#[derive(Debug, Clone, PartialEq)]
pub struct AgentLocation {
    /// Pages on.
    pub number: u64,
    pub user_id: UserId,
    pub project_id: ProjectId,
    pub agent: AgentName,
}

impl Store {
    /// The agents of all users, oldest first; `after` pages on.
    pub async fn agents_of_all(
        &self,
        after: u64,
        limit: u64,
    ) -> Result<Vec<AgentLocation>, StoreError> {
        self.read(OF_ALL, vec![after.into(), limit.into()], |row| {
            Ok(AgentLocation {
                number: row.count()?,
                user_id: row.user()?,
                project_id: row.project()?,
                agent: row.id()?,
            })
        })
        .await
    }
}

impl ProjectStore {
    /// A page of the project's agents, oldest first, and how many there are.
    pub async fn agents(
        &self,
        limit: u64,
        offset: u64,
    ) -> Result<(Vec<AgentRow>, u64), StoreError> {
        let total = self.count_agents().await?;
        let params = vec![self.row.id.into(), limit.into(), offset.into()];
        Ok((self.store.read(PAGE, params, agent).await?, total))
    }

    pub async fn count_agents(&self) -> Result<u64, StoreError> {
        Ok(self
            .store
            .read_one(COUNT, vec![self.row.id.into()], |row| row.count())
            .await?
            .unwrap_or(0))
    }

    /// Whether the project, if it is still there, has an agent of this name.
    pub async fn has_agent(&self, name: &AgentName) -> Result<bool, StoreError> {
        let params = vec![self.row.id.into(), Param::text(name.as_str())];
        Ok(self
            .store
            .read_one(COUNT_OF_NAME, params, |row| row.count())
            .await?
            .unwrap_or(0)
            > 0)
    }

    pub async fn agent(&self, id: &AgentId) -> Result<Option<AgentRow>, StoreError> {
        self.store
            .read_one(
                ONE,
                vec![self.row.id.into(), Param::text(id.as_str())],
                agent,
            )
            .await
    }

    /// `AlreadyExists` when the project has an agent of this name, `NotFound` when the project is
    /// gone.
    pub async fn create_agent(
        &self,
        new: NewAgent,
        now: Timestamp,
    ) -> Result<AgentRow, StoreError> {
        let mut params = columns(new.clone(), now)?;
        params.push(self.row.id.into());
        let insert = Stmt {
            sql: INSERT,
            params,
            expect: Expect::New,
        };
        self.store
            .write(None, vec![self.fence(now), insert])
            .await
            .map_err(missing)?;
        Ok(AgentRow {
            agent: new,
            registered: true,
            created_at: now,
            updated_at: now,
        })
    }

    /// Changes only the given fields. `NotFound` if there is no such agent in this project.
    pub async fn change_agent(
        &self,
        id: &AgentId,
        change: AgentChange,
        now: Timestamp,
    ) -> Result<AgentRow, StoreError> {
        let touch = Stmt::one(
            TOUCH,
            vec![now.into(), self.row.id.into(), Param::text(id.as_str())],
        );
        let mut stmts = vec![self.fence(now), touch];
        let changed = [
            (SET_ROLE, change.role.map(Param::from)),
            (SET_DESCRIPTION, change.description.map(Param::from)),
            (SET_MODEL, model_change(change.model)),
            (
                SET_FALLBACK_MODELS,
                change.fallback_models.map(json).transpose()?,
            ),
            (SET_TEMPERATURE, patched(change.temperature.map(number))),
            (SET_MAX_TOKENS, patched(change.max_tokens.map(u64::from))),
            (SET_SYSTEM_PROMPT, change.system_prompt.map(Param::from)),
            (
                SET_ALLOWED_TOOLS,
                change.allowed_tools.map(json).transpose()?,
            ),
            (
                SET_FILE_RESTRICTIONS,
                change.file_restrictions.map(json).transpose()?,
            ),
            (
                SET_CONCURRENCY_LIMIT,
                change
                    .concurrency_limit
                    .map(|limit| u64::from(limit).into()),
            ),
        ];
        for (sql, value) in changed {
            if let Some(value) = value {
                stmts.push(Stmt::one(sql, vec![value, Param::text(id.as_str())]));
            }
        }
        self.store.write(None, stmts).await.map_err(missing)?;
        self.agent(id).await?.ok_or(StoreError::NotFound)
    }

    /// Sets whether the agent accepts tasks, on every server. `NotFound` if there is no such agent
    /// in this project.
    pub async fn set_agent_registered(
        &self,
        id: &AgentId,
        yes: bool,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        let params = vec![yes.into(), self.row.id.into(), Param::text(id.as_str())];
        let set = Stmt::one(SET_REGISTERED, params);
        self.store
            .write(None, vec![self.fence(now), set])
            .await
            .map(drop)
            .map_err(missing)
    }

    /// Also removes its interactions. Its usage stays.
    pub async fn delete_agent(&self, id: &AgentId, now: Timestamp) -> Result<(), StoreError> {
        let params = || vec![self.row.id.into(), Param::text(id.as_str())];
        let forget = [
            Stmt::any(NOTE_FORGOTTEN, params()),
            Stmt::any(FORGET, params()),
        ];
        let stmts = [self.fence(now)]
            .into_iter()
            .chain(forget)
            .chain([Stmt::one(DELETE, params())]);
        self.store
            .erase(None, stmts.collect())
            .await
            .map_err(missing)
    }
}

/// An agent that is created with its project.
pub(super) fn insert_agent(nonce: &str, new: NewAgent, now: Timestamp) -> Result<Stmt, StoreError> {
    let mut params = columns(new, now)?;
    params.push(Param::text(nonce));
    Ok(Stmt::any(INSERT_WITH_PROJECT, params))
}

fn columns(new: NewAgent, now: Timestamp) -> Result<Vec<Param>, StoreError> {
    Ok(vec![
        Param::text(new.agent_id.as_str()),
        Param::text(new.name.as_str()),
        new.role.into(),
        new.description.into(),
        new.model.unwrap_or_default().into(),
        json(new.fallback_models)?,
        Param::optional(new.temperature.map(number)),
        Param::optional(new.max_tokens.map(u64::from)),
        new.system_prompt.into(),
        json(new.allowed_tools)?,
        json(new.file_restrictions)?,
        u64::from(new.concurrency_limit).into(),
        now.into(),
    ])
}

/// A row without a model of its own follows the server's default; its column is empty.
fn model_change(change: Patch<String>) -> Option<Param> {
    match change {
        Patch::Absent => None,
        Patch::Null => Some(Param::text("")),
        Patch::Value(model) => Some(model.into()),
    }
}

/// The shortest text that reads back as the same number.
fn number(value: f64) -> String {
    value.to_string()
}

fn json(value: impl Serialize) -> Result<Param, StoreError> {
    let text =
        serde_json::to_string(&value).map_err(|error| StoreError::Invalid(error.to_string()))?;
    Ok(text.into())
}

fn agent(row: &mut Columns<'_>) -> Result<AgentRow, StoreError> {
    let agent = NewAgent {
        agent_id: row.id()?,
        name: row.id()?,
        role: row.string()?,
        description: row.string()?,
        model: Some(row.string()?).filter(|model| !model.is_empty()),
        fallback_models: row.json()?,
        temperature: row.optional_parsed(|text| text.parse().ok())?,
        max_tokens: row.optional_small()?,
        system_prompt: row.string()?,
        allowed_tools: row.json()?,
        file_restrictions: row.json()?,
        concurrency_limit: row.small()?,
    };
    Ok(AgentRow {
        agent,
        registered: row.count()? != 0,
        created_at: row.time()?,
        updated_at: row.time()?,
    })
}
