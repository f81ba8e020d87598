//! The embedded engine and its files: broken ones, half ones, many of them, and a process that
//! dies.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use codelab_memory::{
    CollectionName, Created, EmbeddedOptions, Memory, MemoryEntryId, MemoryHealth,
};
use tempfile::TempDir;

use crate::bed::{asked, found, ids, is_missing, is_unavailable, said, small_options, unused_name};

const DIES_IN: &str = "CODELAB_MEMORY_TEST_DIES_IN";
/// Longer than any of these tests should take on a busy machine.
const DEADLINE: Duration = Duration::from_secs(60);

fn file_of(options: &EmbeddedOptions, name: &CollectionName) -> PathBuf {
    options.root.join(format!("{name}.memory"))
}

async fn filled(options: &EmbeddedOptions, name: &CollectionName) -> Memory {
    let memory = Memory::embedded(options.clone(), None);
    memory.create(name).await.unwrap();
    memory.add(name, vec![said(1, "kept words")]).await.unwrap();
    memory
}

#[tokio::test(flavor = "multi_thread")]
async fn a_broken_file_is_unavailable_and_hinders_no_other() {
    let folder = TempDir::new().unwrap();
    let options = small_options(&folder);
    let (broken, whole) = (unused_name(), unused_name());
    let memory = filled(&options, &broken).await;
    memory.create(&whole).await.unwrap();
    memory
        .add(&whole, vec![said(2, "whole words")])
        .await
        .unwrap();
    memory.close().await;

    let file = file_of(&options, &broken);
    let aside = folder.path().join("aside");
    fs::rename(&file, &aside).unwrap();
    fs::write(&file, "not a memory").unwrap();
    assert!(is_unavailable(
        &memory.search(&broken, &asked("word")).await
    ));
    assert!(is_unavailable(
        &memory.add(&broken, vec![said(3, "more")]).await
    ));
    assert!(is_unavailable(&memory.create(&broken).await));
    assert_eq!(
        memory.health().await,
        MemoryHealth::Broken {
            collections: vec![broken.clone()]
        }
    );
    assert_eq!(found(&memory, &whole, "word").await, [2]);

    fs::rename(&aside, &file).unwrap();
    assert_eq!(
        memory.health().await,
        MemoryHealth::Healthy,
        "it recovers without being asked for"
    );
    assert_eq!(found(&memory, &broken, "word").await, [1]);
}

#[tokio::test(flavor = "multi_thread")]
async fn damage_is_noticed_wherever_it_is_and_a_rebuild_repairs_it() {
    let folder = TempDir::new().unwrap();
    let options = small_options(&folder);
    let name = unused_name();
    let memory = filled(&options, &name).await;
    memory
        .add(&name, vec![said(2, "more words")])
        .await
        .unwrap();
    memory.close().await;
    let file = file_of(&options, &name);
    let whole = fs::read(&file).unwrap();
    for at in 0..whole.len() {
        let mut damaged = whole.clone();
        damaged[at] ^= 0x10;
        fs::write(&file, damaged).unwrap();
        let counted = memory.count(&name).await;
        // A header that still reads as one is that of another version.
        assert!(
            is_unavailable(&counted) || is_missing(&counted),
            "byte {at}: {counted:?}"
        );
        memory.close().await;
    }
    for damaged in ["", "spoilt", "\n", "codelab memory"] {
        fs::write(&file, damaged).unwrap();
        assert!(
            is_unavailable(&memory.search(&name, &asked("word")).await),
            "{damaged:?}"
        );
        assert!(is_unavailable(&memory.create(&name).await), "{damaged:?}");
        assert!(
            matches!(memory.health().await, MemoryHealth::Broken { .. }),
            "{damaged:?}"
        );
        assert_eq!(
            memory
                .rebuild(&name, [said(1, "kept words")])
                .await
                .unwrap(),
            1,
            "{damaged:?}"
        );
        assert_eq!(found(&memory, &name, "word").await, [1], "{damaged:?}");
        assert_eq!(memory.health().await, MemoryHealth::Healthy, "{damaged:?}");
        memory.close().await;
    }
    fs::remove_file(&file).unwrap();
    fs::create_dir(&file).unwrap();
    assert!(is_unavailable(&memory.count(&name).await));
    memory.clear(&name).await.unwrap();
    assert_eq!(
        memory.count(&name).await.unwrap(),
        0,
        "a broken one can be cleared"
    );
}

