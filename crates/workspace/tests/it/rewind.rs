//! Taking back what calls wrote: every kind of path, and what somebody else did meanwhile.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::time::Duration;

use codelab_protocol::WrittenByCall;
use codelab_workspace::{BeforeLimits, ClientFailpoint};
use serde_json::{Value, json};

use crate::lab::{Lab, key_of};

pub const LIMITS: BeforeLimits = BeforeLimits {
    total_bytes: 1024 * 1024,
    object_bytes: 256 * 1024,
    age: Duration::from_secs(24 * 60 * 60),
    records: 1000,
};

fn lab() -> Lab {
    lab_with(LIMITS)
}

fn lab_with(limits: BeforeLimits) -> Lab {
    let lab = Lab::new();
    keep(&lab, limits);
    lab
}

fn keep(lab: &Lab, limits: BeforeLimits) {
    lab.workspace
        .keep_before_images(&lab.before_images(), limits, ClientFailpoint::default());
}

async fn write(lab: &Lab, id: &str, path: &str, content: &str) -> Value {
    let arguments = json!({"path": path, "content": content, "create_dirs": true});
    let done = lab.call_as(id, "write_file", arguments).await;
    assert_eq!(done["success"], true, "{done}");
    done
}

async fn rewind(lab: &Lab, id: &str, calls: &[&str]) -> Value {
    let calls: Vec<Value> = calls.iter().map(|call| json!({"call_id": call})).collect();
    let arguments = json!({"rewind_id": id, "calls": calls});
    let call = format!("call-{id}");
    let done = lab.call_as(&call, "rewind_files", arguments).await;
    assert_eq!(done["success"], true, "{done}");
    done
}

async fn undo(lab: &Lab, id: &str) -> Value {
    let call = format!("call-undo-{id}");
    let done = lab
        .call_as(&call, "rewind_files", json!({"undo": id}))
        .await;
    assert_eq!(done["success"], true, "{done}");
    done
}

fn mode(lab: &Lab, path: &str) -> u32 {
    fs::metadata(lab.root.join(path)).unwrap().mode() & 0o7777
}

fn chmod(lab: &Lab, path: &str, mode: u32) {
    fs::set_permissions(lab.root.join(path), fs::Permissions::from_mode(mode)).unwrap();
}

fn exists(lab: &Lab, path: &str) -> bool {
    fs::symlink_metadata(lab.root.join(path)).is_ok()
}

#[tokio::test]
async fn a_changed_file_a_new_one_and_new_folders_go_back_and_forth() {
    let lab = lab();
    lab.write("old.txt", "one");
    chmod(&lab, "old.txt", 0o751);
    write(&lab, "a", "old.txt", "two").await;
    write(&lab, "b", "old.txt", "three").await;
    write(&lab, "c", "deep/er/new.txt", "new").await;
    lab.call_as("d", "create_directory", json!({"path": "made/by/name"}))
        .await;
    let done = rewind(&lab, "r", &["a", "b", "c", "d"]).await;
    let mut restored: Vec<&str> = strings(&done["restored"]);
    restored.sort_unstable();
    assert_eq!(restored, ["deep/er/new.txt", "made/by/name", "old.txt"]);
    assert_eq!(done["left"], json!([]));
    assert_eq!(
        (lab.read("old.txt").as_str(), mode(&lab, "old.txt")),
        ("one", 0o751)
    );
    assert!(!exists(&lab, "deep") && !exists(&lab, "made"));
    undo(&lab, "r").await;
    assert_eq!(
        (lab.read("old.txt").as_str(), mode(&lab, "old.txt")),
        ("three", 0o751)
    );
    assert_eq!(lab.read("deep/er/new.txt"), "new");
    assert!(lab.root.join("made/by/name").is_dir());
}

fn strings(list: &Value) -> Vec<&str> {
    list.as_array()
        .unwrap()
        .iter()
        .filter_map(Value::as_str)
        .collect()
}

#[tokio::test]
async fn binary_content_comes_back_byte_for_byte() {
    let lab = lab();
    let bytes: Vec<u8> = (0..=255).cycle().take(70_000).collect();
    lab.write("image.bin", &bytes);
    write(&lab, "a", "image.bin", "text").await;
    rewind(&lab, "r", &["a"]).await;
    assert_eq!(fs::read(lab.root.join("image.bin")).unwrap(), bytes);
}

