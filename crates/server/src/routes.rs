//! The routes, one file per resource. A route is registered and documented in the same place.

mod agent;
mod agent_service;
mod agents;
mod chat;
mod context;
mod decisions;
mod events;
mod frame;
mod health;
mod login;
mod long_list;
mod page;
mod paging;
mod project_agents;
mod project_sessions;
mod projects;
mod session_parts;
mod sessions;
mod worker_space;

use axum::Router;
use axum::routing::get;
use codelab_protocol::ErrorBody;
use utoipa::IntoResponses;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

pub(crate) use login::Attempts;
pub use project_agents::check_agent;

use crate::app::App;
use crate::page::WebPage;

/// With the internal key.
pub(crate) fn internal() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(agent::stream))
        .routes(routes!(agents::list))
        .routes(routes!(agents::current))
        .routes(routes!(sessions::list, sessions::create))
        .routes(routes!(sessions::delete))
        .routes(routes!(sessions::reset))
        .routes(routes!(sessions::cancel))
        .routes(routes!(sessions::restore))
        .routes(routes!(session_parts::history))
        .routes(routes!(session_parts::pending_approvals))
        .routes(routes!(session_parts::agent_history))
        .routes(routes!(session_parts::audit))
        .routes(routes!(session_parts::events))
}

/// With the internal key, in a header or as a bearer token.
pub(crate) fn metrics() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(health::metrics))
}

/// With a user's token or cookie.
pub(crate) fn my() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(projects::list, projects::create))
        .routes(routes!(projects::get, projects::change, projects::delete))
        .routes(routes!(project_agents::list, project_agents::create))
        .routes(routes!(
            project_agents::get,
            project_agents::change,
            project_agents::delete
        ))
        .routes(routes!(context::search))
        .routes(routes!(context::add, context::clear))
        .routes(routes!(context::forget))
        .routes(routes!(project_sessions::tools::attach))
        .routes(routes!(project_sessions::tools::detach))
        .routes(routes!(project_sessions::list, project_sessions::create))
        .routes(routes!(
            project_sessions::get,
            project_sessions::rename,
            project_sessions::delete
        ))
        .routes(routes!(project_sessions::messages::send))
        .routes(routes!(project_sessions::messages::list))
        .routes(routes!(project_sessions::messages::events))
        .routes(routes!(project_sessions::messages::cancel))
        .routes(routes!(project_sessions::plans::list))
        .routes(routes!(project_sessions::plans::get))
        .routes(routes!(project_sessions::plans::decide))
        .routes(routes!(project_sessions::plans::retry))
        .routes(routes!(project_sessions::plans::task_messages))
        .routes(routes!(project_sessions::approvals::list))
        .routes(routes!(project_sessions::approvals::decide))
        .routes(routes!(project_sessions::approvals::answer))
        .routes(routes!(project_sessions::approvals::audit))
        .routes(routes!(project_sessions::tools::claim))
        .routes(routes!(project_sessions::tools::result))
        .routes(routes!(project_sessions::mine::events))
        .routes(routes!(project_sessions::mine::approvals))
        .routes(routes!(project_sessions::mine::usage))
        .routes(routes!(agent_service::status))
        .routes(routes!(agent_service::metrics))
        .routes(routes!(agent_service::register))
        .routes(routes!(agent_service::deregister))
        .routes(routes!(agent_service::invalidate))
        .routes(routes!(worker_space::metrics))
        .routes(routes!(worker_space::health))
        .routes(routes!(worker_space::reset))
        .routes(routes!(worker_space::cleanup))
        .routes(routes!(worker_space::clear_cache))
}

/// The global Chat: with the internal key, or a user's token or cookie.
pub(crate) fn global_chat() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(chat::history))
        .routes(routes!(chat::stream))
        .routes(routes!(chat::user_message))
}

/// The global Chat for other programs: with the internal key.
pub(crate) fn global_chat_agents() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(chat::agent_message))
        .routes(routes!(chat::ask_user))
}

/// For everybody.
pub(crate) fn public() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(health::health))
        .routes(routes!(health::ready))
        .routes(routes!(health::live))
        .routes(routes!(page::openapi))
        .routes(routes!(page::docs))
        .routes(routes!(page::index))
        .routes(routes!(login::login))
        .routes(routes!(login::logout))
        .route("/assets/status.css", get(page::style))
        .route("/assets/docs.css", get(page::docs_style))
}

/// The files of the web page, for everybody.
pub(crate) fn page_files(page: &WebPage) -> Router<App> {
    page.paths().fold(Router::new(), |router, path| {
        router.route(path, get(page::file))
    })
}

/// Answers that every route with access can give.
#[derive(IntoResponses)]
#[allow(dead_code)]
pub(crate) enum Refused {
    /// Missing or wrong key.
    #[response(status = 401)]
    Unauthorized(ErrorBody),
    /// Foreign host name or origin.
    #[response(status = 403)]
    Forbidden(ErrorBody),
    /// Too many requests at once; see `Retry-After`.
    #[response(status = 429)]
    TooMany(ErrorBody),
    /// The server stops, or a part it needs is unavailable; see `Retry-After`.
    #[response(status = 503)]
    Unavailable(ErrorBody),
    /// The disk is full; nothing was changed.
    #[response(status = 507)]
    DiskFull(ErrorBody),
}

/// Answers of routes that take a body or query.
#[derive(IntoResponses)]
#[allow(dead_code)]
pub(crate) enum Invalid {
    /// Larger than the limit.
    #[response(status = 413)]
    TooLarge(ErrorBody),
    /// Malformed, or a field is missing or wrong.
    #[response(status = 422)]
    Unprocessable(ErrorBody),
}
