//! The routes, one file per resource. A route is registered and documented in the same place; what
//! all routes of a group have in common is added by [`documented`].

mod agent;
mod agent_service;
mod agents;
mod chat;
mod cluster;
mod context;
mod decisions;
mod documented;
mod events;
mod frame;
mod health;
mod instructions;
mod login;
mod long_list;
mod mcp;
mod mcp_servers;
mod models;
mod oauth;
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
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

pub(crate) use documented::operations;
pub(crate) use frame::add as add_schema;
pub(crate) use login::Attempts;
pub(crate) use mcp::OwnTool;
pub use project_agents::check_agent;
pub(crate) use projects::stored_default_project;

use self::documented::Access;
use self::project_sessions::{
    approvals, attachments, export, forks, messages, mine, plans, previews, queue, remembered,
    rewind, tools,
};
use crate::app::App;
use crate::page::WebPage;

/// The routes of one resource. Handlers in the same brackets share their path.
macro_rules! resource {
    ($([$($handler:path),+]),+ $(,)?) => {
        OpenApiRouter::new()$(.routes(routes!($($handler),+)))+
    };
}

/// With the internal key.
pub(crate) fn internal() -> OpenApiRouter<App> {
    Access::InternalKey.to([
        ("agent", resource!([agent::stream])),
        ("cluster", resource!([cluster::drain])),
        ("agents", resource!([agents::list], [agents::current])),
        (
            "sessions",
            resource!(
                [sessions::list, sessions::create],
                [sessions::delete],
                [sessions::reset],
                [sessions::cancel],
                [sessions::restore],
                [session_parts::history],
                [session_parts::pending_approvals],
                [session_parts::agent_history],
                [session_parts::audit],
                [session_parts::events],
            ),
        ),
    ])
}

/// With the internal key, in a header or as a bearer token.
pub(crate) fn metrics() -> OpenApiRouter<App> {
    Access::InternalKeyOrBearer.to([("health", resource!([health::metrics]))])
}

/// With a user's token or cookie.
pub(crate) fn my() -> OpenApiRouter<App> {
    Access::User.to([
        (
            "projects",
            resource!(
                [projects::list, projects::create],
                [projects::get, projects::change, projects::delete],
            ),
        ),
        (
            "project agents",
            resource!(
                [project_agents::list, project_agents::create],
                [
                    project_agents::get,
                    project_agents::change,
                    project_agents::delete
                ],
            ),
        ),
        ("models", resource!([models::list], [models::try_model])),
        (
            "agent service",
            resource!(
                [agent_service::status],
                [agent_service::metrics],
                [agent_service::register],
                [agent_service::deregister],
                [agent_service::invalidate],
            ),
        ),
        (
            "memory",
            resource!(
                [context::search],
                [context::list, context::add, context::clear],
                [context::forget]
            ),
        ),
        (
            "worker space",
            resource!(
                [worker_space::metrics],
                [worker_space::health],
                [worker_space::reset],
                [worker_space::cleanup],
                [worker_space::clear_cache],
            ),
        ),
        ("project sessions", of_project_sessions()),
        (
            "plans",
            resource!(
                [plans::of_project],
                [plans::list],
                [plans::get],
                [plans::decide],
                [plans::retry],
                [plans::task_messages],
            ),
        ),
        (
            "approvals",
            resource!(
                [approvals::list],
                [approvals::decide],
                [approvals::renew],
                [previews::show],
                [approvals::answer],
                [approvals::audit],
                [remembered::list],
                [remembered::revoke],
                [mine::approvals],
                [mine::waiting],
            ),
        ),
        (
            "tools",
            resource!(
                [tools::clients, tools::attach],
                [tools::detach],
                [tools::claim],
                [tools::result],
                [tools::progress],
                [tools::elicit],
                [instructions::get, instructions::report, instructions::send],
                [instructions::trust, instructions::decisions],
                [previews::ask_again],
            ),
        ),
        (
            "MCP servers",
            resource!(
                [mcp_servers::list, mcp_servers::create],
                [mcp_servers::get, mcp_servers::change, mcp_servers::delete],
                [mcp_servers::accept],
                [mcp_servers::permit],
                [mcp_servers::test],
                [mcp_servers::authorize, mcp_servers::forget],
                [mcp_servers::report],
            ),
        ),
    ])
}

fn of_project_sessions() -> OpenApiRouter<App> {
    resource!(
        [project_sessions::list, project_sessions::create],
        [
            project_sessions::get,
            project_sessions::change,
            project_sessions::delete
        ],
        [export::export],
        [messages::send],
        [messages::list],
        [messages::events],
        [messages::retry],
        [messages::compact],
        [rewind::rewind],
        [messages::cancel],
        [queue::change, queue::take_back],
        [forks::fork],
        [attachments::read],
        [mine::events],
        [mine::usage],
    )
}

/// For MCP clients: with a user's token.
pub(crate) fn mcp() -> OpenApiRouter<App> {
    Access::Token.to([("mcp", resource!([mcp::post]))])
}

/// The global Chat: with the internal key, or a user's token or cookie.
pub(crate) fn global_chat() -> OpenApiRouter<App> {
    let routes = resource!(
        [chat::history],
        [chat::stream],
        [chat::user_message],
        [chat::cancel]
    );
    Access::InternalKeyOrUser.to([("global chat", routes)])
}

/// The global Chat for other programs: with the internal key.
pub(crate) fn global_chat_agents() -> OpenApiRouter<App> {
    Access::InternalKey.to([(
        "global chat",
        resource!([chat::agent_message], [chat::ask_user]),
    )])
}

/// For everybody.
pub(crate) fn public() -> OpenApiRouter<App> {
    let pages = Access::Everybody.to([
        (
            "health",
            resource!([health::health], [health::ready], [health::live]),
        ),
        (
            "api",
            resource!([page::openapi], [page::docs], [page::index]),
        ),
    ]);
    let login = Access::Login.to([("login", resource!([login::login], [login::logout]))]);
    pages
        .merge(login)
        .route("/assets/status.css", get(page::style))
        .route("/assets/docs.css", get(page::docs_style))
        .route("/assets/docs-icon.svg", get(page::docs_icon))
}

/// For everybody, but about a project.
pub(crate) fn oauth() -> OpenApiRouter<App> {
    Access::Everybody.to([("MCP servers", resource!([oauth::callback]))])
}

/// The files of the web page, for everybody.
pub(crate) fn page_files(page: &WebPage) -> Router<App> {
    page.paths().fold(Router::new(), |router, path| {
        router.route(path, get(page::file))
    })
}
