//! `codelab login-link`: a link that logs a user in on the web page, once.

use std::process::ExitCode;

use anyhow::{Context, bail};
use clap::Args;
use codelab_protocol::{Timestamp, UserId};
use codelab_server::{LoginTicket, Settings, local_url};
use codelab_store::{DatabaseUrl, Store, StoreOptions};

use super::{ServerPaths, now, say};

#[derive(Args)]
pub struct LoginLinkCommand {
    /// The user's number
    #[arg(long, value_name = "N")]
    user: i64,
    #[command(flatten)]
    paths: ServerPaths,
}

impl LoginLinkCommand {
    /// Works while the server runs.
    pub fn run(self) -> anyhow::Result<ExitCode> {
        let Some(user) = UserId::new(self.user) else {
            bail!("--user must be a positive number")
        };
        let settings = self.paths.settings(None)?;
        let base = settings
            .http
            .public_url
            .as_ref()
            .map_or_else(|| local_url(&settings), |origin| origin.text());
        let ticket = ticket(
            settings,
            user,
            now().plus_seconds(LoginTicket::LIFETIME_SECONDS),
        )?;
        say(&ticket.link(&base));
        Ok(ExitCode::SUCCESS)
    }
}

/// The embedded database is the running server's alone, so a ticket for it is left as a file.
fn ticket(settings: Settings, user: UserId, expires_at: Timestamp) -> anyhow::Result<LoginTicket> {
    match settings.database {
        DatabaseUrl::Postgres(_) => {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()?;
            runtime.block_on(async {
                let store = Store::open(StoreOptions::new(settings.database)).await?;
                let ticket = LoginTicket::keep_in(&store, user, expires_at).await?;
                store.close().await;
                Ok(ticket)
            })
        }
        DatabaseUrl::SqliteFile(_) => LoginTicket::leave_in(&settings.data_dir, user, expires_at)
            .with_context(|| format!("cannot leave a ticket in {}", settings.data_dir.display())),
        DatabaseUrl::SqliteMemory => bail!("a database in memory has no users to log in"),
    }
}