/// Checksums are looked at when a file is opened; what is changed later must not pass for an empty
/// answer.
#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_is_changed_while_it_is_open_is_noticed() {
    let folder = TempDir::new().unwrap();
    let options = small_options(&folder);
    for damage in ["", "not a memory"] {
        let name = unused_name();
        let memory = filled(&options, &name).await;
        assert_eq!(found(&memory, &name, "word").await, [1]);
        fs::write(file_of(&options, &name), damage).unwrap();
        // It is written at its position, after a hole.
        memory
            .add(&name, vec![said(2, "more words")])
            .await
            .unwrap();
        assert!(
            is_unavailable(&memory.search(&name, &asked("word")).await),
            "{damage:?}"
        );
        assert!(
            matches!(memory.health().await, MemoryHealth::Broken { .. }),
            "{damage:?}"
        );
        assert_eq!(
            memory
                .rebuild(&name, [said(1, "kept words")])
                .await
                .unwrap(),
            1,
            "{damage:?}"
        );
        assert_eq!(found(&memory, &name, "word").await, [1], "{damage:?}");
    }
}

/// A program that dies while it writes leaves the beginning of an addition, and never acknowledged
/// it.
#[tokio::test(flavor = "multi_thread")]
async fn an_addition_cut_short_anywhere_is_dropped_and_nothing_before_it() {
    let folder = TempDir::new().unwrap();
    let options = small_options(&folder);
    let name = unused_name();
    let memory = filled(&options, &name).await;
    memory.close().await;
    let file = file_of(&options, &name);
    let before = fs::read(&file).unwrap().len();
    memory
        .add(
            &name,
            vec![said(2, "lost words"), said(3, "lost words too")],
        )
        .await
        .unwrap();
    memory.close().await;
    let after = fs::read(&file).unwrap();
    for end in before..after.len() {
        fs::write(&file, &after[..end]).unwrap();
        assert_eq!(found(&memory, &name, "word").await, [1], "cut at {end}");
        memory
            .add(&name, vec![said(4, "next phrase")])
            .await
            .unwrap();
        memory.close().await;
        assert_eq!(found(&memory, &name, "phrase").await, [4], "cut at {end}");
        assert_eq!(memory.count(&name).await.unwrap(), 2, "cut at {end}");
        memory.close().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn another_version_s_collections_count_as_none_and_their_folders_go() {
    let folder = TempDir::new().unwrap();
    let options = small_options(&folder);
    let name = unused_name();
    let memory = filled(&options, &name).await;
    memory.close().await;
    let file = file_of(&options, &name);
    let text = fs::read(&file).unwrap();
    let end = text.iter().position(|byte| *byte == b'\n').unwrap();
    fs::write(&file, [b"codelab memory 1 bm25_v1", &text[end..]].concat()).unwrap();
    assert!(!memory.exists(&name).await.unwrap());
    assert!(is_missing(&memory.count(&name).await));
    assert_eq!(memory.create(&name).await.unwrap(), Created::New);
    assert_eq!(memory.count(&name).await.unwrap(), 0);

    let old = options.root.join(unused_name().as_str());
    let copy = options.root.join(format!(".copy-of-{}", unused_name()));
    for folder in [&old, &copy] {
        fs::create_dir(folder).unwrap();
        fs::write(folder.join("segment"), "old canary").unwrap();
    }
    assert_eq!(memory.collections().await.unwrap(), [name]);
    memory.tidy().await.unwrap();
    assert!(!old.exists() && !copy.exists());
    assert_eq!(memory.collections().await.unwrap().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_folder_taken_away_beneath_open_memories_is_noticed() {
    let folder = TempDir::new().unwrap();
    let options = small_options(&folder);
    let name = unused_name();
    let memory = filled(&options, &name).await;
    fs::rename(&options.root, folder.path().join("aside")).unwrap();
    assert!(memory.search(&name, &asked("word")).await.is_err());
    assert!(is_missing(
        &memory.add(&name, vec![said(2, "lost words")]).await
    ));
    fs::write(&options.root, "not a folder").unwrap();
    assert!(is_unavailable(&memory.create(&name).await));
    assert!(matches!(
        memory.health().await,
        MemoryHealth::Unavailable { .. }
    ));

    fs::remove_file(&options.root).unwrap();
    fs::rename(folder.path().join("aside"), &options.root).unwrap();
    assert_eq!(memory.health().await, MemoryHealth::Healthy);
    assert_eq!(found(&memory, &name, "word").await, [1]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_is_refused_before_it_is_met() {
    let folder = TempDir::new().unwrap();
    let roomy = small_options(&folder);
    let name = unused_name();
    filled(&roomy, &name).await.close().await;
    let memory = Memory::embedded(
        EmbeddedOptions {
            min_free_bytes: u64::MAX,
            ..roomy
        },
        None,
    );
    assert!(is_unavailable(
        &memory.add(&name, vec![said(2, "more words")]).await
    ));
    assert!(matches!(
        memory.health().await,
        MemoryHealth::Unavailable { .. }
    ));
    assert_eq!(
        found(&memory, &name, "word").await,
        [1],
        "what is there is still found"
    );
    memory.clear(&name).await.unwrap();
    assert_eq!(memory.count(&name).await.unwrap(), 0, "and can be cleared");
}

#[tokio::test(flavor = "multi_thread")]
async fn few_collections_stay_open() {
    let folder = TempDir::new().unwrap();
    let options = EmbeddedOptions {
        idle_timeout: Duration::from_millis(200),
        ..small_options(&folder)
    };
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

async fn at_most_open(options: &EmbeddedOptions, count: usize) {
    let closed = async {
        while open_files(&options.root) > count {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let closed = tokio::time::timeout(DEADLINE, closed).await;
    assert!(
        closed.is_ok(),
        "{} collections stay open",
        open_files(&options.root)
    );
}

/// Collections whose file is held by this process.
fn open_files(root: &Path) -> usize {
    let root = fs::canonicalize(root).unwrap();
    let targets = fs::read_dir("/proc/self/fd")
        .unwrap()
        .filter_map(|entry| fs::read_link(entry.ok()?.path()).ok());
    targets.filter(|target| target.starts_with(&root)).count()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rewritten_memory_holds_nothing_of_what_was_deleted() {
    let folder = TempDir::new().unwrap();
    let options = small_options(&folder);
    let (name, other) = (unused_name(), unused_name());
    let memory = Memory::embedded(options.clone(), None);
    for name in [&name, &other] {
        memory.create(name).await.unwrap();
        memory
            .add(
                name,
                (1..=250)
                    .map(|n| said(n, &format!("words about number{n} ")))
                    .collect(),
            )
            .await
            .unwrap();
    }
    memory
        .add(&name, vec![said(900, "canary-in-the-mine")])
        .await
        .unwrap();
    let before = memory
        .search(&name, &asked("number200 words"))
        .await
        .unwrap();
    memory
        .delete(&name, vec![MemoryEntryId(900), MemoryEntryId(7)])
        .await
        .unwrap();
    assert!(
        holds(folder.path(), "canary-in-the-mine"),
        "the file keeps it"
    );
    memory.rewrite(&name).await.unwrap();
    for text in ["canary-in-the-mine", "about number7 "] {
        assert!(!holds(&file_of(&options, &name), text), "{text}");
    }
    let found_again = memory
        .search(&name, &asked("number200 words"))
        .await
        .unwrap();
    assert_eq!(ids(&found_again)[0], ids(&before)[0]);
    assert_eq!(memory.count(&name).await.unwrap(), 249);
    memory.close().await;
    assert_eq!(memory.count(&name).await.unwrap(), 249, "it is on the disk");
    memory
        .add(&name, vec![said(901, "something new")])
        .await
        .unwrap();
    assert_eq!(found(&memory, &name, "new").await, [901]);
    assert_eq!(memory.count(&other).await.unwrap(), 250);

    // Down to nothing, and what is not there.
    memory
        .delete(&name, (1..=901).map(MemoryEntryId).collect())
        .await
        .unwrap();
    memory.rewrite(&name).await.unwrap();
    assert!(!holds(&file_of(&options, &name), "number"));
    assert_eq!(memory.count(&name).await.unwrap(), 0);
    assert!(is_missing(&memory.rewrite(&unused_name()).await));

    // What a rewriting that was cut short left behind is no collection and does not stay.
    let half = options.root.join(format!("{name}.memory-draft"));
    fs::write(&half, "canary").unwrap();
    assert_eq!(memory.collections().await.unwrap().len(), 2);
    memory.tidy().await.unwrap();
    assert!(!holds(&options.root, "canary"));
    assert!(!half.exists());
}

/// Whether any file at or below a path holds this text.
fn holds(path: &Path, text: &str) -> bool {
    if path.is_dir() {
        return fs::read_dir(path)
            .unwrap()
            .any(|entry| holds(&entry.unwrap().path(), text));
    }
    let bytes = fs::read(path).unwrap();
    bytes
        .windows(text.len())
        .any(|part| part == text.as_bytes())
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_replaced_again_and_again_does_not_fill_the_disk() {
    let folder = TempDir::new().unwrap();
    let options = small_options(&folder);
    let name = unused_name();
    let memory = filled(&options, &name).await;
    let long = "words and words ".repeat(2000);
    let bytes = || fs::metadata(file_of(&options, &name)).unwrap().len();
    let mut most = 0;
    for _ in 0..100 {
        memory.add(&name, vec![said(2, &long)]).await.unwrap();
        most = most.max(bytes());
    }
    assert!(
        most > 1024 * 1024,
        "the test writes too little to see anything: {most}"
    );
    assert!(most < 2 * 1024 * 1024, "{most}");
    memory
        .add(&name, vec![said(2, "replaced phrase")])
        .await
        .unwrap();
    assert_eq!(
        found(&memory, &name, "phrase").await,
        [2],
        "later writes win over earlier ones"
    );
    assert_eq!(found(&memory, &name, "word").await, [1]);
    memory.close().await;
    assert_eq!(found(&memory, &name, "phrase").await, [2]);
    assert_eq!(memory.count(&name).await.unwrap(), 2);
}

/// Adds, is told that all is well, and dies without another step. Started by the test below.
#[tokio::test(flavor = "multi_thread")]
async fn adds_and_dies() {
    let Ok(root) = std::env::var(DIES_IN) else {
        return;
    };
    let (root, name) = root.split_once('|').unwrap();
    let memory = Memory::embedded(EmbeddedOptions::new(root), None);
    let name = dying_name(name);
    memory.create(&name).await.unwrap();
    let next = memory.count(&name).await.unwrap() + 1;
    memory
        .add(&name, vec![said(next, "last words")])
        .await
        .unwrap();
    std::process::abort();
}

fn dying_name(project: &str) -> CollectionName {
    CollectionName::parse(&format!("user1_project{project}_agent_coder_context")).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_acknowledged_survives_the_process() {
    let folder = TempDir::new().unwrap();
    for _ in 0..3 {
        let mut child = Command::new(std::env::current_exe().unwrap());
        child
            .args(["--exact", "embedded_files::adds_and_dies"])
            .env(DIES_IN, format!("{}|7", folder.path().display()));
        assert!(!child.output().unwrap().status.success());
    }
    let memory = Memory::embedded(EmbeddedOptions::new(folder.path()), None);
    assert_eq!(found(&memory, &dying_name("7"), "word").await, [3, 2, 1]);
}
