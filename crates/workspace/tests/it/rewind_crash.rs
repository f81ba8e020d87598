//! The client dies at every step of a rewind. Afterwards the rewind is done, or it was not begun, and
//! its undoing gives back every byte.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use codelab_workspace::{ClientFailpoint, Sandbox, Workspace, WorkspaceOptions};
use serde_json::{Value, json};

use crate::lab::{arguments_of, folder, key_of, launcher, run_as};
use crate::rewind::LIMITS;

const CHILD: &str = "CODELAB_TEST_REWIND_CHILD";
const FAILPOINT: &str = "CODELAB_TEST_REWIND_FAILPOINT";
const PLACES: [&str; 7] = [
    "rewind_planned",
    "rewind_kept",
    "rewind_begun",
    "rewind_exchanged",
    "rewind_applied",
    "rewind_done",
    "rewind_finished",
];
/// Passes through a place that are tried at most; the rewind below has fewer steps.
const MAX_PASSES: u32 = 12;

fn open(base: &Path, failpoint: ClientFailpoint) -> Workspace {
    let mut options = WorkspaceOptions::new(launcher());
    options.home = Some(base.join("home"));
    options.data_dir = Some(base.join("data"));
    options.sandbox = Sandbox::None;
    let workspace = Workspace::open(base.join("root"), options).unwrap();
    workspace.keep_before_images(&base.join("data/before"), LIMITS, failpoint);
    workspace
}

async fn run(workspace: &Workspace, id: &str, tool: &str, arguments: Value) -> Value {
    run_as(workspace, id, &arguments_of(tool, arguments)).await
}

fn rewind_of(base: &Path) -> (&'static str, Value) {
    match base.join("data/undoing").exists() {
        true => ("undo", json!({"undo": "r"})),
        false => {
            let calls: Vec<Value> = ["a", "b", "c", "d", "e"]
                .iter()
                .map(|call| json!({"call_id": call}))
                .collect();
            ("rewind", json!({"rewind_id": "r", "calls": calls}))
        }
    }
}

/// Runs as a process of its own, which dies at the armed place.
#[tokio::test]
async fn child() {
    let Ok(base) = std::env::var(CHILD) else {
        return;
    };
    let base = PathBuf::from(base);
    let failpoint = std::env::var(FAILPOINT).unwrap();
    let workspace = open(&base, ClientFailpoint::parse(&failpoint).unwrap());
    let (id, arguments) = rewind_of(&base);
    run(&workspace, id, "rewind_files", arguments).await;
}

type Tree = BTreeMap<PathBuf, (u32, Option<Vec<u8>>)>;

fn tree(root: &Path) -> Tree {
    let mut found = Tree::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let mode = fs::metadata(&path).unwrap().mode();
            let content = match path.is_dir() {
                true => {
                    folders.push(path.clone());
                    None
                }
                false => Some(fs::read(&path).unwrap()),
            };
            found.insert(path.strip_prefix(root).unwrap().to_owned(), (mode, content));
        }
    }
    found
}

/// Whether the child died.
fn dies_at(base: &Path, failpoint: &str) -> bool {
    let mut child = Command::new(std::env::current_exe().unwrap());
    child.args(["--exact", "rewind_crash::child", "--nocapture"]);
    child.env(CHILD, base).env(FAILPOINT, failpoint);
    let output = child.output().unwrap();
    !output.status.success()
}

/// Ends what the child began, as the tool runner does at its next start.
fn settle(base: &Path, id: &str) -> Value {
    open(base, ClientFailpoint::default()).resume_rewind(&key_of(id))
}

