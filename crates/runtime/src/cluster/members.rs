//! Joining the installation, keeping the lease, and ending servers whose lease has lapsed.

use std::sync::Arc;
use std::time::Duration;

use codelab_store::{NewServer, ServerRow, Store, StoreError};
use tokio::time::Instant;

use super::lease::LEASE;
use super::{ClusterOptions, Member, OwnedThing, Peer, ServerRun, lock};
use crate::ids::random_hex;
use crate::runtime::Inner;
use crate::timers::{log_failure, pause, resume_running};

/// How often the other servers are looked at.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// What was read longer ago says nothing about who is gone.
pub(super) const MAX_LOOK_AGE: Duration = Duration::from_secs(3);
const RENEW_EVERY: Duration = Duration::from_secs(3);
/// After a renewal that failed.
const RETRY_EVERY: Duration = Duration::from_millis(500);
/// How long a server that starts waits for the lease of one that died in its place.
const JOIN_WITHIN: Duration = Duration::from_secs(12);
const TRY_TO_JOIN_EVERY: Duration = Duration::from_millis(500);

/// Why a server cannot be part of the installation.
#[derive(Debug, thiserror::Error)]
pub enum JoinError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(
        "INTERNAL_API_KEY, JWT_SECRET and CODELAB_MASTER_KEY must be the same as those of the \
         servers that use this database, and one of them differs"
    )]
    OtherSecrets,
    #[error("cluster.address: another server that runs has the address {0}")]
    SameAddress(String),
    #[error(
        "another server uses this database; to run several as one installation, set \
         cluster.address on each of them"
    )]
    NotAlone,
}

/// Joins under a new name. Waits up to one lease for a server that died and is in the way.
pub(crate) async fn joined(
    store: &Store,
    options: &ClusterOptions,
    server_id: &str,
) -> Result<Instant, JoinError> {
    let give_up_at = Instant::now() + JOIN_WITHIN;
    loop {
        let asked_at = Instant::now();
        let server = NewServer {
            server_id,
            address: options.address.as_deref(),
            fingerprint: options.fingerprint.as_deref(),
            lease_ms: LEASE.as_millis() as u64,
        };
        match store.join(&server, None).await {
            Ok(()) => return Ok(asked_at),
            Err(StoreError::Conflict) => {}
            Err(error) => return Err(error.into()),
        }
        let why = why_not(store, options).await?;
        if matches!(why, JoinError::OtherSecrets) || Instant::now() >= give_up_at {
            return Err(why);
        }
        tokio::time::sleep(TRY_TO_JOIN_EVERY).await;
    }
}

async fn why_not(store: &Store, options: &ClusterOptions) -> Result<JoinError, StoreError> {
    let servers = store.servers(None).await?;
    let living = || servers.iter().filter(|server| !server.lapsed);
    let Some(address) = &options.address else {
        return Ok(JoinError::NotAlone);
    };
    if living().any(|server| server.address.is_none()) {
        return Ok(JoinError::NotAlone);
    }
    if living().any(|server| server.address.as_ref() == Some(address)) {
        return Ok(JoinError::SameAddress(address.clone()));
    }
    // Whoever was in the way has gone meanwhile, unless it is the fingerprint.
    let known = store.fingerprint().await?;
    Ok(match known == options.fingerprint {
        true => JoinError::SameAddress(address.clone()),
        false => JoinError::OtherSecrets,
    })
}

/// Keeps this server's lease until nothing more may be done: a server that stops still needs it for
/// what it finishes. Nothing else happens here, so that nothing delays a renewal.
pub(crate) async fn keep_lease(runtime: Arc<Inner>) {
    let mut wait = RENEW_EVERY;
    while halt(&runtime, wait).await {
        wait = renew(&runtime).await;
    }
}

/// Looks at the other servers, ends those whose lease has lapsed, and takes over turns that they left
/// running, until this server stops.
pub(crate) async fn watch_servers(runtime: Arc<Inner>) {
    loop {
        look(&runtime).await;
        if let Err(error) = resume_running(&runtime).await {
            log_failure(&error, "running sessions could not be read");
        }
        if !pause(&runtime, LOOK_EVERY).await {
            return;
        }
    }
}

