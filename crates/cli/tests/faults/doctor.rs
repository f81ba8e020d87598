//! `codelab doctor` against set-ups that are broken in one way each, and against one that is not.

use std::net::TcpListener;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::time::{Duration, Instant};

use codelab_fakemodel::{FakeModel, Reply};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt as _, BufReader};

use crate::disk::SmallDisk;
use crate::lab::Lab;
use crate::process::{DEADLINE, serve};

mod machine;
mod old;

use machine::{another_users_folder, no_sandbox};
use old::{old_database, on_postgres};

/// Each try of the doctor; all of it takes little more.
const LIMIT_SECONDS: u64 = 8;
/// In every secret of these set-ups.
const CANARY: &str = "canary";
const KEY: &str = "canary-internal-key-of-more-than-32-bytes";
const MASTER_KEY: &str = "canary-master-key-of-more-than-32-bytes";
const MODEL_KEY: &str = "canary-model-key";
const NOBODY: u32 = 65534;
/// Parts whose state is this machine's, and not what these tests are about.
const OF_THE_MACHINE: [&str; 3] = ["sandbox", "disk", "open files"];

/// What the doctor is asked about.
#[derive(Clone)]
struct Setup {
    settings: Vec<(String, String)>,
    data_dir: PathBuf,
    /// A program that becomes the doctor.
    through: Vec<&'static str>,
    as_nobody: bool,
}

/// What it must say.
struct Said {
    check: &'static str,
    status: &'static str,
    /// Parts of what was found, and of what to do.
    found: &'static [&'static str],
    advice: &'static str,
}

impl Setup {
    fn with(&self, name: &str, value: &str) -> Self {
        let mut changed = self.clone();
        changed.settings.retain(|(old, _)| old != name);
        changed.settings.push((name.to_owned(), value.to_owned()));
        changed
    }

    fn without(&self, name: &str) -> Self {
        let mut changed = self.clone();
        changed.settings.retain(|(old, _)| old != name);
        changed
    }

    fn at(&self, data_dir: &Path) -> Self {
        Self {
            data_dir: data_dir.to_owned(),
            ..self.clone()
        }
    }

    fn through(&self, program: &[&'static str]) -> Self {
        Self {
            through: program.to_vec(),
            ..self.clone()
        }
    }

    async fn run(&self, arguments: &[&str]) -> Output {
        let program = [
            &self.through[..],
            &[env!("CARGO_BIN_EXE_codelab"), "doctor"],
        ]
        .concat();
        let mut command = std::process::Command::new(program[0]);
        command
            .args(&program[1..])
            .args(arguments)
            .arg("--data-dir")
            .arg(&self.data_dir);
        command
            .env_clear()
            .envs(self.settings.iter().cloned())
            .stdin(Stdio::null());
        if self.as_nobody {
            command.uid(NOBODY).gid(NOBODY);
        }
        let begun = Instant::now();
        let ended = tokio::process::Command::from(command)
            .kill_on_drop(true)
            .output();
        let output = tokio::time::timeout(DEADLINE, ended)
            .await
            .expect("the doctor ends")
            .unwrap();
        assert!(
            begun.elapsed() < Duration::from_secs(LIMIT_SECONDS + 4),
            "the doctor ends in time"
        );
        for stream in [&output.stdout, &output.stderr] {
            assert!(
                !String::from_utf8_lossy(stream).contains(CANARY),
                "a secret: {output:?}"
            );
        }
        output
    }

    /// Its JSON, and whether it says that CodeLab can be used.
    async fn asked(&self) -> (Value, bool) {
        let limit = LIMIT_SECONDS.to_string();
        let output = self.run(&["--json", "--timeout", &limit]).await;
        let said = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"));
        (said, output.status.code() == Some(0))
    }
}

fn line<'a>(said: &'a Value, check: &str) -> &'a Value {
    let checks = said["checks"].as_array().unwrap();
    checks
        .iter()
        .find(|line| line["check"] == check)
        .unwrap_or_else(|| panic!("nothing about {check}: {said}"))
}

fn judge(name: &str, (said, is_usable): &(Value, bool), wanted: &Said) {
    let line = line(said, wanted.check);
    assert_eq!(line["status"], wanted.status, "{name}: {said:#}");
    for part in wanted.found {
        assert!(
            line["found"].as_str().unwrap().contains(part),
            "{name}: {line:#}"
        );
    }
    let advice = line["advice"]
        .as_str()
        .unwrap_or_else(|| panic!("{name}: no advice in {line:#}"));
    assert!(advice.contains(wanted.advice), "{name}: {line:#}");
    let has_problem = said["checks"]
        .as_array()
        .unwrap()
        .iter()
        .any(|line| line["status"] == "problem");
    assert_eq!(*is_usable, !has_problem, "{name}: {said:#}");
    // The one thing that is broken is the only one that is named.
    for other in said["checks"].as_array().unwrap() {
        let check = other["check"].as_str().unwrap();
        let is_expected =
            check == wanted.check || OF_THE_MACHINE.contains(&check) || other["status"] == "ok";
        assert!(is_expected, "{name}: {other:#}");
    }
}

