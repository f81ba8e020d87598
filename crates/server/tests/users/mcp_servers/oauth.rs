//! Authorizations at MCP servers: begun by a person, finished once by the provider's answer.

use serde_json::{Value, json};

use super::script::{McpScript, tool};
use super::{Lab, holds};
use crate::kit::{Answer, Person};

impl Lab {
    /// Begins an authorization and gives the state that the provider would send back.
    async fn begin(&self, name: &str) -> String {
        let path = self.path(&format!("{name}/authorize/"));
        let begun = self.person.ask("POST", &path, None).await.expect(200);
        let url = begun["url"].as_str().unwrap();
        assert!(url.contains("code_challenge_method=S256"), "{url}");
        assert!(url.contains("oauth%2Fcallback"), "{url}");
        let (_, state) = url.split_once("state=").unwrap();
        let state = state.split('&').next().unwrap().to_owned();
        assert_eq!(state.len(), 64);
        state
    }

    /// The browser comes back, without any login.
    async fn come_back(&self, query: &str) -> Answer {
        let browser = Person::stranger(&self.server);
        browser.get(&format!("/oauth/callback?{query}")).await
    }
}

/// The page says so, and is a page.
fn said(answer: &Answer, status: u16, text: &str) {
    let page = String::from_utf8_lossy(&answer.raw.body).into_owned();
    assert_eq!(answer.status, status, "{page}");
    assert!(page.contains(text), "{page}");
    let header = |name: &str| answer.raw.headers[name].to_str().unwrap().to_owned();
    assert!(header("content-type").starts_with("text/html"));
    assert!(header("content-security-policy").contains("default-src 'none'"));
}

async fn guarded() -> McpScript {
    let mcp = McpScript::start(vec![tool("read", "")]).await;
    mcp.script().access_token = Some("nobody-has-it".to_owned());
    mcp.script().grants = vec!["canary-code".to_owned()];
    mcp
}

#[tokio::test]
async fn a_person_authorizes_a_server_and_its_tokens_are_renewed() {
    let mut lab = Lab::start().await;
    let mcp = guarded().await;
    lab.add("s", &mcp).await;
    let closed = lab.test("s").await;
    assert_eq!(
        (&closed["status"], &closed["authorized"]),
        (&json!("unauthorized"), &json!(false)),
        "{closed}"
    );

    let state = lab.begin("s").await;
    let back = lab
        .come_back(&format!("code=canary-code&state={state}"))
        .await;
    said(&back, 200, "CodeLab can use the server s now");
    let open = lab.test("s").await;
    assert_eq!(
        (&open["status"], &open["authorized"]),
        (&json!("ready"), &json!(true)),
        "{open}"
    );
    assert!(!open.to_string().contains("canary-access"), "{open}");
    // The state is used up.
    let again = lab
        .come_back(&format!("code=canary-code&state={state}"))
        .await;
    said(&again, 400, "unknown, used already or older");
    assert_eq!(mcp.script().used, ["canary-code"]);

    // The provider ends the access token. A refresh token works once, so the new one is stored.
    mcp.script().access_token = Some("not-yet-issued".to_owned());
    let renewed = lab.test("s").await;
    assert_eq!(renewed["status"], "ready", "{renewed}");
    lab.restart().await;
    let kept = lab.test("s").await;
    assert_eq!(kept["status"], "ready", "{kept}");
    mcp.script().access_token = Some("not-yet-issued".to_owned());
    assert_eq!(lab.test("s").await["status"], "ready");
    let used = mcp.script().used.clone();
    assert_eq!(
        used,
        ["canary-code", "canary-refresh-1", "canary-refresh-2"]
    );
    for secret in ["canary-access", "canary-refresh", state.as_str()] {
        assert!(!holds(lab.server.data_dir(), secret), "{secret}");
    }

    let path = lab.path("s/authorize/");
    assert_eq!(lab.person.delete(&path).await.status, 204);
    let closed = lab.test("s").await;
    assert_eq!(
        (&closed["status"], &closed["authorized"]),
        (&json!("unauthorized"), &json!(false))
    );
}

