//! Commands as a model sees them, without a sandbox: results, limits, ends.

use std::fs;
use std::time::{Duration, Instant};

use codelab_policy::Verdict;
use codelab_workspace::{Call, Launcher, Sandbox, WorkspaceLimits};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::lab::{Lab, arguments_of, error};

const DEADLINE: Duration = Duration::from_secs(20);

/// Processes that have this word among their arguments.
pub fn running(marker: &str) -> usize {
    running_pids(marker).len()
}

pub fn running_pids(marker: &str) -> Vec<u32> {
    let has_marker = |path: &std::path::Path| {
        let line = fs::read(path.join("cmdline")).unwrap_or_default();
        line.windows(marker.len())
            .any(|part| part == marker.as_bytes())
    };
    let processes = fs::read_dir("/proc")
        .unwrap()
        .flatten()
        .filter(|entry| has_marker(&entry.path()));
    processes
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .collect()
}

pub async fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    let started = Instant::now();
    while !is_so() {
        assert!(
            started.elapsed() < DEADLINE,
            "{what}: not within {DEADLINE:?}"
        );
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// A duration for `sleep` that nothing else on the machine uses.
pub fn marker(name: u32) -> String {
    format!("86{:07}.{name:03}", std::process::id())
}

#[tokio::test]
async fn results_have_code_and_output() {
    let lab = Lab::new();
    lab.write("sub/a.txt", "");
    for (arguments, expected) in [
        (
            json!({"command": "echo out; echo err >&2"}),
            json!({"success": true, "exit_code": 0, "stdout": "out\n", "stderr": "err\n"}),
        ),
        (
            json!({"command": "exit 3"}),
            json!({"success": false, "exit_code": 3, "stdout": "", "stderr": ""}),
        ),
        (
            json!({"command": "ls", "cwd": "sub"}),
            json!({"success": true, "exit_code": 0, "stdout": "a.txt\n", "stderr": ""}),
        ),
        (
            json!({"command": "cat"}),
            json!({"success": true, "exit_code": 0, "stdout": "", "stderr": ""}),
        ),
        (
            json!({"command": "kill -9 $$"}),
            json!({"success": false, "exit_code": 137, "stdout": "", "stderr": "", "error": "the command was ended by signal 9"}),
        ),
        (
            json!({"command": "printf '\\377'"}),
            json!({"success": true, "exit_code": 0, "stdout": "\u{fffd}", "stderr": ""}),
        ),
    ] {
        assert_eq!(
            lab.call("execute_command", arguments.clone()).await,
            expected,
            "{arguments}"
        );
    }
}

#[tokio::test]
async fn long_output_keeps_its_start_and_its_end() {
    let lab = Lab::with(|options| {
        options.limits = WorkspaceLimits {
            output_head_bytes: 10,
            output_tail_bytes: 12,
            ..WorkspaceLimits::default()
        }
    });
    let result = lab.command("seq 1 100000").await;
    assert_eq!(
        result["stdout"],
        "1\n2\n3\n4\n5\n\n… [588873 bytes cut] …\n9999\n100000\n"
    );
    assert_eq!(
        (&result["truncated"], &result["exit_code"]),
        (&json!(true), &json!(0))
    );
}

#[tokio::test]
async fn the_environment_is_not_the_client_s_own() {
    let lab = Lab::with(|options| options.environment = vec!["CARGO_PKG_NAME".to_owned()]);
    let result = lab.command("env | cut -d= -f1").await;
    let names: Vec<&str> = result["stdout"].as_str().unwrap().lines().collect();
    assert!(
        names.contains(&"PATH") && names.contains(&"TMPDIR") && names.contains(&"CARGO_PKG_NAME"),
        "{names:?}"
    );
    // The test's own environment contains it, as a client's environment contains its keys.
    assert!(std::env::var_os("CARGO_MANIFEST_DIR").is_some());
    assert!(!names.contains(&"CARGO_MANIFEST_DIR"), "{names:?}");
}

#[tokio::test]
async fn a_command_has_its_time_and_takes_all_it_started_with_it() {
    let lab = Lab::new();
    let marker = marker(1);
    let command = format!(
        "trap '' TERM; sleep {marker} & setsid sleep {marker} & (setsid sh -c 'trap \"\" TERM; sleep {marker}' &) ; sleep {marker}"
    );
    let result = lab
        .call(
            "execute_command",
            json!({"command": command, "timeout_seconds": 1}),
        )
        .await;
    assert!(
        error(&result).starts_with("the command was stopped after 1 s"),
        "{result}"
    );
    assert_eq!(result["exit_code"], Value::Null);
    wait_until("nothing of the command is left", || running(&marker) == 0).await;
}

#[tokio::test]
async fn what_a_finished_command_left_behind_is_ended() {
    let lab = Lab::new();
    let marker = marker(2);
    let started = Instant::now();
    let result = lab
        .command(&format!(
            "setsid sleep {marker} & sleep {marker} & disown; echo done"
        ))
        .await;
    assert_eq!(
        (&result["success"], &result["stdout"]),
        (&json!(true), &json!("done\n")),
        "{result}"
    );
    assert!(started.elapsed() < DEADLINE);
    wait_until("nothing of the command is left", || running(&marker) == 0).await;
}

#[tokio::test]
async fn cancelling_or_losing_the_client_ends_the_command() {
    let lab = Lab::new();
    let marker = marker(3);
    let arguments = arguments_of(
        "execute_command",
        json!({"command": format!("setsid sleep {marker} & sleep {marker}")}),
    );
    let cancel = CancellationToken::new();
    let call = Call {
        user_id: None,
        arguments: &arguments,
        is_approved: false,
        reader: None,
        base: None,
        key: None,
    };
    let (result, ()) = tokio::join!(lab.workspace.run(call, cancel.clone()), async {
        wait_until("the command runs", || running(&marker) >= 2).await;
        cancel.cancel();
    });
    assert_eq!(error(&result), "cancelled");
    wait_until("nothing is left after a cancel", || running(&marker) == 0).await;

    let dropped = tokio::spawn({
        let (workspace, arguments) = (lab.workspace.clone(), arguments.clone());
        async move {
            workspace
                .run(
                    Call {
                        user_id: None,
                        arguments: &arguments,
                        is_approved: false,
                        reader: None,
                        base: None,
                        key: None,
                    },
                    CancellationToken::new(),
                )
                .await
        }
    });
    wait_until("the command runs", || running(&marker) >= 2).await;
    dropped.abort();
    wait_until("nothing is left after the client went away", || {
        running(&marker) == 0
    })
    .await;
}

#[tokio::test]
async fn a_cancel_at_any_moment_leaves_nothing() {
    const TRIES: u64 = 40;
    let lab = Lab::new();
    let marker = marker(4);
    let arguments = arguments_of(
        "execute_command",
        json!({"command": format!("setsid sleep {marker} & sleep {marker}")}),
    );
    for delay_ms in 0..TRIES {
        let call = Call {
            user_id: None,
            arguments: &arguments,
            is_approved: false,
            reader: None,
            base: None,
            key: None,
        };
        let cancel = CancellationToken::new();
        let (result, ()) = tokio::join!(lab.workspace.run(call, cancel.clone()), async {
            tokio::time::sleep(Duration::from_millis(delay_ms)).await;
            cancel.cancel();
        });
        assert_eq!(error(&result), "cancelled", "after {delay_ms} ms");
    }
    wait_until("nothing is left", || running(&marker) == 0).await;
}

#[tokio::test]
async fn without_a_sandbox_every_command_asks() {
    let ask = |sandbox: Sandbox, tool: &str, arguments: Value| {
        let lab = Lab::behind(&sandbox);
        matches!(
            lab.workspace.review(&arguments_of(tool, arguments)),
            Verdict::Ask(_)
        )
    };
    for (sandbox, command, asks) in [
        (Sandbox::None, "ls -la", true),
        (Sandbox::Landlock, "ls -la", false),
        (Sandbox::Landlock, "rm -fr x", true),
        (Sandbox::None, "rm -fr x", true),
    ] {
        assert_eq!(
            ask(
                sandbox.clone(),
                "execute_command",
                json!({"command": command})
            ),
            asks,
            "{sandbox:?} {command}"
        );
    }
    assert!(!ask(Sandbox::None, "read_file", json!({"path": "a"})));
    assert!(ask(
        Sandbox::Landlock,
        "write_file",
        json!({"path": ".git/hooks/pre-commit", "content": "x"})
    ));
    assert_eq!(Sandbox::None.as_str(), "none");
}

/// The client knows where its workspace is.
#[tokio::test]
async fn an_absolute_path_asks_unless_it_is_beneath_the_root() {
    let lab = Lab::behind(&Sandbox::Landlock);
    let asks = |path: &std::path::Path| {
        let command = format!("cat '{}'", path.display());
        let arguments = arguments_of("execute_command", json!({ "command": command }));
        matches!(lab.workspace.review(&arguments), Verdict::Ask(_))
    };
    assert!(!asks(&lab.root.join("src/a.rs")));
    assert!(asks(&lab.root.join("../a.rs")));
    assert!(asks(&lab.outside.join("secret.txt")));
    assert!(asks(&lab.home.join(".bashrc")));
}

/// A link gives a file a name that the policy allows.
#[tokio::test]
async fn a_link_to_something_else_than_its_name_says_asks() {
    let lab = Lab::behind(&Sandbox::Landlock);
    lab.write("Makefile", "test:\n\ttrue\n");
    lab.write("src/a.py", "pass\n");
    lab.write("data/real.txt", "text\n");
    for (target, link) in [
        ("Makefile", "notes.txt"),
        ("src/a.py", "out.log"),
        ("src", "data/code"),
        ("/etc", "etc"),
        ("../outside.txt", "up.txt"),
        ("src/new.py", "later.txt"),
        (".git/config", "settings.txt"),
        ("data/real.txt", "alias.txt"),
        ("../src/a.py", "data/notes.log"),
        ("data", "folder"),
    ] {
        std::os::unix::fs::symlink(target, lab.root.join(link)).unwrap();
    }
    let reason = |command: &str, cwd: Option<&str>| {
        let arguments = arguments_of("execute_command", json!({"command": command, "cwd": cwd}));
        match lab.workspace.review(&arguments) {
            Verdict::Ask(ask) => Some(ask.reason),
            Verdict::Allow => None,
        }
    };
    for command in [
        "printf x > notes.txt",
        "echo x >> ./out.log",
        "cat etc/passwd",
        "cat up.txt",
        "echo x > later.txt",
        "cat settings.txt",
        "for f in notes.txt; do cat $f; done",
        "sort --output=notes.txt data/real.txt",
    ] {
        let reason = reason(command, None).unwrap_or_else(|| panic!("{command} passed"));
        assert!(
            reason.contains("symbolic link") || command.starts_with("sort"),
            "{command}: {reason}"
        );
    }
    assert!(reason("cat notes.log", Some("data")).is_some());
    for command in [
        "cat alias.txt",
        "echo x > alias.txt",
        "cat folder/real.txt",
        "cat data/real.txt",
        "cat src/a.py",
    ] {
        assert_eq!(reason(command, None), None, "{command}");
    }
}

#[tokio::test]
async fn a_program_that_cannot_be_started_again_is_an_error() {
    for program in ["/no/such/program", "/bin/true"] {
        let lab = Lab::with(|options| {
            options.launcher = Launcher {
                program: program.into(),
                arguments: Vec::new(),
            };
        });
        let result = lab.command("echo x").await;
        assert!(
            error(&result).starts_with("the command could not be started"),
            "{program}: {result}"
        );
    }
}
