//! Who takes a message: classification and its fallback, one-agent mode, pins, switches during and
//! between turns.

use codelab_protocol::{AgentStreamRequest, TurnStatus};
use codelab_testkit::{
    Asked, Gate, Method, Reply, SeenEvents, TestServer, id, is_classification, message, message_to,
    refusal, request,
};
use serde_json::{Value, json};

#[tokio::test]
async fn a_verdict_is_used_when_it_names_a_specialist_and_keywords_decide_otherwise() {
    let server = TestServer::start().await;
    server.model.default_reply(Reply::text("Done."));
    let debug = "У меня ошибка: NameError: name 'config' is not defined";
    let cases = [
        (
            r#"{"agent": "ask", "confidence": "medium", "reason": "a question"}"#,
            debug,
            "ask",
            "medium",
        ),
        (
            "Sure:\n```json\n{\"agent\": \"architect\", \"confidence\": \"high\"}\n```",
            debug,
            "architect",
            "high",
        ),
        (r#"{"agent": "coder", "confi"#, debug, "coder", "medium"),
        ("I think somebody should look at it", debug, "debug", "low"),
        (
            r#"{"agent": "chef", "confidence": "high"}"#,
            "Design the architecture of a kitchen",
            "architect",
            "low",
        ),
        (
            r#"{"agent": "orchestrator"}"#,
            "How does authenticate() work?",
            "ask",
            "low",
        ),
        (
            r#"{"agent": "universal"}"#,
            "Створи функцію для сортування масиву",
            "coder",
            "low",
        ),
        ("{}", "hello", "coder", "low"),
    ];
    for (number, (verdict, text, agent, confidence)) in cases.into_iter().enumerate() {
        server.model.on(is_classification, Reply::text(verdict));
        let seen = server.say(&format!("verdict-{number}"), text).await;
        let switch = seen.switches()[0];
        let shown = (
            switch.from_agent.as_str(),
            switch.to_agent.as_str(),
            switch.confidence.as_deref(),
        );
        assert_eq!(
            shown,
            ("orchestrator", agent, Some(confidence)),
            "{verdict}"
        );
        assert!(!switch.reason.is_empty());
        assert_eq!(seen.status(), TurnStatus::Completed);
    }
}

#[tokio::test]
async fn a_classification_that_fails_falls_back_to_keywords() {
    let failures = [
        ("refused", Reply::status(400, "no")),
        ("failing", Reply::status(500, "oops")),
        (
            "cut",
            Reply::text(r#"{"agent": "ask", "reason": "cut short"}"#).cut_after_deltas(2),
        ),
        ("empty", Reply::text("")),
    ];
    for (session, failure) in failures {
        let server = TestServer::start().await;
        server.model.on(is_classification, failure);
        server.model.default_reply(Reply::text("Found it."));
        let seen = server
            .say(session, "Investigate the crash of the server")
            .await;
        let expected = [
            "switch_agent debug",
            "assistant_message debug",
            "switch_agent orchestrator",
            "completion",
        ];
        assert_eq!(seen.story(), expected, "{session}");
    }
}

#[tokio::test]
async fn without_a_model_server_keywords_route_and_the_turn_fails_clearly() {
    let server = TestServer::with(&[("LLM_PROXY_URL", "http://127.0.0.1:1")]).await;
    let seen = server.say("refused", "Debug this error").await;
    let expected = [
        "switch_agent debug",
        "error LLM_PROXY_UNAVAILABLE",
        "switch_agent orchestrator",
    ];
    assert_eq!(seen.story(), expected);
    assert_eq!(seen.status(), TurnStatus::Failed);
    assert_eq!(server.current_agent("refused").await, "orchestrator");
}

#[tokio::test]
async fn the_team_of_specialists_is_listed_with_its_tools() {
    let server = TestServer::start().await;
    let health = server.http(Method::GET, "/health", None).await.1;
    let names = json!(["orchestrator", "coder", "architect", "debug", "ask"]);
    assert_eq!(
        (&health["status"], &health["multi_agent_mode"]),
        (&json!("healthy"), &json!(true))
    );
    assert_eq!(health["registered_agents"], names);
    let all = json!([
        "read_file",
        "write_file",
        "list_files",
        "search_in_code",
        "create_directory",
        "execute_command",
        "attempt_completion",
        "ask_followup_question"
    ]);
    let reading = ["read_file", "list_files", "search_in_code"];
    let asking = ["attempt_completion", "ask_followup_question"];
    let expected = [
        (json!(reading), Value::Null),
        (all, Value::Null),
        (
            json!([
                "read_file",
                "write_file",
                "list_files",
                "search_in_code",
                asking[0],
                asking[1]
            ]),
            json!(["\\.md$"]),
        ),
        (
            json!([
                "read_file",
                "list_files",
                "search_in_code",
                "execute_command",
                asking[0],
                asking[1]
            ]),
            Value::Null,
        ),
        (
            json!([
                "read_file",
                "search_in_code",
                "list_files",
                "attempt_completion"
            ]),
            Value::Null,
        ),
    ];
    let agents = server.http(Method::GET, "/agents", None).await.1;
    let agents = agents["agents"].as_array().unwrap();
    assert_eq!(
        json!(
            agents
                .iter()
                .map(|agent| &agent["agent_type"])
                .collect::<Vec<_>>()
        ),
        names
    );
    for (agent, (tools, restrictions)) in agents.iter().zip(expected) {
        assert_eq!(
            (&agent["allowed_tools"], &agent["file_restrictions"]),
            (&tools, &restrictions),
            "{agent}"
        );
        assert!(
            agent["description"]
                .as_str()
                .is_some_and(|text| !text.is_empty())
        );
    }
}

#[tokio::test]
async fn in_one_agent_mode_everything_goes_to_universal_unclassified() {
    let server = TestServer::with(&[("MULTI_AGENT_MODE", "false")]).await;
    let health = server.client.health().await.unwrap();
    let names: Vec<&str> = health.registered_agents.iter().map(AsRef::as_ref).collect();
    assert_eq!(
        (health.multi_agent_mode, names),
        (false, vec!["orchestrator", "universal"])
    );
    let agents = server.client.agents().await.unwrap().agents;
    let listed: Vec<(&str, usize)> = agents
        .iter()
        .map(|a| (a.agent_type.as_ref(), a.allowed_tools.len()))
        .collect();
    assert_eq!(listed, [("orchestrator", 3), ("universal", 8)]);

    server.model.reply(Reply::text("Hi."));
    let seen = server.say("single", "У меня ошибка в коде").await;
    let expected = [
        "switch_agent universal",
        "assistant_message universal",
        "switch_agent orchestrator",
        "completion",
    ];
    assert_eq!(seen.story(), expected);
    let requests = server.model.requests();
    assert_eq!(requests.len(), 1, "there is nothing to classify");
    assert_eq!(requests[0].temperature(), 0.3);
    let offered = requests[0].tool_names();
    for tool in [
        "read_file",
        "write_file",
        "execute_command",
        "ask_followup_question",
        "echo",
        "calculator",
    ] {
        assert!(offered.contains(&tool), "{tool}: {offered:?}");
    }
    let coder = message_to("coder", "single", "go");
    assert_eq!(
        server.refused(&coder).await,
        (404, "AGENT_NOT_FOUND".to_owned())
    );
}

#[tokio::test]
async fn after_a_turn_the_session_is_back_with_the_orchestrator_and_the_next_message_is_classified_anew()
 {
    let server = TestServer::start().await;
    server.model.default_reply(Reply::text("Done."));
    server.model.route_to("coder");
    let first = server.say("home", "write it").await;
    let back = first.switches()[1];
    assert_eq!(
        (back.from_agent.as_str(), back.to_agent.as_str()),
        ("coder", "orchestrator")
    );
    assert_eq!(back.reason, "turn_completed");
    server.model.route_to("ask");
    let second = server.say("home", "what is it?").await;
    assert_eq!(second.story()[0], "switch_agent ask");
    assert_eq!(
        server
            .model
            .requests()
            .iter()
            .filter(|request| request.is_classification())
            .count(),
        2
    );

    let current = server
        .http(Method::GET, "/agents/home/current", None)
        .await
        .1;
    assert_eq!(
        (&current["session_id"], &current["current_agent"]),
        (&json!("home"), &json!("orchestrator"))
    );
    assert_eq!(current["switch_count"], 4);
    let history = server
        .http(Method::GET, "/sessions/home/agent-history", None)
        .await
        .1;
    let switches = history["switches"].as_array().unwrap();
    let path: Vec<&Value> = switches.iter().map(|switch| &switch["to_agent"]).collect();
    assert_eq!(history["session_id"], "home");
    assert_eq!(path, ["coder", "orchestrator", "ask", "orchestrator"]);
    assert_eq!(switches[0]["confidence"], "high");
    assert_eq!(switches[0]["reason"], "scripted");
    assert_eq!(switches[1].get("confidence"), None);
    assert_eq!(switches[3]["timestamp"], current["last_switch_at"]);
    assert!(
        server
            .history("home")
            .await
            .iter()
            .all(|message| message.name.as_deref() != Some("orchestrator"))
    );
}

#[tokio::test]
async fn an_agent_named_with_a_message_is_pinned_until_it_is_taken_back() {
    let server = TestServer::start().await;
    server.model.default_reply(Reply::text("Done."));
    server.model.route_to("coder");
    let first = server.say_to("pin", "ask", "write a function").await;
    assert_eq!(
        first.story(),
        ["switch_agent ask", "assistant_message ask", "completion"]
    );
    assert_eq!(first.switches()[0].confidence, None);
    let second = server.say("pin", "write another").await;
    assert_eq!(second.story(), ["assistant_message ask", "completion"]);
    assert_eq!(
        server.model.request_count(),
        2,
        "a pinned agent needs no classification"
    );
    let moved = server.say_to("pin", "debug", "and now?").await;
    assert_eq!(
        moved.story(),
        [
            "switch_agent debug",
            "assistant_message debug",
            "completion"
        ]
    );
    let freed = server.say_to("pin", "orchestrator", "write it").await;
    let expected = [
        "switch_agent orchestrator",
        "switch_agent coder",
        "assistant_message coder",
        "switch_agent orchestrator",
        "completion",
    ];
    assert_eq!(freed.story(), expected);
}

#[tokio::test]
async fn a_switch_between_turns_makes_the_session_pins_and_is_no_request() {
    let server = TestServer::start().await;
    let switch = AgentStreamRequest {
        message: Some("Switch to debug mode".to_owned()),
        ..switch_request("chosen", "debug")
    };
    let seen = server.send(&switch).await;
    assert_eq!(
        (seen.story(), seen.status()),
        (vec!["switch_agent debug".to_owned()], TurnStatus::Completed)
    );
    assert_eq!(seen.switches()[0].from_agent.as_str(), "orchestrator");
    assert_eq!(server.model.request_count(), 0);
    assert!(server.history("chosen").await.is_empty());
    assert_eq!(server.current_agent("chosen").await, "debug");

    server.model.reply(Reply::text("Looking."));
    let said = server.say("chosen", "write a function").await;
    assert_eq!(said.story(), ["assistant_message debug", "completion"]);
    assert_eq!(server.current_agent("chosen").await, "debug");
    let same = server.switch("chosen", "debug").await;
    assert_eq!(
        (same.story(), same.status()),
        (vec![], TurnStatus::Completed)
    );

    server.switch("chosen", "orchestrator").await;
    server.model.route_to("coder");
    server.model.reply(Reply::text("Written."));
    let freed = server.say("chosen", "write a function").await;
    assert_eq!(freed.story()[0], "switch_agent coder");
    assert_eq!(server.current_agent("chosen").await, "orchestrator");
}

/// What would begin a new session must find the one that is stored, be it a message, a switch, or a
/// refusal.
#[tokio::test]
async fn a_session_that_is_not_in_memory_is_not_taken_for_a_new_one() {
    let mut server = TestServer::start().await;
    server.model.default_reply(Reply::text("Here."));
    server.say_to("kept", "debug", "hello").await;
    server.restart().await;
    assert_eq!(
        server.say("kept", "and again").await.story(),
        ["assistant_message debug", "completion"]
    );
    assert_eq!(server.history("kept").await.len(), 4);

    server.restart().await;
    assert_eq!(
        server.switch("kept", "orchestrator").await.story(),
        ["switch_agent orchestrator"]
    );
    assert_eq!(server.current_agent("kept").await, "orchestrator");

    server
        .client
        .delete_session(&id("kept"), false)
        .await
        .unwrap();
    server.restart().await;
    for agent in ["debug", "orchestrator", "nobody"] {
        let refused = refusal(server.client.send(&switch_request("kept", agent)).await);
        assert_eq!(refused, (404, "SESSION_NOT_FOUND".to_owned()), "{agent}");
    }
}

#[tokio::test]
async fn a_switch_during_a_suspended_turn_takes_effect_at_its_end() {
    let server = TestServer::start().await;
    server.model.route_to("coder");
    server.model.reply(Reply::tool_call(
        "write_file",
        json!({"path": "a.py", "content": "1"}),
    ));
    let asked = server.say("later", "write a.py").await;
    let switched = server.switch("later", "debug").await;
    assert_eq!(
        (switched.story(), switched.status()),
        (vec![], TurnStatus::AwaitingApproval)
    );
    assert_eq!(server.current_agent("later").await, "coder");

    server.approve("later", &asked.call_id()).await;
    server.model.reply(Reply::text("Written."));
    let done = server.result("later", &asked.call_id(), json!("ok")).await;
    assert_eq!(
        done.story(),
        [
            "assistant_message coder",
            "switch_agent debug",
            "completion"
        ]
    );
    server.model.reply(Reply::text("Looking."));
    assert_eq!(
        server.say("later", "write b.py").await.story(),
        ["assistant_message debug", "completion"]
    );
}

#[tokio::test]
async fn a_switch_during_a_running_turn_takes_effect_at_its_end() {
    let server = TestServer::start().await;
    let gate = Gate::new();
    server.model.route_to("coder");
    server.model.reply(Reply::text("Written down.").hold(&gate));
    let turn = server.open(&message("running", "write it")).await;
    gate.reached().await;
    let switch = server.open(&switch_request("running", "ask")).await;
    assert_eq!(server.current_agent("running").await, "coder");
    gate.open();
    let expected = [
        "switch_agent coder",
        "assistant_message coder",
        "switch_agent ask",
        "completion",
    ];
    assert_eq!(SeenEvents::all(turn).await.story(), expected);
    assert_eq!(
        SeenEvents::all(switch).await.story(),
        expected[1..],
        "the rest of the turn, up to the switch"
    );
    server.model.reply(Reply::text("Because."));
    assert_eq!(
        server.say("running", "why?").await.story(),
        ["assistant_message ask", "completion"]
    );
}

#[tokio::test]
async fn an_agent_that_is_not_registered_is_not_found_and_nothing_happens() {
    let server = TestServer::start().await;
    for agent in ["chef", "universal", "no such agent"] {
        let named = AgentStreamRequest {
            agent_type: Some(agent.into()),
            ..message("nobody", "hi")
        };
        for request in [named, switch_request("nobody", agent)] {
            assert_eq!(
                server.refused(&request).await,
                (404, "AGENT_NOT_FOUND".to_owned()),
                "{agent:?}"
            );
        }
    }
    let unknown = server
        .client
        .current_agent(&id("nobody"))
        .await
        .unwrap_err();
    assert_eq!(unknown.status(), Some(404), "the session was not made");
    assert_eq!(server.model.request_count(), 0);
}

#[tokio::test]
async fn a_hand_over_to_nobody_goes_back_to_the_model_and_the_turn_goes_on() {
    let server = TestServer::start().await;
    server.model.reply(Reply::tool_call(
        "switch_mode",
        json!({"agent": "chef", "reason": "hungry"}),
    ));
    server.model.reply(Reply::text("Then I do it myself."));
    let seen = server.say_to("nowhere", "coder", "cook").await;
    assert_eq!(
        seen.story(),
        [
            "switch_agent coder",
            "error AGENT_NOT_FOUND",
            "assistant_message coder",
            "completion"
        ]
    );
    let steps = server.steps();
    assert_eq!(steps[1].roles(), ["system", "user", "assistant", "tool"]);
    assert!(steps[1].message(-1).as_str().unwrap().contains("chef"));
}

#[tokio::test]
async fn too_many_hand_overs_in_a_turn_end_it() {
    let server = TestServer::with(&[("CODELAB_LIMITS__SWITCHES", "2")]).await;
    for agent in ["debug", "coder", "debug"] {
        server.model.reply(Reply::tool_call(
            "switch_mode",
            json!({"agent": agent, "reason": "your turn"}),
        ));
    }
    let seen = server.say_to("circle", "coder", "go").await;
    let expected = [
        "switch_agent coder",
        "switch_agent debug",
        "switch_agent coder",
        "error AGENT_SWITCH_FAILED",
    ];
    assert_eq!(seen.story(), expected);
    assert_eq!(seen.status(), TurnStatus::Failed);
    let answered = server
        .history("circle")
        .await
        .iter()
        .filter(|message| message.tool_call_id.is_some())
        .count();
    assert_eq!(answered, 3, "every call has a result");
}

#[tokio::test]
async fn the_next_turn_is_told_the_last_error() {
    let server = TestServer::start().await;
    server
        .model
        .reply(Reply::tool_call("read_file", json!({"path": "config.py"})));
    let reading = server.say_to("facts", "coder", "read it").await;
    server.model.reply(Reply::text("It is not there."));
    let failed = json!({"success": false, "error": "File not found: config.py"});
    server.result("facts", &reading.call_id(), failed).await;
    server.model.reply(Reply::text("Then look elsewhere."));
    server.say("facts", "go on").await;
    let steps = server.steps();
    let prompts = [steps[0].told(), steps[1].told(), steps[2].told()];
    assert!(!prompts[0].contains("Last error"), "{}", prompts[0]);
    assert_eq!(prompts[0], prompts[1], "the turn itself has the result");
    let line = prompts[2]
        .lines()
        .find(|line| line.starts_with("Last error:"))
        .unwrap();
    assert!(line.contains("File not found: config.py"), "{line}");
}

#[tokio::test]
async fn the_prompt_says_who_is_asking() {
    let server = TestServer::start().await;
    server.model.default_reply(Reply::text("Hi."));
    let context =
        json!({"user_id": 731, "timezone": "Europe/Kyiv", "household_id": "h-17", "locale": "uk"});
    let said =
        json!({"session_id": "who", "message": "hello", "agent_type": "coder", "context": context});
    assert_eq!(
        server
            .http(Method::POST, "/agent/message/stream", Some(said))
            .await
            .0,
        200
    );
    server.say_to("nobody", "coder", "hello").await;
    let steps = server.steps();
    for fact in ["731", "Europe/Kyiv", "h-17"] {
        assert!(
            steps[0].system_prompt().contains(fact),
            "{fact}: {}",
            steps[0].system_prompt()
        );
        assert!(!steps[1].system_prompt().contains(fact), "{fact}");
    }
}

fn switch_request(session: &str, agent: &str) -> AgentStreamRequest {
    AgentStreamRequest {
        message_type: Some(codelab_protocol::MessageType::SwitchAgent.into()),
        agent_type: Some(agent.to_owned()),
        ..request(session)
    }
}
