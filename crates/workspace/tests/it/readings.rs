//! Who has read what: agents that share a file, partial readings, files that change or go, and the
//! question to a person.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use codelab_protocol::{FileBase, TaskOrigin};
use codelab_workspace::{Call, ReadingAgent, RunOutcome, WriteQuestion};
use rustix::fs::{CWD, RenameFlags, renameat_with};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::lab::{Lab, arguments_of, content, error};

fn agent(name: &str) -> ReadingAgent {
    let origin = TaskOrigin::default();
    ReadingAgent::new(&"s".parse().unwrap(), &origin, &name.parse().unwrap())
}

async fn run(lab: &Lab, agent: &ReadingAgent, tool: &str, arguments: Value) -> RunOutcome {
    bound(lab, agent, tool, arguments, None).await
}

async fn bound(
    lab: &Lab,
    agent: &ReadingAgent,
    tool: &str,
    arguments: Value,
    base: Option<&FileBase>,
) -> RunOutcome {
    let arguments = arguments_of(tool, arguments);
    let call = Call {
        key: None,
        user_id: None,
        arguments: &arguments,
        is_approved: true,
        reader: Some(agent),
        base,
    };
    lab.workspace
        .run_or_ask(call, CancellationToken::new())
        .await
}

async fn done(lab: &Lab, agent: &ReadingAgent, tool: &str, arguments: Value) -> Value {
    match run(lab, agent, tool, arguments).await {
        RunOutcome::Done(result) => result,
        RunOutcome::Asks(question) => panic!("asks: {question:?}"),
    }
}

async fn asks(lab: &Lab, agent: &ReadingAgent, arguments: Value) -> WriteQuestion {
    match run(lab, agent, "write_file", arguments).await {
        RunOutcome::Asks(question) => *question,
        RunOutcome::Done(result) => panic!("does not ask: {result}"),
    }
}

fn write(text: &str) -> Value {
    json!({"path": "a.txt", "content": text})
}

#[tokio::test]
async fn of_two_agents_the_second_is_told_what_the_first_wrote() {
    let lab = Lab::new();
    let (one, two) = (agent("one"), agent("two"));
    lab.write("a.txt", "first\nlast\n");
    for agent in [&one, &two] {
        let read = done(&lab, agent, "read_file", json!({"path": "a.txt"})).await;
        assert_eq!(content(&read), "first\nlast\n");
    }
    let written = done(&lab, &one, "write_file", write("first\nof one\nlast\n")).await;
    assert_eq!(written["success"], true, "{written}");
    let refused = done(&lab, &two, "write_file", write("first\nof two\nlast\n")).await;
    assert!(
        error(&refused).contains("changed since you read it"),
        "{refused}"
    );
    let difference = refused["difference"].as_str().unwrap();
    assert!(difference.contains("+of one"), "{difference}");
    assert_eq!(lab.read("a.txt"), "first\nof one\nlast\n");
    // Its own writing is its reading.
    let again = done(&lab, &one, "write_file", write("first\nof one!\nlast\n")).await;
    assert_eq!(again["success"], true, "{again}");
    // Who reads again may write.
    done(&lab, &two, "read_file", json!({"path": "a.txt"})).await;
    let edits = json!({"path": "a.txt", "edits": [{"old": "last", "new": "of two\nlast"}]});
    let written = done(&lab, &two, "write_file", edits).await;
    assert_eq!(written["success"], true, "{written}");
    assert_eq!(lab.read("a.txt"), "first\nof one!\nof two\nlast\n");
}

#[tokio::test]
async fn a_few_lines_that_were_read_stand_for_the_whole_file() {
    let lab = Lab::new();
    let one = agent("one");
    lab.write("a.txt", "first\nsecond\nthird\n");
    let lines = json!({"path": "a.txt", "start_line": 1, "end_line": 1});
    done(&lab, &one, "read_file", lines).await;
    lab.write("a.txt", "first\nsecond\nTHIRD\n");
    let refused = done(&lab, &one, "write_file", write("new\n")).await;
    assert!(
        refused["difference"].as_str().unwrap().contains("+THIRD"),
        "{refused}"
    );
    assert_eq!(lab.read("a.txt"), "first\nsecond\nTHIRD\n");
}

#[tokio::test]
async fn finding_a_file_is_not_reading_it() {
    let lab = Lab::new();
    let one = agent("one");
    lab.write("a.txt", "first\n");
    done(&lab, &one, "search_in_code", json!({"query": "first"})).await;
    done(&lab, &one, "list_files", json!({"path": "."})).await;
    let question = asks(&lab, &one, write("new\n")).await;
    assert!(
        question.reason.contains("has not read it"),
        "{}",
        question.reason
    );
    assert!(question.preview.is_unread && !question.preview.is_outdated);
    let diff = &question.preview.diff;
    assert!(diff.contains("-first") && diff.contains("+new"), "{diff}");
    assert_eq!(lab.read("a.txt"), "first\n");
}