/// A server ran here once, and is stopped; a model answers.
struct Clinic {
    setup: Setup,
    lab: Lab,
    scratch: TempDir,
}

impl Clinic {
    async fn open() -> Self {
        let mut lab = Lab::prepare(&[
            ("INTERNAL_API_KEY", KEY),
            ("CODELAB_MASTER_KEY", MASTER_KEY),
        ])
        .await;
        lab.settings
            .push(("LLM_API_KEY".to_owned(), MODEL_KEY.to_owned()));
        lab.settings
            .push(("PATH".to_owned(), std::env::var("PATH").unwrap()));
        lab.model.default_reply(Reply::text("OK."));
        lab.boot().await;
        let mut settings = lab.settings.clone();
        settings.push(("CODELAB_ADDR".to_owned(), "127.0.0.1:0".to_owned()));
        let setup = Setup {
            settings,
            data_dir: lab.data_dir().to_owned(),
            through: Vec::new(),
            as_nobody: false,
        };
        Self {
            setup,
            lab,
            scratch: tempfile::tempdir().unwrap(),
        }
    }

    async fn stop_the_server(&mut self) {
        let server = self.lab.take_server();
        server.terminate().await;
        assert!(server.ended().await.success());
    }
}

async fn model_that_says(reply: Reply) -> FakeModel {
    let model = FakeModel::start().await;
    model.default_reply(reply);
    model
}

/// An address where nothing listens.
fn dead_address() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().to_string()
}

/// Everything beneath a folder, with what a change would change.
fn contents(folder: &Path) -> Vec<(PathBuf, u64, i64, u32)> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let data = std::fs::symlink_metadata(&path).unwrap();
        found.push((path.clone(), data.len(), data.mtime_nsec(), data.mode()));
        if data.is_dir() {
            found.extend(contents(&path));
        }
    }
    found.sort();
    found
}

#[tokio::test]
async fn a_healthy_set_up_is_well_with_and_without_its_server_and_is_left_as_it_was() {
    let mut clinic = Clinic::open().await;
    for is_running in [true, false] {
        if !is_running {
            clinic.stop_the_server().await;
        }
        let before = contents(&clinic.setup.data_dir);
        let (said, is_usable) = clinic.setup.asked().await;
        for line in said["checks"].as_array().unwrap() {
            let is_well =
                line["status"] == "ok" || OF_THE_MACHINE.contains(&line["check"].as_str().unwrap());
            assert!(is_well, "{line:#}");
        }
        assert!(is_usable, "{said:#}");
        let server = line(&said, "server")["found"].as_str().unwrap();
        assert_eq!(server.contains("is healthy"), is_running, "{server}");
        assert!(
            line(&said, "secrets")["found"]
                .as_str()
                .unwrap()
                .contains("fits the database"),
            "{said:#}"
        );
        if !is_running {
            assert_eq!(
                contents(&clinic.setup.data_dir),
                before,
                "nothing was made or changed"
            );
        }
    }
    let output = clinic.setup.run(&[]).await;
    let text = String::from_utf8(output.stdout).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    assert!(
        lines
            .iter()
            .any(|line| line.starts_with("ok       model        gpt-4 at http://127.0.0.1:")),
        "{text}"
    );
    let has_warnings = lines.iter().any(|line| line.starts_with("warning"));
    assert!(
        has_warnings || lines.last() == Some(&"All is well."),
        "{text}"
    );
    let call = clinic.lab.model.requests().pop().unwrap();
    assert_eq!(
        (&call.body["max_tokens"], call.header("authorization")),
        (&json!(16), Some("Bearer canary-model-key"))
    );
    // Where nothing is yet, nothing is made.
    let folder = clinic.scratch.path().join("new");
    let (said, is_usable) = clinic
        .setup
        .at(&folder)
        .without("CODELAB_MASTER_KEY")
        .asked()
        .await;
    assert!(is_usable && !folder.exists(), "{said:#}");
}

