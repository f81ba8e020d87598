//! `/my/models`: what the connected providers offer.

use axum::Json;
use axum::extract::State;
use codelab_protocol::ModelList;

use crate::app::App;

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
