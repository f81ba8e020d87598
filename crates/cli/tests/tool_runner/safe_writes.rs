//! Writes that somebody might lose something by: files that changed after their approval, files that
//! the agent never read, tasks that work on one file, and a client that dies in between.

use codelab_client::Client;
use codelab_fakemodel::{Gate, Reply};
use codelab_protocol::{
    ApprovalInfo, ApproveMode, ChangeProjectSession, DecisionChoice, FileBase, HitlDecision, Patch,
    SendMessage, SessionEventBody, SessionId,
};
use codelab_testkit::eventually;
use serde_json::{Value, json};

use crate::lab::{Lab, Person};

const OLD: &str = "first\nlast\n";
const NEW: &str = "first\nnew\nlast\n";

fn writes(path: &str, content: &str) -> Reply {
    Reply::tool_call("write_file", json!({"path": path, "content": content}))
}

fn decision(choice: DecisionChoice, base: Option<FileBase>) -> HitlDecision {
    HitlDecision {
        decision: Some(choice.into()),
        base,
        ..HitlDecision::default()
    }
}

/// The one thing that waits, once it fits.
async fn waits(person: &Person, what: &str, fits: impl Fn(&ApprovalInfo) -> bool) -> ApprovalInfo {
    eventually(what, async || {
        let open = person
            .client
            .project_session_approvals(&person.session, 10, 0)
            .await
            .map_err(|error| error.to_string())?;
        let shown = format!("{:?}", open.approvals);
        let found = open.approvals.into_iter().map(|open| open.approval);
        found.into_iter().find(|open| fits(open)).ok_or(shown)
    })
    .await
}

fn previewed(open: &ApprovalInfo, text: Option<&str>) -> bool {
    let base = text.map_or(FileBase::Missing, |text| {
        FileBase::of_bytes(text.as_bytes())
    });
    open.preview
        .as_ref()
        .is_some_and(|shown| shown.base == base)
}

async fn decide(person: &Person, open: &ApprovalInfo, decision: &HitlDecision) -> Option<u16> {
    let decided = person
        .client
        .decide(&person.session, &open.call_id, decision)
        .await;
    decided.err().and_then(|error| error.status())
}

pub async fn edits_pass(client: &Client, session: &SessionId) {
    let body = ChangeProjectSession {
        approve: Patch::Value(ApproveMode::Edits),
        ..ChangeProjectSession::default()
    };
    let changed = client.change_project_session(session, &body).await.unwrap();
    assert_eq!(changed.approve, Some(ApproveMode::Edits));
}

async fn audit(person: &Person) -> Vec<(String, String)> {
    let list = person.client.project_session_audit(&person.session).await;
    let rows = list.unwrap().audit.into_iter();
    rows.map(|row| (row.decision.as_str().to_owned(), row.decided_by))
        .collect()
}

#[tokio::test]
async fn what_is_approved_is_what_was_shown_last() {
    let lab = Lab::new().await;
    let _server = lab.serve(&[]).await;
    let _work = lab.work().await;
    let person = lab.person().await;
    lab.model.reply(writes("a.txt", NEW));
    person.says("write it").await;
    let open = waits(&person, "a new file", |open| previewed(open, None)).await;
    assert!(open.preview.unwrap().diff.contains("+new"));

    // Somebody makes the file while the person looks at "a new file".
    std::fs::write(lab.workspace.join("a.txt"), OLD).unwrap();
    let open = waits(&person, "the file", |open| previewed(open, Some(OLD))).await;
    let shown = open.preview.clone().unwrap();
    assert!(shown.is_unread && !shown.is_outdated, "{shown:?}");
    assert!(
        shown.diff.contains(" first") && shown.diff.contains("+new"),
        "{}",
        shown.diff
    );
    let stale = decision(DecisionChoice::Approve, Some(FileBase::Missing));
    assert_eq!(decide(&person, &open, &stale).await, Some(409));
    assert_eq!(lab.read("a.txt"), OLD);
    let fresh = decision(DecisionChoice::Approve, Some(shown.base));
    assert_eq!(decide(&person, &open, &fresh).await, None);
    eventually("the file is written", async || {
        match lab.read("a.txt") == NEW {
            true => Ok(()),
            false => Err(lab.read("a.txt")),
        }
    })
    .await;
}

