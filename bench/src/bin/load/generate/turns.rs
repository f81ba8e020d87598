//! Turns, each worker one after the other.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use memchr::memmem::find;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio::sync::Barrier;

use super::{LoadReport, ModelPace, Rhythm, Times};
use crate::wire::{LoadTarget, Streamed, Wire};

const COMPLETED: &[u8] = br#""status":"completed""#;
const DELTA: &[u8] = b"assistant_delta";
/// Before a session with history is measured, it gets as many messages as a prompt carries.
const HISTORY_TURNS: usize = 5;

#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub enum TurnKind {
    /// For the relay: the body goes to the model unchanged.
    Limit,
    /// A new session for each turn.
    Fresh,
    /// A number of sessions with history, each used again and again.
    Reused { sessions: usize },
    /// A new session for each turn, with a tool call whose result is posted back.
    Tool,
}

#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub enum RunUntil {
    Seconds(f64),
    Count(usize),
    /// A number of turns, with the rate of the first and of the last `window` turns.
    Growth {
        count: usize,
        window: usize,
    },
}

#[derive(Default)]
struct Seen {
    first: Vec<Duration>,
    whole: Vec<Duration>,
    /// When each turn ended, counted from the start.
    ends: Vec<Duration>,
}

struct Loop {
    target: LoadTarget,
    kind: TurnKind,
    workers: usize,
    until: RunUntil,
    pace: ModelPace,
    rhythm: Rhythm,
    prefix: String,
    taken: AtomicUsize,
}

pub async fn run(
    target: &LoadTarget,
    kind: TurnKind,
    workers: usize,
    until: RunUntil,
    (pace, rhythm): (ModelPace, Rhythm),
    prefix: &str,
) -> anyhow::Result<LoadReport> {
    let the_loop = Arc::new(Loop {
        target: target.clone(),
        kind,
        workers,
        until,
        pace,
        rhythm,
        prefix: prefix.to_owned(),
        taken: AtomicUsize::new(0),
    });
    let start = Arc::new(Barrier::new(workers + 1));
    let mut running = Vec::with_capacity(workers);
    for worker in 0..workers {
        running.push(tokio::spawn(the_loop.clone().work(worker, start.clone())));
    }
    // One pause when all sessions are ready, and one after the parent has measured.
    start.wait().await;
    super::pause_for_parent()?;
    start.wait().await;
    let began = Instant::now();
    let mut all = Seen::default();
    for worker in running {
        let seen = worker.await??;
        all.first.extend(seen.first);
        all.whole.extend(seen.whole);
        all.ends.extend(seen.ends);
    }
    let seconds = began.elapsed().as_secs_f64();
    let growth = match until {
        RunUntil::Growth { window, .. } => growth(&mut all.ends, window),
        RunUntil::Seconds(_) | RunUntil::Count(_) => None,
    };
    let (first_ms, whole_ms) = (Times::of(all.first), Times::of(all.whole));
    Ok(LoadReport {
        count: all.ends.len(),
        seconds,
        first_ms,
        whole_ms,
        growth,
    })
}

/// Turns per second in the first and in the last window. One window passes before the first one is
/// measured, so that connections, caches and the first pages of the database are warm.
fn growth(ends: &mut [Duration], window: usize) -> Option<(f64, f64)> {
    ends.sort_unstable();
    let rate = |from: usize| {
        let took = ends.get(from + window)?.saturating_sub(*ends.get(from)?);
        Some(window as f64 / took.as_secs_f64())
    };
    Some((rate(window)?, rate(ends.len().checked_sub(window + 1)?)?))
}

impl Loop {
    async fn work(self: Arc<Self>, worker: usize, start: Arc<Barrier>) -> anyhow::Result<Seen> {
        let mut wire = Wire::open(&self.target).await?;
        let mut seen = Seen::default();
        let prepared = self.prepare(&mut wire, worker).await;
        start.wait().await;
        start.wait().await;
        prepared?;
        let began = Instant::now();
        for turn in 0.. {
            self.wait_for_turn(began, worker, turn).await;
            let Some(number) = self.next(began) else {
                break;
            };
            let session = self.session(worker, number);
            let Streamed { first, whole } = self.turn(&mut wire, &session).await?;
            seen.first.push(first);
            seen.whole.push(whole);
            seen.ends.push(began.elapsed());
        }
        Ok(seen)
    }

