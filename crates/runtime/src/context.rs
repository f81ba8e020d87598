//! An agent's context, as its owner asks for it: searching, adding, clearing.

use codelab_memory::{Hit, Query};
use codelab_protocol::AgentName;
use codelab_store::{InteractionId, NewInteraction, ProjectStore, StoreError};

use crate::clock::now;
use crate::runtime::{Runtime, whole};
use crate::space::SpaceKey;
use crate::{RebuildError, RuntimeError};

impl Runtime {
    /// What the agent remembers about this, best first.
    pub async fn search_context(
        &self,
        project: &ProjectStore,
        agent: &AgentName,
        query: &Query,
    ) -> Result<Vec<Hit>, RebuildError> {
        self.inner
            .memories
            .search(SpaceKey::of(project), agent, query)
            .await
    }

    /// Whether a search finds only a part of what the agent remembers, for now.
    pub fn context_is_rebuilding(&self, project: &ProjectStore, agent: &AgentName) -> bool {
        let key = SpaceKey::of(project);
        self.inner.memories.is_rebuilding(key, agent)
    }

    /// Durable when it returns; found as soon as it is indexed.
    pub async fn add_context(
        &self,
        project: &ProjectStore,
        new: NewInteraction,
    ) -> Result<InteractionId, StoreError> {
        let id = project.add_interaction(new).await?;
        self.inner.memories.added();
        Ok(id)
    }

    /// Forgets everything the agent remembers.
    pub async fn clear_context(
        &self,
        project: ProjectStore,
        agent: AgentName,
    ) -> Result<(), RuntimeError> {
        let runtime = self.clone();
        whole(async move {
            project
                .clear_interactions(&agent, now())
                .await
                .map_err(RuntimeError::NotStored)?;
            runtime
                .inner
                .memories
                .clear(SpaceKey::of(&project), &agent)
                .await;
            Ok(())
        })
        .await?
    }

    /// Forgets one thing that the agent remembers.
    pub async fn forget_context(
        &self,
        project: ProjectStore,
        agent: AgentName,
        id: InteractionId,
    ) -> Result<(), RuntimeError> {
        let runtime = self.clone();
        whole(async move {
            project
                .delete_interaction(&agent, id, now())
                .await
                .map_err(RuntimeError::NotStored)?;
            runtime
                .inner
                .memories
                .forget(SpaceKey::of(&project), &agent, id)
                .await;
            Ok(())
        })
        .await?
    }
}
