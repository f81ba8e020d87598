//! One kept-alive HTTP connection of the load generator, as cheap as a real client can be.

use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HOST, HeaderValue};
use hyper::{Method, Request, Response, body::Incoming};
use hyper_util::rt::TokioIo;
use memchr::memmem::find;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tokio::net::TcpStream;

/// An answer that takes longer than this fails the run.
const DEADLINE: Duration = Duration::from_secs(60);

/// The address, and the caller's credentials.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct LoadTarget {
    pub addr: String,
    pub access: LoadAccess,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum LoadAccess {
    Nobody,
    InternalKey(String),
    Token(String),
}

pub struct Wire {
    sender: SendRequest<Full<Bytes>>,
    target: LoadTarget,
    /// The body of the last answer. The buffer is used again for the next one.
    pub body: Vec<u8>,
}

/// When a streamed answer started, and when it ended.
pub struct Streamed {
    pub first: Duration,
    pub whole: Duration,
}

impl Wire {
    pub async fn open(target: &LoadTarget) -> anyhow::Result<Self> {
        let socket = TcpStream::connect(&target.addr)
            .await
            .with_context(|| target.addr.clone())?;
        socket.set_nodelay(true)?;
        let (sender, connection) = handshake(TokioIo::new(socket)).await?;
        tokio::spawn(connection);
        Ok(Self {
            sender,
            target: target.clone(),
            body: Vec::with_capacity(16 * 1024),
        })
    }

    /// Sends a request and reads to the end of the stream. The stream must contain `last`; `first`
    /// marks its first token.
    pub async fn stream(
        &mut self,
        path: &str,
        body: String,
        first: &[u8],
        last: &[u8],
    ) -> anyhow::Result<Streamed> {
        let began = Instant::now();
        let reading = async {
            let answer = self
                .send(Method::POST, path, body, "text/event-stream")
                .await?;
            let status = answer.status();
            let mut seen = None;
            self.body.clear();
            let mut frames = answer.into_body();
            while let Some(frame) = frames.frame().await {
                if let Ok(data) = frame?.into_data() {
                    self.body.extend_from_slice(&data);
                }
                if seen.is_none() && find(&self.body, first).is_some() {
                    seen = Some(began.elapsed());
                }
            }
            ensure!(
                status.is_success(),
                "{path} answers {status}: {}",
                self.text()
            );
            let whole = began.elapsed();
            if find(&self.body, last).is_none() {
                bail!(
                    "{path} ended without {}: {}",
                    String::from_utf8_lossy(last),
                    self.text()
                );
            }
            Ok(Streamed {
                first: seen.unwrap_or(whole),
                whole,
            })
        };
        tokio::time::timeout(DEADLINE, reading)
            .await
            .with_context(|| format!("{path} takes too long"))?
    }

    /// Sends a request and reads JSON.
    pub async fn json<T: DeserializeOwned>(
        &mut self,
        method: Method,
        path: &str,
        body: String,
    ) -> anyhow::Result<T> {
        let reading = async {
            let answer = self.send(method, path, body, "application/json").await?;
            let status = answer.status();
            let body = answer.into_body().collect().await?.to_bytes();
            ensure!(
                status.is_success(),
                "{path} answers {status}: {}",
                String::from_utf8_lossy(&body)
            );
            Ok(serde_json::from_slice(&body)?)
        };
        tokio::time::timeout(DEADLINE, reading)
            .await
            .with_context(|| format!("{path} takes too long"))?
    }

    /// A stream that is read as it arrives and does not end by itself.
    pub async fn follow(&mut self, path: &str) -> anyhow::Result<Incoming> {
        let answer = self
            .send(Method::GET, path, String::new(), "text/event-stream")
            .await?;
        ensure!(
            answer.status().is_success(),
            "{path} answers {}",
            answer.status()
        );
        Ok(answer.into_body())
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    async fn send(
        &mut self,
        method: Method,
        path: &str,
        body: String,
        accept: &'static str,
    ) -> anyhow::Result<Response<Incoming>> {
        let mut request = Request::new(Full::new(Bytes::from(body)));
        *request.method_mut() = method;
        *request.uri_mut() = path.parse()?;
        let headers = request.headers_mut();
        headers.insert(HOST, HeaderValue::from_str(&self.target.addr)?);
        headers.insert(ACCEPT, HeaderValue::from_static(accept));
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        match &self.target.access {
            LoadAccess::Nobody => {}
            LoadAccess::InternalKey(key) => {
                drop(headers.insert("x-internal-auth", HeaderValue::from_str(key)?))
            }
            LoadAccess::Token(token) => {
                headers.insert(
                    AUTHORIZATION,
                    HeaderValue::from_str(&format!("Bearer {token}"))?,
                );
            }
        }
        self.sender.ready().await?;
        Ok(self.sender.send_request(request).await?)
    }
}
