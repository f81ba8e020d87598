//! For tool runners: a client attaches to a project, claims tool calls and sends their results.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use codelab_engine::CallVersion;
use codelab_protocol::{
    AttachClient, AttachedClient, CallClaimed, CallId, CallResult, ClaimCall, ClientId, ClientList,
    ElicitAnswer, ElicitationAsked, ErrorCode, ReportProgress, ResultAck, ToolProgress,
};
use codelab_runtime::{ResultAccepted, SpaceKey};
use serde_json::{Value, json};

use super::super::paging::{Page, PageQuery};
use super::super::projects::MyProject;
use super::MySession;
use crate::app::App;
use crate::body::JsonBody;
use crate::error::{ApiError, ApiResult};
use crate::fields;
use crate::path::{NamedInPath as _, PathId};
use crate::users::User;

const MAX_PROGRESS_CHARS: usize = 2000;
const MAX_QUESTION_CHARS: usize = 4000;
/// The fields that an MCP server asks for.
const MAX_SCHEMA_BYTES: usize = 64 * 1024;

/// Attach a client, or say that it is still there
///
/// A client that sends nothing for a minute counts as gone. Attaching again, claiming a call and
/// sending a result keep it attached.
#[utoipa::path(
    post, path = "/my/projects/{project_id}/clients", request_body = AttachClient,
    responses(
        (status = 201, description = "Attached", body = AttachedClient),
        (status = 409, description = "The project has as many clients as it can have"),
    ),
)]
pub(in crate::routes) async fn attach(
    State(app): State<App>,
    user: User,
    MyProject(project): MyProject,
    JsonBody(body): JsonBody<AttachClient>,
) -> ApiResult<(StatusCode, Json<AttachedClient>)> {
    let workspace = fields::workspace(body.workspace)?;
    let space = app.runtime.space(SpaceKey {
        user: user.id(),
        project: project.id(),
    });
    let attached =
        space.attach_client(&body.client_id, &workspace, body.sandbox, body.mcp.as_ref());
    let attached = attached.map_err(|full| ApiError::new(ErrorCode::Conflict, full.to_string()))?;
    Ok((StatusCode::CREATED, Json(attached)))
}

/// The clients of a project
///
/// Clients that were silent for a minute are also listed, with `present: false`.
#[utoipa::path(
    get, path = "/my/projects/{project_id}/clients", params(PageQuery),
    responses((status = 200, description = "A page of clients, by their ids", body = ClientList)),
)]
pub(in crate::routes) async fn clients(
    State(app): State<App>,
    user: User,
    MyProject(project): MyProject,
    page: Page,
) -> Json<ClientList> {
    let attached = app.runtime.attached_clients(SpaceKey {
        user: user.id(),
        project: project.id(),
    });
    let total = attached.len() as u64;
    let window = attached
        .into_iter()
        .skip(usize::try_from(page.offset).unwrap_or(usize::MAX))
        .take(usize::try_from(page.limit).unwrap_or(usize::MAX));
    Json(ClientList {
        clients: window.collect(),
        total,
        limit: page.limit,
        offset: page.offset,
    })
}

/// Let a client go: its sessions are free for another one
#[utoipa::path(
    delete, path = "/my/projects/{project_id}/clients/{client_id}",
    responses((status = 204, description = "Gone; calls it was running have an unknown outcome")),
)]
pub(in crate::routes) async fn detach(
    State(app): State<App>,
    user: User,
    MyProject(project): MyProject,
    PathId(client_id): PathId<ClientId>,
) -> ApiResult<StatusCode> {
    let space = app.runtime.space(SpaceKey {
        user: user.id(),
        project: project.id(),
    });
    match app.runtime.detach_client(&space, &client_id).await? {
        true => Ok(StatusCode::NO_CONTENT),
        false => Err(ClientId::not_found()),
    }
}

