//! Where a reader of events begins.

use axum::http::HeaderMap;
use serde::Deserialize;
use utoipa::IntoParams;

use crate::error::{ApiError, ApiResult};

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct Place {
    /// Events after this number; `Last-Event-ID` says the same and wins.
    #[param(minimum = 0)]
    after: Option<u64>,
    /// `false`: the stored events, then the end.
    follow: Option<bool>,
}

impl Place {
    pub fn follows(&self) -> bool {
        self.follow.unwrap_or(true)
    }
}

/// The number of the last event that the reader has.
pub(super) fn after(headers: &HeaderMap, place: &Place) -> ApiResult<u64> {
    let last = match headers.get("last-event-id") {
        None => None,
        Some(value) => {
            let number = value.to_str().ok().and_then(|text| text.trim().parse::<u64>().ok());
            Some(number.ok_or_else(|| ApiError::invalid("Last-Event-ID must be an event number"))?)
        }
    };
    Ok(last.or(place.after).unwrap_or(0))
}
