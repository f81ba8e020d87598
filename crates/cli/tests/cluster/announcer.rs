//! A program that speaks in the Chat. What it said stays while nobody is killed, and the ids only
//! grow, whoever owns the Chat.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use codelab_client::{Client, ClientError, Method};
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::workload::rng::Rng;

const MAX_PAUSE_MS: u64 = 600;
const CREATED: u16 = 201;
const HISTORY: &str = "/chat/history?limit=10000";
const RETRIES: u32 = 40;
const RETRY_PAUSE: Duration = Duration::from_millis(250);

pub struct Announcer {
    client: Client,
    said: Mutex<Said>,
    over: watch::Sender<bool>,
}

#[derive(Default)]
struct Said {
    /// What was acknowledged since messages may last have been lost, by id.
    kept: Vec<(u64, String)>,
    last_id: u64,
    count: u64,
    violations: Vec<String>,
}

impl Announcer {
    pub fn new(client: Client) -> Arc<Self> {
        Arc::new(Self {
            client,
            said: Mutex::default(),
            over: watch::Sender::new(false),
        })
    }

    fn said(&self) -> MutexGuard<'_, Said> {
        self.said.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Speaks now and then, until `end`.
    pub async fn busy(self: Arc<Self>, mut rng: Rng) {
        self.over.send_replace(false);
        let mut over = self.over.subscribe();
        while !*over.borrow() {
            let pause = Duration::from_millis(rng.below(MAX_PAUSE_MS));
            let is_over = tokio::time::timeout(pause, over.wait_for(|over| *over))
                .await
                .is_ok();
            if !is_over {
                self.speak().await;
            }
        }
    }

    pub fn end(&self) {
        self.over.send_replace(true);
    }

    async fn speak(&self) {
        let text = {
            let mut said = self.said();
            said.count += 1;
            format!("note {}", said.count)
        };
        let body = json!({"author": "announcer", "text": text}).to_string();
        let headers = [("content-type", "application/json")];
        let answer = self
            .client
            .raw(Method::POST, "/chat/agent_message", &headers, body)
            .await;
        let mut said = self.said();
        match answer {
            Ok(answer) if answer.status == CREATED => {
                let posted: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
                let id = posted["id"].as_u64().unwrap_or_default();
                if id <= said.last_id {
                    let last = said.last_id;
                    said.violations
                        .push(format!("the Chat gave the id {id} after {last}"));
                }
                said.last_id = id;
                said.kept.push((id, text));
            }
            Ok(answer) if matches!(answer.status, 502 | 503) => {}
            Err(ClientError::Connect(_) | ClientError::Cut(_)) => {}
            Ok(answer) => {
                let body = String::from_utf8_lossy(&answer.body).into_owned();
                said.violations
                    .push(format!("the Chat answered {}: {body}", answer.status));
            }
            Err(error) => said.violations.push(format!("the Chat: {error}")),
        }
    }

    /// Everything that was acknowledged is there, in order, unless the Chat's owner may have been
    /// killed since.
    pub async fn check(&self, may_be_lost: bool) -> Result<(), String> {
        let history = self.history().await?;
        let mut said = self.said();
        if let Some(violation) = said.violations.first() {
            return Err(violation.clone());
        }
        let ids: Vec<u64> = history.iter().map(|(id, _)| *id).collect();
        if !ids.is_sorted_by(|one, next| one < next) {
            return Err(format!("the Chat's ids do not grow: {ids:?}"));
        }
        if may_be_lost {
            said.kept.clear();
            return Ok(());
        }
        match said.kept.iter().find(|kept| !history.contains(kept)) {
            None => Ok(()),
            Some((id, text)) => Err(format!(
                "the Chat lost message {id}, {text:?}; it has {} messages",
                history.len()
            )),
        }
    }

    async fn history(&self) -> Result<Vec<(u64, String)>, String> {
        let mut seen = String::new();
        for _ in 0..RETRIES {
            match self.client.raw(Method::GET, HISTORY, &[], "").await {
                Ok(answer) if answer.status == 200 => {
                    let all: Vec<Value> =
                        serde_json::from_slice(&answer.body).map_err(|error| error.to_string())?;
                    let read = |message: &Value| {
                        let text = message["text"].as_str().unwrap_or_default().to_owned();
                        (message["id"].as_u64().unwrap_or_default(), text)
                    };
                    return Ok(all.iter().map(read).collect());
                }
                Ok(answer) => seen = String::from_utf8_lossy(&answer.body).into_owned(),
                Err(error) => seen = error.to_string(),
            }
            tokio::time::sleep(RETRY_PAUSE).await;
        }
        Err(format!("the Chat cannot be read: {seen}"))
    }
}
