//! `/my/projects/{project_id}/worker-space`: the live resources of a project, for its owner and for
//! admins.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use codelab_protocol::{ProjectId, SpaceHealth, SpaceMetrics};
use utoipa::IntoParams;

use super::projects::OperatedSpace;
use crate::app::App;
use crate::error::{ApiResult, OrMissing};
use crate::path::NamedInPath as _;

/// The parameter of these paths.
#[derive(IntoParams)]
#[into_params(parameter_in = Path, names("project_id"))]
#[allow(dead_code)]
struct OperatedProject(
    /// The project's number; an admin may name anybody's
    i64,
);

/// Numbers of the worker space
///
/// A space that was cleaned up is not rebuilt by reading: it is shown as not active.
#[utoipa::path(
    get, path = "/my/projects/{project_id}/worker-space", params(OperatedProject),
    responses((status = 200, description = "Its numbers on this server", body = SpaceMetrics)),
)]
pub(super) async fn metrics(
    State(app): State<App>,
    OperatedSpace(key): OperatedSpace,
) -> Json<SpaceMetrics> {
    Json(app.runtime.space_metrics(key))
}

/// Whether the worker space is well
#[utoipa::path(
    get, path = "/my/projects/{project_id}/worker-space/health", params(OperatedProject),
    responses((status = 200, description = "Healthy, degraded or unhealthy, with details", body = SpaceHealth)),
)]
pub(super) async fn health(
    State(app): State<App>,
    OperatedSpace(key): OperatedSpace,
) -> Json<SpaceHealth> {
    Json(app.runtime.space_health(key))
}

/// Stop every task at once and build the worker space anew
///
/// Files in the user's workspace are never touched.
#[utoipa::path(
    post, path = "/my/projects/{project_id}/worker-space/reset", params(OperatedProject),
    responses((status = 200, description = "As it is now", body = SpaceMetrics)),
)]
pub(super) async fn reset(
    State(app): State<App>,
    OperatedSpace(key): OperatedSpace,
) -> ApiResult<Json<SpaceMetrics>> {
    app.runtime
        .reset_space(key)
        .await
        .or_missing(ProjectId::not_found)?;
    Ok(Json(app.runtime.space_metrics(key)))
}

/// Let the worker space's resources go
///
/// Active tasks are finished first, within 30 s, and cancelled then. The next use builds the space
/// again. Files in the user's workspace are never touched.
#[utoipa::path(
    post, path = "/my/projects/{project_id}/worker-space/cleanup", params(OperatedProject),
    responses((status = 200, description = "As it is now", body = SpaceMetrics)),
)]
pub(super) async fn cleanup(
    State(app): State<App>,
    OperatedSpace(key): OperatedSpace,
) -> ApiResult<Json<SpaceMetrics>> {
    app.runtime.cleanup_space(key).await?;
    Ok(Json(app.runtime.space_metrics(key)))
}

/// Forget what is cached of the project's agents, on every server
///
/// The agents stay in service and are read from the database at their next use.
#[utoipa::path(
    delete, path = "/my/projects/{project_id}/worker-space/cache", params(OperatedProject),
    responses((status = 204, description = "Forgotten")),
)]
pub(super) async fn clear_cache(
    State(app): State<App>,
    OperatedSpace(key): OperatedSpace,
) -> StatusCode {
    app.runtime.clear_agent_cache(key).await;
    StatusCode::NO_CONTENT
}
