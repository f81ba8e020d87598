//! Whether Redis can be used now, and what it still has to be told to forget.
//!
//! The link is up only while commands are answered, the subscription lives, and nothing is owed.
//! The first failure takes it down, and from then on nobody waits for Redis until the supervisor
//! has brought it up again.

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use codelab_protocol::Timestamp;
use tokio::sync::Notify;

use super::memory::MemoryCache;
use super::remote::{Forget, Remote};
use super::{CacheHealth, CacheLimits};
use crate::clock;

/// Past so many debts everything is forgotten instead.
const MAX_DEBTS: usize = 1000;

#[derive(Debug)]
pub(super) struct RedisLink {
    state: Mutex<State>,
    /// Told when somebody takes the link down.
    fallen: Notify,
}

#[derive(Debug)]
struct State {
    way: Way,
    owed: Owed,
    links: u64,
}

#[derive(Debug)]
enum Way {
    Up { number: LinkNumber, remote: Remote },
    Down { since: Timestamp },
}

/// Which of the links of this process, one after another, so that a late failure harms only its
/// own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LinkNumber(u64);

#[derive(Debug, Default)]
struct Owed {
    everything: bool,
    keys: BTreeSet<String>,
    projects: BTreeSet<String>,
}

impl RedisLink {
    pub(super) fn new() -> Self {
        let state = State {
            way: Way::Down {
                since: clock::now(),
            },
            owed: Owed::default(),
            links: 0,
        };
        Self {
            state: Mutex::new(state),
            fallen: Notify::new(),
        }
    }

    pub(super) fn remote(&self) -> Option<(LinkNumber, Remote)> {
        match &self.state().way {
            Way::Up { number, remote } => Some((*number, remote.clone())),
            Way::Down { .. } => None,
        }
    }

    pub(super) fn health(&self) -> CacheHealth {
        match self.state().way {
            Way::Up { .. } => CacheHealth::Connected,
            Way::Down { since } => CacheHealth::Unreachable { since },
        }
    }

    pub(super) fn is_up(&self, number: LinkNumber) -> bool {
        matches!(self.state().way, Way::Up { number: current, .. } if current == number)
    }

    pub(super) async fn fallen(&self) {
        self.fallen.notified().await;
    }

    /// Everything owed, to be paid over a new connection.
    pub(super) fn debts(&self) -> Vec<Forget> {
        std::mem::take(&mut self.state().owed).into_debts()
    }

    /// Redis could not be told: the link is down until it was.
    pub(super) fn owe(&self, what: &[Forget], memory: &MemoryCache, limits: &CacheLimits) {
        let mut state = self.state();
        for what in what {
            state.owed.add(what);
        }
        if let Way::Up { number, .. } = state.way {
            drop(state);
            self.lower(number, memory, limits);
        }
    }

    /// Opens the link, unless invalidations are still owed to Redis. The cache in memory is emptied
    /// first, because messages were missed until now.
    pub(super) fn raise(
        &self,
        remote: Remote,
        memory: &MemoryCache,
        limits: &CacheLimits,
    ) -> Option<LinkNumber> {
        let mut state = self.state();
        if !state.owed.is_empty() {
            return None;
        }
        memory.restart(limits.ttl);
        state.links += 1;
        let number = LinkNumber(state.links);
        state.way = Way::Up { number, remote };
        Some(number)
    }

    /// Whether this call took it down.
    pub(super) fn lower(
        &self,
        number: LinkNumber,
        memory: &MemoryCache,
        limits: &CacheLimits,
    ) -> bool {
        let mut state = self.state();
        if !matches!(state.way, Way::Up { number: current, .. } if current == number) {
            return false;
        }
        state.way = Way::Down {
            since: clock::now(),
        };
        memory.restart(limits.outage_ttl.min(limits.ttl));
        drop(state);
        self.fallen.notify_one();
        true
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Owed {
    fn is_empty(&self) -> bool {
        !self.everything && self.keys.is_empty() && self.projects.is_empty()
    }

    fn add(&mut self, what: &Forget) {
        match what {
            Forget::Keys(keys) => self.keys.extend(keys.iter().cloned()),
            Forget::Project(prefix) => _ = self.projects.insert(prefix.clone()),
            Forget::Everything => self.everything = true,
        }
        if self.everything || self.keys.len() + self.projects.len() > MAX_DEBTS {
            *self = Self {
                everything: true,
                ..Self::default()
            };
        }
    }

    fn into_debts(self) -> Vec<Forget> {
        if self.everything {
            return vec![Forget::Everything];
        }
        let mut debts: Vec<Forget> = self.projects.into_iter().map(Forget::Project).collect();
        if !self.keys.is_empty() {
            debts.push(Forget::Keys(self.keys.into_iter().collect()));
        }
        debts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debts_are_bounded() {
        let mut owed = Owed::default();
        for project in 0..=MAX_DEBTS {
            assert!(!owed.everything);
            owed.add(&Forget::Project(format!("user1:project{project}")));
            owed.add(&Forget::Project("user1:project0".to_owned()));
        }
        assert_eq!(owed.into_debts(), [Forget::Everything]);
    }
}
