//! Messages that steer: said to agents at work, told after their next tool results.

use codelab_testkit::{Gate, Reply, TestServer};
use serde_json::{Value, json};

use crate::kit::{
    Person, Session, is_joining, is_planning, says, server, server_with, task, tasks,
};

fn steer(content: &str) -> Value {
    json!({ "content": content, "delivery": "steer" })
}

/// A session whose direct call waits for `read_file`; the call's id.
async fn reading(server: &TestServer) -> (Session, String) {
    let session = Person::new(server, 1).session().await;
    server
        .model
        .reply(Reply::tool_call("read_file", json!({ "path": "a" })));
    let answer = session.call("coder", "read").await.expect(200);
    let call = answer["pending"]["call_id"].as_str().unwrap().to_owned();
    (session, call)
}

async fn finish(session: &Session, call: &str) {
    session.claim(call, "laptop").await.expect(200);
    let result = json!({ "success": true, "content": "a" });
    session.result(call, "laptop", result).await.expect(200);
}

/// Role and beginning of what the model was last asked.
fn last_asked(server: &TestServer) -> Vec<(String, String)> {
    let request = server.model.requests().pop().unwrap().body;
    let messages = request["messages"].as_array().unwrap().iter();
    let said = |message: &Value| {
        let content = message["content"].as_str().unwrap_or_default().to_owned();
        (message["role"].as_str().unwrap().to_owned(), content)
    };
    messages.map(said).collect()
}

#[tokio::test]
async fn what_steers_is_told_after_the_next_tool_results_and_stays() {
    let mut server = server().await;
    let (session, call) = reading(&server).await;
    let steered = session.send(steer("use tabs")).await.expect(202);
    assert_eq!(
        (&steered["status"], &steered["position"], &steered["mode"]),
        (&json!("steering"), &json!(1), &json!("direct"))
    );
    let second = session.send(steer("and no macros")).await.expect(202);
    assert_eq!(second["position"], 2);
    assert_eq!(
        session.messages("?role=user").await.len(),
        1,
        "not said yet"
    );
    // Accepted means durable.
    server.restart().await;
    let session = session.seen_by(&Person::new(&server, 1));
    finish(&session, &call).await;
    session.wait_for("task_completed", |_| true).await;
    let asked = last_asked(&server);
    let last: Vec<(&str, &str)> = asked[asked.len() - 3..]
        .iter()
        .map(|(role, text)| (role.as_str(), text.as_str()))
        .collect();
    assert_eq!(last[0].0, "tool");
    assert_eq!(last[1..], [("user", "use tabs"), ("user", "and no macros")]);
    assert_eq!(server.model.requests().len(), 2, "no call was made in vain");

    let said = session.messages("").await;
    let roles: Vec<&str> = said.iter().map(|m| m["role"].as_str().unwrap()).collect();
    assert_eq!(
        roles,
        ["user", "assistant", "tool", "user", "user", "assistant"]
    );
    assert_eq!(said[3]["message_id"], steered["message_id"]);
    assert_eq!(said[3]["steered"], true);
    let log = session.log().await;
    let queued = log.all("message_queued");
    assert_eq!(queued.len(), 2);
    assert!(queued.iter().all(|queued| queued["steers"] == true));
    let created = log.all("message_created");
    let created = created.iter().filter(|m| m["steered"] == true);
    assert_eq!(created.count(), 2, "told once");
    assert_eq!(session.detail().await["busy"], false);
    // A later turn sees it where it was said.
    session.call("coder", "next").await.expect(200);
    let asked = last_asked(&server);
    assert_eq!(
        asked.iter().filter(|(_, text)| text == "use tabs").count(),
        1
    );
}

#[tokio::test]
async fn the_same_steer_sent_often_is_told_once() {
    let server = server().await;
    let (session, call) = reading(&server).await;
    let body = json!({ "content": "once", "delivery": "steer", "client_message_id": "c-1", "target_agent": "writer" });
    let sent = (0..20).map(|_| session.send(body.clone()));
    let answers = futures_util::future::join_all(sent).await;
    let first = answers[0].body["message_id"].clone();
    for answer in answers {
        let answer = answer.expect(202);
        assert_eq!(
            (&answer["message_id"], &answer["status"]),
            (&first, &json!("steering"))
        );
    }
    finish(&session, &call).await;
    session.wait_for("task_completed", |_| true).await;
    let said = session.messages("?role=user").await;
    assert_eq!(said.len(), 2);
    // Also after it was told.
    let again = session.send(body).await.expect(202);
    assert_eq!(again["message_id"], first);
    assert_eq!(session.messages("?role=user").await.len(), 2);
}

