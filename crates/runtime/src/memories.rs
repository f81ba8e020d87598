//! What agents remember. SQL keeps it; the memory engine only finds it again, and may fail without anybody waiting:
//! a search then finds nothing, and what was not indexed is indexed when the engine is back.

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use codelab_engine::cut;
use codelab_memory::{
    CollectionName, Created, Hit, Interaction, InteractionId, Memory, MemoryError, MemoryHealth, Query,
};
use codelab_protocol::{AgentName, SessionId};
use codelab_store::{InteractionRow, Store, StoreError};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::space::SpaceKey;

/// Interactions indexed or read at once.
const BATCH: usize = 100;
/// How often the engine is looked at, and what failed is tried again.
const LOOK_EVERY: Duration = Duration::from_secs(2);
/// A search that takes longer than this does not hold an answer up.
const RECALL_PATIENCE: Duration = Duration::from_millis(250);
/// What an agent is reminded of at the beginning of its work.
const RECALLED: usize = 3;
const RECALLED_BYTES: usize = 1_000;

/// The memories of all agents.
pub(crate) struct Memories {
    memory: Memory,
    store: Store,
    /// Something waits to be indexed.
    wake: Notify,
    /// Collections that could not be made or written; they are made again from SQL.
    broken: Mutex<BTreeSet<(SpaceKey, AgentName)>>,
    problem: Mutex<Option<String>>,
}

impl Memories {
    pub fn new(memory: Memory, store: Store) -> Self {
        Self { memory, store, wake: Notify::new(), broken: Mutex::default(), problem: Mutex::default() }
    }

    /// Makes sure that each agent has its collection; one that is lost is made again from SQL.
    pub async fn ensure(&self, key: SpaceKey, agents: &[AgentName]) {
        for agent in agents {
            match self.create(key, agent).await {
                Ok(Created::Existing) => {}
                Ok(Created::New) if !self.has_past(key, agent).await => {}
                Ok(Created::New | Created::Outdated) => self.repair_later(key, agent),
                Err(error) => {
                    tracing::warn!(project = %key.project, %agent, %error, "the agent's memory could not be made");
                    self.repair_later(key, agent);
                }
            }
        }
    }

    async fn create(&self, key: SpaceKey, agent: &AgentName) -> Result<Created, MemoryError> {
        self.memory.create(&collection(key, agent)?).await
    }

    pub async fn remove(&self, key: SpaceKey, agent: &AgentName) {
        self.broken().remove(&(key, agent.clone()));
        let removed = match collection(key, agent) {
            Ok(name) => self.memory.remove(&name).await,
            Err(error) => Err(error),
        };
        if let Err(error) = removed {
            tracing::warn!(project = %key.project, %agent, %error, "the agent's memory could not be removed");
        }
    }

    /// What the agent should be reminded of; nothing where that takes too long or fails.
    pub async fn recall(&self, key: SpaceKey, agent: &AgentName, about: &str) -> Vec<String> {
        let text = cut(about, RECALLED_BYTES).to_owned();
        if text.trim().is_empty() {
            return Vec::new();
        }
        let query = Query { text, top_k: RECALLED, filter: Default::default() };
        match tokio::time::timeout(RECALL_PATIENCE, self.search(key, agent, &query)).await {
            Ok(Ok(hits)) => hits.iter().map(|hit| cut(&hit.text, RECALLED_BYTES).to_owned()).collect(),
            Ok(Err(error)) => {
                tracing::debug!(project = %key.project, %agent, %error, "nothing is recalled");
                Vec::new()
            }
            Err(_) => {
                tracing::debug!(project = %key.project, %agent, "recalling took too long");
                Vec::new()
            }
        }
    }

    pub async fn search(&self, key: SpaceKey, agent: &AgentName, query: &Query) -> Result<Vec<Hit>, MemoryError> {
        self.memory.search(&collection(key, agent)?, query).await
    }

    /// Something was committed that can be remembered.
    pub fn added(&self) {
        self.wake.notify_one();
    }

    /// The rows are gone; so is what finds them.
    pub async fn clear(&self, key: SpaceKey, agent: &AgentName) {
        let cleared = match collection(key, agent) {
            Ok(name) => self.memory.clear(&name).await,
            Err(error) => Err(error),
        };
        if let Err(error) = cleared {
            tracing::warn!(project = %key.project, %agent, %error, "the agent's memory could not be cleared");
            self.repair_later(key, agent);
        }
    }

    pub async fn forget_session(&self, key: SpaceKey, agents: &[AgentName], session: &SessionId) {
        for agent in agents {
            let forgotten = match collection(key, agent) {
                Ok(name) => self.memory.delete_session(&name, session).await,
                Err(error) => Err(error),
            };
            if let Err(error) = forgotten
                && !matches!(error, MemoryError::NotFound { .. })
            {
                tracing::warn!(project = %key.project, %agent, %error, "a session could not be forgotten");
                self.repair_later(key, agent);
            }
        }
    }

