//! The checks that the Chat was specified with.

use codelab_testkit::{Gate, Reply};
use serde_json::json;

use super::Room;

#[tokio::test]
async fn an_agent_writes_while_no_page_is_open_and_it_is_in_the_history() {
    let room = Room::new().await;
    let id = room
        .tell("ci", "The nightly build is green", &["build"])
        .await;
    let history = room.program.get("/chat/history").await.expect(200);
    assert_eq!(history[0]["id"], id);
    assert_eq!(
        (&history[0]["role"], &history[0]["author"]),
        (&json!("agent"), &json!("ci"))
    );
    assert_eq!(
        (&history[0]["text"], &history[0]["meta"]["tags"]),
        (&json!("The nightly build is green"), &json!(["build"]))
    );
    assert!(
        history[0]["ts"].as_str().unwrap().ends_with('Z'),
        "{history}"
    );
    assert_eq!(room.server.model.request_count(), 0, "nobody was woken");
}

#[tokio::test]
async fn a_page_that_is_opened_later_sees_that_message() {
    let room = Room::new().await;
    let first = room.tell("ci", "one", &[]).await;
    let second = room.tell("ci", "two", &[]).await;
    assert_eq!(room.said().await, ["agent ci: one", "agent ci: two"]);
    let newer = room
        .user
        .get(&format!("/chat/history?after={first}"))
        .await
        .expect(200);
    assert_eq!(
        (newer.as_array().unwrap().len(), &newer[0]["id"]),
        (1, &json!(second))
    );
    assert_eq!(
        room.user
            .get(&format!("/chat/history?after={second}"))
            .await
            .expect(200),
        json!([])
    );
}

#[tokio::test]
async fn an_agent_that_asks_goes_no_further_until_the_user_answers() {
    let room = Room::new().await;
    room.server.model.route_to("coder");
    room.server.model.reply(Reply::tool_call(
        "ask_followup_question",
        json!({ "question": "Which language?" }),
    ));
    let asking = room.ask("deploy", "Deploy now?", 60);
    room.until_said("agent deploy: Deploy now?").await;
    // Other agents go on; neither of these is an answer.
    room.tell("ci", "still building", &[]).await;
    room.user
        .post("/chat/user_message", json!({ "text": " \n " }))
        .await
        .refused(400, "MISSING_REQUIRED_FIELD");
    assert!(!asking.is_finished());
    let answer_id = room.say("yes").await;
    let answer = asking.await.unwrap().expect(200);
    assert_eq!(answer["answer"], "yes");
    let history = room.history().await;
    assert_eq!(answer["question_id"], history[0]["id"]);
    assert_eq!(
        (&history[2]["id"], &history[2]["meta"]["reply_to"]),
        (&json!(answer_id), &answer["question_id"])
    );
    assert_eq!(
        room.server.model.request_count(),
        0,
        "an answer wakes its asker, not AdaptiveAgent"
    );
    // The same for AdaptiveAgent: after its question no model is called.
    room.say("write something").await;
    room.until_said("agent AdaptiveAgent: Which language?")
        .await;
    assert_eq!(room.server.model.request_count(), 2);
}

#[tokio::test]
async fn a_blank_user_message_is_refused_and_not_added() {
    let room = Room::new().await;
    for body in [
        json!({ "text": "" }),
        json!({ "text": " \t\n\u{a0}" }),
        json!({}),
        json!({ "text": null }),
    ] {
        room.user
            .post("/chat/user_message", body.clone())
            .await
            .refused(400, "MISSING_REQUIRED_FIELD");
    }
    room.user
        .post("/chat/user_message", json!({ "text": 5 }))
        .await
        .refused(422, "VALIDATION_ERROR");
    assert_eq!(room.history().await.len(), 0);
    assert_eq!(room.server.model.request_count(), 0);
}

#[tokio::test]
async fn after_the_answer_the_agent_continues_with_it_and_without_empty_requests() {
    let room = Room::new().await;
    let model = &room.server.model;
    let question = json!({ "question": "Which language?", "options": ["Rust", "Python"] });
    model.route_to("coder");
    model.reply(Reply::tool_call("ask_followup_question", question).with_text("Let me see."));
    let gate = Gate::new();
    model.reply(Reply::text("Rust it is.").hold(&gate));
    room.say("write a function").await;
    room.until_said("agent AdaptiveAgent: Which language?\n- Rust\n- Python")
        .await;
    room.say("  Rust  ").await;
    gate.reached().await;
    gate.open();
    room.until_said("agent AdaptiveAgent: Rust it is.").await;
    assert_eq!(
        room.said().await,
        [
            "user user: write a function",
            "agent AdaptiveAgent: Let me see.",
            "agent AdaptiveAgent: Which language?\n- Rust\n- Python",
            "user user: Rust",
            "agent AdaptiveAgent: Rust it is.",
        ]
    );
    let requests = model.requests();
    assert_eq!(requests.len(), 3, "routing, the question, the rest");
    assert_eq!(requests[2].message(-1), &json!("Rust"));
    for request in &requests {
        for message in request.body["messages"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|message| message["role"] == "user")
        {
            assert!(
                !message["content"].as_str().unwrap().trim().is_empty(),
                "{}",
                request.body
            );
        }
    }
}
