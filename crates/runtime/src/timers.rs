//! Looks in the store for what is due, so that deadlines survive restarts and sessions sleep on
//! disk until then.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use codelab_protocol::HealthStatus;
use codelab_store::{SessionRef, StoreError};

use crate::clock::now;
use crate::cluster::OwnedThing;
use crate::metrics::Alert;
use crate::owner::Mail;
use crate::registry::SessionName;
use crate::runtime::{Inner, Retention};
use crate::space::SpaceKey;

const LOOK_EVERY: Duration = Duration::from_millis(500);
const SWEEP_EVERY_LOOKS: u64 = 120;
/// Due sessions woken at once; the rest follow at the next look.
const MAX_DUE: usize = 256;
const WATCH_EVERY: Duration = Duration::from_secs(1);
const CLEAN_EVERY: Duration = Duration::from_secs(60);
/// Sessions cleaned at once; the rest follow a minute later.
const MAX_CLEANED: usize = 1000;
/// The row of a server stays this long after its lease, so that its end can still be looked up.
const DEAD_SERVER_HOURS: u64 = 24;
const REMOVE_DEAD_EVERY: Duration = Duration::from_secs(3600);

/// Wakes sessions whose deadline has passed, until the server stops.
pub(crate) async fn deadlines(runtime: Arc<Inner>) {
    let mut looks = 0_u64;
    while pause(&runtime, LOOK_EVERY).await {
        if runtime.cluster.lease.is_paused() {
            continue;
        }
        let time = now();
        match runtime
            .store
            .due_sessions(
                runtime.cluster.search(),
                time,
                &runtime.cluster.server_id(),
                MAX_DUE,
            )
            .await
        {
            Ok(due) => {
                for session in due {
                    wake(&runtime, session).await;
                }
            }
            Err(error) => log_failure(&error, "due sessions could not be read"),
        }
        looks += 1;
        if looks.is_multiple_of(SWEEP_EVERY_LOOKS) {
            runtime.registry.sweep();
            runtime.user_shares.sweep();
        }
    }
}

/// An outage of the database is in the log already, once for all who meet it.
pub(crate) fn log_failure(error: &StoreError, what: &str) {
    match error.is_outage() {
        true => tracing::debug!(%error, "{what}"),
        false => tracing::warn!(%error, "{what}"),
    }
}

/// Removes the rows of servers that are long gone, now and every hour.
pub(crate) async fn dead_servers(runtime: Arc<Inner>) {
    loop {
        let until = now().plus_millis(-(DEAD_SERVER_HOURS as i64) * 3_600_000);
        match runtime.store.remove_dead_servers(until).await {
            Ok(0) => {}
            Ok(removed) => tracing::info!(
                removed,
                "servers that are long gone were removed from the database"
            ),
            Err(error) => log_failure(
                &error,
                "servers that are long gone could not be removed from the database",
            ),
        }
        if !pause(&runtime, REMOVE_DEAD_EVERY).await {
            return;
        }
    }
}

/// Lets old sessions and events go, where that is configured.
pub(crate) async fn retention(runtime: Arc<Inner>) {
    let Retention {
        session_hours,
        event_days,
    } = runtime.retention;
    if session_hours == 0 && event_days == 0 {
        return;
    }
    loop {
        // One server does it for all: the one that would take the Chat.
        if runtime.cluster.is_chosen(&OwnedThing::Chat)
            && let Err(error) = clean_up(&runtime, session_hours, event_days).await
        {
            log_failure(&error, "old sessions and events could not be cleaned up");
        }
        if !pause(&runtime, CLEAN_EVERY).await {
            return;
        }
    }
}

async fn clean_up(runtime: &Inner, session_hours: u64, event_days: u64) -> Result<(), StoreError> {
    let time = now();
    let ago = |hours: u64| {
        time.plus_millis(-i64::try_from(hours.saturating_mul(3_600_000)).unwrap_or(i64::MAX))
    };
    if session_hours > 0 {
        let cleaned = runtime
            .store
            .cleanup_older_than(ago(session_hours), time, MAX_CLEANED)
            .await?;
        if !cleaned.is_empty() {
            tracing::info!(
                sessions = cleaned.len(),
                "old sessions were deleted; they can be restored"
            );
        }
    }
    if event_days > 0 {
        let before = ago(event_days.saturating_mul(24));
        let mut pruned = 0;
        for key in runtime
            .store
            .prunable_sessions(before, None, MAX_CLEANED)
            .await?
        {
            pruned += runtime.store.prune_events(key, before).await?;
        }
        if pruned > 0 {
            tracing::info!(events = pruned, "old events were pruned");
        }
    }
    Ok(())
}

