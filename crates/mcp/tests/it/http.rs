//! Servers over HTTP that behave badly, and tokens that end.

use std::sync::{Arc, Mutex};

use codelab_mcp::oauth::{Authorization, OAuthTokens};
use codelab_mcp::{McpCallEnd, McpLimits, Place, ServerHandle};
use codelab_protocol::McpStatus;
use codelab_transport::NetworkOptions;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::lab::{call, config, content, limits, ready, state_where};

/// One request: its head in lower case, and its body.
struct Asked {
    head: String,
    body: String,
}

impl Asked {
    fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_default()
    }

    fn has(&self, header: &str) -> bool {
        self.head.contains(header)
    }
}

async fn asked(connection: &mut TcpStream) -> Option<Asked> {
    let mut bytes = Vec::new();
    loop {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let head = head.to_lowercase();
            let length = head
                .lines()
                .find_map(|line| line.strip_prefix("content-length: "));
            let length: usize = length.map_or(0, |text| text.parse().unwrap());
            if body.len() >= length {
                let body = body.to_owned();
                return Some(Asked { head, body });
            }
        }
        if connection.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    }
}

fn answer(status: &str, headers: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    format!(
        "HTTP/1.1 {status}\r\ncontent-type: application/json\r\nconnection: close\r\n{headers}\
         content-length: {length}\r\n\r\n{body}"
    )
    .into_bytes()
}

fn result(request: &Value, result: &Value) -> Vec<u8> {
    let body = json!({"jsonrpc": "2.0", "id": request["id"], "result": result});
    answer("200 OK", "", &body.to_string())
}

/// What a plain server says; `None` for what is special.
fn plainly(request: &Value) -> Option<Vec<u8>> {
    let tools = json!([{"name": "t", "description": "d", "inputSchema": {"type": "object"}}]);
    match request["method"].as_str()? {
        "initialize" => Some(result(
            request,
            &json!({
                "protocolVersion": request["params"]["protocolVersion"],
                "capabilities": {"tools": {}}, "serverInfo": {"name": "s", "version": "1"},
            }),
        )),
        "tools/list" => Some(result(request, &json!({"tools": tools}))),
        "tools/call" => None,
        method if method.starts_with("notifications/") => Some(answer("202 Accepted", "", "")),
        _ => Some(answer("404 Not Found", "", "")),
    }
}

/// A server that answers every request as the closure says, and then sends a flood if it is told.
async fn serve(
    respond: impl Fn(&Asked) -> (Vec<u8>, Option<&'static [u8]>) + Send + Sync + 'static,
) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let respond = Arc::new(respond);
    tokio::spawn(async move {
        while let Ok((mut connection, _)) = listener.accept().await {
            let respond = respond.clone();
            tokio::spawn(async move {
                let Some(asked) = asked(&mut connection).await else {
                    return;
                };
                let (bytes, flood) = respond(&asked);
                let mut sent = connection.write_all(&bytes).await;
                while let (Ok(()), Some(piece)) = (&sent, flood) {
                    sent = connection.write_all(piece).await;
                }
            });
        }
    });
    format!("http://{address}/mcp")
}

fn reached(entry: &Value, authorization: Option<Authorization>) -> ServerHandle {
    let (name, config) = config(entry);
    let place = Place::Network {
        network: NetworkOptions::default(),
        allow_private: true,
        authorization,
    };
    let once = McpLimits {
        max_restarts: 0,
        ..limits()
    };
    ServerHandle::start(name, config, place, once)
}

const PIECE: &[u8] = &[b'x'; 64 * 1024];

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_without_end_is_refused_while_it_is_read() {
    for (head, expected) in [
        (
            "content-type: application/json\r\n\r\n\"",
            "the answer is larger than",
        ),
        (
            "content-type: text/event-stream\r\n\r\ndata: ",
            "it sent a message of more than",
        ),
    ] {
        let url = serve(move |asked| match plainly(&asked.json()) {
            Some(bytes) => (bytes, None),
            None if asked.head.starts_with("post") => (
                format!("HTTP/1.1 200 OK\r\n{head}").into_bytes(),
                Some(PIECE),
            ),
            None => (answer("405 No", "", ""), None),
        })
        .await;
        let handle = reached(&json!({"url": url}), None);
        ready(&handle).await;
        let end = call(&handle, "t", json!({})).await;
        let McpCallEnd::Unknown(reason) = end else {
            panic!("{end:?}");
        };
        assert!(reason.contains(expected), "{reason}");
        handle.stop().await;
    }
}

