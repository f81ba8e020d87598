//! Memory inside the process. Each collection is a file, which is read into an index when the
//! collection is opened.

mod best;
mod collection;
mod dense;
mod file;
mod index;
mod pool;
mod record;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use codelab_protocol::SessionId;

use crate::point::{Batch, DenseLayout, Probe};
use crate::{CollectionName, Created, Hit, MemoryEntryId, MemoryError, MemoryHealth};
use file::FileFailure;
use pool::{Pool, PoolState};

/// Broken collections that one health check tries to open again.
const HEALTH_RETRIES: usize = 4;

#[derive(Debug, Clone)]
pub struct EmbeddedOptions {
    /// The folder with a file for each collection. It is created when first needed.
    pub root: PathBuf,
    /// Maximum number of open collections. The least recently used ones are closed first.
    pub max_open: usize,
    /// An open collection is closed after this time without a call.
    pub idle_timeout: Duration,
    /// Threads that read and write files at the same time.
    pub max_threads: usize,
    /// Nothing is added if less than this is free on the disk, because the database needs the rest.
    pub min_free_bytes: u64,
}

impl EmbeddedOptions {
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self {
            root: root.into(),
            max_open: 64,
            idle_timeout: Duration::from_secs(300),
            max_threads: 4,
            min_free_bytes: 128 * 1024 * 1024,
        }
    }
}

/// Collections are opened on demand and closed when unused. A broken file makes only its own
/// collection unavailable, and every call tries to open it again.
pub struct EmbeddedEngine {
    pool: Arc<Pool>,
}

impl EmbeddedEngine {
    pub fn new(options: EmbeddedOptions) -> Self {
        Self {
            pool: Pool::new(options),
        }
    }

    pub async fn close(&self) {
        self.pool.close_all().await;
    }

    pub async fn create(
        &self,
        name: &CollectionName,
        dense: Option<DenseLayout>,
    ) -> Result<Created, MemoryError> {
        let collection = name.clone();
        let created = self.pool.write(name, move |pool, state| {
            match pool.open(&collection, state) {
                Ok(opened) if opened.lacks(dense.as_ref()) => Ok(Created::Outdated),
                Ok(_) => Ok(Created::Existing),
                Err(FileFailure::Missing) => {
                    pool.make_empty(&collection, state).map(|()| Created::New)
                }
                Err(broken) => Err(broken),
            }
        });
        created.await
    }

    /// The first addition decides the layout of the new collection's dense vectors.
    pub async fn replace(
        &self,
        name: &CollectionName,
        _dense: Option<DenseLayout>,
    ) -> Result<(), MemoryError> {
        let collection = name.clone();
        self.pool
            .write(name, move |pool, state| pool.make_empty(&collection, state))
            .await
    }

    pub async fn exists(&self, name: &CollectionName) -> Result<bool, MemoryError> {
        self.pool.look(name, file::is_usable).await
    }

    pub async fn collections(&self) -> Result<Vec<CollectionName>, MemoryError> {
        let root = self.pool.options.root.clone();
        self.pool
            .blocking(move || file::collections(&root))
            .await
            .map_err(MemoryError::unavailable)
    }

    pub async fn rewrite(&self, name: &CollectionName) -> Result<(), MemoryError> {
        self.pool.rewrite(name).await
    }

    pub async fn tidy(&self) -> Result<(), MemoryError> {
        let root = self.pool.options.root.clone();
        self.pool
            .blocking(move || file::tidy(&root))
            .await
            .map_err(MemoryError::unavailable)
    }

    pub async fn remove(&self, name: &CollectionName) -> Result<(), MemoryError> {
        let collection = name.clone();
        let removed = self.pool.write(name, move |pool, state| {
            *state = PoolState::Closed;
            Ok(file::remove(&pool.path(&collection))?)
        });
        removed.await
    }

    pub async fn upsert(&self, name: &CollectionName, batch: Batch) -> Result<(), MemoryError> {
        let collection = name.clone();
        let added = self.pool.change(name, move |pool, state| {
            let opened = pool.open(&collection, state)?;
            if batch.interactions.is_empty() {
                return Ok(());
            }
            file::check_free(&pool.options)?;
            opened.upsert(batch)
        });
        added.await
    }

    pub async fn search(
        &self,
        name: &CollectionName,
        probe: Probe,
    ) -> Result<Vec<Vec<Hit>>, MemoryError> {
        self.pool
            .read(name, move |opened| opened.search(&probe))
            .await
    }

    pub async fn delete(
        &self,
        name: &CollectionName,
        ids: Vec<MemoryEntryId>,
    ) -> Result<(), MemoryError> {
        let collection = name.clone();
        self.pool
            .change(name, move |pool, state| {
                pool.open(&collection, state)?.delete(ids)
            })
            .await
    }

    pub async fn delete_session(
        &self,
        name: &CollectionName,
        session: &SessionId,
    ) -> Result<(), MemoryError> {
        let (collection, session) = (name.clone(), session.clone());
        let deleted = self.pool.change(name, move |pool, state| {
            pool.open(&collection, state)?
                .delete_session(session.as_str())
        });
        deleted.await
    }

    /// Also removes the file, and with it any deleted texts that are still in it.
    pub async fn clear(&self, name: &CollectionName) -> Result<(), MemoryError> {
        let collection = name.clone();
        let cleared = self.pool.write(name, move |pool, state| {
            match file::is_usable(&pool.path(&collection)) {
                Ok(false) => Err(FileFailure::Missing),
                Ok(true) | Err(_) => pool.make_empty(&collection, state),
            }
        });
        cleared.await
    }

    pub async fn count(&self, name: &CollectionName) -> Result<u64, MemoryError> {
        self.pool.read(name, |opened| Ok(opened.count())).await
    }

    pub async fn health(&self) -> MemoryHealth {
        let options = self.pool.options.clone();
        if self
            .pool
            .blocking(move || file::check_root(&options))
            .await
            .is_err()
        {
            return MemoryHealth::Unavailable {
                reason: "the memory folder cannot be written".into(),
            };
        }
        for collection in self.pool.broken().iter().take(HEALTH_RETRIES) {
            // The pool keeps the result.
            let _ = self.count(collection).await;
        }
        match self.pool.broken() {
            broken if broken.is_empty() => MemoryHealth::Healthy,
            collections => MemoryHealth::Broken { collections },
        }
    }
}
