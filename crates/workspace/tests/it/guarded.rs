//! What the policy protects in a workspace, in each sandbox: no change by a command lasts, and
//! nothing is lost.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use codelab_policy::Verdict;
use codelab_workspace::Sandbox;
use serde_json::{Value, json};

use crate::commands::{marker, running_pids, wait_until};
use crate::lab::{Lab, arguments_of, error};
use crate::walls::walls;

/// Files of people, in a repository with commits.
pub fn project(sandbox: &Sandbox) -> Lab {
    let lab = Lab::new();
    fs::write(
        lab.home.join(".gitconfig"),
        "[user]\n\tname = Ann \\\"A\\\" B\n\temail = ann@example.org\n",
    )
    .unwrap();
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

pub fn assert_as_it_was(lab: &Lab, context: &str) {
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
        "src/link/.vscode",
        "src/.envrc",
        "src/y/.vscode/tasks.json",
        "src/z/.envrc",
        "x.code-workspace",
        ".gitlab-ci.yml",
        ".gitmodules",
    ] {
        assert!(
            fs::symlink_metadata(lab.root.join(path)).is_err(),
            "{context}: {path} is there"
        );
    }
    let not_text = std::ffi::OsStr::from_bytes(b"src/\xff/.vscode/tasks.json");
    assert!(
        !lab.root.join(not_text).exists(),
        "{context}: what lies in a folder whose name is not text is there"
    );
}

#[tokio::test]
async fn what_is_protected_is_as_it_was_after_every_command() {
    for sandbox in walls("protected paths").await {
        let lab = project(&sandbox);
        // A folder that this user could not read before the command either.
        let closed = lab.root.join("src/closed");
        fs::create_dir(&closed).unwrap();
        fs::set_permissions(&closed, fs::Permissions::from_mode(0o000)).unwrap();
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
            // Folders that this user may no longer read or change.
            "mkdir src/x; chmod 0 src/x; echo evil > src/.envrc && mkdir -p src/.vscode && echo evil > src/.vscode/tasks.json",
            "mkdir -p src/y/.vscode && echo evil > src/y/.vscode/tasks.json && chmod 0 src/y",
            "mkdir -p src/z && echo evil > src/z/.envrc && chmod 555 src/z",
            // Names that are not text, and links that give a folder another name.
            "mkdir -p src/$'\\xff'/.vscode && echo evil > src/$'\\xff'/.vscode/tasks.json",
            "mkdir -p src/link && echo evil > src/link/tasks.json && ln -s . src/link/.vscode",
            "mkdir -p packages/ui/.git && printf '[core]\\n\\tfsmonitor = ./evil\\n' > packages/ui/.git/config; \
             mkdir -p packages/ui/.git/refs packages/ui/.git/objects; echo 'ref: refs/heads/x' > packages/ui/.git/HEAD",
        ] {
            let result = lab.command(command).await;
            assert_as_it_was(&lab, &format!("{sandbox:?} {command}: {result}"));
            let told = result["error"].as_str().unwrap_or_default();
            let is_told = told.contains("only a person may change") || told.contains("sandbox");
            assert!(is_told, "{sandbox:?} {command}: {result}");
        }
        assert_eq!(
            fs::metadata(&closed).unwrap().permissions().mode() & 0o777,
            0,
            "{sandbox:?}"
        );
        fs::set_permissions(&closed, fs::Permissions::from_mode(0o755)).unwrap();
        // What was removed is kept.
        let result = lab.command("echo evil > .envrc").await;
        if let Some(to) = error(&result).split("moved to ").nth(1) {
            assert_eq!(
                fs::read_to_string(PathBuf::from(to)).unwrap(),
                "evil\n",
                "{sandbox:?}: {result}"
            );
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
            assert!(
                !fs::exists(lab.root.join(".git")).unwrap(),
                "{sandbox:?} {command}: {result}"
            );
        }
        let result = lab.approved("git init -q .").await;
        assert!(
            !lab.root.join(".git/config").exists(),
            "{sandbox:?}: {result}"
        );
        // git reports the usual state when nothing is in progress.
        let result = lab.command("git status").await;
        assert_ne!(result["exit_code"], 0, "{sandbox:?}: {result}");
    }
}

