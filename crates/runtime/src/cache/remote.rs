//! The commands the cache sends over one connection to Redis. What a failure means is decided
//! elsewhere.
//!
//! A value enters Redis only through a lease: who misses a key writes a lease there, reads the
//! database, and replaces that very lease. Forgetting a key removes the lease with it, so a value
//! read before cannot come after.

use std::sync::Arc;
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{RedisResult, cmd, pipe};
use serde::{Deserialize, Serialize};

use crate::ids::random_hex;

/// Servers tell each other here what to forget.
pub(super) const CHANNEL: &str = "codelab:agent_cache";

/// JSON never starts so.
const LEASE_MARK: &str = "lease:";
/// Longer than any read of the database that is worth keeping.
const LEASE_MS: u64 = 10_000;
const LEASE_BYTES: usize = 16;
const SCAN_COUNT: u32 = 500;

const REPLACE_LEASE: &str = "if redis.call('GET', KEYS[1]) == ARGV[1] then \
    redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3]) end";

#[derive(Debug, Clone)]
pub(super) struct Remote {
    connection: MultiplexedConnection,
}

pub(super) enum CacheLookup {
    Value {
        value: Arc<str>,
        remaining: Duration,
    },
    Lease(FillLease),
    Nothing,
}

#[derive(Debug)]
pub(super) struct FillLease(String);

/// What must not be served any more. Also the message on [`CHANNEL`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Forget {
    Keys(Vec<String>),
    /// By its prefix.
    Project(String),
    Everything,
}

impl Forget {
    /// Who cannot read a message forgets everything, rather than keep what it may have been about.
    pub(super) fn from_message(payload: &[u8]) -> Self {
        serde_json::from_slice(payload).unwrap_or(Self::Everything)
    }

    fn message(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }
}

impl Remote {
    pub(super) fn new(connection: MultiplexedConnection) -> Self {
        Self { connection }
    }

    pub(super) async fn ping(&self) -> RedisResult<()> {
        cmd("PING").query_async(&mut self.connection.clone()).await
    }

    /// The value, or else a lease to fill the key with.
    pub(super) async fn get(&self, key: &str) -> RedisResult<CacheLookup> {
        let connection = &mut self.connection.clone();
        let (text, ttl_ms): (Option<String>, i64) = pipe()
            .cmd("GET")
            .arg(key)
            .cmd("PTTL")
            .arg(key)
            .query_async(connection)
            .await?;
        if let Some(text) = text {
            return Ok(found(text, ttl_ms));
        }
        let lease = format!("{LEASE_MARK}{}", random_hex(LEASE_BYTES));
        let mut fill = pipe();
        fill.cmd("SET")
            .arg(key)
            .arg(lease)
            .arg("NX")
            .arg("PX")
            .arg(LEASE_MS)
            .ignore();
        fill.cmd("GET").arg(key).cmd("PTTL").arg(key);
        let (text, ttl_ms): (Option<String>, i64) = fill.query_async(connection).await?;
        Ok(text.map_or(CacheLookup::Nothing, |text| found(text, ttl_ms)))
    }

    /// Does nothing when the lease is gone: the key was forgotten, filled by another, or too much
    /// time passed.
    pub(super) async fn put(
        &self,
        key: &str,
        lease: &FillLease,
        value: &str,
        ttl: Duration,
    ) -> RedisResult<()> {
        let ttl_ms = u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX).max(1);
        let mut replace = cmd("EVAL");
        replace
            .arg(REPLACE_LEASE)
            .arg(1)
            .arg(key)
            .arg(&lease.0)
            .arg(value)
            .arg(ttl_ms);
        replace.query_async(&mut self.connection.clone()).await
    }

    /// Removes the key from Redis first and tells other servers then. A server that was told too
    /// early would read the old value back from Redis.
    pub(super) async fn forget(&self, what: &Forget) -> RedisResult<()> {
        let connection = &mut self.connection.clone();
        match what {
            Forget::Keys(keys) => {
                let mut both = pipe();
                both.atomic()
                    .cmd("UNLINK")
                    .arg(keys)
                    .ignore()
                    .cmd("PUBLISH")
                    .arg(CHANNEL)
                    .arg(what.message())
                    .ignore();
                return both.query_async(connection).await;
            }
            Forget::Project(prefix) => {
                self.unlink_matching(&format!("{}:agent:*", literal(prefix)))
                    .await?;
                cmd("UNLINK")
                    .arg(format!("{prefix}:agents"))
                    .query_async::<()>(connection)
                    .await?;
            }
            Forget::Everything => self.unlink_matching("user*:project*:agent*").await?,
        }
        cmd("PUBLISH")
            .arg(CHANNEL)
            .arg(what.message())
            .query_async(connection)
            .await
    }

    async fn unlink_matching(&self, pattern: &str) -> RedisResult<()> {
        let connection = &mut self.connection.clone();
        let mut cursor: u64 = 0;
        loop {
            let mut scan = cmd("SCAN");
            scan.arg(cursor)
                .arg("MATCH")
                .arg(pattern)
                .arg("COUNT")
                .arg(SCAN_COUNT);
            let (next, keys): (u64, Vec<Vec<u8>>) = scan.query_async(connection).await?;
            if !keys.is_empty() {
                cmd("UNLINK")
                    .arg(keys)
                    .query_async::<()>(connection)
                    .await?;
            }
            if next == 0 {
                return Ok(());
            }
            cursor = next;
        }
    }
}

fn found(text: String, ttl_ms: i64) -> CacheLookup {
    if text.starts_with(LEASE_MARK) {
        return CacheLookup::Lease(FillLease(text));
    }
    CacheLookup::Value {
        value: text.into(),
        remaining: Duration::from_millis(u64::try_from(ttl_ms).unwrap_or(0)),
    }
}

/// Escapes a text, so that as a pattern it matches only itself.
fn literal(text: &str) -> String {
    let mut pattern = String::with_capacity(text.len());
    for character in text.chars() {
        if matches!(character, '*' | '?' | '[' | ']' | '^' | '-' | '\\') {
            pattern.push('\\');
        }
        pattern.push(character);
    }
    pattern
}
