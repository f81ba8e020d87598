//! One turn at a time per session: waiting messages, a full queue, cancel and reset, and messages
//! sent twice.

use std::sync::Arc;

use codelab_protocol::{
    AckStatus, AgentStreamRequest, ClientMessageId, HitlDecision, Role, TurnStatus,
};
use codelab_testkit::{
    Asked, ClientError, EventStream, Gate, Method, Reply, SeenEvents, TestServer, hitl_decision,
    id, message, message_to, tool_result,
};
use serde_json::json;

/// A session with the coder pinned, whose first turn stands at the gate.
async fn busy(server: &TestServer, session: &str, gate: &Gate) -> EventStream {
    server.model.reply(Reply::text("First answer.").hold(gate));
    let first = message_to("coder", session, "first");
    let stream = server.open(&first).await;
    gate.reached().await;
    stream
}

fn named(name: &str, request: AgentStreamRequest) -> AgentStreamRequest {
    AgentStreamRequest {
        client_message_id: Some(ClientMessageId::parse(name).unwrap()),
        ..request
    }
}

async fn said(server: &TestServer, session: &str) -> Vec<String> {
    let history = server.history(session).await.into_iter();
    history
        .filter(|message| message.role == Role::User)
        .map(|message| message.content)
        .collect()
}

fn cancelled() -> (Vec<String>, TurnStatus) {
    (vec!["error CANCELLED".to_owned()], TurnStatus::Cancelled)
}

#[tokio::test]
async fn waiting_messages_run_in_order_and_each_stream_shows_its_own_turn_only() {
    let server = TestServer::start().await;
    let gate = Gate::new();
    let first = busy(&server, "order", &gate).await;
    let mut waiting = Vec::new();
    for text in ["second", "third", "fourth"] {
        server
            .model
            .reply(Reply::text(format!("Answer to {text}.")));
        waiting.push((text, server.open(&message("order", text)).await));
    }
    assert_eq!(
        said(&server, "order").await,
        ["first"],
        "a waiting message is not yet part of the conversation"
    );
    gate.open();
    assert_eq!(
        SeenEvents::all(first).await.story(),
        [
            "switch_agent coder",
            "assistant_message coder",
            "completion"
        ]
    );
    let mut last_id = 3;
    for (text, stream) in waiting {
        let seen = SeenEvents::all(stream).await;
        assert_eq!(seen.story(), ["assistant_message coder", "completion"]);
        assert_eq!(seen.answer().content, format!("Answer to {text}."));
        assert_eq!(
            seen.ids(),
            [last_id + 1, last_id + 2],
            "from its own turn on"
        );
        last_id += 2;
    }
    assert_eq!(
        said(&server, "order").await,
        ["first", "second", "third", "fourth"]
    );
    let last = server.steps().pop().unwrap();
    let roles = [
        "user",
        "assistant",
        "user",
        "assistant",
        "user",
        "assistant",
        "user",
    ];
    assert_eq!(last.roles()[1..], roles, "each turn knows those before it");
}

#[tokio::test]
async fn a_message_waits_for_a_suspended_turn_too() {
    let server = TestServer::start().await;
    server.model.reply(Reply::tool_call(
        "write_file",
        json!({"path": "a.py", "content": "x"}),
    ));
    let asked = server.say_to("suspended", "coder", "write").await;
    let mut waiting = server.open(&message("suspended", "and then?")).await;
    server.approve("suspended", &asked.call_id()).await;
    server.model.reply(Reply::text("Written."));
    server.model.reply(Reply::text("Then nothing."));
    let done = server
        .result("suspended", &asked.call_id(), json!("ok"))
        .await;
    assert_eq!(done.answer().content, "Written.");
    let next = SeenEvents::until_done(&mut waiting).await;
    assert_eq!(next.answer().content, "Then nothing.");
    assert_eq!(next.ids()[0], done.ids().last().unwrap() + 1);
}

