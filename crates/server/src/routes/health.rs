//! `/health` and `/metrics`.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use codelab_engine::Mode;
use codelab_protocol::{Health, HealthCheck, HealthStatus};
use codelab_runtime::CacheHealth;

use super::Refused;
use crate::app::App;

/// Whether the server is well
#[utoipa::path(
    get,
    path = "/health",
    tag = "health",
    security(()),
    responses(
        (status = 200, description = "Healthy or degraded", body = Health),
        (status = 503, description = "Unhealthy", body = Health),
    ),
)]
pub(super) async fn health(State(app): State<App>) -> (StatusCode, Json<Health>) {
    let health = report(&app).await;
    let status = match health.status {
        HealthStatus::Healthy | HealthStatus::Degraded => StatusCode::OK,
        HealthStatus::Unhealthy => StatusCode::SERVICE_UNAVAILABLE,
    };
    (status, Json(health))
}

pub(super) async fn report(app: &App) -> Health {
    let database = match app.runtime.store().ping().await {
        Ok(()) => HealthCheck { status: HealthStatus::Healthy, detail: None },
        Err(error) => {
            tracing::warn!(%error, "the database does not answer");
            let detail = Some("the database does not answer".to_owned());
            HealthCheck { status: HealthStatus::Unhealthy, detail }
        }
    };
    let model = HealthCheck { status: HealthStatus::Healthy, detail: Some(app.runtime.model().label) };
    let cache = match app.runtime.cache_health() {
        CacheHealth::Memory => HealthCheck { status: HealthStatus::Healthy, detail: Some("memory".to_owned()) },
        CacheHealth::Connected => HealthCheck { status: HealthStatus::Healthy, detail: Some("redis".to_owned()) },
        CacheHealth::Unreachable { since } => {
            let detail = Some(format!("Redis is unreachable since {since}"));
            HealthCheck { status: HealthStatus::Degraded, detail }
        }
    };
    let memory = match app.runtime.memory_problem() {
        None => HealthCheck { status: HealthStatus::Healthy, detail: None },
        problem => HealthCheck { status: HealthStatus::Degraded, detail: problem },
    };
    let status = match (database.status, cache.status, memory.status) {
        (HealthStatus::Healthy, HealthStatus::Healthy, memory) => memory,
        (HealthStatus::Healthy, cache, _) => cache,
        (database, ..) => database,
    };
    let team = app.runtime.team();
    Health {
        status,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        multi_agent_mode: team.mode() == Mode::Multi,
        registered_agents: team.agents().iter().map(|agent| agent.name.clone()).collect(),
        checks: BTreeMap::from([
            ("cache".to_owned(), cache),
            ("database".to_owned(), database),
            ("memory".to_owned(), memory),
            ("model".to_owned(), model),
        ]),
    }
}

/// Numbers for Prometheus
#[utoipa::path(
    get,
    path = "/metrics",
    tag = "health",
    security(("internal_key" = []), ("internal_bearer" = [])),
    responses((status = 200, description = "Prometheus text", body = String, content_type = "application/openmetrics-text"), Refused),
)]
pub(super) async fn metrics(State(app): State<App>) -> impl IntoResponse {
    let content_type = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    ([(header::CONTENT_TYPE, content_type)], app.runtime.metrics_text())
}