#[tokio::test]
async fn the_model_of_a_running_server_is_tried_where_this_shell_has_none() {
    let clinic = Clinic::open().await;
    let setup = clinic
        .setup
        .at(&clinic.setup.data_dir)
        .without("LLM_PROXY_URL")
        .without("LLM_API_KEY");
    let (said, is_usable) = setup.asked().await;
    let found = line(&said, "model");
    assert_eq!(found["status"], "ok", "{found:#}");
    let text = found["found"].as_str().unwrap();
    assert!(
        text.starts_with("gpt-4, the model of the running server at http://"),
        "{text}"
    );
    assert!(is_usable, "{said:#}");
    let refusal = json!({"error": {"message": "Incorrect API key", "code": "invalid_api_key"}});
    clinic
        .lab
        .model
        .default_reply(Reply::status(401, refusal.to_string()));
    let (said, is_usable) = setup.asked().await;
    let found = line(&said, "model");
    assert_eq!(found["status"], "problem", "{found:#}");
    assert!(found["advice"].as_str().unwrap().contains("LLM_API_KEY"));
    assert!(!is_usable, "{said:#}");
}

#[tokio::test]
async fn a_model_that_does_not_work_is_named() {
    let mut clinic = Clinic::open().await;
    clinic.stop_the_server().await;
    // Providers repeat the key that they refuse.
    let refusal = json!({"error": {"message": format!("Incorrect API key provided: {MODEL_KEY}")}})
        .to_string();
    let refuses = model_that_says(Reply::status(401, refusal)).await;
    // LiteLLM without a database cannot look the key up.
    let refusal = json!({"error": {"message": "No connected db.", "type": "no_db_connection", "code": "400"}});
    let gateway = model_that_says(Reply::status(400, refusal.to_string())).await;
    let hangs = model_that_says(Reply::hang()).await;
    let choice = json!({"index": 0, "message": {"role": "assistant", "content": "OK."}, "finish_reason": "stop"});
    let body = json!({"object": "chat.completion", "choices": [choice]}).to_string();
    let off = [
        ("date", "Mon, 01 Jan 2024 00:00:00 GMT"),
        ("content-type", "application/json"),
    ];
    let off = model_that_says(Reply::status_with_headers(200, &off, body)).await;
    let dead = format!("http://{}", dead_address());
    let at = |url: &str| clinic.setup.with("LLM_PROXY_URL", url);
    let only_a_key = clinic
        .setup
        .without("LLM_PROXY_URL")
        .without("LLM_API_KEY")
        .with("OPENAI_API_KEY", MODEL_KEY);
    let cases = [
        (
            "wrong key",
            at(&refuses.url()),
            Said {
                check: "model",
                status: "problem",
                found: &["LLM_API_KEY", "401"],
                advice: "Put a valid key into LLM_API_KEY",
            },
        ),
        (
            "wrong key at a gateway",
            at(&gateway.url()),
            Said {
                check: "model",
                status: "problem",
                found: &["LLM_API_KEY", "No connected db."],
                advice: "Put a valid key into LLM_API_KEY",
            },
        ),
        (
            "dead proxy",
            at(&dead),
            Said {
                check: "model",
                status: "problem",
                found: &["nothing listens on port"],
                advice: "correct LLM_PROXY_URL",
            },
        ),
        (
            "a model that hangs",
            at(&hangs.url()),
            Said {
                check: "model",
                status: "problem",
                found: &["did not answer within"],
                advice: "--timeout",
            },
        ),
        (
            "a key and no address",
            only_a_key,
            Said {
                check: "model",
                status: "warning",
                found: &["OPENAI_API_KEY is set", "demonstration"],
                advice: "LLM_PROXY_URL=https://api.openai.com/v1 LLM_MODEL=gpt-4o-mini codelab serve",
            },
        ),
        (
            "clock off",
            at(&off.url()),
            Said {
                check: "clock",
                status: "problem",
                found: &["days ahead of that of the model server"],
                advice: "Set the clock",
            },
        ),
    ];
    for (name, setup, wanted) in cases {
        judge(name, &setup.asked().await, &wanted);
    }
}

#[tokio::test]
async fn a_start_with_a_key_and_no_address_says_what_is_missing() {
    let folder = tempfile::tempdir().unwrap();
    let settings =
        [("OPENAI_API_KEY", MODEL_KEY)].map(|(name, value)| (name.to_owned(), value.to_owned()));
    let mut server = serve(&settings, "");
    server
        .arg("--data-dir")
        .arg(folder.path())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .kill_on_drop(true);
    let mut server = server.spawn().unwrap();
    let mut lines = BufReader::new(server.stdout.take().unwrap()).lines();
    let mut said = String::new();
    // The last line that a start says.
    while !said.contains("log in:") {
        let line = tokio::time::timeout(DEADLINE, lines.next_line())
            .await
            .expect("the server starts")
            .unwrap();
        said.push_str(&line.unwrap_or_else(|| panic!("the server ended: {said}")));
        said.push('\n');
    }
    server.kill().await.unwrap();
    assert!(
        said.contains("OPENAI_API_KEY is set, but LLM_PROXY_URL"),
        "{said}"
    );
    let typed = "type: LLM_PROXY_URL=https://api.openai.com/v1 LLM_MODEL=gpt-4o-mini codelab serve";
    assert!(said.contains(typed) && !said.contains(CANARY), "{said}");
}