#[tokio::test]
async fn an_approval_counts_for_what_it_names_and_for_nothing_else() {
    let lab = Lab::new();
    let one = agent("one");
    lab.write("a.txt", "first\n");
    let seen = FileBase::of_bytes(b"first\n");
    lab.write("a.txt", "by hand\n");
    for base in [&seen, &FileBase::Missing] {
        let outcome = bound(&lab, &one, "write_file", write("new\n"), Some(base)).await;
        let RunOutcome::Asks(question) = outcome else {
            panic!("{outcome:?}")
        };
        assert!(
            question.reason.contains("changed since"),
            "{}",
            question.reason
        );
        assert_eq!(question.preview.base, FileBase::of_bytes(b"by hand\n"));
        assert_eq!(lab.read("a.txt"), "by hand\n");
    }
    let now = FileBase::of_bytes(b"by hand\n");
    let outcome = bound(&lab, &one, "write_file", write("new\n"), Some(&now)).await;
    assert!(matches!(outcome, RunOutcome::Done(result) if result["success"] == true));
    // Agreed was to a new file, and there is one by now.
    let new = json!({"path": "b.txt", "content": "new\n"});
    lab.write("b.txt", "somebody's\n");
    let outcome = bound(&lab, &one, "write_file", new, Some(&FileBase::Missing)).await;
    assert!(matches!(outcome, RunOutcome::Asks(_)), "{outcome:?}");
    assert_eq!(lab.read("b.txt"), "somebody's\n");
}

#[tokio::test]
async fn a_file_that_went_away_is_not_made_again() {
    let lab = Lab::new();
    let one = agent("one");
    lab.write("a.txt", "first\n");
    done(&lab, &one, "read_file", json!({"path": "a.txt"})).await;
    fs::remove_file(lab.root.join("a.txt")).unwrap();
    let refused = done(&lab, &one, "write_file", write("new\n")).await;
    assert!(error(&refused).contains("is gone now"), "{refused}");
    assert!(!lab.root.join("a.txt").exists());
    // Another agent never saw it: for that one it is a new file.
    let made = done(&lab, &agent("two"), "write_file", write("new\n")).await;
    assert_eq!(made["success"], true, "{made}");
}

#[tokio::test]
async fn what_cannot_be_compared_is_said() {
    let lab = Lab::new();
    let one = agent("one");
    lab.write("a.txt", b"\x00\x01binary".as_slice());
    let question = asks(&lab, &one, write("new\n")).await;
    let preview = &question.preview;
    assert!(
        preview.diff.is_empty() && preview.note.is_some(),
        "{preview:?}"
    );
    assert_eq!(preview.base, FileBase::of_bytes(b"\x00\x01binary"));
    lab.write("a.txt", "x\n".repeat(200_000));
    let question = asks(&lab, &one, write("new\n")).await;
    assert!(question.preview.truncated);
    assert!(question.preview.diff.len() <= codelab_protocol::MAX_PREVIEW_BYTES);
}

#[tokio::test(flavor = "multi_thread")]
async fn agents_that_count_in_one_file_lose_no_number() {
    const EACH: usize = 40;
    let lab = Arc::new(Lab::new());
    lab.write("a.txt", "0");
    let counting = (0..4).map(|number| {
        let (lab, me) = (lab.clone(), agent(&format!("agent{number}")));
        tokio::spawn(async move {
            let mut counted = 0;
            while counted < EACH {
                let read = done(&lab, &me, "read_file", json!({"path": "a.txt"})).await;
                let next = content(&read).parse::<usize>().unwrap() + 1;
                let written = done(&lab, &me, "write_file", write(&next.to_string())).await;
                counted += usize::from(written["success"] == true);
            }
        })
    });
    for counter in counting.collect::<Vec<_>>() {
        counter.await.unwrap();
    }
    assert_eq!(lab.read("a.txt"), (4 * EACH).to_string());
}

