//! Tools that run on the server: their results, questions to the person, and the end of a task.

use codelab_protocol::{ChunkBody, Role, TurnStatus};
use codelab_testkit::{Asked, Reply, TestServer, tool_result};
use serde_json::{Value, json};

#[tokio::test]
async fn echo_and_calculator_answer_at_once() {
    let server = TestServer::start().await;
    let cases = [
        (
            "echo",
            json!({"text": "Привіт, світе"}),
            json!("Привіт, світе"),
        ),
        (
            "calculator",
            json!({"expression": "2 * (3 + 4) ^ 2"}),
            json!(98),
        ),
        ("calculator", json!({"expression": "7 / 2"}), json!(3.5)),
    ];
    for (number, (tool, arguments, expected)) in cases.into_iter().enumerate() {
        server.model.reply(Reply::tool_call(tool, arguments));
        server.model.reply(Reply::text("There."));
        let seen = server
            .say_to(&format!("tools-{number}"), "coder", "go")
            .await;
        let shown = format!("tool_result {tool}");
        assert_eq!(
            seen.story(),
            [
                "switch_agent coder",
                &shown,
                "assistant_message coder",
                "completion"
            ]
        );
        let result = seen.chunks().find_map(|chunk| match chunk {
            ChunkBody::ToolResult(result) => Some(result),
            _ => None,
        });
        let result = result.unwrap();
        assert_eq!(result.result.as_f64(), expected.as_f64(), "{result:?}");
        assert_eq!(result.result.as_str(), expected.as_str(), "{result:?}");
        let told = server.steps().pop().unwrap().wire_message(-1).clone();
        assert_eq!(
            (&told["role"], &told["tool_call_id"]),
            (&json!("tool"), &json!(result.call_id))
        );
        let text = result
            .result
            .as_str()
            .map_or_else(|| result.result.to_string(), str::to_owned);
        assert_eq!(told["content"], text);
    }
}

#[tokio::test]
async fn a_calculation_that_fails_is_told_to_the_model() {
    let server = TestServer::start().await;
    server.model.reply(Reply::tool_call(
        "calculator",
        json!({"expression": "1 / 0"}),
    ));
    server.model.reply(Reply::text("That has no answer."));
    let seen = server.say_to("zero", "coder", "divide").await;
    let expected = [
        "switch_agent coder",
        "tool_result calculator",
        "assistant_message coder",
        "completion",
    ];
    assert_eq!(seen.story(), expected);
    assert!(
        server.steps()[1]
            .message(-1)
            .as_str()
            .unwrap()
            .contains("error")
    );
}

#[tokio::test]
async fn a_question_waits_and_the_next_message_is_its_answer() {
    let server = TestServer::start().await;
    let question = json!({"question": "Какой алгоритм?", "options": ["quicksort", "mergesort"]});
    server
        .model
        .reply(Reply::tool_call("ask_followup_question", question));
    let asked = server.say_to("question", "coder", "sort it").await;
    assert_eq!(asked.story(), ["switch_agent coder", "question"]);
    assert_eq!(asked.status(), TurnStatus::AwaitingAnswer);
    let shown = serde_json::to_value(asked.question()).unwrap();
    assert_eq!(shown["question"], "Какой алгоритм?");
    assert_eq!(
        (&shown["options"], &shown["agent"]),
        (&json!(["quicksort", "mergesort"]), &json!("coder"))
    );
    let call = asked.question().call_id.clone();
    let refused = server
        .refused(&tool_result("question", &call, json!("quicksort")))
        .await;
    assert_eq!(
        refused,
        (409, "CONFLICT".to_owned()),
        "a question is answered by a message"
    );

    server.model.reply(Reply::text("Sorted."));
    let answered = server.say("question", "mergesort, пожалуйста").await;
    assert_eq!(
        answered.story(),
        ["assistant_message coder", "completion"],
        "the same turn went on, unrouted"
    );
    assert_eq!(answered.status(), TurnStatus::Completed);
    let last = server.steps().pop().unwrap();
    assert_eq!(last.roles(), ["system", "user", "assistant", "tool"]);
    let expected =
        json!({"role": "tool", "tool_call_id": call, "content": "mergesort, пожалуйста"});
    assert_eq!(*last.wire_message(-1), expected);
}

