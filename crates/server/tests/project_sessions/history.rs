//! What is kept of a conversation, and what an agent is told of it.

use codelab_testkit::{Asked, RecordedRequest, Reply, eventually};
use serde_json::{Value, json};

use crate::kit::{Person, is_planning, server, server_with, task, tasks};

#[tokio::test]
async fn saving_the_user_message() {
    let server = server().await;
    let session = Person::new(&server, 1).session().await;
    server.model.on(is_planning, Reply::hang());
    session
        .send(json!({ "content": "Привіт 👋\u{0}" }))
        .await
        .expect(202);
    let said = session.messages("").await;
    assert_eq!((said.len(), &said[0]["role"]), (1, &json!("user")));
    assert_eq!(said[0]["content"], "Привіт 👋\u{0}");
    assert!(said[0]["timestamp"].is_string() && said[0]["message_id"].is_string());
    assert!(said[0].get("agent_id").is_none());
    session.cancel().await.expect(200);
}

#[tokio::test]
async fn saving_the_agent_response() {
    let server = server().await;
    let session = Person::new(&server, 1).session().await;
    server
        .model
        .reply(Reply::text_with_usage("It is 42.", 100, 5));
    session.call("analyzer", "How much?").await.expect(200);
    let answer = session.messages("").await.pop().unwrap();
    assert_eq!(
        (&answer["role"], &answer["content"]),
        (&json!("assistant"), &json!("It is 42."))
    );
    assert_eq!(
        (&answer["agent_id"], &answer["name"]),
        (&json!("agent_analyzer"), &json!("agent_analyzer"))
    );
    assert!(answer["timestamp"].is_string());
    assert_eq!(
        (
            &answer["usage"]["prompt_tokens"],
            &answer["usage"]["completion_tokens"]
        ),
        (&json!(100), &json!(5))
    );
    assert!(answer.get("error").is_none());
}

#[tokio::test]
async fn getting_the_message_history() {
    let mut server = server().await;
    let session = Person::new(&server, 1).session().await;
    for number in 0..3 {
        server.model.reply(Reply::text(format!("answer {number}")));
        session
            .call("coder", &format!("question {number}"))
            .await
            .expect(200);
    }
    server
        .model
        .on(is_planning, Reply::text(tasks(&[task("a", "writer", &[])])));
    session.stream_plan("question 3").await.all().await;
    let texts = |messages: Vec<Value>| -> Vec<String> {
        messages
            .iter()
            .map(|message| message["content"].as_str().unwrap().to_owned())
            .collect()
    };
    let expected = [
        "question 0",
        "answer 0",
        "question 1",
        "answer 1",
        "question 2",
        "answer 2",
        "question 3",
        "Done.",
    ];
    let before = session.messages("").await;
    assert_eq!(texts(before.clone()), expected);
    server.restart().await;
    assert_eq!(
        session.seen_by(&Person::new(&server, 1)).messages("").await,
        before
    );
}

/// Planners count their tasks from 1 in every plan.
#[tokio::test]
async fn an_answer_to_a_task_is_known_to_a_task_of_the_same_id_in_the_next_plan() {
    let server = server().await;
    let session = Person::new(&server, 1).session().await;
    let plan = || Reply::text(tasks(&[task("1", "coder", &[])]));
    server.model.on(is_planning, plan());
    server.model.reply(Reply::tool_call(
        "ask_followup_question",
        json!({ "question": "Which colour?" }),
    ));
    assert_eq!(
        session.stream_plan("Paint it").await.all().await.status(),
        "awaiting_answer"
    );
    assert_eq!(
        session
            .stream(json!({ "content": "ultramarine" }))
            .await
            .all()
            .await
            .status(),
        "completed"
    );
    let times = |body: &Value| body["messages"].to_string().matches("ultramarine").count();
    assert_eq!(
        times(&server.model.requests().pop().unwrap().body),
        1,
        "once, as the result of the call"
    );
    let said = session.messages("?role=user").await.pop().unwrap();
    assert_eq!(
        (&said["task_id"], &said["plan_id"]),
        (&json!("1"), &session.plan().await["plan_id"])
    );

    server.model.on(is_planning, plan());
    assert_eq!(
        session
            .stream_plan("Paint it again")
            .await
            .all()
            .await
            .status(),
        "completed"
    );
    let asked = server
        .model
        .requests()
        .into_iter()
        .rev()
        .find(|request| !is_planning(&request.body))
        .unwrap();
    assert_eq!(
        times(&asked.body),
        1,
        "what was said in the session: {}",
        asked.body["messages"]
    );
}

