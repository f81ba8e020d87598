//! Two servers in one process, with real connections and a scripted decision about who owns what.

mod access;
mod answers;
mod faults;
mod subjects;

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::extract::Request;
use axum::middleware;
use codelab_llm::Secret;
use codelab_protocol::{Digest, ProjectId, SessionId, UserId};
use codelab_runtime::{Claim, Destination, Metrics, OwnedThing, Peer, RouteError};
use codelab_store::StoreError;
use codelab_transport::NetworkOptions;
use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::{
    ForwardLimits, Forwarder, Forwarding, Routing, entrance, forward, refuse_while_paused,
};
use crate::buffers::Buffers;
use crate::error::ApiError;
use crate::listen;
use crate::users::User;

const INTERNAL_KEY: &str = "the internal key of this installation";
/// The state of an authorization that somebody has begun.
const KNOWN_STATE: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
const BODY_BYTES: usize = 16 << 20;
const MIB: usize = 1 << 20;
/// A test that waits for so long has failed.
const LIMIT: Duration = Duration::from_secs(20);
/// Long enough for a busy machine; tests that wait for the limit itself set a shorter one.
const PATIENT: ForwardLimits = ForwardLimits {
    acknowledge_within: LIMIT,
    check_owner_every: LIMIT,
    max_claim_hold: LIMIT,
    stop_grace: LIMIT,
};
/// The project of the session `known`.
const FIRST_PROJECT: i64 = 7;
/// Who asks. The number of this user's default project is the same.
const USER: i64 = 5;

/// What the script says to one question.
#[derive(Clone)]
enum Says {
    Here,
    There(String),
    Fails(RouteError),
    /// No answer ever comes.
    Nothing,
}

/// Decides as a test wants it: the n-th question gets the n-th answer, later ones the last.
#[derive(Clone)]
struct Script(Arc<ScriptState>);

struct ScriptState {
    routes: Vec<Says>,
    accepts: Vec<Says>,
    routed: Mutex<Vec<OwnedThing>>,
    accepted: Mutex<Vec<OwnedThing>>,
    forgotten: AtomicUsize,
    is_paused: AtomicBool,
    is_living: AtomicBool,
}

impl Script {
    fn new(routes: impl Into<Vec<Says>>, accepts: impl Into<Vec<Says>>) -> Self {
        Self(Arc::new(ScriptState {
            routes: routes.into(),
            accepts: accepts.into(),
            routed: Mutex::default(),
            accepted: Mutex::default(),
            forgotten: AtomicUsize::new(0),
            is_paused: AtomicBool::new(false),
            is_living: AtomicBool::new(true),
        }))
    }

    /// The server that a request reaches first.
    fn first(routes: impl Into<Vec<Says>>) -> Self {
        Self::new(routes, [Says::Fails(RouteError::Stopping)])
    }

    /// The server that owns everything. It never asks who the owner is.
    fn owner() -> Self {
        Self::new([Says::Fails(RouteError::Stopping)], [Says::Here])
    }

    fn routed(&self) -> Vec<OwnedThing> {
        self.0.routed.lock().unwrap().clone()
    }

    fn accepted(&self) -> Vec<OwnedThing> {
        self.0.accepted.lock().unwrap().clone()
    }

    fn forgotten(&self) -> usize {
        self.0.forgotten.load(Ordering::SeqCst)
    }
}

fn next(answers: &[Says], asked: &Mutex<Vec<OwnedThing>>, thing: &OwnedThing) -> Says {
    let mut asked = asked.lock().unwrap();
    asked.push(thing.clone());
    answers[(asked.len() - 1).min(answers.len() - 1)].clone()
}

impl Routing for Script {
    fn is_alone(&self) -> bool {
        false
    }

    fn is_paused(&self) -> bool {
        self.0.is_paused.load(Ordering::SeqCst)
    }

    fn is_living(&self, _: &str) -> bool {
        self.0.is_living.load(Ordering::SeqCst)
    }

    async fn route(&self, thing: &OwnedThing) -> Result<Destination, RouteError> {
        match next(&self.0.routes, &self.0.routed, thing) {
            Says::Here => Ok(Destination::Here(Claim::free())),
            Says::There(address) => {
                let (server_id, address) = (Arc::from("peer"), Arc::from(address));
                let peer = Peer { server_id, address };
                Ok(Destination::There { peer, epoch: 3 })
            }
            Says::Fails(error) => Err(error),
            Says::Nothing => std::future::pending().await,
        }
    }

    async fn accept_forwarded(&self, thing: &OwnedThing) -> Result<Claim, RouteError> {
        match next(&self.0.accepts, &self.0.accepted, thing) {
            Says::Here => Ok(Claim::free()),
            Says::Fails(error) => Err(error),
            Says::There(_) => panic!("an owner accepts or refuses"),
            Says::Nothing => std::future::pending().await,
        }
    }

