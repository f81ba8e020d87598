//! What this server owns, and what it knows of what others own.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use codelab_protocol::{ProjectId, SessionId};
use tokio::time::Instant;

use super::{Claim, OwnedThing, Peer};

/// How long it is believed that another server owns something. A wrong belief costs a refused
/// forward.
const BELIEF: Duration = Duration::from_secs(3);
/// Beliefs, and projects of sessions, that are remembered at most.
const MAX_REMEMBERED: usize = 20_000;

#[derive(Default)]
pub(super) struct Held {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    owned: HashMap<OwnedThing, Arc<HeldThing>>,
    elsewhere: HashMap<OwnedThing, (Peer, u64, Instant)>,
    projects: HashMap<SessionId, ProjectId>,
}

/// Something that this server owns.
#[derive(Debug)]
pub(super) struct HeldThing {
    pub epoch: u64,
    uses: AtomicUsize,
    last_used: Mutex<Instant>,
}

/// A use of something; it is not handed over meanwhile.
#[derive(Debug)]
pub(super) struct Use(Arc<HeldThing>);

impl Use {
    fn begin(held: &Arc<HeldThing>) -> Self {
        held.uses.fetch_add(1, Ordering::Relaxed);
        held.touch();
        Self(Arc::clone(held))
    }
}

impl Drop for Use {
    fn drop(&mut self) {
        self.0.touch();
        self.0.uses.fetch_sub(1, Ordering::Relaxed);
    }
}

impl HeldThing {
    fn touch(&self) {
        let mut last_used = self
            .last_used
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        *last_used = Instant::now();
    }

    fn is_idle(&self, idle: Duration) -> bool {
        let last_used = self
            .last_used
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        self.uses.load(Ordering::Relaxed) == 0 && last_used.elapsed() >= idle
    }
}

impl Held {
    /// This server owns it now.
    pub fn add(&self, thing: &OwnedThing, epoch: u64) -> Claim {
        let held = Arc::new(HeldThing {
            epoch,
            uses: AtomicUsize::new(0),
            last_used: Mutex::new(Instant::now()),
        });
        let claim = Claim {
            epoch,
            _used: Some(Use::begin(&held)),
        };
        let mut state = self.lock();
        state.elsewhere.remove(thing);
        state.owned.insert(thing.clone(), held);
        claim
    }

    pub fn uses(&self, thing: &OwnedThing) -> Option<Claim> {
        let state = self.lock();
        let held = state.owned.get(thing)?;
        Some(Claim {
            epoch: held.epoch,
            _used: Some(Use::begin(held)),
        })
    }

    pub fn has(&self, thing: &OwnedThing) -> bool {
        self.lock().owned.contains_key(thing)
    }

    /// What nobody used for so long.
    pub fn idle(&self, idle: Duration) -> Vec<OwnedThing> {
        let state = self.lock();
        let found = state.owned.iter().filter(|(_, held)| held.is_idle(idle));
        found.map(|(thing, _)| thing.clone()).collect()
    }

    /// Takes it out if it is still idle; gives its epoch. Whoever asks for it from now on claims it
    /// anew.
    pub fn let_go(&self, thing: &OwnedThing, idle: Duration) -> Option<u64> {
        let mut state = self.lock();
        let is_idle = state.owned.get(thing)?.is_idle(idle);
        is_idle
            .then(|| state.owned.remove(thing))
            .flatten()
            .map(|held| held.epoch)
    }

    /// Takes it out, whoever uses it; gives its epoch.
    pub fn take(&self, thing: &OwnedThing) -> Option<u64> {
        let held = self.lock().owned.remove(thing);
        held.map(|held| held.epoch)
    }

    /// This server owns nothing any more.
    pub fn clear(&self) {
        let mut state = self.lock();
        state.owned.clear();
        state.elsewhere.clear();
    }

    pub fn owned(&self) -> Vec<OwnedThing> {
        self.lock().owned.keys().cloned().collect()
    }

    pub fn elsewhere(&self, thing: &OwnedThing) -> Option<(Peer, u64)> {
        let mut state = self.lock();
        let (peer, epoch, at) = state.elsewhere.get(thing)?;
        if at.elapsed() < BELIEF {
            return Some((peer.clone(), *epoch));
        }
        state.elsewhere.remove(thing);
        None
    }

    pub fn believe(&self, thing: &OwnedThing, peer: &Peer, epoch: u64) {
        let mut state = self.lock();
        if state.elsewhere.len() >= MAX_REMEMBERED {
            state.elsewhere.clear();
        }
        let belief = (peer.clone(), epoch, Instant::now());
        state.elsewhere.insert(thing.clone(), belief);
    }

    pub fn forget(&self, thing: &OwnedThing) {
        self.lock().elsewhere.remove(thing);
    }

    pub fn project_of(&self, session: &SessionId) -> Option<ProjectId> {
        self.lock().projects.get(session).copied()
    }

    pub fn remember_project(&self, session: &SessionId, project: ProjectId) {
        let mut state = self.lock();
        if state.projects.len() >= MAX_REMEMBERED {
            state.projects.clear();
        }
        state.projects.insert(session.clone(), project);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
