//! What goes on beside all requests: the engine is looked at, what was committed is indexed, what
//! is due is done.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use codelab_memory::{CollectionName, Created, MemoryHealth};
use codelab_protocol::AgentName;
use codelab_store::{InteractionRow, ProjectStore, StoreError};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::due::{AgentRef, IndexNeed};
use super::erase::ErasePace;
use super::{Memories, MemoryEntryId, RebuildError, collection, remembered};
use crate::space::SpaceKey;
use crate::timers::log_failure;

/// Interactions indexed or read at once.
const BATCH: usize = 100;
/// How often the engine is looked at, and what failed is tried again.
const LOOK_EVERY: Duration = Duration::from_secs(2);
/// What is committed within this time is indexed together: each time costs several fsyncs beside
/// those of the commits.
const GATHER: Duration = Duration::from_millis(100);
/// An engine that does not say within this time how it is counts as out.
const LOOK_DEADLINE: Duration = Duration::from_secs(3);

/// How the engine was when it was looked at last.
#[derive(Default)]
pub(super) enum EngineState {
    #[default]
    Well,
    /// The embedding model does not answer.
    WordsOnly,
    /// These cannot be opened.
    Broken { collections: Vec<CollectionName> },
    /// Nothing is asked of it until it answers again.
    Out { reason: String },
}

impl EngineState {
    pub fn is_out(&self) -> bool {
        matches!(self, Self::Out { .. })
    }

    pub fn did_not_answer(&mut self) {
        *self = Self::Out {
            reason: "the memory engine does not answer".to_owned(),
        };
    }

    /// What everybody suffers from.
    pub fn problem(&self) -> Option<String> {
        match self {
            Self::Well | Self::Broken { .. } => None,
            Self::WordsOnly => {
                Some("the embedding model does not answer; words decide alone".to_owned())
            }
            Self::Out { reason } => Some(reason.clone()),
        }
    }

    /// The agents whose collections cannot be opened.
    pub fn broken(&self) -> impl Iterator<Item = AgentRef> {
        let collections = match self {
            Self::Broken { collections } => collections.as_slice(),
            Self::Well | Self::WordsOnly | Self::Out { .. } => &[],
        };
        collections.iter().map(place_of)
    }
}

impl Memories {
    /// Indexes what was committed, also by a server that stopped before it came to that, and does
    /// what is due.
    pub async fn run(&self, stopping: &CancellationToken) {
        // Whatever is cut short is begun again by the next run.
        stopping.run_until_cancelled(self.keep_up()).await;
    }

    async fn keep_up(&self) {
        let (mut is_swept, mut erasing) = (false, ErasePace::default());
        loop {
            if !self.look().await {
                is_swept = is_swept || self.sweep().await;
                self.note_broken();
                if let Err(error) = self.index_all().await {
                    log_failure(&error, "what agents remember is not indexed yet");
                }
                self.catch_up().await;
                self.erase(&mut erasing).await;
            }
            if timeout(LOOK_EVERY, self.wake.notified()).await.is_ok() {
                tokio::time::sleep(GATHER).await;
            }
        }
    }

    /// What cannot be opened is made again from SQL.
    fn note_broken(&self) {
        let broken: Vec<AgentRef> = self.engine().broken().collect();
        let mut due = self.due();
        broken
            .iter()
            .for_each(|agent_ref| due.note_late(agent_ref, IndexNeed::Rebuild));
    }

    /// Whether the engine is out.
    async fn look(&self) -> bool {
        let health = timeout(LOOK_DEADLINE, self.memory.health()).await;
        let mut engine = self.engine();
        match health {
            Ok(MemoryHealth::Healthy) => *engine = EngineState::Well,
            Ok(MemoryHealth::WordsOnly) => *engine = EngineState::WordsOnly,
            Ok(MemoryHealth::Broken { collections }) => {
                *engine = EngineState::Broken { collections }
            }
            Ok(MemoryHealth::Unavailable { reason }) => *engine = EngineState::Out { reason },
            Err(_) => engine.did_not_answer(),
        }
        engine.is_out()
    }

