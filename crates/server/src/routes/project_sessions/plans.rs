//! The plans of a session: reading, deciding, running failed tasks again.

use axum::Json;
use axum::extract::{FromRequestParts, State};
use axum::http::request::Parts;
use codelab_engine::Decision;
use codelab_protocol::{
    CallId, Digest, ErrorCode, MessageList, Plan, PlanDecision, PlanId, PlanList, TaskId,
};
use serde_json::Map;

use super::super::decisions;
use super::super::paging::{Page, PageQuery};
use super::MySession;
use crate::app::App;
use crate::body::{JsonBody, path_id};
use crate::error::{ApiError, ApiResult};

/// The plan a path names.
pub(in super::super) struct PlanPath(PlanId);

impl FromRequestParts<App> for PlanPath {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, ApiError> {
        path_id(parts, app, "plan_id")
            .await
            .map(Self)
            .ok_or_else(no_plan)
    }
}

/// The task a path names.
pub(in super::super) struct TaskPath(TaskId);

impl FromRequestParts<App> for TaskPath {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, ApiError> {
        path_id(parts, app, "task_id")
            .await
            .map(Self)
            .ok_or_else(no_task)
    }
}

/// The plans of a session, oldest first
#[utoipa::path(
    get, path = "/my/chat/{session_id}/plans", params(PageQuery),
    responses((status = 200, description = "A page of plans", body = PlanList)),
)]
pub(in crate::routes) async fn list(chat: MySession, page: Page) -> ApiResult<Json<PlanList>> {
    let (rows, total) = chat
        .mine
        .plans(chat.row.key, page.limit, page.offset)
        .await?;
    let plans = rows.into_iter().map(|row| row.plan).collect();
    Ok(Json(PlanList {
        plans,
        total,
        limit: page.limit,
        offset: page.offset,
    }))
}

/// One plan with the state of its tasks
#[utoipa::path(
    get, path = "/my/chat/{session_id}/plans/{plan_id}",
    responses((status = 200, description = "The plan", body = Plan)),
)]
pub(in crate::routes) async fn get(
    chat: MySession,
    PlanPath(id): PlanPath,
) -> ApiResult<Json<Plan>> {
    Ok(Json(plan(&chat, &id).await?))
}

/// Approve, reject or edit a plan that waits
///
/// An edit replaces the tasks and approves in the same act; one that cannot be run leaves the plan
/// waiting.
#[utoipa::path(
    post, path = "/my/chat/{session_id}/plans/{plan_id}/decision", request_body = PlanDecision,
    responses(
        (status = 200, description = "The plan as it is now", body = Plan),
        (status = 409, description = "Decided, expired or cancelled already"),
    ),
)]
pub(in crate::routes) async fn decide(
    State(app): State<App>,
    chat: MySession,
    PlanPath(id): PlanPath,
    JsonBody(body): JsonBody<PlanDecision>,
) -> ApiResult<Json<Plan>> {
    plan(&chat, &id).await?;
    let text = body.decision.ok_or_else(|| ApiError::missing("decision"))?;
    let decision = match text.to_ascii_lowercase().as_str() {
        "approve" => Decision::Approve { remember: false },
        "reject" => Decision::Reject {
            feedback: body.feedback,
        },
        "edit" => {
            let tasks = body.tasks.ok_or_else(|| ApiError::missing("tasks"))?;
            Decision::Edit {
                arguments: Map::from_iter([("tasks".to_owned(), tasks)]),
            }
        }
        _ => return Err(decisions::unknown(&text)),
    };
    let digest = body.digest.as_deref().map(Digest::from_wire);
    let call_id = CallId::parse(id.as_str()).map_err(|_| no_plan())?;
    let decided_by = chat.user.id().to_string();
    app.runtime
        .decide_in_project(&chat.row, call_id, decision, digest, decided_by)
        .await
        .map_err(|error| {
            let error = ApiError::from(error);
            // A plan that exists and does not wait was decided, or never asked.
            if error.code() == ErrorCode::PendingApprovalNotFound {
                return ApiError::new(ErrorCode::Conflict, "The plan does not wait for a decision");
            }
            error
        })?;
    Ok(Json(plan(&chat, &id).await?))
}

/// Run the tasks of a plan again that failed or were skipped
#[utoipa::path(
    post, path = "/my/chat/{session_id}/plans/{plan_id}/retry",
    responses(
        (status = 200, description = "The plan, running again", body = Plan),
        (status = 404, description = "Unknown session, plan or agent"),
        (status = 409, description = "The session is busy, or nothing is left to run"),
    ),
)]
pub(in crate::routes) async fn retry(
    State(app): State<App>,
    chat: MySession,
    PlanPath(id): PlanPath,
) -> ApiResult<Json<Plan>> {
    app.runtime.retry_plan(&chat.row, id.clone()).await?;
    Ok(Json(plan(&chat, &id).await?))
}

/// The thread of one task, oldest first
#[utoipa::path(
    get, path = "/my/chat/{session_id}/plans/{plan_id}/tasks/{task_id}/messages", params(PageQuery),
    responses((status = 200, description = "A page of messages", body = MessageList)),
)]
pub(in crate::routes) async fn task_messages(
    chat: MySession,
    PlanPath(id): PlanPath,
    TaskPath(task): TaskPath,
    page: Page,
) -> ApiResult<Json<MessageList>> {
    let plan = plan(&chat, &id).await?;
    if !plan.tasks.iter().any(|known| known.id == task) {
        return Err(no_task());
    }
    let (stored, total) = chat
        .mine
        .task_messages(chat.row.key, &id, &task, page.limit, page.offset)
        .await?;
    let messages = stored.into_iter().map(|stored| stored.message).collect();
    Ok(Json(MessageList {
        messages,
        total,
        limit: page.limit,
        offset: page.offset,
    }))
}

async fn plan(chat: &MySession, id: &PlanId) -> ApiResult<Plan> {
    Ok(chat
        .mine
        .plan(chat.row.key, id)
        .await?
        .ok_or_else(no_plan)?
        .plan)
}

fn no_plan() -> ApiError {
    ApiError::new(ErrorCode::PlanNotFound, "Plan not found")
}

fn no_task() -> ApiError {
    ApiError::new(ErrorCode::NotFound, "Task not found")
}
