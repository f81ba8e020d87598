//! An interaction with its vectors, as the engines store it. A Qdrant server gets the interaction
//! and the filters as JSON.

use codelab_protocol::{SessionId, TaskId, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::embed::Embedded;
use crate::text::{self, SparseVector};
use crate::{Filter, Hit, MemoryEntry, MemoryEntryId, Query};

const TEXT: &str = "text";
const KIND: &str = "type";
const SUCCESS: &str = "success";
const TASK_ID: &str = "task_id";
const SESSION_ID: &str = "session_id";
/// Milliseconds since 1970.
const TIMESTAMP: &str = "timestamp";
const METADATA: &str = "metadata";

/// The payload fields that filters use, and what they hold.
pub(crate) const INDEXED_FIELDS: [(&str, &str); 4] = [
    (KIND, "keyword"),
    (SUCCESS, "bool"),
    (TIMESTAMP, "integer"),
    (SESSION_ID, "keyword"),
];

/// A fused search reads this many times `top_k` from each list. So an interaction that ranks in the
/// middle of both lists can still win.
const FUSION_DEPTH: usize = 4;

/// The dense vector of a collection. Its name contains the model, so another model means another
/// layout.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct DenseLayout {
    pub name: String,
    pub size: usize,
}

/// Interactions to add, with the dense vectors of all texts or of none.
pub(crate) struct Batch {
    pub interactions: Vec<MemoryEntry>,
    pub embedded: Option<Embedded>,
}

pub(crate) struct Point {
    pub interaction: MemoryEntry,
    /// `None` if the text has no words.
    pub sparse: Option<SparseVector>,
    pub dense: Option<Vec<f32>>,
}

/// A search by words, by meaning, or both.
pub(crate) struct Probe {
    pub sparse: Option<SparseVector>,
    pub dense: Option<(DenseLayout, Vec<f32>)>,
    pub filter: Filter,
    top_k: usize,
}

impl DenseLayout {
    pub fn new(model: &str, size: usize) -> Self {
        let keep = |c: char| {
            if c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-') {
                c
            } else {
                '-'
            }
        };
        let model: String = model.chars().map(keep).collect();
        Self {
            name: format!("dense_{model}_{size}"),
            size,
        }
    }
}

impl Batch {
    pub fn dense_layout(&self) -> Option<&DenseLayout> {
        self.embedded.as_ref().map(|embedded| &embedded.layout)
    }

    /// Points, with dense vectors only if the collection has `dense`. It analyses every word, so it
    /// must not run on an async thread.
    pub fn into_points(self, dense: Option<&DenseLayout>) -> impl Iterator<Item = Point> {
        let vectors = self
            .embedded
            .filter(|embedded| Some(&embedded.layout) == dense);
        let mut vectors = vectors
            .map(|embedded| embedded.vectors)
            .unwrap_or_default()
            .into_iter();
        self.interactions
            .into_iter()
            .map(move |interaction| Point::new(interaction, vectors.next()))
    }
}

impl Point {
    fn new(interaction: MemoryEntry, dense: Option<Vec<f32>>) -> Self {
        let sparse = Some(text::document(&interaction.text)).filter(|vector| !vector.is_empty());
        Self {
            interaction,
            sparse,
            dense,
        }
    }

    /// The interaction as a Qdrant server keeps it beside the vectors.
    pub fn payload(&self) -> Map<String, Value> {
        let interaction = &self.interaction;
        let mut payload = Map::new();
        payload.insert(TEXT.into(), interaction.text.as_str().into());
        payload.insert(KIND.into(), interaction.kind.as_str().into());
        payload.insert(SUCCESS.into(), interaction.success.into());
        payload.insert(TIMESTAMP.into(), interaction.timestamp.as_millis().into());
        if let Some(task_id) = &interaction.task_id {
            payload.insert(TASK_ID.into(), task_id.as_str().into());
        }
        if let Some(session_id) = &interaction.session_id {
            payload.insert(SESSION_ID.into(), session_id.as_str().into());
        }
        if !interaction.metadata.is_empty() {
            payload.insert(METADATA.into(), interaction.metadata.clone().into());
        }
        payload
    }
}

impl Probe {
    pub fn new(query: &Query, embedded: Option<Embedded>) -> Self {
        let sparse = Some(text::query(&query.text)).filter(|vector| !vector.is_empty());
        let dense =
            embedded.and_then(|mut embedded| Some((embedded.layout, embedded.vectors.pop()?)));
        Self {
            sparse,
            dense,
            filter: query.filter.clone(),
            top_k: query.top_k,
        }
    }

    /// The number of hits to read from each list.
    pub fn limit(&self) -> usize {
        if self.dense.is_some() {
            self.top_k * FUSION_DEPTH
        } else {
            self.top_k
        }
    }
}

/// Matches all interactions of a session.
pub(crate) fn session_filter(session: &SessionId) -> Value {
    json!({"must": [{"key": SESSION_ID, "match": {"value": session.as_str()}}]})
}

/// `None` if the payload is not from CodeLab.
pub(crate) fn hit(id: u64, score: f32, mut payload: Map<String, Value>) -> Option<Hit> {
    let mut string = |field: &str| match payload.remove(field) {
        Some(Value::String(text)) => Some(text),
        _ => None,
    };
    let (text, kind, task_id) = (string(TEXT)?, string(KIND)?, string(TASK_ID));
    Some(Hit {
        id: MemoryEntryId(id),
        text,
        score,
        kind,
        success: payload.get(SUCCESS)?.as_bool()?,
        task_id: task_id.and_then(|text| TaskId::parse(&text).ok()),
        timestamp: Timestamp::from_millis(payload.get(TIMESTAMP)?.as_i64()?),
        metadata: match payload.remove(METADATA) {
            Some(Value::Object(metadata)) => metadata,
            _ => Map::new(),
        },
    })
}

pub(crate) fn filter_json(filter: &Filter) -> Option<Value> {
    let mut must = Vec::new();
    if let Some(kind) = &filter.kind {
        must.push(json!({"key": KIND, "match": {"value": kind}}));
    }
    if let Some(success) = filter.success {
        must.push(json!({"key": SUCCESS, "match": {"value": success}}));
    }
    if filter.since.is_some() || filter.until.is_some() {
        let millis = |time: Option<Timestamp>| time.map(Timestamp::as_millis);
        must.push(json!({"key": TIMESTAMP, "range": {"gte": millis(filter.since), "lte": millis(filter.until)}}));
    }
    (!must.is_empty()).then(|| json!({"must": must}))
}
