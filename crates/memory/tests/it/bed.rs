//! Engines to test, and short ways to say what is remembered and found.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use codelab_memory::{
    CollectionName, EmbeddedOptions, Embedder, Filter, Hit, Memory, MemoryEntry, MemoryEntryId,
    MemoryError, QdrantOptions, Query,
};
use codelab_protocol::{AgentName, ProjectId, SessionId, Timestamp, UserId};
use tempfile::TempDir;

use crate::standin;

/// One engine with an empty past. Every `open` is another program on the same past.
pub enum Bed {
    Embedded(TempDir),
    Server(Box<QdrantOptions>),
}

impl Bed {
    pub fn embedded() -> Self {
        Self::Embedded(tempfile::tempdir().unwrap())
    }

    /// The server's part of the code against a small imitation of a server.
    pub async fn standin() -> Self {
        Self::Server(Box::new(QdrantOptions {
            url: standin::start().await,
            api_key: Some("key".into()),
            network: Default::default(),
        }))
    }

    /// `None` where no server is given: the contract has then been shown on an imitation only.
    pub fn server() -> Option<Self> {
        let Ok(url) = std::env::var("QDRANT_URL") else {
            eprintln!("skipped on a Qdrant server: QDRANT_URL is not set");
            return None;
        };
        Some(Self::Server(Box::new(QdrantOptions {
            url,
            api_key: std::env::var("QDRANT_API_KEY").ok(),
            network: Default::default(),
        })))
    }

    /// Every engine that can be had here.
    pub async fn all() -> Vec<Self> {
        [Self::embedded(), Self::standin().await]
            .into_iter()
            .chain(Self::server())
            .collect()
    }

    pub fn open(&self) -> Memory {
        self.open_with(None)
    }

    pub fn open_with(&self, embedder: Option<Embedder>) -> Memory {
        match self {
            Self::Embedded(folder) => Memory::embedded(small_options(folder), embedder),
            Self::Server(options) => Memory::server((**options).clone(), embedder).unwrap(),
        }
    }
}

/// Few open collections, so that closing and opening again happens in every test that uses more.
pub fn small_options(folder: &TempDir) -> EmbeddedOptions {
    EmbeddedOptions {
        max_open: 2,
        ..EmbeddedOptions::new(folder.path().join("memory"))
    }
}

/// A name that no other test and no earlier run uses.
pub fn unused_name() -> CollectionName {
    static NEXT: AtomicI64 = AtomicI64::new(1);
    let micros = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or(Duration::ZERO)
        .as_micros() as i64;
    let user = UserId::new(micros).unwrap();
    let agent = AgentName::parse("agent_coder").unwrap();
    let project = ProjectId::new(NEXT.fetch_add(1, Ordering::Relaxed)).unwrap();
    CollectionName::new(user, project, &agent).unwrap()
}

pub fn said(id: u64, text: &str) -> MemoryEntry {
    MemoryEntry {
        id: MemoryEntryId(id),
        text: text.into(),
        kind: "task".into(),
        success: true,
        task_id: None,
        session_id: None,
        timestamp: Timestamp::from_millis(id as i64),
        metadata: serde_json::Map::new(),
    }
}

pub fn session(name: &str) -> SessionId {
    SessionId::parse(name).unwrap()
}

pub fn asked(text: &str) -> Query {
    Query {
        text: text.into(),
        top_k: 10,
        filter: Filter::default(),
    }
}

pub fn ids(hits: &[Hit]) -> Vec<u64> {
    hits.iter().map(|hit| hit.id.0).collect()
}

pub async fn found(memory: &Memory, name: &CollectionName, text: &str) -> Vec<u64> {
    ids(&memory.search(name, &asked(text)).await.unwrap())
}

pub fn is_missing<T>(result: &Result<T, MemoryError>) -> bool {
    matches!(result, Err(MemoryError::NotFound { .. }))
}

pub fn is_unavailable<T>(result: &Result<T, MemoryError>) -> bool {
    matches!(result, Err(MemoryError::Unavailable { .. }))
}
