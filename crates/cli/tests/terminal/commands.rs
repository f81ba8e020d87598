//! What a person does besides talking: names files, runs commands, finds sessions again.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;

use codelab_fakemodel::Reply;

use crate::lab::{GREET, Lab};
use crate::terminal::Terminal;

fn git(lab: &Lab, arguments: &[&str]) {
    let done = Command::new("git")
        .args(["-c", "user.name=t", "-c", "user.email=t@example.org"])
        .args(arguments)
        .current_dir(lab.work())
        .env("HOME", lab.home())
        .output()
        .unwrap();
    assert!(done.status.success(), "{done:?}");
}

fn wait_until_over(terminal: &Terminal, text: &str) -> String {
    terminal.wait_until(text, |screen| {
        screen.contains(text) && screen.trim_end().ends_with("· /help")
    })
}

fn last_request(lab: &Lab) -> String {
    lab.model.requests().last().unwrap().body.to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn files_and_commands_of_the_persons_own() {
    let lab = Lab::new().await;
    git(&lab, &["init", "-q"]);
    git(&lab, &["add", "."]);
    git(&lab, &["commit", "-q", "-m", "first"]);
    let commands = lab.home().join("config/codelab/commands");
    fs::create_dir_all(&commands).unwrap();
    fs::write(commands.join("explain.md"), "Explain $ARGUMENTS, please.\n").unwrap();
    let config = lab.home().join("config").display().to_string();
    let mut settings = lab.settings();
    settings.push(("XDG_CONFIG_HOME", &config));
    let mut terminal = Terminal::start(&["chat"], &settings, &lab.work());
    terminal.wait_for("· /help");

    // Tab finishes the names of commands and files.
    // At the cursor, with whatever stands behind it.
    terminal.press("@gr behind\u{1b}b\u{2}\t");
    terminal.wait_for("› @greet.py behind");
    terminal.press("\u{5}\u{15}");
    terminal.press("/sw\t");
    terminal.wait_for("› /switch");
    terminal.say("coder");
    terminal.wait_for("messages go to coder");
    // The server keeps what providers offer for a minute.
    lab.model.offer(&["gpt-4", "gpt-4o"]);
    lab.model
        .reply(Reply::text("It greets.\n\n```diff\n-old\n+new\n```\n").with_usage(1200, 34));
    terminal.press("Look at @gre\t");
    terminal.wait_for("› Look at @greet.py");
    terminal.press("\r");
    let size = format!("sent with: greet.py ({} bytes)", GREET.len());
    terminal.wait_for(&size);
    let screen = wait_until_over(&terminal, "It greets.");
    assert!(!screen.contains("def greet"), "only its name\n{screen}");
    // Agent, model, its window and the cost.
    terminal.wait_for("to coder · gpt-4 · context 16 % of 8k · 1,234 tokens · ");
    let sent = last_request(&lab);
    let content = serde_json::to_string(&format!("File `greet.py`:\n\n```\n{GREET}```")).unwrap();
    assert!(sent.contains(content.trim_matches('"')), "{sent}");

    let count = lab.model.request_count();
    // A name that is mistyped can be corrected.
    terminal.say("And @greet.pi");
    terminal.wait_for("there is no file greet.pi in the folder, so the message was not sent");
    terminal.wait_for("› And @greet.pi");
    terminal.press("\u{15}");
    // What no agent may read is not sent for one either.
    terminal.say("And @/etc/passwd");
    terminal.wait_for("/etc/passwd cannot be sent, so the message was not sent");
    terminal.press("\u{15}");

    terminal.say("!echo from $((40 + 2)) >&2; exit 3");
    let screen = terminal.wait_for("exit 3 · the model does not see this");
    assert!(screen.contains("  from 42"), "{screen}");
    // There is no terminal that it could wait for.
    terminal.say("!cat /dev/tty");
    terminal.wait_for("exit 1 · the model does not see this");
    terminal.say("!sleep 600");
    terminal.wait_for("your command is running · Ctrl-C stops it");
    terminal.press("\u{3}");
    terminal.wait_for("stopped · the model does not see this");
    assert_eq!(lab.model.request_count(), count);

    lab.write("greet.py", &GREET.replace("Hello", "Good day"));
    lab.write("більше.txt", "");
    terminal.say("/diff");
    let screen = terminal.wait_for("new files: більше.txt");
    for part in ["  -    return \"Hello\"", "  +    return \"Good day\""] {
        assert!(screen.contains(part), "{part}\n{screen}");
    }

    terminal.say("/model nosuch");
    terminal.wait_for("the providers do not offer nosuch; they offer: ");
    terminal.say("/model gpt-4o");
    terminal.wait_for("to coder · gpt-4o · ");
    lab.model.reply(Reply::text("Tests are checks."));
    terminal.say("/explain tests");
    wait_until_over(&terminal, "Tests are checks.");
    assert!(last_request(&lab).contains("Explain tests, please."));
    terminal.say("/nothing");
    terminal.wait_for("there is no command /nothing");

    terminal.say("/export");
    terminal.wait_for("the session was written to");
    let exported = fs::read_dir(lab.work()).unwrap().find_map(|entry| {
        let path = entry.unwrap().path();
        let is_export = path.to_string_lossy().contains("codelab-chat-");
        is_export.then(|| fs::read_to_string(path).unwrap())
    });
    let exported = exported.unwrap();
    for part in ["## You", "## coder", "It greets.", "Explain tests, please."] {
        assert!(exported.contains(part), "{part}\n{exported}");
    }
    terminal.press("\u{4}");
    assert_eq!(terminal.ended(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_look_at_the_changes_runs_nothing_of_the_repository() {
    let lab = Lab::new().await;
    let mut terminal = lab.chat(&[]);
    terminal.say("/diff");
    terminal.wait_for("git cannot show the changes: fatal: not a git repository");
    git(&lab, &["init", "-q"]);
    git(&lab, &["add", "."]);
    git(&lab, &["commit", "-q", "-m", "first"]);
    lab.write("greet.py", &GREET.replace("Hello", "Good day"));
    // Where even a program in the sandbox may write.
    let ran = lab.work().join("ran");
    let program = lab.work().join("program");
    let script = format!("#!/bin/sh\ntouch {}\ncat\n", ran.display());
    fs::write(&program, script).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let hook = lab.work().join(".git/hooks/post-index-change");
    fs::copy(&program, &hook).unwrap();
    terminal.say("/diff");
    terminal.wait_for("  +    return \"Good day\"");
    assert!(!ran.exists(), "a hook ran");
    let program = program.display().to_string();
    for (key, attribute) in [
        ("filter.evil.clean", "* filter=evil\n"),
        ("filter.evil.process", "* filter=evil\n"),
        ("diff.evil.textconv", "* diff=evil\n"),
        ("diff.external", "\n"),
        ("core.fsmonitor", "\n"),
    ] {
        lab.write(".gitattributes", attribute);
        git(&lab, &["config", key, &program]);
        terminal.say("/diff");
        let told = format!("make it start programs: {key}");
        terminal.wait_until(&told, |screen| {
            let words: Vec<&str> = screen.split_whitespace().collect();
            words.join(" ").contains(&told)
        });
        git(&lab, &["config", "--unset", key]);
        assert!(!ran.exists(), "{key} ran");
    }
    terminal.press("\u{4}");
    assert_eq!(terminal.ended(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn sessions_are_found_again() {
    let lab = Lab::new().await;
    let other = lab.home().join("other");
    fs::create_dir(&other).unwrap();
    let terminal = Terminal::start(&["chat", "--continue"], &lab.settings(), &lab.work());
    terminal.wait_for("there is no session of the folder");
    assert_eq!(terminal.ended(), 1);

    for text in ["First", "Second"] {
        lab.model.reply(Reply::text(format!("{text} answer.")));
        let mut terminal = lab.chat(&[]);
        terminal.say("/switch coder");
        terminal.wait_for("messages go to coder");
        terminal.say(text);
        wait_until_over(&terminal, &format!("{text} answer."));
        terminal.press("\u{4}");
        assert_eq!(terminal.ended(), 0);
    }
    // The newest one of this folder, and whom its messages go to.
    let mut terminal = lab.chat(&["--continue"]);
    let screen = terminal.wait_for("to coder");
    assert!(
        screen.contains("Second answer.") && !screen.contains("First answer."),
        "{screen}"
    );
    lab.model.reply(Reply::text("Third answer."));
    terminal.say("Go on");
    wait_until_over(&terminal, "Third answer.");
    // A choice stays without a message.
    terminal.say("/switch writer");
    terminal.wait_for("messages go to writer");
    terminal.press("\u{4}");
    assert_eq!(terminal.ended(), 0);
    let mut terminal = lab.chat(&["--continue"]);
    terminal.wait_for("to writer");
    terminal.press("\u{4}");
    assert_eq!(terminal.ended(), 0);

    let data = lab.home().join("data").display().to_string();
    let count = lab.model.request_count();
    let arguments = ["chat", "--resume", "--data-dir", &data];
    let mut terminal = Terminal::start(&arguments, &lab.settings(), &lab.work());
    terminal.wait_for("❯  1  ");
    terminal.press("\u{1b}[B");
    terminal.wait_for("❯  2  ");
    terminal.press("\u{1b}[A");
    terminal.wait_for("❯  1  ");
    // Only a number is heard, and it is no message.
    terminal.press("go 2");
    let screen = terminal.wait_for("❯  2  ");
    assert!(screen.contains("number › 2\n"), "{screen}");
    terminal.press("\r");
    terminal.wait_for("First answer.");
    assert_eq!(lab.model.request_count(), count);
    terminal.say("/sessions");
    let screen = terminal.wait_for("/sessions NUMBER continues a session");
    let marked = screen.lines().find(|row| row.contains("(this session)"));
    assert!(
        marked.is_some_and(|row| row.contains(" 2  chat-")),
        "{screen}"
    );
    terminal.press("\u{4}");
    let screen = terminal.wait_for("continue with:");
    let hint = screen.split("continue with:").nth(1).unwrap();
    let hint: String = hint.split_whitespace().collect();
    assert!(hint.ends_with(&format!("--data-dir{data}")), "{screen}");
    assert_eq!(terminal.ended(), 0);

    let terminal = Terminal::start(&["chat", "--continue"], &lab.settings(), &other);
    terminal.wait_for("there is no session of the folder");
    assert_eq!(terminal.ended(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stopped_answer_stays_and_its_turn_is_run_again() {
    let lab = Lab::new().await;
    let mut terminal = lab.chat(&[]);
    terminal.say("/switch coder");
    terminal.wait_for("messages go to coder");
    lab.model
        .reply(Reply::text("Half of an answer that goes on").hang_after_deltas(3));
    terminal.say("Take your time");
    terminal.wait_for("Half");
    terminal.press("\u{3}");
    let screen = terminal.wait_for("⊘ cancelled");
    assert!(
        screen.contains("Half") && screen.contains("the answer was cut off here"),
        "{screen}"
    );
    lab.model.wait_until_in_flight(0).await;
    lab.model.reply(Reply::text("The whole answer."));
    terminal.say("/retry");
    wait_until_over(&terminal, "The whole answer.");
    assert!(last_request(&lab).contains("A person stopped this answer"));
    terminal.say("/retry");
    let screen = terminal.wait_for("there is nothing to run again: ");
    let words: Vec<&str> = screen.split_whitespace().collect();
    let words = words.join(" ");
    assert!(words.contains("neither failed nor was stopped"), "{words}");
}
