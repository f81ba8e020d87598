//! What the policy protects in a workspace, behind each wall: nothing a command does to it lasts, and nothing is lost.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use codelab_policy::Verdict;
use codelab_workspace::Sandbox;
use serde_json::{Value, json};

use crate::commands::wait_until;
use crate::lab::{Lab, arguments_of, error};
use crate::walls::walls;

/// Files of people, in a repository that has commits.
fn project(sandbox: &Sandbox) -> Lab {
    let lab = Lab::new();
    fs::write(lab.home.join(".gitconfig"), "[user]\n\tname = Ann \\\"A\\\" B\n\temail = ann@example.org\n").unwrap();
    let lab = lab.reopened(sandbox);
    lab.write("src/a.txt", "one\n");
    lab.write(".github/workflows/ci.yml", "mine");
    lab.write(".vscode/tasks.json", "mine");
    lab.write("packages/ui/.vscode/settings.json", "mine");
    lab.write(".husky/pre-commit", "mine");
    lab.write("deploy/prod.yaml", "mine");
    lab.git(&["init", "-q", "-b", "main", "."]);
    lab.git(&["add", "."]);
    lab.git(&["commit", "-qm", "first"]);
    lab
}

const MINE: [&str; 5] = [
    ".github/workflows/ci.yml",
    ".vscode/tasks.json",
    "packages/ui/.vscode/settings.json",
    ".husky/pre-commit",
    "deploy/prod.yaml",
];

fn assert_as_it_was(lab: &Lab, context: &str) {
    for path in MINE {
        assert_eq!(lab.read(path), "mine", "{context}: {path}");
    }
    for path in [
        ".envrc",
        ".mcp.json",
        ".github/workflows/evil.yml",
        ".git/hooks/pre-commit",
        "packages/ui/.git",
        "packages/new/.git",
        ".githooks",
        "src/.vscode/tasks.json",
        "x.code-workspace",
        ".gitlab-ci.yml",
        ".gitmodules",
    ] {
        assert!(!lab.root.join(path).exists(), "{context}: {path} is there");
    }
}

#[tokio::test]
async fn what_is_protected_is_as_it_was_after_every_command() {
    for sandbox in walls("protected paths").await {
        let lab = project(&sandbox);
        for command in [
            "echo evil > .vscode/tasks.json",
            "echo evil > .github/workflows/ci.yml; echo evil > .github/workflows/evil.yml",
            "rm -rf .github",
            "mv .github gh && mkdir -p .github/workflows && echo evil > .github/workflows/ci.yml",
            "mv packages/ui packages/old && mkdir -p packages/ui/.vscode && echo evil > packages/ui/.vscode/settings.json",
            "rm -rf packages",
            "chmod 777 .husky/pre-commit",
            "ln -sf ../src/a.txt .husky/pre-commit",
            "rm -rf .vscode && ln -s src .vscode",
            "echo evil > deploy/prod.yaml",
            "echo evil > src/.envrc && mv src/.envrc .envrc; mkdir -p src/.vscode && echo evil > src/.vscode/tasks.json",
            "mkdir -p .githooks && echo evil > .githooks/pre-push; echo evil > x.code-workspace",
            "echo evil > .mcp.json; echo evil > .gitlab-ci.yml; echo evil > .gitmodules",
            "mkdir -p packages/ui/.git/hooks packages/new/.git && echo evil > packages/ui/.git/hooks/post-checkout",
            "git init -q packages/new",
            "mkdir -p packages/ui/.git && printf '[core]\\n\\tfsmonitor = ./evil\\n' > packages/ui/.git/config; \
             mkdir -p packages/ui/.git/refs packages/ui/.git/objects; echo 'ref: refs/heads/x' > packages/ui/.git/HEAD",
        ] {
            let result = lab.command(command).await;
            assert_as_it_was(&lab, &format!("{sandbox:?} {command}: {result}"));
            let told = result["error"].as_str().unwrap_or_default();
            let is_told =
                told.contains("only a person may change") || told.contains("sandbox") || result["success"] == true;
            assert!(is_told, "{sandbox:?} {command}: {result}");
        }
        // What was removed is kept.
        let result = lab.command("echo evil > .envrc").await;
        if let Some(to) = error(&result).split("moved to ").nth(1) {
            assert_eq!(fs::read_to_string(PathBuf::from(to)).unwrap(), "evil\n", "{sandbox:?}: {result}");
        }
    }
}

