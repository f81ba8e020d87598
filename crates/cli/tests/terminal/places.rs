//! What comes from other folders of the same project is marked, and what agents remember of them is
//! shown.

use codelab_fakemodel::Reply;

use crate::lab::Lab;
use crate::terminal::Terminal;

#[tokio::test(flavor = "multi_thread")]
async fn sessions_and_memories_of_other_folders_are_marked() {
    let lab = Lab::new().await;
    lab.model.reply(Reply::text("The harbour is closed."));
    let mut terminal = lab.chat(&["--approve", "ask"]);
    let alone = terminal.screen();
    assert!(!alone.contains("other folders"), "{alone}");
    terminal.say("/switch coder");
    terminal.wait_for("messages go to coder");
    terminal.say("Tell me about the harbour");
    terminal.wait_for("The harbour is closed.");
    terminal.wait_until("the turn is over", |screen| {
        screen.trim_end().ends_with("· /help")
    });
    terminal.press("\u{4}");
    assert_eq!(terminal.ended(), 0);

    let other = lab.home().join("other");
    std::fs::create_dir(&other).unwrap();
    let mut terminal = Terminal::start(&["chat"], &lab.settings(), &other);
    terminal.wait_for("also remember work in other folders; /memory shows it");
    terminal.wait_for("· /help");
    terminal.say("/memory");
    terminal.wait_until("the counts", |screen| screen.contains("memories: 1"));
    terminal.say("/memory coder");
    let screen = terminal.wait_for("shown: 1 of 1");
    let place = lab.work().display().to_string();
    assert!(screen.contains("the harbour"), "{screen}");
    assert!(screen.contains(&format!("{place}: ")), "{screen}");
    terminal.say("/memory forget coder");
    terminal.wait_for("coder remembers nothing any more");
    terminal.say("/memory coder");
    terminal.wait_for("shown: 0 of 0");
    terminal.say("/sessions");
    terminal.wait_for(&format!("{place})"));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_last_row_keeps_its_model_when_the_session_has_none_of_its_own() {
    let lab = Lab::new().await;
    lab.model.offer(&["gpt-4", "other-model"]);
    lab.model.reply(Reply::text("Here."));
    let mut terminal = lab.chat(&[]);
    terminal.say("/switch coder");
    terminal.wait_for("messages go to coder");
    terminal.say("Who are you?");
    terminal.wait_for("to coder · gpt-4 · context");
    terminal.say("/model other-model");
    terminal.wait_for("to coder · other-model");
    terminal.say("/model -");
    terminal.wait_for("each agent uses its own model");
    terminal.wait_until("the model that answered", |screen| {
        let row = screen.trim_end().lines().last();
        row.is_some_and(|row| row.contains("to coder · gpt-4 · context"))
    });
}
