//! Memory on a Qdrant server, over its REST interface.
//!
//! The official client uses gRPC and would add tonic and prost as dependencies. We need ten
//! requests, and their JSON is simple.

use std::fmt;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use ::http::{Method, StatusCode};
use codelab_protocol::{Reminder, SessionId};
use codelab_transport::NetworkOptions;
use serde_json::{Map, Value, json};

use crate::http::{Http, HttpAuth, HttpFailure};
use crate::point::{
    self, Batch, DenseLayout, INDEXED_FIELDS, Point, Probe, filter_json, session_filter,
};
use crate::text::{SparseVector, VECTOR_NAME};
use crate::{CollectionName, Created, Hit, MemoryEntryId, MemoryError, MemoryHealth, OptionsError};

/// Points in one request. By default a server refuses bodies larger than 32 MiB.
const POINTS_PER_REQUEST: usize = 50;
/// Time limit of a request with its answer.
const CALL_TIMEOUT: Duration = Duration::from_secs(20);
const API_KEY_HEADER: &str = "api-key";
/// How much of an error's text is kept.
const MAX_REASON_CHARS: usize = 300;

#[derive(Clone)]
pub struct QdrantOptions {
    /// Such as `http://127.0.0.1:6333`, with a path if a reverse proxy adds one.
    pub url: String,
    pub api_key: Option<String>,
    /// Proxies, and certificates to trust.
    pub network: NetworkOptions,
}

impl fmt::Debug for QdrantOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("QdrantOptions")
            .field("url", &self.url)
            .finish_non_exhaustive()
    }
}

pub struct ServerEngine {
    http: Http,
    /// Limits how often the log says that the server cannot be used.
    reminder: Mutex<Reminder>,
}

#[derive(Debug, thiserror::Error)]
enum Refusal {
    #[error("not found")]
    NotFound,
    #[error("it exists already")]
    Conflict,
    #[error("the server answered {status}: {reason}")]
    Other { status: StatusCode, reason: String },
    #[error(transparent)]
    Failed(#[from] HttpFailure),
}

impl ServerEngine {
    pub fn new(options: QdrantOptions) -> Result<Self, OptionsError> {
        let key = options.api_key.filter(|key| !key.is_empty());
        let auth = key
            .map(|key| HttpAuth::new(API_KEY_HEADER, &key))
            .transpose()?;
        Ok(Self {
            http: Http::new(&options.url, auth, CALL_TIMEOUT, &options.network)?,
            reminder: Mutex::default(),
        })
    }

    pub async fn create(
        &self,
        collection: &CollectionName,
        dense: Option<DenseLayout>,
    ) -> Result<Created, MemoryError> {
        let info = match self.call(collection, Method::GET, "", None).await {
            Ok(info) if has_words(&info) => Some(info),
            Ok(_) => {
                self.remove(collection).await?;
                None
            }
            Err(MemoryError::NotFound { .. }) => None,
            Err(error) => return Err(error),
        };
        let created = match &info {
            Some(info) if dense.as_ref().is_some_and(|dense| !has_dense(info, dense)) => {
                Created::Outdated
            }
            Some(_) => Created::Existing,
            None => self.make(collection, dense).await?,
        };
        // They are missing if an earlier creation was interrupted.
        for (field, schema) in INDEXED_FIELDS {
            let is_indexed = info
                .as_ref()
                .is_some_and(|info| !info["payload_schema"][field].is_null());
            if !is_indexed {
                let index = json!({"field_name": field, "field_schema": schema});
                self.call(collection, Method::PUT, "/index?wait=true", Some(index))
                    .await?;
            }
        }
        Ok(created)
    }

    pub async fn replace(
        &self,
        collection: &CollectionName,
        dense: Option<DenseLayout>,
    ) -> Result<(), MemoryError> {
        self.remove(collection).await?;
        self.create(collection, dense).await.map(|_| ())
    }

