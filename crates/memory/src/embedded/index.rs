//! The index of an open collection in memory: metadata of the documents, and for each term the
//! documents that contain it.

use std::collections::HashMap;

use super::best::{Best, Ranked};
use super::dense::RoundedVectors;
use super::file::Position;
use super::record::IndexedEntry;
use crate::point::DenseLayout;
use crate::text::SparseVector;
use crate::{Filter, MemoryEntryId};

#[derive(Default)]
pub struct Index {
    /// In the order in which they were added. The position is the document's number.
    documents: Vec<Document>,
    numbers: HashMap<u64, u32>,
    /// For each term, sorted by document number.
    postings: HashMap<u32, Vec<Posting>>,
    kinds: Labels,
    sessions: Labels,
    pub dense: Option<(DenseLayout, RoundedVectors)>,
    /// Documents with words that are not deleted.
    with_words: u32,
    /// Bytes in the file of documents that are not deleted.
    pub live_bytes: u64,
}

struct Document {
    id: u64,
    timestamp: i64,
    position: Position,
    kind: u32,
    session: Option<u32>,
    success: bool,
    has_words: bool,
    is_live: bool,
}

struct Posting {
    document: u32,
    weight: f32,
}

/// Numbers for texts that are repeated in many documents.
#[derive(Default)]
struct Labels(HashMap<Box<str>, u32>);

impl Labels {
    fn number(&mut self, label: &str) -> u32 {
        if let Some(number) = self.0.get(label) {
            return *number;
        }
        let number = self.0.len() as u32;
        self.0.insert(label.into(), number);
        number
    }

    fn known(&self, label: &str) -> Option<u32> {
        self.0.get(label).copied()
    }
}

/// A filter with its texts looked up.
struct Wanted<'a> {
    filter: &'a Filter,
    kind: Option<u32>,
}

impl Wanted<'_> {
    fn has(&self, document: &Document) -> bool {
        document.is_live
            && self.kind.is_none_or(|kind| document.kind == kind)
            && self
                .filter
                .success
                .is_none_or(|success| document.success == success)
            && self
                .filter
                .since
                .is_none_or(|since| document.timestamp >= since.as_millis())
            && self
                .filter
                .until
                .is_none_or(|until| document.timestamp <= until.as_millis())
    }
}

impl Index {
    pub fn set_dense(&mut self, layout: DenseLayout) {
        let vectors = RoundedVectors::new(layout.size);
        self.dense = Some((layout, vectors));
    }

    pub fn dense_layout(&self) -> Option<&DenseLayout> {
        self.dense.as_ref().map(|(layout, _)| layout)
    }

    /// Whether anything was ever added.
    pub fn is_untouched(&self) -> bool {
        self.documents.is_empty() && self.dense.is_none()
    }

    pub fn count(&self) -> u64 {
        self.numbers.len() as u64
    }

    /// Adds a document. An older one with the same id is no longer found, but its postings stay
    /// until `sweep`.
    pub fn put(&mut self, record: &IndexedEntry, position: Position) {
        self.delete(record.id);
        let number = self.documents.len() as u32;
        for (&term, &weight) in record.terms.iter().zip(&record.weights) {
            self.postings.entry(term).or_default().push(Posting {
                document: number,
                weight,
            });
        }
        if let (Some(vector), Some((_, vectors))) = (&record.dense, &mut self.dense) {
            vectors.add(number, vector);
        }
        self.documents.push(Document {
            id: record.id,
            timestamp: record.timestamp,
            position,
            kind: self.kinds.number(record.kind),
            session: record.session.map(|session| self.sessions.number(session)),
            success: record.success,
            has_words: !record.terms.is_empty(),
            is_live: true,
        });
        self.numbers.insert(record.id, number);
        self.with_words += u32::from(!record.terms.is_empty());
        self.live_bytes += u64::from(position.len);
    }

