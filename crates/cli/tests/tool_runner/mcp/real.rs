//! Servers that others wrote, from the model's call to the result. `./test services` installs them
//! and names their folders: `CODELAB_TEST_MCP_NODE` and `CODELAB_TEST_MCP_PYTHON`.

use std::path::Path;
use std::process::{Command, Stdio};

use codelab_fakemodel::Reply;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, BufReader};

use super::{configure, results, to_the_end};
use crate::lab::{DEADLINE, Lab};

/// Started with the Python that has fastmcp; gives its address.
async fn fast_server(python: &str) -> (tokio::process::Child, String) {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/mcp_servers.d");
    let mut server = tokio::process::Command::new(python)
        .arg(script.join("fast_server.py"))
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(server.stdout.take().unwrap()).lines();
    let url = tokio::time::timeout(DEADLINE, lines.next_line()).await;
    (server, url.unwrap().unwrap().unwrap())
}

fn repository(folder: &Path) {
    std::fs::write(folder.join("notes.txt"), "remember\n").unwrap();
    let made = Command::new("git")
        .args(["init", "--quiet"])
        .current_dir(folder)
        .status();
    assert!(made.unwrap().success());
}

#[tokio::test]
async fn servers_that_others_wrote_are_called_by_agents() {
    let variable = |name: &str| std::env::var(name).ok();
    let (Some(node), Some(python)) = (
        variable("CODELAB_TEST_MCP_NODE"),
        variable("CODELAB_TEST_MCP_PYTHON"),
    ) else {
        eprintln!("skipped: CODELAB_TEST_MCP_NODE and CODELAB_TEST_MCP_PYTHON are not set");
        return;
    };
    let lab = Lab::new().await;
    repository(&lab.workspace);
    let (_fast, url) = fast_server(&python).await;
    let package =
        |name: &str| format!("{node}/node_modules/@modelcontextprotocol/{name}/dist/index.js");
    let program = |name: &str| Path::new(&python).with_file_name(name);
    let servers = json!({
        "everything": { "command": "node", "args": [package("server-everything"), "stdio"] },
        "files": { "command": "node", "args": [package("server-filesystem"), lab.workspace] },
        "git": { "command": program("mcp-server-git"), "args": ["--repository", lab.workspace] },
        "time": { "command": program("mcp-server-time") },
        "fast": { "type": "http", "url": url },
    });
    configure(&lab, &json!({ "mcpServers": servers }));
    let _server = lab.serve(&[]).await;
    let work = lab.work().await;
    for name in servers.as_object().unwrap().keys() {
        work.says(&format!("MCP server {name} ready")).await;
    }
    let calls: [(&str, Value, &str); 5] = [
        (
            "mcp__everything__echo",
            json!({ "message": "hello" }),
            "Echo: hello",
        ),
        (
            "mcp__files__list_directory",
            json!({ "path": lab.workspace }),
            "notes.txt",
        ),
        (
            "mcp__git__git_status",
            json!({ "repo_path": lab.workspace }),
            "notes.txt",
        ),
        (
            "mcp__time__get_current_time",
            json!({ "timezone": "Europe/Kyiv" }),
            "Europe/Kyiv",
        ),
        ("mcp__fast__add", json!({ "a": 2, "b": 3 }), "5"),
    ];
    for (name, arguments, _) in &calls {
        lab.model.reply(Reply::tool_call(name, arguments.clone()));
    }
    let person = lab.person().await;
    person.says("Use all of them").await;
    let results = results(&to_the_end(&person, "").await);
    for ((name, _, expected), result) in calls.iter().zip(&results) {
        assert!(result.contains(expected), "{name}: {result}");
    }
    assert_eq!(results.len(), calls.len());
}