/// Take a tool call, or keep it
#[utoipa::path(
    post, path = "/my/chat/{session_id}/tool_calls/{call_id}/claim", request_body = ClaimCall,
    responses(
        (status = 200, description = "It is this client's until the lease is over", body = CallClaimed),
        (status = 409, description = "Another client's, not approved yet, ended, or another version of it was approved"),
    ),
)]
pub(in crate::routes) async fn claim(
    State(app): State<App>,
    session: MySession,
    PathId(call_id): PathId<CallId>,
    JsonBody(body): JsonBody<ClaimCall>,
) -> ApiResult<Json<CallClaimed>> {
    let base = body.base;
    let version = body.digest.map(|digest| CallVersion { digest, base });
    let lease_seconds = app
        .runtime
        .claim(&session.row, call_id, body.client_id, version)
        .await?;
    Ok(Json(CallClaimed {
        claimed: true,
        lease_seconds,
    }))
}

/// Send what a tool call gave
#[utoipa::path(
    post, path = "/my/chat/{session_id}/tool_calls/{call_id}/result", request_body = CallResult,
    responses(
        (status = 200, description = "Accepted; the turn goes on", body = ResultAck),
        (status = 409, description = "Not this client's, or another result came before"),
    ),
)]
pub(in crate::routes) async fn result(
    State(app): State<App>,
    session: MySession,
    PathId(call_id): PathId<CallId>,
    JsonBody(body): JsonBody<CallResult>,
) -> ApiResult<Json<ResultAck>> {
    let result: Value = match (body.result, body.error) {
        (Some(result), None) => result,
        (None, Some(error)) => json!({ "success": false, "error": error }),
        (None, None) => return Err(ApiError::missing("result")),
        (Some(_), Some(_)) => return Err(ApiError::invalid("Send result or error, not both")),
    };
    let accepted = app
        .runtime
        .client_result(&session.row, call_id.clone(), body.client_id, result)
        .await?;
    Ok(Json(ResultAck {
        call_id,
        duplicate: accepted == ResultAccepted::Duplicate,
    }))
}

/// Tell how far a tool call is
///
/// It is shown to readers and not stored.
#[utoipa::path(
    post, path = "/my/chat/{session_id}/tool_calls/{call_id}/progress",
    request_body = ReportProgress,
    responses(
        (status = 204, description = "Shown"),
        (status = 409, description = "Not this client's, or ended"),
    ),
)]
pub(in crate::routes) async fn progress(
    State(app): State<App>,
    session: MySession,
    PathId(call_id): PathId<CallId>,
    JsonBody(body): JsonBody<ReportProgress>,
) -> ApiResult<StatusCode> {
    let message = body.message;
    let message = message.map(|text| text.chars().take(MAX_PROGRESS_CHARS).collect());
    let progress = ToolProgress {
        call_id,
        progress: body.progress,
        total: body.total,
        message,
    };
    let client = body.client_id;
    app.runtime
        .call_progress(&session.row, client, progress)
        .await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Ask the person what the MCP server of a call wants to know
///
/// The answer is a message that `answers` the returned id.
#[utoipa::path(
    post, path = "/my/chat/{session_id}/tool_calls/{call_id}/elicit", request_body = ElicitAnswer,
    responses(
        (status = 200, description = "Asked", body = ElicitationAsked),
        (status = 409, description = "Not this client's, ended, or asked too often"),
    ),
)]
pub(in crate::routes) async fn elicit(
    State(app): State<App>,
    session: MySession,
    PathId(call_id): PathId<CallId>,
    JsonBody(body): JsonBody<ElicitAnswer>,
) -> ApiResult<Json<ElicitationAsked>> {
    let message = body.message.chars().take(MAX_QUESTION_CHARS).collect();
    let schema_bytes = serde_json::to_vec(&body.requested_schema).map_or(usize::MAX, |s| s.len());
    if schema_bytes > MAX_SCHEMA_BYTES {
        let why = format!("requested_schema has more than {MAX_SCHEMA_BYTES} bytes");
        return Err(ApiError::invalid(&why));
    }
    let asked = (message, body.requested_schema);
    let call_id = app
        .runtime
        .elicit(&session.row, call_id, body.client_id, asked)
        .await?;
    Ok(Json(ElicitationAsked { call_id }))
}