    /// Collections whose agents went while the engine or this server was out. Only where all of
    /// them are this server's: a Qdrant server may hold those of another installation. Whether that
    /// could be found out.
    async fn sweep(&self) -> bool {
        if !self.memory.is_embedded() {
            return true;
        }
        if let Err(error) = self.memory.tidy().await {
            tracing::warn!(%error, "removing leftover memory files failed");
            return false;
        }
        match self.orphans().await {
            Ok(orphans) => {
                let mut due = self.due();
                for agent_ref in &orphans {
                    due.note(agent_ref, IndexNeed::Rebuild);
                }
                true
            }
            Err(error) => {
                tracing::warn!(%error, "looking for memories of deleted agents failed");
                false
            }
        }
    }

    pub(super) async fn remove_orphans(&self) {
        if self.sweep().await {
            self.catch_up().await;
        }
    }

    async fn orphans(&self) -> Result<Vec<AgentRef>, RebuildError> {
        let mut orphans = Vec::new();
        for name in self.memory.collections().await? {
            let agent_ref = place_of(&name);
            if self.project_with(&agent_ref).await?.is_none() {
                orphans.push(agent_ref);
            }
        }
        Ok(orphans)
    }

    /// One agent's trouble does not hold up the others; an engine that is out does.
    async fn index_all(&self) -> Result<(), StoreError> {
        let (mut after, mut failed) = (None, BTreeSet::new());
        loop {
            let waiting = self
                .store
                .unindexed_interactions(after, BATCH as u64)
                .await?;
            let Some(last) = waiting.last() else {
                return Ok(());
            };
            after = Some(last.interaction.id);
            let mut batches: BTreeMap<AgentRef, Vec<InteractionRow>> = BTreeMap::new();
            for item in waiting {
                let key = SpaceKey {
                    user: item.user_id,
                    project: item.project_id,
                };
                // The server that owns the project indexes what is remembered in it.
                if !self.is_owner(key) {
                    continue;
                }
                batches
                    .entry((key, item.interaction.agent.clone()))
                    .or_default()
                    .push(item.interaction);
            }
            for (agent_ref, rows) in batches {
                if failed.contains(&agent_ref) {
                    continue;
                }
                let error = match self.index(&agent_ref, rows).await {
                    Ok(()) => continue,
                    Err(RebuildError::Store(error)) => return Err(error),
                    Err(RebuildError::Memory(error)) => error,
                };
                tracing::warn!(project = %agent_ref.0.project, agent = %agent_ref.1, %error, "memories not indexed yet, trying again");
                self.due().note_late(&agent_ref, IndexNeed::Rebuild);
                failed.insert(agent_ref);
                if self.look().await {
                    return Ok(());
                }
            }
        }
    }

    async fn index(
        &self,
        agent_ref: &AgentRef,
        rows: Vec<InteractionRow>,
    ) -> Result<(), RebuildError> {
        let name = collection(agent_ref)?;
        let ids: Vec<_> = rows.iter().map(|row| row.id).collect();
        let created = self.memory.create(&name).await?;
        self.memory
            .add(&name, rows.into_iter().map(remembered).collect())
            .await?;
        // What it held before is in SQL only. While the embedding model is out it would stay as it
        // is.
        let is_mendable = !matches!(*self.engine(), EngineState::WordsOnly);
        if created == Created::New || (created == Created::Outdated && is_mendable) {
            self.due().note(agent_ref, IndexNeed::Rebuild);
        }
        let gone = self.store.mark_indexed(&ids).await?;
        if !gone.is_empty() {
            self.memory
                .delete(
                    &name,
                    gone.into_iter().map(|id| MemoryEntryId(id.0)).collect(),
                )
                .await?;
            // Perhaps its agent went, and this has made the collection again.
            self.due().note(agent_ref, IndexNeed::Check);
        }
        Ok(())
    }

