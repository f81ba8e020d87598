//! What a person sets for a session, and the session as a file.

use codelab_testkit::Reply;
use serde_json::{Value, json};

use crate::kit::{Person, Session, server};

async fn change(session: &Session, body: Value) -> Value {
    let path = format!("/my/chat/sessions/{}/", session.id);
    session.ask("PATCH", &path, Some(body)).await.expect(200)
}

async fn listed(me: &Person, query: &str) -> Vec<Value> {
    let list = me
        .get(&format!("/my/chat/sessions/{query}"))
        .await
        .expect(200);
    let sessions = list["sessions"].as_array().unwrap().iter();
    let ids: Vec<Value> = sessions
        .map(|session| session["session_id"].clone())
        .collect();
    assert_eq!(list["total"], ids.len());
    ids
}

#[tokio::test]
async fn sessions_are_pinned_and_archived() {
    let server = server().await;
    let me = Person::new(&server, 1);
    let (one, two) = (me.session().await, me.session().await);
    let pinned = change(&one, json!({ "pinned": true })).await;
    assert_eq!(
        (&pinned["pinned"], &pinned["archived"]),
        (&json!(true), &json!(false))
    );
    change(&two, json!({ "archived": true, "title": "Old" })).await;
    assert_eq!(listed(&me, "").await, [json!(one.id)]);
    assert_eq!(listed(&me, "?archived=false").await, [json!(one.id)]);
    assert_eq!(listed(&me, "?archived=true").await, [json!(two.id)]);
    let project = one.project;
    let of_project = format!("?archived=true&project_id={project}");
    assert_eq!(listed(&me, &of_project).await, [json!(two.id)]);
    let detail = two.detail().await;
    assert_eq!(
        (&detail["archived"], &detail["title"]),
        (&json!(true), &json!("Old"))
    );
    // An archived session is as usable as before.
    two.call("coder", "hi").await.expect(200);
    change(&two, json!({ "archived": false })).await;
    assert_eq!(listed(&me, "").await.len(), 2);
    for wrong in [
        json!({ "pinned": null }),
        json!({ "archived": "yes" }),
        json!({}),
    ] {
        let path = format!("/my/chat/sessions/{}/", one.id);
        let refused = one.ask("PATCH", &path, Some(wrong)).await;
        assert_eq!(refused.status, 422, "{:#}", refused.body);
    }
}

#[tokio::test]
async fn messages_go_to_the_agent_that_was_chosen_for_the_session() {
    let mut server = server().await;
    let session = Person::new(&server, 1).session().await;
    let chosen = change(&session, json!({ "agent": "writer" })).await;
    assert_eq!(chosen["agent"], "agent_writer");
    server.restart().await;
    let session = session.seen_by(&Person::new(&server, 1));
    assert_eq!(session.detail().await["agent"], "agent_writer");
    let answer = session.send(json!({ "content": "hi" })).await.expect(200);
    assert_eq!(
        (&answer["agent"], &answer["mode"]),
        (&json!("agent_writer"), &json!("direct"))
    );
    let named = session.call("coder", "hi").await.expect(200);
    assert_eq!(named["agent"], "agent_coder");
    // An open question is answered, whoever was chosen.
    server.model.reply(Reply::tool_call(
        "ask_followup_question",
        json!({ "question": "Which?" }),
    ));
    session.call("coder", "choose").await.expect(200);
    let answered = session
        .send(json!({ "content": "the first" }))
        .await
        .expect(202);
    assert_eq!(answered["status"], "answered", "{answered:#}");
    change(&session, json!({ "agent": null })).await;
    session
        .send(json!({ "content": "plan it" }))
        .await
        .expect(202);
    // An agent that was deleted gets nothing.
    let chosen = change(&session, json!({ "agent": "researcher" })).await;
    assert_eq!(chosen["agent"], "agent_researcher");
    let agents = format!("/my/projects/{}/agents/", session.project);
    let list = session.get(&agents).await.expect(200);
    let mut team = list["agents"].as_array().unwrap().iter();
    let researcher = team
        .find(|agent| agent["name"] == "agent_researcher")
        .unwrap();
    let gone = format!("{agents}{}/", researcher["agent_id"].as_str().unwrap());
    session.ask("DELETE", &gone, None).await.expect(204);
    let planned = session
        .send(json!({ "content": "plan it" }))
        .await
        .expect(202);
    assert_eq!(planned["mode"], "orchestrated");
    assert_eq!(session.detail().await.get("agent"), None);
    let path = format!("/my/chat/sessions/{}/", session.id);
    let nobody = session
        .ask("PATCH", &path, Some(json!({ "agent": "nobody" })))
        .await;
    nobody.refused(404, "AGENT_NOT_FOUND");
}

#[tokio::test]
async fn a_session_is_exported_whole() {
    let server = server().await;
    let me = Person::new(&server, 1);
    let session = me.session_with(json!({ "title": "Notes" })).await;
    server.model.reply(Reply::text("Hello **you**."));
    session.call("coder", "Say hello").await.expect(200);
    let path = format!("/my/chat/sessions/{}/export/", session.id);
    let whole = me.get(&format!("{path}?format=json")).await.expect(200);
    assert_eq!(whole["session"]["title"], "Notes");
    assert_eq!(whole["messages"], json!(session.messages("").await));
    let file = me.file(&path).await;
    let header = |name: &str| file.headers()[name].to_str().unwrap().to_owned();
    assert_eq!(header("content-type"), "text/markdown; charset=utf-8");
    assert_eq!(
        header("content-disposition"),
        format!("attachment; filename=\"{}.md\"", session.id)
    );
    let text = file.text().await.unwrap();
    let lines: Vec<&str> = text
        .lines()
        .filter(|line| !line.starts_with("*20"))
        .collect();
    let expected = "# Notes\n\n## You\n\n\nSay hello\n\n## agent_coder\n\n\nHello **you**.";
    assert_eq!(lines.join("\n"), expected);
    let other = Person::new(&server, 2).get(&path).await;
    other.refused(404, "SESSION_NOT_FOUND");
    me.get(&format!("{path}?format=pdf"))
        .await
        .refused(422, "VALIDATION_ERROR");
}
