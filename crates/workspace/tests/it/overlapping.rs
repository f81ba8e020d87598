//! Protected paths while several commands, tools or other programs change the workspace at once.

use std::fs;

use codelab_workspace::{Call, Sandbox};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::commands::wait_until;
use crate::guarded::{assert_as_it_was, project};
use crate::lab::{Lab, arguments_of, error};
use crate::walls::walls;

#[tokio::test]
async fn what_a_person_lets_a_tool_write_meanwhile_stays() {
    for sandbox in walls("meanwhile").await {
        let lab = project(&sandbox);
        let wait = "touch src/started; while [ ! -e src/go ]; do sleep 0.02; done; echo evil > src/.envrc; \
                    echo evil > src/.husky/pre-push";
        let (result, ()) = tokio::join!(lab.command(wait), async {
            wait_until("the command runs", || lab.root.join("src/started").exists()).await;
            for (path, content) in [
                (".github/workflows/new.yml", "new"),
                (".vscode/tasks.json", "changed"),
            ] {
                lab.call("read_file", json!({"path": path})).await;
                let written = lab
                    .call("write_file", json!({"path": path, "content": content}))
                    .await;
                assert_eq!(written["success"], true, "{sandbox:?}: {written}");
            }
            // The person agreed to the folder, and not to what a command puts into it.
            let made = lab
                .call("create_directory", json!({"path": "src/.husky"}))
                .await;
            assert_eq!(made["success"], true, "{sandbox:?}: {made}");
            lab.write("src/go", "");
        });
        let planted = lab.root.join("src/.husky/pre-push");
        assert!(
            planted.parent().unwrap().is_dir() && !planted.exists(),
            "{sandbox:?}: {result}"
        );
        assert!(
            error(&result).contains("src/.envrc was moved"),
            "{sandbox:?}: {result}"
        );
        assert_eq!(
            (
                lab.read(".github/workflows/new.yml"),
                lab.read(".vscode/tasks.json")
            ),
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
        tokio::join!(
            lab.command(plant),
            lab.command_after("src/planted", stay),
            async {
                wait_until("both run", || lab.root.join("src/staying").exists()).await;
                lab.write("src/go", "");
                wait_until("the first has ended", || {
                    !lab.root.join("src/x/.envrc").exists()
                })
                .await;
                lab.write("src/end", "");
            }
        );
        for path in ["src/x/.envrc", "src/y/.envrc"] {
            assert!(!lab.root.join(path).exists(), "{sandbox:?}: {path}");
        }
    }
}

/// Whichever client started them, and whichever ends first.
#[tokio::test]
async fn commands_that_overlap_are_compared_with_what_was_before_all_of_them() {
    for sandbox in walls("overlap").await {
        let lab = project(&sandbox);
        let other = lab.second(&sandbox);
        let change = "mv packages/ui packages/old; mkdir -p packages/ui/.vscode; \
                      echo evil > packages/ui/.vscode/settings.json; echo evil > .husky/pre-commit; touch src/changed; \
                      while [ ! -e src/go ]; do sleep 0.02; done";
        let stay = "touch src/staying; while [ ! -e src/end ]; do sleep 0.02; done; \
                    mkdir -p .git/hooks && echo evil > .git/hooks/pre-push && touch src/wrote";
        let arguments = arguments_of(
            "execute_command",
            json!({"command": stay, "timeout_seconds": 60}),
        );
        let first_has_ended = std::sync::atomic::AtomicBool::new(false);
        tokio::join!(
            async {
                lab.command(change).await;
                first_has_ended.store(true, std::sync::atomic::Ordering::SeqCst);
            },
            async {
                wait_until("the first runs", || lab.root.join("src/changed").exists()).await;
                let call = Call {
                    user_id: None,
                    arguments: &arguments,
                    is_approved: false,
                    reader: None,
                    base: None,
                    key: None,
                };
                other.run(call, CancellationToken::new()).await
            },
            async {
                wait_until("both run", || lab.root.join("src/staying").exists()).await;
                lab.write("src/go", "");
                wait_until("the first has ended", || {
                    first_has_ended.load(std::sync::atomic::Ordering::SeqCst)
                })
                .await;
                lab.write("src/end", "");
            }
        );
        assert_as_it_was(&lab, &format!("{sandbox:?}"));
        assert!(!lab.root.join("src/wrote").exists(), "{sandbox:?}");
    }
}

/// The cover of a git folder that does not exist stays until the last command has ended.
#[tokio::test]
async fn a_command_does_not_lose_its_cover_when_another_one_ends() {
    for sandbox in walls("cover").await {
        let lab = Lab::behind(&sandbox);
        lab.write("src/a.txt", "one\n");
        let plant = "touch src/staying; while [ ! -e src/end ]; do sleep 0.02; done; \
                     mkdir -p .git/hooks && echo evil > .git/hooks/pre-push && touch src/wrote";
        tokio::join!(lab.command(plant), async {
            wait_until("the first runs", || lab.root.join("src/staying").exists()).await;
            lab.command("true").await;
            lab.write("src/end", "");
        });
        assert!(!lab.root.join(".git").exists(), "{sandbox:?}");
        let is_covered = matches!(sandbox, Sandbox::Bwrap { .. });
        assert!(
            !is_covered || !lab.root.join("src/wrote").exists(),
            "{sandbox:?}: the folder was there for a moment"
        );
    }
}

/// A file that another program replaces loses its mount.
#[tokio::test]
async fn what_is_replaced_from_outside_is_guarded_all_the_same() {
    for sandbox in walls("replaced").await {
        let lab = project(&sandbox);
        let wait = "touch src/started; while [ ! -e src/go ]; do sleep 0.02; done; echo evil > .vscode/tasks.json";
        tokio::join!(lab.command(wait), async {
            wait_until("the command runs", || lab.root.join("src/started").exists()).await;
            // Only the person can have changed it in place beneath a mount that still holds.
            lab.write(".husky/pre-commit", "edited");
            lab.write("new", "mine");
            fs::rename(lab.root.join("new"), lab.root.join(".vscode/tasks.json")).unwrap();
            lab.write("src/go", "");
        });
        assert_eq!(lab.read(".vscode/tasks.json"), "mine", "{sandbox:?}");
        let is_mounted = matches!(sandbox, Sandbox::Bwrap { .. });
        assert_eq!(
            lab.read(".husky/pre-commit"),
            if is_mounted { "edited" } else { "mine" },
            "{sandbox:?}"
        );
    }
}

/// While commands overlap nothing is mounted, so that another name can be given to what is
/// protected.
#[tokio::test]
async fn a_name_given_meanwhile_is_no_way_in_later() {
    for sandbox in walls("names").await {
        let lab = project(&sandbox);
        let stay = "touch src/staying; while [ ! -e src/go ]; do sleep 0.02; done";
        let name = "ln .vscode/tasks.json src/t; ln .husky/pre-commit src/h; touch src/go";
        let (_, result) = tokio::join!(lab.command(stay), lab.command_after("src/staying", name));
        assert!(
            lab.root.join("src/t").exists(),
            "{sandbox:?}: no name was given: {result}"
        );
        let later = lab.command("echo evil > src/t; echo evil > src/h").await;
        assert_as_it_was(&lab, &format!("{sandbox:?}: {result} {later}"));
    }
}
