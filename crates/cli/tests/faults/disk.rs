//! A disk that runs full under the server, and has room again.

use std::fs::File;
use std::io::{ErrorKind, Write as _};
use std::path::PathBuf;
use std::process::Command;

use codelab_client::Method;
use codelab_fakemodel::{Gate, Reply};
use codelab_protocol::{Role, TurnStatus};
use codelab_testkit::{eventually, id};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::chat::{Chat, is_planning, last_message, statuses, task};
use crate::lab::{Lab, approval, refusal, to_coder, told};
use crate::process::{ran, refused};

const DISK: &str = "size=6m";
/// More messages than fit into what a write-ahead log has left in its last pages.
const MAX_LAST_MESSAGES: usize = 64;

#[tokio::test]
async fn a_full_disk_refuses_loses_nothing_and_recovers_without_help() {
    let Some(disk) = SmallDisk::mount() else {
        return;
    };
    let mut lab = Lab::prepare(&[]).await;
    lab.set_data_dir(&disk.folder());
    lab.boot().await;
    let gate = Gate::new();
    lab.model.on(
        |body| said(body, "waits"),
        Reply::text("It was worth it.").hold(&gate),
    );
    lab.model.on(
        |body| said(body, "write"),
        Reply::tool_call("write_file", json!({"path": "a.txt", "content": "x"})),
    );
    lab.model.default_reply(Reply::text("Noted."));

    lab.say("s", "the first message").await;
    let asked = lab.say("asking", "please write").await;
    let waiting = lab
        .client()
        .send(&to_coder("waiting", "one that waits"))
        .await
        .unwrap();
    gate.reached().await;

    disk.fill();
    let mut taken = vec!["the first message".to_owned()];
    taken.extend(fill_the_log(&lab).await);
    everything_else_goes_on(&lab).await;
    let decision = lab
        .client()
        .send(&approval("asking", &asked.call_id()))
        .await;
    assert_eq!(refusal(decision), full());
    assert_eq!(
        lab.pending("asking").await.len(),
        1,
        "a decision that was not stored is not made"
    );
    // The model answers into a full disk: nobody is told before it is stored.
    gate.open();
    lab.model.wait_until_in_flight(0).await;
    assert_eq!(lab.said_by(Role::Assistant, "waiting").await, [""; 0]);
    // Whoever waits for the turn is told so instead of silence.
    let told = told(waiting).await;
    assert_eq!(told.error().error_code.as_str(), "DB_WRITE_ERROR");
    let message = &told.error().message;
    assert!(
        message.contains("disk is full")
            && message.contains("accepted")
            && message.contains("tried again")
    );
    let outages = lab.logged("the database cannot be written");
    assert_eq!(
        outages.len(),
        1,
        "one line for the outage, whatever it refused: {outages:?}"
    );

    disk.free();
    let rest = lab
        .until_done("waiting", told.ids().last().copied().unwrap())
        .await;
    assert_eq!(
        rest.status(),
        TurnStatus::Completed,
        "it completes by itself, for whoever comes back"
    );
    healthy_again(&lab).await;
    assert_eq!(
        lab.say("s", "there is room again").await.status(),
        TurnStatus::Completed
    );
    taken.push("there is room again".to_owned());
    assert_eq!(
        lab.approve("asking", &asked.call_id()).await.status(),
        TurnStatus::AwaitingToolResult
    );

    whole(&lab, &taken).await;
    lab.crash().await;
    whole(&lab, &taken).await;
    lab.kill().await;
    undamaged(&lab).await;
}

