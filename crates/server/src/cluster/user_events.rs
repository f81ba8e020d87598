//! What other servers publish of a user's sessions, for the users who read here.
//!
//! For each user with a reader at this server, and each other living server, one internal stream is
//! open. It carries only references: an event is stored before it is published, so readers get its
//! content from the store. After every beginning and every end of such a stream the readers look in
//! the store for what they missed, so nothing is lost when a server or the network between two
//! fails.

use std::collections::HashMap;
use std::convert::Infallible;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use axum::body::Body;
use axum::http::{Method, Request, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use codelab_protocol::UserId;
use codelab_runtime::{EventReference, Peer, Runtime, UserEvents, UserReferences};
use codelab_store::SessionKey;
use codelab_transport::{
    BodyReader, HttpClient, HttpLimits, NetworkOptions, TransportConfigError, TransportError,
    within,
};
use futures_util::stream;
use http_body_util::Full;
use serde::{Deserialize, Serialize};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::key::ClusterKey;
use super::wire;

/// The user's number follows.
const PATH: &str = "/cluster/user-events/";

/// How often the living servers are looked up while somebody reads.
const LOOK_UP_EVERY: Duration = Duration::from_secs(1);
const HEARTBEAT_EVERY: Duration = Duration::from_secs(5);
/// Three heartbeats. It must be far less than the time window of a reader's cursor.
const SILENCE_LIMIT: Duration = Duration::from_secs(15);
const ANSWER_LIMIT: Duration = Duration::from_secs(5);
const FIRST_PAUSE: Duration = Duration::from_millis(250);
/// While a server cannot be reached, its events are found in the store this often.
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// A reference is two numbers.
const MAX_LINE_BYTES: usize = 256;
/// Addresses whose clients are kept.
const MAX_CLIENTS: usize = 64;
const LIMITS: HttpLimits = HttpLimits {
    connect_timeout: Duration::from_secs(2),
    idle_connections: 0,
    idle_connection_timeout: Duration::from_secs(1),
};

/// A line of an internal stream. An empty line is a heartbeat.
#[derive(Debug, Serialize, Deserialize)]
struct ReferenceLine {
    session: i64,
    seq: u64,
}

/// The streams to other servers, and from them.
#[derive(Clone)]
pub(crate) struct PeerEvents(Arc<PeerStreams>);

struct PeerStreams {
    key: Arc<ClusterKey>,
    network: NetworkOptions,
    events: Arc<UserEvents>,
    peers: Box<dyn Fn() -> Vec<Peer> + Send + Sync>,
    joined: Mutex<HashMap<UserId, Weak<JoinedPeers>>>,
    /// By address. Making one can mean reading the system's certificates.
    clients: Mutex<HashMap<Arc<str>, Arc<HttpClient>>>,
}

/// The streams of one user. All readers of that user at this server share them. They end with the
/// last one.
pub(crate) struct JoinedPeers {
    user: UserId,
    streams: Weak<PeerStreams>,
    _stop: DropGuard,
}

impl PeerEvents {
    /// Without a key this server is alone. `ca_file` says whom to trust besides the system's roots.
    pub fn of(
        runtime: &Runtime,
        ca_file: Option<PathBuf>,
        key: Option<Arc<ClusterKey>>,
    ) -> Option<Self> {
        // Servers reach each other directly, without proxies.
        let network = NetworkOptions {
            ca_file,
            ..NetworkOptions::default()
        };
        let (events, runtime) = (Arc::clone(runtime.all_user_events()), runtime.clone());
        Some(Self::new(key?, network, events, move || runtime.peers()))
    }

    /// `peers` gives the other living servers.
    fn new(
        key: Arc<ClusterKey>,
        network: NetworkOptions,
        events: Arc<UserEvents>,
        peers: impl Fn() -> Vec<Peer> + Send + Sync + 'static,
    ) -> Self {
        Self(Arc::new(PeerStreams {
            key,
            network,
            events,
            peers: Box::new(peers),
            joined: Mutex::default(),
            clients: Mutex::default(),
        }))
    }

    /// Opens the streams of a user, if they are not open.
    pub fn join(&self, user: UserId) -> Arc<JoinedPeers> {
        let mut joined = self.0.lock();
        if let Some(open) = joined.get(&user).and_then(Weak::upgrade) {
            return open;
        }
        let stop = CancellationToken::new();
        let follow = follow_peers(Arc::clone(&self.0), user);
        tokio::spawn(stop.clone().run_until_cancelled_owned(follow));
        let new = Arc::new(JoinedPeers {
            user,
            streams: Arc::downgrade(&self.0),
            _stop: stop.drop_guard(),
        });
        joined.insert(user, Arc::downgrade(&new));
        new
    }

    /// Answers another server with the references of a user's events here. `None` to everybody else:
    /// without the key, the route does not exist.
    pub fn answer(&self, request: &axum::extract::Request) -> Option<Response> {
        let user = UserId::parse(request.uri().path().strip_prefix(PATH)?)?;
        let is_ours = request.method() == Method::GET && self.0.key.is_in(request.headers());
        let references = is_ours.then(|| self.0.events.references(user))?;
        let headers = [
            (header::CONTENT_TYPE, "application/x-ndjson"),
            (header::CACHE_CONTROL, "no-store"),
        ];
        Some((headers, Body::from_stream(lines(references))).into_response())
    }
}

impl PeerStreams {
    fn lock(&self) -> MutexGuard<'_, HashMap<UserId, Weak<JoinedPeers>>> {
        self.joined.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn client(&self, peer: &Peer, uri: &Uri) -> Result<Arc<HttpClient>, TransportConfigError> {
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(client) = clients.get(&peer.address) {
            return Ok(Arc::clone(client));
        }
        if clients.len() >= MAX_CLIENTS {
            clients.clear();
        }
        let client = Arc::new(HttpClient::new(uri, &self.network, LIMITS)?);
        clients.insert(Arc::clone(&peer.address), Arc::clone(&client));
        Ok(client)
    }
}

impl Drop for JoinedPeers {
    fn drop(&mut self) {
        if let Some(streams) = self.streams.upgrade() {
            let mut joined = streams.lock();
            // Another one may have taken its place.
            if joined
                .get(&self.user)
                .is_some_and(|open| open.strong_count() == 0)
            {
                joined.remove(&self.user);
            }
        }
    }
}

fn lines(
    references: UserReferences,
) -> impl stream::Stream<Item = Result<Bytes, Infallible>> + Send {
    stream::unfold(references, |mut references| async move {
        let mut line = match tokio::time::timeout(HEARTBEAT_EVERY, references.next()).await {
            Ok(Some(EventReference { key, seq })) => {
                let session = key.get();
                serde_json::to_vec(&ReferenceLine { session, seq }).ok()?
            }
            Ok(None) => return None,
            Err(_) => Vec::new(),
        };
        line.push(b'\n');
        Some((Ok(Bytes::from(line)), references))
    })
}

/// Keeps a stream open to each living server.
async fn follow_peers(streams: Arc<PeerStreams>, user: UserId) {
    let mut followed: HashMap<Arc<str>, DropGuard> = HashMap::new();
    let mut every = tokio::time::interval(LOOK_UP_EVERY);
    loop {
        every.tick().await;
        let peers = (streams.peers)();
        let before = followed.len();
        followed.retain(|server, _| peers.iter().any(|peer| peer.server_id == *server));
        if followed.len() < before {
            // What it stored last. It can store nothing more.
            streams.events.missed(user);
        }
        for peer in peers {
            let server = Arc::clone(&peer.server_id);
            followed.entry(server).or_insert_with(|| {
                let stop = CancellationToken::new();
                let follow = follow_peer(Arc::clone(&streams), user, peer);
                tokio::spawn(stop.clone().run_until_cancelled_owned(follow));
                stop.drop_guard()
            });
        }
    }
}

async fn follow_peer(streams: Arc<PeerStreams>, user: UserId, peer: Peer) {
    let mut pause = FIRST_PAUSE;
    loop {
        let error = match read_peer(&streams, user, &peer, &mut pause).await {
            Ok(()) => "it ended the stream".to_owned(),
            Err(error) => error.to_string(),
        };
        let (server, address) = (&peer.server_id, &peer.address);
        tracing::debug!(%server, %address, error, "stream of another server's events was cut");
        streams.events.missed(user);
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

#[derive(Debug, thiserror::Error)]
enum PeerError {
    #[error("its address is not valid")]
    Address,
    #[error(transparent)]
    Config(#[from] TransportConfigError),
    #[error(transparent)]
    Transport(#[from] TransportError),
    #[error("it answered with status {0}")]
    Refused(StatusCode),
    #[error("it sent something else than references")]
    Unreadable,
}

/// One stream, until it ends. Puts the pause back to its beginning once the other server speaks.
async fn read_peer(
    streams: &PeerStreams,
    user: UserId,
    peer: &Peer,
    pause: &mut Duration,
) -> Result<(), PeerError> {
    let uri: Uri = format!("{}{PATH}{user}", peer.address)
        .parse()
        .map_err(|_| PeerError::Address)?;
    let client = streams.client(peer, &uri)?;
    let request = Request::get(uri)
        .header(wire::KEY, streams.key.header())
        .body(Full::default())
        .map_err(|_| PeerError::Address)?;
    let response = within(ANSWER_LIMIT, client.send(request)).await?;
    if response.status() != StatusCode::OK {
        return Err(PeerError::Refused(response.status()));
    }
    // It listens from now on. What happened before is in the store.
    streams.events.missed(user);
    let mut body = BodyReader::new(response.into_body(), SILENCE_LIMIT);
    let mut line = Vec::new();
    while let Some(piece) = body.next().await? {
        *pause = FIRST_PAUSE;
        let mut parts = piece.split(|byte| *byte == b'\n');
        line.extend_from_slice(parts.next().unwrap_or_default());
        for next in parts {
            if !line.is_empty() {
                let ReferenceLine { session, seq } =
                    serde_json::from_slice(&line).map_err(|_| PeerError::Unreadable)?;
                let key = SessionKey::from_raw(session);
                streams
                    .events
                    .publish_elsewhere(user, EventReference { key, seq });
            }
            line.clear();
            line.extend_from_slice(next);
        }
        if line.len() > MAX_LINE_BYTES {
            return Err(PeerError::Unreadable);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
