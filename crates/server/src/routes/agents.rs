//! `/agents`: the team, and who is active in a session.

use axum::Json;
use axum::extract::State;
use codelab_protocol::{AgentInfo, AgentList, CurrentAgent, SessionId};

use crate::app::App;
use crate::error::ApiResult;
use crate::path::{NamedInPath as _, PathId};

/// The registered agents
#[utoipa::path(
    get, path = "/agents",
    responses((status = 200, description = "The team", body = AgentList)),
)]
pub(super) async fn list(State(app): State<App>) -> Json<AgentList> {
    let agents = app.runtime.team().agents().iter().map(|agent| AgentInfo {
        agent_type: agent.name.clone(),
        description: agent.description.clone(),
        allowed_tools: agent.allowed_tools.clone(),
        file_restrictions: (!agent.file_restrictions.is_empty()).then(|| {
            agent
                .file_restrictions
                .iter()
                .map(|pattern| pattern.as_str().to_owned())
                .collect()
        }),
    });
    Json(AgentList {
        agents: agents.collect(),
    })
}

/// The agent that is active in a session
#[utoipa::path(
    get, path = "/agents/{session_id}/current",
    responses((status = 200, description = "The active agent", body = CurrentAgent)),
)]
pub(super) async fn current(
    State(app): State<App>,
    PathId(id): PathId<SessionId>,
) -> ApiResult<Json<CurrentAgent>> {
    let row = app.runtime.session(&id).await?;
    let context = app.runtime.store().context(row.key).await?;
    let context = context.ok_or_else(SessionId::not_found)?;
    Ok(Json(CurrentAgent {
        session_id: id,
        current_agent: context.current_agent,
        switch_count: context.switch_count,
        last_switch_at: context.last_switch_at,
    }))
}
