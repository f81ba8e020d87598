//! The present program reads and continues what earlier releases stored.
//!
//! Each folder beside this file is the data of one release, stopped in the middle of its work.
//! `scripts/fixture` makes the folder of the next one.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test fails by panicking, and says which data it reads"
)]

mod fixture;
mod go_on;
mod lab;
mod make;
mod read;
mod script;

use std::path::{Path, PathBuf};

use codelab_fakemodel::{Gate, Reply};
use codelab_testkit::OwnDatabase;
use fixture::Fixture;
use lab::{Caller, Lab};
use read::Known;

fn this_program() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_codelab"))
}

/// Makes a fixture with the present program and upgrades it, so that making one works on the day
/// of a release. With `CODELAB_FIXTURE_OUT` it is kept in that folder, and
/// `CODELAB_FIXTURE_PROGRAM` names another program to make it with.
#[tokio::test(flavor = "multi_thread")]
async fn a_fixture_of_this_version_can_be_made() {
    let given = |name| std::env::var_os(name).map(PathBuf::from);
    let program = given("CODELAB_FIXTURE_PROGRAM").unwrap_or_else(|| this_program().to_owned());
    let scratch = tempfile::tempdir().unwrap();
    let folder = given("CODELAB_FIXTURE_OUT").unwrap_or_else(|| scratch.path().join("made"));
    let mut lab = Lab::prepare(&program, &[]).await;
    let notes = make::make(&mut lab).await;
    let fixture = Fixture::at(folder);
    fixture.write(&lab.data_dir(), &notes);
    upgrade(&fixture, None).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn data_of_released_versions_is_read_and_continued() {
    let released = Fixture::released();
    assert!(!released.is_empty(), "there are fixtures");
    for (version, fixture) in released {
        println!("data of {version} on SQLite");
        upgrade(&fixture, None).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn data_of_released_versions_is_read_and_continued_on_postgres() {
    for (version, fixture) in Fixture::released() {
        let name = format!("upgrade_{}", version.replace('.', "_"));
        let Some(database) = OwnDatabase::make(&name).await else {
            return;
        };
        println!("data of {version} on PostgreSQL");
        upgrade(&fixture, Some(&database)).await;
        database.remove().await;
    }
}

/// Starts the present program on a copy of the fixture, reads every session, continues what is
/// open, and sends each session a new message.
async fn upgrade(fixture: &Fixture, postgres: Option<&OwnDatabase>) {
    let settings: Vec<(&str, &str)> = postgres
        .iter()
        .map(|database| ("DATABASE_URL", database.url.as_str()))
        .collect();
    let mut lab = Lab::prepare(this_program(), &settings).await;
    fixture.restore(&lab.data_dir(), postgres).await;
    let gate = Gate::new();
    gate.open();
    script::write(&lab.model, &gate);
    lab.model.on(
        |body| body["messages"].to_string().contains(script::FAIL),
        Reply::text(script::ANSWER),
    );
    lab.start().await;
    verify_audit(&lab).await;

    let users = [lab.user(1).await, lab.user(2).await];
    let known = |note: fixture::SessionNote| {
        let user = note.user_id.map(|user| users[user as usize - 1].clone());
        let caller = user.unwrap_or(Caller::Internal);
        Known { note, caller }
    };
    let sessions: Vec<Known> = fixture.notes().into_iter().map(known).collect();
    read::check(&lab, &sessions, &fixture.stored()).await;
    for session in sessions.iter().filter(|session| !session.is_deleted()) {
        let label = session.note.label.as_str();
        match label {
            "claimed" => go_on::check_claim(&lab, session).await,
            "unclaimed" => go_on::cancel(&lab, session).await,
            _ => {}
        }
        go_on::finish(&lab, session).await;
        match label {
            "plan-half" | "plan-partial" => go_on::retry(&lab, session).await,
            "idle" | "rt-idle" => go_on::check_remembered(&lab, session).await,
            _ => {}
        }
        go_on::say_hello(&lab, session).await;
    }
    go_on::check_the_rest(&lab, &sessions).await;
    verify_audit(&lab).await;
    lab.kill().await;
}

async fn verify_audit(lab: &Lab) {
    let output = lab.run(&["audit", "verify"]).await;
    assert!(output.status.success(), "{output:?}");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.starts_with("audit log whole"), "{said}");
}
