//! `/my/projects/{project_id}/agents`: the agents of a project.

use axum::Json;
use axum::extract::{FromRequestParts, State};
use axum::http::StatusCode;
use axum::http::request::Parts;
use codelab_engine::{DEFAULT_CONCURRENCY_LIMIT, PLACEHOLDERS, unknown_placeholders};
use codelab_protocol::{
    AgentId, AllowedTool, ChangeAgent, CreateAgent, ErrorCode, ProjectAgent, ProjectAgentList,
    ProjectId, SavedAgent, Tool,
};
use codelab_runtime::{MAX_AGENTS, project_agent, random_hex};
use codelab_store::{AgentChange, AgentRow, NewAgent, ProjectStore, StoreError};
use serde::Deserialize;
use utoipa::IntoParams;

use super::paging::{Page, PageQuery};
use super::projects::MyProject;
use crate::app::App;
use crate::body::{JsonBody, Params};
use crate::error::{ApiError, ApiResult, OrMissing};
use crate::fields;
use crate::path::{NamedInPath as _, PathId};

const ID_BYTES: usize = 12;
const DEFAULT_ROLE: &str = "assistant";
/// Enough to look and to finish, nothing that changes anything.
const DEFAULT_TOOLS: [Tool; 5] = [
    Tool::ReadFile,
    Tool::ListFiles,
    Tool::SearchInCode,
    Tool::AttemptCompletion,
    Tool::AskFollowupQuestion,
];

/// The agent a path names, with its project, which is the caller's.
pub(super) struct MyAgent {
    pub project: ProjectStore,
    pub row: AgentRow,
}

impl FromRequestParts<App> for MyAgent {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, ApiError> {
        let MyProject(project) = MyProject::from_request_parts(parts, app).await?;
        let PathId(id) = PathId::<AgentId>::from_request_parts(parts, app).await?;
        let row = project.agent(&id).await?.ok_or_else(AgentId::not_found)?;
        Ok(Self { project, row })
    }
}

/// The agents of a project
#[utoipa::path(
    get, path = "/my/projects/{project_id}/agents", params(PageQuery),
    responses((status = 200, description = "A page of agents, oldest first", body = ProjectAgentList)),
)]
pub(super) async fn list(
    State(app): State<App>,
    MyProject(project): MyProject,
    page: Page,
) -> ApiResult<Json<ProjectAgentList>> {
    let (rows, total) = project.agents(page.limit, page.offset).await?;
    let agents = rows
        .into_iter()
        .map(|row| project_agent(row, app.models.default_model()))
        .collect();
    Ok(Json(ProjectAgentList {
        agents,
        total,
        limit: page.limit,
        offset: page.offset,
    }))
}

/// Add an agent to a project
#[utoipa::path(
    post, path = "/my/projects/{project_id}/agents", request_body = CreateAgent,
    responses(
        (status = 201, description = "Created", body = SavedAgent),
        (status = 409, description = "The name is in use, or the project is full"),
    ),
)]
pub(super) async fn create(
    State(app): State<App>,
    MyProject(project): MyProject,
    JsonBody(body): JsonBody<CreateAgent>,
) -> ApiResult<(StatusCode, Json<SavedAgent>)> {
    let new = new_agent(body)?;
    if project.count_agents().await? >= MAX_AGENTS {
        return Err(ApiError::new(
            ErrorCode::Conflict,
            format!("A project has at most {MAX_AGENTS} agents"),
        ));
    }
    let name = new.name.clone();
    let created = app.runtime.create_agent(project, new).await;
    if created
        .as_ref()
        .is_err_and(|error| *error == StoreError::AlreadyExists)
    {
        let message = format!("The project already has an agent named {name}");
        return Err(ApiError::new(ErrorCode::Conflict, message).with("name", name.as_str()));
    }
    let row = created.or_missing(ProjectId::not_found)?;
    Ok((StatusCode::CREATED, Json(saved(&app, row))))
}

/// One agent
#[utoipa::path(
    get, path = "/my/projects/{project_id}/agents/{agent_id}",
    responses((status = 200, description = "The agent", body = ProjectAgent)),
)]
pub(super) async fn get(State(app): State<App>, agent: MyAgent) -> Json<ProjectAgent> {
    Json(project_agent(agent.row, app.models.default_model()))
}

/// Change an agent
#[utoipa::path(
    patch, path = "/my/projects/{project_id}/agents/{agent_id}", request_body = ChangeAgent,
    responses((status = 200, description = "As it is now", body = SavedAgent)),
)]
pub(super) async fn change(
    State(app): State<App>,
    MyAgent {
        project,
        row: present,
    }: MyAgent,
    JsonBody(body): JsonBody<ChangeAgent>,
) -> ApiResult<Json<SavedAgent>> {
    if body
        .name
        .as_ref()
        .is_some_and(|name| name != present.agent.name.as_str())
    {
        return Err(fields::wrong("name", "cannot be changed"));
    }
    let changed = app
        .runtime
        .change_agent(project, present.agent.agent_id, checked(body)?)
        .await;
    let row = changed.or_missing(AgentId::not_found)?;
    Ok(Json(saved(&app, row)))
}

