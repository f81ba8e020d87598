//! Whole requests as people make them, over HTTP, from the first message to the answer.

use codelab_protocol::TurnStatus;
use codelab_testkit::{Asked, Reply, SeenEvents, TestServer};
use serde_json::{Value, json};

const CODER_TOOLS: [&str; 11] = [
    "read_file",
    "write_file",
    "list_files",
    "search_in_code",
    "create_directory",
    "execute_command",
    "attempt_completion",
    "ask_followup_question",
    "switch_mode",
    "echo",
    "calculator",
];

#[tokio::test]
async fn a_new_function() {
    let server = TestServer::start().await;
    server.model.route_to("coder");
    let file = json!({"path": "utils/sorting.py", "content": "def sort_array(arr): ..."});
    server
        .model
        .reply(Reply::tool_call("write_file", file.clone()));
    let asked = server
        .say("s1", "Создай функцию для сортировки массива чисел")
        .await;
    assert_eq!(
        asked.story(),
        ["switch_agent coder", "tool_call write_file?"]
    );
    assert_eq!(asked.status(), TurnStatus::AwaitingApproval);
    assert_eq!(asked.switches()[0].confidence.as_deref(), Some("high"));
    assert_eq!(
        asked.tool_call().reason.as_deref(),
        Some("File modification requires approval")
    );

    let call = asked.call_id();
    let approved = server.approve("s1", &call).await;
    assert_eq!(approved.story(), ["tool_call write_file"]);
    assert!(approved.tool_call().approved);
    assert_eq!(
        Value::Object(approved.tool_call().tool_call.arguments.clone()),
        file
    );
    assert_eq!(approved.tool_call().digest, asked.tool_call().digest);
    assert_eq!(approved.status(), TurnStatus::AwaitingToolResult);

    server
        .model
        .reply(Reply::text("Функция создана в utils/sorting.py"));
    let done = server
        .result("s1", &call, json!("File created successfully"))
        .await;
    assert_eq!(
        done.story(),
        [
            "assistant_message coder",
            "switch_agent orchestrator",
            "completion"
        ]
    );
    assert_eq!(done.status(), TurnStatus::Completed);
    assert_eq!(done.answer().content, "Функция создана в utils/sorting.py");
    assert_eq!(server.current_agent("s1").await, "orchestrator");

    let requests = server.model.requests();
    assert_eq!(requests.len(), 3);
    let classification = &requests[0].body;
    assert_eq!(requests[0].temperature(), 0.3);
    assert_eq!(classification["max_tokens"], 200);
    assert!(
        classification.get("tools").is_none()
            && classification.get("parallel_tool_calls").is_none()
    );
    assert!(
        requests[0]
            .message(-1)
            .as_str()
            .unwrap()
            .contains("Создай функцию для сортировки массива чисел")
    );
    for step in &requests[1..] {
        assert_eq!(step.temperature(), 0.2);
        assert_eq!(step.tool_names(), CODER_TOOLS);
        assert_eq!(step.body["parallel_tool_calls"], false);
        assert!(
            step.told().contains("Previous agent: orchestrator"),
            "{}",
            step.told()
        );
        assert!(
            step.told().contains("Reason for switch: scripted"),
            "{}",
            step.told()
        );
    }
    assert_eq!(requests[1].roles(), ["system", "user"]);
    assert_eq!(requests[2].roles(), ["system", "user", "assistant", "tool"]);
    let made = &requests[2].wire_message(-2)["tool_calls"][0];
    assert_eq!(
        (made["id"].as_str(), made["function"]["name"].as_str()),
        (Some(call.as_str()), Some("write_file"))
    );
    let result = requests[2].wire_message(-1);
    assert_eq!(
        *result,
        json!({"role": "tool", "tool_call_id": call, "content": "File created successfully"})
    );
}