#[tokio::test]
async fn a_file_that_changed_after_its_approval_asks_again_and_nothing_is_written() {
    let lab = Lab::new().await;
    let _server = lab.serve(&[]).await;
    let work = lab.work().await;
    let person = lab.person().await;
    std::fs::write(lab.workspace.join("a.txt"), OLD).unwrap();
    lab.model.reply(writes("a.txt", NEW));
    person.says("write it").await;
    let open = waits(&person, "the file", |open| previewed(open, Some(OLD))).await;
    work.signal("-STOP").await;
    let approve = decision(DecisionChoice::Approve, None);
    assert_eq!(decide(&person, &open, &approve).await, None);
    std::fs::write(lab.workspace.join("a.txt"), "by hand\n").unwrap();
    work.signal("-CONT").await;

    let asked = |open: &ApprovalInfo| previewed(open, Some("by hand\n"));
    let again = waits(&person, "it asks again", asked).await;
    assert_eq!(again.call_id, open.call_id);
    assert!(
        again
            .reason
            .contains("changed since this write was approved"),
        "{}",
        again.reason
    );
    assert_eq!(lab.read("a.txt"), "by hand\n");
    assert_eq!(decide(&person, &again, &approve).await, None);
    let events = person.approves_until_done().await;
    assert_eq!(lab.read("a.txt"), NEW);
    let results = events
        .iter()
        .filter(|event| matches!(event, SessionEventBody::ToolResult(_)));
    assert_eq!(results.count(), 1, "{events:?}");
    let approved = ("APPROVE".to_owned(), "1".to_owned());
    assert_eq!(audit(&person).await, [approved.clone(), approved]);
}

#[tokio::test]
async fn a_file_that_was_not_read_asks_whatever_is_remembered() {
    let lab = Lab::new().await;
    let _server = lab.serve(&[]).await;
    let _work = lab.work().await;
    let person = lab.person().await;
    std::fs::write(lab.workspace.join("old.txt"), OLD).unwrap();
    for reply in [
        writes("new.txt", "1\n"),
        writes("new.txt", "2\n"),
        writes("old.txt", NEW),
    ] {
        lab.model.reply(reply);
    }
    person.says("write them").await;
    let open = waits(&person, "the first write", |_| true).await;
    let always = HitlDecision {
        remember: Some(true),
        ..decision(DecisionChoice::Approve, None)
    };
    assert_eq!(decide(&person, &open, &always).await, None);
    // The second write is of a file that the agent knows: it wrote it.
    let asked = |open: &ApprovalInfo| open.arguments["path"] == "old.txt";
    let open = waits(&person, "the unread file asks", asked).await;
    assert_eq!(lab.read("new.txt"), "2\n");
    assert!(open.preview.as_ref().unwrap().is_unread, "{open:?}");
    let reject = decision(DecisionChoice::Reject, None);
    assert_eq!(decide(&person, &open, &reject).await, None);
    person.approves_until_done().await;
    assert_eq!(lab.read("old.txt"), OLD);
    let deciders: Vec<String> = audit(&person).await.into_iter().map(|row| row.1).collect();
    let remembered = "remembered: file writes";
    assert_eq!(deciders, ["1", remembered, remembered, "1"]);
}

#[tokio::test]
async fn a_client_that_dies_after_it_asked_again_writes_once_when_it_is_back() {
    for is_released in [true, false] {
        let lab = Lab::new().await;
        let _server = lab.serve(&[]).await;
        let work = lab.work().await;
        let person = lab.person().await;
        edits_pass(&person.client, &person.session).await;
        std::fs::write(lab.workspace.join("a.txt"), OLD).unwrap();
        lab.model.reply(writes("a.txt", NEW));
        person.says("write it").await;
        let open = waits(&person, "the unread file asks", |_| true).await;
        work.says("waits for an approval").await;
        work.kill().await;
        if !is_released {
            forget_last_line(&lab);
        }
        let approve = decision(DecisionChoice::Approve, None);
        // Before or after the client is back.
        let work = match is_released {
            true => {
                assert_eq!(decide(&person, &open, &approve).await, None);
                lab.work().await
            }
            false => {
                let work = lab.work().await;
                assert_eq!(decide(&person, &open, &approve).await, None);
                work
            }
        };
        let events = person.approves_until_done().await;
        assert_eq!(lab.read("a.txt"), NEW, "{events:?}");
        let results = events
            .iter()
            .filter(|event| matches!(event, SessionEventBody::ToolResult(_)));
        assert_eq!(results.count(), 1, "{events:?}");
        drop(work);
    }
}

