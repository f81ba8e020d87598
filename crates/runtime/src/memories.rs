//! What agents remember. SQL keeps it; the memory engine is only an index. It may fail or hang
//! without holding anybody up: what it did not do in time is done when it works again.

mod anew;
mod due;
mod erase;
mod moved;
mod upkeep;

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use codelab_engine::cut;
use codelab_memory::{CollectionName, Hit, Memory, MemoryEntry, MemoryEntryId, MemoryError, Query};
use codelab_protocol::{AgentName, SessionId};
use codelab_store::{InteractionRow, OwnedRow, Store, StoreError};
use tokio::sync::Notify;
use tokio::time::{Instant, timeout, timeout_at};

pub use self::anew::rebuild_memories;
use self::due::{AgentRef, DueWork, IndexNeed};
use self::moved::MovedProjects;
use self::upkeep::EngineState;
use crate::cluster::{Cluster, OwnedThing};
use crate::metrics::Metrics;
use crate::space::SpaceKey;

/// A search that takes longer than this does not hold an answer up.
const RECALL_DEADLINE: Duration = Duration::from_millis(1_500);
/// How long whoever makes or deletes something waits for its collections.
const CHANGE_DEADLINE: Duration = Duration::from_secs(2);
/// A search whose hits include something deleted is repeated without it, at most this often.
const MAX_SEARCHES: usize = 3;
/// What an agent is reminded of at the beginning of its work.
const RECALLED: usize = 3;
const RECALLED_BYTES: usize = 1_000;

/// The memories of all agents.
pub(crate) struct Memories {
    memory: Memory,
    store: Store,
    /// Something waits to be indexed or mended.
    wake: Notify,
    due: Mutex<DueWork>,
    engine: Mutex<EngineState>,
    metrics: Arc<Metrics>,
    moved: MovedProjects,
    /// None: everything is this process's own.
    cluster: Option<Arc<Cluster>>,
}

/// What happens to a collection because something happened to its agent.
#[derive(Clone, Copy)]
enum Change<'a> {
    Check,
    Remove,
    Clear,
    Forget(MemoryEntryId),
    ForgetSession(&'a SessionId),
}

impl Memories {
    pub fn new(
        memory: Memory,
        store: Store,
        metrics: Arc<Metrics>,
        cluster: Option<Arc<Cluster>>,
    ) -> Self {
        Self {
            memory,
            store,
            wake: Notify::new(),
            due: Mutex::default(),
            engine: Mutex::default(),
            metrics,
            moved: MovedProjects::default(),
            cluster,
        }
    }

    /// These agents should have their collections soon; nobody waits.
    pub fn expect(&self, key: SpaceKey, agents: &[AgentName]) {
        let mut due = self.due();
        for agent in agents {
            due.note(&(key, agent.clone()), IndexNeed::Check);
        }
    }

    /// Waits a while until the expected collections of the project are there.
    pub async fn settle(&self, key: SpaceKey) {
        // Waiting again for an engine that did not answer would only add to the delay.
        if self.engine().is_out() {
            return self.wake.notify_one();
        }
        let is_expected =
            |agent_ref: &AgentRef, need| agent_ref.0 == key && need == IndexNeed::Check;
        let expected = self
            .due()
            .all()
            .into_iter()
            .filter(|(agent_ref, need, _)| is_expected(agent_ref, *need));
        let agents: Vec<AgentName> = expected.map(|((_, agent), ..)| agent).collect();
        self.change(key, &agents, Change::Check).await;
    }

    /// The agents are gone, and their rows.
    pub async fn remove(&self, key: SpaceKey, agents: &[AgentName]) {
        self.change(key, agents, Change::Remove).await;
    }

    /// The agent's rows were deleted, so its index is emptied.
    pub async fn clear(&self, key: SpaceKey, agent: &AgentName) {
        self.change(key, std::slice::from_ref(agent), Change::Clear)
            .await;
    }

    pub async fn forget(&self, key: SpaceKey, agent: &AgentName, id: codelab_store::InteractionId) {
        self.change(
            key,
            std::slice::from_ref(agent),
            Change::Forget(MemoryEntryId(id.0)),
        )
        .await;
    }

