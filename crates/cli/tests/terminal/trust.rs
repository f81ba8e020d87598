//! What the folder brings, as the person in the terminal meets it: shown, trusted, listed, written.

use std::fs;

use codelab_fakemodel::Reply;
use serde_json::json;

use crate::lab::Lab;

fn last_request(lab: &Lab) -> String {
    lab.model.requests().last().unwrap().body.to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn contents_are_shown_and_trusted_one_by_one() {
    let lab = Lab::new().await;
    lab.write("AGENTS.md", "Canary words\u{202e}\n");
    fs::create_dir_all(lab.work().join(".agents/commands")).unwrap();
    lab.write(".agents/commands/greet.md", "Greet $ARGUMENTS, please.\n");
    let mut terminal = lab.chat(&[]);
    terminal.wait_for("waiting for your trust");
    terminal.say("/greet Ann");
    terminal.wait_for("greet");
    assert_eq!(
        lab.model.request_count(),
        0,
        "an untrusted command sends nothing"
    );

    terminal.say("/trust");
    let screen = terminal.wait_for("trust this content of AGENTS.md?");
    for part in [
        "│ Canary words\\u{202e}",
        "SHA-256",
        "instructions for models",
    ] {
        assert!(screen.contains(part), "{part}\n{screen}");
    }
    terminal.say("y");
    terminal.wait_for("AGENTS.md is trusted");
    terminal.wait_for("trust this content of .agents/commands/greet.md?");
    terminal.say("n");
    terminal.wait_for(".agents/commands/greet.md is not trusted");
    terminal.say("/instructions");
    let screen = terminal.wait_for("told to models:");
    assert!(screen.contains("command for this terminal"), "{screen}");

    terminal.say("/switch coder");
    terminal.wait_for("messages go to coder");
    lab.model.reply(Reply::text("All is well."));
    terminal.say("hello");
    terminal.wait_for("All is well.");
    assert!(last_request(&lab).contains("Canary words"));

    terminal.say("/trust");
    terminal.wait_until("the question", |screen| {
        screen
            .matches("trust this content of .agents/commands/greet.md?")
            .count()
            > 1
    });
    terminal.say("y");
    terminal.wait_for("greet.md is trusted");
    lab.model.reply(Reply::text("Hello, Ann."));
    terminal.say("/greet Ann");
    terminal.wait_for("Hello, Ann.");
    assert!(last_request(&lab).contains("Greet Ann, please."));

    // Another content waits again, and is told to nobody.
    lab.write("AGENTS.md", "Other canary\n");
    terminal.wait_for("so it counts for nothing: AGENTS.md;");
    lab.model.reply(Reply::text("Still well."));
    terminal.say("hello again");
    terminal.wait_for("Still well.");
    assert!(!last_request(&lab).contains("Other canary"));
    assert!(!last_request(&lab).contains("Instructions of the workspace"));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_writes_the_first_instructions() {
    let lab = Lab::new().await;
    let mut terminal = lab.chat(&[]);
    terminal.say("/switch coder");
    terminal.wait_for("messages go to coder");
    let write = json!({ "path": "AGENTS.md", "content": "# For agents\n" });
    lab.model.reply(Reply::tool_call("write_file", write));
    lab.model.reply(Reply::text("It is written."));
    terminal.say("/init");
    // Through the ordinary approval.
    terminal.wait_for("# For agents");
    assert_eq!(lab.file("AGENTS.md"), None);
    terminal.decide("y");
    terminal.wait_for("It is written.");
    assert_eq!(lab.file("AGENTS.md").as_deref(), Some("# For agents\n"));
    assert!(last_request(&lab).contains("write a first AGENTS.md"));
    // What the agent wrote waits for the person as well.
    terminal.wait_for("waiting for your trust, so it counts for nothing: AGENTS.md");
    let count = lab.model.request_count();
    terminal.say("/init");
    terminal.wait_for("this folder has an AGENTS.md already");
    assert_eq!(lab.model.request_count(), count);
    lab.model.reply(Reply::text("It is better."));
    terminal.say("/init improve");
    terminal.wait_for("It is better.");
    assert!(last_request(&lab).contains("improve it"));
}