#[tokio::test]
async fn history_pagination() {
    let server = server().await;
    let session = Person::new(&server, 1).session().await;
    for number in 0..5 {
        session
            .call("coder", &format!("question {number}"))
            .await
            .expect(200);
    }
    let whole = session.get(&session.path("messages/")).await.expect(200);
    assert_eq!(
        (&whole["total"], &whole["limit"], &whole["offset"]),
        (&json!(10), &json!(100), &json!(0))
    );
    let mut pages = Vec::new();
    for offset in (0..12).step_by(3) {
        let page = session
            .get(&session.path(&format!("messages/?limit=3&offset={offset}")))
            .await
            .expect(200);
        assert_eq!(
            (&page["total"], &page["limit"], &page["offset"]),
            (&json!(10), &json!(3), &json!(offset))
        );
        pages.extend(page["messages"].as_array().unwrap().clone());
    }
    assert_eq!(
        json!(pages),
        whole["messages"],
        "pages put together are the whole"
    );
    assert_eq!(session.messages("?offset=10").await, Vec::<Value>::new());
    for query in [
        "?limit=0",
        "?limit=1001",
        "?limit=-1",
        "?offset=-1",
        "?offset=x",
    ] {
        session
            .get(&session.path(&format!("messages/{query}")))
            .await
            .refused(422, "VALIDATION_ERROR");
    }
}

#[tokio::test]
async fn filtering_by_role() {
    let server = server().await;
    let session = Person::new(&server, 1).session().await;
    for number in 0..3 {
        session
            .call("coder", &format!("question {number}"))
            .await
            .expect(200);
    }
    for (role, count) in [("assistant", 3), ("user", 3), ("tool", 0), ("system", 0)] {
        let list = session
            .get(&session.path(&format!("messages/?role={role}")))
            .await
            .expect(200);
        let messages = list["messages"].as_array().unwrap();
        assert_eq!(
            (messages.len(), &list["total"]),
            (count, &json!(count)),
            "{role}"
        );
        assert!(messages.iter().all(|message| message["role"] == role));
    }
    let page = session
        .get(&session.path("messages/?role=user&limit=1&offset=2"))
        .await
        .expect(200);
    assert_eq!(
        (&page["messages"][0]["content"], &page["total"]),
        (&json!("question 2"), &json!(3))
    );
    for role in ["robot", "", "User"] {
        session
            .get(&session.path(&format!("messages/?role={role}")))
            .await
            .refused(422, "VALIDATION_ERROR");
    }
}

#[tokio::test]
async fn passing_the_message_history() {
    let server = server().await;
    let session = Person::new(&server, 1).session().await;
    server.model.reply(Reply::text("Your name is Ada."));
    session.call("coder", "I am Ada").await.expect(200);
    session.call("writer", "Who am I?").await.expect(200);
    let asked = server.model.requests().pop().unwrap();
    let said = ["I am Ada", "Your name is Ada.", "Who am I?"];
    assert_eq!(said_in(&asked), said);
    // A task's agent is told as well.
    server
        .model
        .on(is_planning, Reply::text(tasks(&[task("a", "coder", &[])])));
    session.stream_plan("And now?").await.all().await;
    let asked = server.model.requests().pop().unwrap();
    let said = [
        "I am Ada",
        "Your name is Ada.",
        "Who am I?",
        "Done.",
        "And now?",
        "Do a.",
    ];
    assert_eq!(said_in(&asked), said);
    // Another session of the same project knows nothing of it.
    session
        .session()
        .await
        .call("coder", "Hello")
        .await
        .expect(200);
    assert_eq!(said_in(&server.model.requests().pop().unwrap()), ["Hello"]);
}

