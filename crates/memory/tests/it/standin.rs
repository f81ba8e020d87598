//! A small imitation of a Qdrant server, for machines without one: the requests that memory makes,
//! answered by brute force from RAM. It is strict where a server is (unknown names and wrong sizes
//! are refused), so that a request in the wrong shape fails here too; that it answers as a real
//! server does can only be shown on one.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use axum::Json;
use axum::Router;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post, put};
use serde_json::{Value, json};
use tokio::net::TcpListener;

#[derive(Default)]
struct Collection {
    params: Value,
    indexes: BTreeMap<String, Value>,
    points: BTreeMap<u64, Value>,
}

type Collections = Arc<Mutex<BTreeMap<String, Collection>>>;
type Answer = Result<Value, (StatusCode, String)>;

/// The address of a new server.
pub async fn start() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let one = get(info).put(create).delete(remove);
    let router = Router::new()
        .route("/collections", get(list))
        .route("/collections/{name}", one)
        .route("/collections/{name}/index", put(index))
        .route("/collections/{name}/points", put(upsert))
        .route("/collections/{name}/points/delete", post(delete))
        .route("/collections/{name}/points/count", post(count))
        .route("/collections/{name}/points/query/batch", post(query))
        .with_state(Collections::default());
    tokio::spawn(async move { axum::serve(listener, router).await });
    format!("http://{address}")
}

fn answered(answer: Answer) -> Response {
    match answer {
        Ok(result) => Json(json!({"result": result, "status": "ok"})).into_response(),
        Err((status, error)) => (status, Json(json!({"status": {"error": error}}))).into_response(),
    }
}

fn refused<T>(status: StatusCode, reason: &str) -> Result<T, (StatusCode, String)> {
    Err((status, reason.to_owned()))
}

fn on(all: &Collections, name: &str, work: impl FnOnce(&mut Collection) -> Answer) -> Response {
    answered(match all.lock().unwrap().get_mut(name) {
        Some(collection) => work(collection),
        None => refused(StatusCode::NOT_FOUND, "Collection doesn't exist!"),
    })
}

async fn list(State(all): State<Collections>) -> Response {
    let names: Vec<Value> = all
        .lock()
        .unwrap()
        .keys()
        .map(|name| json!({"name": name}))
        .collect();
    answered(Ok(json!({"collections": names})))
}

async fn create(
    State(all): State<Collections>,
    Path(name): Path<String>,
    Json(params): Json<Value>,
) -> Response {
    let mut all = all.lock().unwrap();
    if all.contains_key(&name) {
        return answered(refused(StatusCode::CONFLICT, "Collection already exists!"));
    }
    all.insert(
        name,
        Collection {
            params,
            ..Collection::default()
        },
    );
    answered(Ok(json!(true)))
}

async fn info(State(all): State<Collections>, Path(name): Path<String>) -> Response {
    on(&all, &name, |it| {
        Ok(json!({"config": {"params": it.params}, "payload_schema": it.indexes}))
    })
}

async fn remove(State(all): State<Collections>, Path(name): Path<String>) -> Response {
    match all.lock().unwrap().remove(&name) {
        Some(_) => answered(Ok(json!(true))),
        None => answered(refused(StatusCode::NOT_FOUND, "Collection doesn't exist!")),
    }
}

async fn index(
    State(all): State<Collections>,
    Path(name): Path<String>,
    Json(body): Json<Value>,
) -> Response {
    on(&all, &name, |it| {
        let (Some(field), Some("keyword" | "bool" | "integer")) =
            (body["field_name"].as_str(), body["field_schema"].as_str())
        else {
            return refused(StatusCode::BAD_REQUEST, "bad index");
        };
        it.indexes
            .insert(field.into(), json!({"data_type": body["field_schema"]}));
        Ok(json!({"status": "completed"}))
    })
}

async fn upsert(
    State(all): State<Collections>,
    Path(name): Path<String>,
    Json(body): Json<Value>,
) -> Response {
    on(&all, &name, |it| {
        for point in body["points"].as_array().unwrap() {
            for (vector_name, vector) in point["vector"].as_object().unwrap() {
                check_vector(it, vector_name, vector)?;
            }
            it.points
                .insert(point["id"].as_u64().unwrap(), point.clone());
        }
        Ok(json!({"status": "completed"}))
    })
}

