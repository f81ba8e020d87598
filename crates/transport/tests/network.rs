//! Real connections on loopback: TLS with a private authority, proxies, limits and redirects.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use codelab_fakemodel::{ForwardProxy, TestAuthority, TlsFront};
use codelab_transport::{
    BodyReader, ConnectError, HttpClient, HttpLimits, NetworkOptions, ProxySettings,
    TransportError, redirect_host,
};
use http::{Request, StatusCode, Uri};
use http_body_util::Full;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

const LIMIT: Duration = Duration::from_secs(10);
const MAX_BYTES: usize = 1000;
const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi";
/// `user:pass word`.
const AUTHORIZATION: &str = "Basic dXNlcjpwYXNzIHdvcmQ=";

/// Sends the same bytes as an answer to every request, and remembers the requests' heads.
struct PlainServer {
    addr: SocketAddr,
    heads: Arc<Mutex<Vec<String>>>,
    connections: Arc<Mutex<usize>>,
}

impl PlainServer {
    async fn start(answer: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let addr = listener.local_addr().unwrap();
        let heads = Arc::new(Mutex::new(Vec::new()));
        let connections = Arc::new(Mutex::new(0));
        let (seen, count) = (Arc::clone(&heads), Arc::clone(&connections));
        let answer = answer.to_owned();
        tokio::spawn(async move {
            while let Ok((mut client, _)) = listener.accept().await {
                *count.lock().unwrap() += 1;
                let (seen, answer) = (Arc::clone(&seen), answer.clone());
                tokio::spawn(async move {
                    let mut head = Vec::new();
                    while let Ok(byte) = client.read_u8().await {
                        head.push(byte);
                        if head.ends_with(b"\r\n\r\n") {
                            let text = String::from_utf8(std::mem::take(&mut head)).unwrap();
                            seen.lock().unwrap().push(text);
                            client.write_all(answer.as_bytes()).await.unwrap();
                        }
                    }
                });
            }
        });
        Self {
            addr,
            heads,
            connections,
        }
    }

    fn heads(&self) -> Vec<String> {
        self.heads.lock().unwrap().clone()
    }
}

fn proxies(variables: &[(&str, String)]) -> ProxySettings {
    ProxySettings::read(|name| {
        let found = variables.iter().find(|(set, _)| *set == name)?;
        Some(found.1.clone())
    })
}

fn client(url: &str, network: &NetworkOptions) -> HttpClient {
    let limits = HttpLimits {
        connect_timeout: LIMIT,
        idle_connections: 4,
        idle_connection_timeout: LIMIT,
    };
    HttpClient::new(&url.parse().unwrap(), network, limits).unwrap()
}

fn request(url: &str) -> Request<Full<Bytes>> {
    let mut request = Request::new(Full::default());
    *request.uri_mut() = url.parse::<Uri>().unwrap();
    request
        .headers_mut()
        .insert("authorization", "Bearer canary".parse().unwrap());
    request
}

async fn get(url: &str, network: &NetworkOptions) -> Result<Bytes, TransportError> {
    let answer = client(url, network)
        .fetch(request(url), LIMIT, MAX_BYTES)
        .await?;
    Ok(answer.into_body())
}

#[tokio::test]
async fn a_private_authority_is_trusted_only_through_the_ca_file() {
    let folder = tempfile::tempdir().unwrap();
    let Some(authority) = TestAuthority::make(folder.path()) else {
        return;
    };
    let server = PlainServer::start(OK).await;
    let certificate = authority.issue("server", "DNS:localhost,DNS:other.test");
    let front = TlsFront::start(&certificate, server.addr).await;
    let trusting = NetworkOptions {
        ca_file: Some(authority.ca_file()),
        ..NetworkOptions::default()
    };
    let url = format!("https://localhost:{}/", front.addr.port());
    assert_eq!(get(&url, &trusting).await.unwrap(), "hi");

    let error = get(&url, &NetworkOptions::default()).await.unwrap_err();
    let said = error.to_string();
    assert!(error.is_connect(), "{said}");
    let start = "the certificate of localhost is not trusted: unknown issuer; ";
    assert!(said.starts_with(start), "{said}");
    assert!(said.contains("--ca-file"), "{said}");

    let by_address = format!("https://127.0.0.1:{}/", front.addr.port());
    let said = get(&by_address, &trusting).await.unwrap_err().to_string();
    assert!(
        said.contains("it is only for localhost, other.test"),
        "{said}"
    );

    let plain = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://localhost:{}/", plain.local_addr().unwrap().port());
    tokio::spawn(async move {
        let (mut client, _) = plain.accept().await.unwrap();
        client.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await
    });
    let said = get(&url, &trusting).await.unwrap_err().to_string();
    assert!(said.contains("did not complete a TLS handshake"), "{said}");
    assert!(server.heads().iter().all(|head| head.starts_with("GET")));
}

