//! The worker spaces of this server: made on first use, one per project, gone when idle.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use codelab_protocol::{ProjectId, UserId};

use super::{SharedParts, Space, lock};
use crate::bus::Load;

/// Whose project.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SpaceKey {
    pub user: UserId,
    pub project: ProjectId,
}

pub(crate) struct Spaces {
    shared: SharedParts,
    known: Mutex<HashMap<SpaceKey, Arc<Space>>>,
}

impl Spaces {
    pub fn new(shared: SharedParts) -> Self {
        Self {
            shared,
            known: Mutex::default(),
        }
    }

    /// The project's space, used; concurrent first uses make one.
    pub fn get(&self, key: SpaceKey) -> Arc<Space> {
        let space = Arc::clone(
            lock(&self.known)
                .entry(key)
                .or_insert_with(|| Arc::new(Space::new(key, self.shared.clone()))),
        );
        // Not under the lock of all spaces: this may wait for a step of this one.
        space.wake();
        space
    }

    /// The project's space, if it is there.
    pub fn find(&self, key: SpaceKey) -> Option<Arc<Space>> {
        let space = lock(&self.known).get(&key).cloned();
        space.filter(|space| space.is_present())
    }

    /// The space of a project, whoever the user is.
    pub fn of_project(&self, project: ProjectId) -> Option<Arc<Space>> {
        let known = lock(&self.known);
        let found = known.iter().find(|(key, _)| key.project == project);
        found.map(|(_, space)| Arc::clone(space))
    }

    /// Whether anybody but this map and the caller holds the space, or it works.
    pub fn is_in_use(&self, space: &Arc<Space>) -> bool {
        Arc::strong_count(space) > 2 || space.is_working()
    }

    /// The space is another server's now.
    pub fn forget(&self, space: &Arc<Space>) {
        let key = SpaceKey {
            user: space.user(),
            project: space.project(),
        };
        lock(&self.known).remove(&key);
    }

    /// All of them are other servers' now.
    pub fn clear(&self) {
        lock(&self.known).clear();
    }

    /// The project is gone; whoever still holds its space finds it empty.
    pub fn remove(&self, key: SpaceKey) {
        lock(&self.known).remove(&key);
    }

    pub fn all(&self) -> Vec<Arc<Space>> {
        let mut spaces: Vec<_> = lock(&self.known).values().cloned().collect();
        spaces.retain(|space| space.is_present());
        spaces
    }

    /// All their buses together.
    pub fn load(&self) -> Load {
        self.all()
            .iter()
            .map(|space| space.bus.load())
            .fold(Load::default(), Load::plus)
    }

    /// Cleans up spaces that nobody used for this long.
    pub async fn clean_up_idle(&self, idle: Duration) {
        for space in self.all() {
            if space.close_if_idle(idle) {
                space.vacate().await;
            }
        }
        // Handed out under this lock only: what nobody but this map holds, nobody can be about to
        // use.
        lock(&self.known).retain(|_, space| {
            Arc::strong_count(space) > 1 || !space.is_certainly_absent() || space.client_attached()
        });
    }
}
