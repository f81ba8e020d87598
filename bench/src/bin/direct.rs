//! `direct`: how long direct calls take with many sessions at once, from the request to the start
//! of the work and to the answer. The model answers at once, so the time is CodeLab's own.

#![allow(clippy::print_stdout, reason = "a benchmark says what it measured")]

use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use clap::Parser;
use codelab_client::{SseDecoder, SseEvent};
use codelab_fakemodel::{FakeModel, Reply};
use codelab_testkit::TestServer;
use serde_json::{Value, json};

const START_GOAL_MS: f64 = 100.0;
const ANSWER_GOAL_MS: f64 = 2000.0;
const MAX_EVENT_BYTES: usize = 1024 * 1024;

/// One user sends what many users would.
const UNBOUNDED: [(&str, &str); 5] = [
    ("CODELAB_LIMITS__USER_REQUESTS_PER_SECOND", "0"),
    ("CODELAB_LIMITS__USER_SESSIONS_PER_MINUTE", "0"),
    ("CODELAB_LIMITS__USER_TURNS", "0"),
    ("CODELAB_LIMITS__USER_MODEL_CALLS", "0"),
    ("CODELAB_LIMITS__USER_STREAMS", "0"),
];

/// Direct calls of many sessions at once, over HTTP and server-sent events.
#[derive(Parser)]
struct Options {
    /// Sessions that send messages at the same time
    #[arg(long, default_value_t = 64)]
    sessions: usize,
    /// Messages of each session, one after the other
    #[arg(long, default_value_t = 50)]
    messages: usize,
}

/// One call: from its request to the start of the work, and to the answer.
struct Call {
    started: Duration,
    answered: Duration,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let options = Options::parse();
    ensure!(
        options.sessions > 0 && options.messages > 0,
        "--sessions and --messages must be positive"
    );
    let server = TestServer::with(&UNBOUNDED).await;
    answer_at_once(&server.model);
    let user = User {
        http: reqwest::Client::new(),
        url: server.url.clone(),
        token: server.token(1),
    };
    user.wide_agent().await?;
    let mut sessions = Vec::new();
    for _ in 0..options.sessions {
        sessions.push(user.session().await?);
    }
    // One call for each session first, so that every connection is open and every session is in
    // memory.
    measure(&user, &sessions, 1).await?;
    let began = Instant::now();
    let calls = measure(&user, &sessions, options.messages).await?;
    let rate = calls.len() as f64 / began.elapsed().as_secs_f64();
    println!(
        "{} sessions at once, {} direct calls, {rate:.0} calls/s",
        options.sessions,
        calls.len()
    );
    println!("one user without per-user limits (limits.user_* = 0)");
    println!("| from a request to | P50 | P95 | goal at P95 |");
    println!("|---|---|---|---|");
    row(
        "the start of the work (`agent_status_changed`)",
        calls.iter().map(|call| call.started),
        START_GOAL_MS,
    );
    row(
        "the answer (`task_completed`)",
        calls.iter().map(|call| call.answered),
        ANSWER_GOAL_MS,
    );
    Ok(())
}

fn answer_at_once(model: &FakeModel) {
    model.default_reply(Reply::text("Done."));
}

async fn measure(user: &User, sessions: &[String], messages: usize) -> anyhow::Result<Vec<Call>> {
    let mut talking = Vec::new();
    for session in sessions {
        let (user, session) = (user.clone(), session.clone());
        talking.push(tokio::spawn(async move {
            let mut calls = Vec::with_capacity(messages);
            for _ in 0..messages {
                calls.push(user.call(&session).await?);
            }
            anyhow::Ok(calls)
        }));
    }
    let mut all = Vec::new();
    for session in talking {
        all.extend(session.await??);
    }
    Ok(all)
}

#[derive(Clone)]
struct User {
    http: reqwest::Client,
    url: String,
    token: String,
}

impl User {
    /// An agent with slots for all calls. The agents of the starter pack have four each.
    async fn wide_agent(&self) -> anyhow::Result<()> {
        let list = self
            .http
            .get(format!("{}/my/projects/", self.url))
            .bearer_auth(&self.token)
            .send()
            .await?;
        let list: Value = serde_json::from_slice(&list.bytes().await?)?;
        let project = list["projects"][0]["project_id"]
            .as_i64()
            .context("the answer has no default project")?;
        let agent = json!({ "name": "wide", "concurrency_limit": 64 });
        self.post(&format!("/my/projects/{project}/agents/"), agent)
            .await?;
        Ok(())
    }

    async fn session(&self) -> anyhow::Result<String> {
        let made = self.post("/my/chat/sessions/", json!({})).await?;
        Ok(made["session_id"]
            .as_str()
            .context("the new session has no id")?
            .to_owned())
    }

    async fn post(&self, path: &str, body: Value) -> anyhow::Result<Value> {
        let answer = self.request(path, body).send().await?;
        let status = answer.status();
        let body = answer.bytes().await?;
        ensure!(
            status.is_success(),
            "{path}: {status} {}",
            String::from_utf8_lossy(&body)
        );
        Ok(serde_json::from_slice(&body)?)
    }

    fn request(&self, path: &str, body: Value) -> reqwest::RequestBuilder {
        let request = self
            .http
            .post(format!("{}{path}", self.url))
            .bearer_auth(&self.token);
        request
            .header("content-type", "application/json")
            .body(body.to_string())
    }

    async fn call(&self, session: &str) -> anyhow::Result<Call> {
        let body = json!({ "content": "Say that it is done", "target_agent": "wide" });
        let asked = Instant::now();
        let request = self.request(&format!("/my/chat/{session}/message/"), body);
        let mut answer = request.header("accept", "text/event-stream").send().await?;
        ensure!(
            answer.status().is_success(),
            "a call got {}",
            answer.status()
        );
        let (mut decoder, mut ready) = (
            SseDecoder::new(MAX_EVENT_BYTES),
            std::collections::VecDeque::<SseEvent>::new(),
        );
        let (mut started, mut answered) = (None, None);
        while let Some(bytes) = answer.chunk().await? {
            decoder.push(&bytes, &mut ready)?;
            for event in ready.drain(..) {
                match event.event.as_str() {
                    "agent_status_changed" => drop(started.get_or_insert_with(|| asked.elapsed())),
                    "task_completed" => answered = Some(asked.elapsed()),
                    _ => {}
                }
            }
        }
        let started = started.context("a call did not report that its agent started")?;
        Ok(Call {
            started,
            answered: answered.context("a call ended without an answer")?,
        })
    }
}

fn row(what: &str, times: impl Iterator<Item = Duration>, goal_ms: f64) {
    let mut times: Vec<Duration> = times.collect();
    times.sort();
    let at = |share: usize| times[(times.len() - 1) * share / 100].as_secs_f64() * 1000.0;
    let verdict = if at(95) < goal_ms { "" } else { ": **missed**" };
    println!(
        "| {what} | {:.1} ms | {:.1} ms | < {goal_ms:.0} ms{verdict} |",
        at(50),
        at(95)
    );
}
