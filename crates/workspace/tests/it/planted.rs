//! What a command can hide in a workspace, in each sandbox: in closed folders, in folders that
//! became repositories, behind links, and in the parts of a git folder that an approved command may
//! write.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use crate::guarded::{assert_as_it_was, project};
use crate::lab::{Lab, error};
use crate::walls::walls;

fn make_executable(lab: &Lab, path: &str) {
    fs::set_permissions(lab.root.join(path), fs::Permissions::from_mode(0o755)).unwrap();
}

fn mode(lab: &Lab, path: &str) -> u32 {
    fs::metadata(lab.root.join(path))
        .unwrap()
        .permissions()
        .mode()
        & 0o777
}

#[tokio::test]
async fn a_folder_that_a_command_closes_keeps_nothing_it_planted() {
    for sandbox in walls("closed").await {
        let lab = project(&sandbox);
        lab.write("sub/a.txt", "");
        let before = [".", ".husky", "sub"].map(|path| mode(&lab, path));
        for command in [
            "mkdir -p sub/junk; chmod 000 sub/junk; echo evil > .envrc; mkdir -p .cursor; echo evil > .cursor/mcp.json; \
             mkdir -p sub/.vscode; echo evil > sub/.vscode/tasks.json",
            "mkdir -p sub/.vscode; echo evil > sub/.vscode/tasks.json; echo evil > .envrc; chmod 311 sub; chmod 755 sub",
            "echo evil > .envrc; mkdir -p sub/.vscode; echo evil > sub/.vscode/tasks.json; chmod 311 .",
            "echo evil > .envrc; chmod 000 .",
            "echo evil > .envrc; chmod 555 .",
            "mkdir -p src/.vscode; echo evil > src/.vscode/tasks.json; chmod 555 src/.vscode",
            "mkdir -p src/.husky/_ && echo evil > src/.husky/_/pre-push && chmod 555 src/.husky/_ src/.husky",
            "echo evil > .vscode/tasks.json; chmod 444 .vscode/tasks.json; chmod 555 .vscode; \
             echo evil > .husky/pre-commit; chmod 555 .husky",
            "rm -f .vscode/tasks.json .husky/pre-commit; chmod 555 .vscode .husky",
            "rm -rf packages/ui/.vscode; chmod 555 packages/ui",
        ] {
            let result = lab.command(command).await;
            let context = format!("{sandbox:?} {command}: {result}");
            assert_as_it_was(&lab, &context);
            for path in [".cursor", "sub/.vscode/tasks.json", "src/.husky"] {
                assert!(!lab.root.join(path).exists(), "{context}: {path}");
            }
            assert_eq!(
                [".", ".husky", "sub"].map(|path| mode(&lab, path)),
                before,
                "{context}"
            );
            let result = lab.command("true").await;
            assert_eq!(result["success"], true, "{context}, and then: {result}");
            for path in [".vscode", "src/.vscode", "packages/ui"] {
                if lab.root.join(path).exists() {
                    make_executable(&lab, path);
                }
            }
        }
    }
}

#[tokio::test]
async fn a_folder_that_became_a_repository_is_none_afterwards() {
    for sandbox in walls("repositories").await {
        let lab = project(&sandbox);
        // One that existed before.
        lab.git(&["init", "-q", "--bare", "known"]);
        let known = lab.read("known/config");
        let config = r"printf '[core]\nrepositoryformatversion=0\nbare=false\nworktree=..\nfsmonitor=./evil\n'";
        for command in [
            format!(
                "cp -r .git/HEAD .git/objects .git/refs .git/index src/; {config} > src/config"
            ),
            format!(
                "mkdir -p src/bare; cp -r .git/HEAD .git/objects .git/refs src/bare/; {config} > src/bare/config"
            ),
            format!(
                "git init -q --bare src/deep.git; {config} > src/deep.git/config; chmod 555 src/deep.git"
            ),
            format!(
                "mkdir -p src/linked; cp .git/HEAD src/linked; echo ../../.git > src/linked/commondir; \
                     {config} > src/linked/config.worktree"
            ),
            format!(
                "{config} > known/config; echo evil > known/hooks/pre-push; echo evil > known/config.worktree"
            ),
            "mv known src/known2".to_owned(),
        ] {
            let result = lab.command(&command).await;
            for folder in [
                "src",
                "src/bare",
                "src/deep.git",
                "src/linked",
                "src/known2",
            ] {
                if lab.root.join(folder).exists() {
                    let found = lab.git(&["-C", folder, "rev-parse", "--absolute-git-dir"]);
                    assert_eq!(
                        found.trim(),
                        lab.root.join(".git").to_str().unwrap(),
                        "{sandbox:?} {command}: {result}"
                    );
                }
            }
            assert_eq!(
                lab.read("known/config"),
                known,
                "{sandbox:?} {command}: {result}"
            );
            for path in ["known/hooks/pre-push", "known/config.worktree"] {
                assert!(
                    !lab.root.join(path).exists(),
                    "{sandbox:?} {command}: {result}"
                );
            }
        }
    }
}

