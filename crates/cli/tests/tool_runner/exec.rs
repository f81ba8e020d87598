//! `codelab exec`: what it prints and how it ends.

use codelab_fakemodel::{Gate, Reply};
use serde_json::{Value, json};

use crate::lab::{Lab, Process, exists};

fn writes() -> Reply {
    Reply::tool_call(
        "write_file",
        json!({"path": "out.txt", "content": "made\n"}),
    )
}

fn planned(tasks: &Value) -> Reply {
    Reply::text(json!({ "tasks": tasks }).to_string())
}

fn is_planning(body: &Value) -> bool {
    body["response_format"]["json_schema"]["name"] == "plan"
}

#[tokio::test]
async fn without_a_server_it_starts_one_and_ends_with_it() {
    let lab = Lab::new().await;
    lab.model.reply(Reply::text("All is well."));
    let output = lab.run(&["exec", "How is it?", "--agent", "coder"]).await;
    let (text, noise) = (
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    assert_eq!(
        (output.status.code(), text.as_ref()),
        (Some(0), "All is well.\n"),
        "{noise}"
    );
}

#[tokio::test]
async fn what_needs_an_approval_is_refused_or_granted_as_told() {
    for (approve, code, written) in [("none", 3, ""), ("ask", 3, ""), ("all", 0, "made\n")] {
        let lab = Lab::new().await;
        lab.model.reply(writes());
        let output = lab
            .run(&["exec", "Write it", "--agent", "coder", "--approve", approve])
            .await;
        let noise = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{approve}: {noise}");
        assert_eq!(lab.read("out.txt"), written, "{approve}: {noise}");
        assert!(
            noise.contains("needs approval: write_file out.txt"),
            "{noise}"
        );
    }
}

#[tokio::test]
async fn its_calls_run_in_its_own_folder_also_beside_other_tool_runners() {
    let lab = Lab::new().await;
    let other = lab.home.join("other");
    std::fs::create_dir(&other).unwrap();
    let server = lab.serve(&["--workspace", other.to_str().unwrap()]).await;
    server.says("working in ").await;
    lab.model.reply(writes());
    let output = lab
        .run(&["exec", "Write it", "--agent", "coder", "--approve", "all"])
        .await;
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert_eq!(lab.read("out.txt"), "made\n");
    assert_eq!(std::fs::read_dir(&other).unwrap().count(), 0);
}

#[tokio::test]
async fn events_are_lines_of_json_and_the_last_one_is_the_result() {
    let lab = Lab::new().await;
    let _server = lab.serve(&[]).await;
    std::fs::write(lab.workspace.join("in.txt"), "given").unwrap();
    lab.model
        .reply(Reply::tool_call("read_file", json!({"path": "in.txt"})));
    lab.model.reply(Reply::text("It says given."));
    let output = lab
        .run(&["exec", "Read it", "--agent", "coder", "--json"])
        .await;
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let lines: Vec<Value> = String::from_utf8(output.stdout)
        .unwrap()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let kinds: Vec<&str> = lines
        .iter()
        .map(|line| line["type"].as_str().unwrap())
        .collect();
    for kind in [
        "message_created",
        "direct_agent_call",
        "tool_call",
        "tool_result",
        "task_completed",
    ] {
        assert!(kinds.contains(&kind), "{kind}: {kinds:?}");
    }
    let numbers: Vec<u64> = lines
        .iter()
        .filter_map(|line| line["seq"].as_u64())
        .collect();
    assert_eq!(numbers, (1..=numbers.len() as u64).collect::<Vec<_>>());
    let result = lines.last().unwrap();
    let told = (
        &result["type"],
        &result["status"],
        &result["exit_code"],
        &result["response"],
    );
    assert_eq!(
        told,
        (
            &json!("result"),
            &json!("completed"),
            &json!(0),
            &json!("It says given.")
        )
    );
}

#[tokio::test]
async fn failures_partial_results_and_wrong_usage_have_their_codes() {
    let lab = Lab::new().await;
    let _server = lab.serve(&[]).await;
    lab.model.default_reply(Reply::status(500, "broken"));
    let failed = lab.run(&["exec", "Try", "--agent", "coder"]).await;
    assert_eq!(failed.status.code(), Some(1), "{failed:?}");

    let tasks = json!([
        {"id": "good", "agent": "coder", "description": "Do good.", "depends_on": [], "estimated_tokens": 10},
        {"id": "bad", "agent": "writer", "description": "Do bad.", "depends_on": [], "estimated_tokens": 10},
    ]);
    lab.model.on(is_planning, planned(&tasks));
    lab.model.on(
        |body| !is_planning(body) && body.to_string().contains("Do good."),
        Reply::text("Good is done."),
    );
    let partial = lab.run(&["exec", "Do both"]).await;
    assert_eq!(partial.status.code(), Some(4), "{partial:?}");
    assert!(
        String::from_utf8_lossy(&partial.stdout).contains("Good is done."),
        "{partial:?}"
    );

    for wrong in [
        &["exec"][..],
        &["exec", " "],
        &["exec", "-"],
        &["exec", "x", "--approve", "maybe"],
        &["exec", "x", "--url", "http://h"],
    ] {
        assert_eq!(lab.run(wrong).await.status.code(), Some(2), "{wrong:?}");
    }
    let unknown = lab.run(&["exec", "x", "--agent", "nobody"]).await;
    assert_eq!(unknown.status.code(), Some(1), "{unknown:?}");
    let noise = String::from_utf8_lossy(&unknown.stderr);
    assert!(
        noise.contains("there is no agent nobody; the agents are:") && noise.contains("coder"),
        "{noise}"
    );
}

#[tokio::test]
async fn a_signal_cancels_the_task_and_its_command() {
    let lab = Lab::new().await;
    lab.model.reply(Reply::tool_call(
        "execute_command",
        json!({"command": "echo x > begun; sleep 600"}),
    ));
    let command = lab.codelab(&["exec", "Wait", "--agent", "coder", "--approve", "all"]);
    let exec = Process::start(command, "execute_command").await;
    exists(&lab.workspace.join("begun")).await;
    assert_eq!(exec.stop().await, Some(130));
}

#[tokio::test]
async fn a_second_signal_does_not_wait_for_a_server_that_hangs() {
    let lab = Lab::new().await;
    let server = lab.serve(&[]).await;
    lab.model.reply(Reply::tool_call(
        "execute_command",
        json!({"command": "echo x > begun; sleep 600"}),
    ));
    let command = lab.codelab(&["exec", "Wait", "--agent", "coder", "--approve", "all"]);
    let exec = Process::start(command, "execute_command").await;
    exists(&lab.workspace.join("begun")).await;
    server.signal("-STOP").await;
    exec.signal("-INT").await;
    exec.says("cancelling").await;
    assert_eq!(exec.stop().await, Some(130));
}

#[tokio::test]
async fn tasks_of_a_plan_run_their_commands_beside_each_other() {
    let lab = Lab::new().await;
    let tasks = json!([
        {"id": "one", "agent": "coder", "description": "Task ONE.", "depends_on": [], "estimated_tokens": 10},
        {"id": "two", "agent": "coder", "description": "Task TWO.", "depends_on": [], "estimated_tokens": 10},
    ]);
    lab.model.on(is_planning, planned(&tasks));
    let is_new = |task: &'static str| {
        move |body: &Value| {
            let messages = body["messages"].as_array().unwrap();
            let has_result = messages.iter().any(|message| message["role"] == "tool");
            !is_planning(body) && !has_result && body.to_string().contains(task)
        }
    };
    let runs = |command: &str| Reply::tool_call("execute_command", json!({"command": command}));
    let gate = Gate::new();
    let waits = "echo x > begun; until [ -e go ]; do sleep 0.1; done";
    lab.model.on(is_new("Task ONE."), runs(waits));
    lab.model
        .on(is_new("Task TWO."), runs("echo x > go").hold(&gate));
    lab.model.default_reply(Reply::text("Done."));
    let begun = lab.workspace.join("begun");
    let (output, ()) = tokio::join!(lab.run(&["exec", "Do both", "--approve", "all"]), async {
        exists(&begun).await;
        gate.open();
    });
    assert_eq!(output.status.code(), Some(0), "{output:?}");
}

