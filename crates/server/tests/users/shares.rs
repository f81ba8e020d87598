//! What one user may have of the server, and what the others have meanwhile.

use std::collections::BTreeSet;

use codelab_testkit::{
    Client, Credentials, Gate, INTERNAL_KEY, Method, Reply, TestServer, eventually,
    skipped_through_another,
};
use serde_json::json;

use crate::kit::{Answer, Person, metric, server_with};

/// Refused for its share, with the setting that bounds it and when to come back.
fn beyond(answer: &Answer, setting: &str) {
    answer.refused(429, "RATE_LIMITED");
    assert_eq!(
        answer.body["details"]["setting"], setting,
        "{}",
        answer.body
    );
    let wait = answer
        .raw
        .headers
        .get("retry-after")
        .and_then(|value| value.to_str().ok()?.parse::<u64>().ok());
    assert!(wait.is_some_and(|seconds| seconds >= 1), "{wait:?}");
}

/// Others, whoever watches the server, and whoever operates it.
async fn all_others_are_served(server: &TestServer) {
    let other = Person::user(server, 2);
    other.get("/my/projects/").await.expect(200);
    let stranger = Person::stranger(server);
    for path in ["/health", "/health/ready", "/health/live"] {
        stranger.get(path).await.expect(200);
    }
    let operator = Client::new(
        &server.url,
        Credentials::InternalKey(INTERNAL_KEY.to_owned()),
    )
    .unwrap();
    for path in ["/metrics", "/sessions", "/agents"] {
        let answer = operator
            .raw(Method::GET, path, &[], String::new())
            .await
            .unwrap();
        assert_eq!(answer.status, 200, "{path}");
    }
}

#[tokio::test]
async fn requests_of_one_user_are_bounded_on_every_route() {
    if skipped_through_another("the server where a request enters counts what it refuses") {
        return;
    }
    let server = server_with(&[("CODELAB_LIMITS__USER_REQUESTS_PER_SECOND", "5")]).await;
    let greedy = Person::user(&server, 1);
    let paths = [
        "/my/projects/",
        "/my/chat/sessions/",
        "/chat/history",
        "/my/usage/",
    ];
    let (mut refused, mut refused_at) = (0, BTreeSet::new());
    for path in paths.iter().cycle().take(40) {
        let answer = greedy.get(path).await;
        if answer.status != 200 {
            beyond(&answer, "limits.user_requests_per_second");
            refused += 1;
            refused_at.insert(*path);
        }
    }
    // Forty requests at once pass a limit of five a second, each route a part of them.
    assert_eq!(refused_at, BTreeSet::from(paths));
    all_others_are_served(&server).await;
    eventually("the user is served again", async || {
        let answer = greedy.get("/my/projects/").await;
        if answer.status == 200 {
            Ok(())
        } else {
            Err(answer.status)
        }
    })
    .await;
    assert!(
        metric(&server, "codelab_user_refusals_total{outcome=\"requests\"}").await
            >= f64::from(refused)
    );
}

#[tokio::test]
async fn sessions_of_one_user_are_bounded() {
    let server = server_with(&[("CODELAB_LIMITS__USER_SESSIONS_PER_MINUTE", "3")]).await;
    let greedy = Person::user(&server, 1);
    let project = greedy.project("p").await;
    for _ in 0..3 {
        greedy.session(project).await;
    }
    // What is wrong is said first, and costs nothing.
    let wrong = greedy
        .post("/my/chat/sessions/", json!({ "project_id": 4711 }))
        .await;
    wrong.refused(404, "PROJECT_NOT_FOUND");
    let refused = greedy
        .post("/my/chat/sessions/", json!({ "project_id": project }))
        .await;
    beyond(&refused, "limits.user_sessions_per_minute");
    let other = Person::user(&server, 2);
    other.session(other.project("p").await).await;
    all_others_are_served(&server).await;
}

