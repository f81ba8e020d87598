//! Checks of what users write into projects and agents. Each check gets the value from the request
//! and returns the value to store.

use std::fmt::Display;

use codelab_engine::{FilePattern, MAX_BUDGET_TOKENS, MAX_BUDGET_USD, orchestrator};
use codelab_protocol::{AgentName, AllowedTool, ErrorCode, Patch};
use codelab_store::SearchWords;
use serde_json::{Map, Value};

use crate::error::{ApiError, ApiResult};

const PROJECT_NAME_CHARS: usize = 200;
const TITLE_CHARS: usize = 200;
const SEARCH_CHARS: usize = 200;
const CONTEXT_TEXT_BYTES: usize = 65_536;
const CONTEXT_QUERY_BYTES: usize = 16_384;
const CONTEXT_KIND_CHARS: usize = 64;
const METADATA_BYTES: usize = 16_384;
const WORKSPACE_CHARS: usize = 4096;
const PROJECT_DESCRIPTION_CHARS: usize = 10_000;

const ROLE_CHARS: usize = 100;
const AGENT_DESCRIPTION_CHARS: usize = 2000;
const MODEL_CHARS: usize = 200;
const AGENT_CHARS: usize = 200;
/// Models that are tried in turn for one call.
pub(crate) const MAX_FALLBACK_MODELS: usize = 8;
const MAX_TEMPERATURE: f64 = 2.0;
const MAX_TOKENS: u32 = 200_000;
const SYSTEM_PROMPT_BYTES: usize = 65_536;
const MAX_FILE_RESTRICTIONS: usize = 32;
const FILE_RESTRICTION_BYTES: usize = 512;
const MAX_CONCURRENCY: u32 = 64;

pub(crate) fn patch<T, U>(
    given: Patch<T>,
    check: impl FnOnce(T) -> ApiResult<U>,
) -> ApiResult<Patch<U>> {
    Ok(match given {
        Patch::Absent => Patch::Absent,
        Patch::Null => Patch::Null,
        Patch::Value(value) => Patch::Value(check(value)?),
    })
}

/// For a field that cannot be cleared.
pub(crate) fn not_null<T>(field: &str, given: Patch<T>) -> ApiResult<Option<T>> {
    match given {
        Patch::Absent => Ok(None),
        Patch::Null => Err(wrong(field, "must not be null")),
        Patch::Value(value) => Ok(Some(value)),
    }
}

pub(crate) fn project_name(text: String) -> ApiResult<String> {
    heading("name", PROJECT_NAME_CHARS, &text)
}

pub(crate) fn title(text: String) -> ApiResult<String> {
    heading("title", TITLE_CHARS, &text)
}

/// The words of a search. A blank one is none.
pub(crate) fn search(text: String) -> ApiResult<Option<SearchWords>> {
    let text = at_most("q", SEARCH_CHARS, text)?;
    if text.trim().is_empty() {
        return Ok(None);
    }
    let words = SearchWords::parse(&text).ok_or_else(|| {
        wrong(
            "q",
            &format!("must have at most {} words", SearchWords::MAX),
        )
    })?;
    Ok(Some(words))
}

pub(crate) fn context_text(text: String) -> ApiResult<String> {
    said("text", CONTEXT_TEXT_BYTES, text)
}

pub(crate) fn context_query(text: String) -> ApiResult<String> {
    said("query", CONTEXT_QUERY_BYTES, text)
}

pub(crate) fn context_kind(text: String) -> ApiResult<String> {
    if text.trim().is_empty() || text.chars().any(char::is_control) {
        return Err(wrong("type", "must be one line that is not blank"));
    }
    at_most("type", CONTEXT_KIND_CHARS, text)
}

pub(crate) fn metadata(given: Map<String, Value>) -> ApiResult<Map<String, Value>> {
    let bytes = serde_json::to_vec(&given).map_or(usize::MAX, |json| json.len());
    if bytes > METADATA_BYTES {
        return Err(wrong(
            "metadata",
            &format!("must be at most {METADATA_BYTES} bytes of JSON"),
        ));
    }
    Ok(given)
}

pub(crate) fn workspace(text: String) -> ApiResult<String> {
    if text.chars().any(char::is_control) {
        return Err(wrong("workspace", "must be one line"));
    }
    at_most("workspace", WORKSPACE_CHARS, text)
}

pub(crate) fn project_description(text: String) -> ApiResult<String> {
    at_most("description", PROJECT_DESCRIPTION_CHARS, text)
}

pub(crate) fn budget_usd(usd: f64) -> ApiResult<f64> {
    within("budget_usd", 0.0, MAX_BUDGET_USD, usd)
}

pub(crate) fn budget_tokens(tokens: u64) -> ApiResult<u64> {
    within("budget_tokens", 0, MAX_BUDGET_TOKENS, tokens)
}

