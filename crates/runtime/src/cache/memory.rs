//! The part of the cache inside this process: bounded, least recently used out first, and never the
//! home of a value that was read before it was last forgotten.

use std::collections::BTreeMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// Keys share counters by hash, so that what was forgotten need not be remembered; sharing only
/// loses a fill.
const COUNTERS: usize = 1024;

#[derive(Debug)]
pub(super) struct MemoryCache {
    max_entries: usize,
    max_bytes: usize,
    hasher: RandomState,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// How long an entry may live at most.
    lifetime: Duration,
    entries: BTreeMap<Arc<str>, Entry>,
    by_use: BTreeMap<u64, Arc<str>>,
    uses: u64,
    bytes: usize,
    /// Values that were still good and left for want of room.
    pushed_out: u64,
    /// Counts what concerned all keys at once.
    epoch: u64,
    forgotten: Vec<u64>,
}

#[derive(Debug)]
struct Entry {
    value: Arc<str>,
    expires: Instant,
    last_use: u64,
}

/// A moment in the life of one key. A value read after it may be kept unless the key was forgotten
/// since.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct KeyVersion {
    epoch: u64,
    forgotten: u64,
}

impl MemoryCache {
    pub(super) fn new(lifetime: Duration, max_entries: usize, max_bytes: usize) -> Self {
        let state = State {
            lifetime,
            entries: BTreeMap::new(),
            by_use: BTreeMap::new(),
            uses: 0,
            bytes: 0,
            pushed_out: 0,
            epoch: 0,
            forgotten: vec![0; COUNTERS],
        };
        Self {
            max_entries,
            max_bytes,
            hasher: RandomState::new(),
            state: Mutex::new(state),
        }
    }

    pub(super) fn get(&self, key: &str) -> Option<Arc<str>> {
        let mut state = self.state();
        let entry = state.entries.get(key)?;
        if entry.expires <= Instant::now() {
            state.remove(key);
            return None;
        }
        let value = entry.value.clone();
        state.touch(key);
        Some(value)
    }

    pub(super) fn moment(&self, key: &str) -> KeyVersion {
        let counter = self.counter(key);
        let state = self.state();
        KeyVersion {
            epoch: state.epoch,
            forgotten: state.forgotten[counter],
        }
    }

    /// Keeps a value that was read after `since`, for `lifetime` at most.
    pub(super) fn put(&self, key: &str, value: Arc<str>, since: KeyVersion, lifetime: Duration) {
        let counter = self.counter(key);
        let mut state = self.state();
        if since
            != (KeyVersion {
                epoch: state.epoch,
                forgotten: state.forgotten[counter],
            })
        {
            return;
        }
        state.remove(key);
        let expires = Instant::now() + lifetime.min(state.lifetime);
        state.insert(Arc::from(key), value, expires);
        while state.entries.len() > self.max_entries || state.bytes > self.max_bytes {
            state.remove_least_recently_used();
        }
    }

    pub(super) fn forget(&self, keys: &[String]) {
        let counters: Vec<usize> = keys.iter().map(|key| self.counter(key)).collect();
        let mut state = self.state();
        for (key, counter) in keys.iter().zip(counters) {
            state.forgotten[counter] += 1;
            state.remove(key);
        }
    }

    /// Every key that starts so.
    pub(super) fn forget_all(&self, start: &str) {
        let mut state = self.state();
        state.epoch += 1;
        let keys: Vec<Arc<str>> = state.keys(start).map(|(key, _)| key.clone()).collect();
        for key in keys {
            state.remove(&key);
        }
    }

    /// Starts empty, with another lifetime.
    pub(super) fn restart(&self, lifetime: Duration) {
        let mut state = self.state();
        state.epoch += 1;
        state.lifetime = lifetime;
        state.entries.clear();
        state.by_use.clear();
        state.bytes = 0;
    }

    /// How many keys that start so have a value that is still good.
    pub(super) fn count(&self, start: &str) -> usize {
        let now = Instant::now();
        self.state()
            .keys(start)
            .filter(|(_, entry)| entry.expires > now)
            .count()
    }

    /// How many values were still good and left for want of room.
    pub(super) fn pushed_out(&self) -> u64 {
        self.state().pushed_out
    }

    fn counter(&self, key: &str) -> usize {
        usize::try_from(self.hasher.hash_one(key) % COUNTERS as u64).unwrap_or(0)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn keys<'a>(&'a self, start: &'a str) -> impl Iterator<Item = (&'a Arc<str>, &'a Entry)> {
        let from = (std::ops::Bound::Included(start), std::ops::Bound::Unbounded);
        self.entries
            .range::<str, _>(from)
            .take_while(move |(key, _)| key.starts_with(start))
    }

    fn insert(&mut self, key: Arc<str>, value: Arc<str>, expires: Instant) {
        self.uses += 1;
        self.bytes += key.len() + value.len();
        self.by_use.insert(self.uses, key.clone());
        self.entries.insert(
            key,
            Entry {
                value,
                expires,
                last_use: self.uses,
            },
        );
    }

    fn touch(&mut self, key: &str) {
        let Some(entry) = self.entries.get_mut(key) else {
            return;
        };
        self.uses += 1;
        if let Some(key) = self.by_use.remove(&entry.last_use) {
            self.by_use.insert(self.uses, key);
        }
        entry.last_use = self.uses;
    }

    fn remove(&mut self, key: &str) {
        if let Some(entry) = self.entries.remove(key) {
            self.by_use.remove(&entry.last_use);
            self.bytes -= key.len() + entry.value.len();
        }
    }

    fn remove_least_recently_used(&mut self) {
        let Some(key) = self.by_use.first_key_value().map(|(_, key)| key.clone()) else {
            return;
        };
        let is_good = self
            .entries
            .get(&key)
            .is_some_and(|entry| entry.expires > Instant::now());
        self.pushed_out += u64::from(is_good);
        self.remove(&key);
    }
}
