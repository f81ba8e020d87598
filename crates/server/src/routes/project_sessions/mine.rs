//! Across all of a user's sessions: what happens, what waits, what it cost.

use axum::Json;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use codelab_protocol::{
    AgentUsage, ApprovalList, ProjectUsage, SessionUsage, UsageReport, WaitingList,
};

use super::super::events::{UserStreamPosition, user_cursor};
use super::super::frame::UserFrame;
use super::super::paging::{Page, PageQuery};
use super::approvals::approval_list;
use super::{Of, total};
use crate::app::App;
use crate::body::Params;
use crate::error::ApiResult;
use crate::sse;
use crate::users::User;

/// Everything that happens in the user's sessions
///
/// Each event is one of its session's log, with that log's `seq`. Events of one session come in
/// order, without a hole. Without `Last-Event-ID` or `after`, the stream begins now. Its ids are
/// opaque: a reader comes back with the last one, to any server, and gets what it missed. The first
/// frame has an id and no data.
///
/// A reader that falls too far behind is cut. Events can come twice after a reader was away while
/// more than 64 sessions were active; session and `seq` tell. A `gap` names events that are not
/// shown, because they were pruned or because more than 10,000 were missed.
#[utoipa::path(
    get, path = "/my/events",
    params(UserStreamPosition, ("Last-Event-ID" = Option<String>, Header, description = "The id of the last event that the reader has")),
    responses((status = 200, description = "Server-sent events", body = UserFrame, content_type = "text/event-stream")),
)]
pub(in crate::routes) async fn events(
    State(app): State<App>,
    user: User,
    Params(position): Params<UserStreamPosition>,
    headers: HeaderMap,
) -> ApiResult<Response> {
    let after = user_cursor(&headers, &position, user.id())?;
    let slot = app.runtime.shares().stream(user.id())?;
    let joined = app.peer_events.map(|peers| peers.join(user.id()));
    let reader = app
        .runtime
        .user_events(user.id(), after, joined.is_some())
        .await?;
    Ok(sse::user_response(reader, joined, slot))
}

/// Everything that waits for a decision of the user
#[utoipa::path(
    get, path = "/my/approvals", params(PageQuery),
    responses((status = 200, description = "Open approvals in the order they were asked", body = ApprovalList)),
)]
pub(in crate::routes) async fn approvals(
    State(app): State<App>,
    user: User,
    page: Page,
) -> ApiResult<Json<ApprovalList>> {
    let mine = app.runtime.store().of(user.id());
    let (mut open, mut total) = mine.open_approvals(None, page.limit, page.offset).await?;
    if app.runtime.touch_sessions_of(user.id(), &open).await? {
        (open, total) = mine.open_approvals(None, page.limit, page.offset).await?;
    }
    Ok(Json(approval_list(open, total, page)))
}

/// Everything that waits for the user: approvals of tool calls, plans and budgets, and questions
///
/// `/my/events` tells of each with `waiting_added`, and with `waiting_removed` when it is over.
#[utoipa::path(
    get, path = "/my/waiting",
    responses((status = 200, description = "At most 1,000, oldest first", body = WaitingList)),
)]
pub(in crate::routes) async fn waiting(
    State(app): State<App>,
    user: User,
) -> ApiResult<Json<WaitingList>> {
    let waiting = app.runtime.waiting(user.id()).await?;
    Ok(Json(WaitingList { waiting }))
}

/// What the user's model calls used
#[utoipa::path(
    get, path = "/my/usage", params(Of),
    responses(
        (status = 200, description = "Sums by project, session and agent", body = UsageReport),
        (status = 404, description = "Unknown project"),
    ),
)]
pub(in crate::routes) async fn usage(
    State(app): State<App>,
    user: User,
    Params(of): Params<Of>,
) -> ApiResult<Json<UsageReport>> {
    let mine = app.runtime.store().of(user.id());
    let report = mine.usage(of.project(&mine).await?).await?;
    let projects = report.by_project.into_iter();
    let sessions = report.by_session.into_iter();
    let agents = report.by_agent.into_iter();
    Ok(Json(UsageReport {
        total: total(report.total),
        projects: projects
            .map(|row| ProjectUsage {
                project_id: row.project_id,
                usage: total(row.usage),
            })
            .collect(),
        sessions: sessions
            .map(|row| SessionUsage {
                session_id: row.session_id,
                project_id: row.project_id,
                title: row.title,
                usage: total(row.usage),
            })
            .collect(),
        agents: agents
            .map(|row| AgentUsage {
                project_id: row.project_id,
                agent: row.agent,
                usage: total(row.usage),
            })
            .collect(),
    }))
}
