//! JSON-RPC, one message a line, on a server's standard input and output. The reader has the limit
//! on a message itself.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use rmcp::RoleClient;
use rmcp::model::{
    ClientJsonRpcMessage, ClientRequest, ErrorData, JsonRpcMessage, RequestId, ServerJsonRpcMessage,
};
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::{ChildStdin, ChildStdout};
use tokio::sync::Mutex;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::failure::LastWords;
use crate::values;

const READ_BYTES: usize = 64 * 1024;
/// A buffer that grew beyond this is given back after its message.
const KEPT_BYTES: usize = 256 * 1024;
/// Lines in a row that are no messages. Some programs greet on their standard output.
const MAX_FOREIGN_LINES: usize = 1_000;
/// Servers of older protocols may say nothing at all to the question which versions they know.
const DISCOVER_PATIENCE: Duration = Duration::from_secs(5);

/// The two ends of a server's pipes.
pub struct LineTransport {
    output: ChildStdout,
    input: Arc<Mutex<Option<ChildStdin>>>,
    /// Bytes that were read and not looked at yet, and how many of them hold no line end.
    buffer: Vec<u8>,
    searched: usize,
    max_message_bytes: usize,
    foreign_lines: usize,
    discover: Option<(RequestId, Instant)>,
    given_up: Option<RequestId>,
    closing: CancellationToken,
    last_words: Arc<LastWords>,
}

impl LineTransport {
    pub fn new(
        input: Arc<Mutex<Option<ChildStdin>>>,
        output: ChildStdout,
        max_message_bytes: usize,
        closing: CancellationToken,
        last_words: Arc<LastWords>,
    ) -> Self {
        Self {
            output,
            input,
            buffer: Vec::new(),
            searched: 0,
            max_message_bytes,
            foreign_lines: 0,
            discover: None,
            given_up: None,
            closing,
            last_words,
        }
    }

    /// The next whole line, without its end. Dropping the future loses nothing.
    async fn line(&mut self) -> Option<Vec<u8>> {
        loop {
            let fresh = &self.buffer[self.searched..];
            if let Some(found) = fresh.iter().position(|byte| *byte == b'\n') {
                let end = self.searched + found;
                self.searched = 0;
                let rest = self.buffer.split_off(end + 1);
                let mut line = std::mem::replace(&mut self.buffer, rest);
                line.truncate(end);
                if let Some(fault) = values::fault(&line) {
                    self.last_words.blame(fault);
                    return None;
                }
                return Some(line);
            }
            self.searched = self.buffer.len();
            if self.buffer.len() > self.max_message_bytes {
                let max = self.max_message_bytes;
                self.last_words
                    .blame(format!("it sent a message of more than {max} bytes"));
                self.buffer = Vec::new();
                self.searched = 0;
                return None;
            }
            if self.buffer.is_empty() && self.buffer.capacity() > KEPT_BYTES {
                self.buffer = Vec::new();
            }
            self.buffer.reserve(READ_BYTES);
            match self.output.read_buf(&mut self.buffer).await {
                Ok(0) => return None,
                Ok(_) => {}
                Err(error) => {
                    self.last_words.blame(format!("its output broke: {error}"));
                    return None;
                }
            }
        }
    }

    /// The message of a line; `None` if it is none, or an answer that nobody waits for.
    fn message(&mut self, line: &[u8]) -> Option<ServerJsonRpcMessage> {
        let Ok(message) = serde_json::from_slice::<ServerJsonRpcMessage>(line.trim_ascii()) else {
            self.foreign_lines += 1;
            return None;
        };
        self.foreign_lines = 0;
        let id = match &message {
            JsonRpcMessage::Response(response) => Some(&response.id),
            JsonRpcMessage::Error(error) => error.id.as_ref(),
            JsonRpcMessage::Request(_) | JsonRpcMessage::Notification(_) => None,
        };
        if id.is_some() && id == self.given_up.as_ref() {
            return None;
        }
        if id.is_some() && id == self.discover.as_ref().map(|(id, _)| id) {
            self.discover = None;
        }
        Some(message)
    }

    /// A server that says nothing about versions is taken for an older one.
    fn give_up_discovery(&mut self) -> Option<ServerJsonRpcMessage> {
        let (id, _) = self.discover.take()?;
        self.given_up = Some(id.clone());
        let error = ErrorData::method_not_found::<rmcp::model::DiscoverRequestMethod>();
        Some(ServerJsonRpcMessage::error(error, Some(id)))
    }
}

impl Transport<RoleClient> for LineTransport {
    type Error = io::Error;

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = io::Result<()>> + Send + 'static {
        if let ClientJsonRpcMessage::Request(request) = &item
            && matches!(request.request, ClientRequest::DiscoverRequest(_))
        {
            let patient_until = Instant::now() + DISCOVER_PATIENCE;
            self.discover = Some((request.id.clone(), patient_until));
        }
        let input = self.input.clone();
        let closing = self.closing.clone();
        async move {
            let mut line = serde_json::to_vec(&item).map_err(io::Error::other)?;
            line.push(b'\n');
            let closed = || io::Error::new(io::ErrorKind::NotConnected, "the server is stopped");
            let write = async {
                let mut input = input.lock().await;
                let input = input.as_mut().ok_or_else(closed)?;
                input.write_all(&line).await?;
                input.flush().await
            };
            // A server that does not read cannot keep us from stopping it.
            tokio::select! {
                written = write => written,
                () = closing.cancelled() => Err(closed()),
            }
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        loop {
            if self.foreign_lines > MAX_FOREIGN_LINES {
                self.last_words
                    .blame("its standard output is not JSON-RPC, one message a line".to_owned());
                return None;
            }
            let patient_until = self.discover.as_ref().map(|(_, until)| *until);
            let closing = self.closing.clone();
            let line = tokio::select! {
                () = closing.cancelled() => return None,
                () = until(patient_until) => return self.give_up_discovery(),
                line = self.line() => line?,
            };
            if let Some(message) = self.message(&line) {
                return Some(message);
            }
        }
    }

    async fn close(&mut self) -> io::Result<()> {
        self.closing.cancel();
        drop(self.input.lock().await.take());
        Ok(())
    }
}

async fn until(instant: Option<Instant>) {
    match instant {
        Some(instant) => tokio::time::sleep_until(instant).await,
        None => std::future::pending().await,
    }
}
