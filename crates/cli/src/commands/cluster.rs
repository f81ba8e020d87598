//! `codelab cluster`: the servers of an installation, for operators.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, bail};
use clap::Subcommand;
use codelab_client::{Client, Credentials};
use codelab_protocol::{ClusterHealth, ClusterOwned, Health};
use codelab_server::{Secrets, Settings, living_url};
use tokio::time::{Instant, sleep, timeout};

use super::{ServerPaths, note, say};

/// The server answers health requests even if all other connections are busy.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);
/// How often it is looked whether a server has handed everything over.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// Longer than any turn that nobody waits for; what still runs then is finished where it is.
const DRAIN_WITHIN: Duration = Duration::from_secs(15 * 60);

#[derive(Subcommand)]
pub enum ClusterCommand {
    /// List the servers of the installation and what each of them owns
    Status {
        #[command(flatten)]
        paths: ServerPaths,
    },
    /// Let the server of the data folder hand over everything it owns, before it is stopped
    ///
    /// It takes nothing new and still answers, by forwarding to the others. Restarting it ends this.
    Drain {
        #[command(flatten)]
        paths: ServerPaths,
    },
}

impl ClusterCommand {
    pub fn run(self) -> anyhow::Result<ExitCode> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        match self {
            Self::Status { paths } => runtime.block_on(status(&paths.settings(None)?)),
            Self::Drain { paths } => runtime.block_on(drain(&paths.settings(None)?)),
        }
    }
}

async fn status(settings: &Settings) -> anyhow::Result<ExitCode> {
    let (url, key) = local_server(settings)?;
    let cluster = cluster_of(&url, &key).await?;
    say("server            owns                                 address");
    let mut is_whole = true;
    for server in &cluster.servers {
        let address = server.address.as_deref().unwrap_or_default();
        let own = server.server == cluster.server;
        let asked = if own { url.as_str() } else { address };
        let owned = match cluster_of(asked, &key).await {
            Ok(cluster) => owns(cluster.owned),
            Err(error) => {
                is_whole = false;
                note(&format!("{address}: {error:#}"));
                "does not answer".to_owned()
            }
        };
        let mark = if own { " (this one)" } else { "" };
        say(&format!(
            "{:<17} {owned:<36} {address}{mark}",
            server.server
        ));
    }
    Ok(ExitCode::from(u8::from(!is_whole)))
}

async fn drain(settings: &Settings) -> anyhow::Result<ExitCode> {
    let (url, key) = local_server(settings)?;
    let cluster = cluster_of(&url, &key).await?;
    if cluster
        .servers
        .iter()
        .all(|server| server.server == cluster.server)
    {
        bail!("there is no other server that could take over");
    }
    let client = Client::new(&url, Credentials::InternalKey(key.clone()))?;
    timeout(ANSWER_TIMEOUT, client.drain())
        .await
        .context("the server did not answer in time")??;
    let give_up_at = Instant::now() + DRAIN_WITHIN;
    let mut told = None;
    loop {
        let owned = cluster_of(&url, &key).await?.owned;
        if owned.projects == 0 && owned.sessions == 0 && !owned.chat {
            say("The server owns nothing any more and can be stopped.");
            return Ok(ExitCode::SUCCESS);
        }
        if told != Some(owned) {
            note(&format!("still owns {}", owns(owned)));
            told = Some(owned);
        }
        if Instant::now() >= give_up_at {
            bail!(
                "it still works; stopping it now lets running model calls finish for ten seconds"
            );
        }
        sleep(LOOK_EVERY).await;
    }
}

/// The running server of the data folder, and its key.
fn local_server(settings: &Settings) -> anyhow::Result<(String, String)> {
    let data_dir = &settings.data_dir;
    let Some(url) = living_url(data_dir) else {
        bail!("no server runs with the data folder {}", data_dir.display())
    };
    let key = Secrets::internal_api_key_beside(settings)?;
    Ok((url, key.expose().to_owned()))
}

async fn cluster_of(url: &str, key: &str) -> anyhow::Result<ClusterHealth> {
    let client = Client::new(url, Credentials::InternalKey(key.to_owned()))?;
    let report: Health = timeout(ANSWER_TIMEOUT, client.health())
        .await
        .context("did not answer in time")??;
    report
        .cluster
        .context("this server is alone: cluster.address is not set")
}

fn owns(owned: ClusterOwned) -> String {
    let chat = if owned.chat { ", the Chat" } else { "" };
    format!(
        "{} projects, {} sessions{chat}",
        owned.projects, owned.sessions
    )
}
