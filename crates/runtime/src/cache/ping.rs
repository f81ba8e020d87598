//! One question to Redis, for whoever wonders whether it can be used. Nothing is stored there.

use std::time::Duration;

use redis::{AsyncConnectionConfig, RedisResult, cmd};
use tokio::time::timeout;

use super::{InvalidRedisUrl, open};

/// Why Redis cannot be used. The text holds no part of the address.
#[derive(Debug, thiserror::Error)]
pub enum RedisUnusable {
    #[error(transparent)]
    Url(#[from] InvalidRedisUrl),
    #[error("Redis refused the user or the password")]
    Refused,
    #[error("Redis cannot be used: {0}")]
    Failed(String),
    #[error("Redis did not answer in time")]
    Silent,
}

/// Its version, where it tells it.
pub async fn ping_redis(url: &str, limit: Duration) -> Result<Option<String>, RedisUnusable> {
    let client = open(url)?;
    let ask = async {
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(limit))
            .set_response_timeout(Some(limit));
        let mut connection = client
            .get_multiplexed_async_connection_with_config(&config)
            .await?;
        cmd("PING").query_async::<()>(&mut connection).await?;
        // A user of Redis may be allowed less than this.
        let told: RedisResult<String> =
            cmd("INFO").arg("server").query_async(&mut connection).await;
        Ok(told.ok())
    };
    let told = timeout(limit, ask)
        .await
        .map_err(|_| RedisUnusable::Silent)?
        .map_err(unusable)?;
    Ok(told.and_then(|told| {
        told.lines()
            .find_map(|line| line.strip_prefix("redis_version:").map(str::to_owned))
    }))
}

fn unusable(error: redis::RedisError) -> RedisUnusable {
    let is_refused = error.kind() == redis::ErrorKind::AuthenticationFailed
        || error
            .code()
            .is_some_and(|code| matches!(code, "NOAUTH" | "WRONGPASS" | "NOPERM"));
    match error {
        _ if is_refused => RedisUnusable::Refused,
        error if error.is_timeout() => RedisUnusable::Silent,
        error => RedisUnusable::Failed(error.to_string()),
    }
}
