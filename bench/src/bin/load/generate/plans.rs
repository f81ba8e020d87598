//! Orchestrated requests, one after the other, compared with the time that their model calls need
//! alone.

use std::time::Instant;

use anyhow::{Context as _, ensure};
use hyper::Method;
use memchr::memmem::find_iter;
use serde_json::{Value, json};

use super::{LoadReport, ModelPace, Times};
use crate::model::TASKS;
use crate::wire::{LoadAccess, LoadTarget, Wire};

/// The plan, three layers of tasks, and the joined answer. Each waits for the one before.
const CALLS_IN_A_ROW: u32 = 5;
const MODEL_CALLS: usize = 20;

pub async fn run(
    target: &LoadTarget,
    model: &str,
    count: usize,
    pace: ModelPace,
) -> anyhow::Result<LoadReport> {
    let text = format!(
        "Look at every part of the project. pace:{}:{}",
        pace.first_ms, pace.gap_ms
    );
    let path_ms = critical_path_ms(model, &text).await?;
    let mut wire = Wire::open(target).await?;
    prepare(&mut wire).await?;
    let (mut whole, mut above) = (Vec::new(), Vec::new());
    let began = Instant::now();
    // The first request opens the connections to the model.
    for at in 0..=count {
        let session: Value = wire
            .json(Method::POST, "/my/chat/sessions/", "{}".to_owned())
            .await?;
        let session = session["session_id"]
            .as_str()
            .context("the new session has no id")?;
        let body = json!({ "content": text }).to_string();
        let path = format!("/my/chat/{session}/message/");
        let streamed = wire
            .stream(&path, body, b"task_started", b"event: workflow_completed")
            .await?;
        let completed = find_iter(&wire.body, b"event: task_completed").count();
        ensure!(
            completed == TASKS,
            "{completed} of {TASKS} tasks completed: {}",
            wire.text()
        );
        if at > 0 {
            whole.push(streamed.whole);
            above.push(streamed.whole.saturating_sub(path_ms));
        }
    }
    let seconds = began.elapsed().as_secs_f64();
    Ok(LoadReport {
        count,
        seconds,
        first_ms: Times::of(above),
        whole_ms: Times::of(whole),
        growth: None,
    })
}

/// The time of the calls that wait for each other, without CodeLab between them and the model.
async fn critical_path_ms(model: &str, text: &str) -> anyhow::Result<std::time::Duration> {
    let mut wire = Wire::open(&LoadTarget {
        addr: model.to_owned(),
        access: LoadAccess::Nobody,
    })
    .await?;
    let body = json!({ "stream": true, "messages": [{ "role": "user", "content": text }] });
    let body = body.to_string();
    let mut times = Vec::new();
    for _ in 0..MODEL_CALLS {
        times.push(
            wire.stream("/v1/chat/completions", body.clone(), b"content", b"[DONE]")
                .await?
                .whole,
        );
    }
    times.sort_unstable();
    Ok(times[times.len() / 2] * CALLS_IN_A_ROW)
}

/// An agent with slots for a whole layer. The agents of the starter pack have four each.
async fn prepare(wire: &mut Wire) -> anyhow::Result<()> {
    let list: Value = wire
        .json(Method::GET, "/my/projects/", String::new())
        .await?;
    let project = list["projects"][0]["project_id"]
        .as_i64()
        .context("the answer has no default project")?;
    let agent = json!({ "name": "wide", "concurrency_limit": 64 }).to_string();
    let _agent: Value = wire
        .json(
            Method::POST,
            &format!("/my/projects/{project}/agents/"),
            agent,
        )
        .await?;
    Ok(())
}
