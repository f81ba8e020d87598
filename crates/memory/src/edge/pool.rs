//! Which collections are open. Each has a lock of its own, so that a slow or broken one holds up nobody else; the
//! blocking work behind the locks runs on a bounded number of threads.
//!
//! A lock's guard moves into the blocking work, so a dropped call can neither cut a write short nor let a second one in.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tokio::sync::{OwnedRwLockReadGuard, OwnedRwLockWriteGuard, RwLock, Semaphore};
use tokio::time::Instant;

use super::EdgeOptions;
use super::folder::{self, Failure, Layout, Marker};
use super::shard::Shard;
use crate::point::DenseLayout;
use crate::{CollectionName, MemoryError};

/// The longest a call waits, for its turn and for the disk together.
const CALL_TIMEOUT: Duration = Duration::from_secs(20);
const TOO_SLOW: &str = "it did not answer in time";
/// Collections remembered as broken; past it they are still refused, only not counted.
const MAX_BROKEN: usize = 64;

pub struct Pool {
    pub options: EdgeOptions,
    slots: Mutex<HashMap<CollectionName, Slot>>,
    broken: Mutex<BTreeMap<CollectionName, String>>,
    threads: Arc<Semaphore>,
}

struct Slot {
    lock: Arc<RwLock<State>>,
    used_at: Instant,
}

pub enum State {
    Closed,
    /// A collection without the engine's files: nothing to search, and nothing open.
    Empty,
    Open(Box<Shard>),
}

impl State {
    pub fn shard(&self) -> Option<&Shard> {
        match self {
            Self::Open(shard) => Some(shard),
            Self::Closed | Self::Empty => None,
        }
    }

    fn must_be_opened(&self) -> bool {
        matches!(self, Self::Closed) || self.shard().is_some_and(Shard::is_spoiled)
    }

    /// Whether there are points that the embedding model's vectors cannot be added to.
    pub fn lacks(&self, dense: Option<&DenseLayout>) -> bool {
        dense.is_some() && self.shard().is_some_and(|shard| shard.layout.dense.as_ref() != dense)
    }
}

impl Pool {
    pub fn new(options: EdgeOptions) -> Arc<Self> {
        let threads = Arc::new(Semaphore::new(options.max_threads));
        let pool = Self { options, slots: Mutex::default(), broken: Mutex::default(), threads };
        let pool = Arc::new(pool);
        tokio::spawn(close_idle(Arc::downgrade(&pool), pool.options.idle_timeout));
        pool
    }

    pub fn folder(&self, name: &CollectionName) -> PathBuf {
        self.options.root.join(name.as_str())
    }

