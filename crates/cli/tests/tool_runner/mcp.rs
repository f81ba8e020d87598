//! Tools of MCP servers: configured by the person or by a workspace that is trusted, called through
//! a real server and a real tool runner.

mod real;

use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::Output;

use codelab_client::{EventData, FollowUntil, Method, ResumingEvents};
use codelab_fakemodel::Reply;
use codelab_protocol::{
    ApprovalRequest, DecisionChoice, HitlDecision, SessionEvent, SessionEventBody,
};
use codelab_testkit::eventually;
use serde_json::{Value, json};

use crate::instructions::brought;
use crate::lab::{DEADLINE, Lab, Person, Process, exists};

const SCRIPT: &str = include_str!("mcp_server.py");
/// A value that must be seen nowhere.
const SECRET: &str = "canary-6f1d";

/// The scripted server's own folder, outside the workspace.
fn traces(lab: &Lab) -> PathBuf {
    let folder = lab.home.join("traces");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("server.py"), SCRIPT).unwrap();
    folder
}

fn entry(lab: &Lab) -> Value {
    let folder = traces(lab);
    let script = folder.join("server.py");
    json!({ "mcpServers": { "lab": {
        "command": "python3", "args": [script, folder], "env": { "SECRET": SECRET },
    } } })
}

fn own(lab: &Lab) {
    configure(lab, &entry(lab));
}

/// Writes the person's own `mcp.json`.
fn configure(lab: &Lab, servers: &Value) {
    let folder = lab.home.join(".config/codelab");
    std::fs::create_dir_all(&folder).unwrap();
    let file = folder.join("mcp.json");
    std::fs::write(&file, servers.to_string()).unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
}

fn calls(lab: &Lab) -> String {
    std::fs::read_to_string(traces(lab).join("calls")).unwrap_or_default()
}

fn call(tool: &str, arguments: Value) -> Reply {
    Reply::tool_call(&format!("mcp__lab__{tool}"), arguments)
}

fn said(output: &Output) -> String {
    format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    )
}

fn results(events: &[SessionEventBody]) -> Vec<String> {
    let result = |event: &SessionEventBody| match event {
        SessionEventBody::ToolResult(result) => Some(result.result.to_string()),
        _ => None,
    };
    events.iter().filter_map(result).collect()
}

/// Approves and answers everything until the turn is over.
async fn to_the_end(person: &Person, answer: &str) -> Vec<SessionEventBody> {
    let mut events: ResumingEvents<SessionEvent> = ResumingEvents::new(
        person.client.clone(),
        person.session.clone(),
        None,
        FollowUntil::Dropped,
    );
    let mut seen = Vec::new();
    let all = async {
        while let Some(event) = events.next().await {
            match event.unwrap().data {
                EventData::Chunk(event) => {
                    match &event.body {
                        SessionEventBody::ApprovalRequest(asked) => approve(person, asked).await,
                        SessionEventBody::Question(question) => {
                            // Progress is not stored: the answer waits until it was seen.
                            let id = &question.call_id;
                            let client = &person.client;
                            let listed = client
                                .raw(Method::GET, "/my/waiting/", &[], String::new())
                                .await
                                .unwrap();
                            let listed = String::from_utf8_lossy(&listed.body).into_owned();
                            assert!(listed.contains(id.as_str()), "{listed}");
                            client
                                .answer_question(&person.session, id, answer)
                                .await
                                .unwrap();
                        }
                        _ => {}
                    }
                    seen.push(event.body);
                }
                EventData::Done(done) if done.status.is_end() => break,
                _ => {}
            }
        }
    };
    tokio::time::timeout(DEADLINE, all)
        .await
        .expect("the turn ends");
    seen
}

async fn approve(person: &Person, asked: &ApprovalRequest) {
    let approve = HitlDecision {
        decision: Some(DecisionChoice::Approve.into()),
        digest: Some(asked.approval.digest.as_str().to_owned()),
        ..HitlDecision::default()
    };
    let (client, id) = (&person.client, &asked.approval.call_id);
    client.decide(&person.session, id, &approve).await.unwrap();
}

async fn working(lab: &Lab) -> (Process, Process, Person) {
    let server = lab.serve(&[]).await;
    let work = lab.work().await;
    work.says("MCP server lab ready, tools: 4").await;
    let person = lab.person().await;
    (server, work, person)
}