#[tokio::test]
async fn a_folder_without_a_repository_is_given_none_and_nothing_is_left_behind() {
    for sandbox in walls("no repository").await {
        let lab = Lab::behind(&sandbox);
        lab.write("src/a.txt", "one\n");
        for command in [
            "true",
            "git init -q .",
            "mkdir -p .git/hooks && echo evil > .git/hooks/pre-commit",
            "echo 'gitdir: /tmp/x' > .git",
            "ln -s src .git",
            "git init -q --bare src/bare && ln -s src/bare .git",
        ] {
            let result = lab.command(command).await;
            assert!(!fs::exists(lab.root.join(".git")).unwrap(), "{sandbox:?} {command}: {result}");
        }
        let result = lab.approved("git init -q .").await;
        assert!(!lab.root.join(".git/config").exists(), "{sandbox:?}: {result}");
        // Git in the middle of nothing still says so.
        let result = lab.command("git status").await;
        assert_ne!(result["exit_code"], 0, "{sandbox:?}: {result}");
    }
}

#[tokio::test]
async fn an_approved_git_command_may_write_the_repository_but_not_what_runs_programs() {
    for sandbox in walls("approved git").await {
        let lab = project(&sandbox);
        lab.write("src/b.txt", "two\n");
        lab.write(".git/hooks/pre-commit", "#!/bin/sh\ntouch \"$(git rev-parse --show-toplevel)/src/hook-ran\"\n");
        fs::set_permissions(lab.root.join(".git/hooks/pre-commit"), fs::Permissions::from_mode(0o755)).unwrap();
        let config = lab.read(".git/config");

        let refused = lab.command("git add src/b.txt && git commit -qm second").await;
        assert_ne!(refused["exit_code"], 0, "{sandbox:?}: {refused}");

        let result = lab.approved("git add src/b.txt && git commit -qm second").await;
        assert_eq!(result["success"], true, "{sandbox:?}: {result}");
        assert_eq!(
            lab.git(&["log", "-1", "--format=%s by %an <%ae>"]).trim(),
            "second by Ann \"A\" B <ann@example.org>"
        );
        assert!(!lab.root.join("src/hook-ran").exists(), "{sandbox:?}: a hook ran");

        for command in [
            "git config core.fsmonitor ./evil",
            "git config core.hooksPath src",
            "git remote add origin https://example.org/x",
            "git submodule add ./src sub",
            "git worktree add ../elsewhere",
        ] {
            let result = lab.approved(command).await;
            assert_eq!(lab.read(".git/config"), config, "{sandbox:?} {command}: {result}");
        }
        // With another program in it, it is a command like others.
        for command in ["git status && touch .git/x", "git log -1 > .git/y", "git status | tee .git/z"] {
            lab.approved(command).await;
        }
        for name in ["x", "y", "z"] {
            assert!(!lab.root.join(".git").join(name).exists(), "{sandbox:?} {name}");
        }
        // A person who wants hooks approves a command that says so.
        lab.write("src/c.txt", "three\n");
        let result = lab.approved("git add src/c.txt && git -c core.hooksPath=.git/hooks commit -qm third").await;
        assert_eq!(result["success"], true, "{sandbox:?}: {result}");
        assert!(lab.root.join("src/hook-ran").exists(), "{sandbox:?}: {result}");
    }
}

#[tokio::test]
async fn looking_at_a_hostile_repository_asks_and_runs_nothing_of_it() {
    let sandbox = walls("hostile settings").await.into_iter().next().unwrap_or(Sandbox::None);
    if sandbox.is_none() {
        return;
    }
    let asks = |lab: &Lab, command: &str| match lab
        .workspace
        .review(&arguments_of("execute_command", json!({"command": command})))
    {
        Verdict::Ask(ask) => Some(ask.reason),
        Verdict::Allow => None,
    };
    let looks = ["git status", "git diff", "git log -p", "git show", "git blame src/a.txt"];
    let lab = project(&sandbox);
    for command in looks {
        assert_eq!(asks(&lab, command), None, "{command}");
    }
    for setting in [
        "[core]\n\tfsmonitor = ./evil",
        "[diff]\n\texternal = ./evil",
        "[diff \"x\"]\n\ttextconv = ./evil",
        "[filter \"x\"]\n\tclean = ./evil",
        "[include]\n\tpath = ../src/more",
        "[includeIf \"gitdir:**\"]\n\tpath = ../src/more",
        "[log]\n\tshowSignature = true\n[gpg]\n\tprogram = ./evil",
    ] {
        let lab = project(&sandbox);
        lab.write("src/more", "[core]\n\tfsmonitor = ./evil\n");
        lab.write(".git/config", format!("{}{setting}\n", lab.read(".git/config")));
        for command in looks {
            let reason = asks(&lab, command).unwrap_or_else(|| panic!("{command} with {setting} passed"));
            assert!(reason.contains("Git would run programs"), "{command}: {reason}");
        }
        assert_eq!(asks(&lab, "ls -la"), None);
    }
    // A repository inside the repository, and a settings file that never ends.
    let lab = project(&sandbox);
    lab.write("vendor/x/.git/HEAD", "ref: refs/heads/main\n");
    lab.write("vendor/x/.git/config", "[core]\n\trepositoryformatversion = 0\n\tfsmonitor = ./evil\n");
    fs::create_dir_all(lab.root.join("vendor/x/.git/refs")).unwrap();
    fs::create_dir_all(lab.root.join("vendor/x/.git/objects")).unwrap();
    assert!(asks(&lab, "git -C vendor/x status").is_some());
    fs::remove_file(lab.root.join("vendor/x/.git/config")).unwrap();
    let made = std::process::Command::new("mkfifo").arg(lab.root.join("vendor/x/.git/config")).status().unwrap();
    assert!(made.success());
    assert!(asks(&lab, "git status").is_some_and(|reason| reason.contains("cannot be read")));
}

