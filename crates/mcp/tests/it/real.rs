//! Servers that others wrote. `./test services` installs them and names their folders:
//! `CODELAB_TEST_MCP_NODE` and `CODELAB_TEST_MCP_PYTHON`.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use codelab_mcp::{ElicitReply, McpCallEnd, Place, ServerHandle};
use codelab_transport::NetworkOptions;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::Command;
use tokio::time::timeout;

use crate::lab::{
    PATIENCE, call, call_with, config, content, launcher, limits, listening, mark, marked, object,
    process, ready, state_where,
};

fn folder(variable: &str) -> Option<PathBuf> {
    let found = std::env::var(variable).ok().map(PathBuf::from);
    if found.is_none() {
        println!("skipped: {variable} is not set");
    }
    found
}

fn node_package(name: &str) -> Option<String> {
    let script = format!("node_modules/@modelcontextprotocol/{name}/dist/index.js");
    let script = folder("CODELAB_TEST_MCP_NODE")?.join(script);
    Some(script.to_str().unwrap().to_owned())
}

/// The program beside the Python that the variable names.
fn python_program(name: &str) -> Option<String> {
    let python = folder("CODELAB_TEST_MCP_PYTHON")?;
    Some(python.with_file_name(name).to_str().unwrap().to_owned())
}

fn result(end: McpCallEnd) -> Value {
    match end {
        McpCallEnd::Result(result) => result,
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn server_everything_does_everything() {
    let Some(script) = node_package("server-everything") else {
        return;
    };
    let mark = mark();
    let env = json!({"CODELAB_TEST_MARK": mark});
    let entry = json!({"command": "node", "args": [script, "stdio"], "env": env});
    let handle = process(&entry, limits());
    ready(&handle).await;
    let end = call(&handle, "echo", json!({"message": "hello"})).await;
    assert_eq!(content(&end), "Echo: hello");
    let image = result(call(&handle, "get-tiny-image", json!({})).await);
    assert_eq!(image["images"][0]["media_type"], "image/png");
    let weather = call(
        &handle,
        "get-structured-content",
        json!({"location": "Chicago"}),
    )
    .await;
    assert!(result(weather)["structured"]["temperature"].is_number());
    let links = call(&handle, "get-resource-links", json!({"count": 2})).await;
    assert!(content(&links).contains("[resource "), "{links:?}");

    let (options, heard) = listening(|| ElicitReply::Decline);
    let arguments = json!({"duration": 0.5, "steps": 5});
    let end = call_with(
        &handle,
        "trigger-long-running-operation",
        arguments,
        options,
    )
    .await;
    assert!(content(&end).contains("completed"), "{end:?}");
    let heard = heard.await.unwrap();
    // The last one may be handled after the result, which ends the call.
    assert!(
        heard.iter().any(|text| text.contains(" Some(5.0) ")),
        "{heard:?}"
    );

    // It offers this one only after it has seen what we can do, and says that its list changed.
    let asks = "trigger-elicitation-request";
    state_where(&handle, |state| {
        state.tools.iter().any(|tool| tool.name == asks)
    })
    .await;
    let answer = || ElicitReply::Accept(object(json!({"name": "Ada", "check": true})));
    let (options, heard) = listening(answer);
    let end = call_with(&handle, asks, json!({}), options).await;
    assert!(content(&end).contains("Ada"), "{end:?}");
    assert_eq!(heard.await.unwrap().len(), 1);
    handle.stop().await;
    assert_eq!(marked(&mark), [0; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn server_filesystem_reads_the_workspace_that_it_is_told_of() {
    let Some(script) = node_package("server-filesystem") else {
        return;
    };
    let workspace = tempfile::tempdir().unwrap();
    let path = workspace.path().canonicalize().unwrap().join("a b");
    std::fs::create_dir(&path).unwrap();
    std::fs::write(path.join("note.txt"), "a line\n").unwrap();
    // No folder among its arguments: it asks us for the roots.
    let (name, config) = config(&json!({"command": "node", "args": [script]}));
    let place = Place::Process {
        launcher: launcher(),
        workspace: path.clone(),
    };
    let handle = ServerHandle::start(name, config, place, limits());
    ready(&handle).await;
    let note = path.join("note.txt");
    // It learns of the roots after the handshake.
    let text = timeout(PATIENCE, async {
        loop {
            let end = result(call(&handle, "read_text_file", json!({"path": note})).await);
            if end["success"] == true {
                return end["content"].as_str().unwrap().to_owned();
            }
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
    });
    assert_eq!(text.await.unwrap().trim(), "a line");
    let outside = call(&handle, "read_text_file", json!({"path": "/etc/hostname"})).await;
    assert_eq!(result(outside)["success"], false);
    handle.stop().await;
}

async fn git(folder: &Path, arguments: &[&str]) {
    let mut git = Command::new("git");
    git.args(["-C", folder.to_str().unwrap()]).args(arguments);
    assert!(git.stdout(Stdio::null()).status().await.unwrap().success());
}

#[tokio::test(flavor = "multi_thread")]
async fn server_git_sees_a_repository() {
    let Some(program) = python_program("mcp-server-git") else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    git(folder.path(), &["init", "--quiet"]).await;
    std::fs::write(folder.path().join("new.txt"), "x").unwrap();
    let handle = process(&json!({"command": program}), limits());
    ready(&handle).await;
    let end = call(&handle, "git_status", json!({"repo_path": folder.path()})).await;
    assert!(content(&end).contains("new.txt"), "{end:?}");
    handle.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn server_time_tells_the_time() {
    let Some(program) = python_program("mcp-server-time") else {
        return;
    };
    let args = ["--local-timezone", "Etc/UTC"];
    let handle = process(&json!({"command": program, "args": args}), limits());
    ready(&handle).await;
    let end = call(
        &handle,
        "get_current_time",
        json!({"timezone": "Europe/Kyiv"}),
    )
    .await;
    assert!(content(&end).contains("Europe/Kyiv"), "{end:?}");
    let wrong = call(&handle, "get_current_time", json!({"timezone": "Nowhere"})).await;
    assert_eq!(result(wrong)["success"], false);
    handle.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_of_fastmcp_is_called_over_http() {
    let Some(python) = folder("CODELAB_TEST_MCP_PYTHON") else {
        return;
    };
    let script = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../tests/mcp_servers.d/fast_server.py"
    );
    let mut server = Command::new(python)
        .arg(script)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(server.stdout.take().unwrap()).lines();
    let url = timeout(PATIENCE, lines.next_line()).await.unwrap();
    let (name, config) = config(&json!({"type": "http", "url": url.unwrap().unwrap()}));
    let place = Place::Network {
        network: NetworkOptions::default(),
        allow_private: true,
        authorization: None,
    };
    let handle = ServerHandle::start(name, config, place, limits());
    ready(&handle).await;
    assert_eq!(
        content(&call(&handle, "add", json!({"a": 2, "b": 3})).await),
        "5"
    );
    let (options, heard) = listening(|| ElicitReply::Decline);
    let end = call_with(&handle, "count", json!({"to": 3}), options).await;
    assert_eq!(content(&end), "counted to 3");
    assert!(!heard.await.unwrap().is_empty());
    let failed = result(call(&handle, "fail", json!({})).await);
    assert!(
        failed["error"].as_str().unwrap().contains("no such thing"),
        "{failed}"
    );
    handle.stop().await;
    server.kill().await.unwrap();
}
