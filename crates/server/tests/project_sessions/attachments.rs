//! Files of messages: what models get of them, who reads them, and when they are gone.

use codelab_protocol::{Digest, NewAttachment};
use codelab_testkit::{Gate, Reply, TestServer};
use serde_json::{Value, json};

use crate::kit::{
    Person, Session, is_planning, server, server_of_anthropic, server_with, task, tasks,
};

const PNG: &[u8] = b"\x89PNG\r\n\x1a\nan image";

fn png(name: &str) -> Value {
    json!(NewAttachment::new(name, "image/png", PNG))
}

fn text(name: &str, content: &str) -> Value {
    json!(NewAttachment::new(name, "text/plain", content.as_bytes()))
}

fn message(content: &str, attachments: Value) -> Value {
    json!({ "content": content, "target_agent": "coder", "attachments": attachments })
}

/// What messages show of the image.
fn shown(name: &str) -> Value {
    json!({ "name": name, "media_type": "image/png", "size": PNG.len(),
        "digest": Digest::of_bytes(PNG) })
}

fn data_url() -> String {
    format!(
        "data:image/png;base64,{}",
        png("a.png")["data"].as_str().unwrap()
    )
}

/// A session whose agents use this model.
async fn session_with_model(server: &TestServer, model: &str) -> Session {
    let session = Person::new(server, 1).session().await;
    choose(&session, model).await;
    session
}

async fn choose(session: &Session, model: &str) {
    let path = format!("/my/chat/sessions/{}", session.id);
    let body = Some(json!({ "model": model }));
    session.ask("PATCH", &path, body).await.expect(200);
}

fn attachment(session: &Session) -> String {
    session.path(&format!("attachments/{}", Digest::of_bytes(PNG)))
}

/// The images in all that the model was asked last.
fn images(request: &Value) -> Vec<String> {
    let messages = request["messages"].as_array().unwrap();
    let parts = messages
        .iter()
        .filter_map(|said| said["content"].as_array());
    let images = parts.flatten().filter(|part| part["type"] == "image_url");
    images
        .map(|part| part["image_url"]["url"].as_str().unwrap().to_owned())
        .collect()
}

fn last_request(server: &TestServer) -> Value {
    server.model.requests().pop().unwrap().body
}

#[tokio::test]
async fn an_image_and_a_text_reach_the_model_and_stay_with_the_session() {
    let mut server = server().await;
    let session = session_with_model(&server, "gpt-4o").await;
    let files = json!([png("a.png"), text("notes.txt", "two\nlines")]);
    session
        .send(message("What is this?", files))
        .await
        .expect(200);
    let said = "What is this?\n\n[Image \"a.png\"]\n\nFile \"notes.txt\":\n\n```\ntwo\nlines\n```";
    let request = last_request(&server);
    let asked = request["messages"].as_array().unwrap().last().unwrap();
    assert_eq!(
        asked["content"],
        json!([
            { "type": "text", "text": said },
            { "type": "image_url", "image_url": { "url": data_url() } },
        ])
    );

    let notes = json!({ "name": "notes.txt", "media_type": "text/plain", "size": 9,
        "digest": Digest::of_bytes(b"two\nlines") });
    let expected = json!([shown("a.png"), notes]);
    assert_eq!(session.messages("").await[0]["attachments"], expected);
    assert_eq!(session.messages("").await[0]["content"], "What is this?");
    let log = session.log().await;
    assert_eq!(log.all("message_created")[0]["attachments"], expected);
    let export = format!("/my/chat/sessions/{}/export/", session.id);
    let written = session.file(&export).await.text().await.unwrap();
    let line = format!("*Attached: a.png (image/png, {} bytes)*", PNG.len());
    assert!(written.contains(&line), "{written}");
    let exported = session
        .get(&format!("{export}?format=json"))
        .await
        .expect(200);
    assert_eq!(exported["messages"][0]["attachments"], expected);

    // A later turn, also of a server that started meanwhile, still shows the image.
    server.restart().await;
    let session = session.seen_by(&Person::new(&server, 1));
    session.call("coder", "Are you sure?").await.expect(200);
    assert_eq!(images(&last_request(&server)), [data_url()]);
}

