//! One open collection: its file, and the index read from it. All methods block and must not run on
//! an async thread.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use super::FileFailure;
use super::best::{Best, Ranked};
use super::dense;
use super::file::{CollectionFile, Draft};
use super::index::Index;
use super::record::{self, IndexedEntry, LogEntry};
use crate::point::{Batch, DenseLayout, Probe};
use crate::{Filter, Hit, MemoryEntryId};

/// A file is rewritten when more than half of it, and more than this many bytes, is deleted data.
const MAX_WASTED_BYTES: u64 = 1024 * 1024;
/// Bytes of entries in one frame of a rewritten file.
const REWRITE_FRAME_BYTES: usize = 4 * 1024 * 1024;

pub struct Collection {
    path: PathBuf,
    file: CollectionFile,
    index: Index,
    /// A flush failed, so memory and disk may differ.
    is_spoiled: AtomicBool,
}

impl Collection {
    pub fn open(path: &Path) -> Result<Self, FileFailure> {
        let mut index = Index::default();
        let file = CollectionFile::open(path, |position, entry| {
            match LogEntry::decode(entry)? {
                LogEntry::Dense(layout) => index.set_dense(layout),
                LogEntry::Put(record) => index.put(&record, position),
                LogEntry::Delete(ids) => ids.into_iter().for_each(|id| {
                    index.delete(id);
                }),
            }
            Ok(())
        })?;
        index.sweep();
        index.shrink();
        let mut opened = Self::new(path, file, index);
        opened.rewrite_if_wasteful()?;
        Ok(opened)
    }

    /// Replaces the file by an empty collection.
    pub fn create(path: &Path) -> Result<Self, FileFailure> {
        let file = Draft::new(path)?.put_in_place()?;
        Ok(Self::new(path, file, Index::default()))
    }

    fn new(path: &Path, file: CollectionFile, index: Index) -> Self {
        Self {
            path: path.to_owned(),
            file,
            index,
            is_spoiled: AtomicBool::new(false),
        }
    }

    pub fn is_spoiled(&self) -> bool {
        self.is_spoiled.load(Ordering::Acquire)
    }

    /// Whether there are interactions without vectors of this embedding model.
    pub fn lacks(&self, dense: Option<&DenseLayout>) -> bool {
        dense.is_some() && !self.index.is_untouched() && self.index.dense_layout() != dense
    }

    pub fn count(&self) -> u64 {
        self.index.count()
    }

    /// Durable after a flush, like deletions. The first addition decides whether there are dense
    /// vectors.
    pub fn upsert(&mut self, batch: Batch) -> Result<(), FileFailure> {
        let mut entries = Vec::with_capacity(batch.interactions.len() + 1);
        let mut new_layout = None;
        if let Some(layout) = batch.dense_layout().filter(|_| self.index.is_untouched()) {
            entries.push(LogEntry::Dense(layout.clone()).encode()?);
            new_layout = Some(layout.clone());
        }
        let layout = new_layout.as_ref().or(self.index.dense_layout()).cloned();
        for point in batch.into_points(layout.as_ref()) {
            entries.push(record::put(point)?);
        }
        let positions = self.file.append(&entries)?;
        if let Some(layout) = new_layout {
            self.index.set_dense(layout);
        }
        let mut has_replaced = false;
        for (entry, position) in entries.iter().zip(positions) {
            if let LogEntry::Put(record) = LogEntry::decode(entry)? {
                has_replaced |= self.index.has(record.id);
                self.index.put(&record, position);
            }
        }
        if has_replaced {
            self.index.sweep();
        }
        self.rewrite_if_wasteful()
    }

    pub fn delete(&mut self, ids: Vec<MemoryEntryId>) -> Result<(), FileFailure> {
        let ids: Vec<u64> = ids
            .into_iter()
            .map(|id| id.0)
            .filter(|id| self.index.has(*id))
            .collect();
        if ids.is_empty() {
            return Ok(());
        }
        let entry = LogEntry::Delete(ids.clone()).encode()?;
        self.file.append(&[entry])?;
        ids.into_iter().for_each(|id| {
            self.index.delete(id);
        });
        self.index.sweep();
        self.rewrite_if_wasteful()
    }

