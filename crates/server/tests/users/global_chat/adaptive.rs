//! AdaptiveAgent: what wakes it, what it can do, how its failures are seen.

use codelab_testkit::{Asked as _, Gate, Reply};
use serde_json::json;

use super::Room;
use crate::kit::{metric, until};

#[tokio::test]
async fn a_user_message_is_answered_by_the_team_with_server_tools_only() {
    let room = Room::new().await;
    let model = &room.server.model;
    room.tell("ci", "The build failed in parser.rs", &[]).await;
    model.route_to("debug");
    model.reply(Reply::tool_call(
        "calculator",
        json!({ "expression": "6*7" }),
    ));
    model.reply(Reply::tool_call(
        "attempt_completion",
        json!({ "result": "It is 42." }),
    ));
    let id = room.say("Why did it fail?").await;
    room.until_said("agent AdaptiveAgent: It is 42.").await;
    let answer = room.history().await.pop().unwrap();
    assert_eq!(
        answer["meta"],
        json!({ "reply_to": id, "tags": ["agent:debug"] })
    );
    let step = &model.requests()[1];
    let mut tools: Vec<&str> = step.body["tools"]
        .as_array()
        .unwrap()
        .iter()
        .map(|tool| tool["function"]["name"].as_str().unwrap())
        .collect();
    tools.sort_unstable();
    assert_eq!(
        tools,
        [
            "ask_followup_question",
            "attempt_completion",
            "calculator",
            "echo",
            "switch_mode"
        ]
    );
    // It reads the Chat: what others said is information, and named.
    assert_eq!(
        step.message(1),
        &json!("[ci] The build failed in parser.rs")
    );
    assert_eq!(step.message(-1), &json!("Why did it fail?"));
    let prompt = step.message(0).as_str().unwrap();
    assert!(
        prompt.contains("You speak as AdaptiveAgent") && prompt.contains("User: 7"),
        "{prompt}"
    );
    assert_eq!(model.requests()[2].message(-1), &json!("42"));
    // What it said is part of the next request; nothing of it is a session that others see.
    model.route_to("ask");
    model.reply(Reply::text("Goodbye."));
    room.say("thanks").await;
    room.until_said("agent AdaptiveAgent: Goodbye.").await;
    let last = model.requests().pop().unwrap();
    assert_eq!(
        last.roles(),
        ["system", "user", "user", "assistant", "user"]
    );
    assert_eq!(room.program.get("/sessions").await.expect(200)["total"], 0);
    room.program
        .get("/sessions/AdaptiveAgent/history")
        .await
        .refused(404, "SESSION_NOT_FOUND");
    assert_eq!(
        room.user.get("/my/chat/sessions").await.expect(200)["total"],
        0
    );
}

#[tokio::test]
async fn it_takes_one_thing_at_a_time_in_order_and_no_more_than_it_can() {
    let room = Room::with(&[("CODELAB_LIMITS__QUEUE_LENGTH", "2")]).await;
    let model = &room.server.model;
    let gate = Gate::new();
    for answer in ["first", "second", "third"] {
        model.route_to("ask");
        model.reply(Reply::text(answer).hold(&gate));
    }
    room.say("one").await;
    gate.reached().await;
    room.say("two").await;
    room.tell("ci", "three", &["signal"]).await;
    room.user
        .post("/chat/user_message", json!({ "text": "four" }))
        .await
        .refused(429, "QUEUE_FULL");
    room.tell("ci", "five", &["signal"]).await;
    let busy = room.history().await.pop().unwrap();
    assert_eq!(
        (&busy["role"], &busy["meta"]["tags"]),
        (&json!("system"), &json!(["busy"]))
    );
    assert_eq!(
        metric(&room.server, "codelab_adaptive_agent_backlog").await,
        2.0
    );
    gate.open();
    room.until_said("agent AdaptiveAgent: third").await;
    let said = room.said().await;
    let answers: Vec<&String> = said
        .iter()
        .filter(|line| line.starts_with("agent AdaptiveAgent"))
        .collect();
    assert_eq!(
        answers,
        [
            "agent AdaptiveAgent: first",
            "agent AdaptiveAgent: second",
            "agent AdaptiveAgent: third"
        ]
    );
    assert!(!said.contains(&"user user: four".to_owned()), "{said:?}");
    assert_eq!(model.requests()[5].message(-1), &json!("[ci] three"));
}

