//! Event streams: what is shown, where a reader can begin, one stream for all sessions.

use codelab_testkit::{Gate, Reply};
use serde_json::json;

use crate::kit::{Person, Seen, is_planning, says, server, task, tasks};

#[tokio::test]
async fn a_reader_begins_where_it_likes_and_misses_nothing() {
    let mut server = server().await;
    let session = Person::new(&server, 1).session().await;
    server.model.on(
        is_planning,
        Reply::text(tasks(&[
            task("a", "coder", &[]),
            task("b", "writer", &["a"]),
        ])),
    );
    session.stream_plan("Build it").await.all().await;
    session.call("coder", "and more").await.expect(200);
    let log = session.log().await;
    let last = *log.ids().last().unwrap();
    assert_eq!(log.ids(), (1..=last).collect::<Vec<_>>());
    let stored = |seen: &Seen| {
        seen.0
            .iter()
            .filter(|event| event.id.is_some())
            .cloned()
            .collect::<Vec<_>>()
    };
    let whole = stored(&log);
    for restart in [false, true] {
        if restart {
            server.restart().await;
        }
        let session = session.seen_by(&Person::new(&server, 1));
        for after in 0..=last {
            let rest = &whole[after as usize..];
            let by_header = session
                .open(
                    "GET",
                    &session.path("events/?follow=false"),
                    None,
                    Some(after),
                )
                .await
                .all()
                .await;
            assert_eq!(stored(&by_header), rest, "after {after}");
            let by_query = session.path(&format!("events/?follow=false&after={after}"));
            assert_eq!(
                stored(&session.open("GET", &by_query, None, None).await.all().await),
                rest
            );
        }
        // The header wins, and a number past the end is told and starts over.
        let both = session.path("events/?follow=false&after=1");
        assert_eq!(
            stored(
                &session
                    .open("GET", &both, None, Some(last - 1))
                    .await
                    .all()
                    .await
            ),
            &whole[last as usize - 1..]
        );
        for after in [last + 1, u64::MAX] {
            let past = stored(
                &session
                    .open("GET", &both, None, Some(after))
                    .await
                    .all()
                    .await,
            );
            let (gap, rest) = past.split_first().unwrap();
            assert_eq!(
                (gap.id, &gap.whole["type"], &gap.data),
                (
                    Some(0),
                    &json!("gap"),
                    &json!({"from": last + 1, "to": after})
                )
            );
            assert_eq!(rest, whole, "after {after}");
        }
    }
    let session = session.seen_by(&Person::new(&server, 1));
    for query in ["?after=x", "?after=-1", "?follow=perhaps"] {
        session
            .get(&session.path(&format!("events/{query}")))
            .await
            .refused(422, "VALIDATION_ERROR");
    }
}

#[tokio::test]
async fn a_stream_that_follows_shows_every_turn() {
    let server = server().await;
    let session = Person::new(&server, 1).session().await;
    let mut events = session.follow(0).await;
    for number in 0..3 {
        session
            .call("coder", &format!("message {number}"))
            .await
            .expect(200);
        let seen = events.until_done().await;
        assert_eq!(
            (seen.status(), &seen.all("message_created")[0]["content"]),
            ("completed", &json!(format!("message {number}")))
        );
    }
}

#[tokio::test]
async fn who_comes_in_the_middle_of_an_answer_sees_all_of_it() {
    let server = server().await;
    let session = Person::new(&server, 1).session().await;
    let gate = Gate::new();
    server
        .model
        .reply(Reply::text("one two three four").hold_after_deltas(3, &gate));
    let first = session.stream_call("coder", "count").await;
    gate.reached().await;
    let mut second = session.follow(0).await;
    let delta = second.until("message_delta", |_| true).await;
    assert_eq!(
        (delta.id, &delta.data["offset"], &delta.data["attempt"]),
        (None, &json!(0), &json!(0))
    );
    assert!(delta.whole.get("seq").is_none());
    let mut text = delta.data["content"].as_str().unwrap().to_owned();
    gate.open();
    let rest = second.until_done().await;
    rest.all("message_delta")
        .iter()
        .for_each(|delta| text.push_str(delta["content"].as_str().unwrap()));
    assert_eq!(text, "one two three four");
    assert_eq!(first.all().await.status(), "completed");
}