#[tokio::test]
async fn answers_of_parallel_tasks_into_a_full_disk_are_all_kept() {
    let Some(disk) = SmallDisk::mount() else {
        return;
    };
    let mut lab = Lab::prepare(&[]).await;
    lab.set_data_dir(&disk.folder());
    lab.boot().await;
    let (first, second) = (Gate::new(), Gate::new());
    lab.model.default_reply(Reply::text("Noted."));
    lab.model.on(
        |body| asked(body, "Do a."),
        Reply::text("A is done.").hold(&first),
    );
    lab.model.on(
        |body| asked(body, "Do b."),
        Reply::text("B is done.").hold(&second),
    );
    let tasks = [
        task("a", "coder", "Do a.", &[]),
        task("b", "writer", "Do b.", &[]),
    ];
    lab.model.on(
        is_planning,
        Reply::text(json!({ "tasks": tasks }).to_string()),
    );
    lab.say("s", "the first message").await;
    let chat = Chat::new(&lab).await;
    chat.post(&lab, "message/", json!({ "content": "Build both" }))
        .await;
    first.reached().await;
    second.reached().await;

    disk.fill();
    fill_the_log(&lab).await;
    let refused = refused_commits(&lab).await;
    first.open();
    second.open();
    lab.model.wait_until_in_flight(0).await;
    eventually("both answers were tried, and again", async || {
        let now = refused_commits(&lab).await;
        if now >= refused + 8 { Ok(()) } else { Err(now) }
    })
    .await;

    disk.free();
    let plan = chat.plan_that_is(&lab, &["completed"]).await;
    assert_eq!(statuses(&plan), ["completed", "completed"]);
    assert_eq!(
        (&plan["tasks"][0]["result"], &plan["tasks"][1]["result"]),
        (&json!("A is done."), &json!("B is done."))
    );
    for word in ["Do a.", "Do b."] {
        let calls = lab
            .model
            .requests()
            .iter()
            .filter(|request| asked(&request.body, word))
            .count();
        assert_eq!(calls, 1, "{word} was answered and paid once");
    }
}

#[tokio::test]
async fn a_server_killed_on_a_full_disk_says_so_and_starts_once_there_is_room() {
    let Some(disk) = SmallDisk::mount() else {
        return;
    };
    let mut lab = Lab::prepare(&[]).await;
    lab.set_data_dir(&disk.folder());
    lab.boot().await;
    lab.model.default_reply(Reply::text("Noted."));
    lab.say("s", "the first message").await;
    disk.fill();
    let mut taken = vec!["the first message".to_owned()];
    taken.extend(fill_the_log(&lab).await);
    lab.kill().await;

    let folder = lab.data_dir().to_str().unwrap().to_owned();
    let complaint = refused(
        &["serve", "--addr", "127.0.0.1:0", "--data-dir", &folder],
        &lab.settings,
    )
    .await;
    assert!(
        complaint.contains("disk") && complaint.contains("full"),
        "{complaint}"
    );
    disk.free();
    lab.boot().await;
    lab.say("s", "there is room again").await;
    taken.push("there is room again".to_owned());
    assert_eq!(lab.said_by(Role::User, "s").await, taken);
    lab.kill().await;
    undamaged(&lab).await;
}

/// How often the database refused a step so far.
async fn refused_commits(lab: &Lab) -> u64 {
    let answer = lab
        .client()
        .raw(Method::GET, "/metrics", &[], String::new())
        .await
        .unwrap();
    let text = String::from_utf8(answer.body.to_vec()).unwrap();
    let lines = text
        .lines()
        .filter(|line| line.starts_with("codelab_commit_failures_total{"));
    lines
        .map(|line| line.rsplit_once(' ').unwrap().1.parse::<u64>().unwrap())
        .sum()
}

fn full() -> (u16, String) {
    (507, "DB_WRITE_ERROR".to_owned())
}

fn said(body: &Value, word: &str) -> bool {
    last_message(body).contains(word)
}

/// A task's step, and not the joining of its result.
fn asked(body: &Value, description: &str) -> bool {
    last_message(body).ends_with(description)
}

/// Sends until the first message is refused, and gives those that were acknowledged before.
async fn fill_the_log(lab: &Lab) -> Vec<String> {
    let mut taken = Vec::new();
    for number in 0..MAX_LAST_MESSAGES {
        let text = format!("message {number} on a full disk");
        match lab.client().send(&to_coder("s", &text)).await {
            Ok(stream) => {
                taken.push(text);
                drop(stream);
            }
            Err(error) => {
                assert_eq!(refusal(Err::<(), _>(error)), full());
                return taken;
            }
        }
    }
    panic!("{MAX_LAST_MESSAGES} messages fit on a full disk");
}

