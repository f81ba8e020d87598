//! A person changes the arguments: they are judged again, shown, run, and told to the model.

use codelab_protocol::{HitlDecision, TurnStatus, arguments_digest};
use codelab_testkit::{Reply, TestServer, hitl_decision};
use serde_json::{Value, json};

use super::{asked_to_write, decided};

fn edit(modified_args: Value) -> HitlDecision {
    HitlDecision {
        modified_args: Some(modified_args),
        ..decided("EDIT")
    }
}

#[tokio::test]
async fn the_edited_arguments_are_what_runs_and_the_model_hears_of_it() {
    let server = TestServer::start().await;
    let asked = asked_to_write(&server, "edit").await;
    let modified = json!({"path": "utils/a.py", "content": "x = 2"});
    let seen = server
        .decide("edit", &asked.call_id(), edit(modified.clone()))
        .await;
    assert_eq!(
        seen.story(),
        ["tool_call write_file"],
        "an accepted edit is not asked again"
    );
    let shown = seen.tool_call();
    assert_eq!(Value::Object(shown.tool_call.arguments.clone()), modified);
    assert_eq!(shown.tool_call.call_id, asked.call_id());
    assert_eq!(
        shown.digest,
        arguments_digest("write_file", modified.as_object().unwrap())
    );
    assert_ne!(shown.digest, asked.tool_call().digest);

    server.model.reply(Reply::text("Written elsewhere."));
    server
        .result("edit", &asked.call_id(), json!("File created"))
        .await;
    let told: Value = serde_json::from_str(server.steps()[1].message(-1).as_str().unwrap())
        .expect("the result is JSON");
    assert_eq!(
        (&told["result"], &told["arguments_changed_by_a_person_to"]),
        (&json!("File created"), &modified)
    );
    let row = server.audit("edit").await.audit.remove(0);
    assert_eq!(row.original_args.unwrap()["path"], "a.py");
    assert_eq!(Value::Object(row.modified_args.unwrap()), modified);
}

#[tokio::test]
async fn an_edit_that_is_not_valid_leaves_the_approval_pending() {
    let server = TestServer::start().await;
    let asked = asked_to_write(&server, "invalid").await;
    let call = asked.call_id();
    let wrong = [
        json!({}),
        json!({"path": "a.py"}),
        json!({"path": 7, "content": "x"}),
        json!({"content": "x"}),
    ];
    for arguments in wrong {
        let refused = server
            .refused(&hitl_decision("invalid", &call, edit(arguments.clone())))
            .await;
        assert_eq!(
            refused,
            (422, "INVALID_TOOL_ARGUMENTS".to_owned()),
            "{arguments}"
        );
    }
    let [pending] = server.pending("invalid").await.try_into().unwrap();
    assert_eq!(
        (&pending.call_id, &pending.digest),
        (&call, &asked.tool_call().digest),
        "as it was asked"
    );
    assert!(server.audit("invalid").await.audit.is_empty());
    assert_eq!(
        server.approve("invalid", &call).await.status(),
        TurnStatus::AwaitingToolResult
    );
}

#[tokio::test]
async fn an_edit_cannot_lead_an_agent_past_its_file_restrictions() {
    let server = TestServer::start().await;
    server.model.reply(Reply::tool_call(
        "write_file",
        json!({"path": "docs/plan.md", "content": "# Plan"}),
    ));
    let asked = server.say_to("restricted", "architect", "plan").await;
    let code = json!({"path": "src/main.py", "content": "print()"});
    let refused = server
        .client
        .send(&hitl_decision("restricted", &asked.call_id(), edit(code)))
        .await
        .unwrap_err();
    assert_eq!(refused.status(), Some(422));
    assert_eq!(
        refused.error_code().map(|code| code.as_str()),
        Some("FILE_RESTRICTION_ERROR")
    );
    assert_eq!(server.pending("restricted").await.len(), 1);

    let document = json!({"path": "docs/better.md", "content": "# Plan"});
    let seen = server
        .decide("restricted", &asked.call_id(), edit(document))
        .await;
    assert_eq!(
        seen.tool_call().tool_call.arguments["path"],
        "docs/better.md"
    );
}
