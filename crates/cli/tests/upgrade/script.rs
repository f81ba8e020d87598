//! What the scripted model answers, when a fixture is made and when its sessions are continued.
//!
//! A message says in its own words what the model will do with it, so that a session behaves alike
//! under both programs.

use codelab_fakemodel::{FakeModel, Gate, Reply};
use serde_json::{Value, json};

pub const ANSWER: &str = "Done.";

/// What a message has to contain, and what the model then answers.
pub const READ: &str = "read the file";
pub const WRITE: &str = "write the file";
pub const RUN: &str = "run the command";
pub const ASK: &str = "ask me first";
pub const FAIL: &str = "fail this";
/// The model call does not end before the gate opens.
pub const HOLD: &str = "take your time";
pub const PLAN_OF_THREE: &str = "plan three tasks";
pub const PLAN_WITH_ALL_STATES: &str = "plan a task of every state";
pub const PLAN_OF_ONE: &str = "plan one task";
pub const PLAN_THAT_FAILS: &str = "plan a task that fails";

pub fn write(model: &FakeModel, gate: &Gate) {
    model.default_reply(Reply::text(ANSWER));
    let call = |name: &str, arguments: Value| Reply::tool_call(name, arguments);
    let said = |text: &'static str, reply: Reply| {
        model.on(move |body| last_message(body).contains(text), reply);
    };
    said(READ, call("read_file", json!({"path": "src/main.rs"})));
    let file =
        json!({"path": "notes.txt", "content": "Заметка: it's \"quoted\"\n\tand \\ escaped"});
    said(WRITE, call("write_file", file));
    said(
        RUN,
        call("execute_command", json!({"command": "rm -rf build"})),
    );
    let question = json!({"question": "Which one?", "options": ["this", "that"]});
    said(ASK, call("ask_followup_question", question));
    said(
        FAIL,
        Reply::status(400, r#"{"error": {"message": "scripted failure"}}"#),
    );
    said(HOLD, Reply::text(ANSWER).hold(gate));
    plans(model);
    model.route_to("coder");
}

fn plans(model: &FakeModel) {
    let plan = |request: &'static str, tasks: Value| {
        let is_asked = move |body: &Value| is_planning(body) && says(body, request);
        model.on(is_asked, Reply::text(json!({ "tasks": tasks }).to_string()));
    };
    let one = json!([task("only", "coder", "Do it.", &[])]);
    plan(PLAN_OF_ONE, one);
    let three = json!([
        task("a", "coder", "Do the first part.", &[]),
        task("b", "writer", "Do the second part.", &["a"]),
        task("c", "analyzer", "Do the third part.", &["a", "b"]),
    ]);
    plan(PLAN_OF_THREE, three);
    let states = json!([
        task("done", "analyzer", "Do this part.", &[]),
        task("approval", "coder", &format!("Please {WRITE}."), &[]),
        task("question", "researcher", &format!("Please {ASK}."), &[]),
        task("call", "coder", &format!("Please {READ}."), &[]),
        task("running", "writer", &format!("Please {HOLD}."), &[]),
        task(
            "later",
            "analyzer",
            "Do the rest.",
            &["approval", "question"]
        ),
    ]);
    plan(PLAN_WITH_ALL_STATES, states);
    let failing = json!([
        task("good", "analyzer", "Do this part.", &[]),
        task("bad", "coder", &format!("Please {FAIL}."), &[]),
    ]);
    plan(PLAN_THAT_FAILS, failing);
}

fn task(id: &str, agent: &str, description: &str, needs: &[&str]) -> Value {
    json!({"id": id, "agent": agent, "description": description, "depends_on": needs, "estimated_tokens": 10})
}

fn is_planning(body: &Value) -> bool {
    body["response_format"]["json_schema"]["name"] == "plan"
}

fn says(body: &Value, text: &str) -> bool {
    body["messages"].to_string().contains(text)
}

/// What the last message of a person says, if nothing followed it but notes of the system.
fn last_message(body: &Value) -> &str {
    let messages = body["messages"].as_array().map_or(&[][..], Vec::as_slice);
    let last = messages.iter().rfind(|message| message["role"] != "system");
    last.filter(|message| message["role"] == "user")
        .and_then(|message| message["content"].as_str())
        .unwrap_or_default()
}
