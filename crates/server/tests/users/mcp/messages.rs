//! A call that waits: what it is told meanwhile, and what happens when nobody waits any more.

use codelab_testkit::{Gate, Reply, TestServer, eventually};
use serde_json::{Value, json};

use super::{ACCEPT, Mcp, NEW, OLD};
use crate::kit::server;

/// A call of `ask_agent` with a progress token.
fn asking(server: &TestServer, me: &Mcp, version: &str, token: Value) -> reqwest::RequestBuilder {
    let params = json!({
        "name": "ask_agent",
        "arguments": { "agent": "coder", "message": "think" },
        "_meta": { "progressToken": token },
    });
    reqwest::Client::new()
        .post(format!("{}/mcp", server.url))
        .bearer_auth(server.token(1))
        .header(ACCEPT.0, ACCEPT.1)
        .header("content-type", "application/json")
        .header("mcp-protocol-version", version)
        .header("mcp-method", "tools/call")
        .header("mcp-name", "ask_agent")
        .body(me.body("tools/call", params).to_string())
}

/// The messages of an answer in server-sent events.
fn messages(text: &str) -> Vec<Value> {
    let data = text.lines().filter_map(|line| line.strip_prefix("data: "));
    data.map(|data| serde_json::from_str(data).unwrap())
        .collect()
}

#[tokio::test]
async fn progress_is_told_while_an_agent_works() {
    let server = server().await;
    for (version, token) in [(OLD, json!("a")), (NEW, json!(5))] {
        let me = Mcp::new(&server, 1, version);
        let gate = Gate::new();
        server.model.reply(Reply::text("Thought.").hold(&gate));
        let answer = asking(&server, &me, version, token.clone())
            .send()
            .await
            .unwrap();
        // The head is here, and the model has not answered.
        assert_eq!(answer.status(), 200);
        let headers = answer.headers();
        assert_eq!(headers["content-type"], "text/event-stream");
        assert_eq!(headers["cache-control"], "no-store");
        gate.open();
        let told = messages(&answer.text().await.unwrap());
        let (result, progress) = told.split_last().unwrap();
        assert!(!progress.is_empty());
        let mut last = 0;
        for notice in progress {
            assert_eq!(notice["method"], "notifications/progress");
            assert!(notice.get("id").is_none());
            let params = &notice["params"];
            assert_eq!(params["progressToken"], token);
            assert!(params["message"].is_string());
            let now = params["progress"].as_u64().unwrap();
            assert!(now > last, "{told:#?}");
            last = now;
        }
        assert_eq!(result["id"], 7);
        assert_eq!(
            result["result"]["structuredContent"]["response"],
            "Thought."
        );
        assert_eq!(result["result"]["resultType"] == "complete", version == NEW);
    }
}

#[tokio::test]
async fn a_refused_call_has_no_progress() {
    let server = server().await;
    let me = Mcp::new(&server, 1, OLD);
    let params = json!({
        "name": "ask_agent",
        "arguments": { "agent": "nobody", "message": "think" },
        "_meta": { "progressToken": 1 },
    });
    let result = me.result("tools/call", params).await;
    assert_eq!(result["isError"], true);
}

#[tokio::test]
async fn a_caller_who_goes_away_does_not_stop_the_agent() {
    let server = server().await;
    let me = Mcp::new(&server, 1, OLD);
    let gate = Gate::new();
    server
        .model
        .default_reply(Reply::text("Thought.").hold(&gate));
    // One is told of progress, the other waits for JSON.
    let stream = asking(&server, &me, OLD, json!(1)).send().await.unwrap();
    let waiting = {
        let me = me.clone();
        let ask = json!({ "agent": "writer", "message": "think" });
        tokio::spawn(async move { me.call("ask_agent", ask).await })
    };
    eventually("both turns run", async || {
        let asked = server.model.requests().len();
        if asked == 2 { Ok(()) } else { Err(asked) }
    })
    .await;
    let cancelled = json!({
        "jsonrpc": "2.0", "method": "notifications/cancelled",
        "params": { "requestId": 7, "reason": "no time" },
    });
    assert_eq!(me.send(cancelled, &[]).await.status, 202);
    drop(stream);
    waiting.abort();
    assert!(waiting.await.unwrap_err().is_cancelled());
    gate.open();
    eventually("both answers are stored", async || {
        let sessions = me.person.get("/my/chat/sessions/").await.expect(200);
        let counts: Vec<Value> = sessions["sessions"]
            .as_array()
            .unwrap()
            .iter()
            .map(|session| session["message_count"].clone())
            .collect();
        if counts == [json!(2), json!(2)] {
            Ok(())
        } else {
            Err(counts)
        }
    })
    .await;
}
