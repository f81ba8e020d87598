//! HTTP by hand: what no honest client would send, and everything the server sends back.

use std::time::Duration;

use bytes::Bytes;
use codelab_testkit::{INTERNAL_KEY, TestServer};
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// An answer that takes longer hangs.
const SAFETY_TIMEOUT: Duration = Duration::from_secs(30);

#[derive(Debug, Clone)]
pub struct Request {
    pub method: String,
    pub target: String,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

#[derive(Debug, Clone)]
pub struct Answer {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Request {
    /// Without a key.
    pub fn new(server: &TestServer, method: &str, target: &str) -> Self {
        let headers = vec![("Host".to_owned(), authority(server).to_owned())];
        Self {
            method: method.to_owned(),
            target: target.to_owned(),
            headers,
            body: Vec::new(),
        }
    }

    /// What an honest caller sends.
    pub fn with_key(server: &TestServer, method: &str, target: &str) -> Self {
        Self::new(server, method, target).with("X-Internal-Auth", INTERNAL_KEY)
    }

    pub fn json(self, body: impl Into<Vec<u8>>) -> Self {
        self.with("Content-Type", "application/json").body(body)
    }

    pub fn body(self, body: impl Into<Vec<u8>>) -> Self {
        Self {
            body: body.into(),
            ..self
        }
    }

    pub fn with(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    pub fn without(mut self, name: &str) -> Self {
        self.headers
            .retain(|(given, _)| !given.eq_ignore_ascii_case(name));
        self
    }

    pub async fn send(&self, server: &TestServer) -> Answer {
        let answer = exchange(server, self.bytes()).await;
        answer.unwrap_or_else(|error| panic!("{} {}: {error}", self.method, self.target))
    }

    /// How the answer begins; the rest is not awaited.
    pub async fn status(&self, server: &TestServer) -> u16 {
        let mut stream = TcpStream::connect(authority(server)).await.unwrap();
        stream.write_all(&self.bytes()).await.unwrap();
        let mut received = Vec::new();
        let reading = async {
            while !received.windows(4).any(|window| window == b"\r\n\r\n") {
                let read = stream.read_buf(&mut received).await.unwrap();
                assert!(read > 0, "{} {}: no answer", self.method, self.target);
            }
        };
        tokio::time::timeout(SAFETY_TIMEOUT, reading)
            .await
            .expect("an answer in time");
        String::from_utf8_lossy(&received)
            .split(' ')
            .nth(1)
            .and_then(|status| status.parse().ok())
            .expect("a status")
    }

    /// Everything but the body, on a connection that goes on; a length of 0 names none.
    pub fn keep_alive_head(&self, body_bytes: usize) -> Vec<u8> {
        let mut head = format!("{} {} HTTP/1.1\r\n", self.method, self.target);
        for (name, value) in &self.headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        if body_bytes > 0 {
            head.push_str(&format!("Content-Length: {body_bytes}\r\n"));
        }
        (head + "\r\n").into_bytes()
    }

    fn bytes(&self) -> Vec<u8> {
        let mut bytes = format!(
            "{} {} HTTP/1.1\r\nConnection: close\r\n",
            self.method, self.target
        )
        .into_bytes();
        for (name, value) in &self.headers {
            bytes.extend_from_slice(format!("{name}: {value}\r\n").as_bytes());
        }
        if !self.body.is_empty() || self.method == "POST" {
            bytes.extend_from_slice(format!("Content-Length: {}\r\n", self.body.len()).as_bytes());
        }
        bytes.extend_from_slice(b"\r\n");
        bytes.extend_from_slice(&self.body);
        bytes
    }
}

impl Answer {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers
            .iter()
            .find(|(given, _)| given.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.as_str())
    }

    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|error| panic!("{error}: {}", self.text()))
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub fn error_code(&self) -> String {
        self.json()["error_code"]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    }

    /// The status and code of an error in the one shape that all of them have.
    #[track_caller]
    pub fn refusal(&self) -> (u16, String) {
        let body = self.json();
        let text = self.text();
        assert_eq!(
            self.header("content-type"),
            Some("application/json"),
            "{text}"
        );
        assert!(
            body["detail"]
                .as_str()
                .is_some_and(|detail| !detail.is_empty()),
            "{text}"
        );
        assert!(body["details"].is_object(), "{text}");
        assert_eq!(body.as_object().unwrap().len(), 3, "{text}");
        (self.status, self.error_code())
    }
}

/// One connection for several requests.
pub struct Conversation {
    stream: TcpStream,
    received: Vec<u8>,
}

impl Conversation {
    pub async fn start(server: &TestServer) -> Self {
        Self {
            stream: TcpStream::connect(authority(server)).await.unwrap(),
            received: Vec::new(),
        }
    }

