//! Redis behind the agents' definitions: it comes and goes without anybody noticing, and tells a
//! second server of changes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use codelab_testkit::{Asked, OwnDatabase, Reply, TestServer, eventually};
use serde_json::{Value, json};

use crate::kit::{Person, SECRET, metric, server_with, until};
use crate::redis::Redis;

/// How fast another server must use a changed agent.
const HEARD_WITHIN: Duration = Duration::from_secs(1);

async fn health(server: &TestServer) -> Value {
    let health = Person::stranger(server).get("/health").await.expect(200);
    json!({ "status": health["status"], "cache": health["checks"]["cache"]["status"] })
}

#[tokio::test(flavor = "multi_thread")]
async fn redis_comes_and_goes_under_load() {
    let Some(mut redis) = Redis::start().await else {
        return;
    };
    // A short time to live keeps the requests coming to Redis.
    let server = server_with(&[
        ("REDIS_URL", &redis.url()),
        ("CODELAB_AGENT_CACHE__TTL_SECONDS", "1"),
    ])
    .await;
    server.model.default_reply(Reply::text("Done."));
    let me = Person::user(&server, 1);
    let project = me.project("p").await;
    let (stop, answered) = (
        Arc::new(AtomicBool::new(false)),
        Arc::new(AtomicU64::new(0)),
    );
    let mut callers = Vec::new();
    for _ in 0..4 {
        let (me, session, stop, answered) = (
            me.clone(),
            me.session(project).await,
            stop.clone(),
            answered.clone(),
        );
        callers.push(tokio::spawn(async move {
            while !stop.load(Ordering::Relaxed) {
                me.say(&session, "coder", "go").await.expect(200);
                answered.fetch_add(1, Ordering::Relaxed);
            }
        }));
    }
    let more = async || {
        let before = answered.load(Ordering::Relaxed);
        eventually("requests are answered", async || {
            let now = answered.load(Ordering::Relaxed);
            if now >= before + 20 { Ok(()) } else { Err(now) }
        })
        .await;
    };
    let well = json!({ "status": "healthy", "cache": "healthy" });
    let without = json!({ "status": "degraded", "cache": "degraded" });
    for _ in 0..2 {
        until("with Redis", well.clone(), async || health(&server).await).await;
        more().await;
        redis.kill().await;
        until("without Redis", without.clone(), async || {
            health(&server).await
        })
        .await;
        let space = me
            .get(&format!("/my/projects/{project}/worker-space/health"))
            .await
            .expect(200);
        assert_eq!(
            (&space["status"], &space["checks"]["cache"]["status"]),
            (&json!("degraded"), &json!("degraded"))
        );
        more().await;
        eventually("the alert", async || {
            let alerts = metric(&server, "codelab_alerts_total{kind=\"cache\"}").await;
            if alerts >= 1.0 { Ok(()) } else { Err(alerts) }
        })
        .await;
        // A change is used at once, Redis or not.
        let agent = me.agent(project, "agent_writer").await;
        let model = format!("model-{}", answered.load(Ordering::Relaxed));
        me.patch(
            &format!("/my/projects/{project}/agents/{agent}"),
            json!({ "model": model }),
        )
        .await
        .expect(200);
        me.say(&me.session(project).await, "writer", "go")
            .await
            .expect(200);
        assert!(
            server
                .model
                .requests()
                .iter()
                .any(|request| request.body["model"] == model.as_str())
        );
        redis.restart().await;
    }
    until("with Redis again", well, async || health(&server).await).await;
    more().await;
    stop.store(true, Ordering::Relaxed);
    for caller in callers {
        caller.await.unwrap();
    }
}

async fn heard(what: &str, mut look: impl AsyncFnMut() -> bool) {
    let began = Instant::now();
    while !look().await {
        assert!(began.elapsed() < HEARD_WITHIN, "not heard of: {what}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_server_uses_a_changed_agent_within_a_second() {
    let Some(redis) = Redis::start().await else {
        return;
    };
    let Some(database) = OwnDatabase::make("agents_shared").await else {
        return;
    };
    let (redis_url, database_url) = (redis.url(), database.url.clone());
    let (cache, secret) = (("REDIS_URL", redis_url.as_str()), ("JWT_SECRET", SECRET));
    let mut one = TestServer::member(&database_url, &[cache, secret]).await;
    let model = one.model.url();
    let mut two =
        TestServer::member(&database_url, &[cache, secret, ("LLM_PROXY_URL", &model)]).await;
    let refused = TestServer::try_with(&[cache, ("DATABASE_URL", &database_url)])
        .await
        .err()
        .expect("each would break the other's audit log");
    assert!(
        refused.to_string().contains("CODELAB_MASTER_KEY"),
        "{refused}"
    );
    one.model.default_reply(Reply::text("Done."));
    let (here, there) = (Person::user(&one, 1), Person::user(&two, 1));
    let project = here.project("p").await;
    let session = there.session(project).await;
    let agent = here.agent(project, "agent_coder").await;
    let path = format!("/my/projects/{project}/agents/{agent}");
    for number in 1..=5 {
        there.say(&session, "coder", "go").await.expect(200);
        let (model, prompt) = (
            format!("model-{number}"),
            format!("You are number {number}."),
        );
        let temperature = f64::from(number) / 8.0;
        let change = json!({ "model": model, "temperature": temperature, "system_prompt": prompt });
        here.patch(&path, change).await.expect(200);
        heard(&model, async || {
            there.say(&session, "coder", "go").await.expect(200);
            let asked = one.model.requests().pop().unwrap();
            let is_new = asked.body["model"] == model.as_str();
            assert!(
                !is_new
                    || asked.temperature() == temperature
                        && asked.system_prompt().contains(&prompt)
            );
            is_new
        })
        .await;
    }
    // Out of service on one server, the agent accepts nothing on the other; the same after its deletion.
    here.tell(project, "agent_coder", "deregister")
        .await
        .expect(200);
    heard("deregistered", async || {
        there.say(&session, "coder", "go").await.status == 503
    })
    .await;
    here.tell(project, "agent_coder", "register")
        .await
        .expect(200);
    heard("registered", async || {
        there.say(&session, "coder", "go").await.status == 200
    })
    .await;
    here.delete(&path).await.expect(204);
    heard("deleted", async || {
        there.say(&session, "coder", "go").await.status == 404
    })
    .await;
    one.stop().await;
    two.stop().await;
    database.remove().await;
}
