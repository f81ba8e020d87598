//! `codelab serve --workspace`: one process is server and hands.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use codelab_fakemodel::Reply;
use codelab_protocol::SessionEventBody;
use serde_json::json;

use crate::lab::{Lab, Process};

#[tokio::test]
async fn one_process_serves_and_works() {
    let lab = Lab::new().await;
    let server = lab
        .serve(&["--workspace", lab.workspace.to_str().unwrap()])
        .await;
    server.says("working in ").await;
    if rustix::process::geteuid().is_root() {
        server.says("codelab runs as root").await;
    }
    let person = lab.person().await;
    lab.model.reply(Reply::tool_call(
        "write_file",
        json!({"path": "hello.txt", "content": "hello\n"}),
    ));
    lab.model.reply(Reply::tool_call(
        "execute_command",
        json!({"command": "cat hello.txt"}),
    ));
    lab.model.reply(Reply::tool_call(
        "execute_command",
        json!({"command": "touch touched.txt && cat hello.txt"}),
    ));
    person.says("write a greeting").await;
    let events = person.approves_until_done().await;
    assert_eq!(lab.read("hello.txt"), "hello\n");
    let result = events.iter().rev().find_map(|event| match event {
        SessionEventBody::ToolResult(result) => Some(&result.result),
        _ => None,
    });
    assert_eq!(result.unwrap()["stdout"], "hello\n");
    // The server's files are private, what tools make has the person's own umask.
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    std::fs::write(lab.workspace.join("usual"), "").unwrap();
    let usual = mode(&lab.workspace.join("usual"));
    assert_eq!(mode(&lab.workspace.join("hello.txt")), usual);
    assert_eq!(mode(&lab.workspace.join("touched.txt")), usual);
    assert_eq!(
        (mode(&lab.data), mode(&lab.data.join("codelab.db"))),
        (0o700, 0o600)
    );
    assert_eq!(server.stop().await, Some(0));
}

#[tokio::test]
async fn a_secret_that_can_be_guessed_is_named_in_the_log() {
    let lab = Lab::new().await;
    let mut command = lab.codelab(&["serve", "--addr", "127.0.0.1:0"]);
    command.env("JWT_SECRET", "xyzzy");
    let server = Process::start(command, " is at ").await;
    let warning = server.says("a secret is short").await;
    assert!(warning.contains("JWT_SECRET"), "{warning}");
    assert!(!warning.contains("xyzzy"), "{warning}");
    // Another secret would give tokens that this server does not accept.
    let token = lab.run(&["token", "--user", "1"]).await;
    let said = String::from_utf8_lossy(&token.stderr);
    assert!(
        !token.status.success() && said.contains("JWT_SECRET"),
        "{token:?}"
    );
    assert!(!lab.data.join("secrets/jwt_secret").exists());
}

#[tokio::test]
async fn an_operators_own_rules_hold_in_the_workspace_too() {
    let lab = Lab::new().await;
    std::fs::write(
        lab.data.join("codelab.toml"),
        "[policy]\nprotected_paths = [\"deploy\"]\n",
    )
    .unwrap();
    std::fs::create_dir(lab.workspace.join("deploy")).unwrap();
    std::os::unix::fs::symlink("deploy", lab.workspace.join("plain")).unwrap();
    let server = lab
        .serve(&["--workspace", lab.workspace.to_str().unwrap()])
        .await;
    server.says("working in ").await;
    let person = lab.person().await;
    // Whoever approves this has not seen where the link leads.
    lab.model.reply(Reply::tool_call(
        "write_file",
        json!({"path": "plain/a.yaml", "content": "x"}),
    ));
    person.says("write it").await;
    person.approves_until_done().await;
    assert!(
        lab.last_request().contains("deploy/a.yaml"),
        "{}",
        lab.last_request()
    );
    assert!(!lab.workspace.join("deploy/a.yaml").exists());
    assert_eq!(server.stop().await, Some(0));
}

#[tokio::test]
async fn a_workspace_that_cannot_be_opened_stops_the_start() {
    let lab = Lab::new().await;
    let output = lab
        .run(&[
            "serve",
            "--addr",
            "127.0.0.1:0",
            "--workspace",
            "/no/such/folder",
        ])
        .await;
    assert_eq!(output.status.code(), Some(1));
    let complaint = String::from_utf8(output.stderr).unwrap();
    assert!(
        complaint
            .lines()
            .last()
            .unwrap()
            .contains("cannot open the workspace /no/such/folder"),
        "{complaint}"
    );
}
