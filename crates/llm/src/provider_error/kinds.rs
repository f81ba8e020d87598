//! Which kind of failure an error means.

use codelab_protocol::ModelFailureKind::{self, *};

/// Codes and types of errors, in lower case. They are compared as whole words.
const CODES: &[(ModelFailureKind, &[&str])] = &[
    (
        ContextTooLong,
        &[
            "context_length_exceeded",
            "exceed_context_size_error",
            "request_too_large",
            "string_above_max_length",
        ],
    ),
    (
        ContentFilter,
        &[
            "content_filter",
            "content_policy_violation",
            "responsibleaipolicyviolation",
        ],
    ),
    (
        Quota,
        &[
            "insufficient_quota",
            "billing_error",
            "billing_hard_limit_reached",
            "billing_not_active",
            "budget_exceeded",
            "insufficient_balance",
            "insufficient_credits",
        ],
    ),
    (
        // LiteLLM without a database answers a wrong key with `no_db_connection`.
        WrongKey,
        &[
            "invalid_api_key",
            "authentication_error",
            "auth_error",
            "no_db_connection",
            "token_not_found_in_db",
            "expired_key",
            "unauthenticated",
        ],
    ),
    (UnknownModel, &["model_not_found", "unknown_model"]),
    (
        RateLimit,
        &[
            "rate_limit_exceeded",
            "rate_limit_error",
            "throttling_error",
            "too_many_requests",
            "resource_exhausted",
        ],
    ),
    (
        Overloaded,
        &[
            "overloaded_error",
            "overloaded",
            "engine_overloaded",
            "service_unavailable",
            "unavailable",
            "unavailable_error",
        ],
    ),
    (Timeout, &["timeout_error", "timeout", "deadline_exceeded"]),
];

/// What messages contain where codes and types say nothing, in lower case.
const PHRASES: &[(ModelFailureKind, &[&str])] = &[
    (
        ContextTooLong,
        &[
            "contextwindowexceedederror",
            "maximum context length",
            "context window",
            "context length",
            "context size",
            "prompt is too long",
            "input is too long",
            "exceeds the maximum number of tokens",
            "reduce the length of the messages",
        ],
    ),
    (
        ContentFilter,
        &[
            "contentpolicyviolationerror",
            "content management policy",
            "content_filter",
            "content filter",
            "content policy",
            "safety system",
            "flagged by",
        ],
    ),
    (
        Quota,
        &[
            "exceeded your current quota",
            "insufficient balance",
            "insufficient credits",
            "credit balance is too low",
            "budget has been exceeded",
            "exceededbudget",
            "requires more credits",
        ],
    ),
    (
        WrongKey,
        &[
            "incorrect api key",
            "invalid api key",
            "invalid x-api-key",
            "api key not valid",
            "api key is not valid",
            "no api key",
            "missing api key",
            "malformed api key",
            "no connected db",
            "authenticationerror",
        ],
    ),
    (Overloaded, &["overloaded", "at capacity"]),
];

/// A refusal that contains one of these and the word "model" means that the model is not known.
const UNKNOWN_MODEL_PHRASES: &[&str] = &[
    "model_not_found",
    "not found",
    "not exist",
    "unknown model",
    "no such model",
    "invalid model",
    "not a valid model",
];

/// Codes, types and phrases come before the status, because gateways use 400 for everything.
pub fn of(status: Option<u16>, codes: &[&str], message: &str) -> ModelFailureKind {
    let known = |code: &str| {
        let code = code.to_ascii_lowercase();
        let found = CODES
            .iter()
            .find(|(_, names)| names.contains(&code.as_str()));
        found.map(|(kind, _)| *kind)
    };
    if let Some(kind) = codes.iter().find_map(|code| known(code)) {
        return kind;
    }
    let message = message.to_ascii_lowercase();
    let contains = |phrases: &[&str]| phrases.iter().any(|phrase| message.contains(phrase));
    // A server that names one of these statuses says it more precisely than a phrase.
    let is_precise = matches!(status, Some(401 | 402 | 408 | 504 | 529));
    if !is_precise {
        if let Some((kind, _)) = PHRASES.iter().find(|(_, phrases)| contains(phrases)) {
            return *kind;
        }
        let may_be_unknown = matches!(status, None | Some(400 | 403 | 404 | 422));
        if may_be_unknown && message.contains("model") && contains(UNKNOWN_MODEL_PHRASES) {
            return UnknownModel;
        }
    }
    of_status(status)
}

fn of_status(status: Option<u16>) -> ModelFailureKind {
    match status {
        Some(401 | 403) => WrongKey,
        Some(402) => Quota,
        // On the routes that are used here, 404 means the model or the address.
        Some(404) => UnknownModel,
        Some(408 | 504 | 524) => Timeout,
        Some(413) => ContextTooLong,
        Some(429) => RateLimit,
        Some(503 | 529) => Overloaded,
        Some(300..=499) => Nonsense,
        // An error without a status, inside an answer that began well, is the server's own.
        Some(_) | None => ServerError,
    }
}