#[tokio::test]
async fn an_approved_git_command_may_write_the_repository_but_not_what_runs_programs() {
    for sandbox in walls("approved git").await {
        let lab = project(&sandbox);
        lab.write("src/b.txt", "two\n");
        lab.write(
            ".git/hooks/pre-commit",
            "#!/bin/sh\ntouch \"$(git rev-parse --show-toplevel)/src/hook-ran\"\n",
        );
        fs::set_permissions(
            lab.root.join(".git/hooks/pre-commit"),
            fs::Permissions::from_mode(0o755),
        )
        .unwrap();
        let config = lab.read(".git/config");

        let refused = lab
            .command("git add src/b.txt && git commit -qm second")
            .await;
        assert_ne!(refused["exit_code"], 0, "{sandbox:?}: {refused}");

        let result = lab
            .approved("git add src/b.txt && git commit -qm second")
            .await;
        assert_eq!(result["success"], true, "{sandbox:?}: {result}");
        assert_eq!(
            lab.git(&["log", "-1", "--format=%s by %an <%ae>"]).trim(),
            "second by Ann \"A\" B <ann@example.org>"
        );
        assert!(
            !lab.root.join("src/hook-ran").exists(),
            "{sandbox:?}: a hook ran"
        );

        for command in [
            "git config core.fsmonitor ./evil",
            "git config core.hooksPath src",
            "git remote add origin https://example.org/x",
            "git submodule add ./src sub",
            "git worktree add ../elsewhere",
        ] {
            let result = lab.approved(command).await;
            assert_eq!(
                lab.read(".git/config"),
                config,
                "{sandbox:?} {command}: {result}"
            );
        }
        // Neither an editor nor a signature, because the settings name both programs.
        let own = lab.read(".git/config");
        lab.write(
            ".git/config",
            format!("{own}[core]\n\teditor = touch src/editor-ran\n[commit]\n\tgpgSign = true\n"),
        );
        let result = lab.approved("git commit --amend").await;
        assert_eq!(result["success"], true, "{sandbox:?}: {result}");
        assert!(
            !lab.root.join("src/editor-ran").exists(),
            "{sandbox:?}: an editor ran"
        );
        // Nobody was asked about the programs of this repository.
        lab.write(
            ".git/config",
            format!("{own}[filter \"x\"]\n\tclean = touch .git/filter-ran; cat\n"),
        );
        lab.write("src/.gitattributes", "*.txt filter=x\n");
        lab.write("src/d.txt", "four\n");
        let result = lab
            .approved("git add src/d.txt && git commit -qm fourth")
            .await;
        assert!(
            error(&result).contains("filter.x.clean"),
            "{sandbox:?}: {result}"
        );
        assert!(
            !lab.root.join(".git/filter-ran").exists(),
            "{sandbox:?}: a filter wrote to the git folder"
        );
        fs::remove_file(lab.root.join("src/.gitattributes")).unwrap();
        fs::remove_file(lab.root.join("src/d.txt")).unwrap();
        lab.write(".git/config", own);
        // With another program in it, it is an ordinary command.
        for command in [
            "git status && touch .git/x",
            "git log -1 > .git/y",
            "git status | tee .git/z",
        ] {
            lab.approved(command).await;
        }
        for name in ["x", "y", "z"] {
            assert!(
                !lab.root.join(".git").join(name).exists(),
                "{sandbox:?} {name}"
            );
        }
        // A person who wants hooks approves a command that says so.
        lab.write("src/c.txt", "three\n");
        let result = lab
            .approved("git add src/c.txt && git -c core.hooksPath=.git/hooks commit -qm third")
            .await;
        assert_eq!(result["success"], true, "{sandbox:?}: {result}");
        assert!(
            lab.root.join("src/hook-ran").exists(),
            "{sandbox:?}: {result}"
        );
    }
}