#[tokio::test]
async fn a_write_through_a_link_takes_back_the_file_and_leaves_the_link() {
    let lab = lab();
    lab.write("real/file.txt", "one");
    lab.link("link.txt", "real/file.txt");
    write(&lab, "a", "link.txt", "two").await;
    let done = rewind(&lab, "r", &["a"]).await;
    assert_eq!(done["restored"], json!(["real/file.txt"]));
    assert_eq!(lab.read("real/file.txt"), "one");
    assert!(
        fs::symlink_metadata(lab.root.join("link.txt"))
            .unwrap()
            .is_symlink()
    );
}

#[tokio::test]
async fn a_link_that_somebody_put_there_is_never_followed() {
    let lab = lab();
    lab.write("file.txt", "one");
    lab.write("folder/inner.txt", "one");
    write(&lab, "a", "file.txt", "two").await;
    write(&lab, "b", "folder/inner.txt", "two").await;
    fs::remove_file(lab.root.join("file.txt")).unwrap();
    lab.link("file.txt", lab.outside.join("secret.txt"));
    fs::rename(lab.root.join("folder"), lab.root.join("elsewhere")).unwrap();
    lab.link("folder", &lab.outside);
    let done = rewind(&lab, "r", &["a", "b"]).await;
    assert_eq!(done["restored"], json!([]));
    assert_eq!(done["left"].as_array().unwrap().len(), 2, "{done}");
    lab.assert_outside_untouched("a rewind");
    assert_eq!(lab.read("elsewhere/inner.txt"), "two");
}

#[tokio::test]
async fn what_a_rewind_would_do_is_told_and_not_done() {
    let lab = lab();
    lab.write("back.txt", "one");
    lab.write("both.txt", "one");
    write(&lab, "a", "back.txt", "two").await;
    write(&lab, "b", "hand.txt", "new").await;
    write(&lab, "c", "both.txt", "two").await;
    lab.write("both.txt", "by hand");
    lab.call("read_file", json!({"path": "both.txt"})).await;
    write(&lab, "d", "both.txt", "three").await;
    lab.call_as("e", "create_directory", json!({"path": "made"}))
        .await;
    lab.write("hand.txt", "by hand");
    let calls = ["a", "b", "c", "d", "e", "elsewhere"];
    let asked: Vec<WrittenByCall> = calls
        .iter()
        .map(|id| WrittenByCall {
            call_id: id.parse().unwrap(),
            path: Some(format!("{id}.txt")),
        })
        .collect();
    let session = key_of("a").session_id;
    let foreseen = lab.workspace.foresee_rewind(&session, &asked).unwrap();
    assert_eq!(lab.read("back.txt"), "two", "nothing was done");
    let arguments = json!({"rewind_id": "r", "calls": asked});
    let done = lab.call_as("call-r", "rewind_files", arguments).await;
    let shown = serde_json::to_value(&foreseen).unwrap();
    for list in ["restored", "left", "not_covered"] {
        assert_eq!(shown[list], done[list], "{list}");
        assert_ne!(shown[list], json!([]), "{list}");
    }
    assert_eq!(lab.read("back.txt"), "one");
}

#[tokio::test]
async fn what_was_changed_by_hand_is_left_and_named() {
    let lab = lab();
    for path in ["edited.txt", "executable.sh", "fine.txt"] {
        lab.write(path, "one");
    }
    write(&lab, "a", "edited.txt", "two").await;
    write(&lab, "b", "executable.sh", "two").await;
    write(&lab, "c", "fine.txt", "two").await;
    lab.write("edited.txt", "by hand");
    chmod(&lab, "executable.sh", 0o755);
    let done = rewind(&lab, "r", &["a", "b", "c"]).await;
    assert_eq!(done["restored"], json!(["fine.txt"]));
    let left = done["left"].as_array().unwrap();
    let reasons: Vec<_> = left
        .iter()
        .map(|left| {
            (
                left["path"].as_str().unwrap(),
                left["reason"].as_str().unwrap(),
            )
        })
        .collect();
    assert_eq!(reasons[0].0, "executable.sh");
    assert!(reasons[0].1.contains("permissions"), "{left:?}");
    assert_eq!(reasons[1].0, "edited.txt");
    assert!(reasons[1].1.contains("changed since"), "{left:?}");
    assert_eq!(lab.read("edited.txt"), "by hand");
    assert_eq!(lab.read("executable.sh"), "two");
}

#[tokio::test]
async fn a_deleted_file_is_there_again_and_gone_again() {
    let lab = lab();
    lab.write("folder/file.txt", "one");
    write(&lab, "a", "folder/file.txt", "two").await;
    write(&lab, "b", "created.txt", "new").await;
    fs::remove_dir_all(lab.root.join("folder")).unwrap();
    fs::remove_file(lab.root.join("created.txt")).unwrap();
    rewind(&lab, "r", &["a", "b"]).await;
    assert_eq!(lab.read("folder/file.txt"), "one");
    assert!(!exists(&lab, "created.txt"));
    undo(&lab, "r").await;
    assert!(!exists(&lab, "folder/file.txt") && !exists(&lab, "created.txt"));
}

