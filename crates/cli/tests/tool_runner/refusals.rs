//! What the client refuses by itself, whatever a server says: calls for others, changed arguments,
//! repeats, and all that needs a person when nobody is there.

use std::path::Path;

use serde_json::json;

use crate::lab::Lab;
use crate::pretender::{FORGOTTEN, LOST, RunnerProcess, UNREADABLE, call, corpus};

#[tokio::test]
async fn no_hostile_command_runs_unasked() {
    let lab = Lab::new().await;
    let tool_runner = RunnerProcess::start(&lab).await;
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../policy/tests/corpus/hostile.txt");
    let hostile = corpus(&file);
    assert!(hostile.len() >= 300);
    std::fs::write(lab.workspace.join("canary.txt"), "alive").unwrap();
    for (number, command) in hostile.iter().enumerate() {
        let result = tool_runner
            .run(&call(
                &format!("h{number}"),
                "execute_command",
                json!({"command": command}),
                false,
            ))
            .await;
        assert_eq!(result["success"], false, "{command:?}: {result}");
        assert!(
            result.get("exit_code").is_none(),
            "{command:?} ran: {result}"
        );
    }
    let names: Vec<_> = std::fs::read_dir(&lab.workspace)
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    assert_eq!(
        (names, lab.read("canary.txt").as_str()),
        (vec!["canary.txt".into()], "alive")
    );
}

#[tokio::test]
async fn plain_commands_run_behind_a_wall_and_ask_without_one() {
    let lab = Lab::new().await;
    let tool_runner = RunnerProcess::start(&lab).await;
    std::fs::write(lab.workspace.join("a.txt"), "x").unwrap();
    let is_walled = !tool_runner.process.says("sandbox: ").await.contains("none");
    let result = tool_runner
        .run(&call(
            "c1",
            "execute_command",
            json!({"command": "ls"}),
            false,
        ))
        .await;
    match is_walled {
        true => assert_eq!(result["stdout"], "a.txt\n", "{result}"),
        false => assert!(
            result["error"]
                .as_str()
                .unwrap()
                .contains("nobody is at the client"),
            "{result}"
        ),
    }
}

#[tokio::test]
async fn a_session_that_cannot_be_read_keeps_no_other_waiting() {
    let lab = Lab::new().await;
    let tool_runner = RunnerProcess::start(&lab).await;
    std::fs::write(lab.workspace.join("a.txt"), "x").unwrap();
    let read = |id| call(id, "read_file", json!({"path": "a.txt"}), false);
    tool_runner.offer_in(&format!("{UNREADABLE}-and-unknown"), &read("unread"));
    assert_eq!(tool_runner.run(&read("read")).await["content"], "x");
    assert_eq!(tool_runner.claims("unread"), 0);
}

#[tokio::test]
async fn a_tool_runner_that_was_cut_off_goes_on_after_its_last_event() {
    let lab = Lab::new().await;
    let tool_runner = RunnerProcess::start(&lab).await;
    std::fs::write(lab.workspace.join("a.txt"), "x").unwrap();
    let read = |id| call(id, "read_file", json!({"path": "a.txt"}), false);
    tool_runner.run(&read("one")).await;
    tool_runner.cut_stream().await;
    // It has run this call.
    tool_runner.offer(&read("one"));
    tool_runner.offer_in(FORGOTTEN, &read("two"));
    assert_eq!(tool_runner.results("two").await.len(), 1);
    assert_eq!(tool_runner.claims("one"), 1);
    // Where the server cannot go on, it reads the sessions again.
    tool_runner.cut_stream().await;
    tool_runner.run(&read("three")).await;
    let begins = ["events after nothing", "sessions"];
    let goes_on = ["events after s1-id", "events after forgotten-id"];
    let expected = [begins, goes_on, begins].concat();
    // It asked once before it listened, to see whether the server accepts it.
    assert_eq!(tool_runner.asked()[1..], expected);
}

