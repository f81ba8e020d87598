//! The embedded engine and its folders: broken ones, half ones, many of them, and a process that dies.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use codelab_memory::{CollectionName, Created, EdgeOptions, InteractionId, Memory, MemoryHealth};
use tempfile::TempDir;

use crate::bed::{asked, found, ids, is_missing, is_unavailable, said, small_options, unused_name};

const DIES_IN: &str = "CODELAB_MEMORY_TEST_DIES_IN";
/// Longer than any of these tests should take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

fn folder_of(options: &EdgeOptions, name: &CollectionName) -> PathBuf {
    options.root.join(name.as_str())
}

async fn filled(options: &EdgeOptions, name: &CollectionName) -> Memory {
    let memory = Memory::embedded(options.clone(), None);
    memory.create(name).await.unwrap();
    memory.add(name, vec![said(1, "kept words")]).await.unwrap();
    memory
}

#[tokio::test(flavor = "multi_thread")]
async fn a_broken_folder_is_unavailable_and_hinders_no_other() {
    let place = TempDir::new().unwrap();
    let options = small_options(&place);
    let (broken, whole) = (unused_name(), unused_name());
    let memory = filled(&options, &broken).await;
    memory.create(&whole).await.unwrap();
    memory.add(&whole, vec![said(2, "whole words")]).await.unwrap();
    memory.close().await;

    let folder = folder_of(&options, &broken);
    let aside = place.path().join("aside");
    fs::rename(&folder, &aside).unwrap();
    fs::write(&folder, "not a folder").unwrap();
    assert!(is_unavailable(&memory.search(&broken, &asked("word")).await));
    assert!(is_unavailable(&memory.add(&broken, vec![said(3, "more")]).await));
    assert!(is_unavailable(&memory.create(&broken).await));
    assert_eq!(memory.health().await, MemoryHealth::Broken { collections: vec![broken.clone()] });
    assert_eq!(found(&memory, &whole, "word").await, [2]);

    fs::remove_file(&folder).unwrap();
    fs::rename(&aside, &folder).unwrap();
    assert_eq!(memory.health().await, MemoryHealth::Healthy, "it recovers without being asked for");
    assert_eq!(found(&memory, &broken, "word").await, [1]);
}

#[tokio::test(flavor = "multi_thread")]
async fn damaged_files_never_panic_and_a_rebuild_repairs_them() {
    let place = TempDir::new().unwrap();
    let options = small_options(&place);
    let name = unused_name();
    let memory = filled(&options, &name).await;
    let folder = folder_of(&options, &name);
    for (damage, is_certain) in
        [("edge_config.json", true), ("segments", true), ("wal", false), ("codelab-memory.json", true), (".", true)]
    {
        memory.close().await;
        spoil(&folder.join(damage));
        let searched = memory.search(&name, &asked("word")).await;
        assert!(is_unavailable(&searched) || (!is_certain && searched.is_ok()), "{damage}: {searched:?}");
        if searched.is_err() {
            assert!(is_unavailable(&memory.create(&name).await), "{damage}");
            assert!(matches!(memory.health().await, MemoryHealth::Broken { .. }), "{damage}");
        }
        assert_eq!(memory.rebuild(&name, [said(1, "kept words")]).await.unwrap(), 1, "{damage}");
        assert_eq!(found(&memory, &name, "word").await, [1], "{damage}");
        assert_eq!(memory.health().await, MemoryHealth::Healthy, "{damage}");
    }
    memory.close().await;
    fs::remove_dir_all(&folder).unwrap();
    fs::write(&folder, "not a folder").unwrap();
    assert!(is_unavailable(&memory.count(&name).await));
    memory.clear(&name).await.unwrap();
    assert_eq!(memory.count(&name).await.unwrap(), 0, "a broken one can be cleared");
}

