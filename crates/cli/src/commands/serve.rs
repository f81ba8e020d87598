//! `codelab serve`: the server, until it is told to stop.

use std::process::ExitCode;

use clap::Args;
use codelab_protocol::UserId;
use codelab_server::Server;
use tokio::signal::unix::{SignalKind, signal};

use super::{Place, say};
use crate::logs;

#[derive(Args)]
pub struct Serve {
    /// Address to listen on [env: CODELAB_ADDR] [default: 127.0.0.1:8080]
    #[arg(long, value_name = "IP:PORT")]
    addr: Option<String>,
    #[command(flatten)]
    place: Place,
}

impl Serve {
    pub fn run(self) -> anyhow::Result<ExitCode> {
        let settings = self.place.settings(self.addr)?;
        logs::start();
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
        runtime.block_on(async {
            let server = Server::start(settings).await?;
            announce(&server);
            announce_login(&server).await;
            wait_for_stop().await?;
            tracing::info!("stopping");
            server.stop().await;
            Ok(ExitCode::SUCCESS)
        })
    }
}

fn announce(server: &Server) {
    say(&format!("CodeLab {} is at http://{}", env!("CARGO_PKG_VERSION"), server.addr));
    say(&format!("model: {}", server.model));
    if server.demo {
        say("       set LLM_PROXY_URL (and LLM_MODEL, LLM_API_KEY) to connect a real one");
    }
    match &server.secrets.internal_key_file {
        Some(path) => say(&format!("internal key: in {}", path.display())),
        None => say("internal key: as given by INTERNAL_API_KEY"),
    }
}

/// The first user's way in. A server without it is still a server.
async fn announce_login(server: &Server) {
    let Some(first) = UserId::new(1) else { return };
    match server.login_link(first).await {
        Ok(link) => say(&format!("log in: {link}")),
        Err(error) => tracing::warn!(%error, "no login link could be made"),
    }
}

async fn wait_for_stop() -> anyhow::Result<()> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    Ok(())
}
