//! What the server asks of worker spaces, and the changes of projects and agents that they must
//! hear of.
//!
//! Changes run to their end in tasks of their own: a caller that hangs up between the database and
//! the cache must not leave the old definition in use.

use std::sync::Arc;
use std::time::Duration;

use codelab_engine::{Refusal, Session};
use codelab_protocol::{
    AgentId, AgentMetrics, AgentName, AgentStatus, AgentStatusInfo, AttachedClient, ErrorCode,
    SessionId, SpaceHealth, SpaceMetrics,
};
use codelab_store::{AgentChange, AgentRow, NewAgent, OwnedSession, ProjectStore, StoreError};
use tokio::time::Instant;

use super::{AGENTS_PAGE, Space, SpaceKey, health, lock, work};
use crate::cache::UserPrefix;
use crate::clock::now;
use crate::owner::Command;
use crate::runtime::{Runtime, whole};
use crate::{RuntimeError, bus::Draining};

/// How long active tasks may take when a space is cleaned up or an agent taken out of service.
const DEADLINE: Duration = Duration::from_secs(30);
/// Sessions read at once.
const PAGE: u64 = 1000;

impl SpaceKey {
    pub fn of(project: &ProjectStore) -> Self {
        Self {
            user: project.user(),
            project: project.id(),
        }
    }

    pub fn of_session(session: &OwnedSession) -> Self {
        Self {
            user: session.user(),
            project: session.project(),
        }
    }
}

impl Runtime {
    /// The project's worker space, made if it is not there.
    pub fn space(&self, key: SpaceKey) -> Arc<Space> {
        self.inner.spaces.get(key)
    }

    /// The project's worker space, if it is there.
    pub fn live_space(&self, key: SpaceKey) -> Option<Arc<Space>> {
        self.inner.spaces.find(key)
    }

    /// The project's worker space with its agents on the bus, and within reason with their
    /// memories.
    pub async fn open_space(&self, key: SpaceKey) -> Result<Arc<Space>, RuntimeError> {
        let space = self.inner.spaces.get(key);
        space.team_snapshot().await?;
        self.inner.memories.settle(key).await;
        Ok(space)
    }

    /// How the space is; a cleaned one is not rebuilt for that.
    pub fn space_health(&self, key: SpaceKey) -> SpaceHealth {
        let stuck_after = Duration::from_secs(2 * self.inner.limits.task_timeout_seconds);
        match self.inner.spaces.find(key) {
            Some(space) => space.health(stuck_after),
            None => health::absent(
                &self.inner.cache.health(),
                self.inner.memories.problem_in(key),
            ),
        }
    }

    /// What the space did and does; a cleaned one is not rebuilt for that.
    pub fn space_metrics(&self, key: SpaceKey) -> SpaceMetrics {
        let health = self.space_health(key);
        match self.inner.spaces.find(key) {
            Some(space) => space.metrics(&health),
            None => work::absent(key, &health),
        }
    }

    /// The clients that are attached to a project. A space that was cleaned up has none.
    pub fn attached_clients(&self, key: SpaceKey) -> Vec<AttachedClient> {
        let space = self.inner.spaces.find(key);
        space.map_or_else(Vec::new, |space| space.attached_clients())
    }

    /// Finishes active tasks within reason, cancels the rest, lets the space's resources go.
    pub async fn cleanup_space(&self, key: SpaceKey) -> Result<(), RuntimeError> {
        let Some(space) = self.inner.spaces.find(key) else {
            return Ok(());
        };
        let runtime = self.clone();
        whole(async move {
            drained(space.close()).await;
            // A reset meanwhile has begun anew; that is not to be cleaned up.
            match space.is_closing() {
                true => runtime.empty(&space).await,
                false => Ok(()),
            }
        })
        .await?
    }

    /// Stops every task at once and begins anew.
    pub async fn reset_space(&self, key: SpaceKey) -> Result<(), RuntimeError> {
        let runtime = self.clone();
        whole(async move {
            let space = runtime.inner.spaces.find(key);
            if let Some(space) = &space {
                drop(space.close());
            }
            // Also what waits for a person or a client, which nobody here holds in memory.
            let cancelled = match runtime.open_turns(key, None).await {
                Ok(open) => {
                    runtime
                        .tell_all(open, &Command::Cancel { drop_queue: true })
                        .await
                }
                Err(error) => Err(error),
            };
            // Also after a failure: a space must not stay closed.
            if let Some(space) = &space {
                space.vacate().await;
            }
            cancelled?;
            runtime.open_space(key).await.map(drop)
        })
        .await?
    }

    async fn empty(&self, space: &Space) -> Result<(), RuntimeError> {
        let cancelled = self
            .tell_all(
                space.working_sessions(),
                &Command::Cancel { drop_queue: true },
            )
            .await;
        // Also after a failure: a space must not stay closed.
        space.vacate().await;
        cancelled
    }

    /// Forgets the definitions of the project's agents, on every server; the bus is not touched.
    pub async fn clear_agent_cache(&self, key: SpaceKey) {
        tracing::info!(user = %key.user, project = %key.project, "agent cache cleared");
        self.inner.cache.clear(&prefix(key)).await;
    }

