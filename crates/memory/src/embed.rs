//! Meaning as dense vectors: the client of an OpenAI-compatible `/v1/embeddings`.
//!
//! An embedding model that fails never fails an interaction or a search: callers get `None` and
//! search by words only. A model that failed is not called for a while, so that not every search
//! waits for its timeout.

use std::fmt;
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Duration;

use ::http::Method;
use codelab_transport::NetworkOptions;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::Semaphore;
use tokio::time::Instant;

use crate::OptionsError;
use crate::http::{Http, HttpAuth};
use crate::point::DenseLayout;

/// Texts sent to the model at once.
const MAX_EMBED_BATCH: usize = 64;
/// Only the beginning of a longer text is sent, because models refuse texts beyond their window.
const MAX_EMBED_CHARS: usize = 8000;
/// Requests to the model at the same time.
const MAX_CALLS: usize = 8;
/// What a Qdrant collection can hold.
const MAX_DIMENSIONS: usize = 65_536;

#[derive(Clone)]
pub struct EmbedderOptions {
    /// The address of the model server, with or without `/v1` at its end.
    pub url: String,
    /// Name and value of the header that carries the key.
    pub auth_header: Option<(String, String)>,
    pub model: String,
    /// Time limit of one request. After it, a search uses words only.
    pub timeout: Duration,
    /// How long a model that failed is not called.
    pub pause: Duration,
    /// Proxies, and certificates to trust.
    pub network: NetworkOptions,
}

impl EmbedderOptions {
    pub fn new(url: impl Into<String>, model: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            auth_header: None,
            model: model.into(),
            timeout: Duration::from_secs(5),
            pause: Duration::from_secs(15),
            network: NetworkOptions::default(),
        }
    }
}

impl fmt::Debug for EmbedderOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EmbedderOptions")
            .field("url", &self.url)
            .field("model", &self.model)
            .finish_non_exhaustive()
    }
}

pub struct Embedder {
    http: Http,
    model: String,
    pause: Duration,
    /// Set by the first answer. Answers of another size are refused.
    layout: OnceLock<DenseLayout>,
    paused_until: Mutex<Option<Instant>>,
    calls: Semaphore,
}

/// One vector for each text, in order.
pub(crate) struct Embedded {
    pub layout: DenseLayout,
    pub vectors: Vec<Vec<f32>>,
}

#[derive(Deserialize)]
struct Answer {
    data: Vec<AnswerItem>,
}

#[derive(Deserialize)]
struct AnswerItem {
    index: usize,
    embedding: Vec<f32>,
}

impl Embedder {
    pub fn new(options: EmbedderOptions) -> Result<Self, OptionsError> {
        let base = options.url.trim().trim_end_matches('/');
        let base = base.strip_suffix("/v1").unwrap_or(base);
        let auth = options
            .auth_header
            .map(|(name, value)| HttpAuth::new(&name, &value))
            .transpose()?;
        Ok(Self {
            http: Http::new(base, auth, options.timeout, &options.network)?,
            model: options.model,
            pause: options.pause,
            layout: OnceLock::new(),
            paused_until: Mutex::default(),
            calls: Semaphore::new(MAX_CALLS),
        })
    }

    /// The vector of each text, in order, for callers that compare texts without a collection.
    /// `None` where the model failed.
    pub async fn vectors(&self, texts: &[&str]) -> Option<Vec<Vec<f32>>> {
        self.embed(texts).await.map(|embedded| embedded.vectors)
    }

    pub(crate) fn known_layout(&self) -> Option<DenseLayout> {
        self.layout.get().cloned()
    }

    /// Asks the model if it was never heard.
    pub(crate) async fn layout(&self) -> Option<DenseLayout> {
        match self.layout.get() {
            Some(layout) => Some(layout.clone()),
            None => self.embed(&["size"]).await.map(|embedded| embedded.layout),
        }
    }

    pub(crate) fn is_paused(&self) -> bool {
        let paused_until = *self
            .paused_until
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        paused_until.is_some_and(|time| Instant::now() < time)
    }

