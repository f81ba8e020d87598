//! The HTTP side: accepts requests, records them, performs the scripts.

use std::collections::{BTreeMap, VecDeque};
use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinSet};

use crate::gate::wait_for;
use crate::reply::Reply;
use crate::script::{Form, ReplyScript, ScriptAnswer, ScriptStep};
use crate::wire::Wire;

/// A test that waits longer than this for a request has failed.
const SAFETY_TIMEOUT: Duration = Duration::from_secs(30);
/// A load run keeps only the newest requests.
const MAX_RECORDED_REQUESTS: usize = 10_000;

type Body = UnsyncBoxBody<Bytes, io::Error>;
type Matcher = Box<dyn Fn(&Value) -> bool + Send + Sync>;

/// A model server on a free loopback port. Dropping it closes the port and every connection.
pub struct FakeModel {
    address: SocketAddr,
    shared: Arc<Shared>,
    serving: AbortHandle,
}

/// What a caller asked the model.
#[derive(Debug, Clone)]
pub struct RecordedRequest {
    pub wire: Wire,
    /// Names in lower case.
    pub headers: BTreeMap<String, String>,
    pub body: Value,
}

impl RecordedRequest {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(String::as_str)
    }

    /// The content of the message at this index; a negative index counts from the end.
    pub fn message(&self, index: isize) -> &Value {
        let messages = self.body["messages"]
            .as_array()
            .map_or(&[][..], Vec::as_slice);
        let place = if index < 0 {
            messages.len().checked_add_signed(index)
        } else {
            usize::try_from(index).ok()
        };
        place
            .and_then(|place| messages.get(place))
            .map_or(&Value::Null, |message| &message["content"])
    }
}

struct Shared {
    state: Mutex<State>,
    /// Requests accepted so far.
    taken: watch::Sender<usize>,
    /// Accepted requests whose answer has not ended and whose caller is still connected.
    in_flight: watch::Sender<usize>,
    /// The largest number of answers that were in progress at once.
    peak_in_flight: AtomicUsize,
    connections: AtomicUsize,
}

#[derive(Default)]
struct State {
    rules: Vec<(Matcher, Arc<ReplyScript>)>,
    queue: VecDeque<Arc<ReplyScript>>,
    fallback: Option<Arc<ReplyScript>>,
    requests: VecDeque<RecordedRequest>,
    offered: Vec<String>,
}

impl FakeModel {
    /// # Panics
    /// When no loopback port is free.
    pub async fn start() -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0))
            .await
            .expect("a free loopback port");
        let address = listener
            .local_addr()
            .expect("a bound socket has an address");
        let shared = Arc::new(Shared {
            state: Mutex::default(),
            taken: watch::Sender::new(0),
            in_flight: watch::Sender::new(0),
            peak_in_flight: AtomicUsize::new(0),
            connections: AtomicUsize::new(0),
        });
        let serving = tokio::spawn(serve(listener, shared.clone())).abort_handle();
        Self {
            address,
            shared,
            serving,
        }
    }

    /// The base address, without `/v1`.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Adds a reply to the script. Each request that no rule matches gets the next reply.
    pub fn reply(&self, reply: Reply) {
        self.state()
            .queue
            .push_back(Arc::new(ReplyScript::of(&reply)));
    }

    /// Every request that the matcher accepts gets this reply, before the script is used. The
    /// newest rule wins.
    pub fn on(&self, matcher: impl Fn(&Value) -> bool + Send + Sync + 'static, reply: Reply) {
        self.state()
            .rules
            .insert(0, (Box::new(matcher), Arc::new(ReplyScript::of(&reply))));
    }

    /// Classification requests are answered with this agent.
    pub fn route_to(&self, agent: &str) {
        let verdict = json!({"agent": agent, "confidence": "high", "reason": "scripted"});
        self.on(crate::is_classification, Reply::text(verdict.to_string()));
    }

    /// The models that `GET /v1/models` lists.
    pub fn offer(&self, models: &[&str]) {
        self.state().offered = models.iter().map(|model| (*model).to_owned()).collect();
    }

    /// Answers every request that neither a rule nor the script answers.
    pub fn default_reply(&self, reply: Reply) {
        self.state().fallback = Some(Arc::new(ReplyScript::of(&reply)));
    }

    /// The requests so far, oldest first (the newest 10,000).
    pub fn requests(&self) -> Vec<RecordedRequest> {
        self.state().requests.iter().cloned().collect()
    }

    /// Forgets every rule, the script and the recorded requests. Answers in progress go on.
    pub fn reset(&self) {
        *self.state() = State::default();
    }

    /// The largest number of answers that were in progress at once.
    pub fn peak_in_flight(&self) -> usize {
        self.shared.peak_in_flight.load(Ordering::Relaxed)
    }

    /// How many connections were ever accepted.
    pub fn connection_count(&self) -> usize {
        self.shared.connections.load(Ordering::Relaxed)
    }

    /// How many requests were ever accepted.
    pub fn request_count(&self) -> usize {
        *self.shared.taken.borrow()
    }

    /// Waits until `n` requests were accepted in total.
    ///
    /// # Panics
    /// When they do not come within the safety timeout.
    pub async fn wait_for_requests(&self, n: usize) -> Vec<RecordedRequest> {
        let waiting = wait_for(&self.shared.taken, |taken| *taken >= n);
        if tokio::time::timeout(SAFETY_TIMEOUT, waiting).await.is_err() {
            panic!(
                "waited for {n} model requests, got {}: {:#?}",
                self.request_count(),
                self.requests()
            );
        }
        self.requests()
    }

    /// Waits until exactly `n` answers are in progress. If that is 0 after a caller disconnected,
    /// its call was aborted.
    ///
    /// # Panics
    /// When that does not happen within the safety timeout.
    pub async fn wait_until_in_flight(&self, n: usize) {
        let waiting = wait_for(&self.shared.in_flight, |count| *count == n);
        if tokio::time::timeout(SAFETY_TIMEOUT, waiting).await.is_err() {
            panic!(
                "waited for {n} answers under way, there are {}",
                *self.shared.in_flight.borrow()
            );
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.shared.state()
    }
}

