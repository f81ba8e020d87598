//! `/my/models`: what the connected providers offer.

use axum::Json;
use axum::extract::State;
use codelab_protocol::{ModelList, ModelTried, TryModel};

use crate::app::App;
use crate::body::JsonBody;
use crate::error::{ApiError, ApiResult};
use crate::fields;
use crate::users::User;

/// The models to choose from
///
/// A provider that cannot list its models is named with the reason. A model that is not listed can
/// be used as well.
#[utoipa::path(
    get, path = "/my/models",
    responses((status = 200, description = "What the connected providers offer", body = ModelList)),
)]
pub(super) async fn list(State(app): State<App>) -> Json<ModelList> {
    Json(app.runtime.models().await)
}

/// Try a model
///
/// Makes one call for at most 16 tokens, to this model and no other, without a second attempt. A
/// failed call is no error of the request: `ok` is false, and `details` says why. At most 10 in a
/// minute.
#[utoipa::path(
    post, path = "/my/models/test", request_body = TryModel,
    responses((status = 200, description = "Whether the model answers", body = ModelTried)),
)]
pub(super) async fn try_model(
    State(app): State<App>,
    user: User,
    JsonBody(body): JsonBody<TryModel>,
) -> ApiResult<Json<ModelTried>> {
    let model = body.model.ok_or_else(|| ApiError::missing("model"))?;
    let model = fields::model(model)?;
    Ok(Json(app.runtime.try_model(user.id(), model).await?))
}
