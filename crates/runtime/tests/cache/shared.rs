//! Servers that share a Redis: they see each other's changes in time, and never notice in a request
//! that it is gone.

use std::time::{Duration, Instant};

use codelab_runtime::{AgentCache, CacheHealth, CacheKey, CacheLimits};
use futures_util::FutureExt;

use crate::process::Redis;
use crate::{agent, fill, miss, project, until, value};

/// What users are promised about a change seen on another server.
const SEEN_WITHIN: Duration = Duration::from_secs(1);

async fn server(redis: &Redis) -> AgentCache {
    AgentCache::with_redis(&redis.url(), CacheLimits::default())
        .await
        .expect("a valid address")
}

async fn connected(redis: &Redis) -> AgentCache {
    let cache = server(redis).await;
    assert_eq!(cache.health(), CacheHealth::Connected);
    cache
}

async fn until_health(cache: &AgentCache, connected: bool) {
    until("the health changes", async || {
        (cache.health() == CacheHealth::Connected) == connected
    })
    .await;
}

#[tokio::test]
async fn a_value_is_shared_under_its_key_for_its_ttl() {
    let Some(redis) = Redis::start().await else {
        return;
    };
    let (one, two) = (connected(&redis).await, connected(&redis).await);
    fill(&one, &agent("1", "a"), r#"{"model":"x"}"#).await;
    let stored: String = redis.command(&["GET", "user7:project1:agent:a"]).await;
    assert_eq!(stored, r#"{"model":"x"}"#);
    let ttl_ms: i64 = redis.command(&["PTTL", "user7:project1:agent:a"]).await;
    assert!((290_000..=300_000).contains(&ttl_ms), "{ttl_ms}");

    assert_eq!(
        value(&two, &agent("1", "a")).await.as_deref(),
        Some(stored.as_str())
    );
    value(&two, &agent("1", "a")).await;
    assert_eq!((two.counts().redis_hits, two.counts().memory_hits), (1, 1));

    // Memory adds nothing to the time that the value had left in Redis.
    let _: bool = redis
        .command(&["PEXPIRE", "user7:project1:agent:a", "300"])
        .await;
    let three = connected(&redis).await;
    assert!(value(&three, &agent("1", "a")).await.is_some());
    until("the value expires", async || {
        value(&three, &agent("1", "a")).await.is_none()
    })
    .await;
}

#[tokio::test]
async fn memory_keeps_a_value_for_longer_once_redis_is_there() {
    let Some(redis) = Redis::start().await else {
        return;
    };
    let limits = CacheLimits {
        outage_ttl: Duration::from_millis(10),
        ..CacheLimits::default()
    };
    let one = AgentCache::with_redis(&redis.url(), limits)
        .await
        .expect("a valid address");
    fill(&one, &agent("1", "a"), "{}").await;
    let started = Instant::now();
    until("the short lifetime is over", async || {
        started.elapsed() > 2 * limits.outage_ttl
    })
    .await;
    assert!(value(&one, &agent("1", "a")).await.is_some());
    assert_eq!((one.counts().memory_hits, one.counts().redis_hits), (1, 0));
}

#[tokio::test]
async fn a_change_on_one_server_is_seen_on_the_other() {
    let Some(redis) = Redis::start().await else {
        return;
    };
    let (one, two) = (connected(&redis).await, connected(&redis).await);
    let (key, team) = (agent("1", "a"), CacheKey::team(&project("1")));
    for round in 0..20 {
        fill(&one, &key, "old").await;
        fill(&one, &team, "[old]").await;
        assert!(value(&two, &key).await.is_some() && value(&two, &team).await.is_some());

        match round % 3 {
            0 => one.invalidate(&project("1"), "a").await,
            1 => one.clear(&project("1")).await,
            // The caller hung up at once; the others hear of it all the same.
            _ => _ = one.invalidate(&project("1"), "a").now_or_never(),
        }
        if round % 3 != 2 {
            assert!(
                value(&one, &key).await.is_none(),
                "seen at once where it was made"
            );
        }
        let gone = async || value(&two, &key).await.is_none() && value(&two, &team).await.is_none();
        let took = until("the change is seen", gone).await;
        assert!(took < SEEN_WITHIN, "{took:?}");
        until("and here", async || {
            value(&one, &key).await.is_none() && value(&one, &team).await.is_none()
        })
        .await;
    }
}

#[tokio::test]
async fn what_was_read_before_a_change_elsewhere_is_not_kept() {
    let Some(redis) = Redis::start().await else {
        return;
    };
    let (one, two) = (connected(&redis).await, connected(&redis).await);
    let key = agent("1", "a");
    for clear in [false, true] {
        let (slow, slower) = (miss(&two, &key).await, miss(&two, &key).await);
        match clear {
            true => one.clear(&project("1")).await,
            false => one.invalidate(&project("1"), "a").await,
        }
        two.put(slow, "old").await;
        assert!(
            value(&one, &key).await.is_none(),
            "the old value came back through Redis"
        );
        until("the old value goes", async || {
            value(&two, &key).await.is_none()
        })
        .await;

        fill(&one, &key, "new").await;
        two.put(slower, "old").await;
        until("the new value is seen", async || {
            value(&two, &key).await.as_deref() == Some("new")
        })
        .await;
        one.clear(&project("1")).await;
        until("both are empty", async || value(&two, &key).await.is_none()).await;
    }
}

#[tokio::test]
async fn clearing_touches_one_project_only() {
    let Some(redis) = Redis::start().await else {
        return;
    };
    let one = connected(&redis).await;
    for id in ["1", "10", "1*", "[1]0"] {
        for number in 0..700 {
            fill(&one, &agent(id, &number.to_string()), "{}").await;
        }
    }
    let _: () = redis
        .command(&["SET", "user7:project1:other", "kept"])
        .await;
    let size = async || redis.command::<usize>(&["DBSIZE"]).await;
    assert_eq!(size().await, 2801);
    for (id, left) in [("1*", 2101), ("[1]0", 1401)] {
        one.clear(&project(id)).await;
        assert_eq!(size().await, left, "a project's name is no pattern");
    }
    one.clear(&project("1")).await;
    assert_eq!(
        (
            size().await,
            one.len(&project("1")),
            one.len(&project("10"))
        ),
        (701, 0, 700)
    );
}

#[tokio::test]
async fn an_outage_is_invisible_and_ends_by_itself() {
    let Some(mut redis) = Redis::start().await else {
        return;
    };
    let one = connected(&redis).await;
    let key = agent("1", "a");
    fill(&one, &key, "old").await;
    redis.kill().await;
    until_health(&one, false).await;

    fill(&one, &key, "during").await;
    assert_eq!(value(&one, &key).await.as_deref(), Some("during"));
    let lived = until("memory forgets soon", async || {
        value(&one, &key).await.is_none()
    })
    .await;
    assert!(lived <= Duration::from_millis(1500), "{lived:?}");
    fill(&one, &key, "during").await;
    one.invalidate(&project("1"), "a").await;
    assert!(value(&one, &key).await.is_none());
    one.clear(&project("1")).await;

    redis.restart().await;
    until_health(&one, true).await;
    fill(&one, &key, "after").await;
    assert_eq!(
        redis.command::<String>(&["GET", key.as_str()]).await,
        "after"
    );
}

#[tokio::test]
async fn a_silent_redis_costs_a_request_once() {
    let Some(redis) = Redis::start().await else {
        return;
    };
    let (one, two) = (connected(&redis).await, connected(&redis).await);
    let (old, older) = (agent("1", "a"), agent("2", "b"));
    for key in [&old, &older] {
        fill(&one, key, "old").await;
        assert!(value(&two, key).await.is_some());
    }

    redis.freeze().await;
    let started = Instant::now();
    for number in 0..200 {
        fill(&one, &agent("3", &number.to_string()), "{}").await;
    }
    one.invalidate(&project("1"), "a").await;
    one.clear(&project("2")).await;
    assert!(
        started.elapsed() < Duration::from_secs(1),
        "{:?}",
        started.elapsed()
    );
    assert_eq!(one.counts().redis_failures, 1);
    let noticed = until("the silence is noticed", async || {
        two.health() != CacheHealth::Connected
    })
    .await;
    assert!(noticed < Duration::from_secs(2), "{noticed:?}");

    // Redis still has the old values, and learns of the changes before anything is read from it.
    redis.thaw().await;
    until_health(&one, true).await;
    for key in [&old, &older] {
        assert!(value(&one, key).await.is_none());
        until("the change is seen", async || {
            value(&two, key).await.is_none()
        })
        .await;
    }
}

#[tokio::test]
async fn messages_missed_without_a_subscription_do_no_harm() {
    let Some(redis) = Redis::start().await else {
        return;
    };
    let one = connected(&redis).await;
    let key = agent("1", "a");
    fill(&one, &key, "old").await;
    let _: i64 = redis.command(&["CLIENT", "KILL", "TYPE", "pubsub"]).await;
    let _: i64 = redis.command(&["DEL", key.as_str()]).await;
    until("memory is dropped", async || {
        value(&one, &key).await.is_none()
    })
    .await;
    until_health(&one, true).await;

    fill(&one, &key, "old").await;
    let _: i64 = redis.command(&["DEL", key.as_str()]).await;
    let _: i64 = redis
        .command(&["PUBLISH", "codelab:agent_cache", "what?"])
        .await;
    until("who cannot read a message trusts nothing", async || {
        value(&one, &key).await.is_none()
    })
    .await;
}

#[tokio::test]
async fn redis_may_come_later_than_the_server() {
    let Some(mut redis) = Redis::stopped() else {
        return;
    };
    let one = server(&redis).await;
    assert!(matches!(one.health(), CacheHealth::Unreachable { .. }));
    fill(&one, &agent("1", "a"), "{}").await;
    redis.restart().await;
    until_health(&one, true).await;
}

/// Over TCP, with a name and a password, beside whatever else that Redis is used for.
#[tokio::test]
async fn a_redis_that_wants_a_password_is_used() {
    let Some(url) = std::env::var("CODELAB_TEST_REDIS_URL")
        .ok()
        .filter(|url| !url.is_empty())
    else {
        println!("skipped: CODELAB_TEST_REDIS_URL is not set");
        return;
    };
    let cache = async |url: &str| {
        AgentCache::with_redis(url, CacheLimits::default())
            .await
            .expect("a valid address")
    };
    let (one, two) = (cache(&url).await, cache(&url).await);
    let key = agent(&codelab_runtime::random_hex(8), "a");
    fill(&one, &key, "{}").await;
    assert_eq!(value(&two, &key).await.as_deref(), Some("{}"));

    let wrong = cache(&url.replace("default:", "default:not-")).await;
    assert!(matches!(wrong.health(), CacheHealth::Unreachable { .. }));
    assert!(value(&wrong, &key).await.is_none());
}

#[tokio::test]
async fn answers_that_refuse_are_misses() {
    let Some(redis) = Redis::start().await else {
        return;
    };
    let one = connected(&redis).await;
    let key = agent("1", "a");
    let _: i64 = redis
        .command(&["HSET", key.as_str(), "field", "of another program"])
        .await;
    fill(&one, &key, "{}").await;
    assert_eq!(value(&one, &key).await.as_deref(), Some("{}"));
    assert_eq!(one.health(), CacheHealth::Connected);
    assert_eq!(one.counts().redis_failures, 1);
}

#[tokio::test]
async fn an_address_that_cannot_work_is_an_error_without_its_password() {
    for url in [
        "",
        "localhost",
        "http://u:hunter2@localhost",
        "redis://u:hunter2@",
        "redis://u:hunter2@host/x",
    ] {
        let error = AgentCache::with_redis(url, CacheLimits::default())
            .await
            .expect_err(url)
            .to_string();
        assert!(
            error.contains("redis://host:6379") && !error.contains("hunter2"),
            "{error}"
        );
    }
}