    fn forget_route(&self, _: &OwnedThing) {
        self.0.forgotten.fetch_add(1, Ordering::SeqCst);
    }

    async fn project_of_session(
        &self,
        session: &SessionId,
    ) -> Result<Option<ProjectId>, StoreError> {
        let known = session.as_str() == "known";
        Ok(ProjectId::new(FIRST_PROJECT).filter(|_| known))
    }

    async fn project_of_state(&self, hash: &Digest) -> Result<Option<ProjectId>, StoreError> {
        let known = *hash == Digest::of_bytes(KNOWN_STATE.as_bytes());
        Ok(ProjectId::new(FIRST_PROJECT).filter(|_| known))
    }

    async fn default_project(&self, user: UserId) -> Result<ProjectId, ApiError> {
        ProjectId::new(user.get()).ok_or_else(|| panic!("a user's number is positive"))
    }
}

/// One server of the installation.
struct Node {
    url: String,
    script: Script,
    metrics: Arc<Metrics>,
    stop: CancellationToken,
    _stops: DropGuard,
}

impl Node {
    async fn start(script: Script, routes: Router) -> Self {
        let network = NetworkOptions::default();
        Self::start_with(script, routes, INTERNAL_KEY, &network, PATIENT).await
    }

    async fn start_with(
        script: Script,
        routes: Router,
        key: &str,
        network: &NetworkOptions,
        limits: ForwardLimits,
    ) -> Self {
        let listener = listen::bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (metrics, stop) = (Metrics::new(), CancellationToken::new());
        let memory = (Buffers::new(BODY_BYTES), BODY_BYTES);
        let forwarder = Forwarder::new(
            &Secret::new(key),
            network,
            memory,
            Arc::clone(&metrics),
            limits,
            stop.clone(),
        );
        let forwarding = Forwarding {
            routing: script.clone(),
            forwarder,
        };
        let to_owner = middleware::from_fn_with_state(forwarding.clone(), forward::<Script>);
        let paused = middleware::from_fn_with_state(script.clone(), refuse_while_paused::<Script>);
        let inner = routes.route_layer(to_owner).layer(paused);
        let router = Router::new().fallback(move |mut request: Request| {
            request.extensions_mut().insert(User::of_test(USER));
            entrance(forwarding.clone(), inner.clone(), request)
        });
        let deadlines = listen::ConnectionDeadlines {
            write_timeout: LIMIT,
            grace: Duration::ZERO,
        };
        let stopped = stop.clone().cancelled_owned();
        let serving = listen::serve(listener, router, deadlines, Arc::clone(&metrics), stopped);
        tokio::spawn(serving);
        Self {
            url,
            script,
            metrics,
            stop: stop.clone(),
            _stops: stop.drop_guard(),
        }
    }

    fn url(&self, path: &str) -> String {
        format!("{}{path}", self.url)
    }

    /// How many forwards ended so.
    fn forwards(&self, outcome: &str) -> u64 {
        let label = codelab_runtime::TurnOutcome {
            outcome: outcome.to_owned(),
        };
        self.metrics.cluster_forwards.get_or_create(&label).get()
    }
}

/// A first server and the owner of everything, with the same routes.
async fn pair(routes: Router) -> (Node, Node) {
    let owner = Node::start(Script::owner(), routes.clone()).await;
    let script = Script::first([Says::There(owner.url.clone())]);
    let first = Node::start(script, routes).await;
    (first, owner)
}

/// A server that is written out by hand: it reads the head of a request, says `words`, and then
/// closes the connection or stays silent.
async fn raw_owner(words: &'static str, stays: bool) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        let mut open = Vec::new();
        while let Ok((mut stream, _)) = listener.accept().await {
            read_head(&mut stream).await;
            stream.write_all(words.as_bytes()).await.unwrap();
            if stays {
                open.push(stream);
            }
        }
    });
    address
}

async fn read_head(stream: &mut TcpStream) -> String {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.unwrap());
    }
    String::from_utf8(head).unwrap()
}

async fn within<T>(work: impl Future<Output = T>) -> T {
    tokio::time::timeout(LIMIT, work).await.expect("in time")
}

/// Status, `Retry-After` and error code of an answer.
async fn refusal(answer: reqwest::Response) -> (u16, Option<String>, String, String) {
    let status = answer.status().as_u16();
    let retry = answer.headers().get("retry-after");
    let retry = retry.map(|value| value.to_str().unwrap().to_owned());
    let body: Value = answer.json().await.unwrap();
    let text = |key: &str| body[key].as_str().unwrap_or_default().to_owned();
    (status, retry, text("error_code"), text("detail"))
}

async fn assert_unreachable(answer: reqwest::Response, what: &str) {
    let (status, retry, code, _) = refusal(answer).await;
    let told = (status, retry.as_deref(), code.as_str());
    assert_eq!(told, (503, Some("1"), "OWNER_UNREACHABLE"), "{what}");
}