/// Agents write, then a hand changes a file and deletes another. What was there before, and after.
async fn written(base: &Path) -> (Tree, Tree) {
    for name in ["root", "home", "data"] {
        fs::create_dir(base.join(name)).unwrap();
    }
    let root = base.join("root");
    fs::write(root.join("changed.txt"), "one").unwrap();
    fs::write(root.join("by-hand.txt"), "one").unwrap();
    fs::write(root.join("deleted.txt"), "one").unwrap();
    let before = tree(&root);
    let workspace = open(base, ClientFailpoint::default());
    for (id, path, content) in [
        ("a", "changed.txt", "two"),
        ("b", "changed.txt", "three"),
        ("c", "new/folder/new.txt", "new"),
        ("d", "by-hand.txt", "two"),
        ("e", "deleted.txt", "two"),
    ] {
        let arguments = json!({"path": path, "content": content, "create_dirs": true});
        run(&workspace, id, "write_file", arguments).await;
    }
    fs::write(root.join("by-hand.txt"), "by hand").unwrap();
    fs::remove_file(root.join("deleted.txt")).unwrap();
    (before, tree(&root))
}

#[tokio::test]
async fn a_rewind_and_its_undoing_survive_a_kill_at_every_step() {
    let mut deaths = 0;
    for place in PLACES {
        for pass in 1..=MAX_PASSES {
            let failpoint = format!("{place}:{pass}");
            let folder = folder();
            let base = folder.path().canonicalize().unwrap();
            let root = base.join("root");
            let (before, after) = written(&base).await;
            let mut rewound = before.clone();
            rewound.insert(
                "by-hand.txt".into(),
                after[Path::new("by-hand.txt")].clone(),
            );

            if !dies_at(&base, &failpoint) {
                break;
            }
            deaths += 1;
            let result = settle(&base, "rewind");
            assert_eq!(result["success"], true, "{failpoint}: {result}");
            assert_eq!(tree(&root), rewound, "{failpoint}: {result}");
            assert_eq!(result["left"][0]["path"], "by-hand.txt", "{failpoint}");
            assert_eq!(
                result["restored"].as_array().unwrap().len(),
                3,
                "{failpoint}: {result}"
            );

            fs::write(base.join("data/undoing"), "").unwrap();
            dies_at(&base, &failpoint);
            let result = settle(&base, "undo");
            assert_eq!(result["success"], true, "{failpoint}: {result}");
            assert_eq!(tree(&root), after, "{failpoint}: {result}");
        }
    }
    assert!(deaths >= 15, "only {deaths} places were passed");
}

#[tokio::test]
async fn a_kill_before_the_plan_is_stored_changes_nothing() {
    let folder = folder();
    let base = folder.path().canonicalize().unwrap();
    for name in ["root", "home", "data"] {
        fs::create_dir(base.join(name)).unwrap();
    }
    fs::write(base.join("root/file.txt"), "one").unwrap();
    let result = settle(&base, "rewind");
    assert!(
        result["error"]
            .as_str()
            .unwrap()
            .contains("no file was changed"),
        "{result}"
    );
    assert_eq!(
        fs::read_to_string(base.join("root/file.txt")).unwrap(),
        "one"
    );
}

/// As if somebody had saved between the look at a file and its replacement, and the client had died
/// before it could see that.
#[tokio::test]
async fn what_was_saved_at_the_moment_of_a_kill_gets_its_name_back() {
    for (pass, name) in [(1, "new/folder/new.txt"), (2, "changed.txt")] {
        let folder = folder();
        let base = folder.path().canonicalize().unwrap();
        written(&base).await;
        let root = base.join("root");
        assert!(dies_at(&base, &format!("rewind_exchanged:{pass}")));
        let is_ours = |path: &Path| path.to_string_lossy().contains(".codelab-");
        let found = tree(&root);
        let aside: Vec<_> = found.keys().filter(|path| is_ours(path)).collect();
        assert_eq!(aside.len(), 1, "{aside:?}");
        fs::write(root.join(aside[0]), "saved just now").unwrap();
        let result = settle(&base, "rewind");
        let saved = fs::read_to_string(root.join(name)).unwrap();
        assert_eq!(saved, "saved just now", "{result}");
        let left = result["left"].as_array().unwrap().iter();
        let left: Vec<_> = left.map(|left| left["path"].as_str().unwrap()).collect();
        assert!(left.contains(&name), "{result}");
        assert!(!tree(&root).keys().any(|path| is_ours(path)), "{result}");
    }
}
