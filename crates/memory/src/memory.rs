//! The handle that callers hold: checks what comes in, asks the embedding model, and leaves the
//! rest to one of the two engines.

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

/// Interactions that a rebuild adds at once.
const REBUILD_BATCH: usize = 250;

/// Agents' searchable pasts, a collection for each. It is an index: the interactions themselves are
/// kept elsewhere, and a collection that was lost is rebuilt from there.
///
/// What was added is found by every later search. Calls may be dropped at any time; what they began
/// then still ends. A clone is another handle on the same engine.
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

/// What `create` met.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Created {
    /// It is new and empty: whoever keeps the interactions rebuilds it, if there are any.
    New,
    Existing,
    /// It can be searched by words, but not by the meaning that today's embedding model gives them:
    /// a rebuild helps.
    Outdated,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MemoryHealth {
    Healthy,
    /// The embedding model does not answer; words decide alone.
    WordsOnly,
    /// These cannot be opened; the others can.
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
    /// Memory inside the process. Must be called inside a tokio runtime, whose blocking threads do
    /// the work.
    pub fn embedded(options: EmbeddedOptions, embedder: Option<Embedder>) -> Self {
        Self::new(
            Engine::Embedded(EmbeddedEngine::new(options).into()),
            embedder,
        )
    }

    /// Memory on a Qdrant server, which need not be there yet.
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

    /// Whether its collections are in this process, and nobody else's.
    pub fn is_embedded(&self) -> bool {
        matches!(self.engine, Engine::Embedded(_))
    }

    /// Makes sure that the collection exists. One that was written by another analysis of words is
    /// replaced by a new one.
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

    /// Removes the collection and all in it, broken or not. It is no error if there is none.
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

    /// The best `top_k` interactions that pass the filter, best first. Without an answer of the
    /// embedding model words decide alone.
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

    /// Ids that are not there are no error.
    pub async fn delete(
        &self,
        collection: &CollectionName,
        ids: Vec<MemoryEntryId>,
    ) -> Result<(), MemoryError> {
        check_ids(&ids)?;
        on_engine!(self.delete(collection, ids))
    }

    /// Forgets what a session left behind.
    pub async fn delete_session(
        &self,
        collection: &CollectionName,
        session: &SessionId,
    ) -> Result<(), MemoryError> {
        on_engine!(self.delete_session(collection, session))
    }

    /// Makes the collection's file anew, so that it holds nothing of what was deleted. What can be
    /// found stays found, by words and by meaning. A Qdrant server frees deleted texts by itself,
    /// when it optimises.
    pub async fn rewrite(&self, collection: &CollectionName) -> Result<(), MemoryError> {
        match &self.engine {
            Engine::Embedded(engine) => engine.rewrite(collection).await,
            Engine::Server(_) => Ok(()),
        }
    }

    /// Removes what a rewriting left behind that was cut short. Not while one is under way.
    pub async fn tidy(&self) -> Result<(), MemoryError> {
        match &self.engine {
            Engine::Embedded(engine) => engine.tidy().await,
            Engine::Server(_) => Ok(()),
        }
    }

    /// Leaves an empty collection, whatever state it was in.
    pub async fn clear(&self, collection: &CollectionName) -> Result<(), MemoryError> {
        on_engine!(self.clear(collection))
    }

    /// Replaces the collection, missing, whole or broken, by a new one with these interactions, and
    /// returns their number. One past the limits of `add` is left out.
    ///
    /// Until it ends a search finds only a part. What is added meanwhile stays; what is deleted
    /// meanwhile may come back, so deletions wait for its end.
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

    /// Looks again at what was broken, so that a recovery is seen without being asked for.
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

    /// Closes every open collection in order. They open again if asked for.
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

    /// What dense vectors look like. The embedded engine decides upon it at the first addition, so
    /// a creation does not wait for the model; a server must be told at once.
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