    /// Runs `work` on the open collection, beside others that read. An empty one has nothing to read.
    pub async fn read<T: Default + Send + 'static>(
        self: &Arc<Self>,
        name: &CollectionName,
        work: impl FnOnce(&Shard) -> Result<T, Failure> + Send + 'static,
    ) -> Result<T, MemoryError> {
        let call = async {
            let guard = self.opened(name).await?;
            let folder = self.folder(name);
            self.blocking(move || match &*guard {
                State::Closed => Err(Failure::Missing),
                _ if !folder::is_in_place(&folder) => Err(Failure::Broken("its folder was moved or removed".into())),
                State::Empty => Ok(T::default()),
                State::Open(shard) => work(shard),
            })
            .await
        };
        let result = self.settle(name, tokio::time::timeout(CALL_TIMEOUT, call).await);
        if result.is_err()
            && let Ok(guard) = self.lock(name).try_write_owned()
        {
            // The next call opens what is on disk then.
            self.close(guard).await;
        }
        self.close_surplus().await;
        result
    }

    /// Runs `work` alone on the collection, open or not. It is closed if that fails: the next call meets what is on
    /// disk, not what a failed write left in memory.
    pub async fn write<T: Send + 'static>(
        self: &Arc<Self>,
        name: &CollectionName,
        work: impl FnOnce(&Pool, &mut State) -> Result<T, Failure> + Send + 'static,
    ) -> Result<T, MemoryError> {
        let call = async {
            let mut guard = self.lock(name).write_owned().await;
            let pool = self.clone();
            self.blocking(move || {
                let result = work(&pool, &mut guard);
                if result.is_err() {
                    *guard = State::Closed;
                }
                result
            })
            .await
        };
        let result = self.settle(name, tokio::time::timeout(CALL_TIMEOUT, call).await);
        self.close_surplus().await;
        result
    }

    /// Runs `work` alone on the collection, then flushes what it wrote, beside those who read: that takes most of the
    /// time. Closed if `work` fails, as with `write`; a flush that fails spoils it, and the next call opens it anew.
    pub async fn change(
        self: &Arc<Self>,
        name: &CollectionName,
        work: impl FnOnce(&Pool, &mut State) -> Result<(), Failure> + Send + 'static,
    ) -> Result<(), MemoryError> {
        let call = async {
            let mut guard = self.lock(name).write_owned().await;
            let pool = self.clone();
            self.blocking(move || {
                if let Err(failure) = work(&pool, &mut guard) {
                    *guard = State::Closed;
                    return Err(failure);
                }
                let guard = guard.downgrade();
                guard.shard().map_or(Ok(()), Shard::flush)
            })
            .await
        };
        let result = self.settle(name, tokio::time::timeout(CALL_TIMEOUT, call).await);
        self.close_surplus().await;
        result
    }

    /// Looks at the collection's folder between two writes, without opening it: what is seen says nothing of its health.
    pub async fn look<T: Send + 'static>(
        &self,
        name: &CollectionName,
        work: impl FnOnce(&Path) -> Result<T, Failure> + Send + 'static,
    ) -> Result<T, MemoryError> {
        let folder = self.folder(name);
        let call = async {
            let guard = self.lock(name).read_owned().await;
            self.blocking(move || {
                let _guard = guard;
                work(&folder)
            })
            .await
        };
        let seen = tokio::time::timeout(CALL_TIMEOUT, call).await.map_err(|_| MemoryError::unavailable(TOO_SLOW))?;
        seen.map_err(MemoryError::unavailable)
    }

    /// Opens the collection if need be; for use inside `write`.
    pub fn open(&self, name: &CollectionName, state: &mut State) -> Result<(), Failure> {
        let folder = self.folder(name);
        if state.must_be_opened() || !folder::is_in_place(&folder) {
            // The old one goes first: it holds the folder's lock.
            *state = State::Closed;
            *state = match folder::read_marker(&folder)? {
                Marker::Empty => State::Empty,
                Marker::Filled(layout) => State::Open(Shard::open(&folder, layout)?.into()),
            };
        }
        Ok(())
    }

    /// The engine of a collection that was opened, with its files if it has none yet; for use inside `write`.
    pub fn filled<'a>(
        &self,
        name: &CollectionName,
        state: &'a mut State,
        dense: Option<&DenseLayout>,
    ) -> Result<&'a Shard, Failure> {
        if matches!(state, State::Empty) {
            // An earlier first addition may have been cut short.
            folder::make_empty(&self.folder(name))?;
            *state = State::Open(Shard::create(&self.folder(name), Layout::new(dense))?.into());
        }
        state.shard().ok_or(Failure::Missing)
    }

    /// Replaces whatever there is, whole or broken; for use inside `write`.
    pub fn make_empty(&self, name: &CollectionName, state: &mut State) -> Result<(), Failure> {
        // The old one goes first: it holds the folder's lock.
        *state = State::Closed;
        folder::make_empty(&self.folder(name))?;
        *state = State::Empty;
        Ok(())
    }

    /// Makes the collection's files anew from what is to be found in it, so that nothing deleted is left in them. Searches
    /// wait, and however long it takes it is not given up half-way.
    pub async fn rewrite(self: &Arc<Self>, name: &CollectionName) -> Result<(), MemoryError> {
        let mut guard = self.lock(name).write_owned().await;
        let (pool, collection) = (self.clone(), name.clone());
        let rewritten = self.blocking(move || {
            let result = pool.copy_and_replace(&collection, &mut guard);
            if result.is_err() {
                *guard = State::Closed;
            }
            result
        });
        let result = self.settle(name, Ok(rewritten.await));
        self.close_surplus().await;
        result
    }

    fn copy_and_replace(&self, name: &CollectionName, state: &mut State) -> Result<(), Failure> {
        self.open(name, state)?;
        let Some(shard) = state.shard() else { return self.make_empty(name, state) };
        if shard.count()? == 0 {
            return self.make_empty(name, state);
        }
        folder::check_free(&self.options)?;
        let copy = folder::copy_of(&self.options.root, name);
        folder::remove(&copy)?;
        std::fs::create_dir(&copy)?;
        let copied = shard.copy_to(&copy);
        // The old one goes first: it holds the folder's lock.
        *state = State::Closed;
        match copied {
            Ok(()) => folder::replace(&self.folder(name), &copy),
            Err(error) => {
                folder::remove(&copy)?;
                Err(error)
            }
        }
    }

    pub fn broken(&self) -> Vec<CollectionName> {
        held(&self.broken).keys().cloned().collect()
    }

    pub async fn close_all(&self) {
        let locks: Vec<_> = held(&self.slots).values().map(|slot| slot.lock.clone()).collect();
        for lock in locks {
            self.close(lock.write_owned().await).await;
        }
        self.forget_closed();
    }

    async fn opened(self: &Arc<Self>, name: &CollectionName) -> Result<OwnedRwLockReadGuard<State>, Failure> {
        let lock = self.lock(name);
        let guard = lock.clone().read_owned().await;
        if !guard.must_be_opened() {
            return Ok(guard);
        }
        drop(guard);
        let mut guard = lock.write_owned().await;
        let (pool, name) = (self.clone(), name.clone());
        self.blocking(move || {
            pool.open(&name, &mut guard)?;
            Ok(guard.downgrade())
        })
        .await
    }

    fn lock(&self, name: &CollectionName) -> Arc<RwLock<State>> {
        let mut slots = held(&self.slots);
        let new = || Slot { lock: Arc::new(RwLock::new(State::Closed)), used_at: Instant::now() };
        let slot = slots.entry(name.clone()).or_insert_with(new);
        slot.used_at = Instant::now();
        slot.lock.clone()
    }

    /// Runs `work` on one of the threads, when one is free.
    pub async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T, Failure> + Send + 'static,
    ) -> Result<T, Failure> {
        let closed = |_| Failure::Broken("memory is closed".into());
        let permit = self.threads.clone().acquire_owned().await.map_err(closed)?;
        let task = tokio::task::spawn_blocking(move || {
            let _permit = permit;
            work()
        });
        task.await.unwrap_or_else(|error| Err(Failure::Broken(error.to_string())))
    }

    fn settle<T>(
        &self,
        name: &CollectionName,
        result: Result<Result<T, Failure>, tokio::time::error::Elapsed>,
    ) -> Result<T, MemoryError> {
        let reason = match result {
            Ok(Ok(value)) => {
                if held(&self.broken).remove(name).is_some() {
                    tracing::info!(collection = %name, "a memory can be used again");
                }
                return Ok(value);
            }
            Ok(Err(Failure::Missing)) => {
                held(&self.broken).remove(name);
                return Err(MemoryError::NotFound { collection: name.clone() });
            }
            Ok(Err(Failure::Broken(reason))) => reason,
            Err(_) => TOO_SLOW.into(),
        };
        let mut broken = held(&self.broken);
        if !broken.contains_key(name) && broken.len() < MAX_BROKEN {
            tracing::warn!(collection = %name, reason, "a memory cannot be used");
            broken.insert(name.clone(), reason.clone());
        }
        Err(MemoryError::unavailable(reason))
    }

    /// Closes the least recently used until at most `max_open` are open. One in use is passed over, so for a moment
    /// there can be as many more as calls are under way.
    async fn close_surplus(&self) {
        if held(&self.slots).len() <= self.options.max_open {
            return;
        }
        self.forget_closed();
        let open = self.unused_since(Instant::now());
        let surplus = open.len().saturating_sub(self.options.max_open);
        self.close_unused(open.into_iter().take(surplus)).await;
    }

    async fn close_unused(&self, locks: impl Iterator<Item = Arc<RwLock<State>>>) {
        for lock in locks {
            if let Ok(guard) = lock.try_write_owned() {
                self.close(guard).await;
            }
        }
        self.forget_closed();
    }

    /// Longest unused first.
    fn unused_since(&self, time: Instant) -> Vec<Arc<RwLock<State>>> {
        let slots = held(&self.slots);
        let mut unused: Vec<&Slot> = slots.values().filter(|slot| slot.used_at <= time).collect();
        unused.sort_by_key(|slot| slot.used_at);
        unused.into_iter().map(|slot| slot.lock.clone()).collect()
    }

    async fn close(&self, mut guard: OwnedRwLockWriteGuard<State>) {
        if guard.shard().is_none() {
            *guard = State::Closed;
            return;
        }
        // An error is one of a full disk or a stopped runtime; the collection is closed either way.
        let _ = self
            .blocking(move || {
                *guard = State::Closed;
                Ok(())
            })
            .await;
    }

    /// A slot that somebody holds stays, or two locks could stand for one folder.
    fn forget_closed(&self) {
        let is_closed = |lock: &RwLock<State>| lock.try_read().is_ok_and(|state| state.shard().is_none());
        held(&self.slots).retain(|_, slot| Arc::strong_count(&slot.lock) > 1 || !is_closed(&slot.lock));
    }
}

async fn close_idle(pool: Weak<Pool>, idle_timeout: Duration) {
    loop {
        tokio::time::sleep(idle_timeout / 2).await;
        let Some(pool) = pool.upgrade() else { return };
        let Some(time) = Instant::now().checked_sub(idle_timeout) else { continue };
        pool.close_unused(pool.unused_since(time).into_iter()).await;
    }
}

/// Nothing that panics runs under these locks, and what they guard is whole between statements.
fn held<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
