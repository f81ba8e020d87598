//! One stream for all sessions of a user: it goes on where a reader was, at any server.

use codelab_testkit::{OwnDatabase, Reply, TestServer};
use serde_json::json;

use crate::kit::{Person, Session, Stream, server};

/// An event as readers tell events apart, by session and number.
type Told = (String, u64);

/// What a stream shows up to the end of the next turn in a session, and the id to come back with.
async fn turn_of(stream: &mut Stream, session: &Session) -> (Vec<Told>, String) {
    let mut told = Vec::new();
    loop {
        let event = stream.next().await.expect("the stream goes on");
        let of = event.whole["session_id"].as_str().unwrap().to_owned();
        let is_last = event.kind == "task_completed" && of == session.id;
        told.push((of, event.whole["seq"].as_u64().unwrap()));
        if is_last {
            return (told, event.cursor.expect("every event has an id"));
        }
    }
}

/// The log of each session, one after the other.
async fn logs(sessions: &[Session]) -> Vec<Told> {
    let mut told = Vec::new();
    for session in sessions {
        let numbers = session.log().await.ids().into_iter();
        told.extend(numbers.map(|seq| (session.id.clone(), seq)));
    }
    told
}

#[tokio::test]
async fn a_reader_that_comes_back_misses_and_repeats_nothing() {
    let mut server = server().await;
    let mut me = Person::new(&server, 1);
    let mut sessions = vec![me.session().await, me.session().await, me.session().await];
    let mut before = logs(&sessions).await;
    // What happened before the stream was opened is not part of it, however it is resumed.
    sessions[2].call("coder", "before").await.expect(200);
    before.extend(logs(&sessions[2..]).await);
    let mut seen = Vec::new();
    let mut stream = me.everything(None).await;
    sessions[0].call("coder", "one").await.expect(200);
    let (told, mut last) = turn_of(&mut stream, &sessions[0]).await;
    seen.extend(told);
    for round in 0..3 {
        drop(stream);
        // While nobody listens, two sessions go on.
        sessions[1].call("coder", "two").await.expect(200);
        sessions[0].call("coder", "three").await.expect(200);
        if round == 1 {
            server.restart().await;
            me = Person::new(&server, 1);
            sessions = sessions
                .iter()
                .map(|session| session.seen_by(&me))
                .collect();
        }
        stream = me.everything(Some(&last)).await;
        sessions[2].call("coder", "four").await.expect(200);
        let (told, id) = turn_of(&mut stream, &sessions[2]).await;
        seen.extend(told);
        last = id;
    }
    let mut expected = logs(&sessions).await;
    expected.retain(|told| !before.contains(told));
    for session in &sessions {
        let of = |told: &[Told]| -> Vec<u64> {
            let own = told.iter().filter(|(of, _)| *of == session.id);
            own.map(|(_, seq)| *seq).collect()
        };
        assert_eq!(of(&seen), of(&expected), "in order, each once");
    }
}

#[tokio::test]
async fn the_first_id_comes_before_the_first_event() {
    let server = server().await;
    let me = Person::new(&server, 1);
    let session = me.session().await;
    let mut opened = me.everything(None).await;
    let first = opened.bytes().await;
    let last = first
        .strip_prefix("id: ")
        .and_then(|id| id.strip_suffix("\n\n"));
    let last = last.unwrap_or_else(|| panic!("{first:?}")).to_owned();
    drop(opened);
    session.call("coder", "missed").await.expect(200);
    let (told, _) = turn_of(&mut me.everything(Some(&last)).await, &session).await;
    assert_eq!(told, logs(&[session]).await);
}

#[tokio::test]
async fn an_id_that_is_none_of_this_users_stream_is_refused() {
    let server = server().await;
    let (me, other) = (Person::new(&server, 1), Person::new(&server, 2));
    let (mine, theirs) = (me.session().await, other.session().await);
    let mut streams = [me.everything(None).await, other.everything(None).await];
    mine.call("coder", "go").await.expect(200);
    theirs.call("coder", "go").await.expect(200);
    let (_, own) = turn_of(&mut streams[0], &mine).await;
    let (_, foreign) = turn_of(&mut streams[1], &theirs).await;
    for id in ["7", "x", "", "AQ", &own[..own.len() - 3], &foreign] {
        let path = format!("/my/events/?after={id}");
        me.get(&path).await.refused(422, "VALIDATION_ERROR");
    }
    let detail = me.get(&format!("/my/events/?after={foreign}")).await.body;
    assert!(
        detail["detail"].as_str().unwrap().contains("another user"),
        "{detail}"
    );
    mine.call("coder", "again").await.expect(200);
    theirs.call("coder", "again").await.expect(200);
    let path = format!("/my/events/?after={own}");
    let mut stream = me.open("GET", &path, None, None).await;
    let (told, _) = turn_of(&mut stream, &mine).await;
    assert!(told.iter().all(|(of, _)| *of == mine.id), "{told:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_comes_back_to_another_server() {
    let Some(database) = OwnDatabase::make("all_sessions").await else {
        return;
    };
    let mut one = TestServer::member(&database.url, &[]).await;
    one.model.default_reply(Reply::text("Done."));
    let model = one.model.url();
    let mut two = TestServer::member(&database.url, &[("LLM_PROXY_URL", &model)]).await;
    let on = |server: &TestServer| Person::new(server, 1);
    let project = on(&one).project(json!({ "name": "p" })).await;
    let session = on(&one)
        .session_with(json!({ "project_id": project }))
        .await;
    let mut stream = on(&one).everything(None).await;
    session.call("coder", "one").await.expect(200);
    let (mut seen, last) = turn_of(&mut stream, &session).await;
    drop(stream);
    session.call("coder", "two").await.expect(200);
    let (told, last) = turn_of(&mut on(&two).everything(Some(&last)).await, &session).await;
    seen.extend(told);
    session.call("coder", "three").await.expect(200);
    let (told, _) = turn_of(&mut on(&one).everything(Some(&last)).await, &session).await;
    seen.extend(told);
    assert_eq!(seen, logs(&[session]).await);
    one.stop().await;
    two.stop().await;
    database.remove().await;
}

#[tokio::test]
async fn one_stream_shows_all_of_a_users_sessions() {
    let server = server().await;
    let (me, other) = (Person::new(&server, 1), Person::new(&server, 2));
    let project = me.project(json!({ "name": "other" })).await;
    let sessions = [
        me.session().await,
        me.session_with(json!({ "project_id": project })).await,
    ];
    let mut events = me.everything(None).await;
    let mut theirs = other.everything(None).await;
    other
        .session()
        .await
        .call("coder", "theirs")
        .await
        .expect(200);
    for session in &sessions {
        session.call("coder", "mine").await.expect(200);
        let completed = events.until("task_completed", |_| true).await;
        assert_eq!(completed.whole["session_id"], session.id.as_str());
        let in_log = session
            .log()
            .await
            .0
            .into_iter()
            .find(|event| event.kind == "task_completed")
            .unwrap();
        assert_eq!(
            completed.whole, in_log.whole,
            "with its session's own number"
        );
        assert!(
            completed.id.is_none() && completed.cursor.is_some(),
            "numbers of several sessions are no position in this stream"
        );
    }
    let first = theirs.next().await.unwrap();
    assert_eq!(first.data["content"], "theirs", "and nobody else's");
}
