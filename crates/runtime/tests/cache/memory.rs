//! Without Redis. Time is tokio's and stands still.

use std::time::Duration;

use codelab_runtime::{AgentCache, CacheCounts, CacheHealth, CacheKey, CacheLimits};

use crate::{agent, fill, miss, project, value};

fn small() -> CacheLimits {
    CacheLimits {
        max_entries: 3,
        max_bytes: 1000,
        ..CacheLimits::default()
    }
}

#[tokio::test(start_paused = true)]
async fn a_value_lives_for_its_ttl() {
    let cache = AgentCache::memory(CacheLimits::default());
    let key = agent("1", "a");
    assert_eq!(key.as_str(), "user7:project1:agent:a");
    assert_eq!(
        CacheKey::team(&project("1")).as_str(),
        "user7:project1:agents"
    );
    fill(&cache, &key, "{}").await;
    tokio::time::advance(Duration::from_secs(299)).await;
    assert_eq!(value(&cache, &key).await.as_deref(), Some("{}"));
    assert_eq!(cache.len(&project("1")), 1);
    tokio::time::advance(Duration::from_secs(1)).await;
    assert_eq!(cache.len(&project("1")), 0);
    assert_eq!(value(&cache, &key).await, None);
    assert_eq!(cache.health(), CacheHealth::Memory);
    let counts = CacheCounts {
        memory_hits: 1,
        redis_hits: 0,
        misses: 2,
        redis_failures: 0,
        pushed_out: 0,
    };
    assert_eq!(cache.counts(), counts);
}

#[tokio::test(start_paused = true)]
async fn the_least_recently_used_leaves_first() {
    let cache = AgentCache::memory(small());
    for id in ["a", "b", "c"] {
        fill(&cache, &agent("1", id), id).await;
    }
    value(&cache, &agent("1", "a")).await.unwrap();
    fill(&cache, &agent("1", "d"), "d").await;
    assert!(value(&cache, &agent("1", "b")).await.is_none());
    for id in ["a", "c", "d"] {
        assert_eq!(value(&cache, &agent("1", id)).await.as_deref(), Some(id));
    }

    assert_eq!(cache.counts().pushed_out, 1);

    fill(&cache, &agent("1", "big"), &"x".repeat(970)).await;
    assert_eq!(cache.len(&project("1")), 1, "bytes are bounded too");
    fill(&cache, &agent("1", "huge"), &"x".repeat(2_000_000)).await;
    assert!(
        value(&cache, &agent("1", "big")).await.is_some(),
        "what is too large pushes nothing out"
    );
}

#[tokio::test(start_paused = true)]
async fn what_was_read_before_an_invalidation_is_not_kept() {
    let cache = AgentCache::memory(CacheLimits::default());
    let (key, team) = (agent("1", "a"), CacheKey::team(&project("1")));
    fill(&cache, &team, "[]").await;
    let before = miss(&cache, &key).await;
    cache.invalidate(&project("1"), "a").await;
    assert!(
        value(&cache, &team).await.is_none(),
        "the team is made of its agents"
    );
    cache.put(before, "old").await;
    assert!(value(&cache, &key).await.is_none());

    let before = miss(&cache, &key).await;
    cache.clear(&project("1")).await;
    cache.put(before, "old").await;
    assert!(value(&cache, &key).await.is_none());

    let (first, second) = (miss(&cache, &key).await, miss(&cache, &key).await);
    cache.put(first, "new").await;
    cache.put(second, "new too").await;
    assert_eq!(value(&cache, &key).await.as_deref(), Some("new too"));
}

#[tokio::test(start_paused = true)]
async fn projects_are_apart() {
    let cache = AgentCache::memory(CacheLimits::default());
    for id in ["1", "10", "2"] {
        fill(&cache, &agent(id, "a"), id).await;
        fill(&cache, &agent(id, "b"), id).await;
        fill(&cache, &CacheKey::team(&project(id)), id).await;
    }
    cache.clear(&project("1")).await;
    cache.invalidate(&project("2"), "a").await;
    let left = ["1", "10", "2"].map(|id| cache.len(&project(id)));
    assert_eq!(left, [0, 2, 1]);
    assert!(cache.is_empty(&project("1")));
    assert!(
        value(&cache, &CacheKey::team(&project("1")))
            .await
            .is_none()
    );
    assert!(
        value(&cache, &CacheKey::team(&project("10")))
            .await
            .is_some()
    );
}
