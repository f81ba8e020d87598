//! The open collections. Each has its own lock, so that a slow or broken one does not delay others.
//! The blocking work behind the locks runs on a limited number of threads.
//!
//! The guard of a lock moves into the blocking work. So a dropped call neither interrupts a write
//! nor lets a second one start.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tokio::sync::{OwnedRwLockReadGuard, OwnedRwLockWriteGuard, RwLock, Semaphore};
use tokio::time::Instant;

use super::EmbeddedOptions;
use super::collection::Collection;
use super::file::{self, FileFailure};
use crate::{CollectionName, MemoryError};

/// Time limit of a call, for the lock and the disk together.
const CALL_TIMEOUT: Duration = Duration::from_secs(20);
const TOO_SLOW: &str = "it did not answer in time";
/// Maximum number of collections remembered as broken. Others are refused too, but not counted.
const MAX_BROKEN: usize = 64;

pub struct Pool {
    pub options: EmbeddedOptions,
    slots: Mutex<HashMap<CollectionName, Slot>>,
    broken: Mutex<BTreeMap<CollectionName, String>>,
    threads: Arc<Semaphore>,
}

struct Slot {
    lock: Arc<RwLock<PoolState>>,
    used_at: Instant,
}

pub enum PoolState {
    Closed,
    Open(Box<Collection>),
}

impl PoolState {
    fn opened(&self) -> Option<&Collection> {
        match self {
            Self::Open(collection) => Some(collection),
            Self::Closed => None,
        }
    }

    fn must_be_opened(&self) -> bool {
        self.opened().is_none_or(Collection::is_spoiled)
    }
}

impl Pool {
    pub fn new(options: EmbeddedOptions) -> Arc<Self> {
        let threads = Arc::new(Semaphore::new(options.max_threads));
        let pool = Self {
            options,
            slots: Mutex::default(),
            broken: Mutex::default(),
            threads,
        };
        let pool = Arc::new(pool);
        tokio::spawn(close_idle(Arc::downgrade(&pool), pool.options.idle_timeout));
        pool
    }

    pub fn path(&self, name: &CollectionName) -> PathBuf {
        file::path_of(&self.options.root, name)
    }

