//! A stop that was asked for: within its grace, with what runs either finished or left to be
//! resumed.

use std::time::{Duration, Instant};

use codelab_fakemodel::{Gate, Reply};
use codelab_protocol::{Role, TurnStatus};
use codelab_testkit::SeenEvents;
use serde_json::json;

use crate::chat::{Chat, is_planning, last_message, statuses, task};
use crate::lab::{Lab, to_coder};

/// What the server gives to model calls and to open connections when it stops, and a slow machine
/// on top.
const GRACE: Duration = Duration::from_secs(10 + 5 + 5);

#[tokio::test]
async fn a_stop_lets_a_flowing_answer_finish() {
    let mut lab = Lab::start().await;
    let words = "one two three four five six seven eight nine ten";
    lab.model
        .reply(Reply::text(words).with_delay_per_delta(Duration::from_millis(50)));
    let mut stream = lab.client().send(&to_coder("s1", "count")).await.unwrap();
    let mut log = lab
        .client()
        .events(&codelab_testkit::id("s1"), None, true)
        .await
        .unwrap();
    SeenEvents::until(&mut stream, |event| event.id.is_none()).await;

    let readers = tokio::spawn(async move {
        (
            SeenEvents::until_done(&mut stream).await.status(),
            SeenEvents::until_done(&mut log).await.status(),
        )
    });
    stop(&mut lab).await;
    assert_eq!(
        readers.await.unwrap(),
        (TurnStatus::Completed, TurnStatus::Completed),
        "readers see the end"
    );
    lab.boot().await;
    assert_eq!(
        lab.until_done("s1", 0).await.status(),
        TurnStatus::Completed
    );
    assert_eq!(lab.said_by(Role::User, "s1").await, ["count"]);
    assert_eq!(lab.said_by(Role::Assistant, "s1").await, [words]);
    assert_eq!(lab.model.request_count(), 1, "the call was not thrown away");
    lab.log("s1").await;
}

#[tokio::test]
async fn a_stop_does_not_wait_for_ever_and_the_turn_goes_on_at_the_next_start() {
    let mut lab = Lab::start().await;
    let never = Gate::new();
    lab.model
        .reply(Reply::text("an answer that stops in its middle").hold_after_deltas(3, &never));
    lab.model.reply(Reply::text("the whole answer"));
    let mut stream = lab.client().send(&to_coder("s1", "tell me")).await.unwrap();
    SeenEvents::until(&mut stream, |event| event.id.is_none()).await;

    stop(&mut lab).await;
    lab.boot().await;
    assert_eq!(
        lab.until_done("s1", 0).await.status(),
        TurnStatus::Completed
    );
    assert_eq!(lab.said_by(Role::User, "s1").await, ["tell me"]);
    assert_eq!(
        lab.said_by(Role::Assistant, "s1").await,
        ["the whole answer"]
    );
    lab.log("s1").await;
}

#[tokio::test]
async fn a_stop_does_not_fail_the_tasks_that_come_next() {
    let mut lab = Lab::start().await;
    let tasks = [
        task("first", "coder", "Do the first.", &[]),
        task("second", "writer", "Do the second.", &["first"]),
    ];
    let slowly = Duration::from_millis(100);
    lab.model.default_reply(Reply::text("Joined."));
    lab.model.on(
        |body| last_message(body) == "Do the first.",
        Reply::text("one two three four five six").with_delay_per_delta(slowly),
    );
    lab.model.on(
        |body| last_message(body).starts_with("Do the second."),
        Reply::text("The second is done."),
    );
    lab.model.on(
        is_planning,
        Reply::text(json!({ "tasks": tasks }).to_string()),
    );
    let chat = Chat::new(&lab).await;
    chat.post(
        &lab,
        "message/",
        json!({ "content": "Both, one after the other" }),
    )
    .await;
    lab.model.wait_for_requests(2).await;

    // The first task's answer ends within the grace; the second task is not called any more.
    stop(&mut lab).await;
    assert_eq!(lab.model.request_count(), 2);
    lab.boot().await;
    let plan = chat
        .plan_that_is(&lab, &["completed", "partial", "failed"])
        .await;
    assert_eq!(
        (&plan["status"], statuses(&plan)),
        (&json!("completed"), vec!["completed", "completed"]),
        "{plan}"
    );
    assert_eq!(chat.last_said(&lab).await, "Joined.");
    let started = chat
        .log(&lab)
        .await
        .iter()
        .filter(|event| event["type"] == "task_started")
        .count();
    assert_eq!(started, 2, "each task began once");
}

#[tokio::test]
async fn a_stop_ends_open_event_streams() {
    let mut lab = Lab::start().await;
    lab.model.default_reply(Reply::text("Done."));
    let mut streams = Vec::new();
    for session in ["s1", "s2", "s3"] {
        lab.say(session, "do it").await;
        let mut stream = lab
            .client()
            .events(&codelab_testkit::id(session), None, true)
            .await
            .unwrap();
        SeenEvents::until_done(&mut stream).await;
        streams.push(stream);
    }
    let begun = Instant::now();
    stop(&mut lab).await;
    // Nothing ran, so nothing was waited for.
    assert!(
        begun.elapsed() < Duration::from_secs(4),
        "{:?}",
        begun.elapsed()
    );
    for mut stream in streams {
        let next = stream.next().await;
        assert!(next.is_none(), "the stream ends cleanly: {next:?}");
    }
}

/// SIGTERM, and a clean end in time.
async fn stop(lab: &mut Lab) {
    let server = lab.take_server();
    let begun = Instant::now();
    server.terminate().await;
    let status = server.ended().await;
    assert_eq!(status.code(), Some(0), "{status:?}");
    assert!(begun.elapsed() < GRACE, "{:?}", begun.elapsed());
}