    async fn tell_all(
        &self,
        sessions: Vec<SessionId>,
        input: &Command,
    ) -> Result<(), RuntimeError> {
        let mut result = Ok(());
        for id in sessions {
            match self.tell_project_session(&id, input.clone()).await {
                Ok(()) | Err(RuntimeError::SessionNotFound) => {}
                // Its own server finds the agent gone; nothing here can stop it.
                Err(RuntimeError::Elsewhere) => {
                    tracing::warn!(session = %id, "session not cancelled, another server owns it")
                }
                Err(error) => result = Err(error),
            }
        }
        result
    }

    /// The sessions whose turn is not over, or those of them in which this agent has work: on the
    /// way, waiting for its slot, for a client or for a person; in memory or not.
    async fn open_turns(
        &self,
        key: SpaceKey,
        agent: Option<&AgentName>,
    ) -> Result<Vec<SessionId>, RuntimeError> {
        let Some(project) = self.inner.store.of(key.user).project(key.project).await? else {
            return Ok(Vec::new());
        };
        let (mut after, mut open) = (None, Vec::new());
        loop {
            let page = project.unfinished_sessions(after, PAGE).await?;
            let Some(last) = page.last() else {
                return Ok(open);
            };
            after = Some(last.key);
            for row in page {
                // A session that cannot be read can neither go on nor be cancelled.
                let Ok(session) = serde_json::from_str::<Session>(&row.state) else {
                    continue;
                };
                let Some(turn) = session.turn() else { continue };
                if agent.is_none_or(|agent| turn.threads().any(|thread| thread.agent() == agent)) {
                    open.push(row.session_id);
                }
            }
        }
    }

    pub fn agent_status(&self, key: SpaceKey, row: &AgentRow) -> AgentStatusInfo {
        let agent = row.agent.name.clone();
        let status = self
            .live_space(key)
            .and_then(|space| space.bus.status(&agent))
            .unwrap_or(AgentStatus::Idle);
        AgentStatusInfo {
            agent,
            status,
            registered: row.registered,
        }
    }

    pub fn agent_metrics(&self, key: SpaceKey, row: &AgentRow) -> AgentMetrics {
        let live = self
            .live_space(key)
            .and_then(|space| space.bus.metrics(&row.agent.name));
        live.unwrap_or_else(|| AgentMetrics {
            tasks_processed: 0,
            tasks_failed: 0,
            avg_processing_time: 0.0,
            last_activity: None,
            error_rate: 0.0,
            active: 0,
            queue_length: 0,
            concurrency_limit: u64::from(row.agent.concurrency_limit),
        })
    }

    /// Lets the agent take tasks, or takes it out of service; its active tasks are finished first,
    /// within reason.
    pub async fn set_agent_registered(
        &self,
        project: ProjectStore,
        row: AgentRow,
        registered: bool,
    ) -> Result<(), RuntimeError> {
        let runtime = self.clone();
        whole(async move {
            let (key, name) = (SpaceKey::of(&project), row.agent.name);
            let set = project.set_agent_registered(&row.agent.agent_id, registered, now()).await;
            set.map_err(RuntimeError::NotStored)?;
            match registered {
                true => tracing::info!(project = %key.project, agent = %name, "agent put into service"),
                false => tracing::info!(project = %key.project, agent = %name, "agent taken out of service"),
            }
            let space = match registered {
                true => Some(runtime.space(key)),
                false => runtime.live_space(key),
            };
            let leaving = space.filter(|_| !registered);
            let active = leaving.iter().map(|space| space.leave_service(&name)).collect();
            runtime.read_again(key, &row.agent.agent_id).await;
            if let Some(space) = leaving {
                space.end_leave(&name);
            }
            drained(active).await;
            Ok(())
        })
        .await?
    }

    pub async fn create_agent(
        &self,
        project: ProjectStore,
        new: NewAgent,
    ) -> Result<AgentRow, StoreError> {
        let runtime = self.clone();
        let created = whole(async move {
            let (id, key) = (new.agent_id.clone(), SpaceKey::of(&project));
            let created = project.create_agent(new, now()).await?;
            runtime.read_again(key, &id).await;
            Ok(created)
        });
        created.await.unwrap_or(Err(StoreError::Unknown))
    }

    pub async fn change_agent(
        &self,
        project: ProjectStore,
        id: AgentId,
        change: AgentChange,
    ) -> Result<AgentRow, StoreError> {
        let runtime = self.clone();
        let changed = whole(async move {
            let changed = project.change_agent(&id, change, now()).await?;
            runtime.read_again(SpaceKey::of(&project), &id).await;
            Ok(changed)
        });
        changed.await.unwrap_or(Err(StoreError::Unknown))
    }

