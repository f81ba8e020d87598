//! Several things wait at once: a key acts on the one that stands above the choices.

use codelab_fakemodel::{Gate, Reply};
use serde_json::{Value, json};

use crate::lab::Lab;
use crate::terminal::Terminal;

const RULE: &str = "rm -rf build && touch ran";

fn says(text: &'static str) -> impl Fn(&Value) -> bool + Send + Sync {
    move |body| body["messages"].to_string().contains(text)
}

/// A step of a task: what its model answers while its request says one thing and not another.
fn step(lab: &Lab, says: &'static str, not: &'static str, reply: Reply) {
    let matches = move |body: &Value| {
        let text = body["messages"].to_string();
        text.contains(says) && !text.contains(not)
    };
    lab.model.on(matches, reply);
}

/// The rows from what waits down to its choices, without the time that is left.
fn card(screen: &str) -> Option<String> {
    let rows: Vec<&str> = screen.lines().collect();
    let choices = rows.iter().rposition(|row| row.contains("y approve"))?;
    let start = rows[..choices]
        .iter()
        .rposition(|row| row.starts_with("? "))?;
    let is_prompt = |row: &&str| matches!(row.trim(), "?" | "›");
    let length = rows[choices..].iter().position(is_prompt)?;
    let text = rows[start..choices + length].join("\n");
    let is_time = |c: char| c.is_ascii_digit() || c == ':';
    let left = text.strip_suffix(" left to decide")?;
    Some(left.trim_end_matches(is_time).trim_end().to_owned())
}

