//! A person's decision in a request: checked, or refused with a clear error.

use codelab_engine::Decision;
use codelab_protocol::{DecisionChoice, ErrorCode, HitlDecision, MaybeKnown};
use serde_json::Value;

use crate::error::{ApiError, ApiResult};

pub(super) fn decision(given: HitlDecision) -> ApiResult<Decision> {
    match choice(given.decision)? {
        DecisionChoice::Approve if given.modified_args.as_ref().is_some_and(says_something) => {
            Err(ApiError::new(
                ErrorCode::InvalidDecision,
                "modified_args count only with EDIT; APPROVE runs the call as it is",
            ))
        }
        DecisionChoice::Approve => Ok(Decision::Approve {
            remember: given.remember.unwrap_or(false),
        }),
        DecisionChoice::Reject => Ok(Decision::Reject {
            feedback: given.feedback,
        }),
        DecisionChoice::Edit => match given.modified_args {
            Some(Value::Object(arguments)) => Ok(Decision::Edit { arguments }),
            Some(_) => Err(ApiError::new(
                ErrorCode::InvalidDecision,
                "modified_args must be an object",
            )),
            None => Err(ApiError::missing("modified_args")),
        },
    }
}

/// Programs may fill a field that they do not use.
fn says_something(arguments: &Value) -> bool {
    match arguments {
        Value::Null => false,
        Value::Object(arguments) => !arguments.is_empty(),
        _ => true,
    }
}

/// A missing word and a wrong one have different error codes.
pub(super) fn choice(given: Option<MaybeKnown<DecisionChoice>>) -> ApiResult<DecisionChoice> {
    match given {
        Some(MaybeKnown::Known(choice)) => Ok(choice),
        Some(MaybeKnown::Unknown(text)) => {
            let message = format!(
                "decision must be APPROVE, EDIT or REJECT, not {}",
                cut(&text)
            );
            Err(ApiError::new(ErrorCode::InvalidDecision, message))
        }
        None => Err(ApiError::missing("decision")),
    }
}

/// What a caller sent, short enough to be shown back.
pub(super) fn cut(text: &str) -> String {
    text.chars().take(64).collect()
}