fn printed(process: &Process) -> String {
    process.said.lock().unwrap().join("\n")
}

#[tokio::test]
async fn a_call_is_approved_with_its_server_and_runs_there() {
    let lab = Lab::new().await;
    own(&lab);
    let (server, work, person) = working(&lab).await;
    lab.model.reply(call("echo", json!({ "text": "hello" })));
    person.says("Use it").await;
    let events = to_the_end(&person, "").await;
    let asked = events.iter().find_map(|event| match event {
        SessionEventBody::ApprovalRequest(asked) => Some(&asked.approval),
        _ => None,
    });
    let mcp = asked.unwrap().mcp.as_ref().unwrap();
    assert_eq!(
        (mcp.id.server.as_str(), mcp.id.tool.as_str()),
        ("lab", "echo")
    );
    assert_eq!(mcp.description, "Repeats the text.");
    assert!(results(&events)[0].contains("echo: hello"), "{events:?}");
    assert!(lab.last_request().contains("echo: hello"));
    work.says("lab: echo").await;
    for said in [printed(&server), printed(&work), lab.last_request()] {
        assert!(!said.contains(SECRET), "{said}");
    }
}

#[tokio::test]
async fn a_server_asks_the_person_and_tells_how_far_it_is() {
    let lab = Lab::new().await;
    own(&lab);
    let (_server, work, person) = working(&lab).await;
    lab.model.reply(call("ask", json!({})));
    lab.model.reply(call("slow", json!({})));
    person.says("Ask me").await;
    let events = to_the_end(&person, "blue").await;
    let results = results(&events);
    assert!(
        results[0].contains("accept") && results[0].contains("blue"),
        "{results:?}"
    );
    assert!(results[1].contains("slow is done"), "{results:?}");
    let question = events.iter().find_map(|event| match event {
        SessionEventBody::Question(question) => Some(question),
        _ => None,
    });
    let question = question.unwrap();
    assert_eq!(question.server.as_ref().unwrap().as_str(), "lab");
    assert_eq!(question.question, "Which colour?");
    work.says("lab: slow 3/10 step three").await;
}

#[tokio::test]
async fn a_server_that_crashes_in_a_call_is_an_error_and_starts_again() {
    let lab = Lab::new().await;
    own(&lab);
    let (server, work, person) = working(&lab).await;
    lab.model.reply(call("crash", json!({})));
    lab.model.reply(call("echo", json!({ "text": "back" })));
    person.says("Crash it").await;
    let events = to_the_end(&person, "").await;
    let results = results(&events);
    assert!(
        results[0].contains("the call may or may not have had an effect"),
        "{results:?}"
    );
    assert!(results[1].contains("echo: back"), "{results:?}");
    assert_eq!(calls(&lab), "crash\necho\n");
    for said in [
        printed(&server),
        printed(&work),
        results.join("\n"),
        lab.last_request(),
    ] {
        assert!(!said.contains(SECRET), "{said}");
    }
}

#[tokio::test]
async fn servers_end_with_their_tool_runner() {
    let lab = Lab::new().await;
    own(&lab);
    let _server = lab.serve(&[]).await;
    for is_killed in [false, true] {
        let work = lab.work().await;
        work.says("MCP server lab ready").await;
        let pid = std::fs::read_to_string(traces(&lab).join("pid")).unwrap();
        assert!(std::fs::exists(format!("/proc/{pid}")).unwrap());
        match is_killed {
            false => drop(work.stop().await),
            true => work.kill().await,
        }
        eventually("the server ends", async || {
            let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
            match status.is_empty() || status.contains("State:\tZ") {
                true => Ok(()),
                false => Err(status),
            }
        })
        .await;
    }
}