#[tokio::test]
async fn an_agent_named_with_a_waiting_message_is_pinned_when_its_turn_comes() {
    let server = TestServer::start().await;
    let gate = Gate::new();
    let first = busy(&server, "named", &gate).await;
    server.model.reply(Reply::text("Because."));
    let second = AgentStreamRequest {
        agent_type: Some("ask".to_owned()),
        ..message("named", "why?")
    };
    let second = server.open(&second).await;
    assert_eq!(server.current_agent("named").await, "coder");
    gate.open();
    assert_eq!(
        SeenEvents::all(first)
            .await
            .story()
            .last()
            .map(String::as_str),
        Some("completion")
    );
    assert_eq!(
        SeenEvents::all(second).await.story(),
        ["switch_agent ask", "assistant_message ask", "completion"]
    );
    assert_eq!(server.current_agent("named").await, "ask");
}

#[tokio::test]
async fn what_waits_is_bounded_in_bytes() {
    let server = TestServer::start().await;
    let gate = Gate::new();
    let first = busy(&server, "long", &gate).await;
    server.model.default_reply(Reply::text("Next answer."));
    let long = "x".repeat(800_000);
    let second = server.open(&message("long", &long)).await;
    let error = server
        .client
        .send(&message("long", &long))
        .await
        .unwrap_err();
    assert_eq!(
        error.error_code().map(|code| code.as_str()),
        Some("QUEUE_FULL")
    );
    let third = server.open(&message("long", "a short one")).await;
    gate.open();
    for stream in [first, second, third] {
        assert_eq!(
            SeenEvents::all(stream).await.status(),
            TurnStatus::Completed
        );
    }
}

