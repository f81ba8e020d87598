//! Every error answer of the API.

use axum::Json;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use codelab_engine::Refusal;
use codelab_protocol::{ErrorBody, ErrorCode, MessageId};
use codelab_runtime::{RouteError, RuntimeError};
use codelab_store::StoreError;
use serde_json::{Map, Value};

#[derive(Debug)]
pub(crate) struct ApiError {
    status: StatusCode,
    code: ErrorCode,
    message: String,
    details: Map<String, Value>,
    retry_after_seconds: Option<u32>,
}

pub(crate) type ApiResult<T> = Result<T, ApiError>;

impl ApiError {
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        let status =
            StatusCode::from_u16(code.http_status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let busy = matches!(
            status,
            StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE
        );
        let retry_after_seconds = busy.then_some(1);
        Self {
            status,
            code,
            message: message.into(),
            details: Map::new(),
            retry_after_seconds,
        }
    }

    pub fn with(mut self, key: &str, value: impl Into<Value>) -> Self {
        self.details.insert(key.to_owned(), value.into());
        self
    }

    pub fn missing(field: &str) -> Self {
        Self::new(
            ErrorCode::MissingRequiredField,
            format!("Missing required field: {field}"),
        )
        .with("field", field)
    }

    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new(ErrorCode::ValidationError, message)
    }

    /// The caller's body broke off, or is not as its headers say.
    pub fn unreadable_body() -> Self {
        Self::invalid("The body could not be read")
    }

    pub fn code(&self) -> ErrorCode {
        self.code
    }

    pub fn message(&self) -> &str {
        &self.message
    }

    pub fn retry_after_seconds(self, seconds: u32) -> Self {
        Self {
            retry_after_seconds: Some(seconds),
            ..self
        }
    }

    /// A commit failed.
    pub fn not_stored(error: StoreError) -> Self {
        match error {
            StoreError::DiskFull | StoreError::Unavailable(_) => error.into(),
            error => {
                log_refusal(&error);
                Self::new(
                    ErrorCode::DbWriteError,
                    "The database could not store the change; try again",
                )
            }
        }
    }

    /// A turn goes on although its outcome could not be stored. Its message is stored, and must not
    /// be sent again.
    pub fn outcome_not_stored(error: StoreError, message_id: Option<&MessageId>) -> Self {
        let why = match error {
            StoreError::DiskFull => "The disk is full",
            _ => "The database is not available",
        };
        let message = format!(
            "{why}. The message was accepted. Storing its outcome failed and is tried again"
        );
        let told = Self {
            message,
            ..Self::not_stored(error)
        };
        match message_id {
            Some(id) => told.with("message_id", id.as_str()),
            None => told,
        }
    }

    pub fn at(self, status: StatusCode) -> Self {
        Self { status, ..self }
    }

    /// What the caller is told.
    pub fn into_body(self) -> ErrorBody {
        ErrorBody {
            detail: self.message,
            error_code: Some(self.code),
            details: self.details,
        }
    }
}

/// For operations on something that existed when the request began.
pub(crate) trait OrMissing<T> {
    /// Answers with `missing` if it was deleted since then.
    fn or_missing(self, missing: fn() -> ApiError) -> ApiResult<T>;
}

impl<T> OrMissing<T> for Result<T, StoreError> {
    fn or_missing(self, missing: fn() -> ApiError) -> ApiResult<T> {
        self.map_err(|error| {
            if error == StoreError::NotFound {
                missing()
            } else {
                ApiError::not_stored(error)
            }
        })
    }
}

impl<T> OrMissing<T> for Result<T, RuntimeError> {
    fn or_missing(self, missing: fn() -> ApiError) -> ApiResult<T> {
        self.map_err(|error| match error {
            RuntimeError::Store(StoreError::NotFound)
            | RuntimeError::NotStored(StoreError::NotFound) => missing(),
            error => error.into(),
        })
    }
}

