//! AdaptiveAgent's answer while it is written: everybody reads along, and anybody can stop it.

use codelab_testkit::{Gate, Reply};
use serde_json::{Value, json};

use super::Room;
use super::streams::Stream;

/// The pieces of the answer, until there are so many bytes of it.
async fn written(stream: &mut Stream, bytes: usize) -> (String, String) {
    let (mut answer, mut text) = (None, String::new());
    while text.len() < bytes {
        let event = stream.next_event().await.unwrap();
        if event.event != "delta" {
            continue;
        }
        assert_eq!(event.id, None, "a reader cannot go on after a piece");
        let delta: Value = serde_json::from_str(&event.data).unwrap();
        assert_eq!(delta["offset"], json!(text.len()), "{delta}");
        let id = delta["answer_id"].as_str().unwrap().to_owned();
        assert_eq!(*answer.get_or_insert_with(|| id.clone()), id);
        text.push_str(delta["content"].as_str().unwrap());
    }
    (answer.unwrap(), text)
}

#[tokio::test]
async fn an_answer_is_read_while_it_is_written() {
    let room = Room::new().await;
    let gate = Gate::new();
    room.server.model.route_to("ask");
    let answer = "Сорок два, as ever.";
    room.server
        .model
        .reply(Reply::text(answer).hold_after_deltas(3, &gate));
    let mut early = Stream::open(&room.server, "", None).await;
    room.say("What is it?").await;
    let begun = "Сорок два,".len();
    let (id, text) = written(&mut early, begun).await;
    // Who comes later gets all of it.
    let mut late = Stream::open(&room.server, "", None).await;
    assert_eq!(written(&mut late, begun).await, (id, text.clone()));
    gate.open();
    room.until_said(&format!("agent AdaptiveAgent: {answer}"))
        .await;
    assert!(answer.starts_with(&text), "{text}");
    let meta = &room.history().await.pop().unwrap()["meta"];
    assert_eq!(meta["tags"], json!(["agent:ask"]));
}

#[tokio::test]
async fn a_stopped_answer_keeps_what_was_written_and_says_who_stopped_it() {
    let room = Room::new().await;
    let cancelled = async |expected: bool| {
        let answer = room
            .user
            .post("/chat/cancel", Value::Null)
            .await
            .expect(200);
        assert_eq!(answer, json!({ "cancelled": expected }));
    };
    cancelled(false).await;
    let gate = Gate::new();
    room.server.model.route_to("ask");
    room.server
        .model
        .reply(Reply::text("one two three").hold_after_deltas(3, &gate));
    let mut stream = Stream::open(&room.server, "", None).await;
    let asked = room.say("Count").await;
    written(&mut stream, "one two".len()).await;
    // What others said meanwhile is worked on next.
    room.server.model.route_to("ask");
    room.server.model.reply(Reply::text("Next."));
    room.say("And then?").await;
    cancelled(true).await;
    room.until_said("agent AdaptiveAgent: Next.").await;
    let history = room.history().await;
    let [.., partial, stopped, _] = &history[..] else {
        panic!("{history:?}")
    };
    assert_eq!(partial["author"], "AdaptiveAgent");
    assert_eq!(partial["text"].as_str().unwrap().trim(), "one two");
    assert_eq!(
        partial["meta"],
        json!({ "reply_to": asked, "tags": ["agent:ask", "partial"] })
    );
    assert_eq!(stopped["role"], "system");
    assert_eq!(stopped["text"], "User 7 stopped the answer.");
    assert_eq!(
        stopped["meta"],
        json!({ "reply_to": asked, "tags": ["stopped"], "user_id": 7 })
    );
}

#[tokio::test]
async fn an_answer_that_waits_for_a_person_can_be_stopped() {
    let room = Room::new().await;
    room.server.model.route_to("ask");
    room.server.model.reply(Reply::tool_call(
        "ask_followup_question",
        json!({ "question": "Which one?" }),
    ));
    room.say("Choose").await;
    room.until_said("agent AdaptiveAgent: Which one?").await;
    room.program
        .post("/chat/cancel", Value::Null)
        .await
        .expect(200);
    room.until_said("system ChatAgent: A program stopped the answer.")
        .await;
    // The question is withdrawn, so this is a new request.
    room.server.model.route_to("ask");
    room.server.model.reply(Reply::text("Good."));
    room.say("Never mind").await;
    room.until_said("agent AdaptiveAgent: Good.").await;
}
