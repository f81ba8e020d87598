//! A page of a list: `limit` and `offset`, checked.

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use serde::Deserialize;
use utoipa::IntoParams;

use crate::app::App;
use crate::body::Params;
use crate::error::ApiError;

const DEFAULT_LIMIT: u64 = 100;
const MAX_LIMIT: u64 = 1000;

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct PageQuery {
    /// At most 1000; 100 where absent.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<u64>,
    #[param(minimum = 0)]
    offset: Option<u64>,
}

pub(super) struct Page {
    pub limit: u64,
    pub offset: u64,
}

impl FromRequestParts<App> for Page {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, ApiError> {
        let Params(query) = Params::<PageQuery>::from_request_parts(parts, app).await?;
        let (limit, offset) = (query.limit.unwrap_or(DEFAULT_LIMIT), query.offset.unwrap_or(0));
        if !(1..=MAX_LIMIT).contains(&limit) {
            return Err(ApiError::invalid(format!("limit must be 1 to {MAX_LIMIT}")).with("field", "limit"));
        }
        if offset > i64::MAX as u64 {
            return Err(ApiError::invalid("offset is too large").with("field", "offset"));
        }
        Ok(Self { limit, offset })
    }
}