    /// Refused while the agent works, unless its tasks may be cancelled.
    pub async fn delete_agent(
        &self,
        project: ProjectStore,
        row: AgentRow,
        force: bool,
    ) -> Result<(), RuntimeError> {
        let runtime = self.clone();
        whole(async move {
            let (id, name) = (row.agent.agent_id, row.agent.name);
            let key = SpaceKey::of(&project);
            let space = runtime.live_space(key);
            let deleted = match runtime
                .stop_agent(key, space.as_deref(), &name, force)
                .await
            {
                Ok(()) => project
                    .delete_agent(&id, now())
                    .await
                    .map_err(RuntimeError::NotStored),
                Err(error) => Err(error),
            };
            if let Some(space) = space {
                space.end_leave(&name);
            }
            // Whether it is gone or stays: the bus hears what the database says.
            runtime.read_again(key, &id).await;
            if deleted.is_ok() {
                runtime.inner.memories.remove(key, &[name]).await;
            }
            deleted
        })
        .await?
    }

    async fn stop_agent(
        &self,
        key: SpaceKey,
        space: Option<&Space>,
        agent: &AgentName,
        force: bool,
    ) -> Result<(), RuntimeError> {
        let works = || {
            let why =
                format!("Agent {agent} works; delete it with ?force=true to cancel its tasks");
            Err(Refusal::new(ErrorCode::Conflict, why)
                .with("agent", agent.as_str())
                .into())
        };
        if !force && self.has_work(key, agent).await? {
            return works();
        }
        // From here on nothing begins, so what is seen now is all there is.
        if let Some(space) = space {
            drop(space.leave_service(agent));
        }
        match force {
            true => {
                let open = self.open_turns(key, Some(agent)).await?;
                self.tell_all(
                    open,
                    &Command::AgentGone {
                        agent: agent.clone(),
                    },
                )
                .await
            }
            false if self.has_work(key, agent).await? => works(),
            false => Ok(()),
        }
    }

    async fn has_work(&self, key: SpaceKey, agent: &AgentName) -> Result<bool, RuntimeError> {
        let on_the_bus = |metrics: AgentMetrics| metrics.active + metrics.queue_length > 0;
        let live = self
            .live_space(key)
            .and_then(|space| space.bus.metrics(agent));
        Ok(live.is_some_and(on_the_bus) || !self.open_turns(key, Some(agent)).await?.is_empty())
    }

    /// The agent's definition changed or is gone: the next use reads it again, here and on other
    /// servers.
    pub async fn read_again(&self, key: SpaceKey, id: &AgentId) {
        tracing::info!(project = %key.project, agent = %id, "agent will be read again");
        self.inner.cache.invalidate(&prefix(key), id).await;
        if let Some(space) = self.live_space(key) {
            lock(&space.memo).forget();
            match space.team_snapshot().await {
                Ok(_) => self.inner.memories.settle(key).await,
                Err(error) => {
                    tracing::warn!(project = %key.project, %error, "agents of the project could not be read")
                }
            }
        }
    }

    /// The project's row changed.
    pub fn budget_changed(&self, key: SpaceKey) {
        if let Some(space) = self.live_space(key) {
            space.budget_changed();
        }
    }

    /// Deletes the project with its agents and sessions; its work is cancelled.
    pub async fn delete_project(&self, project: ProjectStore) -> Result<(), RuntimeError> {
        let runtime = self.clone();
        whole(async move {
            let key = SpaceKey::of(&project);
            let space = runtime.live_space(key);
            let cancelled = match &space {
                Some(space) => {
                    drop(space.close());
                    runtime.empty(space).await
                }
                None => Ok(()),
            };
            cancelled?;
            runtime.delete_live_sessions(key).await?;
            let agents: Vec<_> = project
                .agents(AGENTS_PAGE, 0)
                .await?
                .0
                .into_iter()
                .map(|row| row.agent.name)
                .collect();
            project.delete().await.map_err(RuntimeError::NotStored)?;
            runtime.inner.memories.remove(key, &agents).await;
            runtime.clear_agent_cache(key).await;
            runtime.inner.spaces.remove(key);
            Ok(())
        })
        .await?
    }

    /// Sessions that are in memory, or read, here; the others are nothing but rows.
    async fn delete_live_sessions(&self, key: SpaceKey) -> Result<(), RuntimeError> {
        let mine = self.inner.store.of(key.user);
        let mut live = Vec::new();
        let mut seen = 0;
        loop {
            let (page, total) = mine.sessions(Some(key.project), None, PAGE, seen).await?;
            seen += page.len() as u64;
            let is_last = page.is_empty() || seen >= total;
            live.extend(
                page.into_iter()
                    .map(|row| row.session_id)
                    .filter(|id| self.is_live_session(id)),
            );
            if is_last {
                break;
            }
        }
        for id in live {
            match self.delete_session(key, &id).await {
                Ok(()) | Err(RuntimeError::SessionNotFound | RuntimeError::Elsewhere) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// Waits for tasks that were active, all together no longer than [`DEADLINE`].
async fn drained(active: Vec<Draining>) {
    let deadline = Instant::now() + DEADLINE;
    for task in active {
        let _ = tokio::time::timeout_at(deadline, task.finished()).await;
    }
}

fn prefix(key: SpaceKey) -> UserPrefix {
    UserPrefix::new(key.user, key.project)
}