    pub fn delete_session(&mut self, session: &str) -> Result<(), FileFailure> {
        self.delete(self.index.ids_of_session(session))
    }

    /// The hits by words and the hits by meaning, each best first.
    pub fn search(&self, probe: &Probe) -> Result<Vec<Vec<Hit>>, FileFailure> {
        let limit = probe.limit();
        let mut lists = Vec::new();
        if let Some(terms) = &probe.sparse {
            lists.push(self.hits(self.index.by_words(terms, &probe.filter, limit))?);
        }
        if let Some((layout, vector)) = &probe.dense
            && self.index.dense_layout() == Some(layout)
        {
            lists.push(self.hits(self.by_meaning(vector, &probe.filter, limit)?)?);
        }
        Ok(lists)
    }

    fn by_meaning(
        &self,
        vector: &[f32],
        filter: &Filter,
        limit: usize,
    ) -> Result<Vec<Ranked>, FileFailure> {
        let vector = dense::normalized(vector.to_vec());
        let mut best = Best::new(limit);
        for document in self.index.by_meaning(&vector, filter, limit) {
            if let Some(exact) = self.with_record(document, |record| Ok(record.dense.clone()))? {
                let score = dense::similarity(&vector, &exact);
                best.offer(Ranked {
                    score,
                    timestamp: self.index.timestamp(document),
                    document,
                });
            }
        }
        Ok(best.into_best_first())
    }

    fn hits(&self, ranked: Vec<Ranked>) -> Result<Vec<Hit>, FileFailure> {
        let hit =
            |ranked: Ranked| self.with_record(ranked.document, |record| record.hit(ranked.score));
        ranked.into_iter().map(hit).collect()
    }

    fn with_record<T>(
        &self,
        document: u32,
        work: impl FnOnce(&IndexedEntry) -> Result<T, FileFailure>,
    ) -> Result<T, FileFailure> {
        let entry = self.entry(document)?;
        match LogEntry::decode(&entry)? {
            LogEntry::Put(record) => work(&record),
            LogEntry::Dense(_) | LogEntry::Delete(_) => Err(changed_beneath_us()),
        }
    }

    /// A document's entry. Checksums were checked when the file was opened, so later damage can
    /// only be noticed here.
    fn entry(&self, document: u32) -> Result<Vec<u8>, FileFailure> {
        let entry = self.file.read(self.index.position(document))?;
        match LogEntry::decode(&entry)? {
            LogEntry::Put(record) if record.id == self.index.id(document) => Ok(entry),
            LogEntry::Put(_) | LogEntry::Dense(_) | LogEntry::Delete(_) => {
                Err(changed_beneath_us())
            }
        }
    }

    fn rewrite_if_wasteful(&mut self) -> Result<(), FileFailure> {
        let wasted = self.file.len().saturating_sub(self.index.live_bytes);
        if wasted > MAX_WASTED_BYTES && wasted > self.index.live_bytes {
            self.rewrite()
        } else {
            Ok(())
        }
    }

    /// Rewrites the file without deleted texts.
    pub fn rewrite(&mut self) -> Result<(), FileFailure> {
        if self.count() == 0 {
            *self = Self::create(&self.path)?;
            return Ok(());
        }
        let mut draft = Draft::new(&self.path)?;
        let mut entries = Vec::new();
        if let Some(layout) = self.index.dense_layout() {
            entries.push(LogEntry::Dense(layout.clone()).encode()?);
        }
        let mut bytes = 0;
        for document in self.index.live() {
            let entry = self.entry(document)?;
            bytes += entry.len();
            entries.push(entry);
            if bytes > REWRITE_FRAME_BYTES {
                draft.file.append(&entries)?;
                entries.clear();
                bytes = 0;
            }
        }
        if !entries.is_empty() {
            draft.file.append(&entries)?;
        }
        drop(draft.put_in_place()?);
        *self = Self::open(&self.path)?;
        Ok(())
    }

    pub fn flush(&self) -> Result<(), FileFailure> {
        let flushed = self.file.sync();
        self.is_spoiled
            .fetch_or(flushed.is_err(), Ordering::Release);
        Ok(flushed?)
    }
}

fn changed_beneath_us() -> FileFailure {
    FileFailure::Broken("its file was changed by somebody else".into())
}