#[tokio::test]
async fn turns_of_one_user_are_bounded_while_they_work() {
    let server = server_with(&[("CODELAB_LIMITS__USER_TURNS", "2")]).await;
    let gate = Gate::new();
    server.model.on(
        |body| body.to_string().contains("do it"),
        Reply::text("Done.").hold(&gate),
    );
    server
        .model
        .default_reply(Reply::tool_call("read_file", json!({ "path": "a" })));
    let greedy = Person::user(&server, 1);
    let project = greedy.project("p").await;
    // One that waits for a tool works no more, and does not count.
    let suspended = greedy.session(project).await;
    assert_eq!(
        greedy.say(&suspended, "coder", "look").await.expect(200)["status"],
        "awaiting_tool_result"
    );
    let (first, second, third) = (
        greedy.session(project).await,
        greedy.session(project).await,
        greedy.session(project).await,
    );
    let working = [
        greedy.saying(&first, "coder"),
        greedy.saying(&second, "coder"),
    ];
    server.model.wait_until_in_flight(2).await;
    beyond(
        &greedy.say(&third, "coder", "do it").await,
        "limits.user_turns",
    );
    let history = greedy
        .get(&format!("/my/chat/{third}/messages/"))
        .await
        .expect(200);
    assert_eq!(history["total"], 0, "what was refused was not said");
    // A session that works takes another message, behind the first.
    let queued = greedy.saying(&first, "coder");
    let other = Person::user(&server, 2);
    let their = other.session(other.project("p").await).await;
    let theirs = other.saying(&their, "coder");
    server.model.wait_until_in_flight(3).await;
    all_others_are_served(&server).await;
    gate.open();
    for said in working.into_iter().chain([queued, theirs]) {
        said.await.unwrap().expect(200);
    }
    greedy.say(&third, "coder", "do it").await.expect(200);
}

#[tokio::test]
async fn streams_of_one_user_are_bounded_and_free_when_they_end() {
    if skipped_through_another("each server counts the streams that it serves") {
        return;
    }
    let server = server_with(&[("CODELAB_LIMITS__USER_STREAMS", "2")]).await;
    server.model.default_reply(Reply::text("Done."));
    let greedy = Person::user(&server, 1);
    let project = greedy.project("p").await;
    let session = greedy.session(project).await;
    let client = Client::new(&server.url, Credentials::Bearer(server.token(1))).unwrap();
    let all = client.user_events(None).await.unwrap();
    let one = client
        .project_session_events(&codelab_testkit::id(&session), None, true)
        .await
        .unwrap();
    for path in [
        "/my/events/".to_owned(),
        format!("/my/chat/{session}/events/"),
        "/chat/stream".to_owned(),
    ] {
        beyond(&greedy.get(&path).await, "limits.user_streams");
    }
    // A message that asks for a stream is refused before it is accepted; one that does not is
    // answered.
    let message = json!({ "content": "hello", "target_agent": "coder" });
    let path = format!("/my/chat/{session}/message/");
    let streamed = greedy
        .ask_with(
            "POST",
            &path,
            Some(message.clone()),
            &[("accept", "text/event-stream")],
        )
        .await;
    beyond(&streamed, "limits.user_streams");
    let history = greedy
        .get(&format!("/my/chat/{session}/messages/"))
        .await
        .expect(200);
    assert_eq!(history["total"], 0);
    greedy.post(&path, message).await.expect(200);
    all_others_are_served(&server).await;
    drop((all, one));
    eventually("the slots are free", async || {
        let answer = greedy
            .get(&format!("/my/chat/{session}/events/?follow=false"))
            .await;
        if answer.status == 200 {
            Ok(())
        } else {
            Err(answer.status)
        }
    })
    .await;
}

/// The clock of a call that waits stands still: it would be over before it began.
#[tokio::test]
async fn a_model_call_beyond_the_share_waits_and_its_clock_with_it() {
    let settings = [
        ("CODELAB_LIMITS__USER_MODEL_CALLS", "1"),
        ("CODELAB_LIMITS__DIRECT_TIMEOUT_SECONDS", "4"),
    ];
    let server = server_with(&settings).await;
    let gate = Gate::new();
    server.model.reply(Reply::text("Too late.").hold(&gate));
    server.model.default_reply(Reply::text("Done."));
    let greedy = Person::user(&server, 1);
    let project = greedy.project("p").await;
    let (first, second) = (greedy.session(project).await, greedy.session(project).await);
    let slow = greedy.saying(&first, "coder");
    server.model.wait_until_in_flight(1).await;
    let waiting = greedy.saying(&second, "coder");
    eventually("the second call waits", async || {
        let waiting = metric(&server, "codelab_waiting_model_calls").await;
        if waiting == 1.0 { Ok(()) } else { Err(waiting) }
    })
    .await;
    let other = Person::user(&server, 2);
    let their = other.session(other.project("p").await).await;
    other.say(&their, "coder", "do it").await.expect(200);
    all_others_are_served(&server).await;
    slow.await.unwrap().expect(504);
    waiting.await.unwrap().expect(200);
    gate.open();
}
