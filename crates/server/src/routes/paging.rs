//! A page of a list: `limit` and `offset`, checked.

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use serde::Deserialize;
use utoipa::IntoParams;

use crate::app::App;
use crate::body::Params;
use crate::error::ApiError;
use crate::fields;

const DEFAULT_LIMIT: u64 = 100;
const MAX_LIMIT: u64 = 1000;
/// What a database can count.
const MAX_OFFSET: u64 = i64::MAX as u64;

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct PageQuery {
    /// At most 1000; 100 where absent. A page of large things has fewer; the next one begins where
    /// it ends.
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
        let limit = fields::within("limit", 1, MAX_LIMIT, query.limit.unwrap_or(DEFAULT_LIMIT))?;
        let offset = fields::within("offset", 0, MAX_OFFSET, query.offset.unwrap_or(0))?;
        Ok(Self { limit, offset })
    }
}
