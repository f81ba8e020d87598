//! A thousand sessions that wait for a person, through a kill.

use std::sync::Arc;
use std::time::{Duration, Instant};

use codelab_client::Client;
use codelab_fakemodel::Reply;
use codelab_protocol::{CallId, TurnStatus};
use codelab_testkit::{SeenEvents, id};
use serde_json::json;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::lab::{Lab, approval, now, to_coder};

const SESSIONS: usize = 1_000;
const AT_ONCE: usize = 64;
/// The goal is 2 s on a machine with two cores of its own; a busy one may take longer.
const HEALTHY_WITHIN: Duration = Duration::from_secs(10);

#[tokio::test]
async fn a_thousand_suspended_sessions_are_back_after_a_kill() {
    let mut lab = Lab::start().await;
    lab.model.default_reply(Reply::tool_call(
        "write_file",
        json!({"path": "a.txt", "content": "x"}),
    ));
    let client = lab.client().clone();
    let asked = each_session(move |session| suspend(client.clone(), session)).await;
    lab.crash().await;

    let healthy_after = lab.server().healthy_after;
    println!(
        "healthy {} ms after the start, with {SESSIONS} suspended sessions",
        healthy_after.as_millis()
    );
    assert!(healthy_after < HEALTHY_WITHIN, "{healthy_after:?}");

    let begun = Instant::now();
    let client = lab.client().clone();
    let asked = Arc::new(asked);
    let decided =
        each_session(move |session| decide(client.clone(), session, Arc::clone(&asked))).await;
    println!(
        "{} approvals decided in {} ms",
        decided.len(),
        begun.elapsed().as_millis()
    );
    let metrics = lab.client().metrics().await.unwrap();
    let approved = metrics
        .lines()
        .find(|line| line.starts_with("codelab_approvals") && line.contains("approve\""));
    assert!(
        approved.is_some_and(|line| line.ends_with(&format!(" {SESSIONS}"))),
        "{approved:?}"
    );
}

async fn suspend(client: Client, session: usize) -> CallId {
    let seen = SeenEvents::all(
        client
            .send(&to_coder(&name(session), "write it"))
            .await
            .unwrap(),
    )
    .await;
    assert_eq!(seen.status(), TurnStatus::AwaitingApproval);
    seen.call_id()
}

async fn decide(client: Client, session: usize, asked: Arc<Vec<CallId>>) -> CallId {
    let name = name(session);
    let pending = client
        .pending_approvals(&id(&name))
        .await
        .unwrap()
        .pending_approvals;
    assert_eq!(
        pending
            .iter()
            .map(|approval| &approval.call_id)
            .collect::<Vec<_>>(),
        [&asked[session]],
        "{name}"
    );
    let left_ms = pending[0].expires_at.unwrap().millis_since(now());
    assert!(left_ms >= 30_000, "{name} has {left_ms} ms left");
    let seen = SeenEvents::all(
        client
            .send(&approval(&name, &asked[session]))
            .await
            .unwrap(),
    )
    .await;
    assert_eq!(
        (seen.status(), seen.call_id()),
        (TurnStatus::AwaitingToolResult, asked[session].clone()),
        "{name}"
    );
    asked[session].clone()
}

fn name(session: usize) -> String {
    format!("session-{session}")
}

/// One task per session, a bounded number at once; the results are in the order of the sessions.
async fn each_session<F>(work: impl Fn(usize) -> F) -> Vec<CallId>
where
    F: Future<Output = CallId> + Send + 'static,
{
    let places = Arc::new(Semaphore::new(AT_ONCE));
    let mut tasks = JoinSet::new();
    for session in 0..SESSIONS {
        let (places, work) = (Arc::clone(&places), work(session));
        tasks.spawn(async move {
            let _place = places.acquire().await.unwrap();
            (session, work.await)
        });
    }
    let mut results = tasks.join_all().await;
    results.sort_by_key(|(session, _)| *session);
    results.into_iter().map(|(_, result)| result).collect()
}
