//! Handshakes, versions, headers, and messages that are none.

use serde_json::{Value, json};

use super::{ACCEPT, Mcp, NEW, OLD, protocol_error};
use crate::kit::{Person, server, server_with};

const TOOLS: [&str; 6] = [
    "list_agents",
    "ask_agent",
    "start_plan",
    "get_session",
    "list_approvals",
    "decide_approval",
];

#[tokio::test]
async fn a_handshake_agrees_on_a_version() {
    let server = server().await;
    let me = Mcp::new(&server, 1, OLD);
    for (asked, agreed) in [
        ("2025-11-25", "2025-11-25"),
        ("2025-06-18", "2025-06-18"),
        ("2024-11-05", "2025-11-25"),
        ("2026-07-28", "2025-11-25"),
        ("1999-01-01", "2025-11-25"),
    ] {
        let params = json!({
            "protocolVersion": asked, "capabilities": {},
            "clientInfo": { "name": "test", "version": "1" },
        });
        let body = json!({ "jsonrpc": "2.0", "id": "a", "method": "initialize", "params": params });
        let answer = me.send(body, &[]).await;
        assert!(!answer.raw.headers.contains_key("mcp-session-id"));
        let result = answer.expect(200)["result"].clone();
        assert_eq!(result["protocolVersion"], agreed, "asked for {asked}");
        assert_eq!(result["serverInfo"]["name"], "codelab");
        assert!(result["capabilities"]["tools"].is_object());
        assert!(
            result["instructions"]
                .as_str()
                .unwrap()
                .contains("ask_agent")
        );
    }
    let said = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
    let answer = me.send(said, &[("mcp-protocol-version", OLD)]).await;
    assert_eq!((answer.status, answer.raw.body.len()), (202, 0));
    assert_eq!(me.result("ping", json!({})).await, json!({}));
}

#[tokio::test]
async fn a_client_without_a_handshake_discovers_the_server() {
    let server = server().await;
    let me = Mcp::new(&server, 1, NEW);
    let found = me.result("server/discover", json!({})).await;
    let versions = json!(["2025-06-18", "2025-11-25", "2026-07-28"]);
    assert_eq!(found["supportedVersions"], versions);
    assert_eq!(found["resultType"], "complete");
    let info = &found["_meta"]["io.modelcontextprotocol/serverInfo"];
    assert_eq!(info["name"], "codelab");
    // It has no handshake and no ping any more, and an unknown method is not found.
    for method in ["initialize", "ping", "resources/list", "nonsense"] {
        let answer = me.request(method, json!({})).await;
        assert_eq!(protocol_error(&answer).0, 404, "{method}");
        assert_eq!(protocol_error(&answer).1, -32601, "{method}");
    }
    let old = Mcp::new(&server, 1, OLD);
    let answer = old.request("nonsense", json!({})).await;
    assert_eq!(protocol_error(&answer).0, 200);
    assert_eq!(protocol_error(&answer).1, -32601);
}

#[tokio::test]
async fn the_tools_are_listed_in_each_version() {
    let server = server().await;
    for version in [OLD, NEW] {
        let me = Mcp::new(&server, 1, version);
        let list = me.result("tools/list", json!({})).await;
        let tools = list["tools"].as_array().unwrap();
        let names: Vec<&str> = tools
            .iter()
            .map(|tool| tool["name"].as_str().unwrap())
            .collect();
        assert_eq!(names, TOOLS);
        for tool in tools {
            assert_eq!(tool["inputSchema"]["type"], "object", "{tool:#}");
            assert_eq!(tool["outputSchema"]["type"], "object", "{tool:#}");
            let name = tool["name"].as_str().unwrap();
            let reads = name.starts_with("list_") || name.starts_with("get_");
            assert_eq!(tool["annotations"]["readOnlyHint"], reads, "{name}");
            assert_eq!(
                tool["annotations"]["destructiveHint"] == true,
                !reads,
                "{name}"
            );
        }
        let is_new = version == NEW;
        assert_eq!(list["resultType"] == "complete", is_new);
        assert_eq!(list["ttlMs"].is_u64(), is_new);
        assert_eq!(list["cacheScope"] == "private", is_new);
        let answer = me.request("tools/list", json!({ "cursor": "2" })).await;
        assert_eq!(protocol_error(&answer).1, -32602);
    }
}

