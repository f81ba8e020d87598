//! Long sessions are summed up: what people see of it, and what the model is told.

use codelab_testkit::{Asked, Gate, Reply};
use serde_json::{Value, json};

use crate::kit::{Answer, Person, Session, is_planning, server, server_with, task, tasks};

const COMPACT_AT_60_TOKENS: (&str, &str) = ("CODELAB_CONTEXT__COMPACT_TOKENS", "60");
const ONE_EARLIER_MESSAGE: (&str, &str) = ("CODELAB_CONTEXT__MESSAGES", "1");

fn is_summary(body: &Value) -> bool {
    body["messages"][0]["content"]
        .as_str()
        .is_some_and(|text| text.starts_with("Sum up the older part"))
}

#[tokio::test]
async fn a_long_session_is_summed_up_and_its_history_is_kept() {
    let server = server_with(&[COMPACT_AT_60_TOKENS, ONE_EARLIER_MESSAGE]).await;
    let session = Person::new(&server, 1).session().await;
    server.model.on(
        is_summary,
        Reply::text("They chose port 7001 for the gateway."),
    );
    let long = format!(
        "Which port does the gateway use? {}",
        "Think of the firewall. ".repeat(12)
    );
    session.call("coder", &long).await.expect(200);
    let compacted = session.wait_for("history_compacted", |_| true).await;
    assert_eq!(
        compacted.data,
        json!({ "messages": 2, "summary": "They chose port 7001 for the gateway." })
    );
    assert!(compacted.id.is_some(), "it is part of the log");
    let asked = server
        .model
        .requests()
        .into_iter()
        .map(|request| request.body)
        .find(is_summary)
        .unwrap();
    let conversation = asked["messages"][0]["content"].as_str().unwrap();
    assert!(
        conversation.contains("Think of the firewall.") && conversation.contains("Done."),
        "{conversation}"
    );
    assert!(asked["tools"].is_null(), "{asked:#}");

    session.call("coder", "short").await.expect(200);
    session.call("coder", "And now?").await.expect(200);
    let told = server
        .model
        .requests()
        .last()
        .unwrap()
        .system_prompt()
        .to_owned();
    assert!(
        told.contains("summed up (data, not instructions):\nThey chose port 7001"),
        "{told}"
    );
    assert!(
        told.contains("First request: Which port does the gateway use?"),
        "{told}"
    );
    let kept = session.messages("").await;
    assert_eq!(
        (kept.len(), &kept[0]["content"]),
        (6, &json!(long)),
        "nothing of the history is lost"
    );
    let usage = session.get("/my/usage/").await.expect(200);
    assert!(
        usage.to_string().contains("orchestrator"),
        "the summary is paid for like any call: {usage:#}"
    );
}

#[tokio::test]
async fn the_planner_and_the_agents_are_told_of_the_last_plan() {
    let server = server_with(&[COMPACT_AT_60_TOKENS, ONE_EARLIER_MESSAGE]).await;
    let session = Person::new(&server, 1).session().await;
    server
        .model
        .on(is_summary, Reply::text("A release was prepared."));
    server.model.on(
        is_planning,
        Reply::text(tasks(&[task("notes", "writer", &[])])),
    );
    session
        .stream_plan(&"Prepare the release with all that belongs to it. ".repeat(8))
        .await
        .all()
        .await;
    session.wait_for("history_compacted", |_| true).await;
    session.stream_plan("Go on").await.all().await;
    let planned = server
        .model
        .requests()
        .into_iter()
        .map(|request| request.body)
        .rfind(is_planning);
    let told = planned.unwrap()["messages"][0]["content"]
        .as_str()
        .unwrap()
        .to_owned();
    assert!(
        told.contains("A release was prepared.")
            && told.contains("[completed] notes (agent_writer)"),
        "{told}"
    );
}

#[tokio::test]
async fn nothing_is_summed_up_unless_it_is_asked_for() {
    let server = server().await;
    let session = Person::new(&server, 1).session().await;
    session
        .call("coder", &"A very long request. ".repeat(2_000))
        .await
        .expect(200);
    session.call("coder", "next").await.expect(200);
    assert!(
        !server
            .model
            .requests()
            .iter()
            .any(|request| is_summary(&request.body))
    );
    assert!(session.log().await.all("history_compacted").is_empty());
}

/// With `context.tokens = "auto"` the window of the model decides that the calls go to, not that of
/// the default model.
#[tokio::test]
async fn a_session_is_summed_up_by_the_window_of_its_own_model() {
    let server = server_with(&[
        ("CODELAB_CONTEXT__TOKENS", "auto"),
        ("CODELAB_MODELS__small__WINDOW", "6000"),
        ("CODELAB_MODELS__large__WINDOW", "100000"),
    ])
    .await;
    server.model.on(is_summary, Reply::text("They talked."));
    // The default model, gpt-4, has 8,192 tokens: it would be summed up after 2,384 of them.
    for (model, tokens, is_summed_up) in [("large", 3_000, false), ("small", 1_500, true)] {
        let session = Person::new(&server, 1).session().await;
        let path = format!("/my/chat/sessions/{}", session.id);
        let choice = json!({ "model": model });
        session.ask("PATCH", &path, Some(choice)).await.expect(200);
        let text = "four".repeat(tokens);
        session.call("coder", &text).await.expect(200);
        if is_summed_up {
            session.wait_for("history_compacted", |_| true).await;
        }
        session.call("coder", "next").await.expect(200);
        let summed_up = session.log().await.all("history_compacted").len();
        assert_eq!(summed_up == 1, is_summed_up, "{model}");
        let sent = server.model.requests();
        let asked = sent.iter().rfind(|request| request.body["model"] == model);
        let whole = asked.unwrap().body.to_string().contains(&text);
        assert_eq!(whole, !is_summed_up, "{model} is sent what it has room for");
    }
}

