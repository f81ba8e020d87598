//! What users may write into projects and agents. Each check takes what was sent and gives what is stored.

use codelab_engine::{FilePattern, MAX_BUDGET_TOKENS, MAX_BUDGET_USD, orchestrator};
use codelab_protocol::{AgentName, ErrorCode, Patch, Tool};
use serde_json::{Map, Value};

use crate::error::{ApiError, ApiResult};

const PROJECT_NAME_CHARS: usize = 200;
const TITLE_CHARS: usize = 200;
const CONTEXT_TEXT_BYTES: usize = 65_536;
const CONTEXT_QUERY_BYTES: usize = 16_384;
const CONTEXT_KIND_CHARS: usize = 64;
const METADATA_BYTES: usize = 16_384;
const WORKSPACE_CHARS: usize = 4096;
const PROJECT_DESCRIPTION_CHARS: usize = 10_000;

const ROLE_CHARS: usize = 100;
const AGENT_DESCRIPTION_CHARS: usize = 2000;
const MODEL_CHARS: usize = 200;
const MAX_TEMPERATURE: f64 = 2.0;
const MAX_TOKENS: u32 = 200_000;
const SYSTEM_PROMPT_BYTES: usize = 65_536;
const MAX_FILE_RESTRICTIONS: usize = 32;
const FILE_RESTRICTION_BYTES: usize = 512;
const MAX_CONCURRENCY: u32 = 64;

pub(crate) fn patch<T, U>(given: Patch<T>, check: impl FnOnce(T) -> ApiResult<U>) -> ApiResult<Patch<U>> {
    Ok(match given {
        Patch::Absent => Patch::Absent,
        Patch::Null => Patch::Null,
        Patch::Value(value) => Patch::Value(check(value)?),
    })
}

/// For what cannot be cleared.
pub(crate) fn not_null<T>(field: &str, given: Patch<T>) -> ApiResult<Option<T>> {
    match given {
        Patch::Absent => Ok(None),
        Patch::Null => Err(wrong(field, "must not be null")),
        Patch::Value(value) => Ok(Some(value)),
    }
}

pub(crate) fn project_name(text: String) -> ApiResult<String> {
    let name = text.trim();
    if name.is_empty() {
        return Err(wrong("name", "must not be blank"));
    }
    if name.chars().any(char::is_control) {
        return Err(wrong("name", "must be one line"));
    }
    at_most("name", PROJECT_NAME_CHARS, name.to_owned())
}

pub(crate) fn title(text: String) -> ApiResult<String> {
    let title = text.trim();
    if title.is_empty() {
        return Err(wrong("title", "must not be blank"));
    }
    if title.chars().any(char::is_control) {
        return Err(wrong("title", "must be one line"));
    }
    at_most("title", TITLE_CHARS, title.to_owned())
}

pub(crate) fn context_text(text: String) -> ApiResult<String> {
    if text.trim().is_empty() {
        return Err(ApiError::missing("text"));
    }
    if text.len() > CONTEXT_TEXT_BYTES {
        return Err(wrong("text", "must be at most 65536 bytes"));
    }
    Ok(text)
}

pub(crate) fn context_query(text: String) -> ApiResult<String> {
    if text.trim().is_empty() {
        return Err(ApiError::missing("query"));
    }
    if text.len() > CONTEXT_QUERY_BYTES {
        return Err(wrong("query", "must be at most 16384 bytes"));
    }
    Ok(text)
}

pub(crate) fn context_kind(text: String) -> ApiResult<String> {
    if text.trim().is_empty() || text.chars().any(char::is_control) {
        return Err(wrong("type", "must be one line that is not blank"));
    }
    at_most("type", CONTEXT_KIND_CHARS, text)
}

pub(crate) fn metadata(given: Map<String, Value>) -> ApiResult<Map<String, Value>> {
    let bytes = serde_json::to_vec(&given).map_or(usize::MAX, |json| json.len());
    if bytes > METADATA_BYTES { Err(wrong("metadata", "must be at most 16384 bytes of JSON")) } else { Ok(given) }
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
    if (0.0..=MAX_BUDGET_USD).contains(&usd) { Ok(usd) } else { Err(wrong("budget_usd", "must be 0 to 1000000000")) }
}

pub(crate) fn budget_tokens(tokens: u64) -> ApiResult<u64> {
    if tokens <= MAX_BUDGET_TOKENS { Ok(tokens) } else { Err(wrong("budget_tokens", "is too large")) }
}

pub(crate) fn agent_name(text: &str) -> ApiResult<AgentName> {
    let is_allowed = text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_');
    let name = AgentName::parse(text).ok().filter(|_| is_allowed);
    let name = name.ok_or_else(|| wrong("name", "must be 1 to 64 characters of a-z 0-9 _"))?;
    if name == orchestrator() {
        // Every project has it already: it plans, and speaks for several agents.
        let taken = format!("name {name} is taken by the one who plans");
        return Err(ApiError::new(ErrorCode::Conflict, taken).with("field", "name"));
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

pub(crate) fn temperature(value: f64) -> ApiResult<f64> {
    if (0.0..=MAX_TEMPERATURE).contains(&value) { Ok(value) } else { Err(wrong("temperature", "must be 0 to 2")) }
}

pub(crate) fn max_tokens(value: u32) -> ApiResult<u32> {
    if (1..=MAX_TOKENS).contains(&value) { Ok(value) } else { Err(wrong("max_tokens", "must be 1 to 200000")) }
}

pub(crate) fn system_prompt(text: String) -> ApiResult<String> {
    if text.len() > SYSTEM_PROMPT_BYTES {
        return Err(wrong("system_prompt", &format!("must be at most {SYSTEM_PROMPT_BYTES} bytes")));
    }
    Ok(text)
}

/// Each tool once, in the order given.
pub(crate) fn tools(given: Vec<Tool>) -> Vec<Tool> {
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
        return Err(wrong(FIELD, &format!("must be at most {MAX_FILE_RESTRICTIONS}")));
    }
    for (index, pattern) in patterns.iter().enumerate() {
        let refused = |why: &str| wrong(FIELD, why).with("index", index);
        if pattern.is_empty() || pattern.len() > FILE_RESTRICTION_BYTES {
            return Err(refused(&format!("must each be 1 to {FILE_RESTRICTION_BYTES} bytes")));
        }
        if FilePattern::parse(pattern).is_err() {
            return Err(refused("must each be a regular expression that compiles"));
        }
    }
    Ok(patterns)
}

pub(crate) fn concurrency_limit(value: u32) -> ApiResult<u32> {
    if (1..=MAX_CONCURRENCY).contains(&value) { Ok(value) } else { Err(wrong("concurrency_limit", "must be 1 to 64")) }
}

fn at_most(field: &str, max_chars: usize, text: String) -> ApiResult<String> {
    if text.chars().count() > max_chars {
        return Err(wrong(field, &format!("must be at most {max_chars} characters")));
    }
    Ok(text)
}

pub(crate) fn wrong(field: &str, why: &str) -> ApiError {
    ApiError::invalid(format!("{field} {why}")).with("field", field)
}
