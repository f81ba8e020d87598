//! The router and its middleware.

use std::sync::Arc;

use axum::Router;
use axum::extract::{MatchedPath, Request, State};
use axum::http::{HeaderValue, StatusCode, Uri, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use codelab_engine::Agent;
use codelab_llm::Secret;
use codelab_protocol::ErrorCode;
use codelab_runtime::Runtime;
use tower_http::catch_panic::CatchPanicLayer;

use crate::access::{ServerNames, check_names, check_room, internal_key, internal_key_or_bearer};
use crate::buffers::Buffers;
use crate::cluster::user_events::PeerEvents;
use crate::cluster::{Forwarded, Forwarder, Forwarding, entrance, forward, refuse_while_paused};
use crate::config::ChatAccess;
use crate::error::{ApiError, internal_error};
use crate::listen::CallerAddress;
use crate::models::KnownModels;
use crate::page::WebPage;
use crate::routes::{self, Attempts};
use crate::users::{Logins, Verifier, agent_access, chat_access, token_access, user_access};

/// What handlers share.
#[derive(Clone)]
pub(crate) struct App {
    pub runtime: Runtime,
    pub names: Arc<ServerNames>,
    pub internal_api_key: Secret,
    pub body_bytes: usize,
    pub buffers: Arc<Buffers>,
    /// The API document, made once.
    pub openapi: Arc<str>,
    /// The same for people.
    pub docs: Arc<str>,
    pub page: Arc<WebPage>,
    pub verifier: Arc<Verifier>,
    pub logins: Logins,
    pub login_attempts: Arc<Attempts>,
    /// Of those who come back from an authorization.
    pub oauth_attempts: Arc<Attempts>,
    /// Whether browsers reach this server over TLS.
    pub is_secure: bool,
    /// How browsers reach this server, where that is set.
    pub public_url: Option<Arc<str>>,
    /// Whether MCP servers on this machine and in private networks may be called.
    pub mcp_allow_private: bool,
    pub models: Arc<KnownModels>,
    pub starter_pack: Arc<[Agent]>,
    pub chat_access: ChatAccess,
    pub forwarder: Arc<Forwarder>,
    /// Nothing where this server is alone.
    pub peer_events: Option<PeerEvents>,
}

/// The whole HTTP side as one service; every route with and without a trailing slash.
pub(crate) fn router(app: App) -> Router {
    let (routing, forwarder) = (Arc::new(app.clone()), Arc::clone(&app.forwarder));
    let forwarding = Forwarding { routing, forwarder };
    // Inside the access layers: whoever may not ask here is refused here.
    let to_owner = || middleware::from_fn_with_state(forwarding.clone(), forward::<Arc<App>>);
    let (internal, _) = routes::internal().split_for_parts();
    let (metrics, _) = routes::metrics().split_for_parts();
    let (public, _) = routes::public().split_for_parts();
    let internal = internal.route_layer(to_owner());
    let internal = internal.route_layer(middleware::from_fn_with_state(app.clone(), internal_key));
    let (my, _) = routes::my().split_for_parts();
    let my = my.route_layer(to_owner());
    let my = my.route_layer(middleware::from_fn_with_state(app.clone(), user_access));
    let (mcp, _) = routes::mcp().split_for_parts();
    let mcp = mcp.route_layer(to_owner());
    let mcp = mcp.route_layer(middleware::from_fn_with_state(app.clone(), token_access));
    let (oauth, _) = routes::oauth().split_for_parts();
    let oauth = oauth.route_layer(to_owner());
    let (chat, _) = routes::global_chat().split_for_parts();
    let chat = chat.route_layer(to_owner());
    let chat = chat.route_layer(middleware::from_fn_with_state(app.clone(), chat_access));
    let (chat_agents, _) = routes::global_chat_agents().split_for_parts();
    let chat_agents = chat_agents.route_layer(to_owner());
    let chat_agents =
        chat_agents.route_layer(middleware::from_fn_with_state(app.clone(), agent_access));
    let metrics = metrics.route_layer(middleware::from_fn_with_state(
        app.clone(),
        internal_key_or_bearer,
    ));
    let peer_events = app.peer_events.clone();
    let inner = Router::new()
        .merge(internal)
        .merge(metrics)
        .merge(my)
        .merge(mcp)
        .merge(chat)
        .merge(chat_agents)
        .merge(public)
        .merge(oauth)
        .merge(routes::page_files(&app.page))
        .fallback(unknown_route)
        .method_not_allowed_fallback(wrong_method)
        .layer(CatchPanicLayer::custom(|panic| {
            tracing::error!(panic = panic_text(&panic), "a request handler panicked");
            internal_error()
        }))
        .layer(middleware::from_fn_with_state(app.clone(), check_names))
        .layer(middleware::from_fn_with_state(
            Arc::clone(&forwarding.routing),
            refuse_while_paused::<Arc<App>>,
        ))
        .layer(middleware::from_fn_with_state(app.clone(), check_room))
        .layer(middleware::from_fn_with_state(app.clone(), observe))
        .with_state(app);
    // Rewriting must come before routing, so the router is a service inside another one. Servers
    // call each other by addresses that are no names of this one for callers.
    Router::new().fallback(move |request: Request| {
        let to_server = peer_events
            .as_ref()
            .and_then(|events| events.answer(&request));
        let (forwarding, inner) = (forwarding.clone(), inner.clone());
        async move {
            match to_server {
                Some(answer) => answer,
                None => entrance(forwarding, inner, without_trailing_slash(request)).await,
            }
        }
    })
}

fn without_trailing_slash(mut request: Request) -> Request {
    let path = request.uri().path();
    if path.len() < 2 || !path.ends_with('/') {
        return request;
    }
    let trimmed = match path.trim_end_matches('/') {
        "" => "/",
        trimmed => trimmed,
    };
    let path_and_query = match request.uri().query() {
        Some(query) => format!("{trimmed}?{query}"),
        None => trimmed.to_owned(),
    };
    let mut parts = request.uri().clone().into_parts();
    parts.path_and_query = path_and_query.parse().ok();
    if let Ok(uri) = Uri::from_parts(parts) {
        *request.uri_mut() = uri;
    }
    request
}

async fn observe(State(app): State<App>, request: Request, next: Next) -> Response {
    let method = request.method().clone();
    let route = request
        .extensions()
        .get::<MatchedPath>()
        .map_or("unknown", MatchedPath::as_str)
        .to_owned();
    let forwarded = request.extensions().get::<Forwarded>().copied();
    let caller = caller(&request, forwarded);
    let started = std::time::Instant::now();
    let mut response = next.run(request).await;
    let status = response.status();
    tracing::debug!(%method, route, caller, is_forwarded = forwarded.is_some(), status = status.as_u16(), ms = started.elapsed().as_millis() as u64, "request answered");
    // A forwarded request is counted by the server that it reached first.
    if forwarded.is_none() {
        app.runtime.metrics().count_request(&route, status.as_u16());
    }
    let headers = response.headers_mut();
    headers.insert(
        header::X_CONTENT_TYPE_OPTIONS,
        HeaderValue::from_static("nosniff"),
    );
    headers.insert(
        header::REFERRER_POLICY,
        HeaderValue::from_static("no-referrer"),
    );
    // Browsers must not resolve the hosts of links in model output before a person follows them.
    headers.insert(
        header::X_DNS_PREFETCH_CONTROL,
        HeaderValue::from_static("off"),
    );
    headers
        .entry(header::CACHE_CONTROL)
        .or_insert(HeaderValue::from_static("no-store"));
    response
}

/// Where a request entered the installation, for the log.
fn caller(request: &Request, forwarded: Option<Forwarded>) -> Option<String> {
    if !tracing::enabled!(tracing::Level::DEBUG) {
        return None;
    }
    let direct = request.extensions().get::<CallerAddress>();
    let address = match forwarded {
        Some(forwarded) => forwarded.caller,
        None => direct.map(|CallerAddress(address)| *address),
    };
    address.map(|address| address.to_string())
}

async fn unknown_route() -> ApiError {
    ApiError::new(ErrorCode::NotFound, "There is no route at this address")
}

async fn wrong_method() -> Response {
    let mut response = ApiError::new(
        ErrorCode::NotFound,
        "This route does not support this method",
    )
    .into_response();
    *response.status_mut() = StatusCode::METHOD_NOT_ALLOWED;
    response
}

fn panic_text(panic: &Box<dyn std::any::Any + Send>) -> &str {
    panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("unknown")
}
