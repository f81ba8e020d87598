//! Where a reader of events begins.

use axum::http::HeaderMap;
use codelab_protocol::UserId;
use codelab_runtime::{UserCursor, now};
use serde::Deserialize;
use utoipa::IntoParams;

use crate::error::{ApiError, ApiResult};

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct StreamPosition {
    /// Events after this number; `Last-Event-ID` says the same and wins. A number past the log's
    /// end is answered with `gap` and then the log from its start.
    #[param(minimum = 0)]
    after: Option<u64>,
    /// `false`: the stored events, then the end.
    follow: Option<bool>,
}

impl StreamPosition {
    pub fn follows(&self) -> bool {
        self.follow.unwrap_or(true)
    }
}

/// The number of the last event that the reader has.
pub(super) fn after(headers: &HeaderMap, slot: &StreamPosition) -> ApiResult<u64> {
    Ok(last_event_id(headers)?.or(slot.after).unwrap_or(0))
}

/// What a reader that comes back says by itself.
pub(super) fn last_event_id(headers: &HeaderMap) -> ApiResult<Option<u64>> {
    let Some(value) = headers.get("last-event-id") else {
        return Ok(None);
    };
    let number = value
        .to_str()
        .ok()
        .and_then(|text| text.trim().parse::<u64>().ok());
    number
        .map(Some)
        .ok_or_else(|| ApiError::invalid("Last-Event-ID must be an event number"))
}

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct UserStreamPosition {
    /// Events after the one with this id; `Last-Event-ID` says the same and wins.
    after: Option<String>,
}

/// Where a reader of all of a user's sessions was; nothing for one that begins now.
pub(super) fn user_cursor(
    headers: &HeaderMap,
    position: &UserStreamPosition,
    user: UserId,
) -> ApiResult<Option<UserCursor>> {
    let header = headers.get("last-event-id");
    let (name, text) = match header {
        Some(value) => ("Last-Event-ID", Some(value.to_str().unwrap_or_default())),
        None => ("after", position.after.as_deref()),
    };
    let cursor = text.map(|text| UserCursor::parse(text.trim(), user, now()));
    cursor.transpose().map_err(|error| {
        let advice = "leave it out to read from now on";
        ApiError::invalid(format!("{name} cannot be used: {error}; {advice}"))
    })
}
