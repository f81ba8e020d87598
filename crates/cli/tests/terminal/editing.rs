//! What a person changes in their editor: it is used, or it is kept.

use std::time::Duration;

use codelab_client::{Client, Credentials};
use codelab_fakemodel::Reply;
use codelab_protocol::{DecisionChoice, HitlDecision, OpenApproval};
use serde_json::json;

use crate::lab::{GREET, Lab};
use crate::terminal::Terminal;

/// Changes the file and stays open until the test lets it end.
const SLOW_EDITOR: &str = "#!/bin/sh\nsed -i 's/Hello/Good day/' \"$1\"\n: > \"$HOME/open\"\n\
                           while [ ! -e \"$HOME/leave\" ]; do sleep 0.05; done\n";

async fn client(lab: &Lab) -> Client {
    let url = format!("http://127.0.0.1:{}", lab.port());
    Client::new(&url, Credentials::Bearer(lab.token().await)).unwrap()
}

/// What does not come in this time does not come.
const DEADLINE: Duration = Duration::from_secs(60);

/// The approval once it is like this.
async fn approval(client: &Client, is_so: impl Fn(&OpenApproval) -> bool) -> OpenApproval {
    let found = async {
        loop {
            let open = client.my_approvals(10, 0).await.unwrap().approvals;
            if let Some(found) = open.into_iter().find(&is_so) {
                return found;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    let found = tokio::time::timeout(DEADLINE, found).await;
    found.expect("the approval waits and is as expected")
}

fn kept(lab: &Lab) -> Vec<String> {
    let folder = std::fs::read_dir(lab.home().join("data/edits"));
    let files = folder.into_iter().flatten();
    files
        .map(|file| std::fs::read_to_string(file.unwrap().path()).unwrap())
        .collect()
}

/// A chat whose agent wants to write `greet.py`, and whose person has pressed `e`.
async fn editing(lab: &Lab) -> Terminal {
    let greeting = GREET.replace("Hello", "Hello!");
    lab.call(
        "write_file",
        json!({ "path": "new.py", "content": greeting }),
    );
    lab.model.reply(Reply::text("So be it."));
    let mut terminal = lab.chat(&[]);
    terminal.say("/switch coder");
    terminal.wait_for("messages go to coder");
    terminal.say("Greet");
    terminal.wait_for("y approve");
    terminal.decide("e");
    terminal
}

#[tokio::test(flavor = "multi_thread")]
async fn an_open_editor_keeps_what_it_is_about_from_expiring() {
    let mut lab = Lab::new().await;
    lab.set("CODELAB_LIMITS__APPROVAL_TIMEOUT_SECONDS", "3");
    lab.edit_with(SLOW_EDITOR);
    let _server = lab.serve().await;
    let client = client(&lab).await;
    let terminal = editing(&lab).await;
    let first = approval(&client, |_| true).await;
    let end = first.approval.expires_at.unwrap();
    // By then it would have expired.
    let is_later = |open: &OpenApproval| open.approval.expires_at.unwrap().millis_since(end) > 3000;
    approval(&client, is_later).await;
    std::fs::write(lab.home().join("leave"), "").unwrap();
    let screen = terminal.wait_for("✓ approved with your changes");
    terminal.wait_for("So be it.");
    assert!(lab.file("new.py").unwrap().contains("Good day!"));
    assert!(kept(&lab).is_empty(), "{screen}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_written_is_kept_when_somebody_else_decides() {
    let mut lab = Lab::new().await;
    lab.edit_with(SLOW_EDITOR);
    let _server = lab.serve().await;
    let client = client(&lab).await;
    let terminal = editing(&lab).await;
    let opened = async {
        while !lab.home().join("open").exists() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let opened = tokio::time::timeout(DEADLINE, opened).await;
    opened.expect("the editor opens");
    let open = approval(&client, |_| true).await;
    let no = HitlDecision {
        decision: Some(DecisionChoice::Reject.into()),
        ..HitlDecision::default()
    };
    let call = &open.approval.call_id;
    client.decide(&open.session_id, call, &no).await.unwrap();
    std::fs::write(lab.home().join("leave"), "").unwrap();
    terminal.wait_for("it is kept in");
    terminal.wait_for("So be it.");
    assert_eq!(kept(&lab), [GREET.replace("Hello", "Good day!")]);
    assert_eq!(lab.file("new.py"), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_an_editor_leaves_behind_when_it_fails_is_kept() {
    let mut lab = Lab::new().await;
    lab.edit_with("#!/bin/sh\necho mine > \"$1\"\nexit 1\n");
    let terminal = editing(&lab).await;
    let screen = terminal.wait_for("it is kept in");
    assert!(
        screen.contains("the editor ended with an error"),
        "{screen}"
    );
    assert_eq!(kept(&lab), ["mine\n"]);
    terminal.wait_for("y approve");
}