#[tokio::test]
async fn ten_messages_wait_and_the_next_is_refused_until_there_is_room() {
    let server = TestServer::start().await;
    let gate = Gate::new();
    let first = busy(&server, "full", &gate).await;
    server.model.default_reply(Reply::text("Next answer."));
    let mut waiting = Vec::new();
    for number in 0..10 {
        waiting.push(
            server
                .open(&message("full", &format!("waiting {number}")))
                .await,
        );
    }
    let surplus = named("surplus", message("full", "one too many"));
    match server.client.send(&surplus).await.unwrap_err() {
        error @ ClientError::Status {
            status: 429,
            retry_after_seconds: Some(1..),
            ..
        } => {
            assert_eq!(
                error.error_code().map(|code| code.as_str()),
                Some("QUEUE_FULL")
            );
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(
        server.say_to("elsewhere", "coder", "hi").await.status(),
        TurnStatus::Completed
    );

    gate.open();
    SeenEvents::all(first).await;
    for stream in waiting {
        assert_eq!(
            SeenEvents::all(stream).await.status(),
            TurnStatus::Completed
        );
    }
    assert_eq!(
        server.send(&surplus).await.status(),
        TurnStatus::Completed,
        "a refused message was not accepted"
    );
    let texts = said(&server, "full").await;
    assert_eq!((texts.len(), texts[11].as_str()), (12, "one too many"));
}

#[tokio::test]
async fn cancel_ends_the_turn_and_the_queue_goes_on() {
    let server = TestServer::start().await;
    let gate = Gate::new();
    let first = busy(&server, "cancel", &gate).await;
    let second_gate = Gate::new();
    server
        .model
        .reply(Reply::text("Second answer.").hold(&second_gate));
    server.model.reply(Reply::text("Third answer."));
    let second = server.open(&message("cancel", "second")).await;
    let third = server.open(&message("cancel", "third")).await;
    let (status, ack) = server
        .http(Method::POST, "/sessions/cancel/cancel", None)
        .await;
    let expected = json!({"session_id": "cancel", "status": "cancelled", "current_agent": "coder", "queued": 1});
    assert_eq!((status, ack), (200, expected));
    let first = SeenEvents::all(first).await;
    assert_eq!(first.story(), ["switch_agent coder", "error CANCELLED"]);
    assert_eq!(first.status(), TurnStatus::Cancelled);
    second_gate.reached().await;
    server.model.wait_until_in_flight(1).await;
    second_gate.open();
    assert_eq!(
        SeenEvents::all(second).await.answer().content,
        "Second answer."
    );
    assert_eq!(
        SeenEvents::all(third).await.answer().content,
        "Third answer."
    );
    assert_eq!(said(&server, "cancel").await, ["first", "second", "third"]);
}

#[tokio::test]
async fn cancel_with_queue_drop_empties_the_queue() {
    let server = TestServer::start().await;
    let gate = Gate::new();
    let first = busy(&server, "drop", &gate).await;
    let mut waiting = Vec::new();
    for text in ["second", "third"] {
        waiting.push(server.open(&message("drop", text)).await);
    }
    let ack = server.client.cancel(&id("drop"), true).await.unwrap();
    assert_eq!(
        (ack.status, ack.turn, ack.queued),
        (AckStatus::Cancelled, None, 0)
    );
    assert_eq!(SeenEvents::all(first).await.status(), TurnStatus::Cancelled);
    for stream in waiting {
        let seen = SeenEvents::all(stream).await;
        assert_eq!((seen.story(), seen.status()), cancelled());
    }
    server.model.wait_until_in_flight(0).await;
    assert_eq!(
        (server.model.request_count(), said(&server, "drop").await),
        (1, vec!["first".to_owned()])
    );

    let idle = server.client.cancel(&id("drop"), true).await.unwrap();
    assert_eq!((idle.status, idle.queued), (AckStatus::Idle, 0));
    server.model.reply(Reply::text("Still here."));
    assert_eq!(
        server.say("drop", "hello?").await.status(),
        TurnStatus::Completed
    );
}

#[tokio::test]
async fn cancel_answers_every_open_call_and_the_history_stays_usable() {
    let server = TestServer::with(&[("CODELAB_MULTIPLE_TOOL_CALLS", "sequence")]).await;
    let question = ("ask_followup_question", json!({"question": "Which?"}));
    let read = ("read_file", json!({"path": "a.py"}));
    let write = ("write_file", json!({"path": "a.py", "content": "x"}));
    for (number, calls) in [
        vec![question],
        vec![read.clone()],
        vec![write.clone()],
        vec![write, read],
    ]
    .into_iter()
    .enumerate()
    {
        let session = format!("open-{number}");
        let count = calls.len();
        server.model.reply(Reply::tool_calls(calls));
        server.say_to(&session, "coder", "go").await;
        server.client.cancel(&id(&session), false).await.unwrap();
        server.model.reply(Reply::text("Yes?"));
        server.say(&session, "hello").await;
        let roles = [
            vec!["system", "user", "assistant"],
            vec!["tool"; count],
            vec!["user"],
        ]
        .concat();
        assert_eq!(server.steps().pop().unwrap().roles(), roles);
    }
}

#[tokio::test]
async fn reset_cancels_empties_the_queue_unpins_and_keeps_the_history() {
    let server = TestServer::start().await;
    let gate = Gate::new();
    let first = busy(&server, "reset", &gate).await;
    let waiting = server.open(&message("reset", "second")).await;
    let (status, ack) = server
        .http(Method::POST, "/sessions/reset/reset", None)
        .await;
    let expected = json!({"session_id": "reset", "status": "reset", "current_agent": "orchestrator", "queued": 0});
    assert_eq!((status, ack), (200, expected));
    assert_eq!(SeenEvents::all(first).await.status(), TurnStatus::Cancelled);
    let dropped = SeenEvents::all(waiting).await;
    assert_eq!((dropped.story(), dropped.status()), cancelled());
    assert_eq!(server.current_agent("reset").await, "orchestrator");
    assert_eq!(said(&server, "reset").await, ["first"]);

    server.model.route_to("debug");
    server.model.reply(Reply::text("Looking."));
    let next = server.say("reset", "third").await;
    assert_eq!(
        next.story()[0],
        "switch_agent debug",
        "nobody is pinned any more"
    );
    assert_eq!(said(&server, "reset").await, ["first", "third"]);
    let idle = server.client.reset(&id("reset")).await.unwrap();
    assert_eq!(
        (idle.status, idle.current_agent.as_str()),
        (AckStatus::Reset, "orchestrator")
    );
    assert_eq!(
        server.log("reset").await.ids(),
        (1..=server.log("reset").await.ids().len() as u64).collect::<Vec<_>>()
    );
}

#[tokio::test]
async fn reset_of_a_pinned_idle_session_goes_back_to_the_orchestrator() {
    let server = TestServer::start().await;
    server.switch("idle", "debug").await;
    let ack = server.client.reset(&id("idle")).await.unwrap();
    assert_eq!(ack.current_agent.as_str(), "orchestrator");
    let last = server.switches("idle").await.pop().unwrap();
    assert_eq!(
        (last.from_agent.as_str(), last.to_agent.as_str()),
        ("debug", "orchestrator")
    );
    server.model.route_to("coder");
    server.model.reply(Reply::text("Written."));
    assert_eq!(
        server.say("idle", "write").await.story()[0],
        "switch_agent coder"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_same_message_50_times_at_once_is_one_turn_and_one_stream() {
    let server = Arc::new(TestServer::start().await);
    server.model.route_to("coder");
    server.model.reply(Reply::text("Only once."));
    let request = named("m-1", message("fifty", "write it"));
    let senders: Vec<_> = (0..50)
        .map(|_| {
            let (server, request) = (Arc::clone(&server), request.clone());
            tokio::spawn(async move { server.send(&request).await })
        })
        .collect();
    for sender in senders {
        let seen = sender.await.unwrap();
        let expected = [
            "switch_agent coder",
            "assistant_message coder",
            "switch_agent orchestrator",
            "completion",
        ];
        assert_eq!(
            (seen.story(), seen.ids()),
            (expected.map(str::to_owned).to_vec(), vec![1, 2, 3, 4])
        );
    }
    assert_eq!(
        server.model.request_count(),
        2,
        "one classification and one answer"
    );
    assert_eq!(said(&server, "fifty").await, ["write it"]);

    let later = server
        .send(&named("m-1", message("fifty", "another text")))
        .await;
    assert_eq!(
        (later.ids(), server.model.request_count()),
        (vec![1, 2, 3, 4], 2)
    );
    server.model.reply(Reply::text("Another session."));
    server
        .send(&named("m-1", message("other", "write it")))
        .await;
    assert_eq!(
        said(&server, "other").await,
        ["write it"],
        "the id belongs to its session"
    );
}

#[tokio::test]
async fn a_repeat_of_a_waiting_message_waits_for_the_same_turn() {
    let server = TestServer::with(&[("CODELAB_LIMITS__QUEUE_LENGTH", "1")]).await;
    let gate = Gate::new();
    let first = busy(&server, "wait", &gate).await;
    server.model.reply(Reply::text("Second answer."));
    let second = named("m-2", message("wait", "second"));
    let streams = [server.open(&second).await, server.open(&second).await];
    gate.open();
    SeenEvents::all(first).await;
    for stream in streams {
        let seen = SeenEvents::all(stream).await;
        assert_eq!(
            (seen.ids(), seen.answer().content.as_str()),
            (vec![4, 5], "Second answer.")
        );
    }
    assert_eq!(said(&server, "wait").await, ["first", "second"]);
}

#[tokio::test]
async fn a_repeat_gets_the_first_ones_stream_however_far_the_turn_is() {
    let server = TestServer::start().await;
    server.model.reply(Reply::tool_call(
        "write_file",
        json!({"path": "a.py", "content": "x"}),
    ));
    let request = named("m-3", message_to("coder", "far", "write"));
    let asked = server.send(&request).await;
    let same = |again: &SeenEvents| {
        let expected = (asked.ids(), asked.story(), TurnStatus::AwaitingApproval);
        assert_eq!((again.ids(), again.story(), again.status()), expected);
    };
    same(&server.send(&request).await);
    server.approve("far", &asked.call_id()).await;
    same(&server.send(&request).await);
    server.model.reply(Reply::text("Written."));
    server.result("far", &asked.call_id(), json!("ok")).await;
    same(&server.send(&request).await);
    assert_eq!(said(&server, "far").await, ["write"]);
}

#[tokio::test]
async fn a_repeated_answer_to_a_question_is_no_new_message() {
    let server = TestServer::start().await;
    server.model.reply(Reply::tool_call(
        "ask_followup_question",
        json!({"question": "Which?"}),
    ));
    server.say_to("answer", "coder", "sort").await;
    server.model.reply(Reply::text("Sorted."));
    let answer = named("m-4", message("answer", "the first"));
    let first = server.send(&answer).await;
    let again = server.send(&answer).await;
    assert_eq!(first.story(), ["assistant_message coder", "completion"]);
    assert_eq!((again.ids(), again.story()), (first.ids(), first.story()));
    let said = said(&server, "answer").await;
    assert_eq!(
        (server.model.request_count(), said),
        (2, vec!["sort".to_owned(), "the first".to_owned()])
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_messages_at_once_are_each_taken_once_or_refused() {
    let server = Arc::new(TestServer::start().await);
    server.switch("crowd", "coder").await;
    server.model.default_reply(Reply::text("Next, please."));
    let senders: Vec<_> = (0..30)
        .map(|number| {
            let (server, text) = (Arc::clone(&server), format!("message {number}"));
            tokio::spawn(async move {
                match server.client.send(&message("crowd", &text)).await {
                    Ok(stream) => Some((text, SeenEvents::all(stream).await)),
                    Err(error) => {
                        assert_eq!(
                            error.error_code().map(|code| code.as_str()),
                            Some("QUEUE_FULL")
                        );
                        None
                    }
                }
            })
        })
        .collect();
    let mut accepted = Vec::new();
    for sender in senders {
        accepted.extend(sender.await.unwrap());
    }
    assert!(
        accepted.len() >= 11,
        "one runs and ten wait: {}",
        accepted.len()
    );
    assert!(
        accepted
            .iter()
            .all(|(_, seen)| seen.story() == ["assistant_message coder", "completion"])
    );
    accepted.sort_by_key(|(_, seen)| seen.ids()[0]);
    let in_order: Vec<String> = accepted.into_iter().map(|(text, _)| text).collect();
    assert_eq!(said(&server, "crowd").await, in_order);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cancel_and_approve_at_once_leave_a_session_that_can_be_used() {
    let server = Arc::new(TestServer::start().await);
    for round in 0..10 {
        let session = format!("both-{round}");
        server.model.reply(Reply::tool_call(
            "write_file",
            json!({"path": "a.py", "content": "x"}),
        ));
        let call = server.say_to(&session, "coder", "write").await.call_id();
        let approve = HitlDecision {
            decision: Some(codelab_protocol::DecisionChoice::Approve.into()),
            ..Default::default()
        };
        let approve = hitl_decision(&session, &call, approve);
        let (approving, cancelling) = (Arc::clone(&server), Arc::clone(&server));
        let name = id(&session);
        let (approved, ack) = tokio::join!(
            tokio::spawn(async move { approving.client.send(&approve).await.map(drop) }),
            tokio::spawn(async move { cancelling.client.cancel(&name, false).await }),
        );
        assert_eq!(ack.unwrap().unwrap().status, AckStatus::Cancelled);
        let rows = server.audit(&session).await.audit.len();
        match approved.unwrap() {
            Ok(()) => assert_eq!(rows, 1),
            Err(error) => assert_eq!((error.status(), rows), (Some(409), 0)),
        }
        assert!(server.pending(&session).await.is_empty());
        let late = server
            .refused(&tool_result(&session, &call, json!("ok")))
            .await;
        assert_eq!(late, (409, "CONFLICT".to_owned()));
        server.model.reply(Reply::text("Yes?"));
        assert_eq!(
            server.say(&session, "hello").await.status(),
            TurnStatus::Completed
        );
    }
}
