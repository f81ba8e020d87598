//! Plain calls: each goes to its route with the caller's access, and refusals come back as the API
//! words them.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use codelab_client::{Client, ClientError, ClientLimits, Credentials, Method};
use codelab_protocol::{CreateSession, ErrorCode, HealthStatus, SessionId};

use crate::scripted::{Answer, KEY, Server, plain};

const TIME: &str = "2026-01-13T20:00:00.000Z";

fn session() -> SessionId {
    SessionId::parse("s:1").unwrap()
}

fn body_for(line: &str) -> String {
    let ack = r#"{"session_id":"s:1","status":"idle","current_agent":"orchestrator","queued":0}"#;
    match line.split('?').next().unwrap() {
        "GET /agents" => {
            r#"{"agents":[{"agent_type":"ask","description":"","allowed_tools":[],"file_restrictions":null}]}"#
        }
        "GET /agents/s:1/current" => {
            r#"{"session_id":"s:1","current_agent":"coder","switch_count":2,"last_switch_at":null}"#
        }
        "GET /sessions" => r#"{"sessions":[],"total":7,"limit":2,"offset":4}"#,
        "POST /sessions" => return format!(r#"{{"session_id":"s:1","created_at":"{TIME}","status":"created"}}"#),
        "DELETE /sessions/s:1" => "",
        "GET /sessions/s:1/history" => r#"{"session_id":"s:1","messages":[]}"#,
        "GET /sessions/s:1/pending-approvals" => r#"{"session_id":"s:1","pending_approvals":[]}"#,
        "GET /sessions/s:1/agent-history" => r#"{"session_id":"s:1","switches":[]}"#,
        "GET /sessions/s:1/audit" => r#"{"session_id":"s:1","audit":[],"verified":true}"#,
        "GET /metrics" => "codelab_direct_calls_total 1\n",
        "GET /sessions/s:1/events" => "",
        "GET /openapi.json" => r#"{"openapi":"3.1.0"}"#,
        "POST /sessions/s:1/restore" | "POST /sessions/s:1/reset" | "POST /sessions/s:1/cancel" => ack,
        other => panic!("unexpected request {other}"),
    }
    .to_owned()
}

#[tokio::test]
async fn every_call_goes_to_its_route() {
    let server =
        Server::start(|request| Answer::Keep(plain("200 OK", "", &body_for(&request.line)))).await;
    let client = server.client();
    let id = session();
    assert_eq!(
        client.agents().await.unwrap().agents[0].agent_type.as_str(),
        "ask"
    );
    assert_eq!(client.current_agent(&id).await.unwrap().switch_count, 2);
    assert_eq!(client.sessions(None, None).await.unwrap().total, 7);
    assert_eq!(client.sessions(Some(2), Some(4)).await.unwrap().offset, 4);
    let created = CreateSession {
        session_id: id.clone(),
        system_prompt: Some("Be brief.".into()),
    };
    assert_eq!(
        client.create_session(&created).await.unwrap().session_id,
        id
    );
    client.delete_session(&id, false).await.unwrap();
    client.delete_session(&id, true).await.unwrap();
    client.restore(&id).await.unwrap();
    client.reset(&id).await.unwrap();
    client.cancel(&id, false).await.unwrap();
    assert_eq!(
        client.cancel(&id, true).await.unwrap().status,
        codelab_protocol::AckStatus::Idle
    );
    client.history(&id).await.unwrap();
    client.pending_approvals(&id).await.unwrap();
    client.agent_history(&id).await.unwrap();
    assert!(client.audit(&id).await.unwrap().verified);
    assert!(
        client
            .metrics()
            .await
            .unwrap()
            .starts_with("codelab_direct_calls_total")
    );
    assert_eq!(client.openapi().await.unwrap()["openapi"], "3.1.0");

    let requests = server.requests();
    let lines: Vec<&str> = requests
        .iter()
        .map(|request| request.line.as_str())
        .collect();
    let expected = [
        "GET /agents",
        "GET /agents/s:1/current",
        "GET /sessions",
        "GET /sessions?limit=2&offset=4",
        "POST /sessions",
        "DELETE /sessions/s:1",
        "DELETE /sessions/s:1?hard=true",
        "POST /sessions/s:1/restore",
        "POST /sessions/s:1/reset",
        "POST /sessions/s:1/cancel",
        "POST /sessions/s:1/cancel?queue=drop",
        "GET /sessions/s:1/history",
        "GET /sessions/s:1/pending-approvals",
        "GET /sessions/s:1/agent-history",
        "GET /sessions/s:1/audit",
        "GET /metrics",
        "GET /openapi.json",
    ];
    assert_eq!(lines, expected);
    assert!(
        requests
            .iter()
            .all(|request| request.header("x-internal-auth") == Some(KEY))
    );
    assert_eq!(requests[4].header("content-type"), Some("application/json"));
    assert_eq!(
        requests[4].body,
        r#"{"session_id":"s:1","system_prompt":"Be brief."}"#
    );
    assert_eq!(server.connections(), 1, "calls in a row share a connection");
}

#[tokio::test]
async fn an_unhealthy_server_still_reports() {
    let report = r#"{"status":"unhealthy","version":"1","multi_agent_mode":true,"registered_agents":[],"checks":{}}"#;
    let server = Server::always(plain("503 Service Unavailable", "", report)).await;
    assert_eq!(
        server.client().health().await.unwrap().status,
        HealthStatus::Unhealthy
    );
    let server = Server::always(plain("503 Service Unavailable", "", "down")).await;
    assert_eq!(
        server.client().health().await.unwrap_err().status(),
        Some(503)
    );
}

#[tokio::test]
async fn refusals_carry_the_body_of_the_api() {
    let full = r#"{"detail":"Queue is full","error_code":"QUEUE_FULL","details":{"limit":10}}"#;
    let bare = r#"{"detail":"Invalid or missing internal API key"}"#;
    let newer = r#"{"detail":"x","error_code":"NOT_YET_KNOWN"}"#;
    let cases = [
        (
            "429 Too Many Requests",
            "retry-after: 7\r\n",
            full,
            Some(Some(ErrorCode::QueueFull)),
            Some(7),
            "Queue is full",
        ),
        (
            "401 Unauthorized",
            "",
            bare,
            Some(None),
            None,
            "Invalid or missing internal API key",
        ),
        (
            "502 Bad Gateway",
            "retry-after: soon\r\n",
            "<html>",
            None,
            None,
            "<html>",
        ),
        ("409 Conflict", "", newer, None, None, newer),
        ("304 Not Modified", "", "", None, None, ""),
    ];
    for (status, headers, answer, code, retry_after, shown) in cases {
        let server = Server::always(plain(status, headers, answer)).await;
        let error = server.client().history(&session()).await.unwrap_err();
        let ClientError::Status {
            status: number,
            body,
            text,
            retry_after_seconds,
        } = &error
        else {
            panic!("{status}: {error:?}")
        };
        assert_eq!(status.split(' ').next().unwrap(), number.to_string());
        assert_eq!(body.as_ref().map(|body| body.error_code), code, "{status}");
        assert_eq!(
            (text.as_str(), *retry_after_seconds),
            (answer, retry_after),
            "{status}"
        );
        assert_eq!(
            error.to_string(),
            format!("the server answered {number}: {shown}")
        );
    }
}

#[tokio::test]
async fn failures_on_the_way_are_told_apart() {
    let id = session();
    let limits = ClientLimits {
        answer_timeout_ms: 50,
        answer_bytes: 100,
        ..ClientLimits::default()
    };

    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let closed = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    let refused = Client::new(&closed, Credentials::None)
        .unwrap()
        .history(&id)
        .await;
    assert!(
        matches!(refused, Err(ClientError::Connect(_))),
        "{refused:?}"
    );

    let cut_before = Server::start(|_| Answer::Cut(Vec::new())).await;
    let result = cut_before.client().history(&id).await;
    assert!(matches!(result, Err(ClientError::Cut(_))), "{result:?}");

    let cut_inside =
        Server::start(|_| Answer::Cut(b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n{".to_vec()))
            .await;
    let result = cut_inside.client().history(&id).await;
    assert!(matches!(result, Err(ClientError::Cut(_))), "{result:?}");

    for head in ["", "HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n{"] {
        let silent = Server::start(move |_| Answer::Hold(head.into())).await;
        let result = silent.client_with(limits).history(&id).await;
        assert!(
            matches!(result, Err(ClientError::Timeout { after_ms: 50 })),
            "{result:?}"
        );
    }

    for body in [
        "not json".to_owned(),
        "{}".to_owned(),
        format!("[{}1]", "1,".repeat(50)),
    ] {
        let wrong = Server::always(plain("200 OK", "", &body)).await;
        let result = wrong.client_with(limits).history(&id).await;
        assert!(
            matches!(result, Err(ClientError::Invalid(_))),
            "{body}: {result:?}"
        );
    }
}

#[tokio::test]
async fn a_raw_request_is_sent_as_given_and_any_status_is_an_answer() {
    let server = Server::always(plain("418 I'm a teapot", "x-kind: short\r\n", "no coffee")).await;
    let client = server.client();
    let headers = [
        ("host", "evil.example"),
        ("x-internal-auth", "wrong"),
        ("x-many", "1"),
        ("x-many", "2"),
    ];
    let answer = client
        .raw(Method::PATCH, "/my//odd?x=%00&y", &headers, "{broken")
        .await
        .unwrap();
    assert_eq!(
        (answer.status, answer.body.as_ref()),
        (418, b"no coffee".as_ref())
    );
    assert_eq!(answer.headers["x-kind"], "short");
    client.raw(Method::GET, "/", &[], "").await.unwrap();

    let requests = server.requests();
    assert_eq!(
        (requests[0].line.as_str(), requests[0].body.as_str()),
        ("PATCH /my//odd?x=%00&y", "{broken")
    );
    let sent = |name: &str| {
        requests[0]
            .headers
            .iter()
            .filter(|(key, _)| key == name)
            .count()
    };
    assert_eq!(
        (sent("host"), sent("x-internal-auth"), sent("x-many")),
        (1, 1, 2)
    );
    assert_eq!(requests[0].header("host"), Some("evil.example"));
    assert_eq!(requests[0].header("x-internal-auth"), Some("wrong"));
    assert_eq!(requests[1].header("x-internal-auth"), Some(KEY));

    for (path, headers) in [
        ("/a b", [("x", "y")]),
        ("/", [("x y", "z")]),
        ("/", [("x", "a\nb")]),
    ] {
        let result = client.raw(Method::GET, path, &headers, "").await;
        assert!(
            matches!(result, Err(ClientError::Invalid(_))),
            "{path} {headers:?}: {result:?}"
        );
    }
}

#[tokio::test]
async fn requests_follow_the_server_and_go_nowhere_else() {
    let start =
        || Server::start(|request| Answer::Keep(plain("200 OK", "", &body_for(&request.line))));
    let (server, next) = (start().await, start().await);
    let is_there = Arc::new(AtomicBool::new(true));
    let address = Arc::new(Mutex::new(server.url.clone()));
    let (presence, now) = (Arc::clone(&is_there), Arc::clone(&address));
    let access = Credentials::BearerAt(
        KEY.into(),
        Arc::new(move || {
            let is_there = presence.load(Ordering::SeqCst);
            is_there.then(|| now.lock().unwrap().clone())
        }),
    );
    let client = Client::new(&server.url, access).unwrap();
    for (present, requests) in [(true, 1), (false, 1), (true, 2)] {
        is_there.store(present, Ordering::SeqCst);
        let answer = client.agents().await;
        assert_eq!(answer.is_ok(), present, "{answer:?}");
        assert!(
            present || matches!(answer, Err(ClientError::Connect(_))),
            "{answer:?}"
        );
        let log = client.events(&session(), None, true).await;
        assert!(
            present || matches!(log, Err(ClientError::Connect(_))),
            "streams too"
        );
        assert_eq!(
            server
                .requests()
                .iter()
                .filter(|request| request.line == "GET /agents")
                .count(),
            requests
        );
        assert_eq!(server.requests().len(), requests * 2);
    }
    *address.lock().unwrap() = next.url.clone();
    client.agents().await.unwrap();
    assert_eq!((server.requests().len(), next.requests().len()), (4, 1));
}

#[tokio::test]
async fn access_is_proven_as_chosen_and_never_shown() {
    let server =
        Server::start(|request| Answer::Keep(plain("200 OK", "", &body_for(&request.line)))).await;
    let prefixed = format!("{}/", server.url);
    let url = server.url.clone();
    let there: codelab_client::LiveAddress = Arc::new(move || Some(url.clone()));
    for (access, internal, bearer) in [
        (Credentials::InternalKey(KEY.into()), Some(KEY), None),
        (
            Credentials::Bearer(KEY.into()),
            None,
            Some("Bearer canary-key"),
        ),
        (
            Credentials::BearerAt(KEY.into(), there.clone()),
            None,
            Some("Bearer canary-key"),
        ),
        (Credentials::None, None, None),
    ] {
        let client = Client::new(&prefixed, access.clone()).unwrap();
        assert!(!format!("{access:?} {client:?}").contains(KEY));
        client.agents().await.unwrap();
        let request = server.requests().pop().unwrap();
        assert_eq!(
            (
                request.header("x-internal-auth"),
                request.header("authorization")
            ),
            (internal, bearer)
        );
    }
    for address in ["", "localhost:1", "ftp://x", "http://", "http://x/?y"] {
        assert!(
            matches!(
                Client::new(address, Credentials::None),
                Err(ClientError::Invalid(_))
            ),
            "{address}"
        );
    }
    assert!(Client::new("https://localhost", Credentials::None).is_ok());
    let error = Client::new("http://x", Credentials::Bearer(format!("{KEY}\n"))).unwrap_err();
    assert!(!format!("{error:?} {error}").contains(KEY));
}
