//! The built-in offline demonstration model. It uses no network, understands nothing, and gives the
//! same answer to the same request.
//!
//! With it, a server without a configured model can show routing, a tool call, an approval and a
//! plan. Every answer says that it comes from the demonstration. The texts are in `texts`.

mod language;
mod reading;
mod texts;

use std::time::Duration;

use codelab_protocol::{ModelFailure, ModelList, ModelOutput, ModelRequest, RawToolCall, Usage};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use serde_json::{Value, json};

use crate::{Model, ModelDescription, Price, StreamListener, StreamedPart};
use language::DemoLanguage;
use reading::{RequestKind, ToolOutcome};

const DEFAULT_WORD_DELAY: Duration = Duration::from_millis(5);
/// The same estimate as in the rest of CodeLab.
const CHARACTERS_PER_TOKEN: usize = 4;
const DEMO_FILE: &str = "codelab-demo.md";
const TASK_TOKENS: u64 = 500;

/// Answers without a model, free of charge.
#[derive(Debug, Clone)]
pub struct DemoModel {
    word_delay: Duration,
}

impl Default for DemoModel {
    fn default() -> Self {
        Self {
            word_delay: DEFAULT_WORD_DELAY,
        }
    }
}

impl DemoModel {
    /// The pause after each word. With zero the whole answer comes at once.
    pub fn with_word_delay(word_delay: Duration) -> Self {
        Self { word_delay }
    }

    async fn say(&self, text: &str, hear: &mut StreamListener<'_>) {
        for word in text.split_inclusive(' ') {
            hear(StreamedPart::Text(word));
            if !self.word_delay.is_zero() {
                tokio::time::sleep(self.word_delay).await;
            }
        }
    }
}

impl Model for DemoModel {
    fn call<'a>(
        &'a self,
        request: &'a ModelRequest,
        hear: &'a mut StreamListener<'a>,
    ) -> BoxFuture<'a, Result<ModelOutput, ModelFailure>> {
        async move {
            let (text, tool_call) = answer(request);
            self.say(&text, hear).await;
            let usage = Some(usage(request, &text, tool_call.as_ref()));
            Ok(ModelOutput {
                text,
                tool_calls: tool_call.into_iter().collect(),
                usage,
                ..ModelOutput::default()
            })
        }
        .boxed()
    }

    fn try_once<'a>(
        &'a self,
        _request: &'a ModelRequest,
    ) -> BoxFuture<'a, Result<(), ModelFailure>> {
        Box::pin(async { Ok(()) })
    }

    fn price(&self, _: &str) -> Option<Price> {
        Price::per_million(0.0, 0.0)
    }

    fn window(&self, _: &str) -> Option<u64> {
        None
    }

    fn takes_images(&self, _: &str) -> bool {
        true
    }

    /// It has no names to choose from.
    fn models(&self) -> BoxFuture<'_, ModelList> {
        std::future::ready(ModelList::default()).boxed()
    }

    fn describe(&self) -> ModelDescription {
        ModelDescription {
            label: texts::LABEL.to_owned(),
            demo: true,
        }
    }
}

fn answer(request: &ModelRequest) -> (String, Option<RawToolCall>) {
    let said = reading::last_user_text(request);
    let language = DemoLanguage::of(said);
    let phrases = texts::phrases_of_task(said).unwrap_or(texts::phrases(language));
    match reading::what_is_asked(request) {
        RequestKind::Plan => (plan(request, phrases), None),
        RequestKind::Classify => (classification(said), None),
        RequestKind::Join(results) => (format!("{}\n\n{results}", phrases.joined), None),
        RequestKind::Summary(outcome) => (summary(&outcome, phrases), None),
        RequestKind::Answered(answer) => (
            format!("{} {answer}\n\n{}", phrases.answered, phrases.connect),
            None,
        ),
        RequestKind::Step => step(request, said, phrases),
    }
}