impl Drop for FakeModel {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records the request and returns the script that answers it.
    fn take(&self, request: RecordedRequest) -> Option<Arc<ReplyScript>> {
        let mut state = self.state();
        let rule = state
            .rules
            .iter()
            .find(|(matches, _)| matches(&request.body))
            .map(|(_, script)| script.clone());
        let script = rule
            .or_else(|| state.queue.pop_front())
            .or_else(|| state.fallback.clone());
        if state.requests.len() == MAX_RECORDED_REQUESTS {
            state.requests.pop_front();
        }
        state.requests.push_back(request);
        drop(state);
        self.taken.send_modify(|taken| *taken += 1);
        script
    }
}

/// Connections are in the set, so that aborting this task ends all of them.
async fn serve(listener: TcpListener, shared: Arc<Shared>) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                if let Ok((socket, _)) = accepted {
                    shared.connections.fetch_add(1, Ordering::Relaxed);
                    connections.spawn(serve_connection(socket, shared.clone()));
                }
            }
            Some(_) = connections.join_next() => {}
        }
    }
}

async fn serve_connection(socket: TcpStream, shared: Arc<Shared>) {
    // Without it a delta waits for the acknowledgement of the one before.
    let _best_effort = socket.set_nodelay(true);
    let service = service_fn(move |request| answer(request, shared.clone()));
    let _ended = hyper::server::conn::http1::Builder::new()
        .serve_connection(TokioIo::new(socket), service)
        .await;
}

/// Counts an answer from its request until its last byte, or until the caller disconnects.
struct UnderWay(Arc<Shared>);

impl UnderWay {
    fn new(shared: Arc<Shared>) -> Self {
        shared.in_flight.send_modify(|count| {
            *count += 1;
            shared.peak_in_flight.fetch_max(*count, Ordering::Relaxed);
        });
        Self(shared)
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.0.in_flight.send_modify(|count| *count -= 1);
    }
}