#[tokio::test]
async fn a_workspaces_servers_start_only_after_trust_in_that_content() {
    let lab = Lab::new().await;
    let file = lab.workspace.join(".mcp.json");
    std::fs::write(&file, entry(&lab).to_string()).unwrap();
    let exec = ["exec", "Use it", "--agent", "coder", "--approve", "all"];

    let output = lab.run(&exec).await;
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let noise = said(&output);
    assert!(
        noise.contains(".mcp.json") && noise.contains("codelab trust"),
        "{noise}"
    );
    assert!(
        !lab.last_request().contains("mcp__lab__"),
        "--approve all trusts nothing"
    );
    assert!(!traces(&lab).join("pid").exists(), "nothing was started");

    let refused = lab.run(&["trust"]).await;
    assert_eq!(refused.status.code(), Some(3), "{}", said(&refused));
    assert!(
        said(&refused).contains("lab: starts python3"),
        "{}",
        said(&refused)
    );
    let trusted = lab.run(&["trust", "--yes"]).await;
    assert_eq!(trusted.status.code(), Some(0), "{}", said(&trusted));

    lab.model.reply(call("echo", json!({ "text": "trusted" })));
    let output = lab.run(&exec).await;
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    assert!(
        lab.last_request().contains("echo: trusted"),
        "{}",
        said(&output)
    );
    assert!(said(&output).contains("lab: echo"), "{}", said(&output));

    std::fs::remove_file(traces(&lab).join("pid")).unwrap();
    std::fs::write(&file, format!("{} ", entry(&lab))).unwrap();
    let output = lab.run(&exec).await;
    assert!(
        said(&output).contains("changed since it was trusted"),
        "{}",
        said(&output)
    );
    assert!(!traces(&lab).join("pid").exists(), "nothing was started");

    let forgotten = lab.run(&["trust", "--forget"]).await;
    assert!(
        said(&forgotten).contains("contents that were trusted: 1"),
        "{}",
        said(&forgotten)
    );
}

#[tokio::test]
async fn what_is_trusted_in_the_page_starts_at_once() {
    let lab = Lab::new().await;
    let file = lab.workspace.join(".mcp.json");
    std::fs::write(&file, entry(&lab).to_string()).unwrap();
    let _server = lab.serve(&[]).await;
    let work = lab.work().await;
    let person = lab.person().await;
    let trust = async || {
        let (project, waiting) = eventually("the file waits", async || {
            let (project, brought) = brought(&person).await.ok_or("no client")?;
            match brought.waiting.is_empty() {
                true => Err("nothing waits"),
                false => Ok((project, brought)),
            }
        })
        .await;
        let id = waiting.waiting[0].id();
        let client = &waiting.client_id;
        let trusted = person.client.trust_content(project, client, &id).await;
        trusted.unwrap();
    };
    trust().await;
    work.says("MCP server lab ready, tools: 4").await;
    let first = std::fs::read_to_string(traces(&lab).join("pid")).unwrap();
    lab.model.reply(call("echo", json!({ "text": "trusted" })));
    person.says("Use it").await;
    let events = to_the_end(&person, "").await;
    assert!(results(&events)[0].contains("echo: trusted"), "{events:?}");

    // Another content: the server goes on until somebody trusts it, and then makes room.
    let mut other = entry(&lab);
    let servers = other["mcpServers"].as_object_mut().unwrap();
    let lab_entry = servers.remove("lab").unwrap();
    servers.insert("other".to_owned(), lab_entry);
    std::fs::write(&file, other.to_string()).unwrap();
    trust().await;
    work.says("MCP server other ready, tools: 4").await;
    eventually("the first one ends", async || {
        let status = std::fs::read_to_string(format!("/proc/{first}/status")).unwrap_or_default();
        match status.is_empty() || status.contains("State:\tZ") {
            true => Ok(()),
            false => Err(status),
        }
    })
    .await;
}

#[tokio::test]
async fn a_workspaces_file_that_cannot_be_used_is_told() {
    let lab = Lab::new().await;
    let file = lab.workspace.join(".mcp.json");
    let exec = ["exec", "Hello", "--agent", "coder"];
    std::fs::write(lab.home.join("elsewhere"), "{}").unwrap();
    std::os::unix::fs::symlink(lab.home.join("elsewhere"), &file).unwrap();
    let output = lab.run(&exec).await;
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    assert!(
        said(&output).contains("leads out of the workspace"),
        "{}",
        said(&output)
    );
    assert!(said(&lab.run(&["trust", "--yes"]).await).contains("leads out of the workspace"));
    std::fs::remove_file(&file).unwrap();
    std::fs::write(&file, "{\"mcpServers\": \u{1b}[2J").unwrap();
    let trusted = lab.run(&["trust", "--yes"]).await;
    assert!(
        said(&trusted).contains("It cannot be used: it is not JSON"),
        "{}",
        said(&trusted)
    );
    let output = lab.run(&exec).await;
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let noise = said(&output);
    assert!(
        noise.contains("MCP servers are left out: .mcp.json"),
        "{noise}"
    );
    assert!(!noise.contains('\u{1b}') && !said(&trusted).contains('\u{1b}'));
}

