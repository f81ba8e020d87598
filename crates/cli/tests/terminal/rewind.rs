//! Going back to a message, and forking before one: chosen from a list.

use codelab_fakemodel::Reply;
use serde_json::json;

use crate::lab::{GREET, Lab};
use crate::terminal::Terminal;

const BY_NAME: &str = "def greet(name):\n    return f\"Hello, {name}!\"\n";

fn wait_until_idle(terminal: &Terminal, text: &str) -> String {
    terminal.wait_until(text, |screen| {
        screen.contains(text) && screen.trim_end().ends_with("· /help")
    })
}

/// A chat in which the coder was asked for two files, one after the other.
fn two_writes(lab: &Lab) -> Terminal {
    let mut terminal = lab.chat(&["--approve", "edits"]);
    terminal.say("/switch coder");
    terminal.wait_for("messages go to coder");
    lab.call("read_file", json!({ "path": "greet.py" }));
    lab.call(
        "write_file",
        json!({ "path": "greet.py", "content": BY_NAME }),
    );
    lab.model.reply(Reply::text("It greets by name."));
    terminal.say("Greet by name");
    wait_until_idle(&terminal, "It greets by name.");
    lab.call(
        "write_file",
        json!({ "path": "notes.txt", "content": "notes\n" }),
    );
    lab.call("execute_command", json!({ "command": "ls" }));
    lab.model.reply(Reply::text("Notes are there."));
    terminal.say("Write notes");
    wait_until_idle(&terminal, "Notes are there.");
    terminal
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_is_chosen_and_its_files_come_back_and_go_again() {
    let lab = Lab::new().await;
    let mut terminal = two_writes(&lab);
    assert_eq!(lab.file("greet.py").unwrap(), BY_NAME);

    // Esc Esc opens the list, Esc leaves it, and nothing that is typed there is a message.
    terminal.press("\u{1b}");
    terminal.wait_for("Esc again: go back to one of your messages");
    terminal.press("\u{1b}");
    let screen = terminal.wait_for("❯  1  ");
    assert!(
        screen.contains("Write notes") && screen.contains("Greet by name"),
        "{screen}"
    );
    terminal.press("hello");
    terminal.press("\u{1b}");
    wait_until_idle(&terminal, "· /help");
    assert_eq!(lab.file("notes.txt").unwrap(), "notes\n");

    terminal.say("/rewind");
    terminal.wait_for("❯  1  ");
    terminal.press("2");
    terminal.wait_for("number › 2");
    terminal.press("\r");
    let screen = terminal.wait_for("these files would be as they were:");
    assert!(screen.contains("back to before: Greet by name"), "{screen}");
    let (_, screen) = screen.split_once("as they were:").unwrap();
    for part in [
        "    notes.txt",
        "    greet.py",
        "not covered, look yourself:",
        "    ls",
        "1  files and conversation",
        "2  files",
        "3  conversation",
    ] {
        assert!(screen.contains(part), "{part}\n{screen}");
    }
    assert!(!screen.contains("stay as they are"), "{screen}");
    // Back to the list, and again.
    terminal.press("\u{1b}");
    terminal.wait_until("the list", |screen| screen.contains("Write notes"));
    terminal.press("2\r");
    terminal.wait_for("1  files and conversation");
    terminal.press("\r");
    terminal.wait_for("rewound: 2 files are as they were");
    // What was said can be changed and sent again.
    terminal.wait_for("› Greet by name");
    assert_eq!(lab.file("greet.py").unwrap(), GREET);
    assert_eq!(lab.file("notes.txt"), None);
    terminal.press("\u{15}");

    terminal.say("/rewind");
    terminal.wait_for("there is no message to go back to");
    terminal.say("/redo");
    terminal.wait_for("the rewind was taken back: 2 files");
    assert_eq!(lab.file("greet.py").unwrap(), BY_NAME);
    assert_eq!(lab.file("notes.txt").unwrap(), "notes\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_was_changed_by_hand_is_named_and_left() {
    let lab = Lab::new().await;
    let mut terminal = two_writes(&lab);
    lab.write("notes.txt", "by hand\n");
    terminal.say("/rewind");
    terminal.wait_for("❯  1  ");
    terminal.press("2\r");
    let screen = terminal.wait_for("these were changed since and stay as they are:");
    let (_, back) = screen.split_once("as they were:").unwrap();
    let (back, stays) = back.split_once("stay as they are:").unwrap();
    assert!(
        back.contains("    greet.py") && !back.contains("    notes.txt"),
        "{screen}"
    );
    assert!(
        stays.contains("    notes.txt: it was changed since, by hand"),
        "{screen}"
    );
    terminal.press("2\r");
    let screen = terminal.wait_for("left as they are:");
    assert!(screen.contains("rewound: 1 files"), "{screen}");
    assert_eq!(lab.file("notes.txt").unwrap(), "by hand\n");
    assert_eq!(lab.file("greet.py").unwrap(), GREET);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fork_ends_before_the_message_that_is_chosen() {
    let lab = Lab::new().await;
    let mut terminal = two_writes(&lab);
    terminal.say("/fork");
    terminal.wait_for("❯  0  everything so far");
    terminal.press("1\r");
    terminal.wait_for("Greet by name (fork)");
    // The message itself is not said there, it stands in the line.
    terminal.wait_for("› Write notes");
    terminal.press("\u{15}");
    lab.model.reply(Reply::text("In the fork."));
    terminal.say("Go on");
    wait_until_idle(&terminal, "In the fork.");
    let asked = lab.model.requests().last().unwrap().body.to_string();
    assert!(
        asked.contains("It greets by name.") && !asked.contains("Write notes"),
        "{asked}"
    );
}
