//! `codelab token`: a JWT for a user, signed with this server's secret.

use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, bail};
use clap::Args;
use codelab_protocol::UserId;
use codelab_server::Secrets;
use jsonwebtoken::{Algorithm, EncodingKey, Header};
use serde_json::json;

use super::{Place, say};

const MAX_DAYS: u64 = 3650;

#[derive(Args)]
pub struct Token {
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
    place: Place,
}

impl Token {
    pub fn run(self) -> anyhow::Result<ExitCode> {
        let Some(user) = UserId::new(self.user) else { bail!("--user must be a positive number") };
        if self.days == 0 || self.days > MAX_DAYS {
            bail!("--days must be 1 to {MAX_DAYS}");
        }
        let secrets = Secrets::load(&self.place.settings(None)?)?;
        let now = SystemTime::now().duration_since(UNIX_EPOCH).context("the clock is wrong")?.as_secs();
        let mut claims = json!({
            "sub": user.to_string(), "aud": "codelab", "iat": now, "exp": now + self.days * 24 * 60 * 60,
        });
        if self.admin {
            claims["role"] = json!("admin");
        }
        let key = EncodingKey::from_secret(secrets.jwt_secret.expose().as_bytes());
        say(&jsonwebtoken::encode(&Header::new(Algorithm::HS256), &claims, &key)?);
        Ok(ExitCode::SUCCESS)
    }
}