async fn answer(
    request: Request<Incoming>,
    shared: Arc<Shared>,
) -> Result<Response<Body>, Infallible> {
    let wire = match (request.method(), request.uri().path()) {
        (&Method::GET, "/v1/models") => {
            let is_anthropic = request.headers().contains_key("anthropic-version");
            return Ok(models(&shared.state().offered, is_anthropic));
        }
        (&Method::POST, path) => Wire::of_path(path),
        _ => None,
    };
    let Some(wire) = wire else {
        return Ok(plain(
            StatusCode::NOT_FOUND,
            "the fake model serves POST /v1/chat/completions, POST /v1/messages and GET /v1/models",
        ));
    };
    let headers = request
        .headers()
        .iter()
        .map(|(name, value)| {
            (
                name.as_str().to_owned(),
                String::from_utf8_lossy(value.as_bytes()).into_owned(),
            )
        })
        .collect();
    let Ok(body) = request.into_body().collect().await else {
        return Ok(plain(StatusCode::BAD_REQUEST, "the request body was cut"));
    };
    let Ok(body) = serde_json::from_slice::<Value>(&body.to_bytes()) else {
        return Ok(plain(
            StatusCode::BAD_REQUEST,
            "the request body is not JSON",
        ));
    };
    let under_way = UnderWay::new(shared.clone());
    let form = Form {
        wire,
        streamed: body["stream"] == true,
    };
    let request = RecordedRequest {
        wire,
        headers,
        body,
    };
    let Some(script) = shared.take(request) else {
        return Ok(plain(
            StatusCode::INTERNAL_SERVER_ERROR,
            "script exhausted: no reply is left for this request",
        ));
    };
    if let Some(gate) = &script.hold {
        gate.pass().await;
    }
    Ok(perform(script.answer(form), under_way).await)
}

async fn perform(answer: &ScriptAnswer, under_way: UnderWay) -> Response<Body> {
    let (code, headers, steps) = match answer {
        ScriptAnswer::Http {
            code,
            headers,
            steps,
        } => (code, headers, steps),
        ScriptAnswer::Never => return std::future::pending().await,
        ScriptAnswer::EndsTooSoon => {
            return plain(
                StatusCode::INTERNAL_SERVER_ERROR,
                "the reply ends before the point where it should be interrupted",
            );
        }
    };
    let mut response = Response::builder().status(*code);
    for (name, value) in headers {
        response = response.header(name, value);
    }
    let pending: VecDeque<ScriptStep> = steps.iter().cloned().collect();
    let frames = stream::unfold((pending, under_way), |(mut steps, under_way)| async move {
        let item = next_frame(&mut steps).await?;
        Some((item, (steps, under_way)))
    });
    response
        .body(BodyExt::boxed_unsync(StreamBody::new(frames)))
        .expect("scripted status and headers are valid")
}

/// Performs steps up to the next one that sends something. An error makes hyper close the
/// connection.
async fn next_frame(steps: &mut VecDeque<ScriptStep>) -> Option<io::Result<Frame<Bytes>>> {
    loop {
        match steps.pop_front()? {
            ScriptStep::Send(bytes) => return Some(Ok(Frame::data(bytes))),
            ScriptStep::Pause(duration) => tokio::time::sleep(duration).await,
            ScriptStep::Pass(gate) => gate.pass().await,
            ScriptStep::Silence => return std::future::pending().await,
            // hyper may still hold the last piece; one turn of the scheduler lets it reach the
            // caller first.
            ScriptStep::Cut => {
                tokio::task::yield_now().await;
                return Some(Err(io::Error::other("scripted cut")));
            }
            ScriptStep::Dribble(every) => {
                tokio::time::sleep(every).await;
                steps.push_front(ScriptStep::Dribble(every));
                return Some(Ok(Frame::data(Bytes::from_static(b":"))));
            }
        }
    }
}

fn models(offered: &[String], is_anthropic: bool) -> Response<Body> {
    let entry = |id: &String| {
        if is_anthropic {
            json!({"type": "model", "id": id, "display_name": id,
                "created_at": "2025-01-01T00:00:00Z"})
        } else {
            json!({"id": id, "object": "model", "created": 1, "owned_by": "fake"})
        }
    };
    let data: Vec<Value> = offered.iter().map(entry).collect();
    let body = if is_anthropic {
        json!({"data": data, "has_more": false, "first_id": offered.first(),
            "last_id": offered.last()})
    } else {
        json!({"object": "list", "data": data})
    };
    json_answer(StatusCode::OK, &body)
}

fn plain(status: StatusCode, message: &str) -> Response<Body> {
    json_answer(status, &json!({"error": {"message": message}}))
}

fn json_answer(status: StatusCode, body: &Value) -> Response<Body> {
    let body = Full::new(Bytes::from(body.to_string()))
        .map_err(|never: Infallible| match never {})
        .boxed_unsync();
    let mut response = Response::new(body);
    *response.status_mut() = status;
    let json = HeaderValue::from_static("application/json");
    response.headers_mut().insert(CONTENT_TYPE, json);
    response
}
