//! `/my/projects/{project_id}/clients/{client_id}/instructions` and `…/trust`: what the workspace of
//! a tool runner brings, and what a person trusts of it.

use axum::Json;
use axum::extract::State;
use codelab_protocol::{
    ClientId, ClientInstructions, ErrorCode, InstructionsReport, MissingTexts, SendTexts,
    TrustContent, TrustDecisions, WaitingContent,
};
use codelab_runtime::{BroughtRefused, SpaceKey};

use super::projects::MyProject;
use crate::app::App;
use crate::body::JsonBody;
use crate::error::{ApiError, ApiResult};
use crate::path::{NamedInPath as _, PathId};

/// What the workspace of a client brings
///
/// Instructions and skills that models are told, with their digests, and contents that wait for a
/// person to trust them.
#[utoipa::path(
    get, path = "/my/projects/{project_id}/clients/{client_id}/instructions",
    responses((status = 200, description = "As the client reported it", body = ClientInstructions)),
)]
pub(super) async fn get(
    State(app): State<App>,
    MyProject(project): MyProject,
    PathId(client_id): PathId<ClientId>,
) -> ApiResult<Json<ClientInstructions>> {
    let space = app.runtime.space(SpaceKey::of(&project));
    let brought = space.client_instructions(&client_id);
    brought.map(Json).ok_or_else(ClientId::not_found)
}

/// Say what the workspace of a client brings
///
/// For tool runners. It replaces what the client reported before, and counts while the client is
/// attached. The answer names the texts that the server does not have.
#[utoipa::path(
    put, path = "/my/projects/{project_id}/clients/{client_id}/instructions",
    request_body = InstructionsReport,
    responses(
        (status = 200, description = "Known; these texts are missing", body = MissingTexts),
        (status = 409, description = "The clients of the project bring more than it can hold"),
    ),
)]
pub(super) async fn report(
    State(app): State<App>,
    MyProject(project): MyProject,
    PathId(client_id): PathId<ClientId>,
    JsonBody(body): JsonBody<InstructionsReport>,
) -> ApiResult<Json<MissingTexts>> {
    let space = app.runtime.space(SpaceKey::of(&project));
    let missing = space.report_instructions(&client_id, body);
    let missing = missing.map_err(refused)?;
    Ok(Json(MissingTexts { missing }))
}

/// Send texts that the server does not have
///
/// For tool runners. Only texts whose digests the client reported are taken.
#[utoipa::path(
    post, path = "/my/projects/{project_id}/clients/{client_id}/instructions",
    request_body = SendTexts,
    responses((status = 200, description = "Taken; these are still missing", body = MissingTexts)),
)]
pub(super) async fn send(
    State(app): State<App>,
    MyProject(project): MyProject,
    PathId(client_id): PathId<ClientId>,
    JsonBody(body): JsonBody<SendTexts>,
) -> ApiResult<Json<MissingTexts>> {
    let space = app.runtime.space(SpaceKey::of(&project));
    let missing = space.take_texts(&client_id, body.texts);
    let missing = missing.map_err(refused)?;
    Ok(Json(MissingTexts { missing }))
}

/// Trust a content that waits at a client
///
/// The client takes the decision up within seconds and stores it itself, if the content still has
/// this digest. A decision is lost if the client goes away before.
#[utoipa::path(
    post, path = "/my/projects/{project_id}/clients/{client_id}/trust", request_body = TrustContent,
    responses(
        (status = 200, description = "The client will be told", body = WaitingContent),
        (status = 409, description = "The content has changed since it was shown"),
    ),
)]
pub(super) async fn trust(
    State(app): State<App>,
    MyProject(project): MyProject,
    PathId(client_id): PathId<ClientId>,
    JsonBody(body): JsonBody<TrustContent>,
) -> ApiResult<Json<WaitingContent>> {
    let space = app.runtime.space(SpaceKey::of(&project));
    let waiting = space.trust_content(&client_id, body);
    waiting.map(Json).map_err(refused)
}

/// What people trusted and the client has not taken up yet
///
/// For tool runners. A decision leaves the list when the content waits no longer.
#[utoipa::path(
    get, path = "/my/projects/{project_id}/clients/{client_id}/trust",
    responses((status = 200, description = "Oldest first", body = TrustDecisions)),
)]
pub(super) async fn decisions(
    State(app): State<App>,
    MyProject(project): MyProject,
    PathId(client_id): PathId<ClientId>,
) -> ApiResult<Json<TrustDecisions>> {
    let space = app.runtime.space(SpaceKey::of(&project));
    let decisions = space.trust_decisions(&client_id);
    let decisions = decisions.ok_or_else(ClientId::not_found)?;
    Ok(Json(TrustDecisions { decisions }))
}

fn refused(refused: BroughtRefused) -> ApiError {
    let why = refused.to_string();
    match refused {
        BroughtRefused::Unknown => ClientId::not_found(),
        BroughtRefused::TooLarge { .. } => ApiError::new(ErrorCode::PayloadTooLarge, why),
        BroughtRefused::Invalid { field, .. } => ApiError::invalid(why).with("field", field),
        BroughtRefused::Full | BroughtRefused::Changed | BroughtRefused::NotShown => {
            ApiError::new(ErrorCode::Conflict, why)
        }
        BroughtRefused::NotWaiting => ApiError::new(ErrorCode::NotFound, why),
    }
}