async fn delete(
    State(all): State<Collections>,
    Path(name): Path<String>,
    Json(body): Json<Value>,
) -> Response {
    on(&all, &name, |it| {
        match (&body["points"], &body["filter"]) {
            (Value::Array(ids), Value::Null) => it.points.retain(|id, _| !ids.contains(&json!(id))),
            (Value::Null, filter @ Value::Object(_)) => {
                it.points.retain(|_, point| !passes(point, filter))
            }
            _ => return refused(StatusCode::BAD_REQUEST, "bad selector"),
        }
        Ok(json!({"status": "completed"}))
    })
}

async fn count(State(all): State<Collections>, Path(name): Path<String>) -> Response {
    on(&all, &name, |it| Ok(json!({"count": it.points.len()})))
}

async fn query(
    State(all): State<Collections>,
    Path(name): Path<String>,
    Json(body): Json<Value>,
) -> Response {
    on(&all, &name, |it| {
        body["searches"]
            .as_array()
            .unwrap()
            .iter()
            .map(|search| nearest(it, search))
            .collect()
    })
}

fn check_vector(it: &Collection, name: &str, vector: &Value) -> Result<(), (StatusCode, String)> {
    let wanted = it.params["vectors"][name]["size"].as_u64();
    match vector {
        Value::Array(numbers) if wanted == Some(numbers.len() as u64) => Ok(()),
        Value::Object(_) if it.params["sparse_vectors"][name].is_object() => Ok(()),
        _ => refused(
            StatusCode::BAD_REQUEST,
            "Wrong input: Not existing vector name or wrong dimension",
        ),
    }
}

fn nearest(it: &Collection, search: &Value) -> Answer {
    let (asked, using) = (&search["query"], search["using"].as_str().unwrap());
    check_vector(it, using, asked)?;
    let passing = it
        .points
        .values()
        .filter(|point| search["filter"].is_null() || passes(point, &search["filter"]));
    let mut hits: Vec<(f64, &Value)> = passing
        .filter_map(|point| {
            let vector = point["vector"].get(using)?;
            let score = if asked.is_array() {
                cosine(asked, vector)
            } else {
                bm25(it, using, asked, vector)?
            };
            Some((score, point))
        })
        .collect();
    hits.sort_by(|left, right| right.0.total_cmp(&left.0));
    hits.truncate(search["limit"].as_u64().unwrap() as usize);
    let hit = |(score, point): (f64, &Value)| json!({"id": point["id"], "score": score, "payload": point["payload"]});
    Ok(json!({"points": hits.into_iter().map(hit).collect::<Vec<_>>()}))
}

fn numbers(value: &Value) -> Vec<f64> {
    value
        .as_array()
        .unwrap()
        .iter()
        .map(|number| number.as_f64().unwrap())
        .collect()
}

fn cosine(left: &Value, right: &Value) -> f64 {
    let (left, right) = (numbers(left), numbers(right));
    let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
    dot(&left, &right) / (dot(&left, &left) * dot(&right, &right)).sqrt()
}

fn weight(vector: &Value, index: u64) -> Option<f64> {
    let at = vector["indices"]
        .as_array()
        .unwrap()
        .iter()
        .position(|found| found.as_u64() == Some(index))?;
    vector["values"][at].as_f64()
}

/// `None` without a common term.
fn bm25(it: &Collection, using: &str, asked: &Value, said: &Value) -> Option<f64> {
    let shares = asked["indices"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|index| {
            let index = index.as_u64().unwrap();
            let product = weight(asked, index)? * weight(said, index)?;
            let has_term = |point: &&Value| {
                point["vector"]
                    .get(using)
                    .is_some_and(|it| weight(it, index).is_some())
            };
            let (all, with) = (
                it.points.len() as f64,
                it.points.values().filter(has_term).count() as f64,
            );
            Some(product * (1.0 + (all - with + 0.5) / (with + 0.5)).ln())
        });
    shares.reduce(|sum, share| sum + share)
}

fn passes(point: &Value, filter: &Value) -> bool {
    let conditions = filter["must"].as_array().map_or(&[][..], Vec::as_slice);
    conditions.iter().all(|condition| {
        let value = &point["payload"][condition["key"].as_str().unwrap()];
        let range = &condition["range"];
        if range.is_null() {
            return *value == condition["match"]["value"] && !value.is_null();
        }
        let bound = |name: &str| range[name].as_f64();
        let Some(value) = value.as_f64() else {
            return false;
        };
        bound("gte").is_none_or(|least| value >= least)
            && bound("lte").is_none_or(|most| value <= most)
    })
}
