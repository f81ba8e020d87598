//! Looks in the store for what is due, so that deadlines survive restarts and sessions sleep on disk until then.

use std::sync::Arc;
use std::time::Duration;

use codelab_store::{SessionRef, StoreError};

use crate::clock::now;
use crate::owner::Mail;
use crate::registry::Name;
use crate::runtime::Inner;

const LOOK_EVERY: Duration = Duration::from_millis(500);
/// Due sessions woken at once; the rest follow at the next look.
const MAX_DUE: usize = 256;
const RENEW_EVERY: Duration = Duration::from_secs(3);
pub(crate) const LEASE_SECONDS: u64 = 10;

/// Wakes sessions whose deadline has passed, until the server stops.
pub(crate) async fn deadlines(runtime: Arc<Inner>) {
    let mut looks = 0_u64;
    while pause(&runtime, LOOK_EVERY).await {
        let time = now();
        match runtime.store.due_sessions(time, &runtime.server_id, time, MAX_DUE).await {
            Ok(due) => due.into_iter().for_each(|session| wake(&runtime, session)),
            Err(error) => tracing::warn!(%error, "due sessions could not be read"),
        }
        looks += 1;
        if looks.is_multiple_of(120) {
            runtime.registry.sweep();
        }
        let stats = runtime.store.stats();
        let counted = &runtime.metrics;
        counted.store_commits.inner().store(stats.commits, std::sync::atomic::Ordering::Relaxed);
        counted.store_transactions.inner().store(stats.transactions, std::sync::atomic::Ordering::Relaxed);
    }
}

/// Keeps this server's lease, and takes over turns that a stopped server left running.
pub(crate) async fn lease(runtime: Arc<Inner>) {
    loop {
        if let Err(error) = resume_running(&runtime).await {
            tracing::warn!(%error, "running sessions could not be read");
        }
        if !pause(&runtime, RENEW_EVERY).await {
            return;
        }
        let until = now().plus_seconds(LEASE_SECONDS);
        if let Err(error) = runtime.store.renew_lease(&runtime.server_id, until).await {
            tracing::warn!(%error, "the server's lease could not be renewed");
        }
    }
}

async fn resume_running(runtime: &Arc<Inner>) -> Result<(), StoreError> {
    let mut after = None;
    loop {
        let page = runtime.store.running_sessions(after, &runtime.server_id, now(), MAX_DUE).await?;
        let Some(last) = page.last() else { return Ok(()) };
        after = Some(last.key);
        for session in page {
            if !runtime.registry.is_live(&name_of(&session)) {
                wake(runtime, session);
            }
        }
    }
}

fn wake(runtime: &Arc<Inner>, session: SessionRef) {
    let name = name_of(&session);
    // A full mailbox has mail that will find the same deadline due; a stopping server wakes nobody.
    let _ = runtime.registry.send(runtime, &name, Mail::Touch { reply: None });
}

fn name_of(session: &SessionRef) -> Name {
    Name { realm: session.realm, id: session.session_id.clone() }
}

/// False once the server stops.
async fn pause(runtime: &Inner, time: Duration) -> bool {
    tokio::select! {
        () = tokio::time::sleep(time) => true,
        () = runtime.stopping.cancelled() => false,
    }
}
