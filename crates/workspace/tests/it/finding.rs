//! Listing and searching.

use std::fs;

use codelab_workspace::WorkspaceLimits;
use serde_json::{Value, json};

use crate::lab::{CANARY, Lab, error};

fn project() -> Lab {
    let lab = Lab::with(|options| {
        options.limits = WorkspaceLimits {
            matches: 5,
            listed_files: 8,
            match_text_bytes: 30,
            ..WorkspaceLimits::default()
        }
    });
    lab.write(".gitignore", "*.log\n/build/\nsecret/\n!keep.log\n");
    lab.write(".git/config", "needle");
    lab.write("src/main.py", "import os\nneedle = 1\n");
    lab.write("src/util.py", "# Needle\r\nx = needle.call(1)\r\n");
    lab.write("src/deep/.gitignore", "generated.py\n");
    lab.write("src/deep/generated.py", "needle");
    lab.write("src/deep/hand.py", "def f(): pass\n");
    lab.write("src/data.bin", b"needle\0needle");
    lab.write("debug.log", "needle");
    lab.write("keep.log", "kept");
    lab.write("build/out.py", "needle inside build\n");
    lab.link("src/link.py", "main.py");
    lab.link("src/out", &lab.outside);
    lab
}

fn paths(result: &Value, list: &str) -> Vec<String> {
    assert_eq!(result["success"], true, "{result}");
    result[list]
        .as_array()
        .unwrap()
        .iter()
        .map(|item| item["path"].as_str().unwrap().to_owned())
        .collect()
}

#[tokio::test]
async fn listings_obey_ignore_files_patterns_and_limits() {
    let lab = project();
    for (arguments, expected, is_truncated) in [
        (
            json!({"path": "."}),
            vec![".gitignore", "keep.log", "src"],
            false,
        ),
        (
            json!({"path": "src"}),
            vec![
                "src/data.bin",
                "src/deep",
                "src/link.py",
                "src/main.py",
                "src/util.py",
            ],
            false,
        ),
        (
            json!({"path": "src", "recursive": true, "pattern": "*.py"}),
            vec![
                "src/deep/hand.py",
                "src/link.py",
                "src/main.py",
                "src/util.py",
            ],
            false,
        ),
        (
            json!({"path": ".", "recursive": true, "pattern": "src/*.py"}),
            vec!["src/link.py", "src/main.py", "src/util.py"],
            false,
        ),
        (
            json!({"path": ".", "recursive": true, "pattern": "src/**/*.py"}),
            vec![
                "src/deep/hand.py",
                "src/link.py",
                "src/main.py",
                "src/util.py",
            ],
            false,
        ),
        (json!({"path": "build"}), vec!["build/out.py"], false),
        (
            json!({"path": ".", "recursive": true}),
            vec![
                ".gitignore",
                "keep.log",
                "src",
                "src/data.bin",
                "src/deep",
                "src/deep/.gitignore",
                "src/deep/hand.py",
                "src/link.py",
            ],
            true,
        ),
    ] {
        let result = lab.call("list_files", arguments.clone()).await;
        assert_eq!(paths(&result, "files"), expected, "{arguments}");
        assert_eq!(
            result["truncated"] == json!(true),
            is_truncated,
            "{arguments}"
        );
    }
    let result = lab.call("list_files", json!({"path": "src/deep"})).await;
    let entry = &result["files"][1];
    assert_eq!(
        (&entry["path"], &entry["type"], &entry["size"]),
        (&json!("src/deep/hand.py"), &json!("file"), &json!(14))
    );
    assert!(
        entry["modified"].as_str().unwrap().ends_with('Z'),
        "{entry}"
    );
    assert_eq!(
        error(&lab.call("list_files", json!({"path": "keep.log"})).await),
        "Path keep.log is not a folder"
    );
    assert!(
        error(
            &lab.call("list_files", json!({"path": ".", "pattern": "["}))
                .await
        )
        .contains("not a usable pattern")
    );
}

#[tokio::test]
async fn searches_find_lines_and_nothing_outside() {
    let lab = project();
    for (arguments, expected) in [
        (
            json!({"query": "needle"}),
            vec![
                ("src/main.py", 2, "needle = 1"),
                ("src/util.py", 2, "x = needle.call(1)"),
            ],
        ),
        (
            json!({"query": "needle.call("}),
            vec![("src/util.py", 2, "x = needle.call(1)")],
        ),
        (
            json!({"query": "(?i)^# need[l]e$", "regex": true}),
            vec![("src/util.py", 1, "# Needle")],
        ),
        (
            json!({"query": "needle", "path": "src/main.py"}),
            vec![("src/main.py", 2, "needle = 1")],
        ),
        (
            json!({"query": "needle", "pattern": "main.*"}),
            vec![("src/main.py", 2, "needle = 1")],
        ),
        (
            json!({"query": "needle", "path": "build"}),
            vec![("build/out.py", 1, "needle inside build")],
        ),
        (json!({"query": CANARY}), vec![]),
    ] {
        let result = lab.call("search_in_code", arguments.clone()).await;
        let expected: Vec<Value> = expected
            .iter()
            .map(|(path, line, text)| json!({"path": path, "line": line, "text": text}))
            .collect();
        assert_eq!(
            result,
            json!({"success": true, "matches": expected}),
            "{arguments}"
        );
    }
    assert!(
        error(
            &lab.call("search_in_code", json!({"query": "(", "regex": true}))
                .await
        )
        .contains("not a usable pattern")
    );
}

#[tokio::test]
async fn many_matches_and_long_lines_are_cut() {
    let lab = project();
    lab.write("many.txt", "hay stack\n".repeat(9));
    lab.write("one.txt", "ж".repeat(1000));
    let result = lab.call("search_in_code", json!({"query": "hay"})).await;
    assert_eq!(
        (
            result["matches"].as_array().unwrap().len(),
            &result["truncated"]
        ),
        (5, &json!(true))
    );
    let result = lab.call("search_in_code", json!({"query": "ж"})).await;
    assert_eq!(result["matches"][0]["text"], "ж".repeat(15));
}

#[tokio::test]
async fn a_slow_expression_does_not_hang() {
    let lab = project();
    lab.write("a.txt", "a".repeat(20_000));
    let result = lab
        .call("search_in_code", json!({"query": "(a+)+$x", "regex": true}))
        .await;
    assert_eq!(result["success"], true, "{result}");
    assert!(
        error(
            &lab.call(
                "search_in_code",
                json!({"query": "(a{9999}){9999}", "regex": true})
            )
            .await
        )
        .contains("not a usable")
    );
}

#[tokio::test]
async fn a_deep_tree_is_walked_without_a_deep_stack() {
    let lab = Lab::new();
    let deep = lab.root.join("d/".repeat(200));
    fs::create_dir_all(&deep).unwrap();
    fs::write(deep.join("needle.txt"), "needle").unwrap();
    let result = lab.call("search_in_code", json!({"query": "needle"})).await;
    assert_eq!(
        (&result["success"], &result["truncated"]),
        (&json!(true), &json!(true)),
        "{result}"
    );
}