    pub async fn send(&mut self, bytes: &[u8]) {
        self.stream
            .write_all(bytes)
            .await
            .expect("the server reads on");
    }

    /// The next answer, which says how long it is.
    pub async fn answer(&mut self) -> Answer {
        let reading = async {
            loop {
                if let Some(answer) = self.whole_answer() {
                    return answer;
                }
                let read = self
                    .stream
                    .read_buf(&mut self.received)
                    .await
                    .expect("an answer");
                assert!(
                    read > 0,
                    "the connection ended: {:?}",
                    String::from_utf8_lossy(&self.received)
                );
            }
        };
        tokio::time::timeout(SAFETY_TIMEOUT, reading)
            .await
            .expect("an answer in time")
    }

    fn whole_answer(&mut self) -> Option<Answer> {
        let answer = parse(&self.received)?;
        let length: usize = answer
            .header("content-length")
            .expect("an answer with a length")
            .parse()
            .unwrap();
        let end = self.received.len() - answer.body.len() + length;
        if answer.body.len() < length {
            return None;
        }
        self.received.drain(..end);
        Some(Answer {
            body: answer.body[..length].to_vec(),
            ..answer
        })
    }

    /// The server closes in good order.
    pub async fn ended(mut self) {
        let reading = self.stream.read_buf(&mut self.received);
        let read = tokio::time::timeout(SAFETY_TIMEOUT, reading)
            .await
            .expect("an end in time");
        assert_eq!(read.expect("no reset"), 0);
    }
}

pub fn authority(server: &TestServer) -> &str {
    server.url.strip_prefix("http://").unwrap()
}

/// Sends these bytes and reads until the server closes.
pub async fn exchange(server: &TestServer, bytes: impl Into<Bytes>) -> Result<Answer, String> {
    let stream = TcpStream::connect(authority(server))
        .await
        .map_err(|error| error.to_string())?;
    let (mut from, mut to) = stream.into_split();
    let bytes = bytes.into();
    // A server that has heard enough answers and closes while we still write.
    let writing = tokio::spawn(async move { to.write_all(&bytes).await.map(|()| to) });
    let mut received = Vec::new();
    let reading = tokio::time::timeout(SAFETY_TIMEOUT, read_all(&mut from, &mut received)).await;
    writing.abort();
    let answer = parse(&received);
    match (reading, answer) {
        (Ok(_), Some(answer)) => Ok(answer),
        (Err(_), _) => Err(format!(
            "no end of the answer in time, got {:?}",
            String::from_utf8_lossy(&received)
        )),
        (Ok(read), None) => Err(format!(
            "no answer ({read:?}), got {:?}",
            String::from_utf8_lossy(&received)
        )),
    }
}

async fn read_all(
    from: &mut (impl AsyncReadExt + Unpin),
    received: &mut Vec<u8>,
) -> std::io::Result<()> {
    while from.read_buf(received).await? > 0 {}
    Ok(())
}

fn parse(received: &[u8]) -> Option<Answer> {
    let end = received
        .windows(4)
        .position(|window| window == b"\r\n\r\n")?;
    let head = String::from_utf8_lossy(&received[..end]).into_owned();
    let mut lines = head.split("\r\n");
    let status = lines.next()?.split(' ').nth(1)?.parse().ok()?;
    let headers: Vec<(String, String)> = lines
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name.trim().to_lowercase(), value.trim().to_owned()))
        .collect();
    let body = received[end + 4..].to_vec();
    let chunked = headers
        .iter()
        .any(|(name, value)| name == "transfer-encoding" && value == "chunked");
    let answer = Answer {
        status,
        headers,
        body: if chunked { joined(&body)? } else { body },
    };
    // Nobody else's page may read an answer, whatever was asked.
    assert!(
        !answer
            .headers
            .iter()
            .any(|(name, _)| name.starts_with("access-control-")),
        "{:?}",
        answer.headers
    );
    Some(answer)
}

fn joined(mut chunks: &[u8]) -> Option<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let line = chunks.windows(2).position(|window| window == b"\r\n")?;
        let size = usize::from_str_radix(std::str::from_utf8(&chunks[..line]).ok()?, 16).ok()?;
        if size == 0 {
            return Some(body);
        }
        let start = line + 2;
        body.extend_from_slice(chunks.get(start..start + size)?);
        chunks = chunks.get(start + size + 2..)?;
    }
}