    async fn wait_for_turn(&self, began: Instant, worker: usize, turn: u32) {
        if let Rhythm::EveryMs(every) = self.rhythm {
            let every = Duration::from_millis(every);
            let offset = every * worker as u32 / self.workers as u32;
            tokio::time::sleep_until((began + offset + every * turn).into()).await;
        }
    }

    /// The number of the next turn, unless the run is over.
    fn next(&self, began: Instant) -> Option<usize> {
        let number = self.taken.fetch_add(1, Ordering::Relaxed);
        let goes_on = match self.until {
            RunUntil::Seconds(seconds) => began.elapsed().as_secs_f64() < seconds,
            RunUntil::Count(count) | RunUntil::Growth { count, .. } => number < count,
        };
        goes_on.then_some(number)
    }

    async fn prepare(&self, wire: &mut Wire, worker: usize) -> anyhow::Result<()> {
        let TurnKind::Reused { sessions } = self.kind else {
            return Ok(());
        };
        for session in (worker..sessions).step_by(self.workers) {
            for _ in 0..HISTORY_TURNS {
                self.plain(wire, &format!("{}-{session}", self.prefix))
                    .await?;
            }
        }
        Ok(())
    }

    fn session(&self, worker: usize, number: usize) -> String {
        let place = match self.kind {
            // A worker uses only its own sessions, so that none waits for the turn of another.
            TurnKind::Reused { sessions } => {
                let own = sessions.div_ceil(self.workers);
                (worker + (number % own) * self.workers) % sessions
            }
            TurnKind::Limit | TurnKind::Fresh | TurnKind::Tool => number,
        };
        format!("{}-{place}", self.prefix)
    }

    async fn turn(&self, wire: &mut Wire, session: &str) -> anyhow::Result<Streamed> {
        match self.kind {
            TurnKind::Limit => {
                let body = json!({ "model": "bench", "stream": true,
                    "messages": [{ "role": "user", "content": self.text("") }] });
                wire.stream("/turn", body.to_string(), b"content", b"[DONE]")
                    .await
            }
            TurnKind::Fresh | TurnKind::Reused { .. } => self.plain(wire, session).await,
            TurnKind::Tool => self.with_tool(wire, session).await,
        }
    }

    async fn plain(&self, wire: &mut Wire, session: &str) -> anyhow::Result<Streamed> {
        let body =
            json!({ "session_id": session, "agent_type": "coder", "message": self.text("") });
        wire.stream("/agent/message/stream", body.to_string(), DELTA, COMPLETED)
            .await
    }

    async fn with_tool(&self, wire: &mut Wire, session: &str) -> anyhow::Result<Streamed> {
        let body = json!({ "session_id": session, "agent_type": "coder", "message": self.text("act:tool") });
        let asked = wire
            .stream(
                "/agent/message/stream",
                body.to_string(),
                b"tool_call",
                br#""status":"awaiting_tool_result""#,
            )
            .await?;
        let call = call_id(&wire.body).with_context(|| format!("no call id: {}", wire.text()))?;
        let result = json!({ "success": true, "content": "fn main() {}\n", "size": 13 });
        let body = json!({ "session_id": session, "message_type": "tool_result", "tool_call_id": call,
            "tool_result": result });
        let ended = wire
            .stream("/agent/message/stream", body.to_string(), DELTA, COMPLETED)
            .await?;
        Ok(Streamed {
            first: asked.first,
            whole: asked.whole + ended.whole,
        })
    }

    fn text(&self, act: &str) -> String {
        let ModelPace { first_ms, gap_ms } = self.pace;
        format!("Explain what this function does. pace:{first_ms}:{gap_ms} {act}")
    }
}

fn call_id(stream: &[u8]) -> Option<String> {
    const NAME: &[u8] = br#""call_id":""#;
    let rest = &stream[find(stream, NAME)? + NAME.len()..];
    let end = rest.iter().position(|byte| *byte == b'"')?;
    Some(String::from_utf8_lossy(&rest[..end]).into_owned())
}
