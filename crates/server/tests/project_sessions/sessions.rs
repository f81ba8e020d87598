//! Sessions: made, listed, seen, renamed, deleted, and nobody else's.

use codelab_testkit::{Gate, Reply, skipped_through_another};
use serde_json::{Value, json};

use crate::kit::{Person, server};

#[tokio::test]
async fn creating_a_new_session() {
    let server = server().await;
    let me = Person::new(&server, 1);
    let made = me.post("/my/chat/sessions/", json!({})).await.expect(201);
    let projects = me.get("/my/projects/").await.expect(200);
    assert_eq!(
        (&projects["total"], &projects["projects"][0]["is_default"]),
        (&json!(1), &json!(true))
    );
    assert_eq!(
        made["project_id"], projects["projects"][0]["project_id"],
        "made on first use"
    );
    assert_eq!(
        (&made["title"], &made["message_count"]),
        (&Value::Null, &json!(0))
    );
    assert!(made["created_at"].is_string() && made["last_activity"].is_string());
    let second = me
        .post("/my/chat/sessions", json!({ "title": "Mine" }))
        .await
        .expect(201);
    assert_ne!(made["session_id"], second["session_id"]);
    assert_eq!(
        (&second["title"], &second["project_id"]),
        (&json!("Mine"), &made["project_id"])
    );
    let bare = me.ask("POST", "/my/chat/sessions/", None).await.expect(201);
    assert_eq!(
        (&bare["title"], &bare["project_id"]),
        (&Value::Null, &made["project_id"]),
        "no body is {{}}"
    );
    let project = me.project(json!({ "name": "other" })).await;
    let there = me
        .post("/my/chat/sessions/", json!({ "project_id": project }))
        .await
        .expect(201);
    assert_eq!(there["project_id"], project);
    for (body, status, code) in [
        (json!({ "project_id": 999_999 }), 404, "PROJECT_NOT_FOUND"),
        (json!({ "project_id": 0 }), 422, "VALIDATION_ERROR"),
        (json!({ "title": " " }), 422, "VALIDATION_ERROR"),
        (json!({ "title": "x".repeat(201) }), 422, "VALIDATION_ERROR"),
        (json!({ "budget_usd": -1 }), 422, "VALIDATION_ERROR"),
        (json!({ "budget_tokens": 1.5 }), 422, "VALIDATION_ERROR"),
    ] {
        me.post("/my/chat/sessions/", body)
            .await
            .refused(status, code);
    }
}

#[tokio::test]
async fn listing_sessions() {
    let server = server().await;
    let me = Person::new(&server, 1);
    let empty = me.get("/my/chat/sessions/").await.expect(200);
    assert_eq!(
        empty,
        json!({ "sessions": [], "total": 0, "limit": 100, "offset": 0 })
    );
    let mut ids = Vec::new();
    for _ in 0..3 {
        ids.push(me.session().await.id);
    }
    let project = me.project(json!({ "name": "other" })).await;
    let there = me.session_with(json!({ "project_id": project })).await;
    there.call("coder", "Hello\nand more").await.expect(200);
    let all = me.get("/my/chat/sessions/").await.expect(200);
    let newest = &all["sessions"][0];
    assert_eq!(
        (&all["total"], &newest["session_id"]),
        (&json!(4), &json!(there.id))
    );
    assert_eq!(
        (&newest["title"], &newest["message_count"]),
        (&json!("Hello"), &json!(2))
    );
    let page = me
        .get("/my/chat/sessions/?limit=2&offset=1")
        .await
        .expect(200);
    let listed = |list: &Value| -> Vec<String> {
        list["sessions"]
            .as_array()
            .unwrap()
            .iter()
            .map(|s| s["session_id"].as_str().unwrap().to_owned())
            .collect()
    };
    assert_eq!(
        (&listed(&page)[..], &page["total"]),
        (&listed(&all)[1..3], &json!(4))
    );
    // Made within one millisecond they stand in any order, but each stands there once.
    let (mut others, mut made) = (listed(&all)[1..].to_vec(), ids);
    others.sort();
    made.sort();
    assert_eq!(others, made);
    let of = me
        .get(&format!("/my/chat/sessions/?project_id={project}"))
        .await
        .expect(200);
    assert_eq!(
        (&of["total"], &of["sessions"][0]["session_id"]),
        (&json!(1), &json!(there.id))
    );
    me.get("/my/chat/sessions/?project_id=999999")
        .await
        .refused(404, "PROJECT_NOT_FOUND");
    me.get("/my/chat/sessions/?project_id=x")
        .await
        .refused(422, "VALIDATION_ERROR");
    // Old activity goes down when another session is used.
    me.session()
        .await
        .seen_by(&me)
        .call("coder", "hi")
        .await
        .expect(200);
    assert_eq!(
        me.get("/my/chat/sessions/").await.expect(200)["sessions"][1]["session_id"],
        json!(there.id)
    );
}