#[tokio::test]
async fn a_git_folder_of_another_name_is_guarded_like_git() {
    for sandbox in walls("another name").await {
        for is_absolute in [false, true] {
            let lab = project(&sandbox);
            fs::rename(lab.root.join(".git"), lab.root.join("gd")).unwrap();
            let named = if is_absolute {
                lab.root.join("gd").display().to_string()
            } else {
                "gd".to_owned()
            };
            lab.write(".git", format!("gitdir: {named}\n"));
            let config = lab.read("gd/config");
            for command in [
                "printf '[core]\\n\\tfsmonitor = ./evil\\n' >> gd/config; echo evil > gd/hooks/pre-commit",
                "mv gd g3; cp -r g3 gd; echo evil > gd/hooks/pre-commit; echo evil > gd/config",
            ] {
                let result = lab.command(command).await;
                assert_eq!(
                    lab.read("gd/config"),
                    config,
                    "{sandbox:?} {command}: {result}"
                );
                assert!(
                    !lab.root.join("gd/hooks/pre-commit").exists(),
                    "{sandbox:?} {command}: {result}"
                );
            }
        }
    }
}

#[tokio::test]
async fn links_at_protected_names_lead_nowhere_new() {
    for sandbox in walls("new links").await {
        let lab = Lab::behind(&sandbox);
        lab.write("v/tasks.json", "mine");
        lab.write("v/workflows/ci.yml", "mine");
        lab.write("v/repo/a.txt", "");
        lab.write("src/envrc", "mine");
        for (link, target) in [
            (".vscode", "v"),
            (".github", "v"),
            (".jj", "v"),
            (".envrc", "src/envrc"),
        ] {
            lab.link(link, target);
        }
        fs::create_dir(lab.root.join("sub")).unwrap();
        for command in [
            "echo evil > v/tasks.json; echo evil > src/envrc; echo evil > v/workflows/ci.yml",
            "echo evil > v/workflows/evil.yml; echo evil > v/repo/config.toml",
            "ln -s ../v sub/.vscode; ln -s ../v sub/.cargo; ln -s v .config; ln -s v .forgejo; ln -s v .husky",
            "rm -f .vscode .envrc; ln -s src .vscode; ln -s src/a .envrc",
        ] {
            let result = lab.command(command).await;
            let context = format!("{sandbox:?} {command}: {result}");
            for path in [
                "v/tasks.json",
                "v/workflows/ci.yml",
                "src/envrc",
                ".vscode/tasks.json",
                ".envrc",
            ] {
                assert_eq!(lab.read(path), "mine", "{context}: {path}");
            }
            for path in [
                "v/workflows/evil.yml",
                "v/repo/config.toml",
                "sub/.vscode",
                "sub/.cargo",
                ".config",
                ".husky",
            ] {
                assert!(
                    fs::symlink_metadata(lab.root.join(path)).is_err(),
                    "{context}: {path}"
                );
            }
            assert!(
                fs::symlink_metadata(lab.root.join(".forgejo")).is_err(),
                "{context}"
            );
            assert!(!error(&result).is_empty());
        }
    }
}

/// A hook that a person allowed can write the git folder, like the git command around it.
#[tokio::test]
async fn code_inside_an_approved_git_command_leaves_no_program_behind() {
    for sandbox in walls("inside git").await {
        for script in [
            "mv .git/modules .git/m2; cp -r .git/m2 .git/modules; echo evil > .git/modules/part/config; \
             mkdir -p .git/modules/part/hooks; echo evil > .git/modules/part/hooks/post-checkout",
            "echo /tmp/evil > .git/worktrees/wt/commondir; echo evil > .git/worktrees/wt/config.worktree",
            "mkdir -p .git/rebase-merge .git/worktrees/wt/rebase-merge; \
             printf 'pick 1 a\\nexec evil\\n' | tee .git/worktrees/wt/rebase-merge/git-rebase-todo > .git/rebase-merge/git-rebase-todo",
            "mv .git g2",
            "mv .git g2; mkdir -p .git/hooks; echo evil > .git/hooks/post-checkout; echo evil > .git/config",
        ] {
            let lab = project(&sandbox);
            lab.write(".git/modules/part/HEAD", "ref: refs/heads/main\n");
            lab.write(".git/modules/part/config", "[core]\n");
            lab.write(".git/worktrees/wt/HEAD", "ref: refs/heads/main\n");
            lab.write(".git/worktrees/wt/commondir", "../..\n");
            lab.write(
                ".git/hooks/pre-commit",
                format!("#!/bin/sh\ntouch src/ran\n{script}\n"),
            );
            make_executable(&lab, ".git/hooks/pre-commit");
            let config = lab.read(".git/config");
            let command = "git -c core.hooksPath=.git/hooks commit -q --allow-empty -m second";
            let result = lab.approved(command).await;
            let context = format!("{sandbox:?} {script}: {result}");
            assert!(lab.root.join("src/ran").exists(), "{context}");
            assert_eq!(lab.read(".git/config"), config, "{context}");
            assert_eq!(
                lab.read(".git/modules/part/config"),
                "[core]\n",
                "{context}"
            );
            assert_eq!(
                lab.read(".git/worktrees/wt/commondir"),
                "../..\n",
                "{context}"
            );
            for path in [
                "g2",
                ".git/hooks/post-checkout",
                ".git/modules/part/hooks/post-checkout",
                ".git/worktrees/wt/config.worktree",
            ] {
                assert!(!lab.root.join(path).exists(), "{context}: {path}");
            }
            for path in [
                ".git/rebase-merge/git-rebase-todo",
                ".git/worktrees/wt/rebase-merge/git-rebase-todo",
            ] {
                let todo = fs::read_to_string(lab.root.join(path)).unwrap_or_default();
                assert!(!todo.contains("exec"), "{context}: {todo}");
            }
            assert!(
                lab.git(&["log", "--format=%s"]).contains("first"),
                "{context}"
            );
        }
    }
}