pub(crate) fn agent_name(text: &str) -> ApiResult<AgentName> {
    let is_allowed = text
        .bytes()
        .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_');
    let name = AgentName::parse(text).ok().filter(|_| is_allowed);
    let name = name.ok_or_else(|| wrong("name", "must be 1 to 64 characters of a-z 0-9 _"))?;
    if name == orchestrator() {
        // Every project has this agent: it plans, and answers for several agents.
        let message = format!("name {name} is reserved for the agent that plans");
        return Err(ApiError::new(ErrorCode::Conflict, message).with("field", "name"));
    }
    Ok(name)
}

pub(crate) fn role(text: String) -> ApiResult<String> {
    if text.chars().any(char::is_control) {
        return Err(wrong("role", "must be one line"));
    }
    at_most("role", ROLE_CHARS, text)
}

pub(crate) fn agent_description(text: String) -> ApiResult<String> {
    at_most("description", AGENT_DESCRIPTION_CHARS, text)
}

pub(crate) fn model(text: String) -> ApiResult<String> {
    let model = text.trim();
    if model.is_empty() || model.chars().any(|c| c.is_control() || c.is_whitespace()) {
        return Err(wrong("model", "must be the name of a model"));
    }
    at_most("model", MODEL_CHARS, model.to_owned())
}

/// An agent's id or name; whether it exists is looked up.
pub(crate) fn agent(text: String) -> ApiResult<String> {
    let agent = text.trim();
    if agent.is_empty() {
        return Err(wrong("agent", "must name an agent"));
    }
    at_most("agent", AGENT_CHARS, agent.to_owned())
}

pub(crate) fn fallback_models(names: Vec<String>) -> ApiResult<Vec<String>> {
    if names.len() > MAX_FALLBACK_MODELS {
        let why = format!("has at most {MAX_FALLBACK_MODELS} models");
        return Err(wrong("fallback_models", &why));
    }
    names.into_iter().map(model).collect()
}

pub(crate) fn temperature(value: f64) -> ApiResult<f64> {
    within("temperature", 0.0, MAX_TEMPERATURE, value)
}

pub(crate) fn max_tokens(value: u32) -> ApiResult<u32> {
    within("max_tokens", 1, MAX_TOKENS, value)
}

pub(crate) fn system_prompt(text: String) -> ApiResult<String> {
    at_most_bytes("system_prompt", SYSTEM_PROMPT_BYTES, text)
}

/// Each tool once, in the order given.
pub(crate) fn tools(given: Vec<AllowedTool>) -> Vec<AllowedTool> {
    let mut tools = Vec::new();
    for tool in given {
        if !tools.contains(&tool) {
            tools.push(tool);
        }
    }
    tools
}

pub(crate) fn file_restrictions(patterns: Vec<String>) -> ApiResult<Vec<String>> {
    const FIELD: &str = "file_restrictions";
    if patterns.len() > MAX_FILE_RESTRICTIONS {
        return Err(wrong(
            FIELD,
            &format!("must be at most {MAX_FILE_RESTRICTIONS}"),
        ));
    }
    for (index, pattern) in patterns.iter().enumerate() {
        let refused = |why: &str| wrong(FIELD, why).with("index", index);
        if pattern.is_empty() || pattern.len() > FILE_RESTRICTION_BYTES {
            return Err(refused(&format!(
                "must each be 1 to {FILE_RESTRICTION_BYTES} bytes"
            )));
        }
        if FilePattern::parse(pattern).is_err() {
            return Err(refused("must each be a regular expression that compiles"));
        }
    }
    Ok(patterns)
}

pub(crate) fn concurrency_limit(value: u32) -> ApiResult<u32> {
    within("concurrency_limit", 1, MAX_CONCURRENCY, value)
}

/// Also for query parameters.
pub(crate) fn within<T: PartialOrd + Display>(
    field: &str,
    min: T,
    max: T,
    value: T,
) -> ApiResult<T> {
    if (&min..=&max).contains(&&value) {
        Ok(value)
    } else {
        Err(wrong(field, &format!("must be {min} to {max}")))
    }
}

/// One line that is not blank.
fn heading(field: &str, max_chars: usize, text: &str) -> ApiResult<String> {
    let text = text.trim();
    if text.is_empty() {
        return Err(wrong(field, "must not be blank"));
    }
    if text.chars().any(char::is_control) {
        return Err(wrong(field, "must be one line"));
    }
    at_most(field, max_chars, text.to_owned())
}

/// A text with any number of lines. A blank one counts as missing.
fn said(field: &str, max_bytes: usize, text: String) -> ApiResult<String> {
    if text.trim().is_empty() {
        return Err(ApiError::missing(field));
    }
    at_most_bytes(field, max_bytes, text)
}

fn at_most(field: &str, max_chars: usize, text: String) -> ApiResult<String> {
    if text.chars().count() > max_chars {
        return Err(wrong(
            field,
            &format!("must be at most {max_chars} characters"),
        ));
    }
    Ok(text)
}

fn at_most_bytes(field: &str, max_bytes: usize, text: String) -> ApiResult<String> {
    if text.len() > max_bytes {
        return Err(wrong(field, &format!("must be at most {max_bytes} bytes")));
    }
    Ok(text)
}

pub(crate) fn wrong(field: &str, why: &str) -> ApiError {
    ApiError::invalid(format!("{field} {why}")).with("field", field)
}