#[tokio::test]
async fn getting_a_session_by_id() {
    let server = server().await;
    let session = Person::new(&server, 1)
        .session_with(json!({ "budget_usd": 5.0, "budget_tokens": 100_000 }))
        .await;
    for number in 0..12 {
        session
            .call("coder", &format!("message {number}"))
            .await
            .expect(200);
    }
    let detail = session.detail().await;
    let messages = detail["messages"].as_array().unwrap();
    assert_eq!(
        (messages.len(), &detail["message_count"]),
        (20, &json!(24)),
        "the newest ones"
    );
    assert_eq!(
        (&messages[0]["content"], &messages[18]["content"]),
        (&json!("message 2"), &json!("message 11"))
    );
    assert_eq!(
        (&detail["busy"], &detail["queued"], detail.get("status")),
        (&json!(false), &json!(0), None)
    );
    assert_eq!(
        (&detail["budget_usd"], &detail["budget_tokens"]),
        (&json!(5.0), &json!(100_000))
    );
    assert_eq!(
        (&detail["usage"]["calls"], &detail["usage"]["total_tokens"]),
        (&json!(12), &json!(12 * 11))
    );
    assert_eq!(detail["usage"]["cost_known"], true);
    let gate = Gate::new();
    server.model.reply(Reply::text("Late.").hold(&gate));
    let stream = session.stream_call("coder", "now").await;
    gate.reached().await;
    assert_eq!(session.detail().await["busy"], true);
    gate.open();
    stream.all().await;
    for id in ["nope", "a%20b", "%00", &"x".repeat(200)] {
        session
            .get(&format!("/my/chat/sessions/{id}"))
            .await
            .refused(404, "SESSION_NOT_FOUND");
    }
}

#[tokio::test]
async fn a_title_is_the_first_line_said_unless_it_is_given() {
    let server = server().await;
    let me = Person::new(&server, 1);
    let title = async |session: &crate::kit::Session| session.detail().await["title"].clone();
    let session = me.session().await;
    session
        .call("coder", "\n  Привіт, світе  \nsecond line")
        .await
        .expect(200);
    assert_eq!(title(&session).await, "Привіт, світе");
    session.call("coder", "another").await.expect(200);
    assert_eq!(title(&session).await, "Привіт, світе");
    let long = me.session().await;
    long.call("coder", &"ї".repeat(300)).await.expect(200);
    assert_eq!(title(&long).await, format!("{}…", "ї".repeat(80)));

    let named = me.session_with(json!({ "title": " Given " })).await;
    named.call("coder", "said").await.expect(200);
    assert_eq!(title(&named).await, "Given");
    let renamed = me.session().await;
    let path = format!("/my/chat/sessions/{}", renamed.id);
    let answer = me
        .ask("PATCH", &path, Some(json!({ "title": "New name" })))
        .await
        .expect(200);
    assert_eq!(
        (&answer["title"], &answer["session_id"]),
        (&json!("New name"), &json!(renamed.id))
    );
    renamed.call("coder", "said").await.expect(200);
    assert_eq!(title(&renamed).await, "New name");
    let again = me
        .ask(
            "PATCH",
            &format!("{path}/"),
            Some(json!({ "title": "Newer" })),
        )
        .await
        .expect(200);
    assert_eq!(
        (&again["title"], &again["message_count"]),
        (&json!("Newer"), &json!(2))
    );
    for body in [
        json!({ "title": "" }),
        json!({ "title": "a\nb" }),
        json!({ "title": null }),
        json!({ "title": "x".repeat(201) }),
    ] {
        me.ask("PATCH", &path, Some(body))
            .await
            .refused(422, "VALIDATION_ERROR");
    }
    me.ask(
        "PATCH",
        "/my/chat/sessions/nope",
        Some(json!({ "title": "x" })),
    )
    .await
    .refused(404, "SESSION_NOT_FOUND");
}

