//! Links that are swapped in during a call: as often as time allows, and never with success.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use codelab_workspace::{BeforeLimits, ClientFailpoint};
use rustix::fs::{CWD, RenameFlags, renameat_with};
use serde_json::json;

use crate::lab::{CANARY, Lab};

const MAX_TRIES: usize = 3000;
const MAX_TIME: Duration = Duration::from_secs(5);
/// Set to a number, every race runs for that many seconds.
const RACE_SECONDS: &str = "CODELAB_RACE_SECONDS";

/// Whether a race that started then, with this many attempts, continues.
fn goes_on(started: Instant, tries: usize) -> bool {
    match std::env::var(RACE_SECONDS)
        .ok()
        .and_then(|text| text.parse().ok())
    {
        Some(seconds) => started.elapsed() < Duration::from_secs(seconds),
        None => tries < MAX_TRIES && started.elapsed() < MAX_TIME,
    }
}

/// Swaps two names of the workspace again and again, until it is dropped.
struct Swapping {
    stop: Arc<AtomicBool>,
    swaps: Arc<AtomicUsize>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Swapping {
    fn start(lab: &Lab, first: &str, second: &str) -> Self {
        let (stop, swaps) = (
            Arc::new(AtomicBool::new(false)),
            Arc::new(AtomicUsize::new(0)),
        );
        let (first, second) = (lab.root.join(first), lab.root.join(second));
        let (ended, counted) = (stop.clone(), swaps.clone());
        let thread = thread::spawn(move || {
            while !ended.load(Ordering::Relaxed) {
                renameat_with(CWD, &first, CWD, &second, RenameFlags::EXCHANGE).unwrap();
                counted.fetch_add(1, Ordering::Relaxed);
            }
        });
        Self {
            stop,
            swaps,
            thread: Some(thread),
        }
    }

    fn finish(mut self) -> usize {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().unwrap().join().unwrap();
        self.swaps.load(Ordering::Relaxed)
    }
}

#[tokio::test]
async fn a_folder_swapped_for_a_link_never_leads_outside() {
    let lab = Lab::new();
    lab.write("a/secret.txt", "harmless");
    lab.write("a/sub/secret.txt", "harmless");
    fs::create_dir(lab.outside.join("sub")).unwrap();
    fs::write(lab.outside.join("sub/secret.txt"), CANARY).unwrap();
    lab.link("b", &lab.outside);
    let calls = [
        ("read_file", json!({"path": "a/secret.txt"})),
        ("read_file", json!({"path": "a/sub/secret.txt"})),
        (
            "write_file",
            json!({"path": "a/secret.txt", "content": "harmless"}),
        ),
        (
            "write_file",
            json!({"path": "a/new.txt", "content": "planted"}),
        ),
        (
            "write_file",
            json!({"path": "a/x/y/new.txt", "content": "planted", "create_dirs": true}),
        ),
        ("create_directory", json!({"path": "a/folder/deep"})),
        ("list_files", json!({"path": ".", "recursive": true})),
        ("search_in_code", json!({"query": "a", "path": "a"})),
    ];
    let swapping = Swapping::start(&lab, "a", "b");
    let started = Instant::now();
    let (mut tries, mut successes) = (0, 0);
    while goes_on(started, tries) {
        let (tool, arguments) = &calls[tries % calls.len()];
        let result = lab.call(tool, arguments.clone()).await;
        assert!(
            !result.to_string().contains(CANARY),
            "{tool} {arguments}: {result}"
        );
        successes += usize::from(result["success"] == true);
        tries += 1;
    }
    let swaps = swapping.finish();
    eprintln!("{tries} calls, {successes} of them inside, {swaps} swaps");
    assert!(
        swaps > 100 && successes > 0 && successes < tries,
        "{swaps} swaps, {successes} of {tries}: nothing was tried"
    );
    let left = |path: &str| fs::read_to_string(lab.outside.join(path)).unwrap();
    assert_eq!(
        (left("secret.txt"), left("sub/secret.txt")),
        (CANARY.to_owned(), CANARY.to_owned())
    );
    let mut names: Vec<_> = fs::read_dir(&lab.outside)
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    names.sort();
    assert_eq!(
        names,
        ["secret.txt", "sub"],
        "something was created outside"
    );
}

#[tokio::test]
async fn a_file_swapped_for_a_link_is_neither_read_nor_written() {
    let lab = Lab::new();
    lab.write("a.txt", "harmless");
    lab.link("b.txt", lab.outside.join("secret.txt"));
    let swapping = Swapping::start(&lab, "a.txt", "b.txt");
    let started = Instant::now();
    let mut tries = 0;
    while goes_on(started, tries) {
        let result = lab.call("read_file", json!({"path": "a.txt"})).await;
        assert!(!result.to_string().contains(CANARY), "{result}");
        // Without reading it first, so that only the link prevents the write.
        let result = lab
            .call(
                "write_file",
                json!({"path": "a.txt", "content": "harmless"}),
            )
            .await;
        assert!(!result.to_string().contains(CANARY), "{result}");
        tries += 1;
    }
    assert!(swapping.finish() > 100);
    lab.assert_outside_untouched("swapped files");
}

#[tokio::test]
async fn a_protected_folder_swapped_in_is_not_written() {
    let lab = Lab::new();
    lab.write(".git/hooks/sub/keep", "");
    lab.write("docs/sub/keep", "");
    lab.link("other", ".git/hooks");
    let calls = [
        ("write_file", "docs/pre-commit"),
        ("write_file", "docs/sub/pre-commit"),
        ("create_directory", "docs/folder"),
        ("create_directory", "docs/sub/folder"),
    ];
    let swapping = Swapping::start(&lab, "docs", "other");
    let started = Instant::now();
    let (mut tries, mut written) = (0, 0);
    while goes_on(started, tries) {
        let (tool, path) = calls[tries % calls.len()];
        let result = lab
            .call(tool, json!({"path": path, "content": tries.to_string()}))
            .await;
        written += usize::from(result["success"] == true);
        tries += 1;
    }
    assert!(swapping.finish() > 100 && written > 0);
    for (folder, expected) in [(".git/hooks", "sub"), (".git/hooks/sub", "keep")] {
        let names = fs::read_dir(lab.root.join(folder))
            .unwrap()
            .map(|entry| entry.unwrap().file_name());
        assert_eq!(names.collect::<Vec<_>>(), [expected], "{folder}");
    }
}

#[tokio::test]
async fn what_somebody_saves_during_a_rewind_is_there_afterwards() {
    let lab = Lab::new();
    let limits = BeforeLimits::default();
    lab.workspace
        .keep_before_images(&lab.before_images(), limits, ClientFailpoint::default());
    let started = Instant::now();
    let (mut tries, mut left, mut saved_later) = (0, 0, 0);
    while goes_on(started, tries) {
        let name = format!("file-{tries}.txt");
        // It goes back to what it was, or goes away.
        if tries % 2 == 0 {
            lab.write(&name, "before");
        }
        let arguments = json!({"path": name, "content": "by an agent"});
        let written = lab
            .call_as(&format!("call-{tries}"), "write_file", arguments)
            .await;
        assert_eq!(written["success"], true, "{written}");
        let (path, draft) = (lab.root.join(&name), lab.outside.join("draft"));
        fs::write(&draft, "by hand").unwrap();
        // At every moment of a rewind, as far as that can be hit.
        let delay = Duration::from_micros(200) * (tries % 60) as u32;
        let saving = thread::spawn(move || {
            let started = Instant::now();
            while started.elapsed() < delay {
                thread::yield_now();
            }
            fs::rename(&draft, &path).unwrap();
        });
        let calls = json!([{"call_id": format!("call-{tries}")}]);
        let arguments = json!({"rewind_id": format!("rewind-{tries}"), "calls": calls});
        let rewound = lab
            .call_as(&format!("rewind-{tries}"), "rewind_files", arguments)
            .await;
        saving.join().unwrap();
        assert_eq!(rewound["success"], true, "{rewound}");
        assert_eq!(lab.read(&name), "by hand", "{delay:?}: {rewound}");
        match rewound["left"].as_array().unwrap().is_empty() {
            true => saved_later += 1,
            false => left += 1,
        }
        tries += 1;
    }
    eprintln!("{tries} rewinds, {left} left a file, {saved_later} were over before the save");
    assert!(left > 0 && saved_later > 0, "nothing was tried");
    let names = fs::read_dir(&lab.root).unwrap();
    let strays = names.filter(|entry| {
        let name = entry.as_ref().unwrap().file_name();
        name.to_string_lossy().starts_with(".codelab")
    });
    assert_eq!(strays.count(), 0);
}
