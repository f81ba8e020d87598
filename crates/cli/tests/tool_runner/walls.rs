//! A probe behind each wall of this machine, put up by the real program.

use std::net::TcpListener;
use std::process::Command;

use codelab_protocol::{Tool, ToolArguments};
use codelab_workspace::{Call, Launcher, Sandbox, Workspace, WorkspaceOptions};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

const CANARY: &str = "canary-51aa";

fn launcher() -> Launcher {
    Launcher {
        program: env!("CARGO_BIN_EXE_codelab").into(),
        arguments: vec!["sandbox-exec".into()],
    }
}

async fn walls() -> Vec<Sandbox> {
    let mut found = Vec::new();
    let bwrap = |with_landlock| Sandbox::Bwrap {
        program: "/usr/bin/bwrap".into(),
        is_recent: true,
        with_landlock,
    };
    for sandbox in [bwrap(true), bwrap(false), Sandbox::Landlock] {
        match sandbox.probe(&launcher()).await {
            Ok(()) => found.push(sandbox),
            Err(reason) => eprintln!("not behind {}: {reason}", sandbox.as_str()),
        }
    }
    found
}

fn arguments(command: &str) -> ToolArguments {
    let arguments = json!({"command": command, "timeout_seconds": 30});
    Tool::ExecuteCommand
        .check(arguments.as_object().unwrap())
        .unwrap()
}

async fn run(workspace: &Workspace, command: &str) -> Value {
    workspace
        .run(
            Call {
                user_id: None,
                arguments: &arguments(command),
                is_approved: false,
                key: None,
                reader: None,
                base: None,
            },
            CancellationToken::new(),
        )
        .await
}

/// The number of `ptrace` and of its request to attach.
fn attach(pid: u32) -> String {
    let number = if cfg!(target_arch = "x86_64") {
        101
    } else {
        117
    };
    format!("perl -e 'exit(syscall({number}, 16, {pid}, 0, 0) == 0 ? 0 : 1)'")
}

#[tokio::test]
async fn a_probe_is_denied_everything() {
    for sandbox in walls().await {
        let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let [root, outside, home] =
            ["root", "outside", "home"].map(|name| folder.path().join(name));
        for folder in [&root, &outside, &home.join(".ssh")] {
            std::fs::create_dir_all(folder).unwrap();
        }
        std::fs::write(home.join(".ssh/id_ed25519"), CANARY).unwrap();
        let options = WorkspaceOptions {
            home: Some(home.clone()),
            sandbox: sandbox.clone(),
            ..WorkspaceOptions::new(launcher())
        };
        let workspace = Workspace::open(&root, options).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let port = listener.local_addr().unwrap().port();
        // A process of the same user that is nobody's parent, so that only the wall protects it.
        let mut other = Command::new("sleep").arg("600").spawn().unwrap();
        let (parent, victim) = (std::process::id(), other.id());
        for command in [
            format!("echo x > {}/planted", outside.display()),
            format!("cat {}/.ssh/id_ed25519", home.display()),
            format!("bash -c 'exec 3<>/dev/tcp/127.0.0.1/{port}'"),
            attach(victim),
            format!("kill -TERM {victim}"),
            format!("kill -0 {parent}"),
        ] {
            let is_signal = command.starts_with("kill");
            if is_signal && sandbox == Sandbox::Landlock && !landlock_holds_signals() {
                eprintln!("this kernel's Landlock does not hold signals: {command} was not tried");
                continue;
            }
            let result = run(&workspace, &command).await;
            assert_ne!(result["exit_code"], 0, "{sandbox:?} {command}: {result}");
            assert!(
                !result.to_string().contains(CANARY),
                "{sandbox:?} {command}: {result}"
            );
        }
        assert!(
            other.try_wait().unwrap().is_none(),
            "{sandbox:?}: a process outside was ended"
        );
        assert_eq!(
            std::fs::read_dir(&outside).unwrap().count(),
            0,
            "{sandbox:?}"
        );
        assert!(
            listener.accept().is_err(),
            "{sandbox:?}: the command reached a server"
        );
        let result = run(&workspace, "echo inside > a.txt && cat a.txt").await;
        assert_eq!(result["stdout"], "inside\n", "{sandbox:?}: {result}");
        other.kill().unwrap();
        other.wait().unwrap();
    }
}

/// Without a wall the probes work, so it is the wall that stops them.
#[tokio::test]
async fn without_a_wall_the_probe_succeeds() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let workspace = Workspace::open(folder.path(), WorkspaceOptions::new(launcher())).unwrap();
    let mut other = Command::new("sleep").arg("600").spawn().unwrap();
    assert_eq!(
        run(&workspace, &format!("kill -0 {}", other.id())).await["exit_code"],
        0
    );
    assert_eq!(
        run(&workspace, &format!("kill -TERM {}", other.id())).await["exit_code"],
        0
    );
    other.wait().unwrap();
}

/// From Linux 6.12 on.
fn landlock_holds_signals() -> bool {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    let numbers: Vec<u32> = release
        .split(['.', '-'])
        .take(2)
        .map(|part| part.parse().unwrap())
        .collect();
    numbers >= vec![6, 12]
}
