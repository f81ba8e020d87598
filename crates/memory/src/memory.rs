//! The public handle: validates input, calls the embedding model, and passes the rest to one of the
//! two engines.

use std::sync::Arc;

use codelab_protocol::SessionId;

use crate::embed::Embedded;
use crate::embedded::EmbeddedEngine;
use crate::interaction::{check_batch, check_ids};
use crate::point::{Batch, DenseLayout, Probe};
use crate::server::ServerEngine;
use crate::{
    CollectionName, EmbeddedOptions, Embedder, Hit, MemoryEntry, MemoryEntryId, MemoryError,
    OptionsError, QdrantOptions, Query, fuse,
};

/// Interactions that a rebuild adds in one call.
const REBUILD_BATCH: usize = 250;

/// Searchable interactions of agents, with one collection for each agent. It is only an index: the
/// interactions are stored elsewhere, and a lost collection is rebuilt from there.
///
/// Every later search finds what was added. A dropped call still completes the write that it began.
/// A clone is another handle on the same engine.
#[derive(Clone)]
pub struct Memory {
    engine: Engine,
    embedder: Option<Arc<Embedder>>,
}

#[derive(Clone)]
enum Engine {
    Embedded(Arc<EmbeddedEngine>),
    Server(Arc<ServerEngine>),
}

/// The result of `create`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Created {
    /// It is new and empty. The caller rebuilds it if there are interactions.
    New,
    Existing,
    /// It can be searched by words, but its vectors are not from the current embedding model. A
    /// rebuild fixes that.
    Outdated,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MemoryHealth {
    Healthy,
    /// The embedding model does not answer, so searches use words only.
    WordsOnly,
    /// These collections cannot be opened. All others work.
    Broken {
        collections: Vec<CollectionName>,
    },
    /// It cannot be used.
    Unavailable {
        reason: String,
    },
}

macro_rules! on_engine {
    ($self:ident.$method:ident($($argument:expr),*)) => {
        match &$self.engine {
            Engine::Embedded(engine) => engine.$method($($argument),*).await,
            Engine::Server(engine) => engine.$method($($argument),*).await,
        }
    };
}

impl Memory {
    /// Memory inside the process. Must be called in a tokio runtime, because it uses the runtime's
    /// blocking threads.
    pub fn embedded(options: EmbeddedOptions, embedder: Option<Embedder>) -> Self {
        Self::new(
            Engine::Embedded(EmbeddedEngine::new(options).into()),
            embedder,
        )
    }

    /// Memory on a Qdrant server. The server may still be down.
    pub fn server(
        options: QdrantOptions,
        embedder: Option<Embedder>,
    ) -> Result<Self, OptionsError> {
        Ok(Self::new(
            Engine::Server(ServerEngine::new(options)?.into()),
            embedder,
        ))
    }

    fn new(engine: Engine, embedder: Option<Embedder>) -> Self {
        Self {
            engine,
            embedder: embedder.map(Arc::new),
        }
    }

    /// Whether the collections are in this process.
    pub fn is_embedded(&self) -> bool {
        matches!(self.engine, Engine::Embedded(_))
    }

    /// Makes sure that the collection exists. If another version of the text analysis wrote it, a
    /// new one replaces it.
    pub async fn create(&self, collection: &CollectionName) -> Result<Created, MemoryError> {
        let dense = self.dense_layout().await;
        on_engine!(self.create(collection, dense))
    }

    pub async fn exists(&self, collection: &CollectionName) -> Result<bool, MemoryError> {
        on_engine!(self.exists(collection))
    }

    /// All that exist, in order of their names.
    pub async fn collections(&self) -> Result<Vec<CollectionName>, MemoryError> {
        let mut collections = on_engine!(self.collections())?;
        collections.sort();
        Ok(collections)
    }

    /// Removes the collection, even a broken one. A missing collection is not an error.
    pub async fn remove(&self, collection: &CollectionName) -> Result<(), MemoryError> {
        on_engine!(self.remove(collection))
    }

    /// Adds, or replaces those whose ids are known. Acknowledged means on disk.
    pub async fn add(
        &self,
        collection: &CollectionName,
        interactions: Vec<MemoryEntry>,
    ) -> Result<(), MemoryError> {
        check_batch(&interactions)?;
        let texts: Vec<&str> = interactions
            .iter()
            .map(|interaction| interaction.text.as_str())
            .collect();
        let embedded = self.embed(&texts).await;
        on_engine!(self.upsert(
            collection,
            Batch {
                interactions,
                embedded
            }
        ))
    }