#[tokio::test]
async fn a_file_is_read_by_its_owner_until_its_last_session_is_deleted() {
    let server = server().await;
    let (first, second) = (
        session_with_model(&server, "gpt-4o").await,
        session_with_model(&server, "gpt-4o").await,
    );
    for (session, name) in [(&first, "a b.png"), (&second, "other.png")] {
        session
            .send(message("Look", json!([png(name)])))
            .await
            .expect(200);
    }
    let answer = first.file(&attachment(&first)).await;
    assert_eq!(answer.status().as_u16(), 200);
    let header = |name: &str| answer.headers()[name].to_str().unwrap().to_owned();
    assert_eq!(header("content-type"), "image/png");
    assert_eq!(header("x-content-type-options"), "nosniff");
    assert_eq!(
        header("content-disposition"),
        "inline; filename*=UTF-8''a%20b.png"
    );
    let policy = header("content-security-policy");
    assert!(
        policy.contains("default-src 'none'") && policy.contains("sandbox"),
        "{policy}"
    );
    assert_eq!(header("cross-origin-resource-policy"), "same-origin");
    assert_eq!(header("cache-control"), "no-store");
    assert_eq!(&*answer.bytes().await.unwrap(), PNG);
    // A script of the same server would be one that the page's policy allows.
    let script = NewAttachment::new("a.js", "text/javascript", b"alert(1)");
    let told = first.send(message("Read", json!([script]))).await;
    told.expect(200);
    let script = first.path(&format!("attachments/{}", Digest::of_bytes(b"alert(1)")));
    let answer = first.file(&script).await;
    assert_eq!(
        answer.headers()["content-type"],
        "text/plain; charset=utf-8"
    );
    assert_eq!(&*answer.bytes().await.unwrap(), b"alert(1)");

    let stranger = first.seen_by(&Person::new(&server, 2));
    stranger
        .get(&attachment(&first))
        .await
        .refused(404, "SESSION_NOT_FOUND");
    let empty = Person::new(&server, 1).session().await;
    for path in [
        attachment(&empty),
        first.path("attachments/x"),
        first.path(&format!("attachments/{}", Digest::of_bytes(b"?"))),
    ] {
        first.get(&path).await.refused(404, "NOT_FOUND");
    }
    let delete = format!("/my/chat/sessions/{}", first.id);
    first.ask("DELETE", &delete, None).await.expect(204);
    first
        .get(&attachment(&first))
        .await
        .refused(404, "SESSION_NOT_FOUND");
    assert_eq!(second.file(&attachment(&second)).await.status(), 200);
}

#[tokio::test]
async fn a_file_that_cannot_be_used_is_refused_and_nothing_is_stored() {
    let server = server().await;
    let session = session_with_model(&server, "gpt-4o").await;
    let with = |key: &str, value: &str| {
        let mut file = png("a.png");
        file[key] = json!(value);
        json!([file])
    };
    for (attachments, told) in [
        (with("data", "%%%"), "data is not valid base64"),
        (with("name", " "), "needs a name"),
        (with("media_type", "png"), "must be a media type"),
        (with("media_type", "image/jpeg"), "not the image/jpeg image"),
        (with("media_type", "text/plain"), "neither shown nor read"),
        (
            with("media_type", "application/pdf"),
            "neither shown nor read",
        ),
        (with("name", "a\u{202e}gnp.js"), "order of its letters"),
        (json!(vec![png("a.png"); 9]), "at most 8 attachments"),
    ] {
        let refused = session.send(message("Look", attachments)).await;
        refused.refused(422, "VALIDATION_ERROR");
        let detail = refused.body["detail"].as_str().unwrap();
        assert!(detail.contains(told), "{detail}");
        assert_eq!(refused.body["details"]["field"], "attachments");
    }
    let mut nameless = png("a.png");
    nameless.as_object_mut().unwrap().remove("name");
    let refused = session.send(message("Look", json!([nameless]))).await;
    refused.refused(422, "MISSING_REQUIRED_FIELD");
    assert_eq!(session.messages("").await.len(), 0);
    session
        .get(&attachment(&session))
        .await
        .refused(404, "NOT_FOUND");
    let most = json!(vec![png("a.png"); 8]);
    session.send(message("Look", most)).await.expect(200);
}

