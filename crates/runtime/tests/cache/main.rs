//! The agent cache as its callers see it, alone and on several servers that share a Redis of the
//! test's own.

mod memory;
mod process;
mod shared;

use std::sync::Arc;
use std::time::{Duration, Instant};

use codelab_protocol::UserId;
use codelab_runtime::{AgentCache, CacheKey, Cached, Fill, UserPrefix};

const DEADLINE: Duration = Duration::from_secs(20);

pub fn project(id: &str) -> UserPrefix {
    UserPrefix::new(UserId::new(7).expect("a positive number"), id)
}

pub fn agent(project_id: &str, agent_id: &str) -> CacheKey {
    CacheKey::agent(&project(project_id), agent_id)
}

pub async fn value(cache: &AgentCache, key: &CacheKey) -> Option<Arc<str>> {
    match cache.get(key).await {
        Cached::Hit(value) => Some(value),
        Cached::Miss(_) => None,
    }
}

pub async fn miss(cache: &AgentCache, key: &CacheKey) -> Fill {
    match cache.get(key).await {
        Cached::Hit(value) => panic!("expected nothing, found {value}"),
        Cached::Miss(fill) => fill,
    }
}

/// As a request would after reading the database.
pub async fn fill(cache: &AgentCache, key: &CacheKey, value: &str) {
    let fill = miss(cache, key).await;
    cache.put(fill, value).await;
}

/// Waits until the condition holds; returns how long that took.
pub async fn until(what: &str, mut condition: impl AsyncFnMut() -> bool) -> Duration {
    let started = Instant::now();
    while !condition().await {
        assert!(started.elapsed() < DEADLINE, "never happened: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    started.elapsed()
}
