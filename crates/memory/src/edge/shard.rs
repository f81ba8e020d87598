//! One collection's folder, through Qdrant Edge. All of it blocks: never call it on an async thread.
//!
//! What the engine leaves to its user is done here:
//! - It panics where its files fail it, also when dropped. Every call is guarded, and a panic is an error like others.
//! - It writes a log ahead but does not replay it, so a write counts only once it is flushed.
//! - It never shortens that log; files that hold nothing but flushed writes are removed when a folder is opened.
//! - It keeps the texts of deleted points in its files. A copy of the points in another folder is free of them.
//! - A creation that was cut short leaves half a folder; the marker that says otherwise is written last.

use std::num::NonZeroUsize;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use qdrant_edge::{
    CountRequest, Distance, EdgeConfig, EdgeShard, EdgeSparseVectorParams, EdgeVectorParams, FieldIndexOperations,
    Modifier, NamedQuery, OperationError, Payload, PointId, PointInsertOperations, PointOperations,
    PointStructPersisted, QueryEnum, QueryRequest, Record, ScoringQuery, ScrollRequest, UpdateOperation,
    VectorInternal, VectorPersisted, VectorStructPersisted, WalOptions, WithPayloadInterface, WithVector,
};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::folder::{self, Failure, Layout, Marker};
use crate::point::{self, Batch, INDEXED_FIELDS, Point, Probe};
use crate::text::SparseVector;
use crate::{Hit, InteractionId};

/// The engine's own default is 32 MiB for every collection.
const WAL_SEGMENT_BYTES: usize = 256 * 1024;
/// Points in one write of the log.
const POINTS_PER_WRITE: usize = 100;

pub struct Shard {
    folder: PathBuf,
    pub layout: Layout,
    /// A flush failed: what is in memory may not be on disk.
    is_spoiled: AtomicBool,
    /// Taken only by `drop`.
    engine: Option<EdgeShard>,
}

impl Shard {
    pub fn open(folder: &Path, layout: Layout) -> Result<Self, Failure> {
        folder::remove_flushed_log(folder)?;
        let engine = guarded(|| EdgeShard::load(folder, None))?;
        folder::make_private(folder)?;
        Ok(Self::of(folder, layout, engine))
    }

    fn of(folder: &Path, layout: Layout, engine: EdgeShard) -> Self {
        Self { folder: folder.to_owned(), layout, is_spoiled: AtomicBool::new(false), engine: Some(engine) }
    }

    pub fn is_spoiled(&self) -> bool {
        self.is_spoiled.load(Ordering::Acquire)
    }

    /// Puts the engine's files into a folder that has none.
    pub fn create(folder: &Path, layout: Layout) -> Result<Self, Failure> {
        let engine = guarded(|| EdgeShard::new(folder, config(&layout)))?;
        let shard = Self::of(folder, layout, engine);
        for (field, schema) in INDEXED_FIELDS {
            let index = read(json!({"field_name": field, "field_schema": schema}))?;
            let operation = UpdateOperation::FieldIndexOperation(FieldIndexOperations::CreateIndex(index));
            shard.guarded(|engine| engine.update(operation))?;
        }
        shard.flush()?;
        folder::write_marker(folder, &Marker::Filled(shard.layout.clone()))?;
        Ok(shard)
    }

    /// Counts once it is flushed, like the deletions.
    pub fn upsert(&self, batch: Batch) -> Result<(), Failure> {
        let points = batch.into_points(self.layout.dense.as_ref());
        let mut points = points.map(|point| persisted(&self.layout, point)).peekable();
        while points.peek().is_some() {
            let batch = points.by_ref().take(POINTS_PER_WRITE).collect();
            self.write(PointOperations::UpsertPoints(PointInsertOperations::PointsList(batch)))?;
        }
        Ok(())
    }

    pub fn delete(&self, ids: Vec<InteractionId>) -> Result<(), Failure> {
        let ids = ids.into_iter().map(|id| PointId::NumId(id.0)).collect();
        self.write(PointOperations::DeletePoints { ids })
    }

    pub fn delete_by(&self, filter: Value) -> Result<(), Failure> {
        self.write(PointOperations::DeletePointsByFilter(read(filter)?))
    }

    /// What is found by words and what is found by meaning, each best first.
    pub fn search(&self, probe: Probe) -> Result<Vec<Vec<Hit>>, Failure> {
        let limit = probe.limit();
        let filter: Option<qdrant_edge::Filter> = probe.filter.map(read).transpose()?;
        let mut lists = Vec::new();
        if let Some(sparse) = probe.sparse {
            let query = VectorInternal::Sparse(engine_sparse(sparse));
            lists.push(self.nearest(query, self.layout.sparse.clone(), filter.clone(), limit)?);
        }
        if let Some((dense, vector)) = probe.dense
            && self.layout.dense.as_ref() == Some(&dense)
        {
            lists.push(self.nearest(VectorInternal::Dense(vector), dense.name, filter, limit)?);
        }
        Ok(lists)
    }

