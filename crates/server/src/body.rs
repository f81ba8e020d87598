//! Parses request bodies and queries into types, or answers with a clear error.

use std::time::Duration;

use axum::body::{Body, HttpBody};
use axum::extract::{FromRequest, FromRequestParts, Query, Request};
use axum::http::request::Parts;
use axum::http::{HeaderMap, header};
use codelab_protocol::ErrorCode;
use http_body_util::BodyExt as _;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::app::App;
use crate::buffers::HeldBytes;
use crate::error::ApiError;
use crate::users::User;

/// How long a body may take to arrive.
const BODY_TIMEOUT: Duration = Duration::from_secs(60);

/// How much of a parser error, which quotes the input, is shown to the caller.
const MAX_SHOWN_CHARS: usize = 200;

/// A JSON body within the limit.
pub(crate) struct JsonBody<T>(pub T);

impl<T: DeserializeOwned> FromRequest<App> for JsonBody<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, app: &App) -> Result<Self, ApiError> {
        read(request, app, app.body_bytes).await.map(Self)
    }
}

/// A JSON body within the limit, for routes whose fields are all optional. A request without a body
/// gets the defaults.
pub(crate) struct OptionalJsonBody<T>(pub T);

impl<T: DeserializeOwned + Default> FromRequest<App> for OptionalJsonBody<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, app: &App) -> Result<Self, ApiError> {
        let is_empty =
            request.body().is_end_stream() && !request.headers().contains_key(header::CONTENT_TYPE);
        if is_empty {
            Ok(Self(T::default()))
        } else {
            read(request, app, app.body_bytes).await.map(Self)
        }
    }
}

/// A JSON body of a few kilobytes, for callers who have not logged in.
pub(crate) struct SmallJsonBody<T>(pub T);

const SMALL_BODY_BYTES: usize = 4096;

impl<T: DeserializeOwned> FromRequest<App> for SmallJsonBody<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, app: &App) -> Result<Self, ApiError> {
        read(request, app, app.body_bytes.min(SMALL_BODY_BYTES))
            .await
            .map(Self)
    }
}

async fn read<T: DeserializeOwned>(
    request: Request,
    app: &App,
    limit: usize,
) -> Result<T, ApiError> {
    check_head(request.headers(), limit)?;
    let mut held = app
        .buffers
        .hold(request.extensions().get::<User>().map(User::id));
    let bytes = whole(request.into_body(), limit, &mut held).await?;
    parsed(&bytes)
}

/// The value of a body.
pub(crate) fn parsed<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, ApiError> {
    // A list would be parsed as an object whose fields are all optional.
    if bytes
        .trim_ascii_start()
        .first()
        .is_some_and(|first| *first == b'[')
    {
        return Err(ApiError::invalid("The body must be a JSON object"));
    }
    // The whole body is checked, because a parser looks only at the parts that it needs.
    let text =
        std::str::from_utf8(bytes).map_err(|_| ApiError::invalid("The body is not valid UTF-8"))?;
    serde_json::from_str(text).map_err(|error| refused(&error, "body is"))
}

/// The arguments of a tool call.
pub(crate) fn arguments<T: DeserializeOwned>(given: Map<String, Value>) -> Result<T, ApiError> {
    serde_json::from_value(Value::Object(given)).map_err(|error| refused(&error, "arguments are"))
}

/// Refuses a body by what its headers say of it, before any of it is read.
pub(crate) fn check_head(headers: &HeaderMap, limit: usize) -> Result<(), ApiError> {
    let content_type = headers
        .get(header::CONTENT_TYPE)
        .and_then(|value| value.to_str().ok());
    let essence = content_type
        .and_then(|value| value.split(';').next())
        .unwrap_or_default()
        .trim();
    if !essence.eq_ignore_ascii_case("application/json") {
        return Err(ApiError::invalid(
            "The content type must be application/json",
        ));
    }
    let declared = headers
        .get(header::CONTENT_LENGTH)
        .and_then(|value| value.to_str().ok());
    if declared
        .and_then(|length| length.parse::<u64>().ok())
        .is_some_and(|length| length > limit as u64)
    {
        return Err(too_large(limit));
    }
    Ok(())
}

/// The whole body, if it arrives in time.
pub(crate) async fn whole(
    body: Body,
    limit: usize,
    held: &mut HeldBytes,
) -> Result<Vec<u8>, ApiError> {
    let arrived = tokio::time::timeout(BODY_TIMEOUT, collect(body, limit, held)).await;
    arrived.map_err(|_| ApiError::invalid("The body did not arrive in time"))?
}

/// The whole body. What has arrived of it counts against its user's share of memory.
async fn collect(mut body: Body, limit: usize, held: &mut HeldBytes) -> Result<Vec<u8>, ApiError> {
    let mut bytes = Vec::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|_| ApiError::unreadable_body())?;
        let Some(data) = frame.data_ref() else {
            continue;
        };
        if bytes.len() + data.len() > limit {
            return Err(too_large(limit));
        }
        held.grow(data.len())?;
        bytes.extend_from_slice(data);
    }
    Ok(bytes)
}

fn too_large(limit: usize) -> ApiError {
    let message = format!("The body is larger than {limit} bytes");
    ApiError::new(ErrorCode::PayloadTooLarge, message).with("limit_bytes", limit)
}

/// `what` begins a sentence about the input.
fn refused(error: &serde_json::Error, what: &str) -> ApiError {
    let text = error.to_string();
    let missing = text
        .strip_prefix("missing field `")
        .and_then(|rest| rest.split('`').next());
    match missing {
        Some(field) => ApiError::missing(field),
        None => {
            let text: String = text.chars().take(MAX_SHOWN_CHARS).collect();
            ApiError::invalid(format!("The {what} not valid: {text}"))
        }
    }
}

/// Query parameters.
pub(crate) struct Params<T>(pub T);

impl<T: DeserializeOwned> FromRequestParts<App> for Params<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, ApiError> {
        let Query(params) = Query::<T>::from_request_parts(parts, app)
            .await
            .map_err(|error| {
                ApiError::invalid(format!("The query is not valid: {}", error.body_text()))
            })?;
        Ok(Self(params))
    }
}
