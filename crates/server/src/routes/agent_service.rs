//! `/my/projects/{project_id}/agents/{agent_id}/…`: how an agent serves: its status, its numbers,
//! in or out of service.

use axum::Json;
use axum::extract::State;
use codelab_protocol::{AgentId, AgentMetrics, AgentStatusInfo};
use codelab_runtime::SpaceKey;
use codelab_store::AgentRow;

use super::project_agents::MyAgent;
use crate::app::App;
use crate::error::{ApiResult, OrMissing};
use crate::path::NamedInPath as _;

/// Whether the agent is idle, works, is at its limit, or fails
#[utoipa::path(
    get, path = "/my/projects/{project_id}/agents/{agent_id}/status",
    responses((status = 200, description = "How it stands", body = AgentStatusInfo)),
)]
pub(super) async fn status(State(app): State<App>, agent: MyAgent) -> Json<AgentStatusInfo> {
    Json(
        app.runtime
            .agent_status(SpaceKey::of(&agent.project), &agent.row),
    )
}

/// What the agent did since its worker space was made
#[utoipa::path(
    get, path = "/my/projects/{project_id}/agents/{agent_id}/metrics",
    responses((status = 200, description = "Its numbers on this server", body = AgentMetrics)),
)]
pub(super) async fn metrics(State(app): State<App>, agent: MyAgent) -> Json<AgentMetrics> {
    Json(
        app.runtime
            .agent_metrics(SpaceKey::of(&agent.project), &agent.row),
    )
}

/// Let the agent take tasks
#[utoipa::path(
    post, path = "/my/projects/{project_id}/agents/{agent_id}/register",
    responses((status = 200, description = "In service", body = AgentStatusInfo)),
)]
pub(super) async fn register(
    State(app): State<App>,
    agent: MyAgent,
) -> ApiResult<Json<AgentStatusInfo>> {
    set_registered(&app, agent, true).await
}

/// Take the agent out of service
///
/// It takes no new tasks, and messages to it get 503 until it is registered again. What it has
/// begun ends as usual, tasks that wait included; the answer comes when those that it works on now
/// are finished, after 30 s at the latest.
#[utoipa::path(
    post, path = "/my/projects/{project_id}/agents/{agent_id}/deregister",
    responses((status = 200, description = "Out of service", body = AgentStatusInfo)),
)]
pub(super) async fn deregister(
    State(app): State<App>,
    agent: MyAgent,
) -> ApiResult<Json<AgentStatusInfo>> {
    set_registered(&app, agent, false).await
}

/// Read the agent anew at its next use, on every server
#[utoipa::path(
    post, path = "/my/projects/{project_id}/agents/{agent_id}/invalidate",
    responses((status = 200, description = "How it stands", body = AgentStatusInfo)),
)]
pub(super) async fn invalidate(State(app): State<App>, agent: MyAgent) -> Json<AgentStatusInfo> {
    let key = SpaceKey::of(&agent.project);
    app.runtime.read_again(key, &agent.row.agent.agent_id).await;
    Json(app.runtime.agent_status(key, &agent.row))
}

async fn set_registered(
    app: &App,
    agent: MyAgent,
    registered: bool,
) -> ApiResult<Json<AgentStatusInfo>> {
    let MyAgent { project, row } = agent;
    let key = SpaceKey::of(&project);
    let set = app
        .runtime
        .set_agent_registered(project, row.clone(), registered)
        .await;
    set.or_missing(AgentId::not_found)?;
    Ok(Json(
        app.runtime
            .agent_status(key, &AgentRow { registered, ..row }),
    ))
}
