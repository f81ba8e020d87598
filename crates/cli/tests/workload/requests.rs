//! What the model was sent: every call answered exactly once, and always with the same words.

use std::collections::BTreeMap;

use codelab_fakemodel::is_classification;
use serde_json::Value;

use crate::workload::plan::{Plan, asked_step};

/// What the model was told of each call, by call id.
pub type Told = BTreeMap<String, String>;

/// Checks one request, and adds what it tells.
pub fn check(body: &Value, plans: &BTreeMap<String, Plan>, told: &mut Told) -> Vec<String> {
    if is_classification(body) {
        return Vec::new();
    }
    let mut problems = answered_once(body, told);
    match asked_step(body) {
        Some((text, step)) => match plans.get(text) {
            Some(plan) => problems.extend(as_planned(body, plan, step)),
            None => problems.push(format!(
                "the model was asked about {text:?}, which nobody said"
            )),
        },
        None => problems.push("the model was asked about nothing".to_owned()),
    }
    let said = body["messages"]
        .as_array()
        .into_iter()
        .flatten()
        .filter(|message| message["role"] != "system");
    let said: Vec<String> = said.map(Value::to_string).collect();
    problems
        .into_iter()
        .map(|problem| format!("{problem}; the request:\n{}", said.join("\n")))
        .collect()
}

/// Calls and results alternate: the results of an answer's calls follow it at once, each exactly
/// once.
fn answered_once(body: &Value, told: &mut Told) -> Vec<String> {
    let mut problems = Vec::new();
    let mut open: Vec<&str> = Vec::new();
    let mut closed: Vec<&str> = Vec::new();
    for message in body["messages"].as_array().map_or(&[][..], Vec::as_slice) {
        if message["role"] == "tool" {
            let id = message["tool_call_id"].as_str().unwrap_or_default();
            match open.iter().position(|call| *call == id) {
                Some(place) => closed.push(open.remove(place)),
                None if closed.contains(&id) => {
                    problems.push(format!("the model was told twice of {id}"))
                }
                None => problems.push(format!(
                    "the model was told of {id}, which it did not call there"
                )),
            }
            let content = message["content"].as_str().unwrap_or_default();
            let before = told
                .entry(id.to_owned())
                .or_insert_with(|| content.to_owned());
            if before != content {
                problems.push(format!(
                    "the model was told {before:?} of {id}, then {content:?}"
                ));
            }
            continue;
        }
        if !open.is_empty() {
            problems.push(format!("the model was not told of {open:?}"));
            open.clear();
        }
        for call in message["tool_calls"]
            .as_array()
            .map_or(&[][..], Vec::as_slice)
        {
            let id = call["id"].as_str().unwrap_or_default();
            if closed.contains(&id) || open.contains(&id) {
                problems.push(format!("the call id {id} is used twice"));
            }
            open.push(id);
        }
    }
    if !open.is_empty() {
        problems.push(format!("the model was not told of {open:?}"));
    }
    problems
}

/// The answers of the current turn are the planned ones, each once.
fn as_planned(body: &Value, plan: &Plan, step: usize) -> Vec<String> {
    let messages = body["messages"].as_array().map_or(&[][..], Vec::as_slice);
    let start = messages
        .iter()
        .rposition(|message| message["role"] == "user")
        .unwrap_or(0);
    let answers = messages[start..]
        .iter()
        .filter(|message| message["role"] == "assistant");
    let mut problems = Vec::new();
    for (index, answer) in answers.enumerate() {
        let expected = plan.kept(index).map(|said| said.text);
        if expected.as_deref() != Some(answer["content"].as_str().unwrap_or_default()) {
            problems.push(format!(
                "answer {index} of {} became {}",
                plan.label, answer["content"]
            ));
        }
    }
    if step >= plan.steps.len() {
        problems.push(format!(
            "the model was asked for step {step} of {}, which has ended",
            plan.label
        ));
    }
    problems
}