#[tokio::test]
async fn an_error_is_found_and_then_repaired() {
    let server = TestServer::start().await;
    server.model.route_to("debug");
    server.model.reply(Reply::tool_call(
        "search_in_code",
        json!({"query": "config"}),
    ));
    let searching = server
        .say(
            "s2",
            "У меня ошибка: NameError: name 'config' is not defined",
        )
        .await;
    assert_eq!(
        searching.story(),
        ["switch_agent debug", "tool_call search_in_code"]
    );
    assert_eq!(searching.status(), TurnStatus::AwaitingToolResult);

    server
        .model
        .reply(Reply::tool_call("read_file", json!({"path": "main.py"})));
    let matches = json!({"success": true, "matches": [{"path": "main.py", "line": 7, "text": "config.debug"}]});
    let reading = server
        .result("s2", &searching.call_id(), matches.clone())
        .await;
    assert_eq!(reading.story(), ["tool_call read_file"]);

    let found = "Найдена проблема: отсутствует импорт. Переключаюсь на Coder для исправления";
    let hand_over = json!({"agent": "coder", "reason": "нужно добавить импорт"});
    server
        .model
        .reply(Reply::tool_call("switch_mode", hand_over).with_text(found));
    let fix = json!({"path": "main.py", "edits": [{"old": "import os", "new": "import os\nfrom config import config"}]});
    server.model.reply(Reply::tool_call("write_file", fix));
    let source = json!({"success": true, "content": "import os\nconfig.debug", "size": 22});
    let asked = server.result("s2", &reading.call_id(), source).await;
    assert_eq!(
        asked.story(),
        [
            "assistant_message debug",
            "switch_agent coder",
            "tool_call write_file?"
        ]
    );
    assert_eq!(asked.answer().content, found);
    let switch = asked.switches()[0];
    assert_eq!(
        (switch.from_agent.as_str(), switch.reason.as_str()),
        ("debug", "нужно добавить импорт")
    );

    server.approve("s2", &asked.call_id()).await;
    server.model.reply(Reply::text(
        "Импорт добавлен, ошибка должна быть исправлена",
    ));
    let done = server
        .result("s2", &asked.call_id(), json!({"success": true, "size": 48}))
        .await;
    assert_eq!(
        done.story(),
        [
            "assistant_message coder",
            "switch_agent orchestrator",
            "completion"
        ]
    );

    let steps = server.steps();
    let tools = |step: usize| steps[step].tool_names();
    assert!(
        !tools(0).contains(&"write_file") && tools(0).contains(&"execute_command"),
        "{:?}",
        tools(0)
    );
    assert_eq!(tools(3), CODER_TOOLS);
    let told: Value = serde_json::from_str(steps[1].message(-1).as_str().unwrap()).unwrap();
    assert_eq!(told, matches);
    let prompt = steps[3].told();
    assert!(prompt.contains("Previous agent: debug"), "{prompt}");
    assert!(
        prompt.contains("Reason for switch: нужно добавить импорт"),
        "{prompt}"
    );
    assert!(
        steps[3].roles().len() > 5,
        "the next agent sees what the one before found: {:?}",
        steps[3].roles()
    );
}

#[tokio::test]
async fn an_architecture_is_written_down() {
    let server = TestServer::start().await;
    server.model.route_to("architect");
    let documents = [
        "docs/auth-service-architecture.md",
        "docs/api-specification.md",
    ];
    server.model.reply(Reply::tool_call(
        "write_file",
        json!({"path": documents[0], "content": "# Auth"}),
    ));
    let mut asked = server
        .say(
            "s3",
            "Спроектируй архитектуру для микросервиса аутентификации",
        )
        .await;
    assert_eq!(
        asked.story(),
        ["switch_agent architect", "tool_call write_file?"]
    );

    server.approve("s3", &asked.call_id()).await;
    server.model.reply(Reply::tool_call(
        "write_file",
        json!({"path": documents[1], "content": "# API"}),
    ));
    asked = server
        .result("s3", &asked.call_id(), json!({"success": true, "size": 6}))
        .await;
    assert_eq!(asked.story(), ["tool_call write_file?"]);
    assert_eq!(asked.tool_call().tool_call.arguments["path"], documents[1]);

    server.approve("s3", &asked.call_id()).await;
    server
        .model
        .reply(Reply::text("Архитектура задокументирована в docs/"));
    let done = server
        .result("s3", &asked.call_id(), json!({"success": true, "size": 5}))
        .await;
    assert_eq!(
        done.story(),
        [
            "assistant_message architect",
            "switch_agent orchestrator",
            "completion"
        ]
    );

    let steps = server.steps();
    let tools = steps[0].tool_names();
    assert_eq!(steps[0].temperature(), 0.4);
    assert!(
        tools.contains(&"write_file") && !tools.contains(&"execute_command"),
        "{tools:?}"
    );
    let last = steps[2].body["messages"].to_string();
    assert!(
        documents.iter().all(|path| last.contains(path)),
        "the written files are known: {last}"
    );
    let audit = server.audit("s3").await;
    let paths: Vec<&Value> = audit
        .audit
        .iter()
        .map(|row| &row.original_args.as_ref().unwrap()["path"])
        .collect();
    assert_eq!(paths, documents);
}

