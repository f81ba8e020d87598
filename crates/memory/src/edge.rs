//! Memory inside the process: Qdrant Edge, a folder per collection.
//!
//! A collection begins as a folder with nothing but a marker, so that creating one costs next to nothing; the engine's
//! files come with the first addition, when it is known whether there is an embedding model.

mod folder;
mod pool;
mod shard;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use codelab_protocol::SessionId;

use crate::point::{Batch, DenseLayout, Probe, session_filter};
use crate::{CollectionName, Created, Hit, InteractionId, MemoryError, MemoryHealth};
use folder::Failure;
use pool::{Pool, State};

/// Broken collections that one look at the health tries to open again.
const HEALTH_RETRIES: usize = 4;

#[derive(Debug, Clone)]
pub struct EdgeOptions {
    /// Holds a folder for each collection. It is made when first needed.
    pub root: PathBuf,
    /// Open collections past this number are closed, the longest unused first.
    pub max_open: usize,
    /// An open collection that nobody asked for this long is closed.
    pub idle_timeout: Duration,
    /// Threads that read and write folders at the same time.
    pub max_threads: usize,
    /// Nothing is written with less than this free on the disk. The engine writes through memory maps, and a map that
    /// cannot be filled ends the process.
    pub min_free_bytes: u64,
}

impl EdgeOptions {
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

/// Collections are opened on demand and closed when unused. A folder that cannot be used makes its own collection
/// unavailable, and no other; it is tried again with every call.
pub struct EdgeEngine {
    pool: Arc<Pool>,
}

impl EdgeEngine {
    pub fn new(options: EdgeOptions) -> Self {
        Self { pool: Pool::new(options) }
    }

    pub async fn close(&self) {
        self.pool.close_all().await;
    }

    pub async fn create(&self, name: &CollectionName, dense: Option<DenseLayout>) -> Result<Created, MemoryError> {
        let collection = name.clone();
        let created = self.pool.write(name, move |pool, state| match pool.open(&collection, state) {
            Ok(()) if state.lacks(dense.as_ref()) => Ok(Created::Outdated),
            Ok(()) => Ok(Created::Existing),
            Err(Failure::Missing) => pool.make_empty(&collection, state).map(|()| Created::New),
            Err(broken) => Err(broken),
        });
        created.await
    }

    /// The dense vectors of the new one are decided upon by its first addition.
    pub async fn replace(&self, name: &CollectionName, _dense: Option<DenseLayout>) -> Result<(), MemoryError> {
        let collection = name.clone();
        self.pool.write(name, move |pool, state| pool.make_empty(&collection, state)).await
    }

    pub async fn exists(&self, name: &CollectionName) -> Result<bool, MemoryError> {
        self.pool.look(name, folder::is_usable).await
    }

    pub async fn collections(&self) -> Result<Vec<CollectionName>, MemoryError> {
        let root = self.pool.options.root.clone();
        self.pool.blocking(move || folder::collections(&root)).await.map_err(MemoryError::unavailable)
    }

    pub async fn rewrite(&self, name: &CollectionName) -> Result<(), MemoryError> {
        self.pool.rewrite(name).await
    }

    pub async fn tidy(&self) -> Result<(), MemoryError> {
        let root = self.pool.options.root.clone();
        self.pool.blocking(move || folder::remove_copies(&root)).await.map_err(MemoryError::unavailable)
    }

    pub async fn remove(&self, name: &CollectionName) -> Result<(), MemoryError> {
        let collection = name.clone();
        let removed = self.pool.write(name, move |pool, state| {
            *state = State::Closed;
            Ok(folder::remove(&pool.folder(&collection))?)
        });
        removed.await
    }

    pub async fn upsert(&self, name: &CollectionName, batch: Batch) -> Result<(), MemoryError> {
        let collection = name.clone();
        let added = self.pool.change(name, move |pool, state| {
            pool.open(&collection, state)?;
            if batch.interactions.is_empty() {
                return Ok(());
            }
            folder::check_free(&pool.options)?;
            pool.filled(&collection, state, batch.dense_layout())?.upsert(batch)
        });
        added.await
    }

    pub async fn search(&self, name: &CollectionName, probe: Probe) -> Result<Vec<Vec<Hit>>, MemoryError> {
        self.pool.read(name, move |shard| shard.search(probe)).await
    }

    pub async fn delete(&self, name: &CollectionName, ids: Vec<InteractionId>) -> Result<(), MemoryError> {
        let collection = name.clone();
        let deleted = self.pool.change(name, move |pool, state| {
            pool.open(&collection, state)?;
            state.shard().map_or(Ok(()), |shard| shard.delete(ids))
        });
        deleted.await
    }

    pub async fn delete_session(&self, name: &CollectionName, session: &SessionId) -> Result<(), MemoryError> {
        let (collection, filter) = (name.clone(), session_filter(session));
        let deleted = self.pool.change(name, move |pool, state| {
            pool.open(&collection, state)?;
            state.shard().map_or(Ok(()), |shard| shard.delete_by(filter))
        });
        deleted.await
    }

    /// The folder goes too, and with it what the engine still holds of deleted texts in its files.
    pub async fn clear(&self, name: &CollectionName) -> Result<(), MemoryError> {
        let collection = name.clone();
        let cleared = self.pool.write(name, move |pool, state| match folder::is_usable(&pool.folder(&collection)) {
            Ok(false) => Err(Failure::Missing),
            Ok(true) | Err(_) => pool.make_empty(&collection, state),
        });
        cleared.await
    }

    pub async fn count(&self, name: &CollectionName) -> Result<u64, MemoryError> {
        self.pool.read(name, |shard| shard.count()).await
    }

    pub async fn health(&self) -> MemoryHealth {
        let options = self.pool.options.clone();
        if self.pool.blocking(move || folder::check_root(&options)).await.is_err() {
            return MemoryHealth::Unavailable { reason: "the memory folder cannot be written".into() };
        }
        for collection in self.pool.broken().iter().take(HEALTH_RETRIES) {
            // Its outcome is kept by the pool.
            let _ = self.count(collection).await;
        }
        match self.pool.broken() {
            broken if broken.is_empty() => MemoryHealth::Healthy,
            collections => MemoryHealth::Broken { collections },
        }
    }
}