#[tokio::test]
async fn deleting_a_session() {
    if skipped_through_another("it opens the SQLite file") {
        return;
    }
    let server = server().await;
    let me = Person::new(&server, 1);
    let (session, kept) = (me.session().await, me.session().await);
    session.call("coder", "very-own-words").await.expect(200);
    kept.call("coder", "stays").await.expect(200);
    server.model.reply(Reply::tool_call(
        "write_file",
        json!({ "path": "a", "content": "b" }),
    ));
    session.call("coder", "write").await.expect(200);
    let mut events = session.follow(0).await;
    events.until("approval_request", |_| true).await;
    session
        .ask("DELETE", &format!("/my/chat/sessions/{}", session.id), None)
        .await
        .expect(204);
    while events.next().await.is_some() {}
    for path in [
        format!("/my/chat/sessions/{}", session.id),
        session.path("messages/"),
        session.path("plans/"),
        session.path("audit/"),
    ] {
        session.get(&path).await.refused(404, "SESSION_NOT_FOUND");
    }
    session
        .send(json!({ "content": "hi", "target_agent": "coder" }))
        .await
        .refused(404, "SESSION_NOT_FOUND");
    session
        .ask("DELETE", &format!("/my/chat/sessions/{}", session.id), None)
        .await
        .refused(404, "SESSION_NOT_FOUND");
    let list = me.get("/my/chat/sessions/").await.expect(200);
    assert_eq!(
        (&list["total"], &list["sessions"][0]["session_id"]),
        (&json!(1), &json!(kept.id))
    );
    assert_eq!(me.get("/my/approvals/").await.expect(200)["total"], 0);
    let database = rusqlite::Connection::open(server.data_dir().join("codelab.db")).unwrap();
    for (table, column) in [
        ("messages", "content"),
        ("events", "body"),
        ("sessions", "state"),
        ("interactions", "text"),
    ] {
        let found: i64 = database
            .query_row(
                &format!("SELECT count(*) FROM {table} WHERE {column} LIKE '%very-own-words%'"),
                [],
                |row| row.get(0),
            )
            .unwrap();
        assert_eq!(found, 0, "{table}");
    }
}

#[tokio::test]
async fn deleting_a_session_stops_what_it_does() {
    let server = server().await;
    let session = Person::new(&server, 1).session().await;
    server.model.reply(Reply::hang());
    let stream = session.stream_call("coder", "go").await;
    server.model.wait_until_in_flight(1).await;
    session
        .ask("DELETE", &format!("/my/chat/sessions/{}", session.id), None)
        .await
        .expect(204);
    server.model.wait_until_in_flight(0).await;
    stream.all().await;
}