#[tokio::test]
async fn images_go_only_to_models_that_take_them() {
    let server = server_with(&[
        ("CODELAB_MODELS__blind__IMAGES", "false"),
        (
            "CODELAB_LLM__FALLBACK_MODELS",
            "[\"gpt-3.5-turbo\", \"gpt-4o-mini\"]",
        ),
    ])
    .await;
    let session = session_with_model(&server, "gpt-3.5-turbo").await;
    for model in ["gpt-3.5-turbo", "blind"] {
        choose(&session, model).await;
        let refused = session.send(message("Look", json!([png("a.png")]))).await;
        refused.refused(422, "VALIDATION_ERROR");
        let detail = refused.body["detail"].as_str().unwrap();
        let told = format!("The model {model} of agent_coder does not take images.");
        assert!(detail.contains(&told), "{detail}");
        assert_eq!(refused.body["details"]["model"], model);
    }
    assert_eq!(session.messages("").await.len(), 0);
    session
        .send(message("Read", json!([text("a.txt", "hello")])))
        .await
        .expect(200);
    assert_eq!(
        session.messages("").await.len(),
        2,
        "texts are for everybody"
    );

    // One of which nothing is known is believed to take them.
    choose(&session, "unheard-of").await;
    session
        .send(message("Look", json!([png("a.png")])))
        .await
        .expect(200);
    assert_eq!(images(&last_request(&server)), [data_url()]);
    // Its fallback that takes none is passed over.
    server.model.on(
        |body| body["model"] == "unheard-of",
        Reply::status(429, "later"),
    );
    session.call("coder", "Again").await.expect(200);
    let request = last_request(&server);
    assert_eq!(request["model"], "gpt-4o-mini");
    assert_eq!(images(&request), [data_url()]);
    // A model that is chosen later is told the name.
    choose(&session, "blind").await;
    session.call("coder", "And you?").await.expect(200);
    let request = last_request(&server);
    assert_eq!(images(&request).len(), 0);
    assert!(
        request.to_string().contains("It cannot be shown to you"),
        "{request:#}"
    );
}

#[tokio::test]
async fn every_task_of_a_plan_gets_the_image_or_its_name() {
    let server = server().await;
    let session = Person::new(&server, 1).session().await;
    let plan = [task("a", "coder", &[]), task("b", "writer", &["a"])];
    server.model.on(is_planning, Reply::text(tasks(&plan)));
    for (model, expected) in [("gpt-4o", vec![data_url()]), ("gpt-3.5-turbo", vec![])] {
        choose(&session, model).await;
        let before = server.model.request_count();
        let body = json!({ "content": "Build this", "attachments": [png("a.png")] });
        let seen = session.stream(body).await.all().await;
        assert_eq!(seen.status(), "completed");
        let asked = server.model.requests().split_off(before);
        // The orchestrator's own calls use the server's model.
        let of_tasks: Vec<_> = asked
            .iter()
            .filter(|request| request.body["model"] == model)
            .collect();
        assert_eq!(of_tasks.len(), 2);
        for request in of_tasks {
            let last = request.body["messages"].as_array().unwrap().last().unwrap();
            let in_task = json!({ "messages": [last] });
            assert_eq!(images(&in_task), expected, "{:#}", request.body);
            assert!(last.to_string().contains("a.png"), "{last:#}");
        }
    }
}

/// The messages of a request that tell a task what to do.
fn of_task(request: &Value) -> Value {
    let messages = request["messages"].as_array().unwrap().iter();
    let of_task =
        messages.filter(|said| said["role"] == "user" && said.to_string().contains("Do a."));
    json!({ "messages": of_task.collect::<Vec<_>>() })
}

fn is_task(request: &Value) -> bool {
    !is_planning(request) && of_task(request)["messages"] != json!([])
}