/// What a request says beside what the system tells.
fn said_in(asked: &RecordedRequest) -> Vec<&str> {
    let messages = asked.body["messages"].as_array().unwrap();
    let said = messages.iter().filter(|said| said["role"] != "system");
    said.map(|said| said["content"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn limiting_the_context_size() {
    let server = server().await;
    let session = Person::new(&server, 1).session().await;
    for number in 0..8 {
        session
            .call("coder", &format!("question {number}"))
            .await
            .expect(200);
    }
    session.call("coder", "the last").await.expect(200);
    let asked = server.model.requests().pop().unwrap();
    let said = said_in(&asked);
    assert_eq!(
        (said.len(), said[0], said[8]),
        (9, "question 4", "the last"),
        "at most the ten before it; the window moves in jumps"
    );

    let long = session.session().await;
    for number in 0..4 {
        // 1,500 tokens by the estimate of four characters.
        long.call("coder", &format!("{number}{}", "x".repeat(5999)))
            .await
            .expect(200);
    }
    long.call("coder", "the last").await.expect(200);
    let asked = server.model.requests().pop().unwrap();
    let prompt = said_in(&asked).join("\n");
    let sent = prompt.chars().filter(|letter| *letter == 'x').count();
    assert!(
        (8_000..16_000).contains(&sent),
        "4,000 tokens and no more: {sent}"
    );
    assert!(
        prompt.contains("\n3xxx") && prompt.contains("characters left out"),
        "the newest, without its middle"
    );
    // What is said now is always sent.
    let huge = "y".repeat(100_000);
    long.call("coder", &huge).await.expect(200);
    assert_eq!(
        server.model.requests().pop().unwrap().message(-1),
        &json!(huge)
    );
}

#[tokio::test]
async fn the_context_has_settings() {
    let server = server_with(&[("CODELAB_CONTEXT__MESSAGES", "2")]).await;
    let session = Person::new(&server, 1).session().await;
    for number in 0..3 {
        session
            .call("coder", &format!("question {number}"))
            .await
            .expect(200);
    }
    let asked = server.model.requests().pop().unwrap();
    assert_eq!(said_in(&asked), ["question 1", "Done.", "question 2"]);
}

#[tokio::test]
async fn what_a_token_says_of_its_user_reaches_the_agent() {
    let server = server().await;
    let session = Person::new(&server, 77).session().await;
    session.call("coder", "hi").await.expect(200);
    let prompt = server
        .model
        .requests()
        .pop()
        .unwrap()
        .system_prompt()
        .to_owned();
    assert!(prompt.contains("User: 77"), "{prompt}");
}

/// A model's server reads again only what differs from the request before. Facts and memory change
/// from turn to turn, so they stand after the history, and stay within a turn.
#[tokio::test]
async fn requests_in_a_row_begin_with_the_same_bytes() {
    let server = server().await;
    let session = Person::new(&server, 1).session().await;
    // Fewer messages than the window has, which would move otherwise.
    for turn in 0..3 {
        let path = format!("{turn}.md");
        server
            .model
            .reply(Reply::tool_call("read_file", json!({ "path": path })));
        let text = format!("read {path}");
        let asked = session.call("coder", &text).await.expect(200);
        let call = asked["pending"]["call_id"].as_str().unwrap();
        session.claim(call, "laptop").await.expect(200);
        let missing = json!({ "success": false, "error": format!("{path} is missing") });
        session.result(call, "laptop", missing).await.expect(200);
        eventually("the turn ends", async || {
            let said = session.messages("?role=assistant").await.len();
            (said == 2 * (turn + 1)).then_some(()).ok_or(said)
        })
        .await;
    }
    let requests = server.model.requests();
    assert_eq!(requests.len(), 6);
    let texts: Vec<String> = requests
        .iter()
        .map(|request| request.body["messages"].to_string())
        .collect();
    let changing = |text: &str| {
        ["Context (facts about", "From your memory"]
            .iter()
            .filter_map(|head| text.rfind(&format!("system\",\"content\":\"{head}")))
            .min()
    };
    for (number, pair) in texts.windows(2).enumerate() {
        let same = pair[0]
            .bytes()
            .zip(pair[1].bytes())
            .take_while(|(one, other)| one == other)
            .count();
        // All but the bracket at the end, within a turn.
        let whole = pair[0].len() - 1;
        let expected = match number % 2 {
            0 => whole,
            _ => changing(&pair[0]).unwrap_or(whole),
        };
        let differs = &pair[0][same.min(whole)..];
        assert!(
            same >= expected,
            "request {number} differs too soon: {differs}"
        );
    }
    let last = requests[5].told();
    assert!(
        last.contains("Last error: read_file: 1.md is missing"),
        "{last}"
    );
}

#[tokio::test]
async fn the_window_of_the_model_decides_how_much_is_sent() {
    for (model, sends_all) in [("gpt-4o", true), ("tiny", false)] {
        let server = server_with(&[
            ("CODELAB_CONTEXT__TOKENS", "auto"),
            ("CODELAB_MODELS__tiny__WINDOW", "6000"),
            ("LLM_MODEL", model),
        ])
        .await;
        let session = Person::new(&server, 1).session().await;
        for number in 0..8 {
            let text = format!("question {number} {}", "x".repeat(200));
            session.call("coder", &text).await.expect(200);
        }
        let asked = server.model.requests().pop().unwrap();
        let said = said_in(&asked);
        assert_eq!(said.len() == 15, sends_all, "{model}: {}", said.len());
    }
}
