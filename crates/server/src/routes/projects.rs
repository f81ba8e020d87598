//! `/my/projects`: a user's projects.

use axum::Json;
use axum::extract::{FromRequestParts, State};
use axum::http::StatusCode;
use axum::http::request::Parts;
use codelab_protocol::{ChangeProject, CreateProject, ErrorCode, Project, ProjectId, ProjectList};
use codelab_runtime::{Destination, OwnedThing, SpaceKey, now, random_hex};
use codelab_store::{NewProject, ProjectChange, ProjectRow, ProjectStore, UserStore};

use super::paging::{Page, PageQuery};
use super::project_agents::starter_agents;
use crate::app::App;
use crate::body::JsonBody;
use crate::error::{ApiError, ApiResult, OrMissing};
use crate::fields;
use crate::path::{NamedInPath as _, PathId};
use crate::users::User;

const MAX_PROJECTS: u64 = 1000;
const DEFAULT_NAME: &str = "Default";
const NONCE_BYTES: usize = 16;
const MICROS: f64 = 1_000_000.0;

/// The project a path names, which is the caller's. Anything else names none.
pub(super) struct MyProject(pub ProjectStore);

impl FromRequestParts<App> for MyProject {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, ApiError> {
        let user = User::from_request_parts(parts, app).await?;
        let PathId(id) = PathId::<ProjectId>::from_request_parts(parts, app).await?;
        app.runtime
            .store()
            .of(user.id())
            .project(id)
            .await?
            .map(Self)
            .ok_or_else(ProjectId::not_found)
    }
}

/// The worker space of the project a path names: the caller's, or any project's for an admin.
pub(super) struct OperatedSpace(pub SpaceKey);

impl FromRequestParts<App> for OperatedSpace {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, ApiError> {
        let user = User::from_request_parts(parts, app).await?;
        let PathId(id) = PathId::<ProjectId>::from_request_parts(parts, app).await?;
        let store = app.runtime.store();
        let project = match user.is_admin() {
            true => store.project_of_anyone(id).await?,
            false => store.of(user.id()).project(id).await?,
        };
        project
            .map(|project| Self(SpaceKey::of(&project)))
            .ok_or_else(ProjectId::not_found)
    }
}

/// The user's default project, which is made on first use.
pub(super) async fn default_project(app: &App, mine: &UserStore) -> ApiResult<ProjectStore> {
    let project = stored_default_project(app, mine).await?;
    if app.runtime.live_space(SpaceKey::of(&project)).is_none() {
        make_ready(app, &project).await;
    }
    Ok(project)
}

/// The default project in the database. Its worker space may live on another server.
pub(crate) async fn stored_default_project(app: &App, mine: &UserStore) -> ApiResult<ProjectStore> {
    let new = new_project(app, DEFAULT_NAME.to_owned())?;
    let stored = mine.default_project_or(new, now()).await;
    stored.map_err(ApiError::not_stored)
}

/// Its agents are on the bus before anybody asks, unless its worker space lives on another server.
async fn make_ready(app: &App, project: &ProjectStore) {
    let owned = OwnedThing::Project(project.id());
    let Ok(Destination::Here(_claim)) = app.runtime.route(&owned).await else {
        return;
    };
    if let Err(error) = app.runtime.open_space(SpaceKey::of(project)).await {
        tracing::debug!(project = %project.id(), %error, "opening the worker space failed, the next use tries again");
    }
}

/// The projects of the user
///
/// A user who has none gets the default project with its starter pack of four agents.
#[utoipa::path(
    get, path = "/my/projects", params(PageQuery),
    responses((status = 200, description = "A page of projects, oldest first", body = ProjectList)),
)]
pub(super) async fn list(
    State(app): State<App>,
    user: User,
    page: Page,
) -> ApiResult<Json<ProjectList>> {
    let mine = app.runtime.store().of(user.id());
    if mine.count_projects().await? == 0 {
        default_project(&app, &mine).await?;
    }
    let (rows, total) = mine.projects(page.limit, page.offset).await?;
    let projects = rows.into_iter().map(shown).collect();
    Ok(Json(ProjectList {
        projects,
        total,
        limit: page.limit,
        offset: page.offset,
    }))
}