#[tokio::test]
async fn a_turn_that_ends_first_leaves_it_to_the_queue() {
    let server = server().await;
    let gate = Gate::new();
    let session = Person::new(&server, 1).session().await;
    server
        .model
        .on(says("first"), Reply::text("First.").hold(&gate));
    let first = tokio::spawn({
        let session = session.clone();
        async move { session.call("coder", "first").await }
    });
    gate.reached().await;
    let stream = session.stream(steer("too late")).await;
    session.wait_for("message_queued", |_| true).await;
    gate.open();
    let answer = first.await.unwrap().expect(200);
    assert_eq!(answer["response"], "First.");
    let seen = stream.all().await;
    assert_eq!(
        (seen.kinds()[0], seen.status()),
        ("message_queued", "completed")
    );
    session
        .wait_for("task_completed", |data| data["response"] == "Done.")
        .await;
    let said = session.messages("").await;
    assert_eq!(said[0]["message_id"], answer["message_id"]);
    assert_eq!(
        (
            &said[2]["content"],
            &said[2]["steered"],
            &said[3]["agent_id"]
        ),
        (&json!("too late"), &Value::Null, &json!("agent_coder")),
        "the agent that worked gets it"
    );
    let log = session.log().await;
    let queued = log.all("message_queued");
    assert_eq!(
        (queued.len(), &queued[0]["steers"], &queued[1]["steers"]),
        (2, &json!(true), &Value::Null)
    );
}

#[tokio::test]
async fn without_a_turn_or_with_a_question_it_is_a_message() {
    let server = server().await;
    let session = Person::new(&server, 1).session().await;
    let body = json!({ "content": "hello", "delivery": "steer", "target_agent": "coder" });
    let answer = session.send(body).await.expect(200);
    assert_eq!(answer["response"], "Done.");
    let question = json!({ "question": "Which?" });
    server
        .model
        .reply(Reply::tool_call("ask_followup_question", question));
    session.call("coder", "ask me").await.expect(200);
    let answered = session.send(steer("the first")).await.expect(202);
    assert_eq!(answered["status"], "answered");
    session
        .send(json!({ "content": "x", "delivery": "later" }))
        .await
        .refused(422, "VALIDATION_ERROR");
}

#[tokio::test]
async fn only_so_many_messages_steer() {
    let server = server_with(&[("CODELAB_LIMITS__QUEUE_LENGTH", "1")]).await;
    let (session, call) = reading(&server).await;
    for number in 0..20 {
        let text = format!("steer {number}");
        session.send(steer(&text)).await.expect(202);
    }
    session
        .send(steer("one too many"))
        .await
        .refused(429, "QUEUE_FULL");
    // The queue has a bound of its own.
    session.send(json!({ "content": "q" })).await.expect(202);
    session.cancel().await.expect(200);
    session
        .wait_for("message_created", |data| data["content"] == "steer 0")
        .await;
    drop(call);
}

#[tokio::test]
async fn every_task_of_a_plan_hears_it_and_the_history_has_it_once() {
    let server = server().await;
    let session = Person::new(&server, 1).session().await;
    let plan = tasks(&[
        task("a", "coder", &[]),
        task("b", "analyzer", &[]),
        task("c", "writer", &["a", "b"]),
    ]);
    let gate = Gate::new();
    server.model.on(is_planning, Reply::text(plan));
    server.model.on(is_joining, Reply::text("All of it."));
    let read = Reply::tool_call("read_file", json!({ "path": "a" }));
    server.model.on(says("Do a."), read);
    server
        .model
        .on(says("Do b."), Reply::text("B.").hold(&gate));
    session.send(json!({ "content": "all" })).await.expect(202);
    let asked = session.wait_for("plan_request", |_| true).await;
    let plan = json!({ "plan_id": asked.data["plan_id"] });
    session
        .decide_plan(&plan, json!({ "decision": "approve" }))
        .await
        .expect(200);
    let call = session.wait_for("tool_call", |_| true).await;
    gate.reached().await;
    let steered = session.send(steer("in Rust")).await.expect(202);
    assert_eq!(
        (&steered["status"], &steered["mode"]),
        (&json!("steering"), &json!("orchestrated"))
    );
    let call = call.data["tool_call"]["call_id"].as_str().unwrap();
    finish(&session, call).await;
    session
        .wait_for("task_completed", |data| data["task_id"] == "a")
        .await;
    gate.open();
    session.wait_for("workflow_completed", |_| true).await;
    let said = session.messages("").await;
    let said: Vec<&str> = said
        .iter()
        .map(|m| m["content"].as_str().unwrap())
        .collect();
    assert_eq!(said, ["all", "in Rust", "All of it."]);
    let requests = server.model.requests();
    let times = |body: &Value| body.to_string().matches("in Rust").count();
    // The steps of a task, by what its thread begins with.
    let of = |task: &str| -> Vec<usize> {
        let is_its = |body: &Value| {
            let said = body["messages"].as_array().unwrap().iter();
            let mut begins = said.filter_map(|said| said["content"].as_str());
            begins.any(|text| text.starts_with(task)) && !is_joining(body)
        };
        let its = requests.iter().filter(|request| is_its(&request.body));
        its.map(|request| times(&request.body)).collect()
    };
    assert_eq!(of("Do a."), [0, 1]);
    assert_eq!(of("Do b."), [0], "it answered without it");
    assert_eq!(of("Do c."), [1], "one that starts later is told");
    let joined = requests.iter().find(|r| is_joining(&r.body)).unwrap();
    assert_eq!(times(&joined.body), 1);
    let plan = plan["plan_id"].as_str().unwrap();
    let thread = session
        .get(&session.path(&format!("plans/{plan}/tasks/a/messages/")))
        .await
        .expect(200);
    let roles: Vec<&Value> = thread["messages"]
        .as_array()
        .unwrap()
        .iter()
        .map(|message| &message["role"])
        .collect();
    assert_eq!(roles, ["user", "assistant", "tool", "user", "assistant"]);
}