/// With 1 message of earlier turns, the plan's request is read from the store.
#[tokio::test]
async fn a_plan_that_is_run_again_gets_the_files_of_its_own_request() {
    const OTHER: &[u8] = b"\x89PNG\r\n\x1a\nanother image";
    for kept in ["10", "1"] {
        let settings = [("CODELAB_CONTEXT__MESSAGES", kept), ("LLM_MODEL", "gpt-4o")];
        let server = server_with(&settings).await;
        let session = Person::new(&server, 1).session().await;
        choose(&session, "gpt-4o").await;
        let plan = Reply::text(tasks(&[task("a", "coder", &[])]));
        server.model.on(is_planning, plan);
        server.model.on(is_task, Reply::status(400, "no"));
        let body = json!({ "content": "Build this", "attachments": [png("a.png")] });
        assert_eq!(session.stream(body).await.all().await.status(), "failed");
        let plan = session.plan().await["plan_id"].as_str().unwrap().to_owned();
        let other = NewAttachment::new("b.png", "image/png", OTHER);
        let between = session.send(message("Look", json!([other]))).await;
        between.expect(200);

        server.model.on(is_task, Reply::text("Built."));
        let again = session.path(&format!("plans/{plan}/retry/"));
        session.ask("POST", &again, None).await.expect(200);
        session
            .wait_for("workflow_completed", |data| data["status"] == "completed")
            .await;
        let asked = server.model.requests();
        let last = asked.iter().rfind(|request| is_task(&request.body));
        let told = of_task(&last.unwrap().body);
        assert_eq!(images(&told), [data_url()], "{kept} kept: {told:#}");
    }
}

#[tokio::test]
async fn a_repeat_is_answered_also_when_the_model_takes_no_images_any_more() {
    let server = server().await;
    let session = session_with_model(&server, "gpt-4o").await;
    let mut body = message("Look", json!([png("a.png")]));
    body["client_message_id"] = json!("m-1");
    let first = session.send(body.clone()).await.expect(200);
    choose(&session, "gpt-3.5-turbo").await;
    let again = session.send(body.clone()).await.expect(200);
    assert_eq!(again["response"], first["response"]);
    assert_eq!(session.messages("?role=user").await.len(), 1);
    body["client_message_id"] = json!("m-2");
    let new = session.send(body).await;
    new.refused(422, "VALIDATION_ERROR");
}

#[tokio::test]
async fn a_message_keeps_its_files_in_the_queue_and_when_it_is_sent_again() {
    let server = server().await;
    let session = session_with_model(&server, "gpt-4o").await;
    let gate = Gate::new();
    server.model.reply(Reply::text("First.").hold(&gate));
    let first = session.stream_call("coder", "first").await;
    gate.reached().await;
    server.model.reply(Reply::status(400, "no"));
    let queued = session.stream(message("Look", json!([png("a.png")]))).await;
    let waits = session.wait_for("message_queued", |_| true).await;
    assert_eq!(waits.data["attachments"], json!([shown("a.png")]));
    gate.open();
    first.all().await;
    assert_eq!(queued.all().await.status(), "failed");
    assert_eq!(images(&last_request(&server)), [data_url()]);
    let retried = session.post(&session.path("retry/"), json!({})).await;
    retried.expect(200);
    let request = last_request(&server);
    let asked = request["messages"].as_array().unwrap().last().unwrap();
    assert_eq!(images(&json!({ "messages": [asked] })), [data_url()]);
    let said = session.messages("?role=user").await;
    assert_eq!(said[2]["attachments"], json!([shown("a.png")]));
    assert_eq!(said[2]["retries"], said[1]["message_id"]);
}

