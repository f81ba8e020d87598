//! `codelab exec` and `codelab work` go on when the server that they talk to dies.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use codelab_fakemodel::{Gate, Reply};
use codelab_protocol::{CreateProjectSession, HitlDecision, SendMessage};
use codelab_testkit::eventually;
use serde_json::{Value, json};
use tokio::process::Command;

use crate::installation::Installation;
use crate::is_wanted;

const DEADLINE: Duration = Duration::from_secs(90);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn commands_survive_the_death_of_their_server() {
    if !is_wanted("commands_survive_the_death_of_their_server") {
        return;
    }
    let Some(mut installation) = Installation::start(3, &[]).await else {
        return;
    };
    exec_goes_on(&mut installation).await;
    work_goes_on(&mut installation).await;
    installation.remove();
}

/// Every server dies once, so the one that the command talks to does.
async fn kill_each_in_turn(installation: &mut Installation) {
    let settings = installation.settings.clone();
    for server in &mut installation.servers {
        server.kill().await.unwrap();
        server.start(&settings).await.unwrap();
        server.ready().await.unwrap();
    }
}

async fn exec_goes_on(installation: &mut Installation) {
    let gate = Gate::new();
    installation
        .model
        .on(is_exec, Reply::text("All is well.").hold(&gate));
    let workspace = folder(installation, "exec");
    let arguments = ["exec", "How is exec doing?", "--agent", "coder"];
    let mut exec = command(installation, &arguments, &workspace).await;
    let exec = exec.spawn().unwrap();
    installation.model.wait_for_requests(1).await;
    kill_each_in_turn(installation).await;
    gate.open();
    let output = tokio::time::timeout(DEADLINE, exec.wait_with_output()).await;
    let output = output.expect("exec ends").unwrap();
    let noise = String::from_utf8_lossy(&output.stderr);
    assert_eq!(
        (
            output.status.code(),
            String::from_utf8_lossy(&output.stdout).as_ref()
        ),
        (Some(0), "All is well.\n"),
        "{noise}"
    );
}

fn is_exec(body: &Value) -> bool {
    body.to_string().contains("How is exec doing?")
}

async fn work_goes_on(installation: &mut Installation) {
    let workspace = folder(installation, "work");
    let log = std::fs::File::create(workspace.with_extension("log")).unwrap();
    let mut work = command(installation, &["work"], &workspace).await;
    let _work = work.stdout(Stdio::null()).stderr(log).spawn().unwrap();
    let user = installation.user(1).await;
    let session = user
        .create_project_session(&CreateProjectSession::default())
        .await
        .unwrap()
        .session_id;
    for name in ["before.txt", "after.txt"] {
        installation.model.reply(Reply::tool_call(
            "write_file",
            json!({"path": name, "content": "made\n"}),
        ));
        installation.model.reply(Reply::text("Written."));
        let message = SendMessage {
            content: Some(format!("Write {name}")),
            target_agent: Some("coder".to_owned()),
            ..SendMessage::default()
        };
        drop(
            user.stream_project_message(&session, &message)
                .await
                .unwrap(),
        );
        let pending = eventually("a decision is asked for", async || {
            let list = user.project_session_approvals(&session, 10, 0).await;
            let list = list.map_err(|error| error.to_string())?;
            let first = list.approvals.into_iter().next();
            first.ok_or_else(|| "nothing".to_owned())
        })
        .await;
        let approve = HitlDecision {
            decision: Some(codelab_protocol::DecisionChoice::Approve.into()),
            ..HitlDecision::default()
        };
        let call = &pending.approval.call_id;
        user.decide(&session, call, &approve).await.unwrap();
        let file = workspace.join(name);
        eventually("the tool runner writes the file", async || {
            let written = std::fs::read_to_string(&file).ok();
            let is_right = written.filter(|text| text == "made\n");
            is_right.ok_or_else(|| {
                (
                    name,
                    std::fs::read_to_string(workspace.with_extension("log")),
                )
            })
        })
        .await;
        if name == "before.txt" {
            kill_each_in_turn(installation).await;
        }
    }
}

fn folder(installation: &Installation, name: &str) -> PathBuf {
    let folder = installation.folder().join(name);
    std::fs::create_dir(&folder).unwrap();
    folder
}

/// A command of another machine, which knows the load balancer's address and a token.
async fn command(installation: &Installation, arguments: &[&str], workspace: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_codelab"));
    command
        .args(arguments)
        .arg("--workspace")
        .arg(workspace)
        .env_clear()
        .env("HOME", workspace)
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .env("CODELAB_URL", installation.balancer.url())
        .env("CODELAB_TOKEN", installation.token(1).await)
        .current_dir(workspace)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    command
}
