//! `/my/chat`: a user's sessions.

pub(super) mod answer;
pub(super) mod approvals;
pub(super) mod attachments;
pub(super) mod export;
pub(super) mod forks;
pub(super) mod messages;
pub(super) mod mine;
pub(super) mod plans;
pub(super) mod previews;
pub(super) mod queue;
pub(super) mod remembered;
pub(super) mod rewind;
pub(super) mod tools;

use axum::Json;
use axum::extract::{FromRequestParts, State};
use axum::http::StatusCode;
use axum::http::request::Parts;
use codelab_engine::{Budget, Session};
use codelab_protocol::{
    ChangeProjectSession, CreateProjectSession, ErrorCode, Patch, ProjectId, ProjectSession,
    ProjectSessionDetail, ProjectSessionList, SessionId, UsageTotal,
};
use codelab_runtime::{SpaceKey, state_of};
use codelab_store::{
    FoundSession, OwnedSession, ProjectSessionRow, SessionEdit, UsageSum, UserStore,
};
use serde::Deserialize;
use utoipa::IntoParams;

use super::paging::{Page, PageQuery};
use super::projects::default_project;
use crate::app::App;
use crate::body::{JsonBody, OptionalJsonBody, Params};
use crate::error::{ApiError, ApiResult, OrMissing};
use crate::fields;
use crate::path::{NamedInPath as _, PathId};
use crate::users::User;

/// Messages that come with a session's details.
const DETAIL_MESSAGES: u64 = 20;
const MICROS: f64 = 1_000_000.0;

/// The session a path names, which is the caller's. Anything else names none.
pub(super) struct MySession {
    pub user: User,
    pub mine: UserStore,
    pub row: OwnedSession,
}

impl FromRequestParts<App> for MySession {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, ApiError> {
        let user = User::from_request_parts(parts, app).await?;
        let PathId(id) = PathId::<SessionId>::from_request_parts(parts, app).await?;
        Self::named(app, user, &id).await
    }
}

impl MySession {
    pub async fn named(app: &App, user: User, id: &SessionId) -> ApiResult<Self> {
        let mine = app.runtime.store().of(user.id());
        let row = mine.session(id).await?.ok_or_else(SessionId::not_found)?;
        Ok(Self { user, mine, row })
    }

    pub fn id(&self) -> &SessionId {
        self.row.id()
    }

    /// The row as it is after what this request did.
    async fn read_again(&self) -> ApiResult<OwnedSession> {
        let row = self.mine.session(self.id()).await?;
        row.ok_or_else(SessionId::not_found)
    }
}

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct Of {
    /// Sessions of this project only.
    #[param(minimum = 1)]
    project_id: Option<i64>,
}

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct Which {
    /// Archived sessions instead of the others.
    #[serde(default)]
    archived: bool,
    /// Only sessions that have all of these words in their title and messages, each at the beginning
    /// of a word and in any case. At most 16 words. A page has at most 100 sessions then.
    #[param(max_length = 200)]
    q: Option<String>,
}

impl Of {
    /// A number that is no project's names one that does not exist.
    pub async fn project(&self, mine: &UserStore) -> ApiResult<Option<ProjectId>> {
        let Some(number) = self.project_id else {
            return Ok(None);
        };
        let id = ProjectId::new(number).ok_or_else(ProjectId::not_found)?;
        mine.project(id).await?.ok_or_else(ProjectId::not_found)?;
        Ok(Some(id))
    }
}

/// The sessions of the user, or those that a search finds
#[utoipa::path(
    get, path = "/my/chat/sessions", params(PageQuery, Of, Which),
    responses(
        (status = 200, description = "A page of sessions, newest activity first", body = ProjectSessionList),
        (status = 404, description = "Unknown project"),
    ),
)]
pub(super) async fn list(
    State(app): State<App>,
    user: User,
    page: Page,
    Params(of): Params<Of>,
    Params(which): Params<Which>,
) -> ApiResult<Json<ProjectSessionList>> {
    let mine = app.runtime.store().of(user.id());
    let project = of.project(&mine).await?;
    let archived = Some(which.archived);
    let (sessions, total) = match which.q.map(fields::search).transpose()?.flatten() {
        Some(words) => {
            let (rows, total) = mine
                .search_sessions(&words, project, archived, page.limit, page.offset)
                .await?;
            (rows.into_iter().map(found).collect(), total)
        }
        None => {
            let (rows, total) = mine
                .sessions(project, archived, page.limit, page.offset)
                .await?;
            (rows.into_iter().map(listed).collect(), total)
        }
    };
    Ok(Json(ProjectSessionList {
        sessions,
        total,
        limit: page.limit,
        offset: page.offset,
    }))
}

/// Make a session in a project
///
/// Without a body it is made in the default project.
#[utoipa::path(
    post, path = "/my/chat/sessions", request_body = CreateProjectSession,
    responses(
        (status = 201, description = "Created", body = ProjectSession),
        (status = 404, description = "Unknown project"),
    ),
)]
pub(super) async fn create(
    State(app): State<App>,
    user: User,
    OptionalJsonBody(body): OptionalJsonBody<CreateProjectSession>,
) -> ApiResult<(StatusCode, Json<ProjectSession>)> {
    let mine = app.runtime.store().of(user.id());
    let title = body.title.map(fields::title).transpose()?;
    let budget = Budget {
        usd: body.budget_usd.map(fields::budget_usd).transpose()?,
        tokens: body.budget_tokens.map(fields::budget_tokens).transpose()?,
    };
    let project = match body.project_id {
        Some(id) => mine.project(id).await?.ok_or_else(ProjectId::not_found)?,
        None => default_project(&app, &mine).await?,
    };
    app.runtime.shares().session(user.id())?;
    let space = SpaceKey {
        user: user.id(),
        project: project.id(),
    };
    let id = app
        .runtime
        .create_project_session(space, title, budget)
        .await
        .or_missing(ProjectId::not_found)?;
    let row = mine.session(&id).await?.ok_or_else(SessionId::not_found)?;
    Ok((StatusCode::CREATED, Json(shown(&row, &state_of(&row)?))))
}

