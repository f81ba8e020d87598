//! Which addresses a server over HTTP may have.

use codelab_mcp::{McpLimits, Place, ServerHandle};
use codelab_protocol::McpStatus;
use codelab_transport::{NetworkOptions, ProxySettings};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use crate::lab::{config, limits, state_where};

fn reached(url: &str, network: NetworkOptions, allow_private: bool) -> ServerHandle {
    let (name, config) = config(&json!({"url": url}));
    let place = Place::Network {
        network,
        allow_private,
        authorization: None,
    };
    let once = McpLimits {
        max_restarts: 0,
        ..limits()
    };
    ServerHandle::start(name, config, place, once)
}

async fn error_of(handle: &ServerHandle) -> String {
    let state = state_where(handle, |state| state.status == McpStatus::Failed).await;
    state.error.unwrap()
}

/// Counts connections, and answers each with the text.
async fn listener(answer: &'static str) -> (u16, tokio::sync::watch::Receiver<usize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let (count, counted) = tokio::sync::watch::channel(0);
    tokio::spawn(async move {
        while let Ok((mut connection, _)) = listener.accept().await {
            count.send_modify(|count| *count += 1);
            let mut request = [0; 8192];
            let _ = connection.read(&mut request).await;
            let _ = connection.write_all(answer.as_bytes()).await;
        }
    });
    (port, counted)
}

#[tokio::test(flavor = "multi_thread")]
async fn addresses_inside_are_refused_however_they_are_written() {
    let (port, counted) = listener("HTTP/1.1 500 no\r\ncontent-length: 0\r\n\r\n").await;
    for host in [
        "127.0.0.1",
        "127.0.0.2",
        "localhost",
        "LOCALHOST",
        "localhost.",
        "any.localhost",
        // Spellings that the system's resolver understands.
        "2130706433",
        "0x7f000001",
        "0177.0.0.1",
        "127.1",
        "0.0.0.0",
        "0",
        "10.0.0.1",
        "172.16.0.1",
        "192.168.0.1",
        "169.254.169.254",
        "100.64.0.1",
        "224.0.0.1",
        "255.255.255.255",
        "[::1]",
        "[::]",
        "[::ffff:127.0.0.1]",
        "[::ffff:7f00:1]",
        "[::127.0.0.1]",
        "[64:ff9b::7f00:1]",
        "[2002:7f00:1::]",
        "[fe80::1]",
        "[fd00::1]",
        "[ff02::1]",
    ] {
        let url = format!("http://{host}:{port}/mcp");
        let handle = reached(&url, NetworkOptions::default(), false);
        let error = error_of(&handle).await;
        let refused = error.contains("address of this machine or of a private network");
        assert!(refused, "{host}: {error}");
        handle.stop().await;
    }
    assert_eq!(*counted.borrow(), 0, "no connection was made");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_private_target_is_not_asked_of_a_proxy() {
    let (port, counted) = listener("HTTP/1.1 502 no\r\ncontent-length: 0\r\n\r\n").await;
    let network = || NetworkOptions {
        proxies: ProxySettings::read(|name| {
            let is_one = matches!(name, "HTTP_PROXY" | "HTTPS_PROXY");
            is_one.then(|| format!("http://127.0.0.1:{port}"))
        }),
        ..NetworkOptions::default()
    };
    for url in [
        "http://10.0.0.1/mcp",
        "https://10.0.0.1/mcp",
        "http://169.254.169.254/mcp",
        "http://167772161/mcp",
        "https://[::ffff:10.0.0.1]/mcp",
    ] {
        let handle = reached(url, network(), false);
        let error = error_of(&handle).await;
        let refused = error.contains("address of this machine or of a private network");
        assert!(refused, "{url}: {error}");
        handle.stop().await;
    }
    assert_eq!(*counted.borrow(), 0, "the proxy was not asked");
    // A name that only the proxy can resolve is its business.
    let handle = reached("http://no-such-name.invalid/mcp", network(), false);
    let error = error_of(&handle).await;
    assert!(error.contains("HTTP 502"), "{error}");
    assert!(*counted.borrow() > 0);
    handle.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_redirect_is_not_followed() {
    let (inside, counted) = listener("HTTP/1.1 500 no\r\ncontent-length: 0\r\n\r\n").await;
    let answer = format!(
        "HTTP/1.1 307 go\r\nlocation: http://127.0.0.1:{inside}/\r\ncontent-length: 0\r\n\r\n"
    );
    let (port, _) = listener(Box::leak(answer.into_boxed_str())).await;
    let url = format!("http://127.0.0.1:{port}/mcp");
    let handle = reached(&url, NetworkOptions::default(), true);
    let error = error_of(&handle).await;
    assert!(error.contains("redirects to 127.0.0.1"), "{error}");
    assert_eq!(*counted.borrow(), 0);
    handle.stop().await;
}
