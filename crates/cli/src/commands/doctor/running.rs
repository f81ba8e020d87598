//! The server on this data folder, if one runs; else whether its address is free.

use std::io::ErrorKind;
use std::net::TcpListener;
use std::sync::Arc;

use codelab_client::{Client, Credentials, Method};
use codelab_protocol::{Health, HealthStatus};
use codelab_server::{Secrets, living_url};
use tokio::time::timeout;

use super::Subject;
use super::report::DoctorFinding;

const CHECK: &str = "server";
/// Needs the internal key, and changes nothing.
const NEEDS_KEY: &str = "/agents";

pub struct RunningServerCheck {
    pub finding: DoctorFinding,
    /// Whether a running server takes the internal key that is configured here.
    pub takes_our_key: Option<bool>,
}

impl RunningServerCheck {
    pub fn failed(finding: DoctorFinding) -> Self {
        Self {
            finding,
            takes_our_key: None,
        }
    }
}

pub async fn check(subject: Arc<Subject>) -> RunningServerCheck {
    match living_url(&subject.settings.data_dir) {
        Some(url) => living(&subject, &url).await,
        None => RunningServerCheck::failed(stopped(&subject)),
    }
}

async fn living(subject: &Subject, url: &str) -> RunningServerCheck {
    let health = match timeout(subject.limit / 2, asked(url)).await {
        Ok(Ok(health)) => health,
        Ok(Err(error)) => return silent(url, &format!("{error:#}")),
        Err(_) => return silent(url, "no answer in time"),
    };
    RunningServerCheck {
        finding: judge(url, &health),
        takes_our_key: takes_our_key(subject, url).await,
    }
}

async fn asked(url: &str) -> anyhow::Result<Health> {
    Ok(Client::new(url, Credentials::None)?.health().await?)
}

fn silent(url: &str, why: &str) -> RunningServerCheck {
    let found = format!("A server runs at {url}, but does not answer: {why}.");
    RunningServerCheck::failed(DoctorFinding::problem(
        CHECK,
        found,
        "Look at its log, and restart it.",
    ))
}

fn judge(url: &str, health: &Health) -> DoctorFinding {
    let own = env!("CARGO_PKG_VERSION");
    let unwell = health
        .checks
        .iter()
        .filter(|(_, check)| check.status != HealthStatus::Healthy);
    let unwell = unwell
        .map(|(name, check)| format!("{name}: {}", check.detail.as_deref().unwrap_or("not well")));
    let unwell = unwell.collect::<Vec<_>>().join(", ");
    match health.status {
        HealthStatus::Unhealthy => DoctorFinding::problem(
            CHECK,
            format!("A server runs at {url} and cannot do its work ({unwell})."),
            "Correct what it names; it recovers by itself.",
        ),
        HealthStatus::Degraded => DoctorFinding::warning(
            CHECK,
            format!("A server runs at {url}, degraded ({unwell})."),
            "Correct what it names; it recovers by itself.",
        ),
        HealthStatus::Healthy if health.version != own => DoctorFinding::warning(
            CHECK,
            format!(
                "The server at {url} is CodeLab {}, and this program is {own}.",
                health.version
            ),
            "Restart the server to run the same version.",
        ),
        HealthStatus::Healthy => {
            DoctorFinding::ok(CHECK, format!("A server runs at {url} and is healthy."))
        }
    }
}

/// The address is that of this data folder's own server, so the key goes to nobody else.
async fn takes_our_key(subject: &Subject, url: &str) -> Option<bool> {
    let key = Secrets::find_internal_key(&subject.settings)
        .ok()
        .flatten()?;
    let client = Client::new(url, Credentials::InternalKey(key.expose().to_owned())).ok()?;
    let answer = timeout(
        subject.limit / 2,
        client.raw(Method::GET, NEEDS_KEY, &[], ""),
    )
    .await
    .ok()?
    .ok()?;
    Some(answer.status != 401)
}

/// Listens for an instant, as a server would.
fn stopped(subject: &Subject) -> DoctorFinding {
    let addr = subject.settings.addr;
    let setting = subject.place_of("addr", "--addr or CODELAB_ADDR");
    match TcpListener::bind(addr) {
        Ok(_) => DoctorFinding::ok(
            CHECK,
            format!("No server runs on this data folder; {addr} is free for one."),
        ),
        Err(error) if error.kind() == ErrorKind::AddrInUse => DoctorFinding::problem(
            CHECK,
            format!("No server runs on this data folder, and another program listens on {addr}."),
            format!("Stop that program, or choose another port with {setting}."),
        ),
        Err(error) => DoctorFinding::problem(
            CHECK,
            format!("A server could not listen on {addr}: {error}."),
            format!("Choose another address with {setting}."),
        ),
    }
}
