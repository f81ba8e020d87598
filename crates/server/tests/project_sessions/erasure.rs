//! Deleted means gone: what was deleted is soon in no file of the data folder any more.

use std::path::Path;
use std::time::{Duration, Instant};

use codelab_protocol::HitlDecision;
use codelab_server::{Flags, Server, Settings};
use codelab_testkit::{Reply, TestServer, id, skipped_through_another};
use serde_json::json;

use crate::kit::{Person, server};
use crate::memory::Agent;

/// The promise.
const A_MINUTE: Duration = Duration::from_secs(60);

/// Which of these texts are in any file at or below a path.
fn held(path: &Path, texts: &[&'static str]) -> Vec<&'static str> {
    let mut found = Vec::new();
    // What went away meanwhile holds nothing.
    if let Ok(entries) = std::fs::read_dir(path) {
        entries
            .flatten()
            .for_each(|entry| found.extend(held(&entry.path(), texts)));
    } else if let Ok(bytes) = std::fs::read(path) {
        let content = String::from_utf8_lossy(&bytes);
        found.extend(texts.iter().copied().filter(|text| content.contains(text)));
    }
    found.sort_unstable();
    found.dedup();
    found
}

/// The model proposes to write a file.
fn proposes(server: &TestServer, path: &str) {
    server.model.reply(Reply::tool_call(
        "write_file",
        json!({ "path": path, "content": format!("{path}-content") }),
    ));
}

/// Nobody would ever delete from what the embedded engine left.
#[tokio::test]
async fn a_qdrant_server_in_use_takes_the_embedded_files_away() {
    let folder = tempfile::tempdir().unwrap();
    let memory = folder.path().join("memory");
    std::fs::create_dir(&memory).unwrap();
    std::fs::write(
        memory.join("user1_project1_agent_coder_context.memory"),
        "canary",
    )
    .unwrap();
    for (url, stays) in [(None, true), (Some("http://127.0.0.1:1"), false)] {
        let flags = Flags {
            data_dir: Some(folder.path().to_owned()),
            ..Flags::default()
        };
        let environment = [("CODELAB_ADDR", Some("127.0.0.1:0")), ("QDRANT_URL", url)];
        let environment = environment
            .into_iter()
            .filter_map(|(name, value)| Some((name.to_owned(), value?.to_owned())));
        let server = Server::start(Settings::load(flags, environment).unwrap())
            .await
            .unwrap();
        server.stop().await;
        assert_eq!(memory.exists(), stays, "{url:?}");
    }
}

#[tokio::test]
async fn what_was_deleted_is_in_no_file_within_a_minute() {
    if skipped_through_another("it opens the SQLite file") {
        return;
    }
    let server = server().await;
    let me = Person::new(&server, 1);
    let folder = server.data_dir().to_owned();

    // First, so that it is not reminded of what follows.
    let kept = me.session().await;
    kept.call("coder", "kept-question about the harbour")
        .await
        .expect(200);

    // A session of a project, with an answer that is remembered and a decision with a reason.
    let doomed = me.session().await;
    server
        .model
        .reply(Reply::text("canary-answer of the doomed session"));
    doomed
        .call("coder", "canary-question of the doomed session")
        .await
        .expect(200);
    proposes(&server, "canary-argument");
    let pending = doomed.call("coder", "write it").await.expect(200)["pending"].clone();
    let reject = json!({ "decision": "reject", "feedback": "canary-feedback" });
    doomed
        .decide(pending["call_id"].as_str().unwrap(), reject)
        .await
        .expect(200);

    // A session of the runtime API.
    proposes(&server, "canary-runtime-argument");
    let asked = server
        .say_to("doomed", "coder", "canary-runtime-question")
        .await;
    let feedback = Some("canary-runtime-feedback".to_owned());
    let reject = HitlDecision {
        decision: Some(codelab_protocol::DecisionChoice::Reject.into()),
        feedback,
        ..HitlDecision::default()
    };
    server.decide("doomed", &asked.call_id(), reject).await;

    // A whole project, what an agent remembers, and a single thing of that.
    let project = me
        .project(json!({ "name": "canary-project", "description": "canary-description" }))
        .await;
    let there = me.session_with(json!({ "project_id": project })).await;
    there
        .call("coder", "canary-question-in-a-project")
        .await
        .expect(200);
    let cleared = Agent::of(&me, doomed.project, "agent_writer").await;
    cleared
        .add(json!({ "text": "canary-cleared in the writer" }))
        .await;
    let forgetful = Agent::of(&me, doomed.project, "agent_analyzer").await;
    let one = forgetful
        .add(json!({ "text": "canary-single thought" }))
        .await;
    forgetful
        .add(json!({ "text": "kept-thought of the analyzer" }))
        .await;

    // All of it is there, in the database and in the memory engine.
    let coder = Agent::of(&me, doomed.project, "agent_coder").await;
    let coder_there = Agent::of(&me, project, "agent_coder").await;
    coder.finds("doomed session", "canary-answer").await;
    coder.finds("harbour", "kept-question").await;
    coder_there
        .finds("question in a project", "canary-question-in-a-project")
        .await;
    cleared.finds("writer", "canary-cleared").await;
    forgetful.finds("single thought", "canary-single").await;
    let canaries = [
        "canary-answer",
        "canary-argument",
        "canary-cleared",
        "canary-description",
        "canary-feedback",
        "canary-project",
        "canary-question",
        "canary-question-in-a-project",
        "canary-runtime-argument",
        "canary-runtime-feedback",
        "canary-runtime-question",
        "canary-single",
    ];
    assert_eq!(
        held(&folder, &canaries),
        canaries,
        "the test looks in the right place"
    );
    assert!(!held(&folder.join("memory"), &["canary-answer"]).is_empty());

    me.ask("DELETE", &format!("/my/chat/sessions/{}", doomed.id), None)
        .await
        .expect(204);
    server
        .client
        .delete_session(&id("doomed"), true)
        .await
        .unwrap();
    me.ask("DELETE", &format!("/my/projects/{project}/"), None)
        .await
        .expect(204);
    me.ask("DELETE", &format!("{}/context/", cleared.path), None)
        .await
        .expect(204);
    let single = format!(
        "{}/context/{}/",
        forgetful.path,
        one["id"].as_str().unwrap()
    );
    Person::new(&server, 2)
        .ask("DELETE", &single, None)
        .await
        .refused(404, "PROJECT_NOT_FOUND");
    me.ask("DELETE", &single, None).await.expect(204);
    me.ask("DELETE", &single, None)
        .await
        .refused(404, "NOT_FOUND");
    me.ask("DELETE", &format!("{}/context/none/", forgetful.path), None)
        .await
        .refused(404, "NOT_FOUND");

    let deleted_at = Instant::now();
    loop {
        let left = held(&folder, &canaries);
        if left.is_empty() {
            break;
        }
        assert!(deleted_at.elapsed() < A_MINUTE, "still there: {left:?}");
        tokio::time::sleep(Duration::from_millis(250)).await;
    }

    // The decisions stay, without what was proposed and said; so does everything else.
    let database = rusqlite::Connection::open(folder.join("codelab.db")).unwrap();
    let audit = "SELECT COUNT(*), COUNT(original_args), COUNT(reason) FROM audit_logs WHERE decision = 'REJECT'";
    let rows = database.query_row(audit, [], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)));
    assert_eq!(rows.unwrap(), (2, 0, 0));
    coder.finds("harbour", "kept-question").await;
    forgetful
        .finds("thoughts of the analyzer", "kept-thought")
        .await;
    assert!(
        kept.messages("").await[0]["content"]
            .as_str()
            .unwrap()
            .contains("kept-question")
    );
}