/// New things are refused, old ones can be read.
async fn everything_else_goes_on(lab: &Lab) {
    assert_eq!(
        refusal(lab.client().send(&to_coder("new", "hello")).await),
        full()
    );
    let body = json!({"session_id": "made"}).to_string();
    let headers = [("content-type", "application/json")];
    let answer = lab
        .client()
        .raw(Method::POST, "/sessions", &headers, body)
        .await
        .unwrap();
    let answer_body: Value = serde_json::from_slice(&answer.body).unwrap();
    assert_eq!(
        (answer.status, answer_body["error_code"].as_str()),
        (507, Some("DB_WRITE_ERROR"))
    );
    let (status, health) = lab.look("/health").await;
    assert_eq!(
        (status, &health["status"]),
        (200, &json!("unhealthy")),
        "{health}"
    );
    assert_eq!(
        health["checks"]["database"]["detail"],
        "the disk of the database is full"
    );
    assert_eq!(lab.look("/health/ready").await.0, 503);
    assert_eq!(
        lab.look("/health/live").await,
        (200, json!({ "status": "alive" }))
    );
    for _ in 0..20 {
        assert_eq!(
            refusal(lab.client().send(&to_coder("new", "hello")).await),
            full()
        );
    }
    assert_eq!(lab.said_by(Role::User, "s").await[0], "the first message");
    let ids: Vec<String> = lab
        .client()
        .sessions(None, None)
        .await
        .unwrap()
        .sessions
        .iter()
        .map(|s| s.session_id.to_string())
        .collect();
    assert!(
        !ids.contains(&"new".to_owned()) && !ids.contains(&"made".to_owned()),
        "{ids:?}"
    );
}

async fn healthy_again(lab: &Lab) {
    eventually("the server is ready again", async || {
        match lab.look("/health/ready").await {
            (200, _) => Ok(()),
            unready => Err(unready),
        }
    })
    .await;
}

/// What was acknowledged is there once, in order; what was refused is nowhere.
async fn whole(lab: &Lab, taken: &[String]) {
    assert_eq!(lab.said_by(Role::User, "s").await, taken);
    assert_eq!(
        lab.said_by(Role::Assistant, "waiting").await,
        ["It was worth it."]
    );
    let audit = lab.client().audit(&id("asking")).await.unwrap();
    assert!(audit.verified);
    assert_eq!(audit.audit.len(), 1);
    for session in ["s", "waiting", "asking"] {
        lab.log(session).await;
    }
}

async fn undamaged(lab: &Lab) {
    let folder = lab.data_dir().to_str().unwrap();
    let verdict = ran(&["audit", "verify", "--data-dir", folder], &[]).await;
    assert!(verdict.starts_with("audit log whole"), "{verdict}");
    let connection = rusqlite::Connection::open(lab.data_dir().join("codelab.db")).unwrap();
    let verdict: String = connection
        .query_row("PRAGMA integrity_check", [], |row| row.get(0))
        .unwrap();
    assert_eq!(verdict, "ok");
}

/// A file system of a few megabytes, in memory.
pub struct SmallDisk {
    place: TempDir,
}

impl SmallDisk {
    /// `None`, and a line that says so, where file systems may not be mounted.
    pub fn mount() -> Option<Self> {
        let place = tempfile::tempdir().unwrap();
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", DISK, "codelab-test"])
            .arg(place.path())
            .output();
        match mounted {
            Ok(output) if output.status.success() => Some(Self { place }),
            _ => {
                println!("skipped: a small disk cannot be mounted here");
                None
            }
        }
    }

    pub fn folder(&self) -> PathBuf {
        self.place.path().join("data")
    }

    fn filler(&self) -> PathBuf {
        self.place.path().join("filler")
    }

    pub fn fill(&self) {
        let mut file = File::create(self.filler()).unwrap();
        for piece_bytes in [64 * 1024, 4096] {
            loop {
                match file.write_all(&vec![0; piece_bytes]) {
                    Ok(()) => {}
                    Err(error) if error.kind() == ErrorKind::StorageFull => break,
                    Err(error) => panic!("{error}"),
                }
            }
        }
    }

    fn free(&self) {
        std::fs::remove_file(self.filler()).unwrap();
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let unmounted = Command::new("umount")
            .arg("--lazy")
            .arg(self.place.path())
            .status();
        if !unmounted.is_ok_and(|status| status.success()) {
            eprintln!("{} stays mounted", self.place.path().display());
        }
    }
}
