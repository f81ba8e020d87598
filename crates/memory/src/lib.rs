//! An agent's searchable past: found by words in English, Russian and Ukrainian, and by meaning
//! where an embedding model is configured.
//!
//! Two engines stand behind one handle, `Memory`: an index inside the process and a Qdrant server.
//! What is found and in which order is decided here, in the words, weights and fusion that both
//! share. The interactions themselves are kept in SQL; nothing here may be the only copy of
//! anything.

mod collection;
mod embed;
mod embedded;
mod error;
mod fuse;
mod http;
mod interaction;
mod memory;
mod point;
mod server;
mod text;

pub use collection::CollectionName;
pub use embed::{Embedder, EmbedderOptions};
pub use embedded::EmbeddedOptions;
pub use error::{MemoryError, OptionsError};
pub use interaction::{Filter, Hit, MemoryEntry, MemoryEntryId, Query};
pub use memory::{Created, Memory, MemoryHealth};
pub use server::QdrantOptions;
