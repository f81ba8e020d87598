//! What asks and what passes, through the whole server: hostile commands, protected paths,
//! remembered answers.

use codelab_protocol::{HitlDecision, TurnStatus};
use codelab_testkit::{Reply, SeenEvents, TestServer};
use serde_json::{Value, json};

const HOSTILE: &str = include_str!("../../../../policy/tests/corpus/hostile.txt");
const HARMLESS: &str = include_str!("../../../../policy/tests/corpus/harmless.txt");

/// Every n-th line of a corpus, with `{{hex}}` replaced by the character it names.
fn sample(corpus: &str, count: usize) -> Vec<String> {
    let lines: Vec<&str> = corpus
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with("##"))
        .collect();
    let step = (lines.len() / count).max(1);
    lines.into_iter().step_by(step).map(unescaped).collect()
}

fn unescaped(line: &str) -> String {
    let mut text = String::new();
    let mut rest = line;
    while let Some((before, after)) = rest.split_once("{{") {
        let (hex, tail) = after.split_once("}}").unwrap();
        text.push_str(before);
        text.push(char::from_u32(u32::from_str_radix(hex, 16).unwrap()).unwrap());
        rest = tail;
    }
    text + rest
}

/// Sessions in which the coder calls one tool per turn.
struct Coder {
    server: TestServer,
}

impl Coder {
    async fn start() -> Self {
        Self {
            server: TestServer::start().await,
        }
    }

    async fn calls(&self, tool: &str, arguments: Value) -> SeenEvents {
        self.server.model.reply(Reply::tool_call(tool, arguments));
        self.server.say_to("s", "coder", "go on").await
    }

    async fn runs(&self, command: &str) -> SeenEvents {
        self.calls("execute_command", json!({"command": command}))
            .await
    }

    async fn writes(&self, path: &str) -> SeenEvents {
        self.calls("write_file", json!({"path": path, "content": "1"}))
            .await
    }

    /// Ends the turn, whatever it waits for.
    async fn ends(&self, seen: &SeenEvents) {
        self.server.model.reply(Reply::text("Done"));
        let ended = match seen.status() {
            TurnStatus::AwaitingApproval => self.decides(seen, "REJECT", false).await,
            TurnStatus::AwaitingToolResult => {
                self.server.result("s", &seen.call_id(), json!("ok")).await
            }
            other => panic!("{other:?}: {:?}", seen.story()),
        };
        assert_eq!(ended.status(), TurnStatus::Completed);
    }

    async fn decides(&self, seen: &SeenEvents, word: &str, remember: bool) -> SeenEvents {
        let decision = HitlDecision {
            decision: Some(codelab_protocol::MaybeKnown::of(word)),
            remember: Some(remember),
            ..HitlDecision::default()
        };
        self.server.decide("s", &seen.call_id(), decision).await
    }

    /// Says yes, with `remember`, and finishes the turn.
    async fn remembers(&self, seen: &SeenEvents) {
        let approved = self.decides(seen, "APPROVE", true).await;
        self.ends(&approved).await;
    }
}

#[tokio::test]
async fn hostile_commands_ask() {
    let coder = Coder::start().await;
    let commands = sample(HOSTILE, 20);
    assert!(commands.len() >= 20);
    for command in commands {
        let seen = coder.runs(&command).await;
        assert_eq!(
            seen.status(),
            TurnStatus::AwaitingApproval,
            "passed unasked: {command:?}"
        );
        let shown = seen.tool_call();
        assert_eq!(
            shown.tool_call.arguments["command"],
            command.as_str(),
            "shown in full"
        );
        assert!(
            shown
                .reason
                .as_ref()
                .is_some_and(|reason| !reason.is_empty()),
            "{command:?}"
        );
        coder.ends(&seen).await;
    }
}

#[tokio::test]
async fn harmless_commands_pass() {
    let coder = Coder::start().await;
    let mut commands = sample(HARMLESS, 10);
    commands.extend(["ls -la", "pytest -q", "cargo test"].map(str::to_owned));
    for command in commands {
        let seen = coder.runs(&command).await;
        assert_eq!(
            seen.status(),
            TurnStatus::AwaitingToolResult,
            "asked about: {command:?}"
        );
        assert!(!seen.tool_call().requires_approval && !seen.tool_call().approved);
        coder.ends(&seen).await;
    }
}

/// Paths that change what asks, or that run something later.
const PROTECTED: [&str; 20] = [
    ".git/hooks/pre-commit",
    ".git/config",
    ".GIT/Hooks/post-checkout",
    "sub/module/.git/hooks/pre-push",
    "./.git//hooks/pre-commit",
    "src/../.git/hooks/pre-commit",
    ".git",
    "codelab.toml",
    "./CODELAB.TOML",
    "deep/down/codelab.toml",
    ".codelab/policy.toml",
    ".husky/pre-commit",
    ".vscode/settings.json",
    ".vscode/tasks.json",
    ".github/workflows/ci.yml",
    ".bashrc",
    "/etc/passwd",
    "../outside.py",
    ".git\u{200b}/hooks/pre-commit",
    ".ssh/authorized_keys",
];

