//! Readers of sessions' events: first idle, then with events that others cause.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use http_body_util::BodyExt as _;
use memchr::memmem::find_iter;
use serde_json::json;
use tokio::sync::{Mutex, RwLock, mpsc};

use super::{LoadReport, Times};
use crate::wire::{LoadTarget, Wire};

const POSTERS: usize = 32;
const TICK: Duration = Duration::from_millis(10);
const OPENING: usize = 64;
/// After the last event was posted, all events must arrive within this time.
const LAST_ONES: Duration = Duration::from_secs(10);
const SWITCH: &[u8] = br#""type":"switch_agent""#;

/// A session that readers follow.
struct Watched {
    id: String,
    /// Held while an event is posted, so that events arrive in the order of their due times.
    posts: Mutex<usize>,
    /// When each event was due.
    due: RwLock<Vec<Instant>>,
}

pub async fn run(
    target: &LoadTarget,
    sessions: usize,
    readers: usize,
    events_per_second: usize,
    seconds: f64,
    prefix: &str,
) -> anyhow::Result<LoadReport> {
    let watched: Vec<Arc<Watched>> = (0..sessions)
        .map(|at| {
            let (id, posts, due) = (format!("{prefix}-{at}"), Mutex::new(0), RwLock::default());
            Arc::new(Watched { id, posts, due })
        })
        .collect();
    let mut wire = Wire::open(target).await?;
    for session in &watched {
        session.switch(&mut wire, None).await?;
    }
    super::pause_for_parent()?;
    let (times, mut arrived) = mpsc::unbounded_channel();
    open_readers(target, &watched, readers, &times).await?;
    drop(times);
    super::pause_for_parent()?;

    let posted = post(target, &watched, events_per_second, seconds).await?;
    let wanted = posted * readers / sessions;
    let mut delivered = Vec::with_capacity(wanted);
    let collecting = async {
        while delivered.len() < wanted {
            delivered.push(arrived.recv().await.context("the streams ended")?);
        }
        anyhow::Ok(())
    };
    let all = tokio::time::timeout(LAST_ONES, collecting).await;
    ensure!(
        all.is_ok(),
        "{} of {wanted} events arrived",
        delivered.len()
    );
    Ok(LoadReport {
        count: delivered.len(),
        seconds,
        whole_ms: Times::of(delivered),
        ..LoadReport::default()
    })
}

/// Spreads readers evenly over the sessions. Some connect at the same time.
async fn open_readers(
    target: &LoadTarget,
    watched: &[Arc<Watched>],
    readers: usize,
    times: &mpsc::UnboundedSender<Duration>,
) -> anyhow::Result<()> {
    let mut opening = tokio::task::JoinSet::new();
    for at in 0..readers {
        let (target, session, times) = (
            target.clone(),
            watched[at % watched.len()].clone(),
            times.clone(),
        );
        opening.spawn(async move {
            let mut wire = Wire::open(&target).await?;
            let mut events = wire
                .follow(&format!("/sessions/{}/events?after=1", session.id))
                .await?;
            tokio::spawn(async move {
                let mut seen = 0;
                while let Some(Ok(frame)) = events.frame().await {
                    let Ok(data) = frame.into_data() else {
                        continue;
                    };
                    for _ in find_iter(&data, SWITCH) {
                        let late = session.due.read().await.get(seen).map(Instant::elapsed);
                        let _counted = late.map(|late| times.send(late));
                        seen += 1;
                    }
                }
                drop(wire);
            });
            anyhow::Ok(())
        });
        if opening.len() >= OPENING
            && let Some(opened) = opening.join_next().await
        {
            opened??;
        }
    }
    while let Some(opened) = opening.join_next().await {
        opened??;
    }
    Ok(())
}

/// Posts events at a steady rate. Each delay counts from the due time, so that falling behind shows
/// as a delay.
async fn post(
    target: &LoadTarget,
    watched: &[Arc<Watched>],
    per_second: usize,
    seconds: f64,
) -> anyhow::Result<usize> {
    let (give, take) = mpsc::channel::<(Arc<Watched>, Instant)>(watched.len());
    let take = Arc::new(Mutex::new(take));
    let mut posters = tokio::task::JoinSet::new();
    for _ in 0..POSTERS {
        let (mut wire, take) = (Wire::open(target).await?, take.clone());
        posters.spawn(async move {
            loop {
                let Some((session, due)) = take.lock().await.recv().await else {
                    return anyhow::Ok(());
                };
                session.switch(&mut wire, Some(due)).await?;
            }
        });
    }
    let total = (per_second as f64 * seconds) as usize / watched.len() * watched.len();
    let began = Instant::now();
    let mut ticks = tokio::time::interval(TICK);
    let mut posted = 0;
    while posted < total {
        ticks.tick().await;
        let due_by_now = (began.elapsed().as_secs_f64() * per_second as f64) as usize;
        while posted < due_by_now.min(total) {
            let due = began + Duration::from_secs_f64(posted as f64 / per_second as f64);
            give.send((watched[posted % watched.len()].clone(), due))
                .await?;
            posted += 1;
        }
    }
    drop(give);
    while let Some(poster) = posters.join_next().await {
        poster??;
    }
    Ok(total)
}

impl Watched {
    /// Switching to the same agent would cause no event.
    async fn switch(&self, wire: &mut Wire, due: Option<Instant>) -> anyhow::Result<()> {
        let mut posts = self.posts.lock().await;
        *posts += 1;
        self.due.write().await.extend(due);
        let agent = if posts.is_multiple_of(2) {
            "ask"
        } else {
            "coder"
        };
        let body =
            json!({ "session_id": self.id, "message_type": "switch_agent", "agent_type": agent });
        wire.stream("/agent/message/stream", body.to_string(), SWITCH, SWITCH)
            .await?;
        Ok(())
    }
}
