//! Agents' definitions as JSON text, so that a request need not read them from the database: in
//! memory, and in front of Redis where one is configured. What a caller gets was in the database at
//! most a TTL ago, and is never older than the last [`AgentCache::invalidate`] that it can know of.
//!
//! How old that may be, after an invalidation returned:
//! - on the server that invalidated: not at all;
//! - on others that share the Redis: until its message arrives, milliseconds while Redis works;
//!   when a connection dies silently, under a second, because both directions are tried twice a
//!   second and memory is dropped on failure;
//! - without Redis, an entry in memory lives for `outage_ttl` (one second) at most, as nobody could
//!   be told;
//! - a server cut off from Redis that invalidates tells Redis and the others when it is back,
//!   before it uses Redis. Until then, or when it dies before, servers that still reach Redis may
//!   serve the old value for the TTL.
//!
//! Redis never fails a request: its absence is a miss. Values in Redis are trusted like the
//! database.

mod link;
mod memory;
mod ping;
mod remote;
mod supervisor;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use codelab_protocol::{Timestamp, UserId};
use redis::RedisError;
use tokio::sync::oneshot;
use tokio_util::task::AbortOnDropHandle;

pub use ping::{RedisUnusable, ping_redis};

use link::{LinkNumber, RedisLink};
use memory::{KeyVersion, MemoryCache};
use remote::{CacheLookup, FillLease, Forget};

/// Handles to one cache are clones of each other.
#[derive(Debug, Clone)]
pub struct AgentCache {
    shared: Arc<Shared>,
    link: Option<Arc<RedisLink>>,
    /// Ends with the last handle.
    _supervisor: Option<Arc<AbortOnDropHandle<()>>>,
}

#[derive(Debug, Clone, Copy)]
pub struct CacheLimits {
    pub ttl: Duration,
    /// How long memory keeps an entry while a configured Redis cannot be reached.
    pub outage_ttl: Duration,
    /// In memory; the least recently used go first.
    pub max_entries: usize,
    pub max_bytes: usize,
}

impl Default for CacheLimits {
    fn default() -> Self {
        Self {
            ttl: Duration::from_secs(300),
            outage_ttl: Duration::from_secs(1),
            max_entries: 10_000,
            max_bytes: 64 * 1024 * 1024,
        }
    }
}

/// Larger values are not cached.
const MAX_VALUE_BYTES: usize = 1024 * 1024;
/// How long a start waits for Redis, so that health is right from the first request on.
const FIRST_CONNECT_WAIT: Duration = Duration::from_secs(2);

#[derive(Debug, thiserror::Error)]
#[error("the address of Redis cannot be used: {0}")]
pub struct InvalidRedisUrl(&'static str);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CacheHealth {
    /// No Redis is configured.
    Memory,
    Connected,
    Unreachable {
        since: Timestamp,
    },
}

/// Since the start of this process.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CacheCounts {
    pub memory_hits: u64,
    pub redis_hits: u64,
    pub misses: u64,
    pub redis_failures: u64,
    /// Values that were still good and left for want of room.
    pub pushed_out: u64,
}

/// The owner and project that a value belongs to: `user{user_id}:project{project_id}`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UserPrefix(String);

