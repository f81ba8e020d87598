//! Projects that came from another server. The index inside a process knows only what was
//! remembered while its server owned the project, so it is rebuilt from SQL when it is first
//! needed.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, PoisonError};

use codelab_protocol::{AgentName, ProjectId};

use super::due::{AgentRef, IndexNeed};
use super::{Memories, SpaceKey};

/// By project, the agents whose index is good since it moved here.
#[derive(Default)]
pub(super) struct MovedProjects(Mutex<HashMap<ProjectId, HashSet<AgentName>>>);

impl MovedProjects {
    fn add(&self, project: ProjectId) {
        let mut projects = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        projects.insert(project, HashSet::new());
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