#[tokio::test]
async fn a_task_ends_with_the_result_the_agent_gives() {
    let server = TestServer::start().await;
    server.model.route_to("coder");
    server.model.reply(Reply::tool_call(
        "attempt_completion",
        json!({"result": "Функция готова"}),
    ));
    let seen = server.say("end", "write a function").await;
    assert_eq!(
        seen.story(),
        [
            "switch_agent coder",
            "switch_agent orchestrator",
            "completion"
        ]
    );
    let completion = serde_json::to_value(seen.completion()).unwrap();
    assert_eq!(
        completion,
        json!({"status": "success", "message": "Функция готова", "agent": "coder"})
    );
    let history = server.history("end").await;
    let last = history.last().unwrap();
    assert_eq!(
        (last.role, last.content.as_str()),
        (Role::Assistant, "Функция готова")
    );
    server.model.reply(Reply::text("And now?"));
    server.say("end", "go on").await;
    let next = server.steps().pop().unwrap();
    assert_eq!(
        next.roles(),
        ["system", "user", "assistant", "user"],
        "the result is what the next turn remembers"
    );
}

#[tokio::test]
async fn several_calls_at_once_are_rejected_each_with_the_error_as_its_result() {
    let server = TestServer::start().await;
    let calls = vec![
        ("read_file", json!({"path": "a.py"})),
        ("write_file", json!({"path": "b.py", "content": "x"})),
    ];
    server.model.reply(Reply::tool_calls(calls));
    server.model.reply(Reply::text("One at a time, then."));
    let seen = server.say_to("several", "coder", "go").await;
    let expected = [
        "switch_agent coder",
        "error MULTIPLE_TOOL_CALLS",
        "assistant_message coder",
        "completion",
    ];
    assert_eq!(
        (seen.story(), seen.status()),
        (expected.map(str::to_owned).to_vec(), TurnStatus::Completed)
    );
    let step = server.steps().pop().unwrap();
    assert_eq!(
        step.roles(),
        ["system", "user", "assistant", "tool", "tool"]
    );
    let ids: Vec<&Value> = [0, 1]
        .iter()
        .map(|call| &step.wire_message(2)["tool_calls"][call]["id"])
        .collect();
    for (index, call) in [(3, ids[0]), (4, ids[1])] {
        let told = step.wire_message(index);
        assert_eq!(&told["tool_call_id"], call);
        assert!(
            told["content"]
                .as_str()
                .unwrap()
                .contains("MULTIPLE_TOOL_CALLS"),
            "{told}"
        );
    }
}

#[tokio::test]
async fn several_calls_can_run_one_after_the_other() {
    let server = TestServer::with(&[("CODELAB_MULTIPLE_TOOL_CALLS", "sequence")]).await;
    server.model.reply(Reply::tool_calls(vec![
        ("echo", json!({"text": "first"})),
        ("write_file", json!({"path": "b.py", "content": "x"})),
        ("read_file", json!({"path": "a.py"})),
    ]));
    let asked = server.say_to("sequence", "coder", "go").await;
    assert_eq!(
        asked.story(),
        [
            "switch_agent coder",
            "tool_result echo",
            "tool_call write_file?"
        ]
    );
    let written = asked.call_id();
    server.approve("sequence", &written).await;
    let reading = server.result("sequence", &written, json!("written")).await;
    assert_eq!(reading.story(), ["tool_call read_file"]);
    assert_eq!(
        server.model.request_count(),
        1,
        "the model is asked again only after the last one"
    );

    server.model.reply(Reply::text("All done."));
    let done = server
        .result("sequence", &reading.call_id(), json!("x = 1"))
        .await;
    assert_eq!(done.story(), ["assistant_message coder", "completion"]);
    let step = server.steps().pop().unwrap();
    assert_eq!(
        step.roles(),
        ["system", "user", "assistant", "tool", "tool", "tool"]
    );
    let told: Vec<&str> = (3..6)
        .map(|index| step.wire_message(index)["content"].as_str().unwrap())
        .collect();
    assert_eq!(told, ["first", "written", "x = 1"]);
}

#[tokio::test]
async fn a_completion_waits_until_the_model_has_seen_the_other_results() {
    let server = TestServer::with(&[("CODELAB_MULTIPLE_TOOL_CALLS", "sequence")]).await;
    let result = json!({"result": "Both done"});
    server.model.reply(Reply::tool_calls(vec![
        ("echo", json!({"text": "one"})),
        ("attempt_completion", result.clone()),
    ]));
    server
        .model
        .reply(Reply::tool_call("attempt_completion", result));
    let seen = server.say_to("last", "coder", "go").await;
    assert_eq!(
        seen.story()[..3],
        [
            "switch_agent coder",
            "tool_result echo",
            "error TOOL_VALIDATION_ERROR"
        ]
    );
    assert_eq!(
        (seen.completion().message.as_str(), seen.status()),
        ("Both done", TurnStatus::Completed)
    );
    let again = server.steps().pop().unwrap();
    assert_eq!(
        again.roles(),
        ["system", "user", "assistant", "tool", "tool"],
        "every call has a result"
    );
}