    /// Returns whether it existed. Its postings stay until `sweep`.
    pub fn delete(&mut self, id: u64) -> bool {
        let Some(number) = self.numbers.remove(&id) else {
            return false;
        };
        let document = &mut self.documents[number as usize];
        document.is_live = false;
        self.with_words -= u32::from(document.has_words);
        self.live_bytes -= u64::from(document.position.len);
        true
    }

    /// Removes the postings of deleted documents. They would make terms look more frequent than
    /// they are.
    pub fn sweep(&mut self) {
        let documents = &self.documents;
        self.postings.retain(|_, postings| {
            postings.retain(|posting| documents[posting.document as usize].is_live);
            !postings.is_empty()
        });
    }

    /// Frees memory that additions reserved.
    pub fn shrink(&mut self) {
        self.postings.values_mut().for_each(Vec::shrink_to_fit);
        self.documents.shrink_to_fit();
    }

    pub fn has(&self, id: u64) -> bool {
        self.numbers.contains_key(&id)
    }

    pub fn ids_of_session(&self, session: &str) -> Vec<MemoryEntryId> {
        let Some(session) = self.sessions.known(session) else {
            return Vec::new();
        };
        let of_session =
            |document: &&Document| document.is_live && document.session == Some(session);
        self.documents
            .iter()
            .filter(of_session)
            .map(|document| MemoryEntryId(document.id))
            .collect()
    }

    /// The documents that are not deleted, in the order in which they were added.
    pub fn live(&self) -> impl Iterator<Item = u32> {
        (0..)
            .zip(&self.documents)
            .filter(|(_, document)| document.is_live)
            .map(|(number, _)| number)
    }

    pub fn id(&self, document: u32) -> u64 {
        self.documents[document as usize].id
    }

    pub fn position(&self, document: u32) -> Position {
        self.documents[document as usize].position
    }

    pub fn timestamp(&self, document: u32) -> i64 {
        self.documents[document as usize].timestamp
    }

    /// The best documents by words. The score sums, for each term, the document's weight times the
    /// query's weight times the inverse document frequency.
    pub fn by_words(&self, query: &SparseVector, filter: &Filter, limit: usize) -> Vec<Ranked> {
        let Some(wanted) = self.wanted(filter) else {
            return Vec::new();
        };
        let mut scores = vec![0.0_f32; self.documents.len()];
        for (term, &asked) in query.indices.iter().zip(&query.values) {
            let Some(postings) = self.postings.get(term) else {
                continue;
            };
            let factor = asked * inverse_frequency(self.with_words, postings.len());
            for posting in postings {
                scores[posting.document as usize] += factor * posting.weight;
            }
        }
        let mut best = Best::new(limit);
        let mut floor = 0.0;
        for (number, (&score, document)) in scores.iter().zip(&self.documents).enumerate() {
            if score > 0.0 && score >= floor && wanted.has(document) {
                best.offer(Ranked {
                    score,
                    timestamp: document.timestamp,
                    document: number as u32,
                });
                floor = best.floor();
            }
        }
        best.into_best_first()
    }

    /// Candidates for the best by meaning.
    pub fn by_meaning(&self, query: &[f32], filter: &Filter, limit: usize) -> Vec<u32> {
        let (Some(wanted), Some((_, vectors))) = (self.wanted(filter), &self.dense) else {
            return Vec::new();
        };
        vectors.candidates(query, limit, |document| {
            wanted.has(&self.documents[document as usize])
        })
    }

    /// `None` if no document can pass the filter.
    fn wanted<'a>(&self, filter: &'a Filter) -> Option<Wanted<'a>> {
        let kind = match &filter.kind {
            Some(kind) => Some(self.kinds.known(kind)?),
            None => None,
        };
        Some(Wanted { filter, kind })
    }
}

/// The same formula as Qdrant's for `modifier: idf`.
fn inverse_frequency(documents: u32, with_term: usize) -> f32 {
    let (documents, with_term) = (documents as f32, with_term as f32);
    ((documents - with_term + 0.5) / (with_term + 0.5) + 1.0).ln()
}
