//! Errors as providers and gateways send them.

use codelab_protocol::ModelFailureKind::{self, *};
use serde_json::json;

use super::*;

#[test]
fn errors_of_known_providers_have_a_kind_and_a_message() {
    let openai = |message: &str, category: &str, code: Value| json!({"error": {"message": message, "type": category, "param": null, "code": code}});
    let anthropic = |category: &str, message: &str| json!({"type": "error", "error": {"type": category, "message": message}});
    let cases: Vec<(u16, Value, ModelFailureKind, &str)> = vec![
        (
            401,
            openai(
                "Incorrect API key provided: sk-a",
                "invalid_request_error",
                json!("invalid_api_key"),
            ),
            WrongKey,
            "Incorrect",
        ),
        (
            400,
            openai("No connected db.", "no_db_connection", json!("400")),
            WrongKey,
            "No connected db.",
        ),
        (
            400,
            openai(
                "/chat/completions: Invalid model name passed in model=x. Call `/v1/models`",
                "invalid_request_error",
                json!("400"),
            ),
            UnknownModel,
            "Invalid model",
        ),
        (
            404,
            openai(
                "The model `x` does not exist",
                "invalid_request_error",
                json!("model_not_found"),
            ),
            UnknownModel,
            "does not exist",
        ),
        (
            400,
            openai(
                "This model's maximum context length is 8192 tokens.",
                "invalid_request_error",
                json!("context_length_exceeded"),
            ),
            ContextTooLong,
            "8192",
        ),
        (
            400,
            openai(
                "litellm.ContextWindowExceededError: too much",
                "None",
                json!("400"),
            ),
            ContextTooLong,
            "too much",
        ),
        (
            400,
            json!({"error": {"code": 400, "message": "the request exceeds the available context size", "type": "exceed_context_size_error"}}),
            ContextTooLong,
            "exceeds",
        ),
        (
            400,
            openai(
                "litellm.ContentPolicyViolationError: no",
                "None",
                json!("400"),
            ),
            ContentFilter,
            "no",
        ),
        (
            400,
            openai(
                "The response was filtered",
                "invalid_request_error",
                json!("content_filter"),
            ),
            ContentFilter,
            "filtered",
        ),
        (
            429,
            openai(
                "You exceeded your current quota",
                "insufficient_quota",
                json!("insufficient_quota"),
            ),
            Quota,
            "quota",
        ),
        (
            429,
            openai(
                "Rate limit reached for gpt-4o",
                "tokens",
                json!("rate_limit_exceeded"),
            ),
            RateLimit,
            "reached",
        ),
        (
            429,
            openai(
                "litellm.RateLimitError: slow",
                "throttling_error",
                json!("429"),
            ),
            RateLimit,
            "slow",
        ),
        (
            402,
            json!({"error": {"message": "Insufficient Balance"}}),
            Quota,
            "Balance",
        ),
        (
            408,
            openai("litellm.Timeout: Timeout Error", "None", json!("408")),
            Timeout,
            "litellm.Timeout",
        ),
        (
            529,
            anthropic("overloaded_error", "Overloaded"),
            Overloaded,
            "Overloaded",
        ),
        (
            500,
            anthropic("api_error", "Internal server error"),
            ServerError,
            "Internal",
        ),
        (
            401,
            anthropic("authentication_error", "invalid x-api-key"),
            WrongKey,
            "x-api-key",
        ),
        (
            400,
            anthropic(
                "invalid_request_error",
                "prompt is too long: 210000 tokens > 200000 maximum",
            ),
            ContextTooLong,
            "210000",
        ),
        (
            404,
            anthropic("not_found_error", "model: claude-x"),
            UnknownModel,
            "claude-x",
        ),
        (
            404,
            json!({"error": "model \"llama9\" not found, try pulling it first"}),
            UnknownModel,
            "pulling",
        ),
        (
            404,
            json!({"object": "error", "message": "The model `x` does not exist.", "type": "NotFoundError", "code": 404}),
            UnknownModel,
            "exist",
        ),
        (
            400,
            json!([{"error": {"code": 400, "message": "API key not valid.", "status": "INVALID_ARGUMENT"}}]),
            WrongKey,
            "not valid",
        ),
        (
            503,
            json!({"error": {"code": 503, "message": "Loading model", "type": "unavailable_error"}}),
            Overloaded,
            "Loading",
        ),
        (
            422,
            json!({"detail": [{"loc": ["body"], "msg": "field required", "type": "value_error"}]}),
            Nonsense,
            "field required",
        ),
        (
            400,
            openai("Something else", "invalid_request_error", Value::Null),
            Nonsense,
            "Something else",
        ),
    ];
    for (status, body, kind, said) in cases {
        let error = ProviderError::of_body(status, &body.to_string());
        assert_eq!(error.kind(), kind, "{status} {body}");
        assert!(
            error.shown(None).unwrap_or_default().contains(said),
            "{status} {body}: {error:?}"
        );
    }
}

#[test]
fn an_error_inside_a_successful_answer_names_its_status_itself() {
    for (error, kind) in [
        (
            json!({"error": {"code": 502, "message": "Provider returned error"}}),
            ServerError,
        ),
        (json!({"code": "429", "message": "slow down"}), RateLimit),
        (json!({"message": "it broke"}), ServerError),
        (json!("it broke"), ServerError),
        (
            json!({"type": "overloaded_error", "message": "Overloaded"}),
            Overloaded,
        ),
    ] {
        assert_eq!(ProviderError::of(error.clone()).kind(), kind, "{error}");
    }
}

#[test]
fn what_is_shown_has_no_keys_no_control_characters_and_a_limit() {
    let secret = Secret::new("canary-of-mine");
    for (raw, wanted) in [
        ("key canary-of-mine is wrong", "key [secret] is wrong"),
        (
            "provided: sk-proj-abc****************wxyz.",
            "provided: [secret]",
        ),
        ("Bearer 'gsk_0123456789abcdef'", "Bearer '[secret]'"),
        ("the task-oriented sk-ill", "the task-oriented sk-ill"),
        (
            "line\r\nbreak\tand \u{1b}[31mred\u{202e}",
            "line break and \\u{1b}[31mred\\u{202e}",
        ),
    ] {
        let error = ProviderError::of_body(400, raw);
        assert_eq!(
            error.shown(Some(&secret)).as_deref(),
            Some(wanted),
            "{raw:?}"
        );
    }
    let long = ProviderError::of_body(400, &"word ".repeat(1000));
    let shown = long.shown(None).unwrap_or_default();
    assert!(
        shown.chars().count() <= words::MAX_MESSAGE_CHARS && shown.ends_with('…'),
        "{shown}"
    );
    for silent in ["", "  ", "<html><body>502</body></html>", "{}", "null"] {
        assert_eq!(
            ProviderError::of_body(502, silent).shown(None),
            None,
            "{silent:?}"
        );
    }
}
