//! Two servers of one installation on one PostgreSQL: either of them answers every request.

use std::time::Duration;

use codelab_testkit::{Method, OwnDatabase, Reply, SeenEvents, TestServer, eventually};
use serde_json::{Value, json};
use tokio::time::timeout;

const WITHIN: Duration = Duration::from_secs(20);

/// Both know each other when this returns.
async fn installation(name: &str) -> Option<(TestServer, TestServer, OwnDatabase)> {
    let database = OwnDatabase::make(name).await?;
    let first = TestServer::member(&database.url, &[]).await;
    let model = first.model.url();
    let second = TestServer::member(&database.url, &[("LLM_PROXY_URL", &model)]).await;
    know(&[&first, &second], 2).await;
    Some((first, second, database))
}

/// Waits until each of these knows of so many servers.
async fn know(servers: &[&TestServer], count: usize) {
    for server in servers {
        eventually("the server knows of the others", async || {
            let (_, health) = server.http(Method::GET, "/health", None).await;
            let servers = health["cluster"]["servers"].as_array().map(Vec::len);
            if servers == Some(count) {
                Ok(())
            } else {
                Err(health)
            }
        })
        .await;
    }
}

async fn end((mut first, mut second, database): (TestServer, TestServer, OwnDatabase)) {
    tokio::join!(first.stop(), second.stop());
    database.remove().await;
}

/// How many requests this server had answered by another one.
async fn forwards(server: &TestServer) -> u64 {
    let metrics = server.client.raw(Method::GET, "/metrics", &[], "").await;
    let text = String::from_utf8(metrics.unwrap().body.to_vec()).unwrap();
    let line = "codelab_cluster_forwards_total{outcome=\"answered\"} ";
    let count = text.lines().find_map(|found| found.strip_prefix(line));
    count.map_or(0, |count| count.parse().unwrap())
}

#[tokio::test]
async fn sessions_and_the_chat_are_the_same_at_every_server() {
    let Some(all) = installation("it_forwarding").await else {
        return;
    };
    let (first, second, _) = &all;
    for number in 0..6 {
        let session = format!("s{number}");
        for (server, text) in [(first, "one"), (second, "two")] {
            first.model.reply(Reply::text(text));
            let seen = server.say_to(&session, "coder", "hello").await;
            assert_eq!(seen.answer().content, text);
        }
        let log = first.log(&session).await.ids();
        assert_eq!(second.log(&session).await.ids(), log);
        assert_eq!(
            second.history(&session).await,
            first.history(&session).await
        );
    }
    let by_second = forwards(second).await;
    assert!(forwards(first).await + by_second >= 6 * 3);

    let question = json!({ "author": "tester", "question": "Which colour?" });
    let asking = first.http(Method::POST, "/chat/ask_user", Some(question));
    let answering = async {
        eventually("the question is shown", async || {
            let (_, history) = second.http(Method::GET, "/chat/history", None).await;
            let shown = history.to_string().contains("Which colour?");
            if shown { Ok(()) } else { Err(history) }
        })
        .await;
        let answer = json!({ "text": "Blue" });
        let path = "/chat/user_message";
        second.http(Method::POST, path, Some(answer)).await
    };
    let ((asked, answer), (said, _)) = tokio::join!(asking, answering);
    assert_eq!((asked, said), (200, 201), "{answer}");
    assert!(answer.to_string().contains("Blue"), "{answer}");
    end(all).await;
}

#[tokio::test]
async fn a_session_that_is_read_has_an_owner() {
    const SESSIONS: [&str; 6] = ["a", "b", "c", "d", "e", "f"];
    let Some(mut all) = installation("it_forwarding_readers").await else {
        return;
    };
    let (first, second, _) = &mut all;
    second.model.default_reply(Reply::text("Hi."));
    first.model.default_reply(Reply::text("Hi."));
    for session in SESSIONS {
        first.say_to(session, "coder", "hello").await;
    }
    first.stop().await;
    know(&[second], 1).await;
    let mut readers = Vec::new();
    for session in SESSIONS {
        let read = second.log(session).await.ids();
        let last = *read.last().unwrap();
        readers.push(second.follow(session, last).await);
    }
    first.restart().await;
    know(&[first, second], 2).await;
    // Some of them would be the first server's share.
    for (session, mut reader) in SESSIONS.into_iter().zip(readers) {
        let sent = first.say_to(session, "coder", "hello again").await;
        let heard = SeenEvents::until_done(&mut reader);
        let heard = timeout(WITHIN, heard).await.expect("the reader hears it");
        assert_eq!(heard.story(), sent.story());
    }
    end(all).await;
}

/// A user's request, with the answer's status and body.
async fn ask(
    server: &TestServer,
    user: i64,
    (method, path): (reqwest::Method, &str),
    body: Option<Value>,
) -> (u16, Value) {
    let asked = reqwest::Client::new()
        .request(method, format!("{}{path}", server.url))
        .bearer_auth(server.token(user));
    let asked = match &body {
        Some(body) => asked.json(body),
        None => asked,
    };
    let answer = asked.send().await.unwrap();
    let status = answer.status().as_u16();
    (status, answer.json().await.unwrap_or_default())
}

#[tokio::test]
async fn a_project_is_the_same_at_every_server() {
    use reqwest::Method;
    let Some(all) = installation("it_forwarding_projects").await else {
        return;
    };
    let (first, second, _) = &all;
    for user in 1..=4 {
        let create = (Method::POST, "/my/chat/sessions");
        let (status, made) = ask(first, user, create, None).await;
        assert_eq!(status, 201, "{made}");
        let id = made["session_id"].as_str().unwrap();
        let (message, messages) = (
            format!("/my/chat/{id}/message"),
            format!("/my/chat/{id}/messages"),
        );
        for (server, text) in [(second, "from the second"), (first, "from the first")] {
            first.model.reply(Reply::text(text));
            let body = json!({ "content": "hello", "target_agent": "coder" });
            let sent = ask(server, user, (Method::POST, &message), Some(body)).await;
            assert_eq!(sent.0, 200, "{}", sent.1);
            assert!(sent.1.to_string().contains(text), "{}", sent.1);
        }
        let here = ask(first, user, (Method::GET, &messages), None).await;
        let there = ask(second, user, (Method::GET, &messages), None).await;
        assert_eq!(here, there);
        for server in [first, second] {
            let foreign = ask(server, user + 10, (Method::GET, &messages), None).await;
            assert_eq!(foreign.0, 404);
            let nowhere = (Method::GET, "/my/chat/nowhere/messages");
            assert_eq!(ask(server, user, nowhere, None).await.0, 404);
        }
    }
    assert!(forwards(first).await + forwards(second).await >= 4);
    end(all).await;
}