    pub async fn forget_session(&self, key: SpaceKey, agents: &[AgentName], session: &SessionId) {
        self.change(key, agents, Change::ForgetSession(session))
            .await;
    }

    /// All together within [`CHANGE_DEADLINE`]. What fails or is not reached stays noted, also if
    /// the caller goes away.
    async fn change(&self, key: SpaceKey, agents: &[AgentName], change: Change<'_>) {
        let deadline = Instant::now() + CHANGE_DEADLINE;
        let noted: Vec<_> = agents
            .iter()
            .map(|agent| {
                let agent_ref = (key, agent.clone());
                let number = self.due().note(&agent_ref, change.need());
                (agent_ref, number)
            })
            .collect();
        for (agent_ref, number) in noted {
            let agent = &agent_ref.1;
            let problem = match timeout_at(deadline, self.perform(&agent_ref, change)).await {
                Ok(Ok(())) => {
                    self.due().done(&agent_ref, number);
                    continue;
                }
                Ok(Err(error)) => error.to_string(),
                Err(_) => {
                    self.engine().did_not_answer();
                    "it took too long".to_owned()
                }
            };
            tracing::warn!(project = %key.project, %agent, problem, "updating the agent's memory failed, trying again later");
            self.mend_later(&agent_ref, change.need());
        }
    }

