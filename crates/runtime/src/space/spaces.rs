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
        let mut known = lock(&self.known);
        let space = known
            .entry(key)
            .or_insert_with(|| Arc::new(Space::new(key, self.shared.clone())));
        space.wake();
        Arc::clone(space)
    }

    /// The project's space, if it is there.
    pub fn find(&self, key: SpaceKey) -> Option<Arc<Space>> {
        lock(&self.known)
            .get(&key)
            .filter(|space| space.is_present())
            .cloned()
    }

    /// The project is gone; whoever still holds its space finds it empty.
    pub fn remove(&self, key: SpaceKey) {
        lock(&self.known).remove(&key);
    }

    pub fn all(&self) -> Vec<Arc<Space>> {
        lock(&self.known)
            .values()
            .filter(|space| space.is_present())
            .cloned()
            .collect()
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
            space.is_present() || space.client_attached() || Arc::strong_count(space) > 1
        });
    }
}