/// Delete an agent
///
/// One that works is not deleted unless `force` is given, which cancels its tasks.
#[utoipa::path(
    delete, path = "/my/projects/{project_id}/agents/{agent_id}", params(DeleteQuery),
    responses(
        (status = 204, description = "Deleted"),
        (status = 409, description = "The agent works"),
    ),
)]
pub(super) async fn delete(
    State(app): State<App>,
    MyAgent { project, row }: MyAgent,
    Params(query): Params<DeleteQuery>,
) -> ApiResult<StatusCode> {
    let deleted = app
        .runtime
        .delete_agent(project, row, query.force.unwrap_or(false))
        .await;
    deleted.or_missing(AgentId::not_found)?;
    Ok(StatusCode::NO_CONTENT)
}

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct DeleteQuery {
    /// Whether tasks of the agent are cancelled.
    force: Option<bool>,
}

/// What a new project begins with.
pub(super) fn starter_agents(app: &App) -> ApiResult<Vec<NewAgent>> {
    let agents = app.starter_pack.iter().map(|agent| {
        Ok(NewAgent {
            agent_id: new_id()?,
            name: agent.name.clone(),
            role: agent.role.clone(),
            description: agent.description.clone(),
            model: agent.model.clone(),
            fallback_models: agent.fallback_models.clone(),
            // By way of its text: 0.3 stays 0.3.
            temperature: agent
                .temperature
                .and_then(|value| value.to_string().parse().ok()),
            max_tokens: agent.max_tokens,
            system_prompt: agent.prompt.clone(),
            allowed_tools: agent.allowed_tools.clone(),
            file_restrictions: agent
                .file_restrictions
                .iter()
                .map(|pattern| pattern.as_str().to_owned())
                .collect(),
            concurrency_limit: agent.concurrency_limit,
        })
    });
    agents.collect()
}

/// Says in one line why an agent would be refused, without asking a server.
pub fn check_agent(agent: CreateAgent) -> Result<(), String> {
    new_agent(agent)
        .map(drop)
        .map_err(|error| error.message().to_owned())
}

fn new_agent(body: CreateAgent) -> ApiResult<NewAgent> {
    Ok(NewAgent {
        agent_id: new_id()?,
        name: fields::agent_name(&body.name)?,
        role: fields::role(body.role.unwrap_or_else(|| DEFAULT_ROLE.to_owned()))?,
        description: fields::agent_description(body.description.unwrap_or_default())?,
        model: body.model.map(fields::model).transpose()?,
        fallback_models: fields::fallback_models(body.fallback_models.unwrap_or_default())?,
        temperature: body.temperature.map(fields::temperature).transpose()?,
        max_tokens: body.max_tokens.map(fields::max_tokens).transpose()?,
        system_prompt: fields::system_prompt(body.system_prompt.unwrap_or_default())?,
        allowed_tools: fields::tools(
            body.allowed_tools
                .unwrap_or_else(|| DEFAULT_TOOLS.map(AllowedTool::from).to_vec()),
        ),
        file_restrictions: fields::file_restrictions(body.file_restrictions.unwrap_or_default())?,
        concurrency_limit: fields::concurrency_limit(
            body.concurrency_limit.unwrap_or(DEFAULT_CONCURRENCY_LIMIT),
        )?,
    })
}

fn checked(body: ChangeAgent) -> ApiResult<AgentChange> {
    let restrictions = match body.file_restrictions {
        codelab_protocol::Patch::Null => Some(Vec::new()),
        other => fields::not_null("file_restrictions", other)?,
    };
    let fallbacks = match body.fallback_models {
        codelab_protocol::Patch::Null => Some(Vec::new()),
        other => fields::not_null("fallback_models", other)?,
    };
    Ok(AgentChange {
        role: fields::not_null("role", body.role)?
            .map(fields::role)
            .transpose()?,
        description: fields::not_null("description", body.description)?
            .map(fields::agent_description)
            .transpose()?,
        model: fields::patch(body.model, fields::model)?,
        fallback_models: fallbacks.map(fields::fallback_models).transpose()?,
        temperature: fields::patch(body.temperature, fields::temperature)?,
        max_tokens: fields::patch(body.max_tokens, fields::max_tokens)?,
        system_prompt: fields::not_null("system_prompt", body.system_prompt)?
            .map(fields::system_prompt)
            .transpose()?,
        allowed_tools: fields::not_null("allowed_tools", body.allowed_tools)?.map(fields::tools),
        file_restrictions: restrictions.map(fields::file_restrictions).transpose()?,
        concurrency_limit: fields::not_null("concurrency_limit", body.concurrency_limit)?
            .map(fields::concurrency_limit)
            .transpose()?,
    })
}

fn new_id() -> ApiResult<AgentId> {
    AgentId::parse(&format!("agent-{}", random_hex(ID_BYTES)))
        .map_err(|error| ApiError::invalid(error.to_string()))
}

fn saved(app: &App, row: AgentRow) -> SavedAgent {
    let placeholders = unknown_placeholders(&row.agent.system_prompt)
        .into_iter()
        .map(|name| {
            format!(
                "system_prompt: {{{{{name}}}}} is not a placeholder and will be empty; the placeholders are {}",
                PLACEHOLDERS.join(", ")
            )
        });
    let mut warnings: Vec<String> = placeholders.collect();
    if !warnings.is_empty() {
        tracing::warn!(agent = %row.agent.agent_id, unknown = warnings.len(), "an agent was saved with unknown placeholders in its prompt");
    }
    let own = row.agent.model.iter().map(|model| ("model", model));
    let fallbacks = row.agent.fallback_models.iter();
    for (field, model) in own.chain(fallbacks.map(|model| ("fallback_models", model))) {
        if !app.models.knows(model) {
            warnings.push(format!(
                "{field}: {model} is not known to this server: requests use this name, and their cost is not counted"
            ));
        }
    }
    SavedAgent {
        agent: project_agent(row, app.models.default_model()),
        warnings,
    }
}
