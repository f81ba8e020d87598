//! A Qdrant server that is not there, or is something else.

use std::io::{Read, Write};
use std::net::TcpListener;

use codelab_memory::{Memory, MemoryHealth, QdrantOptions};

use crate::bed::{asked, is_unavailable, said, unused_name};

async fn assert_degraded(url: String) {
    let memory = Memory::server(
        QdrantOptions {
            url,
            api_key: Some("canary".into()),
            network: Default::default(),
        },
        None,
    )
    .unwrap();
    let name = unused_name();
    assert!(is_unavailable(&memory.create(&name).await));
    assert!(is_unavailable(&memory.exists(&name).await));
    assert!(is_unavailable(&memory.remove(&name).await));
    assert!(is_unavailable(
        &memory.add(&name, vec![said(1, "words")]).await
    ));
    assert!(is_unavailable(&memory.count(&name).await));
    assert!(is_unavailable(&memory.collections().await));
    assert!(is_unavailable(
        &memory.rebuild(&name, [said(1, "words")]).await
    ));
    let error = memory.search(&name, &asked("word")).await.unwrap_err();
    assert!(!error.to_string().contains("canary"), "{error}");
    assert!(matches!(
        memory.health().await,
        MemoryHealth::Unavailable { .. }
    ));
}

#[tokio::test]
async fn nobody_listens() {
    let port = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port();
    assert_degraded(format!("http://127.0.0.1:{port}")).await;
}

#[tokio::test]
async fn somebody_else_listens() {
    for answer in ["<html>", "[1, 2]", "\"text\"", "{}", "{\"result\": null}"] {
        somebody_answers(answer).await;
    }
}

async fn somebody_answers(answer: &'static str) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut request = [0; 4096];
            let _ = stream.read(&mut request);
            let length = answer.len();
            let head =
                format!("HTTP/1.1 200 OK\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n");
            let _ = stream.write_all(format!("{head}{answer}").as_bytes());
        }
    });
    assert_degraded(format!("http://127.0.0.1:{port}")).await;
}