    /// Makes an agent's collection anew from SQL; how many interactions it holds.
    pub async fn rebuild(&self, key: SpaceKey, agent: &AgentName) -> Result<u64, RebuildError> {
        let name = collection(key, agent)?;
        let Some(project) = self.store.of(key.user).project(key.project).await? else { return Ok(0) };
        self.memory.rebuild(&name, std::iter::empty()).await?;
        let (mut after, mut added) = (None, 0);
        loop {
            let rows = project.interactions(agent, after, BATCH as u64).await?;
            let Some(last) = rows.last() else { break };
            after = Some(last.id);
            added += rows.len() as u64;
            self.memory.add(&name, rows.into_iter().map(remembered).collect()).await?;
        }
        self.broken().remove(&(key, agent.clone()));
        Ok(added)
    }

    /// What was wrong with the engine when it was looked at last.
    pub fn problem(&self) -> Option<String> {
        let broken = self.broken().len();
        let of_engine = self.problem.lock().unwrap_or_else(PoisonError::into_inner).clone();
        of_engine.or_else(|| (broken > 0).then(|| format!("{broken} collections wait to be made again")))
    }

    async fn look(&self) {
        let problem = match self.memory.health().await {
            MemoryHealth::Healthy => None,
            MemoryHealth::Degraded { reason } => Some(reason),
        };
        *self.problem.lock().unwrap_or_else(PoisonError::into_inner) = problem;
    }

    pub async fn close(&self) {
        self.memory.close().await;
    }

    /// Indexes what was committed, also by a server that stopped before it came to that, and repairs what broke.
    pub async fn run(&self, stopping: &CancellationToken) {
        loop {
            if let Err(error) = self.index_all().await {
                tracing::warn!(%error, "what agents remember is not indexed yet");
            }
            self.repair().await;
            self.look().await;
            tokio::select! {
                () = stopping.cancelled() => return,
                () = self.wake.notified() => {}
                () = tokio::time::sleep(LOOK_EVERY) => {}
            }
        }
    }

    async fn index_all(&self) -> Result<(), RebuildError> {
        loop {
            let waiting = self.store.unindexed_interactions(BATCH as u64).await?;
            if waiting.is_empty() {
                return Ok(());
            }
            for item in waiting {
                let key = SpaceKey { user: item.user_id, project: item.project_id };
                let (agent, id) = (item.interaction.agent.clone(), item.interaction.id);
                let name = collection(key, &agent)?;
                self.memory.create(&name).await?;
                self.memory.add(&name, vec![remembered(item.interaction)]).await.inspect_err(|_| {
                    self.repair_later(key, &agent);
                })?;
                let gone = self.store.mark_indexed(&[id]).await?;
                if !gone.is_empty() {
                    self.memory.delete(&name, vec![InteractionId(id.0)]).await?;
                }
            }
        }
    }

    async fn repair(&self) {
        let broken: Vec<(SpaceKey, AgentName)> = self.broken().iter().cloned().collect();
        for (key, agent) in broken {
            match self.rebuild(key, &agent).await {
                Ok(count) => tracing::info!(project = %key.project, %agent, count, "the agent's memory is made again"),
                Err(error) => {
                    tracing::warn!(project = %key.project, %agent, %error, "the agent's memory is still broken");
                }
            }
        }
    }

    async fn has_past(&self, key: SpaceKey, agent: &AgentName) -> bool {
        match self.store.of(key.user).project(key.project).await {
            Ok(Some(project)) => project.interactions(agent, None, 1).await.is_ok_and(|rows| !rows.is_empty()),
            _ => false,
        }
    }

    fn repair_later(&self, key: SpaceKey, agent: &AgentName) {
        self.broken().insert((key, agent.clone()));
        self.wake.notify_one();
    }

    fn broken(&self) -> MutexGuard<'_, BTreeSet<(SpaceKey, AgentName)>> {
        self.broken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Why a memory could not be written.
#[derive(Debug, thiserror::Error)]
pub enum RebuildError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Memory(#[from] MemoryError),
}

/// A project's agents have names that fit; any other name has no collection.
fn collection(key: SpaceKey, agent: &AgentName) -> Result<CollectionName, MemoryError> {
    CollectionName::new(key.user, key.project, agent)
}

fn remembered(row: InteractionRow) -> Interaction {
    Interaction {
        id: InteractionId(row.id.0),
        text: row.text,
        kind: row.kind,
        success: row.success.unwrap_or(true),
        task_id: row.task.map(String::from),
        session_id: row.session_id,
        timestamp: row.created_at,
        metadata: row.metadata,
    }
}