/// A few bytes of JSON become a value of many, and a parser follows nesting only so far.
#[tokio::test(flavor = "multi_thread")]
async fn an_answer_of_too_many_or_too_deep_values_is_refused_at_once() {
    let many = vec!["{\"\":0}"; 60_000].join(",");
    let deep = format!("{}{}", "[".repeat(40_000), "]".repeat(40_000));
    for (value, expected) in [
        (format!("[{many}]"), "more than 100000 JSON values"),
        (deep, "nested deeper than 100 levels"),
    ] {
        for (kind, before, after) in [
            ("application/json", "", ""),
            ("text/event-stream", "data: ", "\n\n"),
        ] {
            let value = value.clone();
            let url = serve(move |asked| {
                let request = asked.json();
                match plainly(&request) {
                    Some(bytes) => (bytes, None),
                    None if asked.head.starts_with("post") => {
                        let id = &request["id"];
                        let result = format!("{{\"structuredContent\":{value},\"content\":[]}}");
                        let message =
                            format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{result}}}");
                        let body = format!("{before}{message}{after}");
                        let head = format!("content-type: {kind}\r\n");
                        (answer("200 OK", &head, &body), None)
                    }
                    None => (answer("405 No", "", ""), None),
                }
            })
            .await;
            let handle = reached(&json!({"url": url}), None);
            ready(&handle).await;
            let end = call(&handle, "t", json!({})).await;
            let McpCallEnd::Unknown(reason) = end else {
                panic!("{end:?}");
            };
            assert!(reason.contains(expected), "{kind}: {reason}");
            handle.stop().await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_wants_an_authorization_says_so_and_shows_no_key() {
    let url = serve(|_| {
        let challenge = "www-authenticate: Bearer scope=\"a\"\r\n";
        (answer("401 Who", challenge, "canary"), None)
    })
    .await;
    let entry = json!({"url": format!("{url}?key=canary"), "headers": {"X-Key": "canary"}});
    let handle = reached(&entry, None);
    let state = state_where(&handle, |state| state.status == McpStatus::Unauthorized).await;
    let error = state.error.unwrap();
    assert!(error.contains("authorize CodeLab there"), "{error}");
    assert!(!error.contains("canary") && !format!("{handle:?}").contains("canary"));
    assert_eq!(handle.challenge().as_deref(), Some("Bearer scope=\"a\""));
    handle.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_call_does_not_repeat_what_the_server_was_given() {
    let url = serve(|asked| {
        let request = asked.json();
        let key = asked
            .head
            .lines()
            .find_map(|line| line.strip_prefix("x-key: "));
        let said = format!("no access with {}", key.unwrap_or("no key"));
        let refused = || match request["params"]["arguments"]["as"] == "result" {
            true => {
                let content = json!([{"type": "text", "text": said}]);
                result(&request, &json!({"isError": true, "content": content}))
            }
            false => {
                let error = json!({"code": -32000, "message": said});
                let body = json!({"jsonrpc": "2.0", "id": request["id"], "error": error});
                answer("200 OK", "", &body.to_string())
            }
        };
        (plainly(&request).unwrap_or_else(refused), None)
    })
    .await;
    let handle = reached(&json!({"url": url, "headers": {"X-Key": "canary"}}), None);
    ready(&handle).await;
    let expected = "no access with [hidden]";
    match call(&handle, "t", json!({"as": "result"})).await {
        McpCallEnd::Result(result) => assert_eq!(result["error"], expected),
        other => panic!("{other:?}"),
    }
    match call(&handle, "t", json!({"as": "error"})).await {
        McpCallEnd::Failed(text) => {
            assert_eq!(text, format!("the server refused the call: {expected}"));
        }
        other => panic!("{other:?}"),
    }
    handle.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_that_ended_is_renewed_once_and_handed_over() {
    let renewals = Arc::new(Mutex::new(Vec::new()));
    let seen = renewals.clone();
    let url = serve(move |asked| {
        if asked.has("post /token") {
            seen.lock().unwrap().push(asked.body.clone());
            let tokens = json!({
                "access_token": "second", "token_type": "Bearer", "expires_in": 3600,
                "refresh_token": "next",
            });
            return (answer("200 OK", "", &tokens.to_string()), None);
        }
        if !asked.has("authorization: bearer second") {
            return (answer("401 Who", "", ""), None);
        }
        let request = asked.json();
        let text = json!({"content": [{"type": "text", "text": "in"}]});
        (
            plainly(&request).unwrap_or_else(|| result(&request, &text)),
            None,
        )
    })
    .await;
    let endpoint = url.replace("/mcp", "/token");
    let tokens: OAuthTokens = serde_json::from_value(json!({
        "access_token": "first", "refresh_token": "once",
        "grant": {
            "token_endpoint": endpoint, "client_id": "c", "client_auth": "none", "resource": url,
        },
    }))
    .unwrap();
    let (authorization, renewed) = Authorization::new(tokens);
    let handle = reached(&json!({"url": url}), Some(authorization));
    ready(&handle).await;
    assert_eq!(content(&call(&handle, "t", json!({})).await), "in");
    let stored = renewed.borrow().clone();
    assert_eq!(stored.access_token, "second");
    assert_eq!(stored.refresh_token.as_deref(), Some("next"));
    assert!(!format!("{stored:?}").contains("second"));
    let sent = renewals.lock().unwrap().clone();
    assert_eq!(sent.len(), 1, "{sent:?}");
    assert!(sent[0].contains("refresh_token=once") && sent[0].contains("resource=http%3A%2F%2F"));
    handle.stop().await;
}
