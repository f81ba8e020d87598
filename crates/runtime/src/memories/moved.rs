//! Projects that came from another server. The index inside a process knows only what was
//! remembered while its server owned the project, so it is rebuilt from SQL when it is first
//! needed.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, PoisonError};

use codelab_protocol::{AgentName, ProjectId};

use super::due::{AgentRef, IndexNeed};
use super::{Memories, MemoryError, SpaceKey};

/// By project, the agents whose index is good since it moved here.
#[derive(Default)]
pub(super) struct MovedProjects(Mutex<HashMap<ProjectId, HashSet<AgentName>>>);

impl MovedProjects {
    fn add(&self, project: ProjectId) {
        let mut projects = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        projects.insert(project, HashSet::new());
    }

    fn forget(&self, project: ProjectId) {
        let mut projects = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        projects.remove(&project);
    }

    /// Whether this is the first time that the agent is asked for since its project moved here.
    fn is_first(&self, (key, agent): &AgentRef) -> bool {
        let mut projects = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        projects
            .get_mut(&key.project)
            .is_some_and(|agents| agents.insert(agent.clone()))
    }
}

impl Memories {
    /// This server owns the project now, and others may have owned it since it last did.
    pub(crate) fn moved_here(&self, project: ProjectId) {
        if self.memory.is_embedded() {
            self.moved.add(project);
        }
    }

    /// Another server owns the project from now on. Nothing of it stays in this server's files, so
    /// that what is deleted there is gone here too.
    pub(crate) async fn leaves(&self, project: ProjectId) {
        if !self.memory.is_embedded() {
            return;
        }
        self.moved.forget(project);
        let removed = async {
            for name in self.memory.collections().await? {
                // Unless it has come back meanwhile.
                let cluster = self.cluster.as_ref();
                let is_back = cluster.is_some_and(|cluster| cluster.owns_project(project));
                if name.parts().1 == project && !is_back {
                    self.memory.remove(&name).await?;
                }
            }
            Ok::<_, MemoryError>(())
        };
        if let Err(error) = removed.await {
            tracing::warn!(%project, %error, "the memory of a project that moved could not be removed");
        }
    }

    pub(super) fn mend_if_moved(&self, agent_ref: &AgentRef) {
        if self.moved.is_first(agent_ref) {
            self.due().note(agent_ref, IndexNeed::Rebuild);
            self.wake.notify_one();
        }
    }

    /// Whether a search finds only a part of what the agent remembers, because its index is being
    /// rebuilt.
    pub(crate) fn is_rebuilding(&self, key: SpaceKey, agent: &AgentName) -> bool {
        self.due().needs_rebuild(&(key, agent.clone()))
    }
}
