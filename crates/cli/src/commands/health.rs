//! `codelab health`: whether the server of the data folder is ready, as an exit code. For container
//! health checks and scripts: images without a shell have no other program that could ask.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, bail};
use clap::Args;
use codelab_client::{Client, Credentials};
use codelab_protocol::{Health as Report, HealthStatus};
use codelab_server::living_url;

use super::{ServerPaths, note, say};

/// The server answers health requests even if all other connections are busy.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);

#[derive(Args)]
pub struct HealthCommand {
    #[command(flatten)]
    paths: ServerPaths,
}

impl HealthCommand {
    pub fn run(self) -> anyhow::Result<ExitCode> {
        let data_dir = self.paths.settings(None)?.data_dir;
        let Some(url) = living_url(&data_dir) else {
            bail!("no server runs with the data folder {}", data_dir.display())
        };
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let report = runtime
            .block_on(ask(&url))
            .with_context(|| format!("the server at {url}"))?;
        for (name, check) in report
            .checks
            .iter()
            .filter(|(_, check)| check.status != HealthStatus::Healthy)
        {
            note(&format!(
                "{name}: {} {}",
                word(check.status),
                check.detail.as_deref().unwrap_or_default()
            ));
        }
        say(word(report.status));
        // A degraded server does its work, as with `/health/ready`.
        Ok(ExitCode::from(u8::from(
            report.status == HealthStatus::Unhealthy,
        )))
    }
}

async fn ask(url: &str) -> anyhow::Result<Report> {
    let client = Client::new(url, Credentials::None)?;
    Ok(tokio::time::timeout(ANSWER_TIMEOUT, client.health())
        .await
        .context("did not answer in time")??)
}

fn word(status: HealthStatus) -> &'static str {
    match status {
        HealthStatus::Healthy => "healthy",
        HealthStatus::Degraded => "degraded",
        HealthStatus::Unhealthy => "unhealthy",
    }
}