/// Each task of the demonstration's own plan shows one feature. Any other request shows as many as
/// possible.
fn step(
    request: &ModelRequest,
    said: &str,
    phrases: &texts::Phrases,
) -> (String, Option<RawToolCall>) {
    let [look, make, tell] = phrases.tasks.map(|task| said.starts_with(task));
    let can = |name: &str| request.tools.iter().any(|tool| tool.name == name);
    match request.tools.is_empty() {
        true => (phrases.plain.to_owned(), None),
        // Without client tools it can only answer, or ask a question if the user wants to see one.
        false if !can("write_file") && !can("list_files") => {
            match (can("ask_followup_question"), texts::wants_a_question(said)) {
                (true, true) => (
                    String::new(),
                    call(request, phrases, &["ask_followup_question"]),
                ),
                (true, false) => (format!("{}\n\n{}", phrases.plain, phrases.try_asking), None),
                (false, _) => (phrases.plain.to_owned(), None),
            }
        }
        false if tell => (phrases.told.to_owned(), None),
        false if look => (
            phrases.opening.to_owned(),
            call(request, phrases, &["list_files"]),
        ),
        false if make => (
            phrases.opening.to_owned(),
            call(request, phrases, &["write_file"]),
        ),
        // Writing a file shows an approval. Without that tool, the folder is listed.
        false => (
            phrases.opening.to_owned(),
            call(request, phrases, &["write_file", "list_files"]),
        ),
    }
}

fn classification(prompt: &str) -> String {
    let agent = reading::fitting_agent(prompt);
    json!({"agent": agent, "confidence": "low", "reason": texts::ROUTING_REASON}).to_string()
}

/// A call of the first of these tools that the request offers.
fn call(request: &ModelRequest, phrases: &texts::Phrases, wanted: &[&str]) -> Option<RawToolCall> {
    let name = *wanted
        .iter()
        .find(|name| request.tools.iter().any(|tool| tool.name == **name))?;
    let arguments = match name {
        "write_file" => json!({"path": DEMO_FILE, "content": phrases.file_content}),
        "ask_followup_question" => json!({"question": phrases.question}),
        _ => json!({"path": "."}),
    };
    Some(RawToolCall {
        name: name.to_owned(),
        arguments: arguments.to_string(),
    })
}

fn summary(outcome: &ToolOutcome, phrases: &texts::Phrases) -> String {
    let told = match outcome {
        ToolOutcome::Rejected => phrases.rejected.to_owned(),
        ToolOutcome::Done(shown) if shown.is_empty() => phrases.done.to_owned(),
        ToolOutcome::Done(shown) => format!("{}\n\n{shown}", phrases.done_with_result),
        ToolOutcome::Failed(shown) => format!("{}\n\n{shown}", phrases.failed),
    };
    format!("{told}\n\n{}", phrases.connect)
}

fn plan(request: &ModelRequest, phrases: &texts::Phrases) -> String {
    let agents = reading::listed_agents(request);
    let pick = |wanted: &str, turn: usize| {
        let fitting = agents.iter().find(|name| name.contains(wanted));
        fitting
            .or_else(|| agents.get(turn % agents.len().max(1)))
            .cloned()
            .unwrap_or_else(|| request.agent.clone())
    };
    let [look, make, check] = phrases.tasks;
    let task = |id: &str, agent: String, description: &str, depends_on: Value| {
        json!({"id": id, "agent": agent, "description": description, "depends_on": depends_on,
            "estimated_tokens": TASK_TOKENS})
    };
    let tasks = [
        task("look", pick("analyzer", 0), look, json!([])),
        task("make", pick("coder", 1), make, json!(["look"])),
        task("check", pick("writer", 2), check, json!(["look", "make"])),
    ];
    json!({"tasks": tasks}).to_string()
}

fn usage(request: &ModelRequest, text: &str, tool_call: Option<&RawToolCall>) -> Usage {
    let tokens = |characters: usize| characters.div_ceil(CHARACTERS_PER_TOKEN) as u64;
    let read = request
        .messages
        .iter()
        .map(|message| reading::content(message).chars().count())
        .sum();
    let written = text.chars().count() + tool_call.map_or(0, |call| call.arguments.chars().count());
    let (prompt_tokens, completion_tokens) = (tokens(read), tokens(written));
    let total_tokens = prompt_tokens + completion_tokens;
    Usage {
        prompt_tokens,
        completion_tokens,
        total_tokens,
        cost_usd: Some(0.0),
        ..Usage::default()
    }
}

#[cfg(test)]
#[path = "demo/tests.rs"]
mod tests;
