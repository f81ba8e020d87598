//! The plans of a session: reading, deciding, running failed tasks again.

use axum::Json;
use axum::extract::State;
use codelab_engine::Decision;
use codelab_protocol::{
    CallId, DecisionChoice, Digest, ErrorCode, MessageList, Plan, PlanDecision, PlanId, PlanList,
    ProjectPlan, ProjectPlanList, TaskId,
};
use codelab_store::ProjectPlanRow;
use serde_json::Map;

use super::super::decisions;
use super::super::paging::{Page, PageQuery};
use super::super::projects::MyProject;
use super::MySession;
use super::messages::message_list;
use crate::app::App;
use crate::body::JsonBody;
use crate::error::{ApiError, ApiResult};
use crate::path::{NamedInPath as _, PathId};

/// The plans of a session, oldest first
#[utoipa::path(
    get, path = "/my/chat/{session_id}/plans", params(PageQuery),
    responses((status = 200, description = "A page of plans", body = PlanList)),
)]
pub(in crate::routes) async fn list(session: MySession, page: Page) -> ApiResult<Json<PlanList>> {
    let (rows, total) = session
        .mine
        .plans(session.row.key, page.limit, page.offset)
        .await?;
    let plans = rows.into_iter().map(|row| row.plan).collect();
    Ok(Json(PlanList {
        plans,
        total,
        limit: page.limit,
        offset: page.offset,
    }))
}

/// The plans of all sessions of a project, newest first
#[utoipa::path(
    get, path = "/my/projects/{project_id}/plans", params(PageQuery),
    responses((status = 200, description = "A page of plans", body = ProjectPlanList)),
)]
pub(in crate::routes) async fn of_project(
    MyProject(project): MyProject,
    page: Page,
) -> ApiResult<Json<ProjectPlanList>> {
    let (rows, total) = project.plans(page.limit, page.offset).await?;
    let shown = |row: ProjectPlanRow| ProjectPlan {
        session_id: row.session_id,
        title: row.title,
        plan: row.plan,
    };
    Ok(Json(ProjectPlanList {
        plans: rows.into_iter().map(shown).collect(),
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
    session: MySession,
    PathId(id): PathId<PlanId>,
) -> ApiResult<Json<Plan>> {
    Ok(Json(plan(&session, &id).await?))
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
    session: MySession,
    PathId(id): PathId<PlanId>,
    JsonBody(body): JsonBody<PlanDecision>,
) -> ApiResult<Json<Plan>> {
    plan(&session, &id).await?;
    let decision = match decisions::choice(body.decision)? {
        DecisionChoice::Approve => Decision::Approve { remember: false },
        DecisionChoice::Reject => Decision::Reject {
            feedback: body.feedback,
        },
        DecisionChoice::Edit => {
            let tasks = body.tasks.ok_or_else(|| ApiError::missing("tasks"))?;
            Decision::Edit {
                arguments: Map::from_iter([("tasks".to_owned(), tasks)]),
            }
        }
    };
    let digest = body.digest.as_deref().map(Digest::from_wire);
    let call_id = CallId::parse(id.as_str()).map_err(|_| PlanId::not_found())?;
    let decided_by = session.user.id().to_string();
    app.runtime
        .decide_in_project(&session.row, call_id, decision, (digest, None), decided_by)
        .await
        .map_err(|error| {
            let error = ApiError::from(error);
            // A plan that exists and does not wait was decided, or never asked.
            if error.code() == ErrorCode::PendingApprovalNotFound {
                return ApiError::new(ErrorCode::Conflict, "The plan does not wait for a decision");
            }
            error
        })?;
    Ok(Json(plan(&session, &id).await?))
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
    session: MySession,
    PathId(id): PathId<PlanId>,
) -> ApiResult<Json<Plan>> {
    app.runtime.retry_plan(&session.row, id.clone()).await?;
    Ok(Json(plan(&session, &id).await?))
}

/// The thread of one task, oldest first
#[utoipa::path(
    get, path = "/my/chat/{session_id}/plans/{plan_id}/tasks/{task_id}/messages", params(PageQuery),
    responses((status = 200, description = "A page of messages", body = MessageList)),
)]
pub(in crate::routes) async fn task_messages(
    session: MySession,
    PathId(id): PathId<PlanId>,
    PathId(task): PathId<TaskId>,
    page: Page,
) -> ApiResult<Json<MessageList>> {
    let plan = plan(&session, &id).await?;
    if !plan.tasks.iter().any(|known| known.id == task) {
        return Err(TaskId::not_found());
    }
    let (stored, total) = session
        .mine
        .task_messages(session.row.key, &id, &task, page.limit, page.offset)
        .await?;
    Ok(Json(message_list(stored, total, page)))
}

async fn plan(session: &MySession, id: &PlanId) -> ApiResult<Plan> {
    Ok(session
        .mine
        .plan(session.row.key, id)
        .await?
        .ok_or_else(PlanId::not_found)?
        .plan)
}
