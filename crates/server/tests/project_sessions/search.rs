//! The search over a user's sessions.

use codelab_testkit::Reply;
use serde_json::{Value, json};

use crate::kit::{Person, server};

async fn search(me: &Person, query: &str) -> Value {
    let path = format!("/my/chat/sessions/?{query}");
    me.get(&path).await.expect(200)
}

fn ids(list: &Value) -> Vec<&str> {
    let sessions = list["sessions"].as_array().unwrap();
    assert_eq!(list["total"], sessions.len());
    sessions
        .iter()
        .map(|session| session["session_id"].as_str().unwrap())
        .collect()
}

#[tokio::test]
async fn sessions_are_found_by_what_was_said() {
    let mut server = server().await;
    let me = Person::new(&server, 1);
    let (one, two) = (me.session().await, me.session().await);
    let answer = "The cause is\n\na Deadlock in src/queue.rs";
    server.model.reply(Reply::text(answer));
    one.call("coder", "Why does it hang?").await.expect(200);
    server.model.reply(Reply::text("Почекай, дивлюсь"));
    two.call("coder", "Why is it slow?").await.expect(200);
    for (query, expected) in [
        ("q=why", vec![two.id.as_str(), &one.id]),
        ("q=why&limit=1000", vec![&two.id, &one.id]),
        ("q=DEADL", vec![&one.id]),
        ("q=hang+queue.rs", vec![&one.id]),
        ("q=%D0%9F%D0%9E%D0%A7%D0%95%D0%9A", vec![&two.id]),
        ("q=hang+slow", vec![]),
        ("q=%22%29+OR+1%3D1+--", vec![]),
        ("q=%3F%21", vec![]),
        ("q=", vec![&two.id, &one.id]),
        ("q=why&archived=true", vec![]),
    ] {
        assert_eq!(ids(&search(&me, query).await), expected, "{query}");
    }
    let found = search(&me, "q=deadlock").await;
    assert_eq!(
        found["sessions"][0]["snippet"],
        "The cause is a Deadlock in src/queue.rs"
    );
    assert_eq!(search(&me, "").await["sessions"][0]["snippet"], Value::Null);
    let of_project = format!("q=why&project_id={}", one.project);
    assert_eq!(ids(&search(&me, &of_project).await).len(), 2);
    me.get("/my/chat/sessions/?q=why&project_id=999999")
        .await
        .refused(404, "PROJECT_NOT_FOUND");
    for wrong in ["a".repeat(201), (0..17).map(|n| format!("w{n}+")).collect()] {
        let refused = me.get(&format!("/my/chat/sessions/?q={wrong}")).await;
        assert_eq!(refused.status, 422, "{:#}", refused.body);
        assert_eq!(refused.body["details"]["field"], "q");
    }

    // Nobody else finds it. A new title counts at once, and a deleted session is gone.
    assert_eq!(
        ids(&search(&Person::new(&server, 2), "q=why").await),
        [""; 0]
    );
    server.restart().await;
    let me = Person::new(&server, 1);
    let path = |id: &str| format!("/my/chat/sessions/{id}/");
    let title = json!({ "title": "Performance", "archived": true });
    me.ask("PATCH", &path(&two.id), Some(title))
        .await
        .expect(200);
    assert_eq!(ids(&search(&me, "q=perf").await), [""; 0]);
    let archived = search(&me, "q=perf&archived=true").await;
    assert_eq!(ids(&archived), [&two.id]);
    assert_eq!(archived["sessions"][0]["snippet"], "Performance");
    assert_eq!(me.ask("DELETE", &path(&one.id), None).await.status, 204);
    assert_eq!(ids(&search(&me, "q=deadlock").await), [""; 0]);
}