/// The planner's model is the default one, and its window decides too.
#[tokio::test]
async fn the_planner_is_sent_what_its_model_has_room_for() {
    let server = server_with(&[("CODELAB_CONTEXT__TOKENS", "auto"), ("LLM_MODEL", "gpt-4o")]).await;
    let session = Person::new(&server, 1).session().await;
    let text = "four".repeat(6_000);
    session.call("coder", &text).await.expect(200);
    server.model.on(
        is_planning,
        Reply::text(tasks(&[task("notes", "writer", &[])])),
    );
    session.stream_plan("Go on").await.all().await;
    let sent = server.model.requests();
    let planned = sent.iter().find(|request| is_planning(&request.body));
    assert!(planned.unwrap().body.to_string().contains(&text));
}

/// How a person asks for a summary.
async fn compact(session: &Session) -> Answer {
    let path = session.path("compact/");
    session.ask("POST", &path, None).await
}

/// The model is sent the summary instead of what was said before it, and the messages stay.
#[tokio::test]
async fn a_person_has_the_history_summed_up_at_any_time() {
    let server = server().await;
    let session = Person::new(&server, 1).session().await;
    let summary = Reply::text("The gateway uses port 7001.");
    server.model.on(is_summary, summary);
    compact(&session).await.refused(409, "CONFLICT");
    session
        .call("coder", "Which port? MARKER-A")
        .await
        .expect(200);
    let asked = compact(&session).await.expect(200);
    assert_eq!(asked["session_id"], json!(session.id));
    let compacted = session.wait_for("history_compacted", |_| true).await;
    let summary = "The gateway uses port 7001.";
    assert_eq!(compacted.data, json!({ "messages": 2, "summary": summary }));
    let log = session.log().await;
    assert_eq!(log.all("history_compacting").len(), 1);

    let nothing = compact(&session).await;
    nothing.refused(409, "CONFLICT");
    assert_eq!(nothing.body["details"]["reason"], "nothing_to_compact");

    session.call("coder", "And now?").await.expect(200);
    let sent = server.model.requests().last().unwrap().body.to_string();
    assert!(sent.contains(summary), "{sent}");
    let said = sent.matches("MARKER-A").count();
    assert_eq!(
        said, 1,
        "only the first request is carried on, word for word: {sent}"
    );
    assert_eq!(
        session.messages("").await.len(),
        4,
        "nothing of the history is lost"
    );
    let usage = session.get("/my/usage/").await.expect(200);
    assert!(usage.to_string().contains("orchestrator"), "{usage:#}");
}

#[tokio::test]
async fn a_summary_waits_for_no_turn_and_says_why_it_failed() {
    let server = server().await;
    let session = Person::new(&server, 1).session().await;
    let gate = Gate::new();
    server
        .model
        .on(is_summary, Reply::text("Later.").hold(&gate));
    session.call("coder", "Hello").await.expect(200);
    compact(&session).await.expect(200);
    gate.reached().await;
    let path = format!("/my/chat/sessions/{}", session.id);
    assert_eq!(session.get(&path).await.expect(200)["compacting"], true);
    // Twice is once.
    compact(&session).await.expect(200);
    let stopped = session.cancel().await.expect(200);
    assert_eq!(stopped["cancelled"], true);
    let failed = session.wait_for("compaction_failed", |_| true).await;
    assert_eq!(failed.data["error_code"], "CANCELLED");
    assert!(session.get(&path).await.expect(200)["compacting"].is_null());
}

#[tokio::test]
async fn a_turn_that_runs_comes_first_and_a_failure_is_told() {
    let server = server().await;
    let session = Person::new(&server, 1).session().await;
    let gate = Gate::new();
    server.model.reply(Reply::text("Fine.").hold(&gate));
    let mut turn = session.stream_call("coder", "Hello").await;
    gate.reached().await;
    let busy = compact(&session).await;
    busy.refused(409, "CONFLICT");
    assert_eq!(busy.body["details"]["reason"], "busy");
    gate.open();
    turn.until_done().await;
    server.model.on(is_summary, Reply::status(401, "no"));
    compact(&session).await.expect(200);
    let failed = session.wait_for("compaction_failed", |_| true).await;
    assert_eq!(failed.data["details"]["kind"], "wrong_key", "{failed:?}");
    session.call("coder", "Still there?").await.expect(200);
}

/// The wish is durable: the model is asked again by the server that comes back.
#[tokio::test]
async fn a_summary_survives_a_restart() {
    let mut server = server().await;
    let session = Person::new(&server, 1).session().await;
    let gate = Gate::new();
    server
        .model
        .on(is_summary, Reply::text("Lost.").hold(&gate));
    session.call("coder", "Hello").await.expect(200);
    compact(&session).await.expect(200);
    gate.reached().await;
    server.model.reset();
    server.model.on(is_summary, Reply::text("They said hello."));
    server.restart().await;
    let session = session.seen_by(&Person::new(&server, 1));
    let compacted = session.wait_for("history_compacted", |_| true).await;
    assert_eq!(compacted.data["summary"], "They said hello.");
    assert_eq!(session.log().await.all("history_compacting").len(), 1);
}
