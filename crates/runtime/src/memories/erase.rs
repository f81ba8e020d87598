//! What was deleted leaves the memory engine's files too. SQL notes each interaction that was
//! deleted; here the notes are worked off: the index forgets them, its files are made anew, and
//! only then is the note gone.

use std::collections::BTreeMap;
use std::time::Duration;

use codelab_memory::{MemoryEntryId, MemoryError};
use codelab_protocol::Reminder;
use codelab_store::StoreError;
use tokio::time::Instant;

use super::due::AgentRef;
use super::{Memories, RebuildError, collection};
use crate::space::SpaceKey;
use crate::timers::log_failure;

/// Notes read and worked off at once.
const BATCH: u64 = 1_000;
/// Deletions are collected for this long, so that files are rewritten once for all of them.
const GATHER: Duration = Duration::from_secs(5);
/// Making files anew takes at most one part in so many of the time, however often somebody deletes.
const PAUSE_PER_WORK: u32 = 5;

/// When the notes are looked at again.
#[derive(Default)]
pub(super) struct ErasePace {
    not_before: Option<Instant>,
    /// The log says which collections keep what was deleted.
    reminder: Reminder,
}

impl ErasePace {
    fn tell(&mut self, failed: &BTreeMap<AgentRef, MemoryError>) {
        if let (Some(((space, agent), error)), true) = (
            failed.first_key_value(),
            self.reminder.is_due(Instant::now().into_std()),
        ) {
            let (project, collections) = (space.project, failed.len());
            tracing::warn!(collections, %project, %agent, %error, "deleted memories are still on disk, trying again");
        }
    }
}

impl Memories {
    /// One collection's trouble does not hold up the others; its notes stay.
    pub(super) async fn erase(&self, pace: &mut ErasePace) {
        if pace.not_before.is_some_and(|at| Instant::now() < at) {
            return;
        }
        let began = Instant::now();
        match self.erase_noted(BATCH).await {
            Ok(failed) if failed.is_empty() => {}
            Ok(failed) => pace.tell(&failed),
            Err(error) => log_failure(&error, "deleted memories are still on disk, trying again"),
        }
        pace.not_before = Some(Instant::now() + GATHER + began.elapsed() * PAUSE_PER_WORK);
    }

    /// Works off every note that there is, so many at once. Returns the collections that could not
    /// do their part.
    async fn erase_noted(&self, batch: u64) -> Result<BTreeMap<AgentRef, MemoryError>, StoreError> {
        let (mut failed, mut after) = (BTreeMap::new(), None);
        loop {
            let notes = self.store.erased_interactions(after, batch).await?;
            let Some(last) = notes.last() else {
                return Ok(failed);
            };
            after = Some(last.id);
            let mut agent_refs: BTreeMap<AgentRef, Vec<codelab_store::InteractionId>> =
                BTreeMap::new();
            for erased in notes {
                let key = SpaceKey {
                    user: erased.user_id,
                    project: erased.project_id,
                };
                agent_refs
                    .entry((key, erased.agent))
                    .or_default()
                    .push(erased.id);
            }
            agent_refs.retain(|agent_ref, _| !failed.contains_key(agent_ref));
            for (agent_ref, ids) in agent_refs {
                // Only the server that owns the project has files of it.
                if !self.may_erase(agent_ref.0).await? {
                    continue;
                }
                match self.erase_from(&agent_ref, &ids).await {
                    Ok(()) => self.store.forget_erased(&ids).await?,
                    Err(RebuildError::Store(error)) => return Err(error),
                    Err(RebuildError::Memory(error)) => drop(failed.insert(agent_ref, error)),
                }
            }
        }
    }

    async fn erase_from(
        &self,
        agent_ref: &AgentRef,
        ids: &[codelab_store::InteractionId],
    ) -> Result<(), RebuildError> {
        let name = collection(agent_ref)?;
        if self.project_with(agent_ref).await?.is_none() {
            return Ok(self.memory.remove(&name).await?);
        }
        let ids = ids.iter().map(|id| MemoryEntryId(id.0)).collect();
        let erased = match self.memory.delete(&name, ids).await {
            Ok(()) => self.memory.rewrite(&name).await,
            failed => failed,
        };
        match erased {
            // What is not there holds nothing.
            Ok(()) | Err(MemoryError::NotFound { .. }) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use codelab_memory::{EmbeddedOptions, Memory};
    use codelab_protocol::{AgentId, AgentName, Timestamp, UserId};
    use codelab_store::{DatabaseUrl, NewAgent, NewInteraction, NewProject, Store, StoreOptions};

    use super::*;
    use crate::metrics::Metrics;

    fn agent(name: &str) -> NewAgent {
        NewAgent {
            agent_id: AgentId::parse(name).expect("an id"),
            name: AgentName::parse(name).expect("a name"),
            role: String::new(),
            description: String::new(),
            model: None,
            fallback_models: Vec::new(),
            temperature: None,
            max_tokens: None,
            system_prompt: String::new(),
            allowed_tools: Vec::new(),
            file_restrictions: Vec::new(),
            concurrency_limit: 1,
        }
    }

    #[tokio::test]
    async fn a_broken_collection_does_not_hold_up_the_others() {
        let time = Timestamp::from_millis(1);
        let store = Store::open(StoreOptions::new(DatabaseUrl::SqliteMemory))
            .await
            .expect("a store");
        let user = UserId::new(1).expect("a user");
        let new = NewProject {
            name: "p".to_owned(),
            description: None,
            budget_micro_usd: None,
            budget_tokens: None,
            nonce: "nonce".to_owned(),
            agents: vec![agent("agent_broken"), agent("agent_whole")],
        };
        let project = store
            .of(user)
            .create_project(new, time)
            .await
            .expect("a project");
        let key = SpaceKey {
            user,
            project: project.id(),
        };
        let [broken, whole] =
            ["agent_broken", "agent_whole"].map(|name| AgentName::parse(name).expect("a name"));
        // The notes of the broken one come first, and are more than are read at once.
        for name in [&broken, &broken, &broken, &whole] {
            let interaction = NewInteraction {
                turn: None,
                agent: name.clone(),
                task: None,
                kind: "note".to_owned(),
                success: None,
                text: "deleted".to_owned(),
                metadata: Default::default(),
                at: time,
            };
            project
                .add_interaction(interaction)
                .await
                .expect("it is taken");
        }
        for name in [&broken, &whole] {
            project
                .clear_interactions(name, time)
                .await
                .expect("it is cleared");
        }
        let folder = tempfile::tempdir().expect("a folder");
        let name = collection(&(key, broken.clone())).expect("a collection's name");
        std::fs::create_dir_all(folder.path().join(format!("{name}.memory")))
            .expect("something in the way");
        let memory = Memory::embedded(EmbeddedOptions::new(folder.path()), None);
        let memories = Memories::new(memory, store.clone(), Metrics::new(), None);
        let failed = memories.erase_noted(2).await.expect("the database works");
        assert_eq!(failed.keys().collect::<Vec<_>>(), [&(key, broken.clone())]);
        let left = store
            .erased_interactions(None, 10)
            .await
            .expect("the database works");
        assert_eq!(left.len(), 3);
        assert!(left.iter().all(|note| note.agent == broken), "{left:?}");
    }
}