#[tokio::test]
async fn only_a_signal_of_another_agent_wakes_it() {
    let room = Room::new().await;
    let model = &room.server.model;
    room.tell("ci", "not for you", &["info"]).await;
    room.tell("AdaptiveAgent", "me again", &["signal"]).await;
    model.route_to("coder");
    model.reply(Reply::text("I look at it."));
    room.tell("ci", "The build broke", &["urgent", "signal"])
        .await;
    room.until_said("agent AdaptiveAgent: I look at it.").await;
    assert_eq!(model.request_count(), 2);
    assert!(
        model.requests()[0]
            .message(-1)
            .as_str()
            .unwrap()
            .ends_with("[ci] The build broke")
    );
}

#[tokio::test]
async fn a_failure_is_said_and_the_next_message_is_answered() {
    let room = Room::new().await;
    let model = &room.server.model;
    model.route_to("ask");
    model.reply(Reply::status(
        400,
        json!({ "error": { "message": "no such thing" } }).to_string(),
    ));
    let id = room.say("hello").await;
    until("the failure", json!({ "role": "system" }), async || {
        room.history().await.pop().unwrap()
    })
    .await;
    let failure = room.history().await.pop().unwrap();
    assert_eq!(
        failure["meta"],
        json!({ "reply_to": id, "tags": ["error"] })
    );
    assert!(
        failure["text"]
            .as_str()
            .unwrap()
            .starts_with("AdaptiveAgent could not finish: "),
        "{failure}"
    );
    model.route_to("ask");
    model.reply(Reply::text("Now."));
    room.say("again").await;
    room.until_said("agent AdaptiveAgent: Now.").await;
    assert_eq!(
        metric(
            &room.server,
            "codelab_adaptive_agent_turns_total{outcome=\"failed\"}"
        )
        .await,
        1.0
    );
}

#[tokio::test]
async fn a_client_tool_is_refused_even_if_the_model_asks_for_it() {
    let room = Room::new().await;
    let model = &room.server.model;
    model.route_to("coder");
    model.reply(Reply::tool_call(
        "write_file",
        json!({ "path": "a", "content": "b" }),
    ));
    model.reply(Reply::text("I cannot write here."));
    room.say("write a").await;
    room.until_said("agent AdaptiveAgent: I cannot write here.")
        .await;
    let told = model.requests()[2].message(-1).as_str().unwrap().to_owned();
    assert!(told.contains("write_file is not available"), "{told}");
}

#[tokio::test]
async fn the_demonstration_model_answers_and_shows_how_it_asks() {
    let room = Room::with(&[("LLM_PROXY_URL", "")]).await;
    room.say("hello there").await;
    until(
        "an answer",
        json!({ "author": "AdaptiveAgent" }),
        async || room.history().await.pop().unwrap(),
    )
    .await;
    let text = room.history().await.pop().unwrap()["text"]
        .as_str()
        .unwrap()
        .to_owned();
    assert!(
        text.contains("demonstration") && text.contains("LLM_PROXY_URL"),
        "{text}"
    );
    room.say("please ask me something").await;
    until(
        "a question",
        json!({ "author": "AdaptiveAgent" }),
        async || room.history().await.pop().unwrap(),
    )
    .await;
    eventually_question(&room).await;
    room.say("blue").await;
    until(
        "the rest",
        json!({ "author": "AdaptiveAgent" }),
        async || room.history().await.pop().unwrap(),
    )
    .await;
    let text = room.history().await.pop().unwrap()["text"]
        .as_str()
        .unwrap()
        .to_owned();
    assert!(text.contains("blue"), "{text}");
}

async fn eventually_question(room: &Room) {
    codelab_testkit::eventually("a question", async || {
        let last = room.history().await.pop().unwrap();
        if last["meta"]["tags"][0] == "question" {
            Ok(())
        } else {
            Err(last)
        }
    })
    .await;
}