/// Somebody saves the file again and again, as editors do: a new file takes the old one's name. What
/// was saved is never gone without the agent having read it.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_saved_by_hand_during_a_write_is_not_lost() {
    const MAX_TIME: Duration = Duration::from_secs(3);
    let lab = Arc::new(Lab::new());
    let one = agent("one");
    lab.write("a.txt", "hand 0");
    let stop = Arc::new(AtomicBool::new(false));
    let hand = {
        let (lab, stop) = (lab.clone(), stop.clone());
        std::thread::spawn(move || {
            let (file, saved) = (lab.root.join("a.txt"), lab.root.join("saved"));
            let (mut replaced, mut number) = (Vec::new(), 0);
            while !stop.load(Ordering::Relaxed) {
                number += 1;
                fs::write(&saved, format!("hand {number}")).unwrap();
                renameat_with(CWD, &saved, CWD, &file, RenameFlags::EXCHANGE).unwrap();
                replaced.push(fs::read_to_string(&saved).unwrap());
                std::thread::yield_now();
            }
            (number, replaced)
        })
    };
    let (started, mut replaced_by_agent) = (std::time::Instant::now(), Vec::new());
    let (mut tries, mut crossed) = (0, 0);
    while started.elapsed() < MAX_TIME {
        tries += 1;
        let read = done(&lab, &one, "read_file", json!({"path": "a.txt"})).await;
        let Some(read) = read["content"].as_str().map(str::to_owned) else {
            continue;
        };
        let text = format!("agent {tries}");
        let written = done(&lab, &one, "write_file", write(&text)).await;
        match written["success"] == true {
            true => replaced_by_agent.push(read),
            false => crossed += usize::from(written["error"].as_str().unwrap().contains("kept")),
        }
    }
    stop.store(true, Ordering::Relaxed);
    let (number, replaced_by_hand) = hand.join().unwrap();
    let last = lab.read("a.txt");
    let names = fs::read_dir(&lab.root).unwrap();
    let kept = names.filter_map(|entry| fs::read_to_string(entry.unwrap().path()).ok());
    let mut known: std::collections::BTreeSet<String> = kept.collect();
    known.extend(replaced_by_hand);
    known.extend(replaced_by_agent.iter().cloned());
    eprintln!(
        "{number} saves, {tries} tries, {} writes, {crossed} crossed, last: {last}",
        replaced_by_agent.len()
    );
    let lost = (0..=number).map(|n| format!("hand {n}"));
    let lost: Vec<String> = lost.filter(|saved| !known.contains(saved)).collect();
    assert!(lost.is_empty(), "lost: {lost:?}");
    assert!(number > 100 && tries > 10, "nothing was tried");
}

/// What git runs lies not only in `.git`.
#[tokio::test]
async fn where_git_is_led_to_a_write_asks() {
    let lab = Lab::new();
    let one = agent("one");
    lab.git(&["init", "-q"]);
    lab.git(&["config", "core.hooksPath", "hk"]);
    lab.git(&["config", "include.path", "../inc.cfg"]);
    lab.write("hk/pre-commit", "true");
    fs::create_dir_all(lab.root.join("planted/objects")).unwrap();
    for folder in ["objects", "refs", "hooks"] {
        fs::create_dir_all(lab.root.join("bare").join(folder)).unwrap();
    }
    lab.write("bare/HEAD", "ref: refs/heads/main");
    lab.write("other/HEAD", "x");
    for (path, expected) in [
        ("hk/pre-commit", Some("settings lead git")),
        ("hk/pre-push", Some("settings lead git")),
        ("inc.cfg", Some("settings lead git")),
        ("planted/HEAD", Some("take its folder for a repository")),
        ("other/config", Some("take its folder for a repository")),
        ("other/commondir", Some("take its folder for a repository")),
        (
            "bare/hooks/post-checkout",
            Some("git takes for a repository"),
        ),
        ("config", None),
        ("HEAD.md", None),
        ("src/config", None),
    ] {
        // One that is not read asks for that reason.
        done(&lab, &one, "read_file", json!({"path": path})).await;
        let call = json!({"path": path, "content": "evil", "create_dirs": true});
        match (run(&lab, &one, "write_file", call.clone()).await, expected) {
            (RunOutcome::Done(result), None) => assert_eq!(result["success"], true, "{path}"),
            (RunOutcome::Asks(question), Some(expected)) => {
                assert!(question.reason.contains(expected), "{}", question.reason);
                let base = Some(&question.preview.base);
                let agreed = bound(&lab, &one, "write_file", call, base).await;
                assert!(matches!(agreed, RunOutcome::Done(_)), "{path}: {agreed:?}");
                fs::remove_file(lab.root.join(path)).unwrap();
            }
            (outcome, expected) => panic!("{path}: {outcome:?}, not {expected:?}"),
        }
    }
}

#[tokio::test]
async fn a_reading_that_failed_is_none() {
    let lab = Lab::new();
    let one = agent("one");
    lab.write("a.txt", "one line\n");
    let past = json!({"path": "a.txt", "start_line": 999});
    assert_eq!(done(&lab, &one, "read_file", past).await["success"], false);
    let question = asks(&lab, &one, write("new")).await;
    assert!(question.preview.is_unread, "{question:?}");
}
