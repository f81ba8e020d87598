//! Who may call the tools, and whose things they see.

use codelab_testkit::Reply;
use serde_json::json;

use super::{ACCEPT, Mcp, NEW, OLD};
use crate::kit::{Person, claims, seconds_from_now, server, sign};
use crate::login::{cookie, log_in, ticket};

#[tokio::test]
async fn only_a_users_token_gets_in() {
    let server = server().await;
    let mut expired = claims(1);
    expired["exp"] = json!(seconds_from_now(-60));
    let session = cookie(&log_in(&server, &ticket(&server, 1, 600)).await);
    let browser = Person::cookie(&server, &session);
    browser.get("/my/projects/").await.expect(200);
    let internal = codelab_testkit::INTERNAL_KEY.to_owned();
    for (who, stranger) in [
        ("no token", Person::stranger(&server)),
        ("an expired token", Person::bearer(&server, &sign(&expired))),
        ("nonsense", Person::bearer(&server, "x")),
        ("the internal key", Person::bearer(&server, &internal)),
        (
            "the internal key's header",
            Person::with(&server, Some(("x-internal-auth", internal.clone()))),
        ),
        ("the page's cookie", browser),
    ] {
        let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list" });
        let answer = stranger
            .ask_with("POST", "/mcp", Some(body), &[ACCEPT])
            .await;
        assert_eq!(answer.status, 401, "{who}");
        answer.refused(401, "UNAUTHORIZED");
        assert_eq!(answer.raw.headers["www-authenticate"], "Bearer", "{who}");
    }
    let me = Person::user(&server, 1);
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list" });
    for header in [("origin", "http://evil.example"), ("origin", "null")] {
        let more = [ACCEPT, header];
        let answer = me.ask_with("POST", "/mcp", Some(body.clone()), &more).await;
        answer.refused(403, "FORBIDDEN");
    }
    let http = reqwest::Client::new();
    let rebound = http
        .post(format!("{}/mcp", server.url))
        .header("host", "evil.example")
        .bearer_auth(server.token(1))
        .body(body.to_string());
    assert_eq!(rebound.send().await.unwrap().status(), 403);
    for method in ["GET", "DELETE"] {
        let answer = me.ask_with(method, "/mcp", None, &[ACCEPT]).await;
        assert_eq!(answer.status, 405, "{method}");
        assert_eq!(answer.raw.headers["allow"], "POST", "{method}");
    }
}

#[tokio::test]
async fn another_users_things_do_not_exist() {
    let server = server().await;
    server.model.default_reply(Reply::text("Done."));
    let (owner, other) = (Mcp::new(&server, 1, OLD), Mcp::new(&server, 2, NEW));
    server.model.reply(Reply::tool_call(
        "write_file",
        json!({ "path": "a", "content": "x" }),
    ));
    let asked = owner
        .data("ask_agent", json!({ "agent": "coder", "message": "write" }))
        .await;
    assert_eq!(asked["status"], "awaiting_approval");
    let session = &asked["session_id"];
    let project = owner.data("list_agents", json!({})).await["project_id"].clone();
    let decide = json!({
        "session_id": session, "call_id": asked["pending"]["call_id"], "decision": "approve",
    });
    for id in [
        session.clone(),
        json!("never-existed"),
        json!("no such/id"),
        json!(""),
    ] {
        let mut decide = decide.clone();
        decide["session_id"] = id.clone();
        for (tool, arguments) in [
            ("get_session", json!({ "session_id": id })),
            (
                "ask_agent",
                json!({ "session_id": id, "agent": "coder", "message": "hello" }),
            ),
            (
                "start_plan",
                json!({ "session_id": id, "message": "hello" }),
            ),
            ("decide_approval", decide),
        ] {
            other.fails(tool, arguments, "SESSION_NOT_FOUND").await;
        }
    }
    for id in [project, json!(999_999), json!(0), json!(-1)] {
        for (tool, arguments) in [
            ("list_agents", json!({ "project_id": id })),
            (
                "ask_agent",
                json!({ "project_id": id, "agent": "coder", "message": "hello" }),
            ),
            (
                "start_plan",
                json!({ "project_id": id, "message": "hello" }),
            ),
        ] {
            other.fails(tool, arguments, "PROJECT_NOT_FOUND").await;
        }
    }
    assert_eq!(other.data("list_approvals", json!({})).await["total"], 0);
    assert_eq!(owner.data("list_approvals", json!({})).await["total"], 1);
    let seen = owner
        .data("get_session", json!({ "session_id": session }))
        .await;
    assert_eq!(seen["status"], "awaiting_approval");
    assert!(!seen["messages"].to_string().contains("hello"));
}
