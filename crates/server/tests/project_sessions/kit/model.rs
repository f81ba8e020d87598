//! What the scripted model is asked in a project, and what it plans.

use serde_json::{Value, json};

/// Whether the model is asked for a plan.
pub fn is_planning(body: &Value) -> bool {
    body["response_format"]["json_schema"]["name"] == "plan"
}

/// Whether the model is asked to make one answer of the tasks' results.
pub fn is_joining(body: &Value) -> bool {
    body["messages"][0]["content"]
        .as_str()
        .is_some_and(|text| text.starts_with("Several agents worked"))
}

/// Whether an agent is asked, and the last thing said to it begins like this.
pub fn says(text: &'static str) -> impl Fn(&Value) -> bool + Send + Sync + 'static {
    move |body| {
        let messages = body["messages"].as_array().map_or(&[][..], Vec::as_slice);
        let said = messages
            .iter()
            .rev()
            .find(|message| message["role"] == "user");
        let said = said
            .and_then(|message| message["content"].as_str())
            .unwrap_or_default();
        !is_planning(body) && !is_joining(body) && said.starts_with(text)
    }
}

/// A task whose description is its name: `Do <id>.`
pub fn task(id: &str, agent: &str, needs: &[&str]) -> Value {
    json!({ "id": id, "agent": agent, "description": format!("Do {id}."), "depends_on": needs, "estimated_tokens": 100 })
}

pub fn tasks(tasks: &[Value]) -> String {
    json!({ "tasks": tasks }).to_string()
}