#[tokio::test]
async fn looking_at_a_hostile_repository_asks_and_runs_nothing_of_it() {
    let sandbox = walls("hostile settings")
        .await
        .into_iter()
        .next()
        .unwrap_or(Sandbox::None);
    if sandbox.is_none() {
        return;
    }
    let asks = |lab: &Lab, command: &str| match lab.workspace.review(&arguments_of(
        "execute_command",
        json!({"command": command}),
    )) {
        Verdict::Ask(ask) => Some(ask.reason),
        Verdict::Allow => None,
    };
    let looks = [
        "git status",
        "git diff",
        "git log -p",
        "git show",
        "git blame src/a.txt",
    ];
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
        lab.write(
            ".git/config",
            format!("{}{setting}\n", lab.read(".git/config")),
        );
        for command in looks {
            let reason =
                asks(&lab, command).unwrap_or_else(|| panic!("{command} with {setting} passed"));
            assert!(
                reason.contains("Git would run programs"),
                "{command}: {reason}"
            );
        }
        // A question about something else names them too.
        assert!(
            asks(&lab, "git add src")
                .is_some_and(|reason| reason.contains("Git would run programs")),
            "{setting}"
        );
        assert_eq!(asks(&lab, "ls -la"), None);
    }
    // A repository inside the repository, and a settings file without an end.
    let lab = project(&sandbox);
    lab.write("vendor/x/.git/HEAD", "ref: refs/heads/main\n");
    lab.write(
        "vendor/x/.git/config",
        "[core]\n\trepositoryformatversion = 0\n\tfsmonitor = ./evil\n",
    );
    fs::create_dir_all(lab.root.join("vendor/x/.git/refs")).unwrap();
    fs::create_dir_all(lab.root.join("vendor/x/.git/objects")).unwrap();
    assert!(asks(&lab, "git -C vendor/x status").is_some());
    let crowded = project(&sandbox);
    for number in 0..70 {
        fs::create_dir_all(crowded.root.join(format!("vendor/{number}/.git"))).unwrap();
    }
    assert!(
        asks(&crowded, "git status").is_some_and(|reason| reason.contains("more repositories"))
    );
    fs::remove_file(lab.root.join("vendor/x/.git/config")).unwrap();
    let made = std::process::Command::new("mkfifo")
        .arg(lab.root.join("vendor/x/.git/config"))
        .status()
        .unwrap();
    assert!(made.success());
    assert!(asks(&lab, "git status").is_some_and(|reason| reason.contains("cannot be read")));
}

#[tokio::test]
async fn what_git_would_run_is_switched_off_even_where_nobody_asked() {
    for sandbox in walls("switched off").await {
        let lab = project(&sandbox);
        lab.write(
            "evil.sh",
            "#!/bin/sh\necho ran >> \"$OLDPWD/src/ran\"; touch src/ran\n",
        );
        fs::set_permissions(lab.root.join("evil.sh"), fs::Permissions::from_mode(0o755)).unwrap();
        let config = lab.read(".git/config");
        lab.write(
            ".git/config",
            format!("{config}[core]\n\tfsmonitor = ./evil.sh\n\thooksPath = ./\n"),
        );
        for command in [
            "git status",
            "git diff",
            "git log -p",
            "git show",
            "git checkout -q HEAD -- src",
        ] {
            lab.approved(command).await;
            assert!(!lab.root.join("src/ran").exists(), "{sandbox:?} {command}");
        }
        // A folder that looks like a repository of its own is not treated as one.
        let bare = "mkdir -p src/bare/objects src/bare/refs && echo 'ref: refs/heads/x' > src/bare/HEAD && \
                    printf '[core]\\n\\tbare = false\\n\\tworktree = ..\\n\\tfsmonitor = ../../evil.sh\\n' > src/bare/config";
        lab.command(bare).await;
        let result: Value = lab.command("cd src/bare && git status").await;
        assert!(!lab.root.join("src/ran").exists(), "{sandbox:?}: {result}");
    }
}

