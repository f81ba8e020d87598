//! What waits for a person, in one list and as events.

use codelab_testkit::Reply;
use serde_json::{Value, json};

use crate::kit::{Person, Session, Stream, is_planning, server, task, tasks};

/// Reads on until an event of this kind.
async fn next(stream: &mut Stream, kind: &str) -> Value {
    loop {
        let event = stream.next().await.expect("the stream goes on");
        if event.kind == kind {
            return event.whole;
        }
    }
}

async fn listed(me: &Person) -> Vec<Value> {
    let list = me.get("/my/waiting/").await.expect(200);
    list["waiting"].as_array().unwrap().clone()
}

/// What was just told to wait is listed last, as it was told.
async fn added(me: &Person, session: &Session, stream: &mut Stream) -> Value {
    let told = next(stream, "waiting_added").await;
    assert_eq!(told["session_id"], session.id.as_str());
    let mut shown = listed(me).await.pop().unwrap();
    let place = shown.as_object_mut().unwrap();
    assert_eq!(place.remove("session_id"), Some(json!(session.id)));
    assert_eq!(place.remove("project_id"), Some(json!(session.project)));
    assert!(place.remove("title").is_some());
    assert_eq!(shown, told["data"]);
    shown
}

#[tokio::test]
async fn approvals_questions_and_plans_wait_in_one_list() {
    let server = server().await;
    let me = Person::new(&server, 1);
    let mut stream = me.everything(None).await;
    let of = |kind: &str, agent: &str, text: &str| (json!(kind), json!(agent), json!(text));
    let about = |shown: &Value| {
        (
            shown["kind"].clone(),
            shown["agent"].clone(),
            shown["text"].clone(),
        )
    };

    let writes = me.session_with(json!({ "title": "Notes" })).await;
    server.model.reply(Reply::tool_call(
        "write_file",
        json!({ "path": "notes.md", "content": "x" }),
    ));
    writes.call("coder", "write").await.expect(200);
    let write = added(&me, &writes, &mut stream).await;
    assert_eq!(
        about(&write),
        of("tool", "agent_coder", "write_file notes.md")
    );
    assert!(write["expires_at"].is_string() && write["created_at"].is_string());
    assert_eq!(listed(&me).await[0]["title"], "Notes");

    let asks = me.session().await;
    server.model.reply(Reply::tool_call(
        "ask_followup_question",
        json!({ "question": "Which\nof them?" }),
    ));
    asks.call("coder", "choose").await.expect(200);
    let question = added(&me, &asks, &mut stream).await;
    assert_eq!(
        about(&question),
        of("question", "agent_coder", "Which of them?")
    );
    assert_eq!(question.get("expires_at"), None);

    let plans = me.session().await;
    let planned = [
        task("a", "coder", &[]),
        task("b", "coder", &[]),
        task("c", "coder", &[]),
    ];
    server.model.on(is_planning, Reply::text(tasks(&planned)));
    plans
        .send(json!({ "content": "plan it" }))
        .await
        .expect(202);
    let plan = added(&me, &plans, &mut stream).await;
    assert_eq!(
        about(&plan),
        of("plan", "orchestrator", "The plan has 3 tasks")
    );

    assert_eq!(listed(&me).await.len(), 3, "oldest first");
    assert_eq!(listed(&Person::new(&server, 2)).await, Vec::<Value>::new());
    // However it ends, it is told once.
    let reject = json!({ "decision": "reject", "feedback": "no" });
    writes
        .decide(write["call_id"].as_str().unwrap(), reject)
        .await
        .expect(200);
    let over = next(&mut stream, "waiting_removed").await;
    assert_eq!(over["data"]["call_id"], write["call_id"]);
    asks.send(json!({ "content": "the first" })).await;
    let over = next(&mut stream, "waiting_removed").await;
    assert_eq!(over["data"]["call_id"], question["call_id"]);
    plans.cancel().await.expect(200);
    let over = next(&mut stream, "waiting_removed").await;
    assert_eq!(over["data"]["call_id"], plan["call_id"]);
    assert_eq!(listed(&me).await, Vec::<Value>::new());
}