/// Renews the lease; gives the time until the next renewal, which counts from when this one began.
async fn renew(runtime: &Arc<Inner>) -> Duration {
    let cluster = &runtime.cluster;
    let (asked_at, run) = (Instant::now(), cluster.run());
    let lease_ms = LEASE.as_millis() as u64;
    let renewed = runtime
        .store
        .renew_lease(&run.server_id, lease_ms, None)
        .await;
    match renewed {
        Ok(()) => {
            cluster.lease.renewed(asked_at);
            RENEW_EVERY.saturating_sub(asked_at.elapsed())
        }
        Err(StoreError::Conflict) => {
            begin_anew(runtime, &run).await;
            RENEW_EVERY
        }
        Err(error) => {
            cluster.lease.not_renewed();
            log_failure(&error, "the server's lease could not be renewed");
            RETRY_EVERY
        }
    }
}

/// Others have taken over. What this server held in memory is not its own any more: its readers
/// end, so that they resume elsewhere, and its model calls are dropped.
async fn begin_anew(runtime: &Arc<Inner>, run: &ServerRun) {
    tracing::warn!(server = %run.server_id, "other servers took over while this one was away, it joins again");
    runtime.metrics.cluster_lost_leases.inc();
    run.ended.cancel();
    let lost = runtime.cluster.held.owned();
    runtime.cluster.held.clear();
    tokio::spawn(forget_memories(Arc::clone(runtime), lost));
    runtime.registry.abandon();
    runtime.user_events.stop();
    runtime.spaces.clear();
    runtime.chat_lost();
    loop {
        let next = ServerRun::new(&next_name(&run.server_id));
        match joined(&runtime.store, &runtime.cluster.options, &next.server_id).await {
            Ok(asked_at) => {
                runtime.store.write_as(&next.server_id);
                *lock(&runtime.cluster.run) = next;
                return runtime.cluster.lease.begun(asked_at);
            }
            Err(JoinError::Store(error)) => log_failure(&error, "joining again failed"),
            Err(error) => tracing::error!(%error, "joining again failed"),
        }
        if !halt(runtime, RETRY_EVERY).await {
            return;
        }
    }
}

/// What is deleted by the new owners must not stay in this server's files.
async fn forget_memories(runtime: Arc<Inner>, lost: Vec<OwnedThing>) {
    for thing in lost {
        if let OwnedThing::Project(project) = thing {
            runtime.memories.leaves(project).await;
        }
    }
}

/// Begins with the name that the data folder knows. So the next process on that folder finds this
/// run and need not wait for its lease.
fn next_name(server_id: &str) -> String {
    let first = server_id.split('-').next().unwrap_or(server_id);
    format!("{first}-{}", random_hex(4))
}

/// Looks at the other servers, and ends those whose lease has lapsed.
async fn look(runtime: &Arc<Inner>) {
    if !runtime.store.is_shared() {
        return;
    }
    let servers = match runtime.store.servers(None).await {
        Ok(servers) => servers,
        Err(error) => return log_failure(&error, "the other servers could not be read"),
    };
    // The only server need not wait for anybody.
    let may_fence = !runtime.cluster.is_among() || runtime.cluster.lease.may_fence();
    for server in servers.iter().filter(|server| server.lapsed && may_fence) {
        fence(runtime, server).await;
    }
    let members = servers.into_iter().filter_map(|server| {
        let peer = Peer {
            server_id: server.server_id.into(),
            address: server.address?.into(),
        };
        let takes_work = !server.lapsed && !server.draining;
        Some(Member { peer, takes_work })
    });
    *lock(&runtime.cluster.members) = members.collect();
    *lock(&runtime.cluster.looked_at) = Instant::now();
}

/// False once nothing more may be done.
async fn halt(runtime: &Inner, time: Duration) -> bool {
    tokio::select! {
        () = tokio::time::sleep(time) => true,
        () = runtime.halted.cancelled() => false,
    }
}

async fn fence(runtime: &Inner, lapsed: &ServerRow) {
    let me = runtime.cluster.server_id();
    match runtime.store.fence(&me, lapsed, None).await {
        Ok(false) => {}
        Ok(true) => {
            tracing::warn!(server = %lapsed.server_id, "a server whose lease lapsed was ended");
        }
        Err(error) => log_failure(&error, "a server whose lease lapsed could not be ended"),
    }
}