    /// The best `top_k` interactions that pass the filter, best first. If the embedding model does
    /// not answer, the search uses words only.
    pub async fn search(
        &self,
        collection: &CollectionName,
        query: &Query,
    ) -> Result<Vec<Hit>, MemoryError> {
        query.check()?;
        let embedded = self.embed(&[&query.text]).await;
        let lists = on_engine!(self.search(collection, Probe::new(query, embedded)))?;
        Ok(fuse::lists(lists, query.top_k))
    }

    /// Unknown ids are not an error.
    pub async fn delete(
        &self,
        collection: &CollectionName,
        ids: Vec<MemoryEntryId>,
    ) -> Result<(), MemoryError> {
        check_ids(&ids)?;
        on_engine!(self.delete(collection, ids))
    }

    /// Removes the interactions of a session.
    pub async fn delete_session(
        &self,
        collection: &CollectionName,
        session: &SessionId,
    ) -> Result<(), MemoryError> {
        on_engine!(self.delete_session(collection, session))
    }

    /// Rewrites the collection's file without deleted texts. Searches find the same as before. A
    /// Qdrant server removes deleted texts by itself when it optimises.
    pub async fn rewrite(&self, collection: &CollectionName) -> Result<(), MemoryError> {
        match &self.engine {
            Engine::Embedded(engine) => engine.rewrite(collection).await,
            Engine::Server(_) => Ok(()),
        }
    }

    /// Removes unfinished files of interrupted rewrites. Must not run during a rewrite.
    pub async fn tidy(&self) -> Result<(), MemoryError> {
        match &self.engine {
            Engine::Embedded(engine) => engine.tidy().await,
            Engine::Server(_) => Ok(()),
        }
    }

    /// Replaces the collection by an empty one, whatever its state.
    pub async fn clear(&self, collection: &CollectionName) -> Result<(), MemoryError> {
        on_engine!(self.clear(collection))
    }

    /// Replaces the collection by a new one with these interactions, and returns their number.
    /// Interactions beyond the limits of `add` are skipped.
    ///
    /// Until it ends, a search finds only a part. Interactions added meanwhile stay. Interactions
    /// deleted meanwhile may come back, so callers delay deletions until its end.
    pub async fn rebuild<I>(
        &self,
        collection: &CollectionName,
        interactions: I,
    ) -> Result<u64, MemoryError>
    where
        I: IntoIterator<Item = MemoryEntry>,
        I::IntoIter: Send,
    {
        let dense = self.dense_layout().await;
        on_engine!(self.replace(collection, dense))?;
        let mut interactions = interactions
            .into_iter()
            .filter(|interaction| is_kept(collection, interaction));
        let mut added = 0;
        loop {
            let batch: Vec<MemoryEntry> = interactions.by_ref().take(REBUILD_BATCH).collect();
            if batch.is_empty() {
                return Ok(added);
            }
            added += batch.len() as u64;
            self.add(collection, batch).await?;
        }
    }

    pub async fn count(&self, collection: &CollectionName) -> Result<u64, MemoryError> {
        on_engine!(self.count(collection))
    }

    /// Checks broken parts again, so that a recovery is noticed without a request.
    pub async fn health(&self) -> MemoryHealth {
        match on_engine!(self.health()) {
            MemoryHealth::Healthy
                if self
                    .embedder
                    .as_ref()
                    .is_some_and(|embedder| embedder.is_paused()) =>
            {
                MemoryHealth::WordsOnly
            }
            health => health,
        }
    }

    /// Closes all open collections properly. The next call opens them again.
    pub async fn close(&self) {
        if let Engine::Embedded(engine) = &self.engine {
            engine.close().await;
        }
    }

    async fn embed(&self, texts: &[&str]) -> Option<Embedded> {
        match &self.embedder {
            Some(embedder) if !texts.is_empty() => embedder.embed(texts).await,
            _ => None,
        }
    }

    /// The layout of dense vectors. The embedded engine learns it with the first addition, so
    /// creating a collection does not wait for the model. A Qdrant server must know it at once.
    async fn dense_layout(&self) -> Option<DenseLayout> {
        let embedder = self.embedder.as_ref()?;
        match &self.engine {
            Engine::Embedded(_) => embedder.known_layout(),
            Engine::Server(_) => embedder.layout().await,
        }
    }
}

fn is_kept(collection: &CollectionName, interaction: &MemoryEntry) -> bool {
    let checked = check_batch(std::slice::from_ref(interaction));
    if let Err(reason) = &checked {
        tracing::warn!(%collection, id = interaction.id.0, %reason, "an interaction cannot be found by search");
    }
    checked.is_ok()
}