    async fn catch_up(&self) {
        let due = self.due().all();
        for (agent_ref, need, number) in due {
            let (key, agent) = &agent_ref;
            let done = match need {
                IndexNeed::Check => self.check(&agent_ref).await,
                IndexNeed::Rebuild => self.rebuild(*key, agent).await.map(|count| {
                    tracing::info!(project = %key.project, %agent, count, "the agent's memory was rebuilt");
                }),
            };
            let Err(error) = done else {
                // A rebuild has taken its own number.
                self.due().done(&agent_ref, number);
                continue;
            };
            tracing::warn!(project = %key.project, %agent, %error, "rebuilding the agent's memory failed");
            if matches!(error, RebuildError::Store(_)) {
                return;
            }
            self.due().note_late(&agent_ref, need);
            if self.look().await {
                return;
            }
        }
    }

    /// The collection is there if its agent is; one that is lost is made again from SQL.
    pub(super) async fn check(&self, agent_ref: &AgentRef) -> Result<(), RebuildError> {
        let name = collection(agent_ref)?;
        let created = self.memory.create(&name).await?;
        // Asked afterwards, so that a deletion in between is seen here or removes what was made.
        let Some(project) = self.project_with(agent_ref).await? else {
            return Ok(self.memory.remove(&name).await?);
        };
        let is_whole = match created {
            // More than SQL has: somebody deleted rows and could not tell the index.
            Created::Existing => {
                self.memory.count(&name).await? <= project.count_interactions(&agent_ref.1).await?
            }
            Created::New => project
                .interactions(&agent_ref.1, None, 1)
                .await?
                .is_empty(),
            Created::Outdated => false,
        };
        if !is_whole {
            self.mend_later(agent_ref, IndexNeed::Rebuild);
        }
        Ok(())
    }

    /// Rebuilds an agent's collection from SQL and returns how many interactions it holds. The
    /// collection of a deleted agent is removed.
    pub async fn rebuild(&self, key: SpaceKey, agent: &AgentName) -> Result<u64, RebuildError> {
        let agent_ref = (key, agent.clone());
        let number = self.due().note(&agent_ref, IndexNeed::Rebuild);
        let added = self.refill(&agent_ref).await?;
        // Something was deleted while we read. A page read before that may have put it back, so
        // rebuild once more.
        if !self.due().done(&agent_ref, number) {
            self.due().note(&agent_ref, IndexNeed::Rebuild);
        }
        Ok(added)
    }

    async fn refill(&self, agent_ref: &AgentRef) -> Result<u64, RebuildError> {
        let name = collection(agent_ref)?;
        let Some(project) = self.project_with(agent_ref).await? else {
            self.memory.remove(&name).await?;
            return Ok(0);
        };
        self.memory.rebuild(&name, std::iter::empty()).await?;
        let (mut after, mut added) = (None, 0);
        loop {
            let rows = project
                .interactions(&agent_ref.1, after, BATCH as u64)
                .await?;
            let Some(last) = rows.last() else {
                return Ok(added);
            };
            after = Some(last.id);
            added += rows.len() as u64;
            self.memory
                .add(&name, rows.into_iter().map(remembered).collect())
                .await?;
        }
    }

    /// The agent's project, if both are there.
    pub(super) async fn project_with(
        &self,
        (key, agent): &AgentRef,
    ) -> Result<Option<ProjectStore>, StoreError> {
        let Some(project) = self.store.of(key.user).project(key.project).await? else {
            return Ok(None);
        };
        Ok(project.has_agent(agent).await?.then_some(project))
    }
}

fn place_of(name: &CollectionName) -> AgentRef {
    let (user, project, agent) = name.parts();
    (SpaceKey { user, project }, agent)
}