#[tokio::test]
async fn session_isolation() {
    let server = server().await;
    let (me, other) = (Person::new(&server, 123), Person::new(&server, 456));
    let (mine, theirs) = (me.session().await, other.session().await);
    theirs.call("coder", "theirs").await.expect(200);
    server.model.reply(Reply::tool_call(
        "write_file",
        json!({ "path": "a", "content": "b" }),
    ));
    let asked = theirs.call("coder", "write").await.expect(200);
    let call = asked["pending"]["call_id"].as_str().unwrap().to_owned();
    let before = (theirs.log().await.0, theirs.messages("").await);
    let list = me.get("/my/chat/sessions/").await.expect(200);
    assert_eq!(
        (&list["total"], &list["sessions"][0]["session_id"]),
        (&json!(1), &json!(mine.id))
    );
    assert_eq!(me.get("/my/approvals/").await.expect(200)["total"], 0);
    let usage = me.get("/my/usage/").await.expect(200);
    assert_eq!(
        (&usage["total"]["calls"], &usage["sessions"]),
        (&json!(0), &json!([]))
    );
    let intruder = theirs.seen_by(&me);
    let session = format!("/my/chat/sessions/{}", theirs.id);
    for (method, path, body) in [
        ("GET", session.clone(), None),
        ("PATCH", session.clone(), Some(json!({ "title": "mine" }))),
        ("DELETE", session, None),
        (
            "POST",
            intruder.path("message/"),
            Some(json!({ "content": "hi" })),
        ),
        (
            "POST",
            intruder.path("message/"),
            Some(json!({ "content": "hi", "target_agent": "coder" })),
        ),
        ("GET", intruder.path("messages/"), None),
        ("GET", intruder.path("events/"), None),
        ("POST", intruder.path("cancel/"), None),
        ("GET", intruder.path("plans/"), None),
        ("GET", intruder.path("approvals/"), None),
        (
            "POST",
            intruder.path(&format!("approvals/{call}/decision/")),
            Some(json!({ "decision": "approve" })),
        ),
        (
            "POST",
            intruder.path(&format!("tool_calls/{call}/claim/")),
            Some(json!({ "client_id": "x" })),
        ),
        (
            "POST",
            intruder.path(&format!("tool_calls/{call}/result/")),
            Some(json!({ "client_id": "x", "result": 1 })),
        ),
        (
            "POST",
            intruder.path(&format!("questions/{call}/answer/")),
            Some(json!({ "answer": "x" })),
        ),
        ("GET", intruder.path("audit/"), None),
    ] {
        me.ask(method, &path, body)
            .await
            .refused(404, "SESSION_NOT_FOUND");
    }
    // Nor through a session of one's own.
    mine.decide(&call, json!({ "decision": "approve" }))
        .await
        .refused(404, "PENDING_APPROVAL_NOT_FOUND");
    mine.claim(&call, "x")
        .await
        .refused(404, "TOOL_CALL_NOT_FOUND");
    let project = json!({ "project_id": theirs.project });
    me.post("/my/chat/sessions/", project)
        .await
        .refused(404, "PROJECT_NOT_FOUND");
    assert_eq!((theirs.log().await.0, theirs.messages("").await), before);
    // The runtime's routes do not know it either.
    let (status, body) = server
        .http(
            codelab_testkit::Method::GET,
            &format!("/sessions/{}/history", theirs.id),
            None,
        )
        .await;
    assert_eq!(
        (status, &body["error_code"]),
        (404, &json!("SESSION_NOT_FOUND"))
    );
}

#[tokio::test]
async fn deleting_a_project_takes_its_sessions_along() {
    let server = server().await;
    let me = Person::new(&server, 1);
    let project = me.project(json!({ "name": "gone" })).await;
    let session = me.session_with(json!({ "project_id": project })).await;
    server.model.reply(Reply::hang());
    let stream = session.stream_call("coder", "go").await;
    server.model.wait_until_in_flight(1).await;
    me.ask("DELETE", &format!("/my/projects/{project}"), None)
        .await
        .expect(204);
    server.model.wait_until_in_flight(0).await;
    stream.all().await;
    session
        .get(&session.path("messages/"))
        .await
        .refused(404, "SESSION_NOT_FOUND");
    assert_eq!(me.get("/my/chat/sessions/").await.expect(200)["total"], 0);
}
