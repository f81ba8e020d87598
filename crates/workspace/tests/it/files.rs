//! Reading and writing files as a model does.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};

use codelab_protocol::{NewAttachment, UserId};
use codelab_workspace::{Call, WorkspaceLimits};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::lab::{Lab, arguments_of, content, error};

#[tokio::test]
async fn an_image_is_read_whole_within_its_limit() {
    let lab = Lab::new();
    let mut image = b"\x89PNG\r\n\x1a\n\0rest".to_vec();
    lab.write("img/a.png", &image);
    let result = lab.call("read_file", json!({"path": "img/a.png"})).await;
    let sent = NewAttachment::new("a.png", "image/png", &image);
    let expected = json!({"success": true, "image": sent, "size": image.len()});
    assert_eq!(result, expected);
    lab.write("gif.md", "GIF89a is how a GIF begins");
    let result = lab.call("read_file", json!({"path": "gif.md"})).await;
    assert_eq!(content(&result), "GIF89a is how a GIF begins");
    image.resize(3840 * 1024 + 1, 0);
    lab.write("large.png", &image);
    let result = lab.call("read_file", json!({"path": "large.png"})).await;
    assert!(
        error(&result).starts_with("The image large.png has 3932161 bytes"),
        "{result}"
    );
}

#[tokio::test]
async fn files_are_read_whole_in_part_and_within_the_limit() {
    let lab = Lab::with(|options| {
        options.limits = WorkspaceLimits {
            read_bytes: 20,
            ..WorkspaceLimits::default()
        }
    });
    lab.write("a.txt", "one\ntwo\nthree\n");
    lab.write("long.txt", "ж".repeat(15));
    lab.write(
        "wide.txt",
        [
            b"\xff\xfe".as_slice(),
            &"да\n"
                .encode_utf16()
                .flat_map(u16::to_le_bytes)
                .collect::<Vec<_>>(),
        ]
        .concat(),
    );
    lab.write("latin.txt", b"caf\xe9\n");
    lab.write("bom.txt", "\u{feff}bom\n");
    lab.write("empty.txt", "");
    for (arguments, expected) in [
        (
            json!({"path": "a.txt"}),
            json!({"success": true, "content": "one\ntwo\nthree\n", "size": 14}),
        ),
        (
            json!({"path": "./a.txt", "start_line": 2, "end_line": 2}),
            json!({"success": true, "content": "two\n", "size": 14}),
        ),
        (
            json!({"path": lab.root.join("a.txt"), "start_line": 3}),
            json!({"success": true, "content": "three\n", "size": 14}),
        ),
        (
            json!({"path": "long.txt"}),
            json!({"success": true, "content": "ж".repeat(10), "size": 30, "truncated": true}),
        ),
        (
            json!({"path": "wide.txt"}),
            json!({"success": true, "content": "да\n", "size": 8, "encoding": "utf-16le"}),
        ),
        (
            json!({"path": "latin.txt"}),
            json!({"success": true, "content": "caf\u{fffd}\n", "size": 5, "encoding": "unknown"}),
        ),
        (
            json!({"path": "bom.txt"}),
            json!({"success": true, "content": "bom\n", "size": 7}),
        ),
        (
            json!({"path": "empty.txt"}),
            json!({"success": true, "content": "", "size": 0}),
        ),
    ] {
        assert_eq!(
            lab.call("read_file", arguments.clone()).await,
            expected,
            "{arguments}"
        );
    }
}

#[tokio::test]
async fn what_cannot_be_read_says_why() {
    let lab = Lab::new();
    lab.write("a.txt", "one\n");
    lab.write("program", b"\x7fELF\0\0");
    lab.write("folder/x", "");
    rustix::fs::mknodat(
        rustix::fs::CWD,
        lab.root.join("pipe"),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RUSR,
        0,
    )
    .unwrap();
    for (arguments, expected) in [
        (
            json!({"path": "missing.txt"}),
            "Path missing.txt does not exist",
        ),
        (json!({"path": "a.txt/b"}), "Path a.txt/b"),
        (json!({"path": "folder"}), "Path folder is not a file"),
        (json!({"path": "pipe"}), "Path pipe is not a file"),
        (json!({"path": "program"}), "program is a binary file"),
        (
            json!({"path": "a.txt", "start_line": 2}),
            "a.txt has only 1 lines",
        ),
    ] {
        let result = lab.call("read_file", arguments.clone()).await;
        assert!(
            error(&result).starts_with(expected),
            "{arguments}: {result}"
        );
    }
}

