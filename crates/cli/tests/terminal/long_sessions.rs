//! What a long session needs: summing it up, taking back what was allowed, images by their path.

use std::fs;

use codelab_fakemodel::{Gate, Reply};
use serde_json::{Value, json};

use crate::lab::Lab;
use crate::terminal::Terminal;

const PNG: &[u8] = b"\x89PNG\r\n\x1a\nan image";

fn is_summary(body: &Value) -> bool {
    body["messages"][0]["content"]
        .as_str()
        .is_some_and(|text| text.starts_with("Sum up the older part"))
}

/// The screen once nothing runs any more.
#[track_caller]
fn wait_until_over(terminal: &Terminal, text: &str) -> String {
    terminal.wait_until(text, |screen| {
        screen.contains(text) && screen.trim_end().ends_with("· /help")
    })
}

fn paste(terminal: &mut Terminal, text: &str) {
    terminal.press(&format!("\u{1b}[200~{text}\u{1b}[201~"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_is_summed_up_on_demand() {
    let lab = Lab::new().await;
    lab.model.offer(&["gpt-4"]);
    let mut terminal = lab.chat(&[]);
    terminal.say("/compact");
    terminal.wait_for("there is nothing new to sum up");
    terminal.say("/switch coder");
    terminal.wait_for("messages go to coder");
    lab.model
        .reply(Reply::text("Port 7001.").with_usage(4000, 96));
    terminal.say("Which port?");
    wait_until_over(&terminal, "Port 7001.");
    terminal.wait_for("gpt-4 · context 50 % of 8k · ");

    let gate = Gate::new();
    lab.model.on(is_summary, Reply::text("Lost.").hold(&gate));
    terminal.say("/compact");
    gate.reached().await;
    terminal.wait_for("summing up the session");
    terminal.press("\u{3}");
    terminal.wait_for("the summary was stopped; the session stays as it is");
    lab.model.reset();
    lab.model.on(is_summary, Reply::text("The port is 7001."));
    terminal.say("/compact");
    let screen = wait_until_over(&terminal, "earlier messages summarised: 2");
    let status = screen.trim_end().lines().last().unwrap().to_owned();
    assert!(!status.contains("context"), "{status}");
    terminal.say("/compact");
    terminal.wait_until("said again", |screen| {
        screen.matches("there is nothing new to sum up").count() == 2
    });
    lab.model.reply(Reply::text("Still 7001."));
    terminal.say("And now?");
    wait_until_over(&terminal, "Still 7001.");
    let sent = lab.model.requests().last().unwrap().body.to_string();
    assert!(sent.contains("The port is 7001."), "{sent}");
    assert!(!sent.contains("Port 7001."), "{sent}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_allowed_can_be_taken_back() {
    let lab = Lab::new().await;
    let mut terminal = lab.chat(&[]);
    terminal.say("/switch coder");
    terminal.wait_for("messages go to coder");
    terminal.say("/allowed");
    terminal.wait_for("nothing is allowed for the rest of this session");
    let write = |path: &str| {
        let arguments = json!({ "path": path, "content": "x\n" });
        lab.call("write_file", arguments);
        lab.model.reply(Reply::text("Written."));
    };
    write("a.txt");
    terminal.say("write a");
    terminal.wait_for("a always");
    terminal.decide("a");
    wait_until_over(&terminal, "Written.");
    write("b.txt");
    terminal.say("write b");
    terminal.wait_until("both are written", |screen| {
        screen.matches("Written.").count() == 2 && screen.trim_end().ends_with("· /help")
    });
    terminal.say("/allowed -1");
    terminal.wait_for("-1 is not in the last list; /allowed shows it");
    terminal.say("/allowed");
    terminal.wait_for(" 1  writes of files in the workspace");
    terminal.say("/allowed -1");
    terminal.wait_for("taken back: writes of files in the workspace; such calls ask again");
    write("c.txt");
    terminal.say("write c");
    terminal.wait_for("write c.txt:  y approve");
    assert_eq!(lab.file("c.txt"), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pasted_path_of_an_image_becomes_an_attachment() {
    let lab = Lab::new().await;
    let folder = lab.home().join("Pictures");
    fs::create_dir(&folder).unwrap();
    fs::write(folder.join("my shot.png"), PNG).unwrap();
    let path = folder.join("my shot.png").display().to_string();
    let mut settings = lab.settings();
    settings.push(("LLM_MODEL", "gpt-4o"));
    let mut terminal = Terminal::start(&["chat"], &settings, &lab.work());
    terminal.wait_for("/help");
    terminal.say("/switch coder");
    terminal.wait_for("messages go to coder");
    // A text around it is a text.
    paste(&mut terminal, &format!("see {path}"));
    terminal.wait_for("› see ");
    terminal.press("\u{15}");
    terminal.press("What is in ");
    paste(&mut terminal, &path.replace(' ', "\\ "));
    terminal.wait_for("› What is in @\"my shot.png\"");
    terminal.wait_for("images that go along: my shot.png");
    let question = json!({ "question": "Which part?" });
    lab.call("ask_followup_question", question);
    terminal.press("\r");
    terminal.wait_for("sent with: my shot.png (16 bytes)");
    terminal.wait_for("Which part?");
    let image = |place: isize| {
        let requests = lab.model.requests();
        let body = &requests[(requests.len() as isize + place) as usize].body;
        body.to_string().matches("data:image/png;base64,").count()
    };
    assert_eq!(image(-1), 1);
    // An answer can have one as well.
    lab.model.reply(Reply::text("I see."));
    paste(&mut terminal, &format!("'{path}'"));
    terminal.wait_for("images that go along: my shot.png");
    terminal.press("\r");
    wait_until_over(&terminal, "I see.");
    assert_eq!(image(-1), 2, "the request and the answer");
}
