//! A scripted HTTP/1.1 server on port 0. It writes bytes exactly as told, so that an answer can be
//! cut anywhere.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use codelab_client::{Client, ClientLimits, Credentials};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

pub const KEY: &str = "canary-key";

#[derive(Debug, Clone)]
pub struct Request {
    /// Method and path, e.g. `GET /health`.
    pub line: String,
    pub headers: Vec<(String, String)>,
    pub body: String,
}

impl Request {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers
            .iter()
            .find(|(key, _)| key == name)
            .map(|(_, value)| value.as_str())
    }
}

/// What happens on the connection after a request was read.
pub enum Answer {
    /// The connection stays for the next request.
    Keep(Vec<u8>),
    /// The bytes, and then the connection is closed.
    Cut(Vec<u8>),
    /// The bytes, and then silence until the client goes away.
    Hold(Vec<u8>),
}

pub struct Server {
    pub url: String,
    requests: Arc<Mutex<Vec<Request>>>,
    connections: Arc<AtomicUsize>,
    task: JoinHandle<()>,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Server {
    pub async fn start(script: impl FnMut(Request) -> Answer + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (requests, connections) = (
            Arc::new(Mutex::new(Vec::new())),
            Arc::new(AtomicUsize::new(0)),
        );
        let (log, count) = (requests.clone(), connections.clone());
        let script = Arc::new(Mutex::new(script));
        let task = tokio::spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                count.fetch_add(1, Ordering::SeqCst);
                let (script, log) = (script.clone(), log.clone());
                tokio::spawn(serve(socket, move |request: Request| {
                    log.lock().unwrap().push(request.clone());
                    (script.lock().unwrap())(request)
                }));
            }
        });
        Self {
            url,
            requests,
            connections,
            task,
        }
    }

    /// Gives the same answer to every request.
    pub async fn always(answer: Vec<u8>) -> Self {
        Self::start(move |_| Answer::Keep(answer.clone())).await
    }

    pub fn client(&self) -> Client {
        self.client_with(ClientLimits::default())
    }

    pub fn client_with(&self, limits: ClientLimits) -> Client {
        Client::with_limits(&self.url, Credentials::InternalKey(KEY.into()), limits).unwrap()
    }

    pub fn requests(&self) -> Vec<Request> {
        self.requests.lock().unwrap().clone()
    }

    pub fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }
}

pub fn plain(status: &str, headers: &str, body: &str) -> Vec<u8> {
    format!(
        "HTTP/1.1 {status}\r\n{headers}content-length: {}\r\n\r\n{body}",
        body.len()
    )
    .into_bytes()
}

/// The head of an event stream and each part as one chunk of the body, without the end of the body.
pub fn open_stream(parts: &[&[u8]]) -> Vec<u8> {
    let mut bytes =
        b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
            .to_vec();
    for part in parts.iter().filter(|part| !part.is_empty()) {
        bytes.extend(format!("{:x}\r\n", part.len()).bytes());
        bytes.extend_from_slice(part);
        bytes.extend_from_slice(b"\r\n");
    }
    bytes
}

pub fn whole_stream(parts: &[&[u8]]) -> Vec<u8> {
    let mut bytes = open_stream(parts);
    bytes.extend_from_slice(b"0\r\n\r\n");
    bytes
}

async fn serve(mut socket: TcpStream, mut script: impl FnMut(Request) -> Answer) {
    let mut buffer = Vec::new();
    while let Some(request) = read_request(&mut socket, &mut buffer).await {
        match script(request) {
            Answer::Keep(bytes) => {
                if socket.write_all(&bytes).await.is_err() {
                    return;
                }
            }
            Answer::Cut(bytes) => {
                let _ = socket.write_all(&bytes).await;
                return;
            }
            Answer::Hold(bytes) => {
                let _ = socket.write_all(&bytes).await;
                while matches!(socket.read(&mut [0; 64]).await, Ok(read) if read > 0) {}
                return;
            }
        }
    }
}

async fn read_request(socket: &mut TcpStream, buffer: &mut Vec<u8>) -> Option<Request> {
    let head_end = loop {
        if let Some(at) = buffer.windows(4).position(|window| window == b"\r\n\r\n") {
            break at + 4;
        }
        more(socket, buffer).await?;
    };
    let head = String::from_utf8(buffer[..head_end].to_vec()).unwrap();
    let mut lines = head.lines();
    let line = lines.next()?.trim_end_matches(" HTTP/1.1").to_owned();
    let headers: Vec<(String, String)> = lines
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
        .collect();
    let length = headers
        .iter()
        .find(|(name, _)| name == "content-length")
        .map_or(0, |(_, n)| n.parse().unwrap());
    while buffer.len() < head_end + length {
        more(socket, buffer).await?;
    }
    let body = String::from_utf8(buffer[head_end..head_end + length].to_vec()).unwrap();
    buffer.drain(..head_end + length);
    Some(Request {
        line,
        headers,
        body,
    })
}

async fn more(socket: &mut TcpStream, buffer: &mut Vec<u8>) -> Option<()> {
    let mut part = [0; 4096];
    let read = socket.read(&mut part).await.ok().filter(|&read| read > 0)?;
    buffer.extend_from_slice(&part[..read]);
    Some(())
}