#[track_caller]
fn wait_for_card(terminal: &Terminal, part: &str) -> String {
    let shows = |screen: &str| card(screen).filter(|card| card.contains(part));
    let screen = terminal.wait_until(part, |screen| shows(screen).is_some());
    shows(&screen).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_acts_on_what_stands_above_the_choices() {
    let lab = Lab::new().await;
    let task = |id: &str, agent: &str, what: &str| json!({ "id": id, "agent": agent, "description": what, "depends_on": [], "estimated_tokens": 10 });
    let tasks = [
        task("clean", "coder", "the cleaning part"),
        task("notes", "coder", "the noting part"),
    ];
    let gate = Gate::new();
    step(&lab, "the cleaning part", "touch ran", {
        Reply::tool_call("execute_command", json!({ "command": RULE }))
    });
    step(
        &lab,
        "touch ran",
        "the noting part",
        Reply::text("Cleaned."),
    );
    step(
        &lab,
        "the noting part",
        "greet.py",
        Reply::tool_call("read_file", json!({ "path": "greet.py" })).hold(&gate),
    );
    step(&lab, "greet.py", "notes.md", {
        Reply::tool_call(
            "write_file",
            json!({ "path": "notes.md", "content": "noted\n" }),
        )
    });
    step(&lab, "notes.md", "the cleaning part", Reply::text("Noted."));
    let is_planning = |body: &Value| body.get("response_format").is_some();
    lab.model.on(
        is_planning,
        Reply::text(json!({ "tasks": tasks }).to_string()),
    );
    lab.model
        .on(says("Several agents worked"), Reply::text("All done."));
    let mut terminal = lab.chat(&[]);
    terminal.say("Both parts");
    let alone = wait_for_card(&terminal, "touch ran");
    gate.open();
    // The other task prints what it read and then waits as well. Neither is drawn between.
    terminal.wait_for("✓ [notes] read greet.py");
    let both = wait_for_card(&terminal, "1 of 2");
    assert_eq!(
        both,
        "? [clean] coder asks to run\n    rm -rf build && touch ran\n  \
         · rm -rf build  deletes files\n  \
         Dangerous command: rm -rf\n\
         $ rm -rf build && touch ran:  y approve  e edit  n reject  a always: this command in this session\n\
         v view all  1 of 2, Tab: the next"
    );
    assert!(both.starts_with(&alone), "{alone}");
    terminal.press("\t");
    wait_for_card(&terminal, "notes.md");
    terminal.press("\t");
    assert_eq!(wait_for_card(&terminal, "touch ran"), both);
    let screen = terminal.screen();
    assert!(!screen.contains("notes.md"), "one at a time\n{screen}");
    // The file of the other one changes before it is shown.
    lab.write("notes.md", "early\n");
    terminal.decide("n");
    terminal.wait_for("why not");
    terminal.press("\r");
    // The client that would write says what it knows of the file.
    let next = wait_for_card(&terminal, "has not read this file");
    let choices = "write notes.md:  y approve  e edit  n reject  a always: every write in this session  v view all";
    for row in [
        "? [notes] coder asks to write notes.md  +1 −1",
        "  -early\n  +noted\n",
        "File modification requires approval",
        choices,
    ] {
        assert!(next.contains(row), "{row}\n{next}");
    }
    // What the file holds changes while it is shown.
    lab.write("notes.md", "by hand\n");
    let changed = wait_for_card(&terminal, "-by hand");
    for row in [
        "  -by hand\n  +noted\n",
        "(the agent has not read this file)",
        choices,
    ] {
        assert!(changed.contains(row), "{row}\n{changed}");
    }
    terminal.decide("y");
    terminal.wait_for("All done.");
    assert_eq!(lab.file("notes.md").unwrap(), "noted\n");
    assert_eq!(lab.file("ran"), None, "what was rejected did not run");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_nobody_saw_is_not_printed_when_the_plan_is_cancelled() {
    let lab = Lab::new().await;
    let task = |id: &str, what: &str| json!({ "id": id, "agent": "coder", "description": what, "depends_on": [], "estimated_tokens": 10 });
    let tasks = [task("one", "the first part"), task("two", "the other part")];
    let gate = Gate::new();
    let write =
        |path: &str| Reply::tool_call("write_file", json!({ "path": path, "content": "x\n" }));
    step(&lab, "the first part", "seen.md", write("seen.md"));
    step(
        &lab,
        "the other part",
        "unseen.md",
        write("unseen.md").hold(&gate),
    );
    let is_planning = |body: &Value| body.get("response_format").is_some();
    lab.model.on(
        is_planning,
        Reply::text(json!({ "tasks": tasks }).to_string()),
    );
    let mut terminal = lab.chat(&[]);
    terminal.say("Both parts");
    wait_for_card(&terminal, "seen.md");
    gate.open();
    wait_for_card(&terminal, "1 of 2");
    // It could be read.
    terminal.decide("\u{3}");
    let screen = terminal.wait_for("⊘ cancelled");
    assert_eq!(screen.matches("asks to write").count(), 1, "{screen}");
    assert_eq!(screen.matches("no longer needed").count(), 1, "{screen}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_write_that_cannot_succeed_or_changes_nothing_asks_nobody() {
    let lab = Lab::new().await;
    let misfit = json!([{ "old": "no such text", "new": "x" }]);
    lab.call("read_file", json!({ "path": "greet.py" }));
    lab.call("write_file", json!({ "path": "greet.py", "edits": misfit }));
    lab.call(
        "write_file",
        json!({ "path": "greet.py", "content": crate::lab::GREET }),
    );
    lab.call(
        "write_file",
        json!({ "path": "../outside.txt", "content": "x" }),
    );
    lab.model.reply(Reply::text("I see."));
    let mut terminal = lab.chat(&[]);
    terminal.say("/switch coder");
    terminal.wait_for("messages go to coder");
    terminal.say("Try");
    terminal.wait_for("I see.");
    let told = lab.model.requests().last().unwrap().body.to_string();
    for part in [
        "has this content already",
        "outside workspace bounds",
        "no such text",
    ] {
        assert!(told.contains(part), "{part}: {told}");
    }
    assert!(!lab.home().join("outside.txt").exists());
}