#[tokio::test]
async fn what_protected_links_and_settings_lead_to_is_protected_too() {
    for sandbox in walls("links").await {
        let lab = Lab::behind(&sandbox);
        let mine = ["tools/husky/hook", "tools/ci/tasks.json", "tools/settings"];
        for path in mine {
            lab.write(path, "# mine");
        }
        lab.link(".husky", "tools/husky");
        lab.link(".vscode", "tools/ci");
        lab.git(&["init", "-q", "."]);
        lab.git(&["config", "core.hooksPath", "tools/later"]);
        lab.git(&["config", "include.path", "../tools/settings"]);
        lab.write("tools/nested/a.txt", "");
        lab.git(&["init", "-q", "tools/nested"]);
        lab.git(&[
            "-C",
            "tools/nested",
            "config",
            "core.hooksPath",
            "own/hooks",
        ]);
        for command in [
            "echo evil > tools/husky/hook",
            "echo evil > tools/husky/commit-msg",
            "rm -r tools/husky; ln -s ../.. tools/husky",
            "echo evil > tools/ci/tasks.json; echo evil > tools/ci/launch.json",
            "echo evil > tools/settings",
            "mkdir -p tools/later; echo evil > tools/later/pre-push",
            "mkdir -p tools/nested/own/hooks; echo evil > tools/nested/own/hooks/pre-push",
        ] {
            let result = lab.command(command).await;
            let kept = mine.map(|path| lab.read(path));
            assert_eq!(kept, ["# mine"; 3], "{sandbox:?} {command}: {result}");
            for path in [
                "tools/husky/commit-msg",
                "tools/ci/launch.json",
                "tools/later",
                "tools/nested/own/hooks",
            ] {
                assert!(
                    !lab.root.join(path).exists(),
                    "{sandbox:?} {command}: {path}: {result}"
                );
            }
        }
    }
}

#[tokio::test]
async fn a_file_too_large_to_keep_is_not_taken_away() {
    for sandbox in walls("large").await {
        let lab = Lab::behind(&sandbox);
        let content = "x".repeat(5_000_000);
        lab.write("src/.yarn/release.cjs", &content);
        let result = lab.command("touch src/.yarn/release.cjs").await;
        assert_eq!(
            lab.read("src/.yarn/release.cjs"),
            content,
            "{sandbox:?}: {result}"
        );
        assert!(!error(&result).is_empty());
        let result = lab
            .command("echo evil > src/other; mv src/other src/.yarn/release.cjs")
            .await;
        let said = error(&result);
        if let Some(place) = said.split("moved to ").nth(1) {
            assert_eq!(
                fs::read_to_string(place).unwrap(),
                "evil\n",
                "{sandbox:?}: {result}"
            );
        } else {
            let kept = lab.read("src/.yarn/release.cjs");
            assert_eq!(kept, content, "{sandbox:?}: {result}");
        }
    }
}