#[tokio::test]
async fn a_folder_or_a_machine_that_does_not_do_is_named() {
    let mut clinic = Clinic::open().await;
    clinic.stop_the_server().await;
    let setup = &clinic.setup;
    let file = clinic.scratch.path().join("file");
    std::fs::write(&file, "").unwrap();
    let few = ["sh", "-c", "ulimit -n 128; exec \"$@\"", "sh"];
    let mut cases = vec![
        (
            "a folder beneath a file",
            setup.at(&file.join("data")),
            Said {
                check: "data folder",
                status: "problem",
                found: &["not a directory"],
                advice: "--data-dir",
            },
        ),
        (
            "a low file limit",
            setup.through(&few),
            Said {
                check: "open files",
                status: "problem",
                found: &["128 files"],
                advice: "LimitNOFILE=65536",
            },
        ),
        (
            "a wrong setting",
            setup.with("CODELAB_LIMITS__STEPS", "0"),
            Said {
                check: "settings",
                status: "problem",
                found: &["limits.steps"],
                advice: "Correct it",
            },
        ),
    ];
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = (taken.local_addr().unwrap().to_string(), taken);
    cases.push((
        "a taken port",
        setup.with("CODELAB_ADDR", &taken.0),
        Said {
            check: "server",
            status: "problem",
            found: &["another program listens"],
            advice: "CODELAB_ADDR",
        },
    ));
    let disk = SmallDisk::mount();
    if let Some(disk) = &disk {
        std::fs::create_dir(disk.folder()).unwrap();
        std::fs::set_permissions(disk.folder(), std::fs::Permissions::from_mode(0o700)).unwrap();
        disk.fill();
        cases.push((
            "a full disk",
            setup.at(&disk.folder()),
            Said {
                check: "disk",
                status: "problem",
                found: &["The disk is full"],
                advice: "Make room",
            },
        ));
    }
    for (name, setup, wanted) in cases {
        judge(name, &setup.asked().await, &wanted);
    }
    no_sandbox(setup).await;
    another_users_folder(setup).await;
}

#[tokio::test]
async fn a_database_or_a_secret_that_does_not_fit_is_named() {
    let mut clinic = Clinic::open().await;
    let other = "canary-another-key-of-more-than-32-bytes";
    let refused = Said {
        check: "secrets",
        status: "problem",
        found: &["refuses the internal key"],
        advice: "INTERNAL_API_KEY",
    };
    judge(
        "another internal key",
        &clinic.setup.with("INTERNAL_API_KEY", other).asked().await,
        &refused,
    );
    clinic.stop_the_server().await;
    let setup = &clinic.setup;
    let old = clinic.scratch.path().join("old.db");
    old_database(&old);
    let in_old = setup.with("DATABASE_URL", &format!("sqlite:{}", old.display()));
    let down = format!("postgres://me:{CANARY}@{}/codelab", dead_address());
    let no_redis = setup.with(
        "REDIS_URL",
        &format!("redis://:{CANARY}@{}", dead_address()),
    );
    for (name, setup, wanted) in [
        (
            "PostgreSQL down",
            setup.with("DATABASE_URL", &down),
            Said {
                check: "database",
                status: "problem",
                found: &["postgres://me:***@", "refused"],
                advice: "Start PostgreSQL",
            },
        ),
        (
            "old schema",
            in_old,
            Said {
                check: "database",
                status: "warning",
                found: &["schema version 3"],
                advice: "Start the server once",
            },
        ),
        (
            "wrong secret",
            setup.with("CODELAB_MASTER_KEY", other),
            Said {
                check: "secrets",
                status: "problem",
                found: &["CODELAB_MASTER_KEY"],
                advice: "earlier key",
            },
        ),
        (
            "Redis down",
            no_redis,
            Said {
                check: "cache",
                status: "warning",
                found: &["Redis", "works without it"],
                advice: "Start Redis",
            },
        ),
    ] {
        judge(name, &setup.asked().await, &wanted);
    }
    on_postgres(setup).await;
}
