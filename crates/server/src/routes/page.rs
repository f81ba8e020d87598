//! The web page, the API document and its readable form, for everybody.

use std::fmt::Write;

use axum::extract::State;
use axum::http::{HeaderMap, Uri, header};
use axum::response::{Html, IntoResponse, Response};
use codelab_protocol::{ErrorCode, HealthStatus};

use super::health::report;
use crate::app::App;
use crate::error::{ApiError, ApiResult};
use crate::page::CONTENT_SECURITY_POLICY;

/// The OpenAPI 3.1 document
#[utoipa::path(
    get, path = "/openapi.json",
    responses((status = 200, description = "This document", body = Object)),
)]
pub(super) async fn openapi(State(app): State<App>) -> impl IntoResponse {
    (
        [(header::CONTENT_TYPE, "application/json")],
        app.openapi.to_string(),
    )
}

/// The API in a readable form
#[utoipa::path(
    get, path = "/docs",
    responses((status = 200, description = "A page", body = String, content_type = "text/html")),
)]
pub(super) async fn docs(State(app): State<App>) -> impl IntoResponse {
    (
        [(header::CONTENT_SECURITY_POLICY, CONTENT_SECURITY_POLICY)],
        Html(app.docs.to_string()),
    )
}

/// The web page
#[utoipa::path(
    get, path = "/",
    responses((status = 200, description = "A page", body = String, content_type = "text/html")),
)]
pub(super) async fn index(State(app): State<App>, asked: HeaderMap) -> Response {
    match app.page.index(&asked) {
        Some(page) => page,
        None => status(&app).await.into_response(),
    }
}

/// A file of the web page.
pub(super) async fn file(
    State(app): State<App>,
    uri: Uri,
    asked: HeaderMap,
) -> ApiResult<Response> {
    app.page
        .answer(uri.path(), &asked)
        .ok_or_else(|| ApiError::new(ErrorCode::NotFound, "There is no such file"))
}

/// How the server stands, where the web page was not built.
async fn status(app: &App) -> impl IntoResponse {
    let health = report(app, &Default::default()).await;
    let mode = if health.multi_agent_mode {
        "a team of specialists"
    } else {
        "one universal agent"
    };
    let mut rows = String::new();
    for (name, check) in &health.checks {
        let detail = check.detail.as_deref().unwrap_or_default();
        // Writing to a string cannot fail.
        let _ = write!(
            rows,
            "<tr><th>{}</th><td>{}</td><td>{}</td></tr>",
            name,
            word(check.status),
            escaped(detail)
        );
    }
    let agents: String = app
        .runtime
        .team()
        .agents()
        .iter()
        .map(|agent| {
            format!(
                "<li><b>{}</b> {}</li>",
                agent.name,
                escaped(&agent.description)
            )
        })
        .collect();
    let demo = if app.runtime.model().demo {
        "<p class=\"note\">No model is connected: the built-in offline demonstration answers. Set LLM_PROXY_URL (and \
         LLM_MODEL, LLM_API_KEY) and start again to connect one.</p>"
    } else {
        ""
    };
    let page = format!(
        "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><title>CodeLab</title>\
         <meta name=\"viewport\" content=\"width=device-width\"><link rel=\"stylesheet\" href=\"/assets/status.css\">\
         </head><body><main><h1>CodeLab</h1><p class=\"lead\">Version {} is <b class=\"{}\">{}</b> and works as {mode}.\
         </p><p class=\"note\">The web page is not in this \
         build. <code>./run</code> builds it; by hand: <code>npm ci &amp;&amp; npm run build</code> in <code>web/</code>, \
         then build CodeLab again.</p>{demo}<h2>Parts</h2><table>{rows}</table><h2>Agents</h2><ul>{agents}</ul><h2>Use it</h2>\
         <p>The API is described in <a href=\"/docs\">/docs</a>. The key for it is the file \
         <code>secrets/internal_api_key</code> in the data folder, unless INTERNAL_API_KEY was set.</p></main></body></html>",
        health.version,
        word(health.status),
        word(health.status),
    );
    (
        [(header::CONTENT_SECURITY_POLICY, CONTENT_SECURITY_POLICY)],
        Html(page),
    )
}

pub(super) async fn style() -> impl IntoResponse {
    (
        [(header::CONTENT_TYPE, "text/css; charset=utf-8")],
        include_str!("../assets/status.css"),
    )
}

pub(super) async fn docs_style() -> impl IntoResponse {
    (
        [(header::CONTENT_TYPE, "text/css; charset=utf-8")],
        include_str!("../assets/docs.css"),
    )
}

/// The page's own icon. Its build gives it a name with a hash, so it has a fixed one here.
pub(super) async fn docs_icon() -> impl IntoResponse {
    (
        [(header::CONTENT_TYPE, "image/svg+xml")],
        include_str!("../../../../web/src/icon.svg"),
    )
}

fn word(status: HealthStatus) -> &'static str {
    match status {
        HealthStatus::Healthy => "healthy",
        HealthStatus::Degraded => "degraded",
        HealthStatus::Unhealthy => "unhealthy",
    }
}

pub(super) fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}
