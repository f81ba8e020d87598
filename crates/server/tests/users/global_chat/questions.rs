//! Several askers, and those who get no answer.

use serde_json::json;

use super::Room;
use crate::kit::{metric, until};

async fn askers(room: &Room, expected: u64) {
    until(
        "askers",
        json!({ "askers": expected }),
        async || json!({ "askers": metric(&room.server, "codelab_chat_askers").await as u64 }),
    )
    .await;
}

#[tokio::test]
async fn askers_are_answered_in_order_one_at_a_time() {
    let room = Room::new().await;
    let mut asking = Vec::new();
    for (index, author) in ["a", "b", "c"].into_iter().enumerate() {
        asking.push(room.ask(author, &format!("{author}?"), 60));
        askers(&room, index as u64 + 1).await;
    }
    assert_eq!(room.said().await, ["agent a: a?"], "one question is shown");
    for (asking, author) in asking.into_iter().zip(["a", "b", "c"]) {
        room.until_said(&format!("agent {author}: {author}?")).await;
        room.say(&format!("to {author}")).await;
        assert_eq!(
            asking.await.unwrap().expect(200)["answer"],
            format!("to {author}")
        );
    }
    let history = room.history().await;
    let tags = |index: usize| history[index]["meta"]["tags"].clone();
    assert_eq!(
        (tags(0), tags(2), tags(4)),
        (
            json!(["question"]),
            json!(["question"]),
            json!(["question"])
        )
    );
    let replies: Vec<_> = [1, 3, 5]
        .map(|index| history[index]["meta"]["reply_to"].clone())
        .into();
    assert_eq!(replies, [0, 2, 4].map(|index| history[index]["id"].clone()));
    assert_eq!(room.server.model.request_count(), 0);
}

#[tokio::test]
async fn whoever_gets_no_answer_in_time_is_told_so() {
    let room = Room::new().await;
    let shown = room.ask("a", "a?", 2);
    askers(&room, 1).await;
    let never_shown = room.ask("b", "b?", 1);
    askers(&room, 2).await;
    let later = room.ask("c", "c?", 60);
    askers(&room, 3).await;
    never_shown.await.unwrap().refused(504, "HITL_TIMEOUT");
    shown.await.unwrap().refused(504, "HITL_TIMEOUT");
    room.until_said("agent c: c?").await;
    let history = room.history().await;
    assert_eq!(history.len(), 3, "{history:?}");
    assert_eq!(
        (&history[1]["role"], &history[1]["meta"]["reply_to"]),
        (&json!("system"), &history[0]["id"])
    );
    assert_eq!(history[1]["meta"]["tags"], json!(["expired"]));
    room.say("yes").await;
    assert_eq!(later.await.unwrap().expect(200)["answer"], "yes");
}

#[tokio::test]
async fn whoever_hangs_up_takes_the_question_back() {
    let room = Room::new().await;
    let shown = room.ask("a", "a?", 60);
    askers(&room, 1).await;
    let waiting = room.ask("b", "b?", 60);
    askers(&room, 2).await;
    let later = room.ask("c", "c?", 60);
    askers(&room, 3).await;
    waiting.abort();
    askers(&room, 2).await;
    shown.abort();
    room.until_said("agent c: c?").await;
    let history = room.history().await;
    assert_eq!(
        history[1]["meta"],
        json!({ "reply_to": history[0]["id"], "tags": ["withdrawn"] })
    );
    room.say("yes").await;
    assert_eq!(later.await.unwrap().expect(200)["answer"], "yes");
}

#[tokio::test]
async fn a_question_must_be_one() {
    let room = Room::new().await;
    let cases = [
        (json!({ "author": "a" }), "MISSING_REQUIRED_FIELD"),
        (json!({ "question": "?" }), "MISSING_REQUIRED_FIELD"),
        (
            json!({ "author": "a", "question": " " }),
            "MISSING_REQUIRED_FIELD",
        ),
        (
            json!({ "author": "", "question": "?" }),
            "MISSING_REQUIRED_FIELD",
        ),
        (
            json!({ "author": "a", "question": "x".repeat(40_000) }),
            "VALIDATION_ERROR",
        ),
        (
            json!({ "author": "a", "question": "?", "timeout_seconds": 0 }),
            "VALIDATION_ERROR",
        ),
        (
            json!({ "author": "a", "question": "?", "timeout_seconds": 86401 }),
            "VALIDATION_ERROR",
        ),
        (
            json!({ "author": "a", "question": "?", "timeout_seconds": -1 }),
            "VALIDATION_ERROR",
        ),
    ];
    for (body, code) in cases {
        room.program
            .post("/chat/ask_user", body)
            .await
            .refused(422, code);
    }
    assert_eq!(room.history().await.len(), 0);
}

#[tokio::test]
async fn a_server_that_stops_lets_askers_go() {
    let mut room = Room::new().await;
    let asking = room.ask("a", "a?", 60);
    askers(&room, 1).await;
    room.server.stop().await;
    asking.await.unwrap().refused(503, "AGENT_UNAVAILABLE");
}