    pub async fn exists(&self, collection: &CollectionName) -> Result<bool, MemoryError> {
        match self.call(collection, Method::GET, "", None).await {
            Ok(info) => Ok(has_words(&info)),
            Err(MemoryError::NotFound { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Collections of other programs on the same server are skipped.
    pub async fn collections(&self) -> Result<Vec<CollectionName>, MemoryError> {
        let answer = self
            .request(Method::GET, "/collections", None)
            .await
            .map_err(MemoryError::unavailable)?;
        let Value::Array(collections) = &answer["collections"] else {
            return Err(MemoryError::unavailable(
                "the server answered without collections",
            ));
        };
        let names = collections
            .iter()
            .filter_map(|collection| collection["name"].as_str());
        Ok(names.filter_map(CollectionName::parse).collect())
    }

    pub async fn remove(&self, collection: &CollectionName) -> Result<(), MemoryError> {
        match self.call(collection, Method::DELETE, "", None).await {
            Ok(_) | Err(MemoryError::NotFound { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }

    pub async fn upsert(
        &self,
        collection: &CollectionName,
        batch: Batch,
    ) -> Result<(), MemoryError> {
        let dense = self.served(collection, batch.dense_layout()).await?;
        if batch.interactions.is_empty() {
            return self.count(collection).await.map(|_| ());
        }
        let bodies = tokio::task::spawn_blocking(move || bodies(batch, dense.as_ref()));
        for body in bodies.await.map_err(MemoryError::unavailable)? {
            self.call(collection, Method::PUT, "/points?wait=true", Some(body))
                .await?;
        }
        Ok(())
    }

    pub async fn search(
        &self,
        collection: &CollectionName,
        probe: Probe,
    ) -> Result<Vec<Vec<Hit>>, MemoryError> {
        let limit = probe.limit();
        let search = |query: Value, using: &str| {
            let filter = filter_json(&probe.filter);
            json!({"query": query, "using": using, "filter": filter, "limit": limit, "with_payload": true})
        };
        let mut searches = Vec::new();
        searches.extend(
            probe
                .sparse
                .as_ref()
                .map(|sparse| search(sparse_json(sparse), VECTOR_NAME)),
        );
        if let Some((dense, vector)) = &probe.dense
            && self.served(collection, Some(dense)).await?.is_some()
        {
            searches.push(search(json!(vector), &dense.name));
        }
        if searches.is_empty() {
            // The result is empty, but a missing collection is still an error.
            self.count(collection).await?;
            return Ok(Vec::new());
        }
        let wanted = searches.len();
        let body = json!({"searches": searches});
        match self
            .call(collection, Method::POST, "/points/query/batch", Some(body))
            .await?
        {
            Value::Array(answers) if answers.len() == wanted => {
                Ok(answers.into_iter().map(hits).collect())
            }
            _ => Err(MemoryError::unavailable(
                "the server answered with something else than hits",
            )),
        }
    }

    pub async fn delete(
        &self,
        collection: &CollectionName,
        ids: Vec<MemoryEntryId>,
    ) -> Result<(), MemoryError> {
        let ids: Vec<u64> = ids.into_iter().map(|id| id.0).collect();
        self.delete_points(collection, json!({"points": ids})).await
    }

    pub async fn delete_session(
        &self,
        collection: &CollectionName,
        session: &SessionId,
    ) -> Result<(), MemoryError> {
        self.delete_points(collection, json!({"filter": session_filter(session)}))
            .await
    }

    pub async fn clear(&self, collection: &CollectionName) -> Result<(), MemoryError> {
        self.delete_points(collection, json!({"filter": {}})).await
    }

    pub async fn count(&self, collection: &CollectionName) -> Result<u64, MemoryError> {
        let answer = self
            .call(
                collection,
                Method::POST,
                "/points/count",
                Some(json!({"exact": true})),
            )
            .await?;
        answer["count"]
            .as_u64()
            .ok_or_else(|| MemoryError::unavailable("the server answered without a count"))
    }

    pub async fn health(&self) -> MemoryHealth {
        match self.request(Method::GET, "/collections", None).await {
            Ok(_) => MemoryHealth::Healthy,
            Err(refusal) => {
                self.tell(&refusal);
                MemoryHealth::Unavailable {
                    reason: "the Qdrant server cannot be used".into(),
                }
            }
        }
    }

    /// At most once a minute.
    fn tell(&self, refusal: &Refusal) {
        if self
            .reminder
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .is_due(Instant::now())
        {
            tracing::warn!(%refusal, "the Qdrant server cannot be used");
        }
    }

    async fn make(
        &self,
        collection: &CollectionName,
        dense: Option<DenseLayout>,
    ) -> Result<Created, MemoryError> {
        let dense = dense.map(|dense| {
            (
                dense.name,
                json!({"size": dense.size, "distance": "Cosine", "on_disk": true}),
            )
        });
        let body = json!({
            "vectors": dense.into_iter().collect::<Map<_, _>>(),
            "sparse_vectors": {VECTOR_NAME: {"modifier": "idf"}},
            "on_disk_payload": true,
        });
        match self
            .request(
                Method::PUT,
                &format!("/collections/{collection}"),
                Some(body),
            )
            .await
        {
            Ok(_) => Ok(Created::New),
            // Another call created it first and fills it.
            Err(Refusal::Conflict) => Ok(Created::Existing),
            Err(refusal) => Err(MemoryError::unavailable(refusal)),
        }
    }

    /// `wanted`, if the collection has it.
    async fn served(
        &self,
        collection: &CollectionName,
        wanted: Option<&DenseLayout>,
    ) -> Result<Option<DenseLayout>, MemoryError> {
        let Some(wanted) = wanted else {
            return Ok(None);
        };
        let info = self.call(collection, Method::GET, "", None).await?;
        Ok(has_dense(&info, wanted).then(|| wanted.clone()))
    }

    async fn delete_points(
        &self,
        collection: &CollectionName,
        selector: Value,
    ) -> Result<(), MemoryError> {
        self.call(
            collection,
            Method::POST,
            "/points/delete?wait=true",
            Some(selector),
        )
        .await
        .map(|_| ())
    }

    async fn call(
        &self,
        collection: &CollectionName,
        method: Method,
        path: &str,
        body: Option<Value>,
    ) -> Result<Value, MemoryError> {
        let answer = self
            .request(method, &format!("/collections/{collection}{path}"), body)
            .await;
        answer.map_err(|refusal| match refusal {
            Refusal::NotFound => MemoryError::NotFound {
                collection: collection.clone(),
            },
            other => MemoryError::unavailable(other),
        })
    }

    /// The `result` of the server's answer.
    async fn request(
        &self,
        method: Method,
        path: &str,
        body: Option<Value>,
    ) -> Result<Value, Refusal> {
        let (status, mut answer) = self.http.call(method, path, body).await?;
        match status {
            _ if status.is_success() => match take_field(&mut answer, "result") {
                Value::Null => {
                    Err(HttpFailure::Unreadable("it is none of a Qdrant server".into()).into())
                }
                result => Ok(result),
            },
            StatusCode::NOT_FOUND => Err(Refusal::NotFound),
            StatusCode::CONFLICT => Err(Refusal::Conflict),
            _ => {
                let reason = answer["status"]["error"].as_str().unwrap_or("no reason");
                Err(Refusal::Other {
                    status,
                    reason: reason.chars().take(MAX_REASON_CHARS).collect(),
                })
            }
        }
    }
}

fn has_words(info: &Value) -> bool {
    info["config"]["params"]["sparse_vectors"][VECTOR_NAME]["modifier"] == "idf"
}

fn has_dense(info: &Value, dense: &DenseLayout) -> bool {
    info["config"]["params"]["vectors"][&dense.name]["size"].as_u64() == Some(dense.size as u64)
}

fn bodies(batch: Batch, dense: Option<&DenseLayout>) -> Vec<Value> {
    let points: Vec<Value> = batch
        .into_points(dense)
        .map(|point| point_json(&point, dense))
        .collect();
    points
        .chunks(POINTS_PER_REQUEST)
        .map(|points| json!({"points": points}))
        .collect()
}

fn point_json(point: &Point, dense: Option<&DenseLayout>) -> Value {
    let mut vectors = Map::new();
    if let Some(sparse) = &point.sparse {
        vectors.insert(VECTOR_NAME.into(), sparse_json(sparse));
    }
    if let Some((vector, dense)) = point.dense.as_ref().zip(dense) {
        vectors.insert(dense.name.clone(), json!(vector));
    }
    json!({"id": point.interaction.id.0, "vector": vectors, "payload": point.payload()})
}

fn sparse_json(vector: &SparseVector) -> Value {
    json!({"indices": vector.indices, "values": vector.values})
}

fn hits(mut answer: Value) -> Vec<Hit> {
    let Value::Array(points) = take_field(&mut answer, "points") else {
        return Vec::new();
    };
    let hit = |mut point: Value| {
        let Value::Object(payload) = take_field(&mut point, "payload") else {
            return None;
        };
        point::hit(
            point["id"].as_u64()?,
            point["score"].as_f64()? as f32,
            payload,
        )
    };
    points.into_iter().filter_map(hit).collect()
}

/// Moves a field out of a value. Null if there is none. Indexing would panic on an unexpected
/// answer.
fn take_field(value: &mut Value, field: &str) -> Value {
    value.get_mut(field).map(Value::take).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_never_shown() {
        let options = QdrantOptions {
            url: "http://a".into(),
            api_key: Some("canary".into()),
            network: Default::default(),
        };
        assert!(!format!("{options:?}").contains("canary"));
    }
}
