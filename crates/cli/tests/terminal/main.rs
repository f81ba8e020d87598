//! `codelab chat` as a person meets it: the real program in a real terminal, against a scripted
//! model.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod commands;
mod decisions;
mod editing;
mod lab;
mod leaving;
mod long_sessions;
mod places;
mod rewind;
mod steering;
mod terminal;
mod trust;
mod waiting;

use std::io::Write as _;
use std::process::{Command, Stdio};

use codelab_fakemodel::{Gate, Reply, TestAuthority};
use codelab_testkit::HttpsProxy;
use serde_json::json;

use lab::{GREET, Lab};
use terminal::Terminal;

const BY_NAME: &str = "def greet(name):\n    return f\"Hello, {name}!\"\n";

fn count(text: &str, part: &str) -> usize {
    text.matches(part).count()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_behind_an_https_proxy() {
    let lab = Lab::new().await;
    let Some(authority) = TestAuthority::make(lab.home()) else {
        return;
    };
    let certificate = authority.issue("server", "DNS:localhost");
    let _server = lab.serve().await;
    let Some(proxy) = HttpsProxy::start(lab.home(), &certificate, lab.port()).await else {
        return;
    };
    lab.route_to("coder");
    lab.call("read_file", json!({ "path": "greet.py" }));
    lab.model.reply(Reply::text("It greets over TLS."));
    let url = format!("https://localhost:{}", proxy.port);
    let ca_file = authority.ca_file().display().to_string();
    let token = lab.token().await;
    let mut terminal = lab.chat(&["--url", &url, "--token", &token, "--ca-file", &ca_file]);
    terminal.say("What does it do?");
    let screen = terminal.wait_for("It greets over TLS.");
    assert!(screen.contains("✓ read greet.py · 2 lines"), "{screen}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_whole_session() {
    let lab = Lab::new().await;
    lab.write("old.txt", "old\n");
    lab.route_to("coder");
    lab.call("read_file", json!({ "path": "greet.py" }));
    lab.call(
        "write_file",
        json!({ "path": "greet.py", "content": BY_NAME }),
    );
    lab.call(
        "execute_command",
        json!({ "command": "rm -f old.txt && ls" }),
    );
    lab.call(
        "attempt_completion",
        json!({ "result": "It greets **by name** now.\n\n- one file\n" }),
    );
    let mut terminal = lab.chat(&[]);
    terminal.say("Make it greet by name");
    let screen = terminal.wait_for("y approve");
    for part in [
        "› Make it greet by name",
        "→ coder",
        "✓ read greet.py · 2 lines",
        "coder asks to write greet.py  +2 −2",
        "-    return \"Hello\"",
        "+    return f\"Hello, {name}!\"",
        "File modification requires approval",
    ] {
        assert!(screen.contains(part), "{part}\n{screen}");
    }
    assert_eq!(
        lab.file("greet.py").unwrap(),
        GREET,
        "nothing is written before the decision"
    );
    terminal.decide("e");
    terminal.wait_for("approved with your changes");
    let screen = terminal.wait_for("coder asks to run");
    assert!(
        screen.contains("✓ write greet.py") && screen.contains("rm -f old.txt && ls"),
        "{screen}"
    );
    assert_eq!(
        lab.file("greet.py").unwrap(),
        BY_NAME.replace("Hello", "Good day"),
        "what was edited was written"
    );
    terminal.wait_for("a always");
    terminal.decide("y");
    let screen = terminal.wait_for("It greets by name now.");
    assert!(
        screen.contains("✓ $ rm -f old.txt && ls · exit 0") && screen.contains("    greet.py"),
        "{screen}"
    );
    assert_eq!(lab.file("old.txt"), None);
    terminal.wait_until("the turn is over", |screen| {
        screen.contains("• one file") && screen.contains("· /help")
    });

    // A rejection reaches the model with its reason, and nothing is written.
    lab.call(
        "write_file",
        json!({ "path": "more.py", "content": "x = 1\n" }),
    );
    lab.model.reply(Reply::text("I leave it."));
    terminal.say("/switch coder");
    terminal.wait_for("messages go to coder");
    terminal.say("Write more");
    terminal.wait_for("coder asks to write more.py");
    terminal.decide("n");
    terminal.wait_for("why not");
    terminal.say("use tabs");
    terminal.wait_for("rejected: use tabs");
    let screen = terminal.wait_for("I leave it.");
    assert_eq!(
        count(&screen, "Make it greet by name"),
        1,
        "everything is shown once\n{screen}"
    );
    assert!(
        lab.model
            .requests()
            .last()
            .unwrap()
            .body
            .to_string()
            .contains("use tabs")
    );
    assert_eq!(lab.file("more.py"), None);
    terminal.wait_until("the turn is over", |screen| {
        screen.trim_end().ends_with("· /help")
    });
    terminal.press("\u{4}");
    terminal.wait_for("continue with: codelab chat --session chat-");
    assert_eq!(terminal.ended(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_server_costs_nothing() {
    let lab = Lab::new().await;
    let mut server = lab.serve().await;
    let gate = Gate::new();
    lab.model
        .reply(Reply::text("Half an answer that is never finished").hold_after_deltas(3, &gate));
    let mut terminal = lab.chat(&[]);
    terminal.say("/switch coder");
    terminal.wait_for("messages go to coder");
    terminal.say("Begin");
    terminal.wait_for("Half an");
    server.kill().await.unwrap();
    terminal.wait_for("reconnecting");
    gate.open();
    lab.model.reply(Reply::text("The whole answer."));
    let mut server = lab.serve().await;
    let screen = terminal.wait_until("the turn is over", |screen| {
        screen.contains("The whole answer.")
            && !screen.contains("reconnecting")
            && screen.contains("· /help")
    });
    assert_eq!(
        (
            count(&screen, "› Begin"),
            count(&screen, "The whole answer.")
        ),
        (1, 1),
        "{screen}"
    );

    // What waits for a person waits through a restart, and is done once.
    lab.call(
        "write_file",
        json!({ "path": "new.txt", "content": "new\n" }),
    );
    lab.model.reply(Reply::text("It is written."));
    terminal.say("Write it");
    terminal.wait_for("coder asks to write new.txt");
    server.kill().await.unwrap();
    terminal.wait_for("reconnecting");
    let _server = lab.serve().await;
    terminal.wait_until("it is back", |screen| !screen.contains("reconnecting"));
    // A text that begins like a choice decides nothing.
    terminal.decide("yes, but why?");
    terminal.wait_for("› yes, but why?");
    assert!(lab.file("new.txt").is_none());
    terminal.press("\u{15}");
    terminal.decide("y");
    let screen = terminal.wait_for("It is written.");
    assert_eq!(
        (
            count(&screen, "coder asks to write new.txt"),
            count(&screen, "✓ approved")
        ),
        (1, 1),
        "{screen}"
    );
    assert_eq!(lab.file("new.txt").unwrap(), "new\n");

    // Another terminal goes on where this one was.
    terminal.wait_until("the turn is over", |screen| {
        screen.trim_end().ends_with("· /help")
    });
    terminal.press("\u{3}\u{3}");
    let screen = terminal.wait_for("codelab chat --session chat-");
    let session = screen
        .split("--session ")
        .nth(1)
        .unwrap()
        .split_whitespace()
        .next()
        .unwrap()
        .to_owned();
    assert_eq!(terminal.ended(), 0);
    lab.model.reply(Reply::text("Still here."));
    let mut terminal = lab.chat(&["--session", &session]);
    for part in [
        "› Begin",
        "The whole answer.",
        "✓ write new.txt",
        "It is written.",
    ] {
        terminal.wait_for(part);
    }
    terminal.say("/switch coder");
    terminal.wait_for("messages go to coder");
    terminal.say("Are you there?");
    terminal.wait_for("Still here.");
}

#[tokio::test(flavor = "multi_thread")]
async fn questions_cancelling_and_pasting() {
    let lab = Lab::new().await;
    lab.call(
        "ask_followup_question",
        json!({ "question": "Which one?", "options": ["red", "blue"] }),
    );
    lab.model.reply(Reply::text("Blue it is.\u{1b}[2J\u{202e}"));
    let mut terminal = lab.chat(&[]);
    terminal.say("/switch coder");
    terminal.wait_for("messages go to coder");
    // A paste of several lines is one message, and is not sent by its line breaks.
    terminal.press("\u{1b}[200~Choose\ra colour\u{1b}[201~");
    let screen = terminal.wait_for("a colour");
    assert!(screen.contains("› Choose"), "{screen}");
    assert_eq!(lab.model.request_count(), 0, "not sent yet");
    terminal.press("\r");
    terminal.wait_for("2. blue");
    terminal.wait_for("answer ›");
    // What is no answer is none while a question waits either.
    terminal.say("!echo $((6 * 7))");
    terminal.wait_for("  42");
    terminal.say("2");
    let screen = terminal.wait_for("Blue it is.");
    assert!(
        screen.contains("Blue it is.␛[2J<U+202E>"),
        "what would command the terminal is shown\n{screen}"
    );
    assert!(screen.contains("2. blue"), "and has not cleared it");
    assert!(
        lab.model
            .requests()
            .last()
            .unwrap()
            .body
            .to_string()
            .contains("blue")
    );
    terminal.wait_until("the turn is over", |screen| {
        screen.trim_end().ends_with("· /help")
    });

    lab.model.reply(Reply::hang());
    terminal.say("Take your time");
    lab.model.wait_until_in_flight(1).await;
    terminal.wait_for("coder works");
    terminal.press("\u{3}");
    terminal.wait_for("⊘ cancelled");
    lab.model.wait_until_in_flight(0).await;
    terminal.wait_for("Ctrl-C again leaves");
    terminal.press("\u{3}");
    assert_eq!(terminal.ended(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_terminal_there_are_plain_lines() {
    let lab = Lab::new().await;
    lab.call(
        "write_file",
        json!({ "path": "plain.txt", "content": "plain\n" }),
    );
    lab.model.reply(Reply::text("It is **written**."));
    let mut child = Command::new(env!("CARGO_BIN_EXE_codelab"))
        .arg("chat")
        .current_dir(lab.work())
        .env_clear()
        .envs(lab.settings())
        .env("PATH", std::env::var("PATH").unwrap())
        // A question that is not printed again ends by itself.
        .env("CODELAB_LIMITS__APPROVAL_TIMEOUT_SECONDS", "30")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    let file = lab.work().join("plain.txt");
    let output = tokio::task::spawn_blocking(move || {
        use std::io::{BufRead as _, BufReader};
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut seen = Vec::new();
        let mut has_changed = false;
        input.write_all(b"/switch coder\n").unwrap();
        while let Some(Ok(line)) = lines.next() {
            if line.contains("messages go to coder") {
                input.write_all(b"Write it\n").unwrap();
            }
            if line.contains("y approve") && std::mem::replace(&mut has_changed, true) {
                input.write_all(b"y\n").unwrap();
            } else if line.contains("y approve") {
                // What is approved has to be printed as it is now.
                std::fs::write(&file, "by hand\n").unwrap();
            }
            let is_last = line.contains("It is written.");
            seen.push(line);
            if is_last {
                break;
            }
        }
        drop(input);
        seen.extend(lines.map_while(Result::ok));
        assert!(child.wait().unwrap().success());
        seen.join("\n")
    });
    let output = output.await.unwrap();
    for part in ["› Write it", "-by hand", "It is written."] {
        assert_eq!(count(&output, part), 1, "{part}\n{output}");
    }
    // What the tool runner told of the file may be printed once more before it is asked again.
    let cards: Vec<&str> = output.split("coder asks to write plain.txt").collect();
    assert!((3..=4).contains(&cards.len()), "{output}");
    assert!(cards[1].contains("(a new file)"), "{output}");
    let last = cards.last().unwrap();
    assert!(
        last.contains("-by hand") && last.contains("✓ approved"),
        "{output}"
    );
    assert!(!output.contains('\u{1b}'), "{output:?}");
    assert_eq!(lab.file("plain.txt").unwrap(), "plain\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn exec_says_by_its_code_that_nobody_approved_in_time() {
    let lab = Lab::new().await;
    lab.call(
        "write_file",
        json!({ "path": "late.txt", "content": "late\n" }),
    );
    lab.model.reply(Reply::text("Then not."));
    let mut settings = lab.settings();
    settings.push(("CODELAB_LIMITS__APPROVAL_TIMEOUT_SECONDS", "1"));
    let arguments = ["exec", "Write it", "--agent", "coder", "--approve", "ask"];
    let terminal = Terminal::start(&arguments, &settings, &lab.work());
    terminal.wait_for("Then not.");
    assert_eq!(terminal.ended(), 3);
    assert_eq!(lab.file("late.txt"), None);
}
