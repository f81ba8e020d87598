//! `codelab token`: a JWT for a user, signed with this server's secret.

use std::process::ExitCode;

use anyhow::bail;
use clap::Args;
use codelab_protocol::UserId;
use codelab_server::{Identity, UserRole};

use super::{ServerPaths, local_token, say};

const MAX_DAYS: u64 = 3650;
const DAY_SECONDS: u64 = 24 * 60 * 60;

#[derive(Args)]
pub struct TokenCommand {
    /// The user's number
    #[arg(long, value_name = "N")]
    user: i64,
    /// For how many days the token is valid
    #[arg(long, value_name = "DAYS", default_value_t = 30)]
    days: u64,
    /// Let the token's owner operate every project's worker space
    #[arg(long)]
    admin: bool,
    #[command(flatten)]
    paths: ServerPaths,
}

impl TokenCommand {
    pub fn run(self) -> anyhow::Result<ExitCode> {
        let Some(user) = UserId::new(self.user) else {
            bail!("--user must be a positive number")
        };
        if self.days == 0 || self.days > MAX_DAYS {
            bail!("--days must be 1 to {MAX_DAYS}");
        }
        let mut identity = Identity::of(user);
        if self.admin {
            identity.role = UserRole::Admin;
        }
        say(&local_token(
            &self.paths.settings(None)?,
            &identity,
            self.days * DAY_SECONDS,
        )?);
        Ok(ExitCode::SUCCESS)
    }
}