#[tokio::test]
async fn protected_paths_ask_whatever_is_remembered() {
    let coder = Coder::start().await;
    let first = coder.writes("a.py").await;
    assert_eq!(first.status(), TurnStatus::AwaitingApproval);
    coder.remembers(&first).await;
    let second = coder.writes("b.py").await;
    assert_eq!(
        second.status(),
        TurnStatus::AwaitingToolResult,
        "remembered"
    );
    assert!(second.tool_call().approved);
    coder.ends(&second).await;

    for path in PROTECTED {
        for _ in 0..2 {
            let seen = coder.writes(path).await;
            assert_eq!(
                seen.status(),
                TurnStatus::AwaitingApproval,
                "written unasked: {path:?}"
            );
            coder.remembers(&seen).await;
        }
        let edits = json!({"path": path, "edits": [{"old": "a", "new": "b"}]});
        let seen = coder.calls("write_file", edits).await;
        assert_eq!(
            seen.status(),
            TurnStatus::AwaitingApproval,
            "edited unasked: {path:?}"
        );
        coder.ends(&seen).await;
    }
    let still = coder.writes("c.py").await;
    assert_eq!(
        still.status(),
        TurnStatus::AwaitingToolResult,
        "other writes are still remembered"
    );
}

#[tokio::test]
async fn protected_folders_ask() {
    let coder = Coder::start().await;
    for path in [
        ".git/hooks",
        ".codelab",
        "/etc/cron.d",
        "../elsewhere",
        ".ssh",
    ] {
        let seen = coder.calls("create_directory", json!({"path": path})).await;
        assert_eq!(seen.status(), TurnStatus::AwaitingApproval, "{path}");
        coder.remembers(&seen).await;
        let again = coder.calls("create_directory", json!({"path": path})).await;
        assert_eq!(again.status(), TurnStatus::AwaitingApproval, "{path}");
        coder.ends(&again).await;
    }
    let plain = coder
        .calls("create_directory", json!({"path": "src/new"}))
        .await;
    assert_eq!(plain.status(), TurnStatus::AwaitingToolResult);
}

#[tokio::test]
async fn a_remembered_command_covers_itself_only() {
    let coder = Coder::start().await;
    let command = "rm build/out.txt";
    let seen = coder.runs(command).await;
    assert_eq!(seen.status(), TurnStatus::AwaitingApproval);
    coder.remembers(&seen).await;
    let same = coder.runs(command).await;
    assert_eq!(
        same.status(),
        TurnStatus::AwaitingToolResult,
        "the very same command"
    );
    coder.ends(&same).await;
    let mut others = [
        "rm build/out.txt ",
        "rm  build/out.txt",
        "rm build/out.txt; rm -rf src",
        "rm build/out.txt\nrm -rf src",
        "rm build/out.tx",
        "RM build/out.txt",
        "rm build/out.txt\u{200b}",
    ]
    .map(|command| json!({"command": command}))
    .to_vec();
    others.push(json!({"command": command, "cwd": "src"}));
    for arguments in others {
        let seen = coder.calls("execute_command", arguments.clone()).await;
        assert_eq!(
            seen.status(),
            TurnStatus::AwaitingApproval,
            "passed unasked: {arguments}"
        );
        coder.ends(&seen).await;
    }
    // Another session has not heard of it.
    coder.server.model.reply(Reply::tool_call(
        "execute_command",
        json!({"command": command}),
    ));
    assert_eq!(
        coder
            .server
            .say_to("other", "coder", "go on")
            .await
            .status(),
        TurnStatus::AwaitingApproval
    );
}

#[tokio::test]
async fn commands_that_touch_protected_paths_are_never_remembered() {
    let coder = Coder::start().await;
    for command in [
        "cp evil.sh .git/hooks/pre-commit",
        "echo x >> codelab.toml",
        "sed -i s/ask/allow/ codelab.toml",
        "ln -s /tmp/x .git/hooks/post-merge",
        "chmod +x .git/hooks/pre-commit",
    ] {
        for _ in 0..2 {
            let seen = coder.runs(command).await;
            assert_eq!(seen.status(), TurnStatus::AwaitingApproval, "{command}");
            coder.remembers(&seen).await;
        }
    }
}

/// Each pass by memory is in the audit log, with the rule as the one who decided.
#[tokio::test]
async fn remembered_passes_are_audited() {
    let coder = Coder::start().await;
    let first = coder.writes("a.py").await;
    coder.remembers(&first).await;
    let second = coder.writes("b.py").await;
    coder.ends(&second).await;
    let id = codelab_protocol::SessionId::parse("s").unwrap();
    let audit = coder.server.client.audit(&id).await.unwrap();
    assert!(audit.verified);
    let rows: Vec<(&str, bool)> = audit
        .audit
        .iter()
        .map(|row| {
            (
                row.decision.as_str(),
                row.decided_by.starts_with("remembered"),
            )
        })
        .collect();
    assert_eq!(rows, [("APPROVE", false), ("APPROVE", true)]);

    coder.server.client.reset(&id).await.unwrap();
    let third = coder.writes("c.py").await;
    assert_eq!(
        third.status(),
        TurnStatus::AwaitingApproval,
        "a reset forgets"
    );
}