#[tokio::test]
async fn a_file_is_written_with_its_folders_and_keeps_its_mode() {
    let lab = Lab::new();
    let result = lab
        .call("write_file", json!({"path": "a/b/c.txt", "content": "x"}))
        .await;
    assert!(error(&result).contains("create_dirs"), "{result}");
    assert!(!lab.root.join("a").exists());

    let result = lab
        .call(
            "write_file",
            json!({"path": "a/b/c.txt", "content": "приклад", "create_dirs": true}),
        )
        .await;
    assert_eq!(
        (&result["success"], &result["size"]),
        (&json!(true), &json!(14)),
        "{result}"
    );
    assert!(
        result["timestamp"].as_str().unwrap().ends_with('Z'),
        "{result}"
    );
    assert_eq!(lab.read("a/b/c.txt"), "приклад");

    let path = lab.root.join("a/b/c.txt");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o750)).unwrap();
    let before = fs::metadata(&path).unwrap();
    let result = lab
        .call("write_file", json!({"path": "a/b/c.txt", "content": "new"}))
        .await;
    assert_eq!(result["success"], true, "{result}");
    let after = fs::metadata(&path).unwrap();
    assert_eq!((after.mode() & 0o777, after.uid()), (0o750, before.uid()));
    assert_ne!(
        after.ino(),
        before.ino(),
        "replaced as a whole, not written over"
    );
    let names: Vec<_> = fs::read_dir(lab.root.join("a/b"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    assert_eq!(names, ["c.txt"], "nothing is left beside the file");
}

#[tokio::test]
async fn edits_change_one_place_and_keep_the_rest() {
    let lab = Lab::new();
    let wide: Vec<u8> = "\u{feff}a б\n"
        .encode_utf16()
        .flat_map(u16::to_le_bytes)
        .collect();
    lab.write("code.rs", "fn a() {}\r\nfn b() {}\r\nfn b2() {}\r\n");
    lab.write("wide.txt", &wide);
    lab.write("latin.txt", b"caf\xe9\n");
    for (path, edits, expected) in [
        (
            "code.rs",
            json!([{"old": "fn a() {}\nfn b()", "new": "fn c() {}\nfn d()"}]),
            Ok("fn c() {}\r\nfn d() {}\r\nfn b2() {}\r\n"),
        ),
        (
            "code.rs",
            json!([{"old": "c", "new": "e"}, {"old": "() {}\r\nfn d", "new": "();\r\nfn f"}]),
            Ok("fn e();\r\nfn f() {}\r\nfn b2() {}\r\n"),
        ),
        (
            "code.rs",
            json!([{"old": "fn", "new": "x"}]),
            Err("edit 1: the old text occurs 3 times"),
        ),
        (
            "code.rs",
            json!([{"old": "fn e", "new": "x"}, {"old": "absent", "new": "y"}]),
            Err("edit 2: the old text does not occur"),
        ),
        (
            "latin.txt",
            json!([{"old": "caf", "new": "x"}]),
            Err("latin.txt is not UTF-8"),
        ),
        (
            "none.txt",
            json!([{"old": "a", "new": "x"}]),
            Err("Path none.txt does not exist"),
        ),
    ] {
        let before = fs::read(lab.root.join(path)).ok();
        let result = lab
            .call("write_file", json!({"path": path, "edits": edits}))
            .await;
        match expected {
            Ok(text) => assert_eq!(lab.read(path), text, "{result}"),
            Err(part) => {
                assert!(error(&result).starts_with(part), "{result}");
                assert_eq!(fs::read(lab.root.join(path)).ok(), before, "{part}");
            }
        }
    }
    let result = lab
        .call(
            "write_file",
            json!({"path": "wide.txt", "edits": [{"old": "б", "new": "в"}]}),
        )
        .await;
    assert_eq!(result["success"], true, "{result}");
    let expected: Vec<u8> = "\u{feff}a в\n"
        .encode_utf16()
        .flat_map(u16::to_le_bytes)
        .collect();
    assert_eq!(fs::read(lab.root.join("wide.txt")).unwrap(), expected);
}

#[tokio::test]
async fn a_file_that_changed_since_it_was_read_is_not_written() {
    let lab = Lab::new();
    lab.write("a.txt", "one\n");
    assert_eq!(
        content(&lab.call("read_file", json!({"path": "a.txt"})).await),
        "one\n"
    );
    // The same length and the old time: only the content differs.
    let before = fs::metadata(lab.root.join("a.txt"))
        .unwrap()
        .modified()
        .unwrap();
    lab.write("a.txt", "two\n");
    fs::File::options()
        .write(true)
        .open(lab.root.join("a.txt"))
        .unwrap()
        .set_modified(before)
        .unwrap();
    for arguments in [
        json!({"path": "a.txt", "content": "mine\n"}),
        json!({"path": "a.txt", "edits": [{"old": "o", "new": "0"}]}),
        json!({"path": "./a.txt", "content": "mine\n"}),
    ] {
        let result = lab.call("write_file", arguments.clone()).await;
        assert!(
            error(&result).contains("changed since you read it"),
            "{arguments}: {result}"
        );
        assert_eq!(lab.read("a.txt"), "two\n");
    }
    lab.call(
        "read_file",
        json!({"path": "a.txt", "start_line": 1, "end_line": 1}),
    )
    .await;
    for text in ["mine\n", "mine again\n"] {
        let result = lab
            .call("write_file", json!({"path": "a.txt", "content": text}))
            .await;
        assert_eq!(result["success"], true, "{result}");
        assert_eq!(lab.read("a.txt"), text);
    }
}

#[tokio::test]
async fn a_write_protected_file_is_not_replaced() {
    let lab = Lab::new();
    lab.write("a.txt", "kept");
    fs::set_permissions(lab.root.join("a.txt"), fs::Permissions::from_mode(0o444)).unwrap();
    let result = lab
        .call("write_file", json!({"path": "a.txt", "content": "x"}))
        .await;
    assert_eq!(error(&result), "Permission denied to write to a.txt");
    assert_eq!(lab.read("a.txt"), "kept");
}

#[tokio::test]
async fn a_call_for_another_user_is_refused() {
    let own = UserId::new(123);
    let lab = Lab::with(|options| options.user_id = own);
    lab.write("a.txt", "mine");
    let arguments = arguments_of("read_file", json!({"path": "a.txt"}));
    for (user_id, is_taken) in [(own, true), (UserId::new(456), false), (None, true)] {
        let result = lab
            .workspace
            .run(
                Call {
                    user_id,
                    arguments: &arguments,
                    is_approved: false,
                    reader: None,
                    base: None,
                    key: None,
                },
                CancellationToken::new(),
            )
            .await;
        if is_taken {
            assert_eq!(content(&result), "mine");
        } else {
            assert_eq!(
                error(&result),
                "User 456 is not authorized to access this path"
            );
        }
    }
}

#[tokio::test]
async fn what_was_cancelled_before_it_began_does_nothing() {
    let lab = Lab::new();
    let cancel = CancellationToken::new();
    cancel.cancel();
    let arguments = arguments_of("write_file", json!({"path": "a.txt", "content": "x"}));
    let result = lab
        .workspace
        .run(
            Call {
                user_id: None,
                arguments: &arguments,
                is_approved: false,
                reader: None,
                base: None,
                key: None,
            },
            cancel,
        )
        .await;
    assert_eq!(error(&result), "cancelled");
    assert!(!lab.root.join("a.txt").exists());
}
