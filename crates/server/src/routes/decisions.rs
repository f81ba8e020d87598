//! A person's decision, as it comes in: proven, or a clear error.

use codelab_engine::Decision;
use codelab_protocol::{ErrorCode, HitlDecision};
use serde_json::Value;

use crate::error::{ApiError, ApiResult};

/// Decisions are written in any case.
pub(super) fn decision(given: HitlDecision) -> ApiResult<Decision> {
    let text = given
        .decision
        .ok_or_else(|| ApiError::missing("decision"))?;
    match text.to_ascii_uppercase().as_str() {
        "APPROVE" => Ok(Decision::Approve {
            remember: given.remember.unwrap_or(false),
        }),
        "REJECT" => Ok(Decision::Reject {
            feedback: given.feedback,
        }),
        "EDIT" => match given.modified_args {
            Some(Value::Object(arguments)) => Ok(Decision::Edit { arguments }),
            Some(_) => Err(ApiError::new(
                ErrorCode::InvalidDecision,
                "modified_args must be an object",
            )),
            None => Err(ApiError::missing("modified_args")),
        },
        _ => Err(unknown(&text)),
    }
}

pub(super) fn unknown(text: &str) -> ApiError {
    let message = format!(
        "decision must be APPROVE, EDIT or REJECT, not {}",
        cut(text)
    );
    ApiError::new(ErrorCode::InvalidDecision, message)
}

/// What a caller sent, short enough to be shown back.
pub(super) fn cut(text: &str) -> String {
    text.chars().take(64).collect()
}
