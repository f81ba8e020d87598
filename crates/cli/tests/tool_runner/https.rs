//! Over TLS and through proxies: `exec` and `work` at a server behind an HTTPS reverse proxy, and a
//! model behind an HTTP proxy.

use codelab_fakemodel::{ForwardProxy, Reply, TestAuthority, TlsFront};
use codelab_testkit::HttpsProxy;
use serde_json::json;

use crate::lab::{Lab, Process};

#[tokio::test]
async fn exec_and_work_use_a_server_behind_an_https_proxy() {
    let lab = Lab::new().await;
    let Some(authority) = TestAuthority::make(&lab.home) else {
        return;
    };
    let certificate = authority.issue("server", "DNS:localhost");
    let _server = lab.serve(&[]).await;
    let Some(proxy) = HttpsProxy::start(&lab.home, &certificate, lab.port()).await else {
        return;
    };
    let url = format!("https://localhost:{}", proxy.port);
    let token = lab.token().await;
    let ca_file = authority.ca_file().display().to_string();
    let there = ["--url", &url, "--token", &token];
    let exec = [&["exec", "How is it?", "--agent", "coder"][..], &there].concat();

    let refused = lab.run(&exec).await;
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(!refused.status.success(), "{said}");
    assert!(
        said.contains("the certificate of localhost is not trusted: unknown issuer"),
        "{said}"
    );
    assert!(said.contains("--ca-file"), "{said}");
    assert!(!said.contains(&token), "{said}");

    lab.model.reply(Reply::text("All is well."));
    let trusted = lab
        .run(&[&exec[..], &["--ca-file", &ca_file]].concat())
        .await;
    let said = String::from_utf8_lossy(&trusted.stderr);
    assert_eq!(trusted.stdout, b"All is well.\n", "{said}");

    // The variable does the same.
    let workspace = lab.workspace.display().to_string();
    let work = [&["work", "--workspace", &workspace][..], &there].concat();
    let mut work = lab.codelab(&work);
    work.env("CODELAB_CA_FILE", &ca_file);
    let _tool_runner = Process::start(work, "working in ").await;
    let call = json!({"path": "out.txt", "content": "made\n"});
    lab.model.reply(Reply::tool_call("write_file", call));
    let person = lab.person().await;
    person.says("Write it").await;
    person.approves_until_done().await;
    assert_eq!(lab.read("out.txt"), "made\n");
}

#[tokio::test]
async fn a_model_is_called_through_a_proxy_with_credentials() {
    let lab = Lab::new().await;
    let Some(authority) = TestAuthority::make(&lab.home) else {
        return;
    };
    let certificate = authority.issue("model", "DNS:model.test");
    let model = lab.model.url();
    let model = model.trim_start_matches("http://").parse().unwrap();
    let front = TlsFront::start(&certificate, model).await;
    // `user:canary`.
    let proxy = ForwardProxy::start(Some("Basic dXNlcjpjYW5hcnk="), front.addr).await;
    lab.model.reply(Reply::text("Through the tunnel."));
    let mut exec = lab.codelab(&["exec", "How is it?", "--agent", "coder"]);
    exec.env("LLM_PROXY_URL", "https://model.test/v1")
        .env("HTTPS_PROXY", format!("http://user:canary@{}", proxy.addr))
        .env("CODELAB_HTTP__CA_FILE", authority.ca_file())
        .env("LLM_API_KEY", "key-of-the-model")
        .env("RUST_LOG", "debug");
    let output = exec.output().await.unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.stdout, b"Through the tunnel.\n", "{said}");
    assert!(!said.contains("canary"), "{said}");
    let heads = proxy.heads();
    assert!(heads[0].starts_with("CONNECT model.test:443 "), "{heads:?}");
    assert!(heads.iter().all(|head| !head.contains("key-of-the-model")));
    assert_eq!(
        lab.model.requests()[0].header("authorization"),
        Some("Bearer key-of-the-model")
    );
}
