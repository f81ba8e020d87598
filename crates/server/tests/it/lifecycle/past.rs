//! How much of a session's past the model is sent.

use codelab_testkit::{Asked, Reply, TestServer};
use serde_json::json;

#[tokio::test]
async fn the_last_ten_messages_are_sent_before_the_current_one() {
    let server = TestServer::start().await;
    for number in 0..8 {
        server.model.reply(Reply::text(format!("Answer {number}.")));
        server
            .say_to("ten", "coder", &format!("Message {number}"))
            .await;
    }
    let last = server.steps().pop().unwrap();
    let sent: Vec<&str> = (1..12)
        .map(|index| last.wire_message(index)["content"].as_str().unwrap())
        .collect();
    let expected: Vec<String> = (2..7)
        .flat_map(|number| [format!("Message {number}"), format!("Answer {number}.")])
        .chain(["Message 7".to_owned()])
        .collect();
    assert_eq!(sent, expected);
    assert_eq!(last.roles().len(), 12);
    assert_eq!(
        server.history("ten").await.len(),
        16,
        "the history keeps everything"
    );
}

#[tokio::test]
async fn long_messages_lose_their_middle_within_the_token_bound() {
    let server = TestServer::with(&[("CODELAB_CONTEXT__TOKENS", "100")]).await;
    // By itself as large as the bound, so it does not fit whole beside anything newer.
    for text in [
        format!("first {} words", "x".repeat(400)),
        "short".to_owned(),
        "shorter".to_owned(),
    ] {
        server.model.reply(Reply::text("Yes."));
        server.say_to("bound", "coder", &text).await;
    }
    server.model.reply(Reply::text("Yes."));
    server.say("bound", &"y".repeat(4_000)).await;
    let last = server.steps().pop().unwrap();
    assert_eq!(
        last.wire_message(-1)["content"].as_str().map(str::len),
        Some(4_000),
        "what is said now is always sent"
    );
    let first = last.wire_message(1)["content"].as_str().unwrap().to_owned();
    assert!(
        first.starts_with("first xx") && first.ends_with("xx words"),
        "{first}"
    );
    assert!(first.contains("characters left out"), "{first}");
    let roles = last.roles();
    assert_eq!(
        roles,
        [
            vec!["system"],
            ["user", "assistant"].repeat(3),
            vec!["user"]
        ]
        .concat()
    );
    let chars: usize = (1..7)
        .map(|index| {
            last.wire_message(index)["content"]
                .as_str()
                .unwrap()
                .chars()
                .count()
        })
        .sum();
    // What does not fit is cut to three quarters, so that the cut stays for some turns.
    assert!((280..=400).contains(&chars), "{chars}");
}

#[tokio::test]
async fn the_current_turns_own_messages_are_always_sent_and_no_result_stands_without_its_call() {
    let server = TestServer::start().await;
    server.model.reply(Reply::text("Before."));
    server.say_to("own", "coder", "before").await;
    let steps = 9;
    for number in 0..steps {
        server.model.reply(Reply::tool_call(
            "echo",
            json!({"text": number.to_string()}),
        ));
    }
    server.model.reply(Reply::text("All echoed."));
    server.say("own", "echo a lot").await;
    let last = server.steps().pop().unwrap();
    let own = [vec!["user"], ["assistant", "tool"].repeat(steps)].concat();
    assert_eq!(
        last.roles(),
        [vec!["system", "user", "assistant"], own].concat()
    );

    server.model.reply(Reply::text("Fine."));
    server.say("own", "thanks").await;
    let next = server.steps().pop().unwrap();
    let roles = next.roles();
    assert!(roles.len() <= 12, "{roles:?}");
    assert_ne!(roles[1], "tool", "{roles:?}");
    for (index, role) in roles.iter().enumerate() {
        let before = roles[index.saturating_sub(1)];
        assert!(*role != "tool" || before == "assistant", "{roles:?}");
    }
}