/// Overwrites every file at or below a path.
fn spoil(path: &Path) {
    if path.is_dir() {
        fs::read_dir(path).unwrap().for_each(|entry| spoil(&entry.unwrap().path()));
    } else {
        fs::write(path, "spoilt").unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_folder_taken_away_beneath_an_open_memory_is_noticed() {
    let place = TempDir::new().unwrap();
    let options = small_options(&place);
    let name = unused_name();
    let memory = filled(&options, &name).await;
    fs::rename(&options.root, place.path().join("aside")).unwrap();
    assert!(memory.search(&name, &asked("word")).await.is_err());
    assert!(is_missing(&memory.add(&name, vec![said(2, "lost words")]).await));
    fs::write(&options.root, "not a folder").unwrap();
    assert!(is_unavailable(&memory.create(&name).await));
    assert!(matches!(memory.health().await, MemoryHealth::Unavailable { .. }));

    fs::remove_file(&options.root).unwrap();
    fs::rename(place.path().join("aside"), &options.root).unwrap();
    assert_eq!(memory.health().await, MemoryHealth::Healthy);
    assert_eq!(found(&memory, &name, "word").await, [1]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_first_addition_cut_short_leaves_an_empty_memory() {
    let place = TempDir::new().unwrap();
    let options = small_options(&place);
    let name = unused_name();
    let memory = Memory::embedded(options.clone(), None);
    memory.create(&name).await.unwrap();
    memory.close().await;
    let half = folder_of(&options, &name).join("segments");
    fs::create_dir(&half).unwrap();
    fs::write(half.join("half"), "a file").unwrap();
    assert_eq!(memory.create(&name).await.unwrap(), Created::Existing);
    assert_eq!(memory.count(&name).await.unwrap(), 0);
    memory.add(&name, vec![said(1, "first words")]).await.unwrap();
    assert_eq!(found(&memory, &name, "word").await, [1]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_creation_cut_short_counts_as_none() {
    let place = TempDir::new().unwrap();
    let options = small_options(&place);
    let name = unused_name();
    let memory = filled(&options, &name).await;
    memory.close().await;
    fs::remove_file(folder_of(&options, &name).join("codelab-memory.json")).unwrap();
    assert!(!memory.exists(&name).await.unwrap());
    assert!(is_missing(&memory.count(&name).await));
    assert_eq!(memory.create(&name).await.unwrap(), Created::New);
    assert_eq!(memory.count(&name).await.unwrap(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_is_refused_before_it_is_met() {
    let place = TempDir::new().unwrap();
    let roomy = small_options(&place);
    let name = unused_name();
    filled(&roomy, &name).await.close().await;
    let memory = Memory::embedded(EdgeOptions { min_free_bytes: u64::MAX, ..roomy }, None);
    assert!(is_unavailable(&memory.add(&name, vec![said(2, "more words")]).await));
    assert!(matches!(memory.health().await, MemoryHealth::Unavailable { .. }));
    assert_eq!(found(&memory, &name, "word").await, [1], "what is there is still found");
    memory.clear(&name).await.unwrap();
    assert_eq!(memory.count(&name).await.unwrap(), 0, "and can be cleared");
}

#[tokio::test(flavor = "multi_thread")]
async fn few_collections_stay_open() {
    let place = TempDir::new().unwrap();
    let options = EdgeOptions { idle_timeout: Duration::from_millis(200), ..small_options(&place) };
    let names: Vec<CollectionName> = (0..8).map(|_| unused_name()).collect();
    let memory = Memory::embedded(options.clone(), None);
    for _ in 0..2 {
        for name in &names {
            memory.create(name).await.unwrap();
            memory.add(name, vec![said(1, "kept words")]).await.unwrap();
            assert_eq!(found(&memory, name, "word").await, [1]);
            // One that is being closed is let go of by whoever used it last.
            at_most_open(&options, options.max_open).await;
        }
    }
    at_most_open(&options, 0).await;
    assert_eq!(found(&memory, &names[0], "word").await, [1]);
}

async fn at_most_open(options: &EdgeOptions, count: usize) {
    let closed = async {
        while open_files(&options.root) > count {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let closed = tokio::time::timeout(PATIENCE, closed).await;
    assert!(closed.is_ok(), "{} collections stay open", open_files(&options.root));
}

/// Collections whose log is held by this process.
fn open_files(root: &Path) -> usize {
    let root = fs::canonicalize(root).unwrap();
    let targets = fs::read_dir("/proc/self/fd").unwrap().filter_map(|entry| fs::read_link(entry.ok()?.path()).ok());
    targets.filter(|target| target.starts_with(&root) && target.ends_with("wal")).count()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rewritten_memory_holds_nothing_of_what_was_deleted() {
    let place = TempDir::new().unwrap();
    let options = small_options(&place);
    let (name, other) = (unused_name(), unused_name());
    let memory = Memory::embedded(options.clone(), None);
    for name in [&name, &other] {
        memory.create(name).await.unwrap();
        memory.add(name, (1..=250).map(|n| said(n, &format!("words about number{n}"))).collect()).await.unwrap();
    }
    memory.add(&name, vec![said(900, "canary-in-the-mine")]).await.unwrap();
    let before = memory.search(&name, &asked("number200 words")).await.unwrap();
    memory.delete(&name, vec![InteractionId(900), InteractionId(7)]).await.unwrap();
    assert!(holds(place.path(), "canary-in-the-mine"), "the engine keeps it");
    memory.rewrite(&name).await.unwrap();
    for text in ["canary-in-the-mine", "about number7\""] {
        assert!(!holds(&folder_of(&options, &name), text), "{text}");
    }
    let found_again = memory.search(&name, &asked("number200 words")).await.unwrap();
    assert_eq!(ids(&found_again)[0], ids(&before)[0]);
    assert_eq!(memory.count(&name).await.unwrap(), 249);
    memory.close().await;
    assert_eq!(memory.count(&name).await.unwrap(), 249, "it is on the disk");
    memory.add(&name, vec![said(901, "something new")]).await.unwrap();
    assert_eq!(found(&memory, &name, "new").await, [901]);
    assert_eq!(memory.count(&other).await.unwrap(), 250);

    // Down to nothing, and what is not there.
    memory.delete(&name, (1..=901).map(InteractionId).collect()).await.unwrap();
    memory.rewrite(&name).await.unwrap();
    assert!(!holds(&folder_of(&options, &name), "number"));
    assert_eq!(memory.count(&name).await.unwrap(), 0);
    assert!(is_missing(&memory.rewrite(&unused_name()).await));

    // What a rewriting that was cut short left behind is no collection and does not stay.
    let half = options.root.join(format!(".copy-of-{name}"));
    fs::create_dir(&half).unwrap();
    fs::write(half.join("half"), "canary").unwrap();
    assert_eq!(memory.collections().await.unwrap().len(), 2);
    memory.tidy().await.unwrap();
    assert!(!holds(&options.root, "canary"));
    assert!(!half.exists());
}

/// Whether any file at or below a path holds this text.
fn holds(path: &Path, text: &str) -> bool {
    if path.is_dir() {
        return fs::read_dir(path).unwrap().any(|entry| holds(&entry.unwrap().path(), text));
    }
    let bytes = fs::read(path).unwrap();
    bytes.windows(text.len()).any(|part| part == text.as_bytes())
}

/// The log grows only while a collection is open.
#[tokio::test(flavor = "multi_thread")]
async fn the_log_does_not_grow_for_ever() {
    let place = TempDir::new().unwrap();
    let options = small_options(&place);
    let name = unused_name();
    let memory = filled(&options, &name).await;
    let log = folder_of(&options, &name).join("wal");
    let files = || fs::read_dir(&log).unwrap().count();
    for round in 1..=3u64 {
        for n in 0..30 {
            memory.add(&name, vec![said(round * 100 + n, &"words and words ".repeat(2000))]).await.unwrap();
        }
        assert!(files() > 2, "the test writes too little to see anything");
        memory.close().await;
        assert_eq!(memory.count(&name).await.unwrap(), 1 + round * 30);
        assert!(files() <= 3, "{}", files());
    }
    memory.add(&name, vec![said(1, "replaced phrase")]).await.unwrap();
    assert_eq!(found(&memory, &name, "phrase").await, [1], "later writes win over earlier ones");
}

/// Adds, is told that all is well, and dies without another step. Started by the test below.
#[tokio::test(flavor = "multi_thread")]
async fn adds_and_dies() {
    let Ok(root) = std::env::var(DIES_IN) else { return };
    let (root, name) = root.split_once('|').unwrap();
    let memory = Memory::embedded(EdgeOptions::new(root), None);
    let name = dying_name(name);
    memory.create(&name).await.unwrap();
    let next = memory.count(&name).await.unwrap() + 1;
    memory.add(&name, vec![said(next, "last words")]).await.unwrap();
    std::process::abort();
}

fn dying_name(project: &str) -> CollectionName {
    CollectionName::parse(&format!("user1_project{project}_agent_coder_context")).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_acknowledged_survives_the_process() {
    let place = TempDir::new().unwrap();
    for _ in 0..3 {
        let mut child = Command::new(std::env::current_exe().unwrap());
        child.args(["--exact", "edge_folders::adds_and_dies"]).env(DIES_IN, format!("{}|7", place.path().display()));
        assert!(!child.output().unwrap().status.success());
    }
    let memory = Memory::embedded(EdgeOptions::new(place.path()), None);
    assert_eq!(found(&memory, &dying_name("7"), "word").await, [3, 2, 1]);
}
