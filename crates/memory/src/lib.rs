//! Search in an agent's past interactions: by words in English, Russian and Ukrainian, and by
//! meaning if an embedding model is configured.
//!
//! `Memory` is the handle for two engines: an index inside the process, and a Qdrant server. Both
//! use the same terms, weights and fusion, so they return the same results in the same order. SQL
//! keeps the interactions themselves. This crate must never hold the only copy of anything.

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
