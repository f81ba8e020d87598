//! An embedding model over real HTTP whose meanings are known, and that can be switched off.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::routing::post;
use axum::{Json, Router};
use codelab_memory::{Embedder, EmbedderOptions};
use serde_json::{Value, json};
use tokio::net::TcpListener;

const KEY: &str = "Bearer canary";
/// Each is known by any of its words.
const MEANINGS: [&[&str]; 3] = [
    &["car", "automobile"],
    &["doctor", "physician"],
    &["bug", "defect"],
];

pub struct Model {
    url: String,
    switches: Arc<Switches>,
}

#[derive(Default)]
struct Switches {
    is_down: AtomicBool,
    calls: AtomicUsize,
}

impl Model {
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/v1", listener.local_addr().unwrap());
        let switches = Arc::new(Switches::default());
        let router = Router::new()
            .route("/v1/embeddings", post(embed))
            .with_state(switches.clone());
        tokio::spawn(async move { axum::serve(listener, router).await });
        Self { url, switches }
    }

    pub fn set_down(&self, is_down: bool) {
        self.switches.is_down.store(is_down, Ordering::Relaxed);
    }

    pub fn calls(&self) -> usize {
        self.switches.calls.load(Ordering::Relaxed)
    }

    pub fn client(&self, pause: Duration) -> Embedder {
        self.client_of("test/meanings", pause)
    }

    pub fn client_of(&self, model: &str, pause: Duration) -> Embedder {
        let auth_header = Some(("authorization".to_owned(), KEY.to_owned()));
        Embedder::new(EmbedderOptions {
            auth_header,
            pause,
            ..EmbedderOptions::new(&self.url, model)
        })
        .unwrap()
    }
}

async fn embed(
    State(switches): State<Arc<Switches>>,
    headers: HeaderMap,
    Json(body): Json<Value>,
) -> Result<Json<Value>, StatusCode> {
    switches.calls.fetch_add(1, Ordering::Relaxed);
    if headers
        .get("authorization")
        .is_none_or(|value| value != KEY)
    {
        return Err(StatusCode::UNAUTHORIZED);
    }
    if switches.is_down.load(Ordering::Relaxed) {
        return Err(StatusCode::SERVICE_UNAVAILABLE);
    }
    let texts = body["input"].as_array().unwrap();
    let data = texts.iter().enumerate().map(|(index, text)| {
        let text = text.as_str().unwrap();
        let has = |words: &&[&str]| if words.iter().any(|word| text.contains(word)) { 1.0 } else { 0.01 };
        json!({"object": "embedding", "index": index, "embedding": MEANINGS.iter().map(has).collect::<Vec<f32>>()})
    });
    Ok(Json(
        json!({"object": "list", "model": body["model"], "data": data.collect::<Vec<_>>()}),
    ))
}