    async fn perform(&self, agent_ref: &AgentRef, change: Change<'_>) -> Result<(), RebuildError> {
        let name = collection(agent_ref)?;
        let done = match change {
            Change::Check => return self.check(agent_ref).await,
            Change::Remove => self.memory.remove(&name).await,
            Change::Clear => self.memory.clear(&name).await,
            Change::Forget(id) => self.memory.delete(&name, vec![id]).await,
            Change::ForgetSession(session) => self.memory.delete_session(&name, session).await,
        };
        match done {
            // What is not there holds nothing.
            Ok(()) | Err(MemoryError::NotFound { .. }) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// What the agent should be reminded of; nothing where that takes too long or fails.
    pub async fn recall(&self, key: SpaceKey, agent: &AgentName, about: &str) -> Vec<String> {
        let text = cut(about, RECALLED_BYTES).to_owned();
        if text.trim().is_empty() {
            return Vec::new();
        }
        let query = Query {
            text,
            top_k: RECALLED,
            filter: Default::default(),
        };
        let (outcome, hits) = match timeout(RECALL_DEADLINE, self.search(key, agent, &query)).await
        {
            Ok(Ok(hits)) => (if hits.is_empty() { "nothing" } else { "found" }, hits),
            Ok(Err(error)) => {
                tracing::debug!(project = %key.project, %agent, %error, "recall failed, agent begins without memories");
                ("failed", Vec::new())
            }
            Err(_) => {
                tracing::debug!(project = %key.project, %agent, "recall timed out, agent begins without memories");
                ("late", Vec::new())
            }
        };
        Metrics::count(&self.metrics.memory_recalls, outcome);
        hits.iter()
            .map(|hit| cut(&hit.text, RECALLED_BYTES).to_owned())
            .collect()
    }

    /// Returns only what SQL still has, because the index may still hold what was deleted.
    pub async fn search(
        &self,
        key: SpaceKey,
        agent: &AgentName,
        query: &Query,
    ) -> Result<Vec<Hit>, RebuildError> {
        let name = collection(&(key, agent.clone()))?;
        self.mend_if_moved(&(key, agent.clone()));
        let mut searches = 0;
        loop {
            searches += 1;
            let found = self.memory.search(&name, query).await;
            if matches!(found, Err(MemoryError::NotFound { .. })) {
                self.mend_later(&(key, agent.clone()), IndexNeed::Check);
            }
            let mut hits = found?;
            if hits.is_empty() {
                return Ok(hits);
            }
            let Some(project) = self.store.of(key.user).project(key.project).await? else {
                return Ok(Vec::new());
            };
            let ids: Vec<_> = hits
                .iter()
                .map(|hit| codelab_store::InteractionId(hit.id.0))
                .collect();
            let present = project.present_interactions(agent, &ids).await?;
            let is_present =
                |id: &MemoryEntryId| present.contains(&codelab_store::InteractionId(id.0));
            let gone: Vec<_> = hits
                .iter()
                .map(|hit| hit.id)
                .filter(|id| !is_present(id))
                .collect();
            hits.retain(|hit| is_present(&hit.id));
            if gone.is_empty() {
                return Ok(hits);
            }
            let removed = self.memory.delete(&name, gone).await;
            if removed.is_err() || searches == MAX_SEARCHES {
                self.due().note(&(key, agent.clone()), IndexNeed::Rebuild);
                return Ok(hits);
            }
        }
    }

    /// Something was committed that can be remembered.
    pub fn added(&self) {
        self.wake.notify_one();
    }

    /// How many agents' memories wait to be made or mended.
    pub fn due_count(&self) -> usize {
        self.due().count()
    }

    /// What is wrong with memory, for whoever operates the server.
    pub fn problem(&self) -> Option<String> {
        self.problem_of(|_| true)
    }

    /// What is wrong with the memory of this project's agents. Problems of other projects do not
    /// count.
    pub fn problem_in(&self, key: SpaceKey) -> Option<String> {
        self.problem_of(|(other, _)| *other == key)
    }

    fn problem_of(&self, whose: impl Fn(&AgentRef) -> bool) -> Option<String> {
        if let Some(problem) = self.engine().problem() {
            return Some(problem);
        }
        let mut agent_refs: BTreeSet<AgentRef> = self.engine().broken().filter(&whose).collect();
        agent_refs.extend(
            self.due()
                .late()
                .filter(|agent_ref| whose(agent_ref))
                .cloned(),
        );
        (!agent_refs.is_empty())
            .then(|| format!("{} collections wait to be made again", agent_refs.len()))
    }

    fn is_owner(&self, key: SpaceKey) -> bool {
        let cluster = self.cluster.as_ref();
        cluster.is_none_or(|cluster| cluster.owns_project(key.project))
    }

    /// Whether what was deleted in the project is this server's to erase: it owns the project, or
    /// nobody does and it would take it.
    async fn may_erase(&self, key: SpaceKey) -> Result<bool, StoreError> {
        if self.is_owner(key) {
            return Ok(true);
        }
        let thing = OwnedThing::Project(key.project);
        let cluster = self.cluster.as_ref();
        if !cluster.is_some_and(|cluster| cluster.is_chosen(&thing)) {
            return Ok(false);
        }
        let owner = self
            .store
            .owner_of_row(OwnedRow::Project(key.project))
            .await?;
        Ok(owner.is_none_or(|row| row.owner.is_none()))
    }

    pub async fn close(&self) {
        self.memory.close().await;
    }

    fn mend_later(&self, agent_ref: &AgentRef, need: IndexNeed) {
        self.due().note_late(agent_ref, need);
        self.wake.notify_one();
    }

    fn due(&self) -> MutexGuard<'_, DueWork> {
        self.due.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn engine(&self) -> MutexGuard<'_, EngineState> {
        self.engine.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Change<'_> {
    /// What the index needs after this change failed, whatever happened since.
    fn need(self) -> IndexNeed {
        match self {
            Self::Check => IndexNeed::Check,
            Self::Remove | Self::Clear | Self::Forget(_) | Self::ForgetSession(_) => {
                IndexNeed::Rebuild
            }
        }
    }
}

/// Why a memory could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum RebuildError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Memory(#[from] MemoryError),
}

/// A project's agents have names that fit; any other name has no collection.
fn collection((key, agent): &AgentRef) -> Result<CollectionName, MemoryError> {
    CollectionName::new(key.user, key.project, agent)
}

fn remembered(row: InteractionRow) -> MemoryEntry {
    MemoryEntry {
        id: MemoryEntryId(row.id.0),
        text: row.text,
        kind: row.kind,
        success: row.success.unwrap_or(true),
        task_id: row.task,
        session_id: row.session_id,
        timestamp: row.created_at,
        metadata: row.metadata,
    }
}