/// Longer than any path that the kernel accepts at once, in names that are not text.
#[tokio::test]
async fn nothing_stays_at_the_end_of_a_very_long_path() {
    for sandbox in walls("long path").await {
        let lab = Lab::behind(&sandbox);
        lab.write("src/a.txt", "");
        let down = r#"$n = "\xff" x 240; for (1..20) { mkdir $n; chdir $n or die }"#;
        let plant = format!(
            r#"cd src && perl -e '{down} mkdir ".vscode"; open(F, ">", ".vscode/tasks.json") or die; print F "evil"; close F;
               mkdir ".husky"; open(F, ">", ".husky/pre-push") or die; chmod 0555, ".husky", "."'"#
        );
        let result = lab.command(&plant).await;
        let look = format!(
            r#"{down} chmod 0755, "."; exit(-e ".vscode/tasks.json" || -e ".husky" ? 1 : 0)"#
        );
        let found = Command::new("perl")
            .args(["-e", &look])
            .current_dir(lab.root.join("src"))
            .status()
            .unwrap();
        assert!(found.success(), "{sandbox:?}: {result}");
        assert!(!error(&result).contains("cannot"), "{sandbox:?}: {result}");
        assert_eq!(lab.command("true").await["success"], true, "{sandbox:?}");
        assert!(
            Command::new("rm")
                .arg("-rf")
                .arg(lab.root.join("src"))
                .status()
                .unwrap()
                .success()
        );
    }
}

/// A wall guards names. The same file under a name that nobody guards is the same file.
#[tokio::test]
async fn another_name_of_a_protected_file_is_no_way_around() {
    for sandbox in walls("hard links").await {
        let lab = project(&sandbox);
        let before = lab.read(".git/config");
        for (protected, other) in [
            (".git/config", "src/c"),
            (".vscode/tasks.json", "src/t"),
            (".husky/pre-commit", "src/h"),
        ] {
            fs::hard_link(lab.root.join(protected), lab.root.join(other)).unwrap();
        }
        let result = lab
            .command("for f in src/c src/t src/h; do echo evil > $f; done")
            .await;
        assert_eq!(lab.read(".git/config"), before, "{sandbox:?}: {result}");
        assert_as_it_was(&lab, &format!("{sandbox:?}: {result}"));
        for path in [".git/config", ".vscode/tasks.json", ".husky/pre-commit"] {
            assert!(
                error(&result).contains(&format!("{path} was put back")),
                "{sandbox:?}: {result}"
            );
        }
        // Nothing leads there any more.
        let result = lab.command("echo evil > src/c; echo evil > src/t").await;
        assert_eq!(result["success"], true, "{sandbox:?}: {result}");
        assert_eq!(lab.read(".git/config"), before, "{sandbox:?}: {result}");
    }
}

#[tokio::test]
async fn a_pipe_as_git_folder_holds_up_nobody() {
    for sandbox in walls("pipe").await {
        let lab = Lab::behind(&sandbox);
        let made = Command::new("mkfifo").arg(lab.root.join(".git")).status();
        assert!(made.unwrap().success());
        let limit = std::time::Duration::from_secs(60);
        let ended = tokio::time::timeout(limit, lab.command("true")).await;
        assert!(ended.is_ok(), "{sandbox:?}: the client waits for the pipe");
    }
}

#[tokio::test]
async fn a_protected_file_that_no_mount_reaches_stops_no_command() {
    for sandbox in walls("deep").await {
        let lab = Lab::behind(&sandbox);
        let plant = r#"$n = "d" x 240; for (1..20) { mkdir $n; chdir $n or die } open(F, ">", ".envrc") or die"#;
        let planted = Command::new("perl")
            .args(["-e", plant])
            .current_dir(&lab.root)
            .status();
        assert!(planted.unwrap().success());
        let result = lab.command("echo on").await;
        assert_eq!(result["stdout"], "on\n", "{sandbox:?}: {result}");
        let gone = Command::new("rm").arg("-rf").arg(&lab.root).status();
        assert!(gone.unwrap().success());
    }
}