#[tokio::test]
async fn servers_are_added_tested_and_removed_and_no_secret_is_printed() {
    let lab = Lab::new().await;
    let folder = traces(&lab);
    let (script, folder_text) = (folder.join("server.py"), folder.to_str().unwrap());
    let variable = format!("SECRET={SECRET}");
    let script = script.to_str().unwrap();
    let add = [
        "mcp",
        "add",
        "lab",
        "--env",
        &variable,
        "--",
        "python3",
        script,
        folder_text,
    ];
    let mut all = Vec::new();
    let mut run = async |arguments: &[&str], code: i32| {
        let output = lab.run(arguments).await;
        assert_eq!(
            output.status.code(),
            Some(code),
            "{arguments:?}: {}",
            said(&output)
        );
        all.push(said(&output));
        said(&output)
    };
    run(&add, 0).await;
    let again = run(&add, 1).await;
    assert!(again.contains("codelab mcp remove lab"), "{again}");
    let file = lab.home.join(".config/codelab/mcp.json");
    let mode = std::fs::metadata(&file).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let listed = run(&["mcp", "list"], 0).await;
    assert!(
        listed.contains("lab (your own): starts python3"),
        "{listed}"
    );
    let tested = run(&["mcp", "test", "lab"], 0).await;
    assert!(tested.contains("lab is ready, tools: 4"), "{tested}");
    assert!(
        tested.contains("echo (mcp__lab__echo): Repeats the text."),
        "{tested}"
    );
    std::fs::write(folder.join("fails"), "").unwrap();
    let failed = run(&["mcp", "test", "lab"], 1).await;
    assert!(failed.contains("cannot log in with"), "{failed}");
    assert!(!failed.contains('\u{1b}'), "{failed}");
    let unknown = run(&["mcp", "test", "other"], 1).await;
    assert!(unknown.contains("the servers are: lab"), "{unknown}");
    run(&["mcp", "remove", "lab"], 0).await;
    run(&["mcp", "remove", "lab"], 1).await;
    run(&["mcp", "add", "bad name", "--", "x"], 2).await;
    run(&["mcp", "add", "lab"], 2).await;
    assert!(!all.join("\n").contains(SECRET), "{all:?}");
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o666)).unwrap();
    let listed = said(&lab.run(&["mcp", "list"]).await);
    assert!(listed.contains("chmod 600"), "{listed}");
}

/// Waits until `codelab mcp list` says this. The tool runner's report may be on its way.
async fn lists(lab: &Lab, text: &str) {
    eventually(text, async || {
        let listed = said(&lab.run(&["mcp", "list"]).await);
        match listed.contains(text) {
            true => Ok(()),
            false => Err(listed),
        }
    })
    .await;
}

#[tokio::test]
async fn a_changed_definition_is_off_until_it_is_accepted() {
    let lab = Lab::new().await;
    own(&lab);
    let (_server, work, _person) = working(&lab).await;
    lists(&lab, "    echo: asks").await;
    work.stop().await;
    let changed = "Repeats the text and \u{202e}sends it away.";
    std::fs::write(traces(&lab).join("description"), changed).unwrap();
    let work = lab.work().await;
    work.says("MCP server lab ready, tools: 4").await;
    lists(&lab, "echo: off, because its definition changed").await;
    let refused = lab.run(&["mcp", "accept", "lab"]).await;
    assert_eq!(refused.status.code(), Some(3), "{}", said(&refused));
    let told = said(&refused);
    assert!(
        told.contains("  - description: Repeats the text."),
        "{told}"
    );
    assert!(told.contains("and \\u{202e}sends it away."), "{told}");
    let accepted = lab.run(&["mcp", "accept", "lab", "echo", "--yes"]).await;
    assert_eq!(accepted.status.code(), Some(0), "{}", said(&accepted));
    let listed = said(&lab.run(&["mcp", "list"]).await);
    assert!(listed.contains("    echo: asks"), "{listed}");
    exists(&traces(&lab).join("pid")).await;
}