#[tokio::test]
async fn what_git_would_run_is_switched_off_even_where_nobody_asked() {
    for sandbox in walls("switched off").await {
        let lab = project(&sandbox);
        lab.write("evil.sh", "#!/bin/sh\necho ran >> \"$OLDPWD/src/ran\"; touch src/ran\n");
        fs::set_permissions(lab.root.join("evil.sh"), fs::Permissions::from_mode(0o755)).unwrap();
        let config = lab.read(".git/config");
        lab.write(".git/config", format!("{config}[core]\n\tfsmonitor = ./evil.sh\n\thooksPath = ./\n"));
        for command in ["git status", "git diff", "git log -p", "git show", "git checkout -q HEAD -- src"] {
            lab.approved(command).await;
            assert!(!lab.root.join("src/ran").exists(), "{sandbox:?} {command}");
        }
        // A folder that looks like a repository of its own is not taken for one.
        let bare = "mkdir -p src/bare/objects src/bare/refs && echo 'ref: refs/heads/x' > src/bare/HEAD && \
                    printf '[core]\\n\\tbare = false\\n\\tworktree = ..\\n\\tfsmonitor = ../../evil.sh\\n' > src/bare/config";
        lab.command(bare).await;
        let result: Value = lab.command("cd src/bare && git status").await;
        assert!(!lab.root.join("src/ran").exists(), "{sandbox:?}: {result}");
    }
}

#[tokio::test]
async fn what_a_person_lets_a_tool_write_meanwhile_stays() {
    for sandbox in walls("meanwhile").await {
        let lab = project(&sandbox);
        let wait = "touch src/started; while [ ! -e src/go ]; do sleep 0.02; done; echo evil > src/.envrc";
        let (result, ()) = tokio::join!(lab.command(wait), async {
            wait_until("the command runs", || lab.root.join("src/started").exists()).await;
            for (path, content) in [(".github/workflows/new.yml", "new"), (".vscode/tasks.json", "changed")] {
                lab.call("read_file", json!({"path": path})).await;
                let written = lab.call("write_file", json!({"path": path, "content": content})).await;
                assert_eq!(written["success"], true, "{sandbox:?}: {written}");
            }
            lab.write("src/go", "");
        });
        assert!(error(&result).contains("src/.envrc was moved"), "{sandbox:?}: {result}");
        assert_eq!(
            (lab.read(".github/workflows/new.yml"), lab.read(".vscode/tasks.json")),
            ("new".into(), "changed".into())
        );
    }
}

#[tokio::test]
async fn one_command_does_not_keep_what_another_planted() {
    for sandbox in walls("parallel").await {
        let lab = project(&sandbox);
        let plant = "mkdir -p src/x && echo evil > src/x/.envrc && touch src/planted; while [ ! -e src/go ]; do sleep 0.02; done";
        let stay = "touch src/staying; while [ ! -e src/end ]; do sleep 0.02; done; mv src/x src/y; mkdir -p src/x";
        tokio::join!(lab.command(plant), lab.command_after("src/planted", stay), async {
            wait_until("both run", || lab.root.join("src/staying").exists()).await;
            lab.write("src/go", "");
            wait_until("the first has ended", || !lab.root.join("src/x/.envrc").exists()).await;
            lab.write("src/end", "");
        });
        for path in ["src/x/.envrc", "src/y/.envrc"] {
            assert!(!lab.root.join(path).exists(), "{sandbox:?}: {path}");
        }
    }
}
