//! What the server asks of worker spaces, and the changes of projects and agents that they must hear of.
//!
//! Changes run to their end in tasks of their own: a caller that hangs up between the database and the cache must not
//! leave the old definition in use.

use std::sync::Arc;
use std::time::Duration;

use codelab_engine::Refusal;
use codelab_protocol::{
    AgentId, AgentMetrics, AgentName, AgentStatus, AgentStatusInfo, ErrorCode, SpaceHealth, SpaceMetrics,
};
use codelab_store::{AgentChange, AgentRow, NewAgent, ProjectStore, StoreError};
use tokio::time::Instant;

use super::{Space, SpaceKey, health, lock, work};
use crate::cache::UserPrefix;
use crate::clock::now;
use crate::runtime::Runtime;
use crate::{RuntimeError, bus::Draining};

/// How long active tasks may take when a space is cleaned up or an agent taken out of service.
const PATIENCE: Duration = Duration::from_secs(30);
/// Sessions read at once when a project is deleted.
const PAGE: u64 = 1000;

impl SpaceKey {
    pub fn of(project: &ProjectStore) -> Self {
        Self { user: project.user(), project: project.id() }
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

    /// The project's worker space with its agents on the bus.
    pub async fn open_space(&self, key: SpaceKey) -> Result<Arc<Space>, RuntimeError> {
        let space = self.inner.spaces.get(key);
        space.crew().await?;
        Ok(space)
    }

    /// How the space is; a cleaned one is not rebuilt for that.
    pub fn space_health(&self, key: SpaceKey) -> SpaceHealth {
        let stuck_after = Duration::from_secs(2 * self.inner.limits.task_timeout_seconds);
        match self.inner.spaces.find(key) {
            Some(space) => space.health(stuck_after),
            None => health::absent(&self.inner.cache.health()),
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

    /// Finishes active tasks within reason, cancels the rest, lets the space's resources go.
    pub async fn cleanup_space(&self, key: SpaceKey) -> Result<(), RuntimeError> {
        let Some(space) = self.inner.spaces.find(key) else { return Ok(()) };
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
            if let Some(space) = runtime.inner.spaces.find(key) {
                drop(space.close());
                runtime.empty(&space).await?;
            }
            runtime.open_space(key).await.map(drop)
        })
        .await?
    }

    async fn empty(&self, space: &Space) -> Result<(), RuntimeError> {
        let cancelled = self.cancel_work(space, None).await;
        // Also after a failure: a space must not stay closed.
        space.vacate().await;
        cancelled
    }

    /// Forgets the definitions of the project's agents, on every server; the bus is not touched.
    pub async fn clear_agent_cache(&self, key: SpaceKey) {
        tracing::info!(user = %key.user, project = %key.project, "the agent cache is cleared");
        self.inner.cache.clear(&prefix(key)).await;
    }

    /// Cancels the turns that work with this agent; without one, all that work, with the messages that wait.
    pub(crate) async fn cancel_work(&self, space: &Space, agent: Option<&AgentName>) -> Result<(), RuntimeError> {
        let mut result = Ok(());
        for id in space.working_sessions(agent) {
            match self.cancel_chat(&id, agent.is_none()).await {
                Ok(_) | Err(RuntimeError::SessionNotFound) => {}
                Err(error) => result = Err(error),
            }
        }
        result
    }

    pub fn agent_status(&self, key: SpaceKey, row: &AgentRow) -> AgentStatusInfo {
        let agent = row.agent.name.clone();
        let status = self.live_space(key).and_then(|space| space.bus.status(&agent)).unwrap_or(AgentStatus::Idle);
        AgentStatusInfo { agent, status, registered: row.registered }
    }

    pub fn agent_metrics(&self, key: SpaceKey, row: &AgentRow) -> AgentMetrics {
        let live = self.live_space(key).and_then(|space| space.bus.metrics(&row.agent.name));
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

    /// Lets the agent take tasks, or takes it out of service; its active tasks are finished first, within reason.
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
            tracing::info!(project = %key.project, agent = %name, registered, "the agent's service");
            let space = match registered {
                true => Some(runtime.space(key)),
                false => runtime.live_space(key),
            };
            let active = space.filter(|_| !registered).map(|space| space.bus.deregister(&name));
            runtime.read_again(key, &row.agent.agent_id).await;
            drained(active.into_iter().collect()).await;
            Ok(())
        })
        .await?
    }

    pub async fn create_agent(&self, project: ProjectStore, new: NewAgent) -> Result<AgentRow, StoreError> {
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
    pub async fn delete_agent(&self, project: ProjectStore, row: AgentRow, force: bool) -> Result<(), RuntimeError> {
        let runtime = self.clone();
        whole(async move {
            let (id, name) = (row.agent.agent_id, row.agent.name);
            let key = SpaceKey::of(&project);
            let stopped = match runtime.live_space(key) {
                Some(space) => runtime.stop_agent(&space, &name, force).await,
                None => Ok(()),
            };
            let deleted = match stopped {
                Ok(()) => project.delete_agent(&id, now()).await.map_err(RuntimeError::NotStored),
                Err(error) => Err(error),
            };
            // Whether it is gone or stays: the bus hears what the database says.
            runtime.read_again(key, &id).await;
            if deleted.is_ok() {
                runtime.inner.memories.remove(key, &name).await;
            }
            deleted
        })
        .await?
    }

    async fn stop_agent(&self, space: &Space, agent: &AgentName, force: bool) -> Result<(), RuntimeError> {
        let works = || {
            let why = format!("Agent {agent} works; delete it with ?force=true to cancel its tasks");
            Err(Refusal::new(ErrorCode::Conflict, why).with("agent", agent.as_str()).into())
        };
        if !force && space.works_with(agent) {
            return works();
        }
        // From here on nothing begins, so what is seen now is all there is.
        drop(space.bus.deregister(agent));
        match force {
            true => self.cancel_work(space, Some(agent)).await,
            false if space.works_with(agent) => works(),
            false => Ok(()),
        }
    }

    /// The agent's definition changed or is gone: the next use reads it again, here and on other servers.
    pub async fn read_again(&self, key: SpaceKey, id: &AgentId) {
        tracing::info!(project = %key.project, agent = %id, "the agent is read anew");
        self.inner.cache.invalidate(&prefix(key), id).await;
        if let Some(space) = self.live_space(key) {
            *lock(&space.memo) = None;
            if let Err(error) = space.crew().await {
                tracing::warn!(project = %key.project, %error, "the project's agents could not be read");
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
            runtime.delete_live_chats(key).await?;
            let agents = project.agents(PAGE, 0).await?.0;
            project.delete().await.map_err(RuntimeError::NotStored)?;
            for row in agents {
                runtime.inner.memories.remove(key, &row.agent.name).await;
            }
            runtime.clear_agent_cache(key).await;
            runtime.inner.spaces.remove(key);
            Ok(())
        })
        .await?
    }

    /// Sessions that are in memory, or read, here; the others are nothing but rows.
    async fn delete_live_chats(&self, key: SpaceKey) -> Result<(), RuntimeError> {
        let mine = self.inner.store.of(key.user);
        let mut live = Vec::new();
        let mut seen = 0;
        loop {
            let (page, total) = mine.sessions(Some(key.project), PAGE, seen).await?;
            seen += page.len() as u64;
            let is_last = page.is_empty() || seen >= total;
            live.extend(page.into_iter().map(|row| row.session_id).filter(|id| self.is_live_chat(id)));
            if is_last {
                break;
            }
        }
        for id in live {
            match self.delete_chat(key, &id).await {
                Ok(()) | Err(RuntimeError::SessionNotFound | RuntimeError::Elsewhere) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

impl Space {
    fn works_with(&self, agent: &AgentName) -> bool {
        let on_the_bus = |metrics: AgentMetrics| metrics.active + metrics.queue_length > 0;
        self.bus.metrics(agent).is_some_and(on_the_bus) || !self.working_sessions(Some(agent)).is_empty()
    }
}

/// Waits for tasks that were active, all together no longer than [`PATIENCE`].
async fn drained(active: Vec<Draining>) {
    let deadline = Instant::now() + PATIENCE;
    for task in active {
        let _ = tokio::time::timeout_at(deadline, task.finished()).await;
    }
}

/// Runs to its end even if whoever asked hangs up.
async fn whole<T: Send + 'static>(task: impl Future<Output = T> + Send + 'static) -> Result<T, RuntimeError> {
    tokio::spawn(task).await.map_err(|_| RuntimeError::Stopping)
}

fn prefix(key: SpaceKey) -> UserPrefix {
    UserPrefix::new(key.user, key.project)
}
