//! A message that is sent again is not accepted again, whatever form its answer has.

use codelab_testkit::{Gate, Reply};
use serde_json::json;

use crate::kit::{Person, is_planning, says, server, task, tasks};

#[tokio::test]
async fn a_direct_call_is_answered_again_and_not_made_again() {
    let mut server = server().await;
    let session = Person::new(&server, 1).session().await;
    let body = json!({ "content": "go", "target_agent": "coder", "client_message_id": "m-1" });
    server.model.reply(Reply::text("Once."));
    let first = session.send(body.clone()).await.expect(200);
    assert_eq!(first["response"], "Once.");
    assert_eq!(session.send(body.clone()).await.expect(200), first);
    // Whatever else it says, the first one counts.
    let other = json!({ "content": "other", "target_agent": "writer", "client_message_id": "m-1" });
    assert_eq!(session.send(other).await.expect(200), first);
    let stream = session.stream(body.clone()).await.all().await;
    assert_eq!(
        stream.0,
        session.log().await.0,
        "the same message as a stream: its events"
    );
    server.restart().await;
    let session = session.seen_by(&Person::new(&server, 1));
    assert_eq!(session.send(body.clone()).await.expect(200), first);
    assert_eq!(server.model.request_count(), 1);
    // In another session it is another message.
    assert_eq!(
        session.session().await.send(body).await.expect(200)["response"],
        "Done."
    );
}

#[tokio::test]
async fn a_failed_call_fails_again_without_being_made() {
    let server = server().await;
    let session = Person::new(&server, 1).session().await;
    let body = json!({ "content": "go", "target_agent": "coder", "client_message_id": "m-1" });
    server.model.reply(Reply::status(400, "no"));
    let first = session.send(body.clone()).await.expect(502);
    assert_eq!(session.send(body).await.expect(502), first);
    assert_eq!(server.model.request_count(), 1);
}

#[tokio::test]
async fn a_planned_request_is_accepted_again_with_the_same_workflow() {
    let server = server().await;
    let session = Person::new(&server, 1).session().await;
    server
        .model
        .on(is_planning, Reply::text(tasks(&[task("a", "writer", &[])])));
    let body = json!({ "content": "Build it", "client_message_id": "m-1" });
    let first = session.send(body.clone()).await.expect(202);
    assert_eq!(session.send(body.clone()).await.expect(202), first);
    session.wait_for("workflow_completed", |_| true).await;
    assert_eq!(session.send(body.clone()).await.expect(202), first);
    let named =
        json!({ "content": "Build it", "client_message_id": "m-1", "target_agent": "coder" });
    assert_eq!(
        session.send(named).await.expect(202),
        first,
        "the first one counts, and it was planned"
    );
    let stream = session.stream(body).await.all().await;
    assert_eq!(
        (
            stream.one("workflow_completed")["workflow_id"].clone(),
            stream.status()
        ),
        (first["workflow_id"].clone(), "completed")
    );
    assert_eq!(
        (
            session.messages("?role=user").await.len(),
            server.model.request_count()
        ),
        (1, 2)
    );
}

#[tokio::test]
async fn a_queued_message_is_queued_once() {
    let server = server().await;
    let session = Person::new(&server, 1).session().await;
    let gate = Gate::new();
    server
        .model
        .on(says("first"), Reply::text("First.").hold(&gate));
    let first = session.stream_call("coder", "first").await;
    gate.reached().await;
    server
        .model
        .on(is_planning, Reply::text(tasks(&[task("a", "writer", &[])])));
    let body = json!({ "content": "second", "client_message_id": "m-2" });
    let queued = session.send(body.clone()).await.expect(202);
    assert_eq!(session.send(body.clone()).await.expect(202), queued);
    assert_eq!(session.detail().await["queued"], 1);
    gate.open();
    first.all().await;
    session.wait_for("workflow_completed", |_| true).await;
    assert_eq!(session.messages("?role=user").await.len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn fifty_at_once_are_one_turn() {
    let server = server().await;
    let session = Person::new(&server, 1).session().await;
    server
        .model
        .on(is_planning, Reply::text(tasks(&[task("a", "writer", &[])])));
    let sending: Vec<_> = (0..50)
        .map(|number| {
            let session = session.clone();
            tokio::spawn(async move {
                match number % 3 {
                    0 => session
                        .send(json!({ "content": "go", "target_agent": "coder", "client_message_id": "d" }))
                        .await
                        .expect(200),
                    1 => session.send(json!({ "content": "plan", "client_message_id": "p" })).await.body,
                    _ => {
                        let body = json!({ "content": "go", "target_agent": "coder", "client_message_id": "d" });
                        json!(session.stream(body).await.all().await.status())
                    }
                }
            })
        })
        .collect();
    for sent in sending {
        sent.await.unwrap();
    }
    session.wait_for("workflow_completed", |_| true).await;
    let log = session.log().await;
    assert_eq!(
        (
            log.all("direct_agent_call").len(),
            log.all("task_plan_created").len()
        ),
        (1, 1)
    );
    assert_eq!(session.messages("?role=user").await.len(), 2);
}

#[tokio::test]
async fn a_call_is_answered_again_when_its_agent_is_gone() {
    let server = server().await;
    let me = Person::new(&server, 1);
    let session = me.session().await;
    let agents = format!("/my/projects/{}/agents/", session.project);
    let made = me
        .post(&agents, json!({ "name": "passing" }))
        .await
        .expect(201);
    let body =
        |id: &str| json!({ "content": "go", "target_agent": "passing", "client_message_id": id });
    let first = session.send(body("m-1")).await.expect(200);
    me.ask(
        "DELETE",
        &format!("{agents}{}", made["agent_id"].as_str().unwrap()),
        None,
    )
    .await
    .expect(204);
    assert_eq!(session.send(body("m-1")).await.expect(200), first);
    session
        .send(body("m-2"))
        .await
        .refused(404, "AGENT_NOT_FOUND");
    assert_eq!(server.model.request_count(), 1);
}