/// As if the client had died before it noted that it gave the call back.
fn forget_last_line(lab: &Lab) {
    for folder in std::fs::read_dir(lab.data.join("hands")).unwrap() {
        let path = folder.unwrap().path().join("project/calls.journal");
        let text = std::fs::read_to_string(&path).unwrap();
        let mut lines: Vec<&str> = text.lines().collect();
        let last = lines.pop().unwrap();
        assert!(last.contains("released"), "{last}");
        std::fs::write(&path, lines.join("\n") + "\n").unwrap();
    }
}

fn is_planning(body: &Value) -> bool {
    body["response_format"]["json_schema"]["name"] == "plan"
}

/// Whether the agent of this task is asked, and the last result that it was given has this in it
/// (`None`: it has none yet).
fn after(task: &'static str, result: Option<&'static str>) -> impl Fn(&Value) -> bool {
    move |body| {
        let messages = body["messages"].as_array().unwrap();
        let told = messages.iter().any(|message| {
            message["role"] == "user" && message["content"].to_string().contains(task)
        });
        let mut results = messages.iter().rev();
        let last = results.find(|message| message["role"] == "tool");
        let fits = match (last, result) {
            (None, None) => true,
            (Some(last), Some(result)) => last["content"].as_str().unwrap().contains(result),
            (None, Some(_)) | (Some(_), None) => false,
        };
        !is_planning(body) && told && fits
    }
}

#[tokio::test]
async fn two_tasks_that_edit_one_file_both_have_their_changes_in_it() {
    let lab = Lab::new().await;
    let _server = lab.serve(&[]).await;
    let _work = lab.work().await;
    let person = lab.person().await;
    edits_pass(&person.client, &person.session).await;
    std::fs::write(lab.workspace.join("a.txt"), OLD).unwrap();
    let tasks = json!({"tasks": [
        {"id": "one", "agent": "coder", "description": "Task ONE.", "depends_on": [], "estimated_tokens": 10},
        {"id": "two", "agent": "coder", "description": "Task TWO.", "depends_on": [], "estimated_tokens": 10},
    ]});
    lab.model.on(is_planning, Reply::text(tasks.to_string()));
    let gate = Gate::new();
    for task in ["ONE", "TWO"] {
        let read = || Reply::tool_call("read_file", json!({"path": "a.txt"}));
        let edit =
            json!({"path": "a.txt", "edits": [{"old": "last", "new": format!("{task}\nlast")}]});
        lab.model.on(after(task, None), read());
        lab.model
            .on(after(task, Some("changed since you read it")), read());
        lab.model.on(
            after(task, Some("\"content\"")),
            Reply::tool_call("write_file", edit).hold(&gate),
        );
        lab.model.on(
            after(task, Some("\"timestamp\"")),
            Reply::text(format!("{task} is done.")),
        );
    }
    let message = SendMessage {
        content: Some("Do both".to_owned()),
        ..SendMessage::default()
    };
    drop(
        person
            .client
            .stream_project_message(&person.session, &message)
            .await
            .unwrap(),
    );
    // Both have read the file before one of them writes.
    eventually("both have read", async || {
        let requests = lab.model.requests();
        let has_read = |task| {
            requests
                .iter()
                .any(|request| after(task, Some("\"content\""))(&request.body))
        };
        match has_read("ONE") && has_read("TWO") {
            true => Ok(()),
            false => Err(requests.len().to_string()),
        }
    })
    .await;
    gate.open();
    let events = person.approves_until_done().await;
    let text = lab.read("a.txt");
    let mut lines: Vec<&str> = text.lines().collect();
    assert_eq!(
        (lines.remove(0), lines.pop()),
        ("first", Some("last")),
        "{text}"
    );
    lines.sort_unstable();
    assert_eq!(lines, ["ONE", "TWO"], "{text}");
    let refused = events.iter().filter_map(|event| match event {
        SessionEventBody::ToolResult(result) => result.result["difference"].as_str(),
        _ => None,
    });
    let refused: Vec<&str> = refused.collect();
    assert_eq!(refused.len(), 1, "{events:?}");
    assert!(
        refused[0].contains("+ONE") || refused[0].contains("+TWO"),
        "{refused:?}"
    );
    let deciders: Vec<String> = audit(&person).await.into_iter().map(|row| row.1).collect();
    assert!(
        deciders.iter().all(|who| who == "mode:edits"),
        "{deciders:?}"
    );
}
