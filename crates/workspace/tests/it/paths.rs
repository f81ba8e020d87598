//! Paths that try to leave the workspace, by their text and by links.

use std::fs;

use codelab_protocol::Tool;
use codelab_workspace::{Workspace, WorkspaceOptions};
use serde_json::{Value, json};

use crate::lab::{CANARY, Lab, content, error, launcher};

/// Every tool that takes a path, called with this one.
fn calls(path: &str) -> [(&'static str, Value); 7] {
    [
        ("read_file", json!({"path": path})),
        ("write_file", json!({"path": path, "content": "x"})),
        (
            "write_file",
            json!({"path": path, "content": "x", "create_dirs": true}),
        ),
        ("list_files", json!({"path": path, "recursive": true})),
        ("search_in_code", json!({"query": "canary", "path": path})),
        ("create_directory", json!({"path": path})),
        (
            "execute_command",
            json!({"command": "echo x > planted; cat secret.txt", "cwd": path}),
        ),
    ]
}

#[tokio::test]
async fn no_path_leads_outside() {
    let lab = Lab::new();
    lab.write("src/main.rs", "fn main() {}");
    let evil = lab.root.with_file_name("root-evil");
    fs::create_dir(&evil).unwrap();
    fs::write(evil.join("secret.txt"), CANARY).unwrap();
    // It is another folder, even if a comparison ignores case.
    let shouted = lab.root.with_file_name("ROOT");
    fs::create_dir(&shouted).unwrap();
    fs::write(shouted.join("secret.txt"), CANARY).unwrap();
    lab.link("out", &lab.outside);
    lab.link("src/up", "../../outside");
    lab.link("file", lab.outside.join("secret.txt"));
    lab.link("hop", "src/up");
    lab.link("system", "/etc");
    let outside = lab.outside.display();
    for path in [
        "../outside".to_owned(),
        "../outside/secret.txt".to_owned(),
        "src/../../outside/secret.txt".to_owned(),
        "./src/.././../outside".to_owned(),
        format!("{outside}"),
        format!("{outside}/secret.txt"),
        format!("{}/../outside/secret.txt", lab.root.display()),
        format!("{}", evil.display()),
        format!("{}/secret.txt", evil.display()),
        format!("{}", shouted.display()),
        format!("{}/secret.txt", shouted.display()),
        "../ROOT/secret.txt".to_owned(),
        "/".to_owned(),
        "/etc/passwd".to_owned(),
        "..".to_owned(),
        "../..".to_owned(),
        "out".to_owned(),
        "out/secret.txt".to_owned(),
        "out/new/folder".to_owned(),
        "src/up/secret.txt".to_owned(),
        "hop/secret.txt".to_owned(),
        "file".to_owned(),
        "system/passwd".to_owned(),
        "/proc/self/root/etc/passwd".to_owned(),
    ] {
        for (tool, arguments) in calls(&path) {
            let result = lab.call(tool, arguments).await;
            assert_eq!(
                error(&result),
                format!("Path {path} is outside workspace bounds"),
                "{tool}"
            );
            assert!(!result.to_string().contains(CANARY), "{tool} {path}");
        }
    }
    lab.assert_outside_untouched("paths");
    assert_eq!(fs::read_dir(&evil).unwrap().count(), 1);
    assert_eq!(fs::read_dir(&shouted).unwrap().count(), 1);
}

#[tokio::test]
async fn odd_paths_get_a_clear_answer() {
    let lab = Lab::new();
    lab.link("nowhere", "missing/file");
    lab.link("circle", "circle");
    let long_name = "x".repeat(300);
    let long_path = "x/".repeat(3000);
    for (path, expected) in [
        ("nowhere", "Path nowhere is a symbolic link to nothing"),
        ("circle", "Path circle leads through links in a circle"),
        (
            "missing/../../outside/x",
            "Path missing/../../outside/x does not exist",
        ),
        (long_path.as_str(), "Path x/x/x"),
        (long_name.as_str(), "xxx"),
        ("~/x", "Path ~ does not exist"),
    ] {
        let result = lab
            .call("write_file", json!({"path": path, "content": "x"}))
            .await;
        assert!(error(&result).starts_with(expected), "{path}: {result}");
    }
    // Refused before the path is used.
    let nul = json!({"path": "a\0/../../outside/x", "content": "x"});
    let refusal = Tool::WriteFile.check(nul.as_object().unwrap()).unwrap_err();
    assert_eq!(refusal.0, "path contains a NUL character");
    lab.assert_outside_untouched("odd paths");
    assert_eq!(lab.workspace.root(), lab.root);
}

#[tokio::test]
async fn links_within_the_workspace_are_followed() {
    let lab = Lab::new();
    lab.write("real/a.txt", "first");
    lab.link("alias", "real");
    lab.link("real/back", "../real/a.txt");
    assert_eq!(
        content(&lab.call("read_file", json!({"path": "alias/a.txt"})).await),
        "first"
    );
    let result = lab
        .call(
            "write_file",
            json!({"path": "alias/back", "content": "second"}),
        )
        .await;
    assert_eq!(result["success"], true, "{result}");
    assert_eq!(lab.read("real/a.txt"), "second");
    assert!(
        fs::symlink_metadata(lab.root.join("real/back"))
            .unwrap()
            .is_symlink(),
        "the link stays a link"
    );
    let result = lab
        .call("create_directory", json!({"path": "alias/x/y"}))
        .await;
    assert_eq!(result, json!({"success": true}));
    assert!(lab.root.join("real/x/y").is_dir());
    assert_eq!(
        lab.call("create_directory", json!({"path": "real/x"}))
            .await,
        json!({"success": true})
    );
    assert_eq!(
        error(
            &lab.call("create_directory", json!({"path": "real/a.txt"}))
                .await
        ),
        "Path real/a.txt is not a folder"
    );
}

#[tokio::test]
async fn a_link_cannot_hide_that_something_protected_is_written() {
    let lab = Lab::new();
    lab.write(".git/hooks/sample", "");
    lab.link("docs", ".git/hooks");
    for (tool, arguments) in [
        (
            "write_file",
            json!({"path": "docs/pre-commit", "content": "evil"}),
        ),
        (
            "write_file",
            json!({"path": "docs/sample", "content": "evil"}),
        ),
        ("create_directory", json!({"path": "docs/folder"})),
    ] {
        let result = lab.call(tool, arguments).await;
        assert!(error(&result).contains("which is protected"), "{result}");
    }
    assert_eq!(
        fs::read_dir(lab.root.join(".git/hooks")).unwrap().count(),
        1
    );
    // Named directly, it is what a person was asked about.
    let result = lab
        .call(
            "write_file",
            json!({"path": ".git/hooks/pre-commit", "content": "approved"}),
        )
        .await;
    assert_eq!(result["success"], true, "{result}");
}

#[tokio::test]
async fn private_files_inside_the_workspace_do_not_exist_for_tools() {
    let lab = Lab::new();
    let home = lab.home.clone();
    fs::create_dir_all(home.join(".ssh")).unwrap();
    fs::write(home.join(".ssh/id_ed25519"), CANARY).unwrap();
    fs::create_dir_all(home.join("project/data")).unwrap();
    fs::write(home.join("project/data/codelab.key"), CANARY).unwrap();
    std::os::unix::fs::symlink("project/data", home.join("shortcut")).unwrap();
    let mut options = WorkspaceOptions::new(launcher());
    options.home = Some(home.clone());
    options.data_dir = Some(home.join("shortcut"));
    let lab = lab.moved_to(home, options);
    let home_file = |path: &str| lab.root.join(path);
    for path in [
        ".ssh/id_ed25519",
        "project/data/codelab.key",
        "shortcut/codelab.key",
        "project/data/new",
        ".ssh/new",
    ] {
        for (tool, arguments) in calls(path) {
            if tool != "execute_command" {
                let result = lab.call(tool, arguments).await;
                let private = format!(
                    "Path {path} belongs to CodeLab or holds credentials; it is not part of the workspace"
                );
                let missing = format!("Path {path} does not exist");
                assert!(
                    [private, missing].contains(&error(&result).to_owned()),
                    "{tool}: {result}"
                );
                assert!(
                    !home_file(path).exists() || !path.ends_with("new"),
                    "{tool} {path}"
                );
            }
        }
    }
    let result = lab.call("search_in_code", json!({"query": "canary"})).await;
    assert_eq!(result, json!({"success": true, "matches": []}));
    let result = lab
        .call("list_files", json!({"path": ".", "recursive": true}))
        .await;
    assert!(
        !result.to_string().contains("codelab.key") && !result.to_string().contains("id_ed25519"),
        "{result}"
    );
}

#[tokio::test]
async fn the_root_is_the_folder_that_was_opened() {
    let lab = Lab::new();
    lab.write("a.txt", "mine");
    let moved = lab.root.with_file_name("moved");
    fs::rename(&lab.root, &moved).unwrap();
    std::os::unix::fs::symlink(&lab.outside, &lab.root).unwrap();
    assert_eq!(
        content(&lab.call("read_file", json!({"path": "a.txt"})).await),
        "mine"
    );
    assert_eq!(
        error(&lab.call("read_file", json!({"path": "secret.txt"})).await),
        "Path secret.txt does not exist"
    );
    let result = lab.command("echo x > planted").await;
    assert!(error(&result).contains("moved or replaced"), "{result}");
    lab.assert_outside_untouched("a replaced root");
}

#[test]
fn the_whole_file_system_is_no_workspace() {
    for root in ["/", "/no/such/folder"] {
        assert!(
            Workspace::open(root, WorkspaceOptions::new(launcher())).is_err(),
            "{root}"
        );
    }
}
