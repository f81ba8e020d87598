//! A message that is sent again is not taken again, whatever form its answer has.

use codelab_testkit::{Gate, Reply};
use serde_json::json;

use crate::kit::{Person, is_planning, says, server, task, tasks};

#[tokio::test]
async fn a_direct_call_is_answered_again_and_not_made_again() {
    let mut server = server().await;
    let chat = Person::new(&server, 1).chat().await;
    let body = json!({ "content": "go", "target_agent": "coder", "client_message_id": "m-1" });
    server.model.reply(Reply::text("Once."));
    let first = chat.send(body.clone()).await.expect(200);
    assert_eq!(first["response"], "Once.");
    assert_eq!(chat.send(body.clone()).await.expect(200), first);
    // Whatever else it says, the first one counts.
    let other = json!({ "content": "other", "target_agent": "writer", "client_message_id": "m-1" });
    assert_eq!(chat.send(other).await.expect(200), first);
    let stream = chat.stream(body.clone()).await.all().await;
    assert_eq!(
        stream.0,
        chat.log().await.0,
        "the same message as a stream: its events"
    );
    server.restart().await;
    let chat = chat.seen_by(&Person::new(&server, 1));
    assert_eq!(chat.send(body.clone()).await.expect(200), first);
    assert_eq!(server.model.request_count(), 1);
    // In another session it is another message.
    assert_eq!(
        chat.chat().await.send(body).await.expect(200)["response"],
        "Done."
    );
}

#[tokio::test]
async fn a_failed_call_fails_again_without_being_made() {
    let server = server().await;
    let chat = Person::new(&server, 1).chat().await;
    let body = json!({ "content": "go", "target_agent": "coder", "client_message_id": "m-1" });
    server.model.reply(Reply::status(400, "no"));
    let first = chat.send(body.clone()).await.expect(502);
    assert_eq!(chat.send(body).await.expect(502), first);
    assert_eq!(server.model.request_count(), 1);
}

#[tokio::test]
async fn a_planned_request_is_accepted_again_with_the_same_workflow() {
    let server = server().await;
    let chat = Person::new(&server, 1).chat().await;
    server
        .model
        .on(is_planning, Reply::text(tasks(&[task("a", "writer", &[])])));
    let body = json!({ "content": "Build it", "client_message_id": "m-1" });
    let first = chat.send(body.clone()).await.expect(202);
    assert_eq!(chat.send(body.clone()).await.expect(202), first);
    chat.wait_for("workflow_completed", |_| true).await;
    assert_eq!(chat.send(body.clone()).await.expect(202), first);
    let named =
        json!({ "content": "Build it", "client_message_id": "m-1", "target_agent": "coder" });
    assert_eq!(
        chat.send(named).await.expect(202),
        first,
        "the first one counts, and it was planned"
    );
    let stream = chat.stream(body).await.all().await;
    assert_eq!(
        (
            stream.one("workflow_completed")["workflow_id"].clone(),
            stream.status()
        ),
        (first["workflow_id"].clone(), "completed")
    );
    assert_eq!(
        (
            chat.messages("?role=user").await.len(),
            server.model.request_count()
        ),
        (1, 2)
    );
}

#[tokio::test]
async fn a_queued_message_is_queued_once() {
    let server = server().await;
    let chat = Person::new(&server, 1).chat().await;
    let gate = Gate::new();
    server
        .model
        .on(says("first"), Reply::text("First.").hold(&gate));
    let first = chat.stream_call("coder", "first").await;
    gate.reached().await;
    server
        .model
        .on(is_planning, Reply::text(tasks(&[task("a", "writer", &[])])));
    let body = json!({ "content": "second", "client_message_id": "m-2" });
    let queued = chat.send(body.clone()).await.expect(202);
    assert_eq!(chat.send(body.clone()).await.expect(202), queued);
    assert_eq!(chat.detail().await["queued"], 1);
    gate.open();
    first.all().await;
    chat.wait_for("workflow_completed", |_| true).await;
    assert_eq!(chat.messages("?role=user").await.len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn fifty_at_once_are_one_turn() {
    let server = server().await;
    let chat = Person::new(&server, 1).chat().await;
    server
        .model
        .on(is_planning, Reply::text(tasks(&[task("a", "writer", &[])])));
    let sending: Vec<_> = (0..50)
        .map(|number| {
            let chat = chat.clone();
            tokio::spawn(async move {
                match number % 3 {
                    0 => chat
                        .send(json!({ "content": "go", "target_agent": "coder", "client_message_id": "d" }))
                        .await
                        .expect(200),
                    1 => chat.send(json!({ "content": "plan", "client_message_id": "p" })).await.body,
                    _ => {
                        let body = json!({ "content": "go", "target_agent": "coder", "client_message_id": "d" });
                        json!(chat.stream(body).await.all().await.status())
                    }
                }
            })
        })
        .collect();
    for sent in sending {
        sent.await.unwrap();
    }
    chat.wait_for("workflow_completed", |_| true).await;
    let log = chat.log().await;
    assert_eq!(
        (
            log.all("direct_agent_call").len(),
            log.all("task_plan_created").len()
        ),
        (1, 1)
    );
    assert_eq!(chat.messages("?role=user").await.len(), 2);
}

#[tokio::test]
async fn a_call_is_answered_again_when_its_agent_is_gone() {
    let server = server().await;
    let me = Person::new(&server, 1);
    let chat = me.chat().await;
    let agents = format!("/my/projects/{}/agents/", chat.project);
    let made = me
        .post(&agents, json!({ "name": "passing" }))
        .await
        .expect(201);
    let body =
        |id: &str| json!({ "content": "go", "target_agent": "passing", "client_message_id": id });
    let first = chat.send(body("m-1")).await.expect(200);
    me.ask(
        "DELETE",
        &format!("{agents}{}", made["agent_id"].as_str().unwrap()),
        None,
    )
    .await
    .expect(204);
    assert_eq!(chat.send(body("m-1")).await.expect(200), first);
    chat.send(body("m-2")).await.refused(404, "AGENT_NOT_FOUND");
    assert_eq!(server.model.request_count(), 1);
}
