//! `codelab serve --workspace`: one process is server and hands.

use codelab_fakemodel::Reply;
use codelab_protocol::ChatEventBody;
use serde_json::json;

use crate::lab::Lab;

#[tokio::test]
async fn one_process_serves_and_works() {
    let lab = Lab::new().await;
    let server = lab.serve(&["--workspace", lab.workspace.to_str().unwrap()]).await;
    server.says("working in ").await;
    let person = lab.person().await;
    lab.model.reply(Reply::tool_call("write_file", json!({"path": "hello.txt", "content": "hello\n"})));
    lab.model.reply(Reply::tool_call("execute_command", json!({"command": "cat hello.txt"})));
    person.says("write a greeting").await;
    let events = person.approves_until_done().await;
    assert_eq!(lab.read("hello.txt"), "hello\n");
    let result = events.iter().rev().find_map(|event| match event {
        ChatEventBody::ToolResult(result) => Some(&result.result),
        _ => None,
    });
    assert_eq!(result.unwrap()["stdout"], "hello\n");
    assert_eq!(server.stop().await, Some(0));
}

#[tokio::test]
async fn a_workspace_that_cannot_be_opened_stops_the_start() {
    let lab = Lab::new().await;
    let output = lab.run(&["serve", "--addr", "127.0.0.1:0", "--workspace", "/no/such/folder"]).await;
    assert_eq!(output.status.code(), Some(1));
    let complaint = String::from_utf8(output.stderr).unwrap();
    assert!(complaint.lines().last().unwrap().contains("cannot open the workspace /no/such/folder"), "{complaint}");
}
