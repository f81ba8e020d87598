//! Several servers as one installation: a request goes to the server that owns what it is about.
//!
//! A request enters at any server. [`table`] says what each route is about, and [`Routing`] who owns
//! that. If it is another server, `forward` sends the request there and `receive` accepts it. The
//! owner acknowledges before it works on the request, so a call that waits for minutes is told
//! apart from an owner that is gone. A request is forwarded once and never further.
//!
//! What must never be here: who owns what, which the runtime decides.

mod answer;
mod forward;
mod gate;
mod key;
mod peers;
mod receive;
mod routing;
mod subject;
mod table;
#[cfg(test)]
mod tests;
pub(crate) mod user_events;
mod wire;

use std::net::IpAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use codelab_llm::Secret;
use codelab_protocol::Reminder;
use codelab_runtime::{Claim, Metrics, RouteError};
use codelab_transport::NetworkOptions;
use tokio_util::sync::CancellationToken;

pub(crate) use forward::forward;
pub(crate) use receive::entrance;
pub(crate) use routing::Routing;
pub(crate) use wire::FORWARD_HEADERS;

use self::key::ClusterKey;
use self::peers::PeerClients;
use crate::access::is_health;
use crate::buffers::Buffers;
use crate::error::ApiError;

/// From the first byte of a forwarded request until the owner acknowledges it, with the time to
/// connect.
const ACKNOWLEDGE_WITHIN: Duration = Duration::from_secs(5);
/// How often a silent owner is looked for among the living servers.
const CHECK_OWNER_EVERY: Duration = Duration::from_secs(3);
/// A claim is held while a request is being accepted. A call that waits longer, for a person, does
/// not keep what it is about from moving.
const MAX_CLAIM_HOLD: Duration = Duration::from_secs(5);
/// How long calls that wait for an owner may go on when this server stops. Event streams end at
/// once, because their readers resume at another server.
const STOP_GRACE: Duration = Duration::from_secs(8);

/// How long the parts of a forward may take.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ForwardLimits {
    pub acknowledge_within: Duration,
    pub check_owner_every: Duration,
    pub max_claim_hold: Duration,
    pub stop_grace: Duration,
}

impl Default for ForwardLimits {
    fn default() -> Self {
        Self {
            acknowledge_within: ACKNOWLEDGE_WITHIN,
            check_owner_every: CHECK_OWNER_EVERY,
            max_claim_hold: MAX_CLAIM_HOLD,
            stop_grace: STOP_GRACE,
        }
    }
}

/// What this server needs to speak with the others.
pub(crate) struct Forwarder {
    key: Arc<ClusterKey>,
    peers: PeerClients,
    buffers: Arc<Buffers>,
    body_bytes: usize,
    metrics: Arc<Metrics>,
    limits: ForwardLimits,
    /// This server stops.
    stop: CancellationToken,
    /// When it was last logged that an owner cannot be reached.
    unreachable: Mutex<Reminder>,
}

impl Forwarder {
    /// `network` says whom to trust. Its proxies are not used: servers reach each other directly.
    pub fn new(
        internal_api_key: &Secret,
        network: &NetworkOptions,
        (buffers, body_bytes): (Arc<Buffers>, usize),
        metrics: Arc<Metrics>,
        limits: ForwardLimits,
        stop: CancellationToken,
    ) -> Arc<Self> {
        Arc::new(Self {
            key: Arc::new(ClusterKey::derive(internal_api_key)),
            peers: PeerClients::new(network.ca_file.clone()),
            buffers,
            body_bytes,
            metrics,
            limits,
            stop,
            unreachable: Mutex::default(),
        })
    }

    /// What servers of the installation know each other by.
    pub fn key(&self) -> Arc<ClusterKey> {
        Arc::clone(&self.key)
    }

    /// Until this server has stopped for so long that waiting calls are given up.
    async fn stopped(&self) {
        self.stop.cancelled().await;
        tokio::time::sleep(self.limits.stop_grace).await;
    }

    /// Does the work that accepts a request. What it is about does not move meanwhile.
    async fn while_held<T>(&self, claim: Claim, work: impl Future<Output = T>) -> T {
        let mut work = std::pin::pin!(work);
        {
            let _held = claim;
            let held_for = self.limits.max_claim_hold;
            if let Ok(done) = tokio::time::timeout(held_for, work.as_mut()).await {
                return done;
            }
        }
        work.await
    }
}

/// The state of the layers: who decides, and the way to the others.
#[derive(Clone)]
pub(crate) struct Forwarding<R> {
    pub routing: R,
    pub forwarder: Arc<Forwarder>,
}

/// Another server of the installation forwarded this request. Only [`entrance`] makes one, after it
/// checked the key.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Forwarded {
    /// Where the request came from when it entered the installation.
    pub caller: Option<IpAddr>,
}

/// While the lease of this server has lapsed, it answers nothing but health checks.
pub(crate) async fn refuse_while_paused<R: Routing>(
    State(routing): State<R>,
    request: Request,
    next: Next,
) -> Response {
    if routing.is_paused() && !is_health(request.uri().path()) {
        return ApiError::from(RouteError::Paused).into_response();
    }
    next.run(request).await
}
