//! Nobody decides: after its time an approval is a rejection, unless approvals never expire.

use codelab_protocol::TurnStatus;
use codelab_testkit::{Asked, Reply, SeenEvents, TestServer, hitl_decision};
use serde_json::{Value, json};

use super::{asked_to_write, decided};

#[tokio::test]
async fn an_approval_that_nobody_gives_expires_and_the_turn_goes_on() {
    let server = TestServer::with(&[("CODELAB_LIMITS__APPROVAL_TIMEOUT_SECONDS", "1")]).await;
    let asked = asked_to_write(&server, "expires").await;
    let [pending] = server.pending("expires").await.try_into().unwrap();
    assert_eq!(
        pending.expires_at.unwrap().millis_since(pending.created_at),
        1_000
    );
    assert_eq!(
        (pending.timeout_seconds, pending.expires_at),
        (1, asked.tool_call().expires_at)
    );

    server.model.reply(Reply::text("Nobody was there."));
    let mut events = server.follow("expires", *asked.ids().last().unwrap()).await;
    let seen = SeenEvents::until_done(&mut events).await;
    assert_eq!(
        seen.story(),
        [
            "error HITL_TIMEOUT",
            "assistant_message coder",
            "completion"
        ]
    );
    assert_eq!(
        (seen.status(), seen.events[0].event.as_str()),
        (TurnStatus::Completed, "error")
    );
    assert_eq!(seen.error().details["call_id"], json!(asked.call_id()));

    let told = server.steps()[1].wire_message(-1).clone();
    assert_eq!(
        (&told["role"], &told["tool_call_id"]),
        (&json!("tool"), &json!(asked.call_id()))
    );
    assert!(
        told["content"].as_str().unwrap().contains("HITL_TIMEOUT"),
        "{told}"
    );
    let audit = server.audit("expires").await;
    let [row] = audit.audit.as_slice() else {
        panic!("{audit:?}")
    };
    assert_eq!(
        (
            row.decision.as_str(),
            row.decided_by.as_str(),
            audit.verified
        ),
        ("REJECT", "timeout", true)
    );
    assert!(server.pending("expires").await.is_empty());
    for decision in ["APPROVE", "REJECT"] {
        let late = server
            .refused(&hitl_decision(
                "expires",
                &asked.call_id(),
                decided(decision),
            ))
            .await;
        assert_eq!(late, (409, "CONFLICT".to_owned()));
    }
}

#[tokio::test]
async fn with_a_limit_of_0_approvals_never_expire() {
    let server = TestServer::with(&[("CODELAB_LIMITS__APPROVAL_TIMEOUT_SECONDS", "0")]).await;
    let asked = asked_to_write(&server, "never").await;
    let shown = serde_json::to_value(asked.tool_call()).unwrap();
    assert!(
        shown.get("expires_at").is_none_or(Value::is_null),
        "{shown}"
    );
    let [pending] = server.pending("never").await.try_into().unwrap();
    assert_eq!((pending.expires_at, pending.timeout_seconds), (None, 0));
    assert_eq!(
        server.approve("never", &asked.call_id()).await.status(),
        TurnStatus::AwaitingToolResult
    );
}