    /// `None` where the model failed for any of the texts.
    pub(crate) async fn embed(&self, texts: &[&str]) -> Option<Embedded> {
        if self.is_paused() {
            return None;
        }
        let mut vectors = Vec::with_capacity(texts.len());
        for batch in texts.chunks(MAX_EMBED_BATCH) {
            match self.ask(batch).await {
                Ok(answer) => vectors.extend(answer),
                Err(reason) => {
                    tracing::warn!(
                        model = self.model,
                        reason,
                        "embedding model failed, memory is searched by words only"
                    );
                    self.pause_until(Instant::now().checked_add(self.pause));
                    return None;
                }
            }
        }
        self.pause_until(None);
        self.known_layout()
            .map(|layout| Embedded { layout, vectors })
    }

    fn pause_until(&self, time: Option<Instant>) {
        *self
            .paused_until
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = time;
    }

    async fn ask(&self, texts: &[&str]) -> Result<Vec<Vec<f32>>, String> {
        let input: Vec<&str> = texts.iter().map(|text| beginning(text)).collect();
        let body = json!({"model": self.model, "input": input, "encoding_format": "float"});
        let _permit = self
            .calls
            .acquire()
            .await
            .map_err(|error| error.to_string())?;
        let called = self
            .http
            .call(Method::POST, "/v1/embeddings", Some(body))
            .await;
        let (status, answer) = called.map_err(|failure| failure.to_string())?;
        if !status.is_success() {
            // Its text is not repeated: a server may quote the key in it.
            return Err(format!("it answered {status}"));
        }
        self.read(answer, texts.len())
    }

    fn read(&self, answer: Value, wanted: usize) -> Result<Vec<Vec<f32>>, String> {
        let mut answer: Answer =
            serde_json::from_value(answer).map_err(|error| error.to_string())?;
        answer.data.sort_by_key(|item| item.index);
        let size = answer.data.first().map_or(0, |item| item.embedding.len());
        let is_whole = |(at, item): (usize, &AnswerItem)| {
            item.index == at
                && item.embedding.len() == size
                && item.embedding.iter().all(|value| value.is_finite())
        };
        let is_proper = answer.data.len() == wanted && answer.data.iter().enumerate().all(is_whole);
        if !is_proper || !(1..=MAX_DIMENSIONS).contains(&size) {
            return Err("it answered with something else than one vector for each text".into());
        }
        let layout = self
            .layout
            .get_or_init(|| DenseLayout::new(&self.model, size));
        if layout.size != size {
            return Err(format!(
                "it answered with {size} numbers instead of {}",
                layout.size
            ));
        }
        Ok(answer.data.into_iter().map(|item| item.embedding).collect())
    }
}

fn beginning(text: &str) -> &str {
    text.char_indices()
        .nth(MAX_EMBED_CHARS)
        .map_or(text, |(end, _)| &text[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vectors_are_taken_in_order_or_refused() {
        let embedder =
            Embedder::new(EmbedderOptions::new("http://model/v1/", "m")).expect("good options");
        let item = |index: usize, vector: Value| json!({"index": index, "embedding": vector});
        let vectors = |items: &[Value], wanted| embedder.read(json!({"data": items}), wanted);
        assert!(vectors(&[], 0).is_err(), "a size must be known");
        assert_eq!(
            vectors(&[item(1, json!([3, 4])), item(0, json!([1, 2.5]))], 2),
            Ok(vec![vec![1.0, 2.5], vec![3.0, 4.0]])
        );
        for (items, wanted) in [
            (vec![item(0, json!([1, 2]))], 2),
            (vec![item(0, json!([1, 2])), item(0, json!([1, 2]))], 2),
            (vec![item(0, json!([1, 2])), item(1, json!([1]))], 2),
            (vec![item(0, json!([1, 1e300]))], 1),
            (vec![item(0, json!([1, null]))], 1),
            (vec![item(0, json!([1, 2, 3]))], 1),
        ] {
            assert!(vectors(&items, wanted).is_err(), "{items:?}");
        }
    }

    #[test]
    fn a_key_is_never_shown_and_a_long_text_is_cut() {
        let auth_header = Some(("authorization".into(), "canary".into()));
        let options = EmbedderOptions {
            auth_header,
            ..EmbedderOptions::new("http://model", "m")
        };
        assert!(!format!("{options:?}").contains("canary"));
        assert_eq!(beginning("слово"), "слово");
        assert_eq!(
            beginning(&"ж".repeat(MAX_EMBED_CHARS + 1)),
            "ж".repeat(MAX_EMBED_CHARS)
        );
    }
}
