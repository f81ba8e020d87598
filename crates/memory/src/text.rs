//! From text to BM25 sparse vectors: words, stems, weights.
//!
//! Pure: the same text gives the same vector in every engine and on every machine. A change to what
//! is found under a term needs a new `VECTOR_NAME`, so that collections written before it are seen
//! as outdated and are rebuilt.

mod bm25;
mod russian;
mod stem;
mod ukrainian;
mod words;

pub(crate) use bm25::{SparseVector, document, query};

/// The sparse vector of every collection. Its number is the version of this analysis.
pub(crate) const VECTOR_NAME: &str = "bm25_v2";
