//! `/health` with `/health/ready` and `/health/live`, and `/metrics`.

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::IntoResponse;
use codelab_engine::AgentMode;
use codelab_protocol::{
    Alive, AliveStatus, ClusterHealth, ClusterOwned, ClusterServer, Health, HealthCheck,
    HealthStatus,
};
use codelab_runtime::{CacheHealth, ClusterView, DatabaseTrouble};

use crate::access::has_internal_key;
use crate::app::App;

/// Whether the server is well
///
/// The answer is 200 also where it is not: `status` and `checks` say so. A load balancer asks
/// `/health/ready`.
#[utoipa::path(
    get, path = "/health",
    responses((status = 200, description = "Healthy, degraded or unhealthy", body = Health)),
)]
pub(super) async fn health(State(app): State<App>, headers: HeaderMap) -> Json<Health> {
    Json(report(&app, &headers).await)
}

/// Whether requests should be sent to this server
#[utoipa::path(
    get, path = "/health/ready",
    responses(
        (status = 200, description = "Healthy or degraded", body = Health),
        (status = 503, description = "Unhealthy", body = Health),
    ),
)]
pub(super) async fn ready(
    State(app): State<App>,
    headers: HeaderMap,
) -> (StatusCode, Json<Health>) {
    let health = report(&app, &headers).await;
    let status = match health.status {
        HealthStatus::Healthy | HealthStatus::Degraded => StatusCode::OK,
        HealthStatus::Unhealthy => StatusCode::SERVICE_UNAVAILABLE,
    };
    (status, Json(health))
}

/// Whether the process answers
///
/// It does so also while the database is away: starting it again would not help.
#[utoipa::path(
    get, path = "/health/live",
    responses((status = 200, description = "It answers", body = Alive)),
)]
pub(super) async fn live() -> Json<Alive> {
    Json(Alive {
        status: AliveStatus::Alive,
    })
}

pub(super) async fn report(app: &App, headers: &HeaderMap) -> Health {
    let database = match app.runtime.database_trouble().await {
        None => well(None),
        Some(DatabaseTrouble::DiskFull) => unwell("the disk of the database is full"),
        Some(DatabaseTrouble::Refuses) => unwell("the database cannot be used"),
        Some(DatabaseTrouble::Silent) => unwell("the database does not answer"),
        Some(DatabaseTrouble::Rewriting) => HealthCheck {
            status: HealthStatus::Degraded,
            detail: Some(
                "the database is rewritten after a deletion, and commits wait for it".to_owned(),
            ),
        },
    };
    let lease = match app.runtime.lease_has_lapsed() {
        false => well(None),
        true => unwell("the lease of this server has lapsed"),
    };
    let cache = match app.runtime.cache_health() {
        CacheHealth::Memory => well(Some("memory")),
        CacheHealth::Connected => well(Some("redis")),
        CacheHealth::Unreachable { since } => {
            let detail = Some(format!("Redis is unreachable since {since}"));
            HealthCheck {
                status: HealthStatus::Degraded,
                detail,
            }
        }
    };
    let memory = match app.runtime.memory_problem() {
        None => well(None),
        problem => HealthCheck {
            status: HealthStatus::Degraded,
            detail: problem,
        },
    };
    let model = well(Some(&app.models.shown(app.runtime.model())));
    let checks = [
        ("cache", cache),
        ("database", database),
        ("lease", lease),
        ("memory", memory),
        ("model", model),
    ];
    let team = app.runtime.team();
    Health {
        status: worst(checks.iter().map(|(_, check)| check.status)),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        multi_agent_mode: team.mode() == AgentMode::Multi,
        registered_agents: team
            .agents()
            .iter()
            .map(|agent| agent.name.clone())
            .collect(),
        checks: checks
            .into_iter()
            .map(|(name, check)| (name.to_owned(), check))
            .collect(),
        cluster: app
            .runtime
            .cluster()
            .map(|view| cluster_health(view, has_internal_key(headers, &app.internal_api_key))),
    }
}

/// Addresses are for operators.
fn cluster_health(view: ClusterView, shows_addresses: bool) -> ClusterHealth {
    let servers = view.servers.into_iter().map(|peer| ClusterServer {
        server: peer.server_id.to_string(),
        address: shows_addresses.then(|| peer.address.to_string()),
    });
    ClusterHealth {
        server: view.server_id.to_string(),
        servers: servers.collect(),
        owned: ClusterOwned {
            projects: view.projects,
            sessions: view.sessions,
            chat: view.chat,
        },
    }
}

fn well(detail: Option<&str>) -> HealthCheck {
    HealthCheck {
        status: HealthStatus::Healthy,
        detail: detail.map(str::to_owned),
    }
}

fn unwell(detail: &str) -> HealthCheck {
    HealthCheck {
        status: HealthStatus::Unhealthy,
        detail: Some(detail.to_owned()),
    }
}

fn worst(all: impl Iterator<Item = HealthStatus>) -> HealthStatus {
    all.fold(HealthStatus::Healthy, |worst, status| {
        match (worst, status) {
            (HealthStatus::Unhealthy, _) | (_, HealthStatus::Unhealthy) => HealthStatus::Unhealthy,
            (HealthStatus::Degraded, _) | (_, HealthStatus::Degraded) => HealthStatus::Degraded,
            (HealthStatus::Healthy, HealthStatus::Healthy) => HealthStatus::Healthy,
        }
    })
}

/// Numbers for Prometheus
#[utoipa::path(
    get, path = "/metrics",
    responses((status = 200, description = "Prometheus text", body = String, content_type = "application/openmetrics-text")),
)]
pub(super) async fn metrics(State(app): State<App>) -> impl IntoResponse {
    let content_type = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    (
        [(header::CONTENT_TYPE, content_type)],
        app.runtime.metrics_text(),
    )
}
