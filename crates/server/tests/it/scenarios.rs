//! The five example scenarios of the runtime's document, over HTTP.

use codelab_protocol::TurnStatus;
use codelab_testkit::{Reply, TestServer};
use serde_json::json;

#[tokio::test]
async fn scenario_1_a_new_function() {
    let server = TestServer::start().await;
    server.model.route_to("coder");
    let file = json!({"path": "utils/sorting.py", "content": "def sort_array(arr): ..."});
    server.model.reply(Reply::tool_call("write_file", file));
    let asked = server.say("s1", "Создай функцию для сортировки массива чисел").await;
    assert_eq!(asked.story(), ["switch_agent coder", "tool_call write_file?"]);
    assert_eq!(asked.status(), TurnStatus::AwaitingApproval);

    let call = asked.call_id();
    let approved = server.approve("s1", &call).await;
    assert_eq!(approved.story(), ["tool_call write_file"]);
    assert!(approved.tool_call().approved);
    assert_eq!(approved.tool_call().digest, asked.tool_call().digest);
    assert_eq!(approved.status(), TurnStatus::AwaitingToolResult);

    server.model.reply(Reply::text("Функция создана в utils/sorting.py"));
    let done = server.result("s1", &call, json!("File created successfully")).await;
    assert_eq!(done.story(), ["assistant_message coder", "switch_agent orchestrator", "completion"]);
    assert_eq!(done.status(), TurnStatus::Completed);
    assert_eq!(done.streamed_text(), "Функция создана в utils/sorting.py");

    let requests = server.model.requests();
    let last = requests.last().unwrap().message(-1);
    assert_eq!((last["role"].as_str(), last["content"].as_str()), (Some("tool"), Some("File created successfully")));
    assert_eq!(last["tool_call_id"], call.as_str());
}
