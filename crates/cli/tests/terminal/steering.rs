//! Saying something to agents at work, and going on in a fork.

use codelab_fakemodel::Reply;
use serde_json::json;

use crate::lab::Lab;

#[tokio::test(flavor = "multi_thread")]
async fn a_turn_is_steered_and_the_session_forked() {
    let lab = Lab::new().await;
    let write = json!({ "path": "new.txt", "content": "x\n" });
    lab.model.reply(Reply::tool_call("write_file", write));
    let mut terminal = lab.chat(&[]);
    terminal.say("/switch coder");
    terminal.wait_for("messages go to coder");
    terminal.say("write it");
    terminal.wait_for("coder asks to write new.txt");
    // The approval waits, and what is said meanwhile too.
    terminal.say("/steer use tabs");
    terminal.wait_for("the agents hear this after their next tool results: use tabs");
    terminal.say("/steer and no spaces");
    terminal.wait_for("the agents hear this after their next tool results: and no spaces");
    lab.model.reply(Reply::text("With tabs only."));
    terminal.decide("y");
    terminal.wait_for("With tabs only.");
    let asked = lab.model.requests().last().unwrap().body.clone();
    let messages = asked["messages"].as_array().unwrap();
    let last: Vec<&str> = messages[messages.len() - 2..]
        .iter()
        .map(|message| message["content"].as_str().unwrap())
        .collect();
    assert_eq!(last, ["use tabs", "and no spaces"]);

    terminal.wait_until("idle", |screen| screen.trim_end().ends_with("· /help"));
    terminal.say("/fork");
    terminal.wait_for("❯  0  everything so far");
    terminal.press("\r");
    terminal.wait_for("write it (fork)");
    lab.model.reply(Reply::text("In the fork."));
    terminal.say("go on");
    terminal.wait_for("In the fork.");
    let asked = lab.model.requests().last().unwrap().body.to_string();
    assert!(asked.contains("use tabs"), "{asked}");
}