#[tokio::test]
async fn a_plan_that_asks_is_printed_with_its_tasks() {
    let lab = Lab::new().await;
    let task = |id: &str, after: &[&str]| {
        json!({"id": id, "agent": "coder", "description": format!("Do {id}."),
        "depends_on": after, "estimated_tokens": 10})
    };
    let tasks = json!([task("a", &[]), task("b", &["a"]), task("c", &["a", "b"])]);
    lab.model.on(is_planning, planned(&tasks));
    let output = lab.run(&["exec", "Do it all"]).await;
    let noise = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{noise}");
    for part in [
        "  a (agent_coder): Do a.",
        "  c < a, b (agent_coder): Do c.",
        "--approve ask asks you at a terminal",
    ] {
        assert_eq!(noise.matches(part).count(), 1, "{part}: {noise}");
    }
}

#[tokio::test]
async fn a_failed_task_is_explained_and_is_no_answer() {
    let lab = Lab::new().await;
    let task = json!([{"id": "a", "agent": "coder", "description": "Do it.", "depends_on": [],
        "estimated_tokens": 10}]);
    lab.model.on(is_planning, planned(&task));
    lab.model.reply(Reply::status(401, "{}"));
    let mut command = lab.codelab(&["exec", "Do it"]);
    let output = command.env("LANG", "ru_RU.UTF-8").output().await.unwrap();
    let noise = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{noise}");
    assert!(output.stdout.is_empty(), "{output:?}");
    for part in ["a не выполнена: ", "ключ", "подробности: "] {
        assert!(noise.contains(part), "{part}: {noise}");
    }
}

#[tokio::test]
async fn work_says_who_else_works_for_the_project() {
    let lab = Lab::new().await;
    let other = lab.home.join("other");
    std::fs::create_dir(&other).unwrap();
    let server = lab.serve(&["--workspace", other.to_str().unwrap()]).await;
    server.says("working in ").await;
    let work = lab.work().await;
    work.says("another tool runner of this project works in ")
        .await;
    work.says("--project P keeps folders apart").await;
}