impl From<Refusal> for ApiError {
    fn from(refusal: Refusal) -> Self {
        let error = Self::new(refusal.code, refusal.message);
        let told = retry_after(&refusal.details).or(error.retry_after_seconds);
        Self {
            retry_after_seconds: told,
            details: refusal.details,
            ..error
        }
    }
}

impl From<StoreError> for ApiError {
    fn from(error: StoreError) -> Self {
        let code = match &error {
            StoreError::DiskFull => {
                return Self::new(
                    ErrorCode::DbWriteError,
                    "The disk is full; nothing was changed",
                )
                .at(StatusCode::INSUFFICIENT_STORAGE);
            }
            StoreError::Overloaded(why) => return Self::new(ErrorCode::RateLimited, *why),
            StoreError::Unavailable(_) => ErrorCode::DbConnectionError,
            StoreError::Conflict | StoreError::Unknown | StoreError::AlreadyExists => {
                ErrorCode::DbWriteError
            }
            StoreError::NotFound
            | StoreError::Locked(_)
            | StoreError::TooNew { .. }
            | StoreError::TooOld { .. }
            | StoreError::ReadOnly
            | StoreError::Corrupt(_)
            | StoreError::Invalid(_)
            | StoreError::Io(_) => ErrorCode::DbReadError,
        };
        log_refusal(&error);
        Self::new(
            code,
            "The database could not complete the request; try again",
        )
    }
}

impl From<RuntimeError> for ApiError {
    fn from(error: RuntimeError) -> Self {
        let message = error.to_string();
        match error {
            RuntimeError::Refused(refusal) => refusal.into(),
            RuntimeError::SessionNotFound => Self::new(ErrorCode::SessionNotFound, message),
            RuntimeError::SessionExists => Self::new(ErrorCode::SessionCreationFailed, message),
            RuntimeError::Busy => Self::new(ErrorCode::RateLimited, message),
            RuntimeError::Elsewhere | RuntimeError::Stopping => {
                Self::new(ErrorCode::AgentUnavailable, message)
            }
            RuntimeError::Store(error) => error.into(),
            RuntimeError::NotStored(error) => Self::not_stored(error),
        }
    }
}

impl From<RouteError> for ApiError {
    fn from(error: RouteError) -> Self {
        let message = error.to_string();
        match error {
            RouteError::Paused => Self::new(ErrorCode::DbConnectionError, message),
            RouteError::Stopping => Self::new(ErrorCode::AgentUnavailable, message),
            RouteError::Moved { .. } => Self::new(ErrorCode::OwnerUnreachable, message),
            RouteError::Store(error) => error.into(),
        }
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let (status, retry_after_seconds) = (self.status, self.retry_after_seconds);
        let mut response = (status, Json(self.into_body())).into_response();
        if let Some(seconds) = retry_after_seconds {
            response
                .headers_mut()
                .insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        response
    }
}

/// The store logs an outage once, so the requests that it refuses are logged at debug level.
pub(crate) fn log_refusal(error: &StoreError) {
    match error.is_outage() {
        true => tracing::debug!(%error, "request refused, the database is not available"),
        false => tracing::error!(%error, "a database operation failed"),
    }
}

/// After how many seconds the caller should try again, if the error says so.
pub(crate) fn retry_after(details: &Map<String, Value>) -> Option<u32> {
    let seconds = details.get("retry_after_seconds").and_then(Value::as_u64)?;
    Some(u32::try_from(seconds).unwrap_or(u32::MAX))
}

/// The answer to a missing or wrong internal key.
pub(crate) fn bad_internal_key() -> Response {
    let body = serde_json::json!({ "detail": "Invalid or missing internal API key" });
    (StatusCode::UNAUTHORIZED, Json(body)).into_response()
}

/// The answer when a handler panicked; the panic itself is in the log only.
pub(crate) fn internal_error() -> Response {
    let body = serde_json::json!({ "detail": "Internal error", "details": {} });
    (StatusCode::INTERNAL_SERVER_ERROR, Json(body)).into_response()
}