/// Its supervisor is gone, and the comparison with it.
#[tokio::test]
async fn a_command_that_was_not_compared_is_told_at_once_and_by_the_next_one() {
    for sandbox in walls("lost").await {
        let lab = project(&sandbox);
        let plant = format!(
            "echo evil > src/.envrc; touch src/started; exec sleep {}",
            marker(300)
        );
        let (result, ()) = tokio::join!(lab.command(&plant), async {
            wait_until("the command runs", || lab.root.join("src/started").exists()).await;
            let supervisor = ancestor_below_this(&marker(300));
            let done = std::process::Command::new("kill")
                .args(["-9", &supervisor.to_string()])
                .status()
                .unwrap();
            assert!(done.success());
        });
        assert!(
            error(&result).contains("protected paths were not compared"),
            "{sandbox:?}: {result}"
        );
        // Bubblewrap ends with its parent. Landlock alone ends no process.
        let is_landlock = sandbox == Sandbox::Landlock;
        for pid in running_pids(&marker(300)).iter().filter(|_| is_landlock) {
            let _ = std::process::Command::new("kill")
                .args(["-9", &pid.to_string()])
                .status();
        }
        wait_until("nothing is left", || running_pids(&marker(300)).is_empty()).await;
        let result = lab.command("true").await;
        assert!(
            result["warnings"][0]
                .as_str()
                .is_some_and(|text| text.contains("src/.envrc")),
            "{sandbox:?}: {result}"
        );
        assert_eq!(
            lab.command("true").await["warnings"],
            Value::Null,
            "{sandbox:?}"
        );
    }
}

/// The process that this one started, among the ancestors of the process with the marker.
fn ancestor_below_this(marker: &str) -> u32 {
    let own = std::process::id();
    let parent = |pid: u32| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
        stat.rsplit_once(')')
            .unwrap()
            .1
            .split_whitespace()
            .nth(1)
            .unwrap()
            .parse::<u32>()
            .unwrap()
    };
    let mut pid = running_pids(marker)[0];
    while parent(pid) != own {
        pid = parent(pid);
    }
    pid
}

/// Restoring files has its own time limit.
#[tokio::test]
async fn the_time_of_a_command_does_not_run_while_it_is_compared() {
    let Some(sandbox) = walls("comparing").await.into_iter().next() else {
        return;
    };
    let lab = project(&sandbox);
    let limit_seconds = 2;
    let begun = std::time::Instant::now();
    let command =
        "touch src/started; while [ ! -e src/go ]; do sleep 0.02; done; echo evil > src/.envrc";
    let call = lab.call(
        "execute_command",
        json!({"command": command, "timeout_seconds": limit_seconds}),
    );
    let (result, ()) = tokio::join!(call, async {
        wait_until("the command runs", || lab.root.join("src/started").exists()).await;
        let place = fs::read_dir(lab.data.join("baselines"))
            .unwrap()
            .next()
            .unwrap()
            .unwrap()
            .path();
        let gate = fs::File::open(place.join("gate")).unwrap();
        gate.lock().unwrap();
        lab.write("src/go", "");
        wait_until("the time of the command is over", || {
            begun.elapsed().as_secs() > limit_seconds
        })
        .await;
    });
    assert_eq!(result["exit_code"], 0, "{result}");
    assert!(error(&result).contains("src/.envrc was moved"), "{result}");
}

/// CodeLab itself writes there while commands run, and no command can.
#[tokio::test]
async fn a_data_folder_in_the_workspace_is_left_alone() {
    for sandbox in walls("data").await {
        let lab = Lab::new();
        let (root, data) = (lab.root.clone(), lab.root.join(".codelab"));
        fs::create_dir(&data).unwrap();
        lab.write("src/a.txt", "");
        let mut options = codelab_workspace::WorkspaceOptions::new(crate::lab::launcher());
        options.home = Some(lab.home.clone());
        options.data_dir = Some(data.clone());
        options.sandbox = sandbox.clone();
        let lab = lab.moved_to(root, options);
        let result = lab.command("cat .codelab/*; echo evil > src/.envrc").await;
        assert!(
            error(&result).contains("src/.envrc was moved"),
            "{sandbox:?}: {result}"
        );
        assert!(
            !error(&result).contains(".codelab was"),
            "{sandbox:?}: {result}"
        );
        assert_eq!(lab.command("true").await["success"], true, "{sandbox:?}");
        assert!(data.join("removed").is_dir(), "{sandbox:?}");
    }
}