/// Takes over turns that a stopped server left running, as far as they are this server's share.
pub(crate) async fn resume_running(runtime: &Arc<Inner>) -> Result<(), StoreError> {
    let mut after = None;
    loop {
        let page = runtime
            .store
            .running_sessions(
                runtime.cluster.search(),
                after,
                &runtime.cluster.server_id(),
                MAX_DUE,
            )
            .await?;
        let Some(last) = page.last() else {
            return Ok(());
        };
        after = Some(last.key);
        for session in page {
            if !runtime.registry.is_live(&name_of(&session)) {
                wake(runtime, session).await;
            }
        }
    }
}

/// Wakes a session of this server, or one that nobody owns and that is this server's to take.
async fn wake(runtime: &Arc<Inner>, session: SessionRef) {
    if runtime.cluster.is_among() {
        let thing = match session.project_id {
            Some(project) => OwnedThing::Project(project),
            None => OwnedThing::Session(session.session_id.clone()),
        };
        if !session.is_mine && !runtime.cluster.is_chosen(&thing) {
            return;
        }
        match runtime.claim(&thing).await {
            Ok(Some(_)) => {}
            Ok(None) => return,
            Err(error) => return log_failure(&error, "due session could not be claimed"),
        }
    }
    // A full mailbox has mail that will find the same deadline due; a stopping server wakes nobody.
    let _ = runtime
        .registry
        .send(runtime, &name_of(&session), Mail::Touch { reply: None });
}

fn name_of(session: &SessionRef) -> SessionName {
    SessionName {
        kind: session.kind,
        id: session.session_id.clone(),
    }
}

/// Looks after the worker spaces: problems are told once each time they begin, idle ones are
/// cleaned up.
pub(crate) async fn spaces(runtime: Arc<Inner>) {
    let idle = Duration::from_secs(runtime.space_idle_seconds);
    let stuck_after = Duration::from_secs(2 * runtime.limits.task_timeout_seconds);
    let mut told: HashSet<(SpaceKey, String)> = HashSet::new();
    let (mut pushed_out, mut is_overfull) = (0, false);
    while pause(&runtime, WATCH_EVERY).await {
        let mut wrong = HashSet::new();
        for space in runtime.spaces.all() {
            let key = SpaceKey {
                user: space.user(),
                project: space.project(),
            };
            let checks = space.health(stuck_after).checks.into_iter();
            let unhealthy = checks.filter(|(_, check)| check.status != HealthStatus::Healthy);
            let mut problems: BTreeMap<String, Option<String>> = unhealthy
                .map(|(name, check)| (name, check.detail))
                .collect();
            let refused = space.take_refusals();
            if refused > 0 {
                problems.insert(
                    "queues".to_owned(),
                    Some(format!("{refused} tasks met a full queue")),
                );
            }
            for (name, detail) in problems {
                if !told.contains(&(key, name.clone())) {
                    let (user, project) = (key.user, key.project);
                    tracing::warn!(%user, %project, check = name, detail, "worker space is unhealthy");
                    runtime
                        .metrics
                        .alerts
                        .get_or_create(&Alert { kind: name.clone() })
                        .inc();
                }
                wrong.insert((key, name));
            }
        }
        told = wrong;
        let pushed_out_before =
            std::mem::replace(&mut pushed_out, runtime.cache.counts().pushed_out);
        let was_overfull = std::mem::replace(&mut is_overfull, pushed_out > pushed_out_before);
        if is_overfull && !was_overfull {
            tracing::warn!(
                pushed_out,
                "alert: the agent cache is too small for all agents in use"
            );
            runtime
                .metrics
                .alerts
                .get_or_create(&Alert {
                    kind: "cache".to_owned(),
                })
                .inc();
        }
        runtime.spaces.clean_up_idle(idle).await;
    }
}

/// False once the server stops.
pub(crate) async fn pause(runtime: &Inner, time: Duration) -> bool {
    tokio::select! {
        () = tokio::time::sleep(time) => true,
        () = runtime.stopping.cancelled() => false,
    }
}
