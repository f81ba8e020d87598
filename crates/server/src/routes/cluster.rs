//! `/cluster`: what operators ask of one server of an installation.

use axum::extract::State;
use axum::http::StatusCode;
use codelab_protocol::ErrorCode;

use crate::app::App;
use crate::error::{ApiError, ApiResult};

/// Hand over everything that this server owns
///
/// It takes nothing new, and hands over what it has as that becomes idle. It still answers, by
/// forwarding to the others. `/health` shows what it still owns. Restarting it ends this.
#[utoipa::path(
    post, path = "/cluster/drain",
    responses(
        (status = 204, description = "It hands over"),
        (status = 409, description = "This server is alone"),
    ),
)]
pub(super) async fn drain(State(app): State<App>) -> ApiResult<StatusCode> {
    if app.runtime.cluster().is_none() {
        let message = "This server is alone; there is nobody to hand over to";
        return Err(ApiError::new(ErrorCode::Conflict, message));
    }
    app.runtime.drain().await?;
    Ok(StatusCode::NO_CONTENT)
}