/// One session with its newest messages
#[utoipa::path(
    get, path = "/my/chat/sessions/{session_id}",
    responses((status = 200, description = "The session", body = ProjectSessionDetail)),
)]
pub(super) async fn get(
    State(app): State<App>,
    session: MySession,
) -> ApiResult<Json<ProjectSessionDetail>> {
    app.runtime.touch_project_session(&session.row).await?;
    let row = session.read_again().await?;
    let messages = session.mine.last_messages(row.key, DETAIL_MESSAGES).await?;
    let usage = session.mine.session_usage(row.key).await?;
    let state = state_of(&row)?;
    Ok(Json(ProjectSessionDetail {
        session: shown(&row, &state),
        messages: messages.into_iter().map(|stored| stored.message).collect(),
        status: state.suspended(),
        busy: !state.is_idle(),
        queued: state.queued() as u64,
        budget_usd: state.budget().usd,
        budget_tokens: state.budget().tokens,
        usage: total(usage),
    }))
}

/// Change a session's title, model, agent, marks or what passes without a question
#[utoipa::path(
    patch, path = "/my/chat/sessions/{session_id}", request_body = ChangeProjectSession,
    responses((status = 200, description = "As it is now", body = ProjectSession)),
)]
pub(super) async fn change(
    State(app): State<App>,
    session: MySession,
    JsonBody(body): JsonBody<ChangeProjectSession>,
) -> ApiResult<Json<ProjectSession>> {
    let change = SessionEdit {
        title: fields::not_null("title", body.title)?
            .map(fields::title)
            .transpose()?,
        pinned: fields::not_null("pinned", body.pinned)?,
        archived: fields::not_null("archived", body.archived)?,
    };
    let model = chosen(fields::patch(body.model, fields::model)?);
    let agent = chosen(fields::patch(body.agent, fields::agent)?);
    let approve = fields::not_null("approve", body.approve)?;
    let marks = change != SessionEdit::default();
    if !marks && model.is_none() && agent.is_none() && approve.is_none() {
        let message = "title is missing".to_owned();
        return Err(ApiError::new(ErrorCode::MissingRequiredField, message).with("field", "title"));
    }
    // What can be refused comes first.
    if let Some(agent) = agent {
        app.runtime.choose_agent(&session.row, agent).await?;
    }
    if let Some(model) = model {
        app.runtime.choose_model(&session.row, model).await?;
    }
    if let Some(mode) = approve {
        app.runtime.choose_approve(&session.row, mode).await?;
    }
    if marks {
        session
            .mine
            .change_session(session.id(), change)
            .await
            .or_missing(SessionId::not_found)?;
    }
    let row = session.read_again().await?;
    Ok(Json(shown(&row, &state_of(&row)?)))
}

/// What was given, if anything was; `None` in it is `null`.
fn chosen<T>(given: Patch<T>) -> Option<Option<T>> {
    match given {
        Patch::Absent => None,
        Patch::Null => Some(None),
        Patch::Value(value) => Some(Some(value)),
    }
}

/// Delete a session with everything that was said in it
#[utoipa::path(
    delete, path = "/my/chat/sessions/{session_id}",
    responses((status = 204, description = "Deleted")),
)]
pub(super) async fn delete(State(app): State<App>, session: MySession) -> ApiResult<StatusCode> {
    app.runtime.delete_project_session(&session.row).await?;
    Ok(StatusCode::NO_CONTENT)
}

fn shown(row: &OwnedSession, state: &Session) -> ProjectSession {
    ProjectSession {
        session_id: row.id().clone(),
        project_id: row.project(),
        title: row.title.clone(),
        created_at: row.created_at,
        last_activity: row.last_activity,
        message_count: row.message_count,
        asks: state.asks(),
        model: state.model().map(str::to_owned),
        agent: state.chosen_agent().cloned(),
        approve: Some(state.approve_mode()),
        compacting: state.is_compacting(),
        forked_from: state.forked_from().cloned(),
        pinned: row.marks.pinned,
        archived: row.marks.archived,
        snippet: None,
    }
}

fn found(row: FoundSession) -> ProjectSession {
    ProjectSession {
        snippet: Some(row.snippet),
        ..listed(row.session)
    }
}

fn listed(row: ProjectSessionRow) -> ProjectSession {
    ProjectSession {
        session_id: row.session_id,
        project_id: row.project_id,
        title: row.title,
        created_at: row.created_at,
        last_activity: row.last_activity,
        message_count: row.message_count,
        asks: row.asks,
        approve: None,
        model: None,
        agent: None,
        compacting: false,
        forked_from: None,
        pinned: row.marks.pinned,
        archived: row.marks.archived,
        snippet: None,
    }
}

pub(super) fn total(sum: UsageSum) -> UsageTotal {
    UsageTotal {
        calls: sum.calls,
        prompt_tokens: sum.prompt_tokens,
        completion_tokens: sum.completion_tokens,
        total_tokens: sum.total_tokens,
        cached_tokens: sum.cached_tokens,
        reasoning_tokens: sum.reasoning_tokens,
        cost_usd: sum.cost_micro_usd as f64 / MICROS,
        cost_known: sum.cost_known,
    }
}