#[tokio::test]
async fn the_deltas_of_a_task_say_whose_they_are() {
    let server = server().await;
    let session = Person::new(&server, 1).session().await;
    server.model.on(
        is_planning,
        Reply::text(tasks(&[task("a", "coder", &[]), task("b", "writer", &[])])),
    );
    let seen = session.stream_plan("Build it").await.all().await;
    let deltas = seen.all("message_delta");
    for (id, agent) in [("a", "agent_coder"), ("b", "agent_writer")] {
        let own: Vec<_> = deltas
            .iter()
            .filter(|delta| delta["task_id"] == id)
            .collect();
        assert!(
            !own.is_empty()
                && own
                    .iter()
                    .all(|delta| delta["agent"] == agent && delta["plan_id"].is_string())
        );
    }
    assert!(
        deltas.iter().any(|delta| delta.get("task_id").is_none()),
        "the joined answer is the session's own"
    );
}

#[tokio::test]
async fn a_caller_who_goes_away_does_not_stop_the_turn() {
    let server = server().await;
    let session = Person::new(&server, 1).session().await;
    let gate = Gate::new();
    server.model.reply(Reply::text("Still here.").hold(&gate));
    let mut stream = session.stream_call("coder", "go").await;
    stream.until("direct_agent_call", |_| true).await;
    drop(stream);
    gate.reached().await;
    gate.open();
    session
        .wait_for("task_completed", |data| data["response"] == "Still here.")
        .await;
}

#[tokio::test]
async fn streams_end_when_the_server_stops() {
    let mut server = server().await;
    let me = Person::new(&server, 1);
    let session = me.session().await;
    let gate = Gate::new();
    server
        .model
        .on(says("go"), Reply::text("Done.").hold(&gate));
    let streams = [
        session.stream_call("coder", "go").await,
        session.follow(0).await,
        me.open("GET", "/my/events/", None, None).await,
    ];
    gate.reached().await;
    gate.open();
    server.restart().await;
    for stream in streams {
        stream.all().await;
    }
    let session = session.seen_by(&Person::new(&server, 1));
    session.wait_for("task_completed", |_| true).await;
    assert_eq!(session.messages("?role=assistant").await.len(), 1);
}

#[tokio::test]
async fn a_model_call_lost_with_the_server_is_made_again() {
    let mut server = server().await;
    let session = Person::new(&server, 1).session().await;
    server.model.reply(Reply::hang());
    let stream = session.stream_call("coder", "go").await;
    server.model.wait_until_in_flight(1).await;
    server.restart().await;
    stream.all().await;
    let session = session.seen_by(&Person::new(&server, 1));
    session
        .wait_for("task_completed", |data| data["response"] == "Done.")
        .await;
    let log = session.log().await;
    assert_eq!(
        (
            log.all("direct_agent_call").len(),
            session.messages("?role=assistant").await.len()
        ),
        (1, 1)
    );
}

#[tokio::test]
async fn tasks_lost_with_the_server_have_failed_and_can_be_retried() {
    let mut server = server().await;
    let session = Person::new(&server, 1).session().await;
    server.model.on(
        is_planning,
        Reply::text(tasks(&[task("a", "coder", &[]), task("b", "writer", &[])])),
    );
    server.model.on(says("Do a."), Reply::hang());
    let stream = session.stream_plan("Build it").await;
    session
        .wait_for("task_completed", |data| data["task_id"] == "b")
        .await;
    server.model.wait_until_in_flight(1).await;
    server.restart().await;
    stream.all().await;
    server.model.on(says("Do a."), Reply::text("A."));
    let session = session.seen_by(&Person::new(&server, 1));
    let completed = session.wait_for("workflow_completed", |_| true).await.data;
    assert_eq!(completed["status"], "partial");
    let plan = session.plan().await["plan_id"].as_str().unwrap().to_owned();
    session
        .ask("POST", &session.path(&format!("plans/{plan}/retry/")), None)
        .await
        .expect(200);
    session
        .wait_for("workflow_completed", |data| data["status"] == "completed")
        .await;
    let started: Vec<_> = session
        .log()
        .await
        .all("task_started")
        .iter()
        .map(|data| data["task_id"].clone())
        .collect();
    assert_eq!(
        (
            started.len(),
            started.iter().filter(|id| **id == "b").count()
        ),
        (3, 1),
        "{started:?}"
    );
}