/// Their words are not lost, although the agent wrote after them.
#[tokio::test]
async fn a_change_between_two_writes_is_where_the_rewind_stops() {
    let lab = lab();
    lab.write("file.txt", "one");
    write(&lab, "a", "file.txt", "two").await;
    lab.write("file.txt", "by hand");
    lab.call("read_file", json!({"path": "file.txt"})).await;
    write(&lab, "b", "file.txt", "three").await;
    let done = rewind(&lab, "r", &["a", "b"]).await;
    assert_eq!(lab.read("file.txt"), "by hand");
    assert_eq!(done["restored"], json!([]));
    let reason = done["left"][0]["reason"].as_str().unwrap();
    assert!(reason.contains("between"), "{done}");
    undo(&lab, "r").await;
    assert_eq!(lab.read("file.txt"), "three");
}

#[tokio::test]
async fn an_undo_leaves_what_was_changed_since() {
    let lab = lab();
    lab.write("a.txt", "one");
    lab.write("b.txt", "one");
    write(&lab, "a", "a.txt", "two").await;
    write(&lab, "b", "b.txt", "two").await;
    rewind(&lab, "r", &["a", "b"]).await;
    lab.write("a.txt", "by hand");
    let done = undo(&lab, "r").await;
    assert_eq!(done["restored"], json!(["b.txt"]));
    assert_eq!(done["left"][0]["path"], "a.txt");
    assert_eq!(
        (lab.read("a.txt").as_str(), lab.read("b.txt").as_str()),
        ("by hand", "two")
    );
}

#[tokio::test]
async fn a_second_rewind_goes_on_where_the_first_one_stopped() {
    let lab = lab();
    lab.write("file.txt", "one");
    write(&lab, "a", "file.txt", "two").await;
    write(&lab, "b", "file.txt", "three").await;
    rewind(&lab, "first", &["b"]).await;
    assert_eq!(lab.read("file.txt"), "two");
    let done = rewind(&lab, "second", &["a", "b"]).await;
    assert_eq!(done["restored"], json!(["file.txt"]));
    assert_eq!(lab.read("file.txt"), "one");
    undo(&lab, "second").await;
    undo(&lab, "first").await;
    assert_eq!(lab.read("file.txt"), "three");
    rewind(&lab, "third", &["a", "b"]).await;
    assert_eq!(lab.read("file.txt"), "one");
}

#[tokio::test]
async fn another_client_of_the_folder_can_rewind() {
    let lab = lab();
    lab.write("file.txt", "one");
    write(&lab, "a", "file.txt", "two").await;
    let lab = lab.reopened(&codelab_workspace::Sandbox::None);
    keep(&lab, LIMITS);
    rewind(&lab, "r", &["a"]).await;
    assert_eq!(lab.read("file.txt"), "one");
}

#[tokio::test]
async fn a_write_that_was_refused_is_nothing_to_take_back() {
    let lab = lab();
    lab.write("file.txt", "one");
    let refused = lab
        .call_as(
            "a",
            "write_file",
            json!({"path": "file.txt", "edits": [{"old": "zzz", "new": "y"}]}),
        )
        .await;
    assert_eq!(refused["success"], false);
    let done = rewind(&lab, "r", &["a"]).await;
    assert_eq!(done["restored"], json!([]));
}

#[tokio::test]
async fn a_file_that_is_too_large_is_written_and_not_covered() {
    let lab = lab();
    lab.write("big.bin", vec![7; LIMITS.object_bytes as usize + 1]);
    let done = write(&lab, "a", "big.bin", "small").await;
    assert!(
        done["not_covered"].as_str().unwrap().contains("bytes"),
        "{done}"
    );
    let done = rewind(&lab, "r", &["a"]).await;
    assert_eq!(done["not_covered"][0]["what"], "big.bin");
    assert_eq!(lab.read("big.bin"), "small");
}

