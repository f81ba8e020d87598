//! Messages for failed model calls. Users see every text here, so it holds no address, no key and
//! nothing that the model server said.

use std::time::{Duration, SystemTime};

use codelab_protocol::{ErrorCode, ModelFailure, Timestamp};
use http::StatusCode;
use serde_json::{Map, Value, json};

use super::answer::Defect;
use super::deadline::Expired;

pub fn unavailable(model: &str) -> ModelFailure {
    failure(
        ErrorCode::LlmProxyUnavailable,
        "The model server cannot be reached.".to_owned(),
        details(model),
    )
}

pub fn timed_out(expired: Expired, limit: Duration, model: &str) -> ModelFailure {
    let seconds = seconds(limit);
    let message = match expired {
        Expired::Total => format!("The model did not finish its answer within {seconds} seconds."),
        Expired::Idle => format!("The model sent nothing for {seconds} seconds."),
    };
    let mut details = Map::new();
    details.insert("timeout_seconds".to_owned(), seconds);
    details.insert("model".to_owned(), model.into());
    failure(ErrorCode::LlmTimeout, message, details)
}

pub fn refused(status: StatusCode, model: &str) -> ModelFailure {
    let code = status.as_u16();
    let message = match code {
        401 | 403 => format!("The model server refused the key (HTTP {code}). Check LLM_API_KEY."),
        404 => format!(
            "The model server does not know the model \"{model}\" or its own address (HTTP 404)."
        ),
        500..=599 => format!("The model server failed (HTTP {code})."),
        _ => format!("The model server refused the request (HTTP {code})."),
    };
    let mut details = details(model);
    details.insert("status".to_owned(), code.into());
    failure(ErrorCode::LlmError, message, details)
}

/// The server redirects. The request is not repeated elsewhere, because it carries the key.
pub fn redirected(status: StatusCode, model: &str) -> ModelFailure {
    let code = status.as_u16();
    let message = format!(
        "The model server redirects to another address (HTTP {code}). Redirects are not followed, \
         because they would carry the key along. Set LLM_PROXY_URL to the new address; the \
         server's log names its host."
    );
    let mut details = details(model);
    details.insert("status".to_owned(), code.into());
    failure(ErrorCode::LlmError, message, details)
}

/// `wait` is the time that the server announced.
pub fn rate_limited(wait: Option<Duration>, now: SystemTime, model: &str) -> ModelFailure {
    let mut details = details(model);
    details.insert(
        "status".to_owned(),
        StatusCode::TOO_MANY_REQUESTS.as_u16().into(),
    );
    details.insert("kind".to_owned(), "rate_limit".into());
    let message = match wait.and_then(|wait| {
        now.checked_add(wait)
            .map(|until| (wait, Timestamp::from(until)))
    }) {
        Some((wait, until)) => {
            details.insert("until".to_owned(), until.to_string().into());
            details.insert("retry_after_seconds".to_owned(), whole_seconds(wait).into());
            format!("The model server is rate limited until {until}.")
        }
        None => "The model server is rate limited (HTTP 429). Try again later.".to_owned(),
    };
    failure(ErrorCode::LlmError, message, details)
}

/// The connection broke before an answer began.
pub fn dropped(model: &str) -> ModelFailure {
    let message = "The model server closed the connection without an answer.".to_owned();
    failure(ErrorCode::LlmError, message, details(model))
}

pub fn defective(defect: Defect, model: &str) -> ModelFailure {
    let message = match defect {
        Defect::Cut => "The model's answer was cut off.",
        Defect::NotAnAnswer => "The model server sent something that is not an answer.",
        Defect::TooLarge => "The model's answer is too large.",
        Defect::Reported => "The model server reported an error while answering.",
    };
    failure(ErrorCode::LlmError, message.to_owned(), details(model))
}

fn failure(code: ErrorCode, message: String, details: Map<String, Value>) -> ModelFailure {
    ModelFailure {
        code,
        message,
        details,
    }
}

fn details(model: &str) -> Map<String, Value> {
    let mut details = Map::new();
    details.insert("model".to_owned(), model.into());
    details
}

/// Rounded up, as in `Retry-After`.
fn whole_seconds(duration: Duration) -> u64 {
    duration
        .as_secs()
        .saturating_add(u64::from(duration.subsec_nanos() > 0))
}

fn seconds(duration: Duration) -> Value {
    if duration.subsec_nanos() == 0 {
        json!(duration.as_secs())
    } else {
        json!(duration.as_secs_f64())
    }
}