    /// Puts what is here to be found, and nothing else, into a folder that has none of the engine's files.
    pub fn copy_to(&self, folder: &Path) -> Result<(), Failure> {
        let copy = Self::create(folder, self.layout.clone())?;
        let mut offset = None;
        loop {
            let request = ScrollRequest {
                offset,
                limit: Some(POINTS_PER_WRITE),
                with_vector: WithVector::Bool(true),
                ..ScrollRequest::default()
            };
            let (records, next) = self.guarded(|engine| engine.scroll(request))?;
            let points: Vec<_> = records.into_iter().filter_map(same).collect();
            if !points.is_empty() {
                copy.write(PointOperations::UpsertPoints(PointInsertOperations::PointsList(points)))?;
            }
            if next.is_none() {
                return copy.flush();
            }
            offset = next;
        }
    }

    pub fn count(&self) -> Result<u64, Failure> {
        let count = self.guarded(|engine| engine.count(CountRequest { filter: None, exact: true }))?;
        Ok(count as u64)
    }

    fn nearest(
        &self,
        query: VectorInternal,
        using: String,
        filter: Option<qdrant_edge::Filter>,
        limit: usize,
    ) -> Result<Vec<Hit>, Failure> {
        let request = QueryRequest {
            prefetches: Vec::new(),
            query: Some(ScoringQuery::Vector(QueryEnum::Nearest(NamedQuery::new(query, using)))),
            filter,
            score_threshold: None,
            limit,
            offset: 0,
            params: None,
            with_vector: WithVector::Bool(false),
            with_payload: WithPayloadInterface::Bool(true),
        };
        let found = self.guarded(|engine| engine.query(request))?;
        let hits = found.into_iter().filter_map(|scored| match (scored.id, scored.payload) {
            (PointId::NumId(id), Some(payload)) => point::hit(id, scored.score, payload.0),
            _ => None,
        });
        Ok(hits.collect())
    }

    fn write(&self, operation: PointOperations) -> Result<(), Failure> {
        self.guarded(|engine| engine.update(UpdateOperation::PointOperation(operation)))
    }

    pub fn flush(&self) -> Result<(), Failure> {
        let flushed = self.guarded(|engine| {
            engine.flush();
            Ok(())
        });
        self.is_spoiled.fetch_or(flushed.is_err(), Ordering::Release);
        flushed?;
        Ok(folder::make_private(&self.folder)?)
    }

    fn guarded<T>(&self, work: impl FnOnce(&EdgeShard) -> Result<T, OperationError>) -> Result<T, Failure> {
        let engine = self.engine.as_ref().ok_or(Failure::Missing)?;
        guarded(|| work(engine))
    }
}

impl Drop for Shard {
    fn drop(&mut self) {
        let engine = self.engine.take();
        if let Err(Failure::Broken(reason)) = guarded(move || {
            drop(engine);
            Ok(())
        }) {
            tracing::warn!(folder = %self.folder.display(), reason, "a memory was closed with an error");
        }
    }
}

fn config(layout: &Layout) -> EdgeConfig {
    let sparse = EdgeSparseVectorParams { modifier: Some(Modifier::Idf), ..EdgeSparseVectorParams::default() };
    let wal =
        WalOptions { segment_capacity: WAL_SEGMENT_BYTES, segment_queue_len: 0, retain_closed: NonZeroUsize::MIN };
    let config =
        EdgeConfig::builder().on_disk_payload(true).sparse_vector(layout.sparse.as_str(), sparse).wal_options(wal);
    match &layout.dense {
        Some(dense) => {
            let params = EdgeVectorParams::builder(dense.size, Distance::Cosine).on_disk(true).build();
            config.vector(dense.name.as_str(), params).build()
        }
        None => config.build(),
    }
}

fn persisted(layout: &Layout, point: Point) -> PointStructPersisted {
    let sparse = point.sparse.map(|vector| (layout.sparse.clone(), VectorPersisted::Sparse(engine_sparse(vector))));
    let dense = point.dense.zip(layout.dense.as_ref());
    let dense = dense.map(|(vector, dense)| (dense.name.clone(), VectorPersisted::Dense(vector)));
    PointStructPersisted {
        id: PointId::NumId(point.id.0),
        vector: VectorStructPersisted::Named(sparse.into_iter().chain(dense).collect()),
        payload: Some(Payload(point.payload)),
    }
}

/// A point as it was read; none without the vectors that every point has.
fn same(record: Record) -> Option<PointStructPersisted> {
    Some(PointStructPersisted { id: record.id, vector: record.vector?.into(), payload: record.payload })
}

fn engine_sparse(vector: SparseVector) -> qdrant_edge::SparseVector {
    qdrant_edge::SparseVector { indices: vector.indices, values: vector.values }
}

/// Filters and indexes are JSON in this crate, because that is what a server reads.
fn read<T: DeserializeOwned>(json: Value) -> Result<T, Failure> {
    serde_json::from_value(json).map_err(|error| Failure::Broken(error.to_string()))
}

fn guarded<T>(work: impl FnOnce() -> Result<T, OperationError>) -> Result<T, Failure> {
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(error)) => Err(Failure::Broken(error.to_string())),
        Err(panic) => {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("the engine panicked");
            Err(Failure::Broken(text.to_owned()))
        }
    }
}
