//! A model that costs almost no processor time. It speaks OpenAI's wire format, parses no JSON, and
//! sends answers that were made before the run.
//!
//! The message says what the model does, so one process serves every workload. `pace:FIRST:GAP`
//! waits FIRST ms before the first delta and GAP ms before each further one. `act:tool` asks for a
//! file until a result is there. A request for structured output gets a plan.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::{StreamExt as _, stream};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::header::CONTENT_TYPE;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use memchr::memmem::{find, rfind};
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};

/// The size of a turn's answer.
pub const DELTAS: usize = 20;
const DELTA: &str = "The quick brown ";
/// A plan of ten tasks in three layers. Each task depends on the whole layer before it.
const LAYERS: [usize; 3] = [4, 3, 3];
pub const TASKS: usize = LAYERS[0] + LAYERS[1] + LAYERS[2];

pub async fn serve(listener: TcpListener) -> anyhow::Result<()> {
    let replies = Arc::new(Replies::new());
    loop {
        let (socket, _) = listener.accept().await?;
        tokio::spawn(serve_connection(socket, replies.clone()));
    }
}

async fn serve_connection(socket: TcpStream, replies: Arc<Replies>) {
    let _best_effort = socket.set_nodelay(true);
    let service = service_fn(move |request| {
        let replies = replies.clone();
        async move { Ok::<_, Infallible>(answer(request, &replies).await) }
    });
    let _ended = hyper::server::conn::http1::Builder::new()
        .serve_connection(TokioIo::new(socket), service)
        .await;
}

type Body = UnsyncBoxBody<Bytes, Infallible>;

/// The frames of each kind of answer.
struct Replies {
    text: Arc<[Bytes]>,
    tool: Arc<[Bytes]>,
    plan: String,
}

impl Replies {
    fn new() -> Self {
        let text: Vec<Value> = (0..DELTAS).map(|_| json!({ "content": DELTA })).collect();
        let arguments = json!({ "path": "src/main.rs" }).to_string();
        let call = json!({ "index": 0, "id": "call_1", "type": "function",
            "function": { "name": "read_file", "arguments": arguments } });
        Self {
            text: frames(&text, "stop"),
            tool: frames(&[json!({ "tool_calls": [call] })], "tool_calls"),
            plan: plan().to_string(),
        }
    }

    fn choose(&self, body: &[u8]) -> Arc<[Bytes]> {
        if find(body, b"\"json_schema\"").is_some() {
            // The tasks have the same pace as the request that they belong to.
            let (first, gap) = pace(body);
            let plan = self.plan.replace("PACE", &format!("pace:{first}:{gap}"));
            return frames(&[json!({ "content": plan })], "stop");
        }
        if find(body, b"act:tool").is_some() && find(body, br#""role":"tool""#).is_none() {
            return self.tool.clone();
        }
        self.text.clone()
    }
}

async fn answer(request: Request<Incoming>, replies: &Replies) -> Response<Body> {
    let body = match request.into_body().collect().await {
        Ok(body) => body.to_bytes(),
        Err(_cut) => Bytes::new(),
    };
    let frames = replies.choose(&body);
    let (first, gap) = pace(&body);
    let body = if first == 0 && gap == 0 {
        let frames = (0..frames.len()).map(move |at| Ok(Frame::data(frames[at].clone())));
        StreamBody::new(stream::iter(frames)).boxed_unsync()
    } else {
        let paced = stream::iter(0..frames.len()).then(move |at| {
            let frame = frames[at].clone();
            async move {
                let wait_ms = if at == 0 { first } else { gap };
                if wait_ms > 0 {
                    tokio::time::sleep(Duration::from_millis(wait_ms)).await;
                }
                Ok(Frame::data(frame))
            }
        });
        StreamBody::new(paced).boxed_unsync()
    };
    let mut response = Response::new(body);
    response.headers_mut().insert(
        CONTENT_TYPE,
        hyper::header::HeaderValue::from_static("text/event-stream"),
    );
    response
}

/// The last `pace:FIRST:GAP` of a request, in milliseconds.
fn pace(body: &[u8]) -> (u64, u64) {
    let Some(at) = rfind(body, b"pace:") else {
        return (0, 0);
    };
    let mut numbers = body[at + b"pace:".len()..].splitn(3, |byte| !byte.is_ascii_digit());
    let mut next = || std::str::from_utf8(numbers.next()?).ok()?.parse().ok();
    (next().unwrap_or(0), next().unwrap_or(0))
}

fn frames(deltas: &[Value], finish: &str) -> Arc<[Bytes]> {
    let frame = |choices: Value, usage: Value| {
        let chunk = json!({ "id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "bench",
            "choices": choices, "usage": usage });
        Bytes::from(format!("data: {chunk}\n\n"))
    };
    let delta = |delta: &Value, finish: Value| json!([{ "index": 0, "delta": delta, "finish_reason": finish }]);
    let mut frames: Vec<Bytes> = deltas
        .iter()
        .map(|content| frame(delta(content, Value::Null), Value::Null))
        .collect();
    frames.push(frame(delta(&json!({}), json!(finish)), Value::Null));
    let usage =
        json!({ "prompt_tokens": 100, "completion_tokens": DELTAS, "total_tokens": 100 + DELTAS });
    frames.push(frame(json!([]), usage));
    frames.push(Bytes::from_static(b"data: [DONE]\n\n"));
    frames.into()
}

fn plan() -> Value {
    let mut tasks = Vec::new();
    let mut before: Vec<String> = Vec::new();
    for (layer, width) in LAYERS.into_iter().enumerate() {
        let ids: Vec<String> = (0..width).map(|at| format!("t{layer}_{at}")).collect();
        tasks.extend(ids.iter().map(|id| {
            json!({ "id": id, "agent": "wide", "description": "Look at this part. PACE", "depends_on": before,
                "estimated_tokens": 100 })
        }));
        before = ids;
    }
    json!({ "tasks": tasks })
}
