//! `kill -9` at the moments a person would notice most.

use codelab_client::Method;
use codelab_fakemodel::{Gate, Reply};
use codelab_protocol::{AgentStreamRequest, ClientMessageId, Role, TurnStatus};
use codelab_testkit::{SeenEvents, eventually, message, tool_result};
use serde_json::json;

use crate::chat::Chat;
use crate::lab::{Lab, now, to_coder};

#[tokio::test]
async fn a_message_accepted_just_before_a_kill_exists_once_and_is_answered() {
    let mut lab = Lab::start().await;
    let gate = Gate::new();
    lab.model.route_to("coder");
    lab.model
        .default_reply(Reply::text("Here you are.").hold(&gate));
    let request = AgentStreamRequest {
        client_message_id: Some(ClientMessageId::parse("only-once").unwrap()),
        ..message("s1", "write it down")
    };
    // The answer's head says that the message is accepted; nothing of the body is awaited.
    let accepted = lab
        .client()
        .send(&request)
        .await
        .expect("the message is accepted");
    lab.kill().await;
    drop(accepted);

    lab.boot().await;
    assert_eq!(lab.said_by(Role::User, "s1").await, ["write it down"]);
    gate.open();
    let seen = lab.until_done("s1", 0).await;
    assert_eq!(seen.status(), TurnStatus::Completed);

    // A caller that never saw its answer sends again, and finds the same turn.
    let again = lab.send(&request).await;
    assert_eq!(again.status(), TurnStatus::Completed);
    assert_eq!(again.ids(), seen.ids());
    assert_eq!(lab.said_by(Role::User, "s1").await, ["write it down"]);
    assert_eq!(lab.said_by(Role::Assistant, "s1").await, ["Here you are."]);
    lab.log("s1").await;
}

#[tokio::test]
async fn a_kill_in_the_middle_of_an_answer_leaves_exactly_one_whole_answer() {
    let mut lab = Lab::start().await;
    let (first, second) = (Gate::new(), Gate::new());
    lab.model.reply(
        Reply::text("half of an answer that nobody will ever read to its end")
            .hold_after_deltas(4, &first),
    );
    lab.model
        .reply(Reply::text("the whole answer, second time").hold_after_deltas(3, &second));

    let mut stream = lab.client().send(&to_coder("s1", "tell me")).await.unwrap();
    first.reached().await;
    let before = SeenEvents::until(&mut stream, |event| event.id.is_none()).await;
    let shown = before.deltas()[0].clone();
    assert!(shown.content.starts_with("half"), "{shown:?}");
    lab.crash().await;

    // A reader that comes back sees the new attempt replace the old text.
    let last_id = before.ids().last().copied().unwrap_or(0);
    let mut stream = lab
        .client()
        .events(&codelab_testkit::id("s1"), Some(last_id), true)
        .await
        .unwrap();
    second.reached().await;
    let mut after = SeenEvents::until(&mut stream, |event| event.id.is_none()).await;
    let repeated = after.deltas()[0].clone();
    assert_eq!(
        (repeated.message_id, repeated.offset),
        (shown.message_id, 0)
    );
    assert!(
        repeated.attempt > shown.attempt,
        "{} after {}",
        repeated.attempt,
        shown.attempt
    );
    second.open();
    after
        .events
        .extend(SeenEvents::until_done(&mut stream).await.events);

    assert_eq!(after.status(), TurnStatus::Completed);
    assert_eq!(after.streamed_text(), "the whole answer, second time");
    assert_eq!(lab.said_by(Role::User, "s1").await, ["tell me"]);
    assert_eq!(
        lab.said_by(Role::Assistant, "s1").await,
        ["the whole answer, second time"]
    );
    assert_eq!(lab.model.request_count(), 2, "the call was repeated once");
    let story = lab.log("s1").await.story();
    assert_eq!(
        story
            .iter()
            .filter(|word| word.starts_with("assistant_message"))
            .count(),
        1,
        "{story:?}"
    );
}