/// Make a project with its starter pack of four agents
#[utoipa::path(
    post, path = "/my/projects", request_body = CreateProject,
    responses(
        (status = 201, description = "Created", body = Project),
        (status = 409, description = "The user has as many projects as there can be"),
    ),
)]
pub(super) async fn create(
    State(app): State<App>,
    user: User,
    JsonBody(body): JsonBody<CreateProject>,
) -> ApiResult<(StatusCode, Json<Project>)> {
    let mut new = new_project(&app, fields::project_name(body.name)?)?;
    new.description = body
        .description
        .map(fields::project_description)
        .transpose()?;
    new.budget_micro_usd = body.budget_usd.map(micro_usd).transpose()?;
    new.budget_tokens = body.budget_tokens.map(fields::budget_tokens).transpose()?;
    let mine = app.runtime.store().of(user.id());
    if mine.count_projects().await? >= MAX_PROJECTS {
        return Err(ApiError::new(
            ErrorCode::Conflict,
            format!("A user can have at most {MAX_PROJECTS} projects"),
        ));
    }
    let project = mine
        .create_project(new, now())
        .await
        .map_err(ApiError::not_stored)?;
    make_ready(&app, &project).await;
    Ok((StatusCode::CREATED, Json(shown(project.row().clone()))))
}

/// One project
#[utoipa::path(
    get, path = "/my/projects/{project_id}",
    responses((status = 200, description = "The project", body = Project)),
)]
pub(super) async fn get(MyProject(project): MyProject) -> Json<Project> {
    Json(shown(project.row().clone()))
}

/// Change a project
#[utoipa::path(
    patch, path = "/my/projects/{project_id}", request_body = ChangeProject,
    responses((status = 200, description = "As it is now", body = Project)),
)]
pub(super) async fn change(
    State(app): State<App>,
    MyProject(project): MyProject,
    JsonBody(body): JsonBody<ChangeProject>,
) -> ApiResult<Json<Project>> {
    let change = ProjectChange {
        name: fields::not_null("name", body.name)?
            .map(fields::project_name)
            .transpose()?,
        description: fields::patch(body.description, fields::project_description)?,
        budget_micro_usd: fields::patch(body.budget_usd, micro_usd)?,
        budget_tokens: fields::patch(body.budget_tokens, fields::budget_tokens)?,
    };
    let row = project
        .change(change, now())
        .await
        .or_missing(ProjectId::not_found)?;
    app.runtime.budget_changed(SpaceKey::of(&project));
    Ok(Json(shown(row)))
}

/// Delete a project with its agents and sessions
///
/// What works in it is cancelled.
#[utoipa::path(
    delete, path = "/my/projects/{project_id}",
    responses((status = 204, description = "Deleted")),
)]
pub(super) async fn delete(
    State(app): State<App>,
    MyProject(project): MyProject,
) -> ApiResult<StatusCode> {
    app.runtime
        .delete_project(project)
        .await
        .or_missing(ProjectId::not_found)?;
    Ok(StatusCode::NO_CONTENT)
}

fn new_project(app: &App, name: String) -> ApiResult<NewProject> {
    Ok(NewProject {
        name,
        description: None,
        budget_micro_usd: None,
        budget_tokens: None,
        nonce: random_hex(NONCE_BYTES),
        agents: starter_agents(app)?,
    })
}

fn micro_usd(usd: f64) -> ApiResult<u64> {
    Ok((fields::budget_usd(usd)? * MICROS).round() as u64)
}

fn shown(row: ProjectRow) -> Project {
    Project {
        project_id: row.id,
        name: row.name,
        description: row.description,
        budget_usd: row.budget_micro_usd.map(|micros| micros as f64 / MICROS),
        budget_tokens: row.budget_tokens,
        is_default: row.is_default,
        created_at: row.created_at,
        updated_at: row.updated_at,
    }
}