#[tokio::test]
async fn https_goes_through_a_tunnel_with_credentials() {
    let folder = tempfile::tempdir().unwrap();
    let Some(authority) = TestAuthority::make(folder.path()) else {
        return;
    };
    let server = PlainServer::start(OK).await;
    let certificate = authority.issue("server", "DNS:model.test");
    let front = TlsFront::start(&certificate, server.addr).await;
    let proxy = ForwardProxy::start(Some(AUTHORIZATION), front.addr).await;
    let network = |user: &str| NetworkOptions {
        ca_file: Some(authority.ca_file()),
        proxies: proxies(&[("HTTPS_PROXY", format!("http://{user}{}", proxy.addr))]),
    };
    let url = "https://model.test/v1";
    assert_eq!(get(url, &network("user:pass%20word@")).await.unwrap(), "hi");
    let heads = proxy.heads();
    assert!(heads[0].starts_with("CONNECT model.test:443 "), "{heads:?}");
    assert!(!heads[0].contains("canary"), "the proxy sees no token");

    for wrong in ["user:canary@", ""] {
        let error = get(url, &network(wrong)).await.unwrap_err();
        let shown = proxy.addr.to_string() + " (HTTPS_PROXY)";
        let expected = ConnectError::ProxyCredentials { proxy: shown };
        assert_eq!(error, TransportError::Connect(expected));
        assert!(!error.to_string().contains("canary"), "{error}");
    }
    assert_eq!(server.heads().len(), 1);
}

/// `0.0.0.0` reaches this machine, and is no loopback address, so that a proxy is used for it.
#[tokio::test]
async fn plain_requests_are_forwarded_unless_no_proxy_names_the_server() {
    let server = PlainServer::start(OK).await;
    let proxy = ForwardProxy::start(Some(AUTHORIZATION), server.addr).await;
    let url = format!("http://0.0.0.0:{}/path", server.addr.port());
    let through = |no_proxy: &str| NetworkOptions {
        ca_file: None,
        proxies: proxies(&[
            (
                "http_proxy",
                format!("http://user:pass%20word@{}", proxy.addr),
            ),
            ("NO_PROXY", no_proxy.to_owned()),
        ]),
    };
    assert_eq!(get(&url, &through("")).await.unwrap(), "hi");
    let heads = proxy.heads();
    assert!(heads[0].starts_with(&format!("GET {url} ")), "{heads:?}");

    for no_proxy in ["0.0.0.0/8", &format!("0.0.0.0:{}", server.addr.port()), "*"] {
        assert_eq!(get(&url, &through(no_proxy)).await.unwrap(), "hi");
        assert_eq!(proxy.heads().len(), 1, "{no_proxy}");
        let direct = server.heads().pop().unwrap();
        assert!(direct.starts_with("GET /path "), "{direct}");
        assert!(!direct.to_lowercase().contains("proxy-authorization"));
    }
    let loopback = format!("http://127.0.0.1:{}/path", server.addr.port());
    assert_eq!(get(&loopback, &through("")).await.unwrap(), "hi");
    assert_eq!(proxy.heads().len(), 1, "loopback is never proxied");
}

#[tokio::test]
async fn a_missing_proxy_and_a_missing_server_are_told_apart() {
    let free = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let addr = free.local_addr().unwrap();
    drop(free);
    let network = NetworkOptions {
        ca_file: None,
        proxies: proxies(&[("HTTP_PROXY", addr.to_string())]),
    };
    let said = get("http://model.test/", &network).await.unwrap_err();
    let said = said.to_string();
    let start = format!("the proxy {addr} (HTTP_PROXY) cannot be reached: ");
    assert!(said.starts_with(&start), "{said}");
    let said = get(&format!("http://{addr}/"), &network).await.unwrap_err();
    let said = said.to_string();
    assert!(
        said.starts_with(&format!("{addr} cannot be reached: ")),
        "{said}"
    );
    assert!(said.contains("refused"), "{said}");
}

#[tokio::test]
async fn a_redirect_is_not_followed_and_the_token_stays_here() {
    let other = PlainServer::start(OK).await;
    let answer = format!(
        "HTTP/1.1 307 Moved\r\nLocation: http://{}/x\r\nContent-Length: 0\r\n\r\n",
        other.addr
    );
    let server = PlainServer::start(&answer).await;
    let url = format!("http://{}/", server.addr);
    let client = client(&url, &NetworkOptions::default());
    let answer = client.fetch(request(&url), LIMIT, MAX_BYTES).await.unwrap();
    assert_eq!(answer.status(), StatusCode::TEMPORARY_REDIRECT);
    let host = redirect_host(answer.status(), answer.headers());
    assert_eq!(host, Some(other.addr.to_string()));
    assert_eq!(*other.connections.lock().unwrap(), 0);
}

#[tokio::test]
async fn sizes_and_silences_are_limited_and_connections_are_used_again() {
    let server = PlainServer::start(OK).await;
    let url = format!("http://{}/", server.addr);
    let one = client(&url, &NetworkOptions::default());
    for _ in 0..3 {
        one.fetch(request(&url), LIMIT, 2).await.unwrap();
    }
    assert_eq!(*server.connections.lock().unwrap(), 1);
    let error = one.fetch(request(&url), LIMIT, 1).await.unwrap_err();
    assert_eq!(error, TransportError::TooLarge { max_bytes: 1 });

    let short = Duration::from_millis(20);
    let timeout = TransportError::Timeout { after: short };
    let silent = PlainServer::start("").await;
    let url = format!("http://{}/", silent.addr);
    let client_of_silent = client(&url, &NetworkOptions::default());
    let error = client_of_silent.fetch(request(&url), short, 1).await;
    assert_eq!(error.unwrap_err(), timeout);

    let stalling = PlainServer::start("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhi").await;
    let url = format!("http://{}/", stalling.addr);
    let client_of_stalling = client(&url, &NetworkOptions::default());
    let answer = client_of_stalling.send(request(&url)).await.unwrap();
    let mut body = BodyReader::new(answer.into_body(), short);
    assert_eq!(body.next().await.unwrap().unwrap(), "hi");
    assert_eq!(body.next().await.unwrap_err(), timeout);
}