#[tokio::test]
async fn a_question_is_answered_from_the_code() {
    let server = TestServer::start().await;
    server.model.route_to("ask");
    server
        .model
        .reply(Reply::tool_call("read_file", json!({"path": "auth.py"})));
    let reading = server
        .say("s4", "Как работает функция authenticate() в auth.py?")
        .await;
    assert_eq!(reading.story(), ["switch_agent ask", "tool_call read_file"]);
    assert!(!reading.tool_call().requires_approval && !reading.tool_call().approved);

    server.model.reply(Reply::tool_call(
        "search_in_code",
        json!({"query": "authenticate"}),
    ));
    let source = json!({"success": true, "content": "def authenticate(): ...", "size": 23});
    let searching = server.result("s4", &reading.call_id(), source).await;
    assert_eq!(searching.story(), ["tool_call search_in_code"]);

    let explanation = "Функция authenticate() работает следующим образом: ...";
    server.model.reply(Reply::text(explanation));
    let done = server
        .result(
            "s4",
            &searching.call_id(),
            json!({"success": true, "matches": []}),
        )
        .await;
    assert_eq!(
        done.story(),
        [
            "assistant_message ask",
            "switch_agent orchestrator",
            "completion"
        ]
    );
    assert_eq!(done.answer().content, explanation);

    let steps = server.steps();
    assert_eq!(steps[0].temperature(), 0.5);
    let tools = [
        "read_file",
        "search_in_code",
        "list_files",
        "attempt_completion",
        "switch_mode",
    ];
    assert_eq!(steps[0].tool_names(), tools);
    assert!(
        server.audit("s4").await.audit.is_empty(),
        "nothing was changed, so nobody was asked"
    );
}

#[tokio::test]
async fn a_task_that_several_agents_work_on() {
    let server = TestServer::start().await;
    server.model.route_to("coder");
    let go_to = |agent: &str, reason: &str| {
        Reply::tool_call("switch_mode", json!({"agent": agent, "reason": reason}))
    };
    let write = |path: &str| Reply::tool_call("write_file", json!({"path": path, "content": "…"}));

    server
        .model
        .reply(Reply::tool_call("list_files", json!({"path": "src/api/"})));
    let listing = server
        .say("s5", "Добавь логирование во все функции API")
        .await;
    assert_eq!(
        listing.story(),
        ["switch_agent coder", "tool_call list_files"]
    );

    server.model.reply(go_to("architect", "нужен план"));
    server.model.reply(write("docs/logging-plan.md"));
    let files = json!({"success": true, "files": [{"path": "src/api/users.py", "type": "file", "size": 1}]});
    let plan = server.result("s5", &listing.call_id(), files).await;
    assert_eq!(
        plan.story(),
        ["switch_agent architect", "tool_call write_file?"]
    );

    server.model.reply(go_to("coder", "план готов"));
    server.model.reply(write("src/api/users.py"));
    let change = approve_and_run(&server, &plan).await;
    assert_eq!(
        change.story(),
        ["switch_agent coder", "tool_call write_file?"]
    );

    server.model.reply(go_to("debug", "найдена ошибка"));
    server.model.reply(go_to("coder", "ошибка понятна"));
    server.model.reply(write("src/api/orders.py"));
    let repair = approve_and_run(&server, &change).await;
    assert_eq!(
        repair.story(),
        [
            "switch_agent debug",
            "switch_agent coder",
            "tool_call write_file?"
        ]
    );

    server.model.reply(Reply::text("Логирование добавлено"));
    let done = approve_and_run(&server, &repair).await;
    assert_eq!(
        done.story(),
        [
            "assistant_message coder",
            "switch_agent orchestrator",
            "completion"
        ]
    );
    assert_eq!(done.status(), TurnStatus::Completed);

    let tool_runner: Vec<(String, String)> = server
        .switches("s5")
        .await
        .into_iter()
        .map(|entry| (entry.to_agent.into(), entry.reason))
        .collect();
    let expected = [
        ("coder", "scripted"),
        ("architect", "нужен план"),
        ("coder", "план готов"),
        ("debug", "найдена ошибка"),
        ("coder", "ошибка понятна"),
        ("orchestrator", "turn_completed"),
    ];
    assert_eq!(
        tool_runner,
        expected.map(|(agent, reason)| (agent.to_owned(), reason.to_owned()))
    );
    let temperatures: Vec<f64> = server.steps().iter().map(Asked::temperature).collect();
    assert_eq!(temperatures, [0.2, 0.2, 0.4, 0.4, 0.2, 0.2, 0.2, 0.2, 0.2]);
}

async fn approve_and_run(server: &TestServer, asked: &SeenEvents) -> SeenEvents {
    server.approve("s5", &asked.call_id()).await;
    server
        .result("s5", &asked.call_id(), json!({"success": true, "size": 1}))
        .await
}