#[tokio::test]
async fn only_the_state_of_an_authorization_under_way_is_taken() {
    let lab = Lab::start().await;
    let mcp = guarded().await;
    lab.add("s", &mcp).await;
    for state in ["", "x", &"0".repeat(64), &"z".repeat(64), &"0".repeat(1000)] {
        let back = lab
            .come_back(&format!("code=canary-code&state={state}"))
            .await;
        said(&back, 400, "unknown, used already or older");
    }
    said(
        &lab.come_back("code=canary-code").await,
        400,
        "not authorized",
    );
    // The person refused, and the state is used up.
    let refused = lab.begin("s").await;
    let query = format!("error=access_denied&error_description=%3Cscript%3E&state={refused}");
    let back = lab.come_back(&query).await;
    said(&back, 400, "refused");
    assert!(!String::from_utf8_lossy(&back.raw.body).contains("<script>"));
    let back = lab
        .come_back(&format!("code=canary-code&state={refused}"))
        .await;
    said(&back, 400, "unknown, used already or older");
    // Another provider answers.
    let mixed = lab.begin("s").await;
    let query = format!("code=canary-code&iss=http://evil.example&state={mixed}");
    let back = lab.come_back(&query).await;
    said(&back, 400, "not come from the provider");
    // A code that the provider does not know.
    let wrong = lab.begin("s").await;
    let back = lab
        .come_back(&format!("code=guessed-7&state={wrong}"))
        .await;
    said(&back, 400, "was not authorized at the server s");
    assert!(!String::from_utf8_lossy(&back.raw.body).contains("guessed-7"));
    // What was begun for a server ends with it, with its address and with its tokens.
    for end in ["delete", "move", "forget"] {
        let state = lab.begin("s").await;
        match end {
            "delete" => {
                lab.person.delete(&lab.path("s")).await;
                lab.add("s", &mcp).await;
            }
            "move" => {
                let url = format!("{}?v=2", mcp.url());
                let moved = lab
                    .person
                    .patch(&lab.path("s"), json!({ "url": url }))
                    .await;
                moved.expect(200);
            }
            _ => assert_eq!(
                lab.person.delete(&lab.path("s/authorize/")).await.status,
                204
            ),
        }
        let back = lab
            .come_back(&format!("code=canary-code&state={state}"))
            .await;
        said(&back, 400, "unknown, used already or older");
    }
    assert_eq!(mcp.script().used, Vec::<String>::new());
    assert_eq!(lab.test("s").await["authorized"], json!(false));
}

#[tokio::test]
async fn an_authorization_ends_after_ten_minutes() {
    if codelab_testkit::skipped_through_another(super::READS_SQLITE) {
        return;
    }
    let mut lab = Lab::start().await;
    let mcp = guarded().await;
    lab.add("s", &mcp).await;
    let state = lab.begin("s").await;
    lab.server.stop().await;
    let database = lab.server.data_dir().join("codelab.db");
    let connection = rusqlite::Connection::open(database).unwrap();
    let left: i64 = connection
        .query_row("SELECT expires_at FROM mcp_authorizations", [], |row| {
            row.get(0)
        })
        .unwrap();
    let minutes = (left / 1000 - crate::kit::seconds_from_now(0)) as f64 / 60.0;
    assert!((8.0..=10.0).contains(&minutes), "{minutes}");
    let past = "UPDATE mcp_authorizations SET expires_at = expires_at - 600000";
    assert_eq!(connection.execute(past, []).unwrap(), 1);
    drop(connection);
    lab.restart().await;
    let back = lab
        .come_back(&format!("code=canary-code&state={state}"))
        .await;
    said(&back, 400, "unknown, used already or older");
    assert_eq!(mcp.script().used, Vec::<String>::new());
}

#[tokio::test]
async fn a_server_without_authorization_says_so() {
    let lab = Lab::start().await;
    let body = json!({"name": "down", "url": "http://127.0.0.1:1/mcp"});
    lab.person.post(&lab.path(""), body).await.expect(201);
    let refused = lab
        .person
        .ask("POST", &lab.path("down/authorize/"), None)
        .await;
    refused.refused(409, "CONFLICT");
    let detail = refused.body["detail"].as_str().unwrap();
    assert!(
        detail.starts_with("The server down cannot be authorized:"),
        "{detail}"
    );
    assert_ne!(refused.body["details"], Value::Null);
}

#[tokio::test]
async fn a_person_is_sent_to_no_address_that_looks_like_another() {
    let lab = Lab::start().await;
    let mcp = guarded().await;
    lab.add("s", &mcp).await;
    for endpoint in [
        "https://accounts.test@evil.test/authorize",
        "https://evil.test/authorize?a=b#hidden",
        "javascript:alert(1)",
    ] {
        mcp.script().authorization_endpoint = Some(endpoint.to_owned());
        let path = lab.path("s/authorize/");
        let answer = lab.person.ask("POST", &path, None).await;
        answer.refused(409, "CONFLICT");
    }
}
