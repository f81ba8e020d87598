//! Which mode a message has, what is counted of it, and what the log says.

use codelab_testkit::Reply;
use serde_json::json;

use crate::kit::{Person, is_planning, metric, server, task, tasks};

#[tokio::test]
async fn detecting_direct_mode() {
    let server = server().await;
    let session = Person::new(&server, 1).session().await;
    assert_eq!(
        session.call("coder", "go").await.expect(200)["mode"],
        "direct"
    );
    assert!(
        !server
            .model
            .requests()
            .iter()
            .any(|request| is_planning(&request.body))
    );
    assert_eq!(session.log().await.all("direct_agent_call").len(), 1);
}

#[tokio::test]
async fn detecting_orchestrated_mode() {
    let server = server().await;
    let session = Person::new(&server, 1).session().await;
    server
        .model
        .on(is_planning, Reply::text(tasks(&[task("a", "coder", &[])])));
    for body in [
        json!({ "content": "go" }),
        json!({ "content": "go", "target_agent": null }),
    ] {
        let accepted = session.send(body).await.expect(202);
        assert_eq!(accepted["mode"], "orchestrated");
        session
            .wait_for("workflow_completed", |data| {
                data["workflow_id"] == accepted["workflow_id"]
            })
            .await;
    }
    assert_eq!(session.log().await.all("task_plan_created").len(), 2);
    assert!(!session.log().await.kinds().contains(&"direct_agent_call"));
}

#[tokio::test]
async fn metrics_by_mode() {
    let server = server().await;
    let session = Person::new(&server, 1).session().await;
    server
        .model
        .on(is_planning, Reply::text(tasks(&[task("a", "coder", &[])])));
    let body = json!({ "content": "go", "target_agent": "coder", "client_message_id": "m" });
    for _ in 0..3 {
        session.send(body.clone()).await.expect(200);
    }
    session.call("coder", "again").await.expect(200);
    server.model.reply(Reply::status(400, "no"));
    session.call("coder", "fails").await.expect(502);
    session
        .call("nobody", "refused")
        .await
        .refused(404, "AGENT_NOT_FOUND");
    session.stream_plan("Build it").await.all().await;
    assert_eq!(
        metric(&server, "codelab_direct_calls_total").await,
        3.0,
        "repeats and refusals are no calls"
    );
    assert_eq!(
        metric(&server, "codelab_orchestrated_calls_total").await,
        1.0
    );
    assert_eq!(
        metric(
            &server,
            "codelab_call_duration_seconds_count{mode=\"direct\"}"
        )
        .await,
        3.0
    );
    assert_eq!(
        metric(
            &server,
            "codelab_call_duration_seconds_count{mode=\"orchestrated\"}"
        )
        .await,
        1.0
    );
    assert!(
        metric(
            &server,
            "codelab_call_duration_seconds_sum{mode=\"direct\"}"
        )
        .await
            > 0.0
    );
    let space = session
        .get(&format!("/my/projects/{}/worker-space/", session.project))
        .await
        .expect(200);
    assert_eq!(
        (
            &space["direct_calls_count"],
            &space["orchestrated_calls_count"]
        ),
        (&json!(3), &json!(1))
    );
    assert!(space["average_duration"]["direct"].as_f64().unwrap() > 0.0);
    assert!(space["average_duration"]["orchestrated"].as_f64().unwrap() > 0.0);
}

/// The log is a process's own, so the server runs in one of its own.
#[test]
fn logging_the_mode_choice() {
    const NAME: &str = "modes::logging_the_mode_choice";
    const CHILD: &str = "CODELAB_TEST_LOGS";
    if std::env::var_os(CHILD).is_none() {
        let mut child = std::process::Command::new(std::env::current_exe().unwrap());
        let output = child
            .args([NAME, "--exact", "--nocapture"])
            .env(CHILD, "1")
            .output()
            .unwrap();
        let log = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.success(), "{log}");
        let said = |mode: &str| {
            let line = log
                .lines()
                .find(|line| line.contains(&format!("mode=\"{mode}\"")));
            let line = line.unwrap_or_else(|| panic!("no line about {mode}:\n{log}"));
            assert!(
                line.contains("session=") && line.contains("INFO") && line.starts_with("20"),
                "{line}"
            );
        };
        said("direct");
        said("orchestrated");
        assert!(
            !log.contains("what-was-said"),
            "what people say is not logged"
        );
        return;
    }
    tracing_subscriber::fmt()
        .with_ansi(false)
        .with_writer(std::io::stderr)
        .init();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let server = server().await;
        let session = Person::new(&server, 1).session().await;
        session.call("coder", "what-was-said").await.expect(200);
        session.stream_plan("what-was-said").await.all().await;
    });
}
