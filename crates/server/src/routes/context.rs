//! `/my/projects/{project_id}/agents/{agent_id}/context`: what an agent remembers.

use axum::Json;
use axum::extract::{FromRequestParts, State};
use axum::http::StatusCode;
use axum::http::request::Parts;
use codelab_memory::{Filter, Hit, MemoryError, Query};
use codelab_protocol::{
    AddContext, AgentId, ContextAdded, ContextHit, ContextInteraction, ContextList, ContextResults,
    ErrorCode, SearchContext,
};
use codelab_runtime::{RebuildError, now};
use codelab_store::{InteractionId, InteractionRow, NewInteraction};

use super::paging::{Page, PageQuery};
use super::project_agents::MyAgent;
use crate::app::App;
use crate::body::JsonBody;
use crate::error::{ApiError, ApiResult, OrMissing};
use crate::fields;
use crate::path::{NamedInPath as _, PathId};

const DEFAULT_TOP_K: u32 = 5;
const MAX_TOP_K: u32 = 100;
const NOTE: &str = "note";

/// Find what the agent remembers about something
#[utoipa::path(
    post, path = "/my/projects/{project_id}/agents/{agent_id}/context/search",
    request_body = SearchContext,
    responses((status = 200, description = "The best interactions, best first", body = ContextResults)),
)]
pub(super) async fn search(
    State(app): State<App>,
    agent: MyAgent,
    JsonBody(body): JsonBody<SearchContext>,
) -> ApiResult<Json<ContextResults>> {
    let text = fields::context_query(body.query)?;
    let top_k = fields::within("top_k", 1, MAX_TOP_K, body.top_k.unwrap_or(DEFAULT_TOP_K))?;
    let filter = body.filter.unwrap_or_default();
    let filter = Filter {
        kind: filter.kind,
        success: filter.success,
        since: filter.since,
        until: filter.until,
    };
    let query = Query {
        text,
        top_k: top_k as usize,
        filter,
    };
    let results = match app
        .runtime
        .search_context(&agent.project, &agent.row.agent.name, &query)
        .await
    {
        Ok(hits) => hits.into_iter().map(shown).collect(),
        // Nothing was remembered yet.
        Err(RebuildError::Memory(MemoryError::NotFound { .. })) => Vec::new(),
        Err(RebuildError::Memory(MemoryError::Invalid { reason, .. })) => {
            return Err(ApiError::invalid(reason));
        }
        Err(RebuildError::Store(error)) => return Err(error.into()),
        Err(RebuildError::Memory(error)) => {
            // The memory engine logs its trouble once, and `/health` shows it.
            tracing::debug!(%error, "searching an agent's memory failed");
            return Err(ApiError::new(
                ErrorCode::AgentUnavailable,
                "The agent's memory is not available; try again later",
            ));
        }
    };
    let rebuilding = app
        .runtime
        .context_is_rebuilding(&agent.project, &agent.row.agent.name);
    Ok(Json(ContextResults {
        results,
        rebuilding,
    }))
}

/// What the agent remembers, newest first
#[utoipa::path(
    get, path = "/my/projects/{project_id}/agents/{agent_id}/context", params(PageQuery),
    responses((status = 200, description = "A page of interactions", body = ContextList)),
)]
pub(super) async fn list(agent: MyAgent, page: Page) -> ApiResult<Json<ContextList>> {
    let (rows, total) = agent
        .project
        .newest_interactions(&agent.row.agent.name, page.limit, page.offset)
        .await?;
    Ok(Json(ContextList {
        interactions: rows.into_iter().map(interaction).collect(),
        total,
        limit: page.limit,
        offset: page.offset,
    }))
}

/// Let the agent remember something
#[utoipa::path(
    post, path = "/my/projects/{project_id}/agents/{agent_id}/context", request_body = AddContext,
    responses((status = 201, description = "Stored; found as soon as it is indexed", body = ContextAdded)),
)]
pub(super) async fn add(
    State(app): State<App>,
    agent: MyAgent,
    JsonBody(body): JsonBody<AddContext>,
) -> ApiResult<(StatusCode, Json<ContextAdded>)> {
    let new = NewInteraction {
        turn: None,
        agent: agent.row.agent.name.clone(),
        task: body.task_id,
        kind: fields::context_kind(body.kind.unwrap_or_else(|| NOTE.to_owned()))?,
        success: body.success,
        text: fields::context_text(body.text)?,
        metadata: fields::metadata(body.metadata.unwrap_or_default())?,
        at: now(),
    };
    let id = app
        .runtime
        .add_context(&agent.project, new)
        .await
        .or_missing(AgentId::not_found)?;
    Ok((
        StatusCode::CREATED,
        Json(ContextAdded {
            id: id.0.to_string(),
        }),
    ))
}

/// Let the agent forget everything
#[utoipa::path(
    delete, path = "/my/projects/{project_id}/agents/{agent_id}/context",
    responses((status = 204, description = "Nothing is remembered any more")),
)]
pub(super) async fn clear(State(app): State<App>, agent: MyAgent) -> ApiResult<StatusCode> {
    let cleared = app
        .runtime
        .clear_context(agent.project, agent.row.agent.name)
        .await;
    cleared.or_missing(AgentId::not_found)?;
    Ok(StatusCode::NO_CONTENT)
}

/// Let the agent forget one thing
#[utoipa::path(
    delete, path = "/my/projects/{project_id}/agents/{agent_id}/context/{context_id}",
    responses((status = 204, description = "It is not remembered any more")),
)]
pub(super) async fn forget(
    State(app): State<App>,
    MyInteraction { agent, id }: MyInteraction,
) -> ApiResult<StatusCode> {
    let forgotten = app
        .runtime
        .forget_context(agent.project, agent.row.agent.name, id)
        .await;
    forgotten.or_missing(InteractionId::not_found)?;
    Ok(StatusCode::NO_CONTENT)
}

/// The agent and the interaction that a path names. Whether the interaction exists is not known yet.
pub(super) struct MyInteraction {
    agent: MyAgent,
    id: InteractionId,
}

impl FromRequestParts<App> for MyInteraction {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, ApiError> {
        let agent = MyAgent::from_request_parts(parts, app).await?;
        let PathId(id) = PathId::from_request_parts(parts, app).await?;
        Ok(Self { agent, id })
    }
}

fn interaction(row: InteractionRow) -> ContextInteraction {
    ContextInteraction {
        id: row.id.0.to_string(),
        text: row.text,
        kind: row.kind,
        success: row.success,
        task_id: row.task,
        session_id: row.session_id,
        metadata: row.metadata,
        timestamp: row.created_at,
    }
}

fn shown(hit: Hit) -> ContextHit {
    ContextHit {
        id: hit.id.0.to_string(),
        text: hit.text,
        score: hit.score,
        kind: hit.kind,
        success: hit.success,
        task_id: hit.task_id,
        timestamp: hit.timestamp,
    }
}
