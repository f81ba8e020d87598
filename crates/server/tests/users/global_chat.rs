//! The one global Chat, over real HTTP.

mod access;
mod adaptive;
mod answers;
mod checks;
mod questions;
mod streams;

use codelab_testkit::{INTERNAL_KEY, TestServer, eventually};
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use crate::kit::{Answer, Person, server_with};

/// A server with a user and another program that is an agent.
pub struct Room {
    pub server: TestServer,
    pub user: Person,
    pub program: Person,
}

impl Room {
    pub async fn new() -> Self {
        Self::with(&[]).await
    }

    pub async fn with(settings: &[(&str, &str)]) -> Self {
        let server = server_with(settings).await;
        let user = Person::user(&server, 7);
        let program = Person::with(&server, Some(("x-internal-auth", INTERNAL_KEY.to_owned())));
        Self {
            server,
            user,
            program,
        }
    }

    pub async fn history(&self) -> Vec<Value> {
        self.user
            .get("/chat/history")
            .await
            .expect(200)
            .as_array()
            .unwrap()
            .clone()
    }

    /// `agent ci: built`, in order.
    pub async fn said(&self) -> Vec<String> {
        self.history().await.iter().map(line).collect()
    }

    /// Waits until this is the last thing said.
    pub async fn until_said(&self, last: &str) {
        eventually(last, async || {
            let said = self.said().await;
            if said.last().is_some_and(|said| said == last) {
                Ok(())
            } else {
                Err(said)
            }
        })
        .await;
    }

    /// What the user says; the id of the message.
    pub async fn say(&self, text: &str) -> i64 {
        id(self
            .user
            .post("/chat/user_message", json!({ "text": text }))
            .await)
    }

    pub async fn tell(&self, author: &str, text: &str, tags: &[&str]) -> i64 {
        let body = json!({ "author": author, "text": text, "meta": { "tags": tags } });
        id(self.program.post("/chat/agent_message", body).await)
    }

    /// Asks, while the test does something else. Aborting it hangs up.
    pub fn ask(&self, author: &str, question: &str, timeout_seconds: u64) -> JoinHandle<Answer> {
        let body =
            json!({ "author": author, "question": question, "timeout_seconds": timeout_seconds });
        let program = self.program.clone();
        tokio::spawn(async move { program.post("/chat/ask_user", body).await })
    }
}

fn id(answer: Answer) -> i64 {
    answer.expect(201)["id"].as_i64().unwrap()
}

fn line(message: &Value) -> String {
    let text = |name: &str| message[name].as_str().unwrap_or_default().to_owned();
    format!("{} {}: {}", text("role"), text("author"), text("text"))
}