#[tokio::test]
async fn calls_for_others_changed_arguments_and_writes_nobody_approved_are_refused() {
    let lab = Lab::new().await;
    let tool_runner = RunnerProcess::start(&lab).await;
    let write = |id: &str, path: &str, is_approved| {
        call(
            id,
            "write_file",
            json!({"path": path, "content": "planted", "create_dirs": true}),
            is_approved,
        )
    };
    let mut foreign = write("foreign", "a.txt", true);
    foreign["user_id"] = json!(2);
    let mut changed = write("changed", "a.txt", true);
    changed["tool_call"]["arguments"]["content"] = json!("plantee");
    let mut renamed = write("renamed", "a.txt", true);
    renamed["tool_call"]["name"] = json!("create_directory");
    let cases = [
        (foreign, "User 2 is not authorized"),
        (changed, "do not match their digest"),
        (renamed, "do not match their digest"),
        (write("unasked", "a.txt", false), "requires approval"),
        (
            write("hook", ".git/hooks/pre-commit", false),
            "is protected",
        ),
        (write("config", "codelab.toml", false), "is protected"),
        (write("folder", ".codelab/policy", false), "is protected"),
        (
            write("outside", "../a.txt", true),
            "outside workspace bounds",
        ),
        (
            call("odd", "write_file", json!({"path": 7}), true),
            "Invalid arguments",
        ),
    ];
    for (offered, expected) in cases {
        let result = tool_runner.run(&offered).await;
        assert_eq!(result["success"], false, "{offered}: {result}");
        assert!(
            result["error"].as_str().unwrap().contains(expected),
            "{offered}: {result}"
        );
    }
    assert_eq!(
        std::fs::read_dir(&lab.workspace).unwrap().count(),
        0,
        "nothing was written"
    );
    // The same hands do what was approved.
    assert_eq!(
        tool_runner.run(&write("approved", "a.txt", true)).await["success"],
        true
    );
    assert_eq!(lab.read("a.txt"), "planted");
}

#[tokio::test]
async fn a_call_that_is_offered_again_runs_once() {
    let lab = Lab::new().await;
    let tool_runner = RunnerProcess::start(&lab).await;
    let append = json!({"command": "echo once >> log.txt"});
    let offered = call("again", "execute_command", append, true);
    assert_eq!(tool_runner.run(&offered).await["success"], true);
    for _ in 0..5 {
        tool_runner.offer(&offered);
    }
    // Another call's end shows that the repeats before it were seen.
    tool_runner
        .run(&call(
            "after",
            "read_file",
            json!({"path": "log.txt"}),
            false,
        ))
        .await;
    assert_eq!(lab.read("log.txt"), "once\n");
    assert_eq!(tool_runner.results("again").await.len(), 1);
}

#[tokio::test]
async fn hidden_characters_are_made_visible() {
    let lab = Lab::new().await;
    let tool_runner = RunnerProcess::start(&lab).await;
    let command = "echo \u{202e}dlrow\u{1b}[2J; true";
    tool_runner
        .run(&call(
            "hidden",
            "execute_command",
            json!({"command": command}),
            true,
        ))
        .await;
    let line = tool_runner.process.says("execute_command echo").await;
    assert!(
        !line.contains('\u{202e}') && !line.contains('\u{1b}'),
        "{line:?}"
    );
    assert!(line.contains("dlrow"), "{line:?}");
}

#[tokio::test]
async fn a_lease_is_renewed_while_a_command_runs_and_one_that_is_lost_stops_it() {
    let lab = Lab::new().await;
    let tool_runner = RunnerProcess::start(&lab).await;
    let result = tool_runner
        .run(&call(
            "kept",
            "execute_command",
            json!({"command": "sleep 4; echo kept"}),
            true,
        ))
        .await;
    assert_eq!(result["stdout"], "kept\n", "{result}");
    assert!(
        tool_runner.claims("kept") >= 3,
        "{} claims",
        tool_runner.claims("kept")
    );
    let result = tool_runner
        .run(&call(
            LOST,
            "execute_command",
            json!({"command": "sleep 600"}),
            true,
        ))
        .await;
    assert_eq!(result["error"], "cancelled", "{result}");
}

#[tokio::test]
async fn an_error_of_the_server_commands_no_terminal() {
    let body = format!("\u{1b}]0;evil\u{7}\u{9b}2J\u{202e}{}", "x".repeat(50_000));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let answer = move || async move { (axum::http::StatusCode::INTERNAL_SERVER_ERROR, body) };
    let router = axum::Router::new().fallback(answer);
    tokio::spawn(async move { axum::serve(listener, router).await });
    let lab = Lab::new().await;
    let exec = ["exec", "--url", &url, "--token", "e30.e30.x", "say hello"];
    let folder = lab.workspace.to_str().unwrap();
    let work = [
        "work",
        "--workspace",
        folder,
        "--url",
        &url,
        "--token",
        "e30.e30.x",
    ];
    for arguments in [&exec[..], &work] {
        let output = lab.codelab(arguments).output().await.unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(said.contains("\\u{1b}]0;evil"), "{arguments:?}: {said}");
        let acts = |character: char| character.is_control() && character != '\n';
        assert!(!said.contains(acts), "{arguments:?}: {said:?}");
        assert!(!said.contains('\u{202e}'), "{arguments:?}: {said:?}");
        assert!(said.len() < 10_000, "{arguments:?}: {} bytes", said.len());
    }
}