#[tokio::test]
async fn the_oldest_makes_room_and_is_then_named_as_not_covered() {
    let lab = lab();
    let content = |number: usize| number.to_string().repeat(200_000);
    for number in 0..8 {
        let path = format!("{number}.txt");
        lab.write(&path, content(number));
        let done = write(&lab, &format!("c{number}"), &path, "changed").await;
        assert!(done.get("not_covered").is_none(), "{done}");
    }
    assert!(stored_bytes(&lab.before_images()) <= LIMITS.total_bytes + 64 * 1024);
    let calls: Vec<Value> = (0..8)
        .map(|number| json!({"call_id": format!("c{number}"), "path": format!("{number}.txt")}))
        .collect();
    let done = lab
        .call_as(
            "r",
            "rewind_files",
            json!({"rewind_id": "r", "calls": calls}),
        )
        .await;
    let lost: Vec<_> = done["not_covered"].as_array().unwrap().iter().collect();
    assert!(!lost.is_empty() && lost[0]["what"] == "0.txt", "{done}");
    assert_eq!(lab.read("7.txt"), content(7));
    assert_eq!(lab.read("0.txt"), "changed");
}

fn stored_bytes(folder: &Path) -> u64 {
    let entries = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    entries
        .map(|path| match path.is_dir() {
            true => stored_bytes(&path),
            false => fs::metadata(path).unwrap().len(),
        })
        .sum()
}

#[tokio::test]
async fn what_is_too_old_is_gone_at_the_next_start() {
    let lab = lab();
    lab.write("file.txt", "one");
    write(&lab, "a", "file.txt", "two").await;
    let lab = lab.reopened(&codelab_workspace::Sandbox::None);
    let age = Duration::ZERO;
    keep(&lab, BeforeLimits { age, ..LIMITS });
    assert_eq!(stored_bytes(&lab.before_images().join("objects")), 0);
    let calls = json!([{"call_id": "a", "path": "file.txt"}]);
    let done = lab
        .call_as(
            "r",
            "rewind_files",
            json!({"rewind_id": "r", "calls": calls}),
        )
        .await;
    let error = done["error"].as_str().unwrap();
    assert!(error.contains("too long ago"), "{error}");
    assert_eq!(lab.read("file.txt"), "two");
}

#[tokio::test]
async fn without_a_usable_folder_writes_happen_and_say_so() {
    let lab = Lab::new();
    fs::write(lab.before_images(), "not a folder").unwrap();
    keep(&lab, LIMITS);
    let done = write(&lab, "a", "file.txt", "one").await;
    assert!(done["not_covered"].is_string(), "{done}");
    let done = lab
        .call_as("r", "rewind_files", json!({"rewind_id": "r", "calls": []}))
        .await;
    assert_eq!(done["success"], false);
}

#[tokio::test]
async fn only_the_owner_can_read_what_is_kept() {
    let lab = lab();
    lab.write("secret.env", "TOKEN=1");
    write(&lab, "a", "secret.env", "TOKEN=2").await;
    let mut folders = vec![lab.before_images()];
    while let Some(folder) = folders.pop() {
        assert_eq!(
            fs::metadata(&folder).unwrap().mode() & 0o777,
            0o700,
            "{folder:?}"
        );
        for entry in fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            match path.is_dir() {
                true => folders.push(path),
                false => assert_eq!(
                    fs::metadata(&path).unwrap().mode() & 0o777,
                    0o600,
                    "{path:?}"
                ),
            }
        }
    }
}

#[tokio::test]
async fn an_unknown_rewind_cannot_be_taken_back() {
    let lab = lab();
    let done = lab
        .call_as("u", "rewind_files", json!({"undo": "never"}))
        .await;
    assert_eq!(done["success"], false, "{done}");
    let resumed = lab.workspace.resume_rewind(&key_of("never"));
    assert!(
        resumed["error"]
            .as_str()
            .unwrap()
            .contains("no file was changed")
    );
}

#[tokio::test]
async fn a_client_that_keeps_nothing_of_the_writes_takes_nothing_back() {
    let lab = lab();
    lab.write("a.txt", "one");
    let arguments = json!({"rewind_id": "r", "calls": [{"call_id": "elsewhere", "path": "a.txt"}]});
    let done = lab.call_as("call-r", "rewind_files", arguments).await;
    assert_eq!(done["success"], false, "{done}");
    let error = done["error"].as_str().unwrap();
    assert!(error.contains("keeps nothing"), "{error}");
    assert_eq!(lab.read("a.txt"), "one");
}

#[tokio::test]
async fn a_folder_that_was_there_before_is_nothing_to_take_back() {
    let lab = lab();
    fs::create_dir(lab.root.join("there")).unwrap();
    let arguments = json!({"path": "there"});
    lab.call_as("a", "create_directory", arguments).await;
    let arguments = json!({"rewind_id": "r", "calls": [{"call_id": "a", "path": "there"}]});
    let done = lab.call_as("call-r", "rewind_files", arguments).await;
    assert_eq!(
        done,
        json!({"success": true, "restored": [], "left": [], "not_covered": []})
    );
    assert!(lab.root.join("there").is_dir());
}