    /// Runs `work` on the open collection. Other reads may run at the same time.
    pub async fn read<T: Send + 'static>(
        self: &Arc<Self>,
        name: &CollectionName,
        work: impl FnOnce(&Collection) -> Result<T, FileFailure> + Send + 'static,
    ) -> Result<T, MemoryError> {
        let call = async {
            let guard = self.opened(name).await?;
            let path = self.path(name);
            self.blocking(move || match &*guard {
                PoolState::Closed => Err(FileFailure::Missing),
                PoolState::Open(_) if !file::is_in_place(&path) => {
                    Err(FileFailure::Broken("its file was moved or removed".into()))
                }
                PoolState::Open(opened) => work(opened),
            })
            .await
        };
        let result = self.settle(name, tokio::time::timeout(CALL_TIMEOUT, call).await);
        if result.is_err()
            && let Ok(guard) = self.lock(name).try_write_owned()
        {
            // The next call opens the file again.
            self.close(guard).await;
        }
        self.close_surplus().await;
        result
    }

    /// Runs `work` alone on the collection, open or not. If it fails the collection is closed, so
    /// that the next call sees the file and not what a failed write left in memory.
    pub async fn write<T: Send + 'static>(
        self: &Arc<Self>,
        name: &CollectionName,
        work: impl FnOnce(&Pool, &mut PoolState) -> Result<T, FileFailure> + Send + 'static,
    ) -> Result<T, MemoryError> {
        let call = async {
            let mut guard = self.lock(name).write_owned().await;
            let pool = self.clone();
            self.blocking(move || {
                let result = work(&pool, &mut guard);
                if result.is_err() {
                    *guard = PoolState::Closed;
                }
                result
            })
            .await
        };
        let result = self.settle(name, tokio::time::timeout(CALL_TIMEOUT, call).await);
        self.close_surplus().await;
        result
    }

    /// Runs `work` alone on the collection, then flushes its writes while reads may run, because
    /// the flush takes most of the time. If `work` fails the collection is closed, as in `write`.
    /// If the flush fails, the next call opens the collection again.
    pub async fn change(
        self: &Arc<Self>,
        name: &CollectionName,
        work: impl FnOnce(&Pool, &mut PoolState) -> Result<(), FileFailure> + Send + 'static,
    ) -> Result<(), MemoryError> {
        let call = async {
            let mut guard = self.lock(name).write_owned().await;
            let pool = self.clone();
            self.blocking(move || {
                if let Err(failure) = work(&pool, &mut guard) {
                    *guard = PoolState::Closed;
                    return Err(failure);
                }
                let guard = guard.downgrade();
                guard.opened().map_or(Ok(()), Collection::flush)
            })
            .await
        };
        let result = self.settle(name, tokio::time::timeout(CALL_TIMEOUT, call).await);
        self.close_surplus().await;
        result
    }

    /// Reads the collection's file between two writes, without opening it. The result says nothing
    /// about its health.
    pub async fn look<T: Send + 'static>(
        &self,
        name: &CollectionName,
        work: impl FnOnce(&Path) -> Result<T, FileFailure> + Send + 'static,
    ) -> Result<T, MemoryError> {
        let path = self.path(name);
        let call = async {
            let guard = self.lock(name).read_owned().await;
            self.blocking(move || {
                let _guard = guard;
                work(&path)
            })
            .await
        };
        let seen = tokio::time::timeout(CALL_TIMEOUT, call)
            .await
            .map_err(|_| MemoryError::unavailable(TOO_SLOW))?;
        seen.map_err(MemoryError::unavailable)
    }

    /// Opens the collection if needed. For use inside `write` and `change`.
    pub fn open<'a>(
        &self,
        name: &CollectionName,
        state: &'a mut PoolState,
    ) -> Result<&'a mut Collection, FileFailure> {
        let path = self.path(name);
        if state.must_be_opened() || !file::is_in_place(&path) {
            *state = PoolState::Closed;
            *state = PoolState::Open(Collection::open(&path)?.into());
        }
        match state {
            PoolState::Open(collection) => Ok(collection),
            PoolState::Closed => Err(FileFailure::Missing),
        }
    }

    /// Replaces the collection, whole or broken. For use inside `write`.
    pub fn make_empty(
        &self,
        name: &CollectionName,
        state: &mut PoolState,
    ) -> Result<(), FileFailure> {
        *state = PoolState::Closed;
        file::make_root(&self.options.root)?;
        *state = PoolState::Open(Collection::create(&self.path(name))?.into());
        Ok(())
    }

    /// Rewrites the collection's file without deleted texts. Searches wait for it, and it has no
    /// time limit.
    pub async fn rewrite(self: &Arc<Self>, name: &CollectionName) -> Result<(), MemoryError> {
        let mut guard = self.lock(name).write_owned().await;
        let (pool, collection) = (self.clone(), name.clone());
        let rewritten = self.blocking(move || {
            let result = pool.rewrite_now(&collection, &mut guard);
            if result.is_err() {
                *guard = PoolState::Closed;
            }
            result
        });
        let result = self.settle(name, Ok(rewritten.await));
        self.close_surplus().await;
        result
    }

    fn rewrite_now(&self, name: &CollectionName, state: &mut PoolState) -> Result<(), FileFailure> {
        let opened = self.open(name, state)?;
        if opened.count() > 0 {
            file::check_free(&self.options)?;
        }
        opened.rewrite()
    }

    pub fn broken(&self) -> Vec<CollectionName> {
        held(&self.broken).keys().cloned().collect()
    }

    pub async fn close_all(&self) {
        let locks: Vec<_> = held(&self.slots)
            .values()
            .map(|slot| slot.lock.clone())
            .collect();
        for lock in locks {
            self.close(lock.write_owned().await).await;
        }
        self.forget_closed();
    }

    async fn opened(
        self: &Arc<Self>,
        name: &CollectionName,
    ) -> Result<OwnedRwLockReadGuard<PoolState>, FileFailure> {
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

    fn lock(&self, name: &CollectionName) -> Arc<RwLock<PoolState>> {
        let mut slots = held(&self.slots);
        let new = || Slot {
            lock: Arc::new(RwLock::new(PoolState::Closed)),
            used_at: Instant::now(),
        };
        let slot = slots.entry(name.clone()).or_insert_with(new);
        slot.used_at = Instant::now();
        slot.lock.clone()
    }

    /// Runs `work` on one of the threads, when one is free.
    pub async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T, FileFailure> + Send + 'static,
    ) -> Result<T, FileFailure> {
        let closed = |_| FileFailure::Broken("memory is closed".into());
        let permit = self.threads.clone().acquire_owned().await.map_err(closed)?;
        let task = tokio::task::spawn_blocking(move || {
            let _permit = permit;
            work()
        });
        task.await
            .unwrap_or_else(|error| Err(FileFailure::Broken(error.to_string())))
    }

    fn settle<T>(
        &self,
        name: &CollectionName,
        result: Result<Result<T, FileFailure>, tokio::time::error::Elapsed>,
    ) -> Result<T, MemoryError> {
        let reason = match result {
            Ok(Ok(value)) => {
                if held(&self.broken).remove(name).is_some() {
                    tracing::info!(collection = %name, "a memory can be used again");
                }
                return Ok(value);
            }
            Ok(Err(FileFailure::Missing)) => {
                held(&self.broken).remove(name);
                return Err(MemoryError::NotFound {
                    collection: name.clone(),
                });
            }
            Ok(Err(FileFailure::Broken(reason))) => reason,
            Err(_) => TOO_SLOW.into(),
        };
        let mut broken = held(&self.broken);
        if !broken.contains_key(name) && broken.len() < MAX_BROKEN {
            tracing::warn!(collection = %name, reason, "a memory cannot be used");
            broken.insert(name.clone(), reason.clone());
        }
        Err(MemoryError::unavailable(reason))
    }

    /// Closes the least recently used collections until at most `max_open` are open. Collections in
    /// use stay open, so there can be more for a moment.
    async fn close_surplus(&self) {
        if held(&self.slots).len() <= self.options.max_open {
            return;
        }
        self.forget_closed();
        let open = self.unused_since(Instant::now());
        let surplus = open.len().saturating_sub(self.options.max_open);
        self.close_unused(open.into_iter().take(surplus)).await;
    }

    async fn close_unused(&self, locks: impl Iterator<Item = Arc<RwLock<PoolState>>>) {
        for lock in locks {
            if let Ok(guard) = lock.try_write_owned() {
                self.close(guard).await;
            }
        }
        self.forget_closed();
    }

    /// Longest unused first.
    fn unused_since(&self, time: Instant) -> Vec<Arc<RwLock<PoolState>>> {
        let slots = held(&self.slots);
        let mut unused: Vec<&Slot> = slots.values().filter(|slot| slot.used_at <= time).collect();
        unused.sort_by_key(|slot| slot.used_at);
        unused.into_iter().map(|slot| slot.lock.clone()).collect()
    }

    async fn close(&self, mut guard: OwnedRwLockWriteGuard<PoolState>) {
        if guard.opened().is_none() {
            *guard = PoolState::Closed;
            return;
        }
        // This fails with a full disk or a stopped runtime. The collection is closed in any case.
        let _ = self
            .blocking(move || {
                *guard = PoolState::Closed;
                Ok(())
            })
            .await;
    }

    /// A slot in use stays, otherwise there could be two locks for one file.
    fn forget_closed(&self) {
        let is_closed =
            |lock: &RwLock<PoolState>| lock.try_read().is_ok_and(|state| state.opened().is_none());
        held(&self.slots)
            .retain(|_, slot| Arc::strong_count(&slot.lock) > 1 || !is_closed(&slot.lock));
    }
}

async fn close_idle(pool: Weak<Pool>, idle_timeout: Duration) {
    loop {
        tokio::time::sleep(idle_timeout / 2).await;
        let Some(pool) = pool.upgrade() else { return };
        let Some(time) = Instant::now().checked_sub(idle_timeout) else {
            continue;
        };
        pool.close_unused(pool.unused_since(time).into_iter()).await;
    }
}

/// No code that panics runs under these locks, and the guarded data is consistent after every
/// statement.
fn held<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