impl UserPrefix {
    pub fn new(user: UserId, project_id: impl fmt::Display) -> Self {
        Self(format!("user{user}:project{project_id}"))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    fn agents_start(&self) -> String {
        format!("{}:agent:", self.0)
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CacheKey(String);

impl CacheKey {
    /// One agent's definition: `{user_prefix}:agent:{agent_id}`.
    pub fn agent(prefix: &UserPrefix, agent_id: impl fmt::Display) -> Self {
        Self(format!("{}{agent_id}", prefix.agents_start()))
    }

    /// All agents of the project: `{user_prefix}:agents`. Forgotten with each of them.
    pub fn team(prefix: &UserPrefix) -> Self {
        Self(format!("{}:agents", prefix.0))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

#[derive(Debug)]
pub enum Cached {
    Hit(Arc<str>),
    /// Read the database now, not before, and put the value with this.
    Miss(Fill),
}

/// The right to fill a key with what the database says from now on. An invalidation in between
/// makes it void.
#[derive(Debug)]
pub struct Fill {
    key: CacheKey,
    moment: KeyVersion,
    lease: Option<FillLease>,
}

#[derive(Debug)]
struct Shared {
    limits: CacheLimits,
    memory: MemoryCache,
    memory_hits: AtomicU64,
    redis_hits: AtomicU64,
    misses: AtomicU64,
    redis_failures: AtomicU64,
}

impl AgentCache {
    pub fn memory(limits: CacheLimits) -> Self {
        Self {
            shared: Arc::new(Shared::new(limits, limits.ttl)),
            link: None,
            _supervisor: None,
        }
    }

    /// Fails only for an address that can never work. When Redis is away it is looked for in the
    /// background.
    pub async fn with_redis(url: &str, limits: CacheLimits) -> Result<Self, InvalidRedisUrl> {
        let client = open(url)?;
        let shared = Arc::new(Shared::new(limits, limits.outage_ttl.min(limits.ttl)));
        let link = Arc::new(RedisLink::new());
        let (tried, first_attempt) = oneshot::channel();
        let supervisor = tokio::spawn(supervisor::supervise(
            client,
            shared.clone(),
            link.clone(),
            tried,
        ));
        let _ = tokio::time::timeout(FIRST_CONNECT_WAIT, first_attempt).await;
        Ok(Self {
            shared,
            link: Some(link),
            _supervisor: Some(Arc::new(AbortOnDropHandle::new(supervisor))),
        })
    }

    pub async fn get(&self, key: &CacheKey) -> Cached {
        if let Some(value) = self.shared.memory.get(&key.0) {
            self.shared.memory_hits.fetch_add(1, Relaxed);
            return Cached::Hit(value);
        }
        // Before Redis is asked: what it answers may be forgotten while the answer travels.
        let moment = self.shared.memory.moment(&key.0);
        let lease = match self.found_in_redis(key).await {
            CacheLookup::Value { value, remaining } => {
                self.shared.redis_hits.fetch_add(1, Relaxed);
                self.shared
                    .memory
                    .put(&key.0, value.clone(), moment, remaining);
                return Cached::Hit(value);
            }
            CacheLookup::Lease(lease) => Some(lease),
            CacheLookup::Nothing => None,
        };
        self.shared.misses.fetch_add(1, Relaxed);
        Cached::Miss(Fill {
            key: key.clone(),
            moment,
            lease,
        })
    }

    /// Keeps what the database said after the miss; ignored when the key was invalidated since.
    pub async fn put(&self, fill: Fill, value: impl Into<Arc<str>>) {
        let value = value.into();
        if value.len() > MAX_VALUE_BYTES {
            return;
        }
        let ttl = self.shared.limits.ttl;
        self.shared
            .memory
            .put(&fill.key.0, value.clone(), fill.moment, ttl);
        let (Some(link), Some(lease)) = (&self.link, &fill.lease) else {
            return;
        };
        let Some((number, remote)) = link.remote() else {
            return;
        };
        if let Err(error) = remote.put(&fill.key.0, lease, &value, ttl).await {
            self.shared.redis_failed(link, number, &error);
        }
    }

    /// After the database was changed: no later `get` here finds the old definition, nor the old
    /// team.
    pub async fn invalidate(&self, prefix: &UserPrefix, agent_id: impl fmt::Display) {
        let keys = vec![
            CacheKey::agent(prefix, agent_id).0,
            CacheKey::team(prefix).0,
        ];
        self.forget(Forget::Keys(keys)).await;
    }

    /// Every agent of the project, and its team.
    pub async fn clear(&self, prefix: &UserPrefix) {
        self.forget(Forget::Project(prefix.0.clone())).await;
    }

    /// Agents of the project that are in this server's memory.
    pub fn len(&self, prefix: &UserPrefix) -> usize {
        self.shared.memory.count(&prefix.agents_start())
    }

    pub fn is_empty(&self, prefix: &UserPrefix) -> bool {
        self.len(prefix) == 0
    }

    pub fn health(&self) -> CacheHealth {
        self.link
            .as_ref()
            .map_or(CacheHealth::Memory, |link| link.health())
    }

    pub fn counts(&self) -> CacheCounts {
        CacheCounts {
            memory_hits: self.shared.memory_hits.load(Relaxed),
            redis_hits: self.shared.redis_hits.load(Relaxed),
            misses: self.shared.misses.load(Relaxed),
            redis_failures: self.shared.redis_failures.load(Relaxed),
            pushed_out: self.shared.memory.pushed_out(),
        }
    }

    async fn found_in_redis(&self, key: &CacheKey) -> CacheLookup {
        let Some(link) = &self.link else {
            return CacheLookup::Nothing;
        };
        let Some((number, remote)) = link.remote() else {
            return CacheLookup::Nothing;
        };
        remote.get(&key.0).await.unwrap_or_else(|error| {
            self.shared.redis_failed(link, number, &error);
            CacheLookup::Nothing
        })
    }

    /// Memory is emptied before and after: in between, this very server may read the old value back
    /// from Redis.
    async fn forget(&self, what: Forget) {
        self.shared.forget_here(&what);
        let Some(link) = self.link.clone() else {
            return;
        };
        let shared = self.shared.clone();
        let told = tokio::spawn(async move {
            shared.forget_in_redis(&link, &what).await;
            shared.forget_here(&what);
        });
        // In a task of its own, because a caller that hangs up must not leave the others with the
        // old value.
        let _ = told.await;
    }
}

impl Shared {
    fn new(limits: CacheLimits, lifetime: Duration) -> Self {
        Self {
            limits,
            memory: MemoryCache::new(lifetime, limits.max_entries, limits.max_bytes),
            memory_hits: AtomicU64::new(0),
            redis_hits: AtomicU64::new(0),
            misses: AtomicU64::new(0),
            redis_failures: AtomicU64::new(0),
        }
    }

    fn forget_here(&self, what: &Forget) {
        match what {
            Forget::Keys(keys) => self.memory.forget(keys),
            Forget::Project(prefix) => self.memory.forget_all(&format!("{prefix}:agent")),
            Forget::Everything => self.memory.forget_all(""),
        }
    }

    async fn forget_in_redis(&self, link: &RedisLink, what: &Forget) {
        if let Some((_, remote)) = link.remote() {
            match remote.forget(what).await {
                Ok(()) => return,
                Err(_) => self.redis_failures.fetch_add(1, Relaxed),
            };
        }
        link.owe(std::slice::from_ref(what), &self.memory, &self.limits);
    }

    /// Only a lost connection takes the link down. A refusal by Redis does not.
    fn redis_failed(&self, link: &RedisLink, number: LinkNumber, error: &RedisError) {
        self.redis_failures.fetch_add(1, Relaxed);
        if error.is_io_error() || error.is_timeout() || error.is_unrecoverable_error() {
            link.lower(number, &self.memory, &self.limits);
        }
    }
}

fn open(url: &str) -> Result<redis::Client, InvalidRedisUrl> {
    // The library's own message may repeat parts of the address, and with it a password.
    const WANTED: &str =
        "it should look like redis://host:6379/0, rediss://host:6379/0 or unix:///path";
    let client = redis::Client::open(url).map_err(|_| InvalidRedisUrl(WANTED))?;
    if matches!(
        client.get_connection_info().addr(),
        redis::ConnectionAddr::TcpTls { .. }
    ) {
        // The library asks rustls for the process's provider; whoever set one before has chosen.
        let _ = rustls::crypto::ring::default_provider().install_default();
    }
    Ok(client)
}