/// The tool runner sends the image as the result of `read_file`.
#[tokio::test]
async fn an_image_that_a_tool_read_is_shown_to_the_model() {
    let server = server().await;
    for (model, expected) in [("gpt-4o", vec![data_url()]), ("gpt-3.5-turbo", vec![])] {
        let session = session_with_model(&server, model).await;
        let arguments = json!({ "path": "img/a.png" });
        server.model.reply(Reply::tool_call("read_file", arguments));
        let answer = session.call("coder", "What is in it?").await.expect(200);
        let call = answer["pending"]["call_id"].as_str().unwrap();
        session.claim(call, "laptop").await.expect(200);
        let result = json!({ "success": true, "image": png("a.png"), "size": PNG.len() });
        session
            .result(call, "laptop", result.clone())
            .await
            .expect(200);
        session.wait_for("task_completed", |_| true).await;
        let request = last_request(&server);
        assert_eq!(images(&request), expected);
        let messages = request["messages"].as_array().unwrap();
        let result_at = messages.iter().rposition(|said| said["role"] == "tool");
        let told = messages[result_at.unwrap()]["content"].as_str().unwrap();
        assert!(told.contains("a.png") && !told.contains("base64"), "{told}");
        assert_eq!(
            told.contains("It cannot be shown to you"),
            expected.is_empty(),
            "{told}"
        );
        let stored = session.messages("?role=tool").await;
        assert_eq!(stored[0]["attachments"], json!([shown("a.png")]));
        let event = session.log().await.one("tool_result").clone();
        assert_eq!(event["result"]["image"], shown("a.png"));
        assert_eq!(session.file(&attachment(&session)).await.status(), 200);
        // A repeat is known by the same digest.
        let again = session.result(call, "laptop", result).await.expect(200);
        assert_eq!(again["duplicate"], true);
    }
}

#[tokio::test]
async fn the_other_wire_has_images_too() {
    let (server, claude) = server_of_anthropic().await;
    let session = Person::new(&server, 1).session().await;
    claude.reply(Reply::text("A cat."));
    session
        .send(message("What is this?", json!([png("a.png")])))
        .await
        .expect(200);
    let request = claude.requests().pop().unwrap().body;
    let blocks = request["messages"][0]["content"].as_array().unwrap();
    assert_eq!(blocks[0]["text"], "What is this?\n\n[Image \"a.png\"]");
    let source =
        json!({ "type": "base64", "media_type": "image/png", "data": png("a.png")["data"] });
    assert_eq!(
        (&blocks[1]["type"], &blocks[1]["source"]),
        (&json!("image"), &source)
    );
}

/// A message with an image that names nobody answers the question, and the agent sees the image.
#[tokio::test]
async fn an_image_can_be_the_answer_to_a_question() {
    let server = server().await;
    let session = session_with_model(&server, "gpt-4o").await;
    let question = json!({ "question": "How does it look?" });
    server
        .model
        .reply(Reply::tool_call("ask_followup_question", question));
    let asked = session.call("coder", "mend the page").await.expect(200);
    assert_eq!(asked["status"], "awaiting_answer", "{asked:#}");
    let answer = json!({ "content": "like this", "attachments": [png("a.png")] });
    session.send(answer).await;
    session.wait_for("task_completed", |_| true).await;
    let sent = server.model.requests();
    assert_eq!(images(&sent.last().unwrap().body), [data_url()]);
    let said = session.messages("?role=user").await;
    assert_eq!(said[1]["answers"], asked["pending"]["call_id"], "{said:#?}");
    assert_eq!(said[1]["attachments"], json!([shown("a.png")]));

    // A model that takes none is not asked, and the question stays open.
    choose(&session, "gpt-3.5-turbo").await;
    let question = json!({ "question": "And now?" });
    server
        .model
        .reply(Reply::tool_call("ask_followup_question", question));
    session.call("coder", "again").await.expect(200);
    let answer = json!({ "content": "so", "attachments": [png("b.png")] });
    session.send(answer).await.refused(422, "VALIDATION_ERROR");
    assert_eq!(session.detail().await["asks"], true);
}

/// A prompt has at most 16 MiB of files: the oldest are only named.
#[tokio::test]
async fn older_files_are_only_named_where_all_would_be_too_large() {
    const SIZE: usize = 3_900_000;
    let server = server_with(&[("CODELAB_CONTEXT__TOKENS", "1000000")]).await;
    let session = session_with_model(&server, "gpt-4o").await;
    for number in 0..5u8 {
        let mut content = PNG.to_vec();
        content.resize(SIZE, number);
        let name = format!("{number}.png");
        let image = NewAttachment::new(&name, "image/png", &content);
        session
            .send(message("look", json!([image])))
            .await
            .expect(200);
    }
    let sent = server.model.requests();
    let request = &sent.last().unwrap().body;
    assert_eq!(images(request).len(), 4, "the newest ones");
    let named = request["messages"].to_string();
    assert!(named.contains("0.png"), "the oldest one is named");
}