#[tokio::test]
async fn an_approval_outlives_a_kill_and_every_tool_call_keeps_its_result() {
    // Shorter than what a restart must leave to decide.
    let mut lab = Lab::with(&[("CODELAB_LIMITS__APPROVAL_TIMEOUT_SECONDS", "20")]).await;
    lab.model
        .reply(Reply::tool_call("read_file", json!({"path": "notes.txt"})));
    lab.model.reply(Reply::tool_call(
        "write_file",
        json!({"path": "notes.txt", "content": "new"}),
    ));
    lab.model.reply(Reply::text("Written."));

    let read = lab.say("s1", "change my notes").await;
    assert_eq!(read.status(), TurnStatus::AwaitingToolResult);
    let read_call = read.call_id();
    let asked = lab
        .send(&tool_result(
            "s1",
            &read_call,
            json!({"success": true, "content": "old"}),
        ))
        .await;
    assert_eq!(asked.status(), TurnStatus::AwaitingApproval);
    let before = lab.pending("s1").await;
    assert_eq!(before.len(), 1);
    lab.crash().await;

    let after = lab.pending("s1").await;
    assert_eq!(after.len(), 1);
    assert_eq!(
        (
            &after[0].call_id,
            &after[0].digest,
            &after[0].arguments,
            after[0].created_at
        ),
        (
            &before[0].call_id,
            &before[0].digest,
            &before[0].arguments,
            before[0].created_at
        )
    );
    let left_ms = after[0].expires_at.unwrap().millis_since(now());
    assert!(
        left_ms > 25_000,
        "at least 30 s from the start were left to decide, now {left_ms} ms"
    );
    // The first call's result is stored: the same one again is a repeat, another one is refused.
    let repeat = lab
        .send(&tool_result(
            "s1",
            &read_call,
            json!({"success": true, "content": "old"}),
        ))
        .await;
    assert_eq!(repeat.status(), TurnStatus::AwaitingApproval);
    let other = lab
        .client()
        .send(&tool_result(
            "s1",
            &read_call,
            json!({"success": true, "content": "x"}),
        ))
        .await;
    assert_eq!(crate::lab::refusal(other), (409, "CONFLICT".to_owned()));

    let write_call = after[0].call_id.clone();
    let approved = lab.approve("s1", &write_call).await;
    assert_eq!(approved.story(), ["tool_call write_file"]);
    assert!(approved.tool_call().approved);
    lab.crash().await;
    let end = lab
        .send(&tool_result(
            "s1",
            &write_call,
            json!({"success": true, "size": 3}),
        ))
        .await;
    assert_eq!(end.status(), TurnStatus::Completed);
    assert!(lab.pending("s1").await.is_empty());

    let results = lab.said_by(Role::Tool, "s1").await;
    assert_eq!(results.len(), 2, "{results:?}");
    let told = lab.model.requests().pop().unwrap().body["messages"].to_string();
    assert!(
        told.contains(r#"\"content\":\"old\""#) && told.contains(r#"\"size\":3"#),
        "{told}"
    );
    let audit = lab
        .client()
        .audit(&codelab_testkit::id("s1"))
        .await
        .unwrap();
    assert!(audit.verified);
    assert_eq!(
        audit
            .audit
            .iter()
            .map(|row| row.decision.as_str())
            .collect::<Vec<_>>(),
        ["APPROVE"]
    );
}

/// What was streamed when a person stopped a turn is stored before the stop is acknowledged. What
/// was streamed when the server was killed is not: the call is made again.
#[tokio::test]
async fn a_stopped_answer_outlives_a_kill_and_a_killed_one_does_not() {
    let mut lab = Lab::start().await;
    let chat = Chat::new(&lab).await;
    let said = async |lab: &Lab| {
        let path = format!("/my/chat/{}/messages/?role=assistant", chat.id);
        chat.get(lab, &path).await["messages"]
            .as_array()
            .unwrap()
            .clone()
    };
    let gate = Gate::new();
    lab.model
        .reply(Reply::text("half of an answer that a person stops").hold_after_deltas(4, &gate));
    let asked = json!({ "content": "tell me", "target_agent": "coder" });
    let path = format!("/my/chat/{}/message/", chat.id);
    let stops = async {
        chat.answer_begins(&lab).await;
        chat.post(&lab, "cancel", json!({})).await;
    };
    let (answer, ()) = tokio::join!(chat.ask(&lab, Method::POST, &path, Some(asked)), stops);
    assert_eq!(answer.0, 409, "{}", answer.1);
    lab.crash().await;
    let kept = said(&lab).await;
    assert_eq!(
        (kept.len(), &kept[0]["reason"]),
        (1, &json!("stopped")),
        "{kept:?}"
    );
    assert!(kept[0]["content"].as_str().unwrap().starts_with("half"));

    let gate = Gate::new();
    lab.model
        .reply(Reply::text("half of an answer that nobody reads").hold_after_deltas(4, &gate));
    lab.model.reply(Reply::text("the whole answer"));
    let asked = json!({ "content": "once more", "target_agent": "coder" });
    let send = chat.ask(&lab, Method::POST, &path, Some(asked));
    tokio::select! {
        answer = send => panic!("{answer:?}"),
        () = gate.reached() => {}
    }
    lab.crash().await;
    eventually("the call is made again", async || {
        let kept = said(&lab).await;
        if kept.len() == 2 { Ok(()) } else { Err(kept) }
    })
    .await;
    let kept = said(&lab).await;
    assert_eq!(
        (&kept[1]["content"], kept[1].get("partial")),
        (&json!("the whole answer"), None)
    );
}
