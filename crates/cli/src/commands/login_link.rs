//! `codelab login-link`: a link that logs a user in on the web page, once.

use std::process::ExitCode;

use anyhow::{Context, bail};
use clap::Args;
use codelab_protocol::{Timestamp, UserId};
use codelab_server::{LoginTicket, Settings, living_url};
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
        let base = address(&settings)?;
        let ticket = ticket(
            settings,
            user,
            now().plus_seconds(LoginTicket::LIFETIME_SECONDS),
        )?;
        say(&ticket.link(&base));
        Ok(ExitCode::SUCCESS)
    }
}

/// Where the link leads. A server with an embedded database is a server of this data folder; with
/// PostgreSQL it may run on another machine, and then only its public address is known here.
fn address(settings: &Settings) -> anyhow::Result<String> {
    let living = living_url(&settings.data_dir);
    let public = settings
        .http
        .public_url
        .as_ref()
        .map(|origin| origin.text());
    let is_embedded = !matches!(settings.database, DatabaseUrl::Postgres(_));
    match (living, public) {
        (Some(_), Some(public)) => Ok(public),
        (Some(living), None) => Ok(living),
        (None, Some(public)) if !is_embedded => Ok(public),
        (None, _) => bail!(
            "no server runs with the data folder {}, so a link would lead nowhere; start one with `codelab serve --data-dir {}`{}",
            settings.data_dir.display(),
            settings.data_dir.display(),
            match is_embedded {
                true => "",
                false => ", or set http.public_url if your server runs elsewhere",
            }
        ),
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
