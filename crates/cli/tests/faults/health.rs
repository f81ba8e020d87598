//! What `/health` says while something that the server needs hangs.

use std::time::{Duration, Instant};

use codelab_fakemodel::{Gate, Reply};
use codelab_protocol::TurnStatus;
use codelab_testkit::eventually;
use serde_json::{Value, json};

use crate::lab::{Lab, to_coder, told};

/// Two seconds, and what a busy machine needs to ask.
const TOLD_WITHIN: Duration = Duration::from_secs(4);
/// A look at the health never takes longer, whatever hangs.
const ANSWERED_WITHIN: Duration = Duration::from_secs(2);

#[tokio::test]
async fn a_database_that_hangs_is_told_and_so_are_a_lapsed_lease_and_whoever_waits() {
    let lab = Lab::start().await;
    let gate = Gate::new();
    lab.model
        .default_reply(Reply::text("It was worth it.").hold(&gate));
    let waiting = lab
        .client()
        .send(&to_coder("waiting", "one that waits"))
        .await
        .unwrap();
    gate.reached().await;
    assert_eq!(lab.look("/health/ready").await.0, 200);

    // Somebody else holds the database and does not let go.
    let other = rusqlite::Connection::open(lab.data_dir().join("codelab.db")).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let begun = Instant::now();
    let health = until(&lab, "database", "unhealthy").await;
    assert!(
        begun.elapsed() < TOLD_WITHIN,
        "told after {:?}",
        begun.elapsed()
    );
    println!("told after {:?}", begun.elapsed());
    assert_eq!(health["status"], "unhealthy");
    let asked = Instant::now();
    let (status, health) = lab.look("/health/ready").await;
    assert_eq!((status, &health["status"]), (503, &json!("unhealthy")));
    assert!(
        asked.elapsed() < ANSWERED_WITHIN,
        "answered after {:?}",
        asked.elapsed()
    );
    assert_eq!(
        lab.look("/health/live").await,
        (200, json!({ "status": "alive" }))
    );

    gate.open();
    let told = told(waiting).await;
    assert_eq!(
        told.error().error_code.as_str(),
        "DB_CONNECTION_ERROR",
        "{:?}",
        told.error()
    );
    until(&lab, "lease", "unhealthy").await;

    other.execute_batch("ROLLBACK").unwrap();
    until(&lab, "database", "healthy").await;
    until(&lab, "lease", "healthy").await;
    assert_eq!(lab.look("/health/ready").await.0, 200);
    let rest = lab
        .until_done("waiting", told.ids().last().copied().unwrap())
        .await;
    assert_eq!(
        rest.status(),
        TurnStatus::Completed,
        "what could not be stored is stored now"
    );
    // However many writes it refused.
    let outages = lab.logged("the database cannot be");
    assert_eq!(outages.len(), 1, "{outages:?}");
}

/// `/health`, once this check stands like this. It stays 200 all the time.
async fn until(lab: &Lab, check: &str, wanted: &str) -> Value {
    eventually(&format!("{check} is {wanted}"), async || {
        let (status, health) = lab.look("/health").await;
        assert_eq!(status, 200, "{health}");
        if health["checks"][check]["status"] == wanted {
            Ok(health)
        } else {
            Err(health)
        }
    })
    .await
}