#[tokio::test]
async fn tasks_that_write_the_same_files_run_one_after_the_other() {
    let server = server().await;
    let session = Person::new(&server, 1).session().await;
    let with_paths = |id: &str, agent: &str, paths: &[&str]| {
        let mut task = task(id, agent, &[]);
        task["paths"] = json!(paths);
        task
    };
    let gate = Gate::new();
    let plan = tasks(&[
        with_paths("a", "coder", &["src/a.rs"]),
        with_paths("b", "writer", &["src/"]),
    ]);
    server.model.on(is_planning, Reply::text(plan));
    server.model.on(is_joining, Reply::text("Both."));
    server
        .model
        .on(says("Do a."), Reply::text("A.").hold(&gate));
    session.send(json!({ "content": "both" })).await.expect(202);
    gate.reached().await;
    let plan = session.plan().await;
    let task = |place: usize, field: &str| plan["tasks"][place][field].clone();
    assert_eq!(task(1, "paths"), json!(["src"]), "normalised");
    assert_eq!(
        (task(1, "status"), task(1, "waits_for")),
        (json!("pending"), json!(["a"]))
    );
    assert_eq!(task(0, "waits_for"), Value::Null);
    let request = server.model.requests().remove(0).body.to_string();
    assert!(request.contains("In paths name the files"), "{request}");
    gate.open();
    session.wait_for("workflow_completed", |_| true).await;
    let log = session.log().await;
    let order: Vec<&str> = log
        .0
        .iter()
        .filter(|event| ["task_started", "task_completed"].contains(&event.kind.as_str()))
        .map(|event| event.data["task_id"].as_str().unwrap())
        .collect();
    assert_eq!(order, ["a", "a", "b", "b"]);
}

#[tokio::test]
async fn a_message_that_steered_is_no_place_to_go_back_to() {
    let server = server().await;
    let (session, call) = reading(&server).await;
    session.send(steer("use tabs")).await.expect(202);
    finish(&session, &call).await;
    session.wait_for("task_completed", |_| true).await;
    let said = session.messages("?role=user").await;
    assert_eq!((said.len(), &said[1]["steered"]), (2, &json!(true)));
    let path = session.path("rewind/");
    let to = |said: &Value| json!({ "to_message_id": said["message_id"], "scope": "conversation" });
    session
        .post(&path, to(&said[1]))
        .await
        .refused(422, "VALIDATION_ERROR");
    session.post(&path, to(&said[0])).await.expect(200);
    let all = session.messages("").await;
    assert!(all.iter().all(|said| said.get("rewound").is_some()));
}

#[tokio::test]
async fn a_message_that_waits_steers_instead_or_is_taken_back() {
    let server = server().await;
    let (session, call) = reading(&server).await;
    let stream = session.stream(json!({ "content": "use tabs" })).await;
    let steered = session.wait_for("message_queued", |_| true).await;
    let taken = session.send(json!({ "content": "never mind" })).await;
    let path = |id: &Value| session.path(&format!("queue/{}/", id.as_str().unwrap()));
    let steered = path(&steered.data["message_id"]);
    let taken = path(&taken.expect(202)["message_id"]);
    let steer = Some(json!({ "delivery": "steer" }));
    session
        .ask("PATCH", &steered, steer.clone())
        .await
        .expect(204);
    session.ask("DELETE", &taken, None).await.expect(204);
    // Whoever waits for its own turn is told that there is none.
    assert_eq!(stream.all().await.status(), "cancelled");
    for (method, body) in [("DELETE", None), ("PATCH", steer)] {
        let again = session.ask(method, &taken, body).await;
        again.refused(404, "NOT_FOUND");
    }
    let log = session.log().await;
    let reasons: Vec<_> = log
        .all("message_dequeued")
        .iter()
        .map(|data| data["reason"].clone())
        .collect();
    assert_eq!(reasons, ["steers", "taken_back"]);
    let statuses = log.statuses();
    assert!(
        !statuses.contains(&"cancelled"),
        "the turn goes on: {statuses:?}"
    );
    finish(&session, &call).await;
    session.wait_for("task_completed", |_| true).await;
    let asked = last_asked(&server);
    assert_eq!(
        asked.last().unwrap(),
        &("user".to_owned(), "use tabs".to_owned())
    );
    let said = session.messages("?role=user").await;
    let texts: Vec<_> = said.iter().map(|said| said["content"].clone()).collect();
    assert_eq!(texts, ["read", "use tabs"]);
    // It began no turn that could be taken back.
    let to = json!({ "to_message_id": said[1]["message_id"], "scope": "conversation" });
    let rewound = session.post(&session.path("rewind/"), to).await;
    rewound.refused(422, "VALIDATION_ERROR");
}