#[tokio::test]
async fn headers_that_contradict_the_message_are_refused() {
    let server = server().await;
    let me = Mcp::new(&server, 1, NEW);
    let call = me.body(
        "tools/call",
        json!({ "name": "list_approvals", "arguments": {} }),
    );
    let all = [
        ("mcp-protocol-version", NEW),
        ("mcp-method", "tools/call"),
        ("mcp-name", "list_approvals"),
    ];
    me.send(call.clone(), &all).await.expect(200);
    let encoded = [
        all[0],
        all[1],
        ("mcp-name", "=?base64?bGlzdF9hcHByb3ZhbHM=?="),
    ];
    me.send(call.clone(), &encoded).await.expect(200);
    let wrong: [&[(&str, &str)]; 7] = [
        &[],
        &all[..1],
        &all[..2],
        &[all[0], ("mcp-method", "tools/list"), all[2]],
        &[all[0], all[1], ("mcp-name", "ask_agent")],
        &[("mcp-protocol-version", OLD), all[1], all[2]],
        &[all[0], all[1], all[2], all[2]],
    ];
    for headers in wrong {
        let answer = me.send(call.clone(), headers).await;
        let (status, code, _) = protocol_error(&answer);
        assert_eq!(
            (status, code),
            (400, -32020),
            "{headers:?}: {}",
            answer.body
        );
        assert_eq!(answer.body["id"], 7);
    }
    // A request of this version says what it needs to say about its client.
    for missing in ["protocolVersion", "clientCapabilities"] {
        let mut bare = call.clone();
        let meta = bare["params"]["_meta"].as_object_mut().unwrap();
        meta.remove(&format!("io.modelcontextprotocol/{missing}"))
            .unwrap();
        let answer = me.send(bare, &all).await;
        let (status, code, said) = protocol_error(&answer);
        assert_eq!((status, code), (400, -32602), "{}", answer.body);
        assert!(said.contains(missing), "{said}");
    }
    let mut future = call;
    future["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"] = json!("2099-01-01");
    let headers = [("mcp-protocol-version", "2099-01-01"), all[1], all[2]];
    let answer = me.send(future, &headers).await;
    assert_eq!(protocol_error(&answer).0, 400);
    assert_eq!(protocol_error(&answer).1, -32022);
    assert_eq!(answer.body["error"]["data"]["requested"], "2099-01-01");
    assert_eq!(answer.body["error"]["data"]["supported"][2], NEW);
}

#[tokio::test]
async fn what_is_no_message_is_refused() {
    const LIMIT: usize = 2000;
    let server = server_with(&[("CODELAB_LIMITS__BODY_BYTES", &LIMIT.to_string())]).await;
    let me = Person::user(&server, 1);
    let ping = json!({ "jsonrpc": "2.0", "id": 1, "method": "ping" }).to_string();
    let deep = format!("{}1{}", "[".repeat(900), "]".repeat(900));
    for (text, code, said) in [
        ("", -32700, "not valid JSON"),
        ("{", -32700, "not valid JSON"),
        ("\u{0}", -32700, "not valid JSON"),
        (deep.as_str(), -32700, "not valid JSON"),
        ("null", -32600, "JSON object"),
        ("[]", -32600, "Batches"),
        (&format!("[{ping},{ping}]"), -32600, "Batches"),
        ("{}", -32600, "jsonrpc"),
        (
            r#"{"jsonrpc":"1.0","id":1,"method":"ping"}"#,
            -32600,
            "jsonrpc",
        ),
        (r#"{"jsonrpc":"2.0","id":1}"#, -32600, "method"),
        (r#"{"jsonrpc":"2.0","id":1,"method":5}"#, -32600, "method"),
        (
            r#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#,
            -32600,
            "id",
        ),
        (
            r#"{"jsonrpc":"2.0","id":1.5,"method":"ping"}"#,
            -32600,
            "id",
        ),
        (r#"{"jsonrpc":"2.0","id":1,"result":{}}"#, -32600, "respond"),
        (
            r#"{"jsonrpc":"2.0","id":1,"method":"ping","params":[]}"#,
            -32602,
            "params",
        ),
    ] {
        let more = [ACCEPT, ("content-type", "application/json")];
        let answer = me.exchange("POST", "/mcp", &more, text.to_owned()).await;
        let (status, found, message) = protocol_error(&answer);
        assert_eq!((status, found), (400, code), "{text}: {}", answer.body);
        assert!(message.contains(said), "{text}: {message}");
    }
    for content_type in ["text/plain", "application/x-www-form-urlencoded"] {
        let more = [ACCEPT, ("content-type", content_type)];
        let answer = me.exchange("POST", "/mcp", &more, ping.clone()).await;
        answer.refused(422, "VALIDATION_ERROR");
    }
    let more = [ACCEPT, ("content-type", "application/json")];
    let large = " ".repeat(LIMIT + 1);
    let answer = me.exchange("POST", "/mcp", &more, large).await;
    answer.refused(413, "PAYLOAD_TOO_LARGE");
    for accept in ["application/json", "text/event-stream", "*/*"] {
        let more = [("accept", accept), ("content-type", "application/json")];
        let answer = me.exchange("POST", "/mcp", &more, ping.clone()).await;
        answer.refused(406, "VALIDATION_ERROR");
    }
    let answer = me.exchange("POST", "/mcp/", &more, ping).await;
    assert_eq!(answer.expect(200)["result"], json!({}));
}

#[tokio::test]
async fn a_call_that_names_no_tool_is_an_error_of_the_protocol() {
    let server = server().await;
    let me = Mcp::new(&server, 1, OLD);
    for params in [
        json!({}),
        json!({ "name": 5 }),
        json!({ "name": "delete_everything" }),
        json!({ "name": "list_agents", "arguments": [] }),
    ] {
        let answer = me.request("tools/call", params.clone()).await;
        let (status, code, _) = protocol_error(&answer);
        assert_eq!((status, code), (200, -32602), "{params}: {}", answer.body);
        assert_eq!(answer.body["result"], Value::Null);
    }
}
