//! Which server a person's command talks to: the one named, else the local one that runs, else one
//! inside this process.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, bail};
use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use clap::Args;
use clap::builder::{OsStringValueParser, TypedValueParser};
use codelab_client::{Client, ClientError, Credentials, NetworkOptions};
use codelab_policy::Policy;
use codelab_protocol::UserId;
use codelab_server::{Identity, SandboxSettings, Server, Settings, living_url};
use codelab_terminal::Language;
use serde_json::Value;

use super::{ServerPaths, hint_lines, local_token, note, user_id};

/// For a server of this machine; renewed by starting the command again.
const TOKEN_SECONDS: u64 = 30 * 24 * 60 * 60;
/// Who a person is where nothing says so.
const DEFAULT_USER: i64 = 1;
/// A server that only this process uses takes any free port.
const OWN_ADDR: &str = "127.0.0.1:0";

#[derive(Args, Clone)]
pub struct ServerTarget {
    /// The server's address; by default the local server of the data folder
    #[arg(long, value_name = "URL", env = "CODELAB_URL", requires = "token")]
    url: Option<String>,
    /// A user's token; by default one signed with the local server's secret
    #[arg(
        long,
        value_name = "TOKEN",
        env = "CODELAB_TOKEN",
        hide_env_values = true
    )]
    token: Option<String>,
    /// A PEM file with certificates to trust beside the system's, for an https:// address
    // clap's own parser of paths refuses an empty variable.
    #[arg(
        long,
        value_name = "FILE",
        env = "CODELAB_CA_FILE",
        value_parser = OsStringValueParser::new().map(PathBuf::from)
    )]
    ca_file: Option<PathBuf>,
    /// Who you are, on a server of this machine
    #[arg(long, value_name = "N", default_value = "1", value_parser = user_id)]
    user: UserId,
    #[command(flatten)]
    paths: ServerPaths,
}

/// What to do when no local server runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WhenMissing {
    Complain,
    Start,
}

/// A server that answered, and who we are there.
pub struct ServerConnection {
    pub client: Client,
    pub url: String,
    /// Identifies the server, even if its port changes.
    pub name: String,
    pub user_id: Option<UserId>,
    pub data_dir: PathBuf,
    /// What needs an approval on this machine, by its own settings.
    pub policy: Policy,
    pub sandbox: SandboxSettings,
    /// Certificates and proxies for what this machine reaches itself.
    pub network: NetworkOptions,
    /// The person's language: the setting `locale`, else that of the environment.
    pub language: Language,
    /// The server inside this process, if it was started for this command; to be stopped by it.
    pub server: Option<Server>,
}

impl ServerTarget {
    pub fn data_dir(&self) -> anyhow::Result<PathBuf> {
        Ok(std::path::absolute(self.paths.settings(None)?.data_dir)?)
    }

    /// Certificates and proxies of the settings.
    pub fn network(&self) -> anyhow::Result<NetworkOptions> {
        Ok(self.settings(None)?.network)
    }

    /// The flags that lead another command to the same server, each after a space. A token is not
    /// among them: it would be shown on the screen.
    pub fn flags(&self) -> String {
        let mut flags = String::new();
        let mut add =
            |name: &str, value: &str| flags.push_str(&format!(" {name} {}", quoted(value)));
        match (&self.url, self.ca_file()) {
            (Some(url), ca_file) => {
                add("--url", url);
                ca_file
                    .iter()
                    .for_each(|file| add("--ca-file", &file.to_string_lossy()));
            }
            (None, _) => {
                let paths = [
                    ("--config", &self.paths.config),
                    ("--data-dir", &self.paths.data_dir),
                ];
                for (name, path) in paths {
                    path.iter()
                        .for_each(|path| add(name, &path.to_string_lossy()));
                }
                if self.user.get() != DEFAULT_USER {
                    add("--user", &self.user.to_string());
                }
            }
        }
        flags
    }

    fn settings(&self, addr: Option<String>) -> anyhow::Result<Settings> {
        let mut settings = self.paths.settings(addr)?;
        if let Some(path) = self.ca_file() {
            settings.network.ca_file = Some(path.to_owned());
        }
        Ok(settings)
    }

    /// An empty name counts as not given.
    fn ca_file(&self) -> Option<&Path> {
        let path = self.ca_file.as_deref()?;
        (!path.as_os_str().is_empty()).then_some(path)
    }

    pub async fn connect(&self, when_missing: WhenMissing) -> anyhow::Result<ServerConnection> {
        let settings = self.settings(None)?;
        let data_dir = std::path::absolute(&settings.data_dir)?;
        if let (Some(url), Some(token)) = (&self.url, &self.token) {
            let access = Credentials::Bearer(token.clone());
            let client = Client::with_network(url, access, &settings.network)?;
            reachable(&client)
                .await
                .with_context(|| format!("the server at {url}"))?;
            let (name, user_id) = (url.trim_end_matches('/').to_owned(), subject(token));
            let language = language(&settings);
            let Settings {
                policy,
                sandbox,
                network,
                ..
            } = settings;
            return Ok(ServerConnection {
                client,
                url: url.clone(),
                name,
                user_id,
                data_dir,
                policy,
                sandbox,
                network,
                language,
                server: None,
            });
        }
        match (self.running(&settings).await?, when_missing) {
            (Some(connection), _) => Ok(connection),
            (None, WhenMissing::Start) => self.own(&settings).await,
            (None, WhenMissing::Complain) => bail!(
                "no server runs with the data folder {} (start one with `codelab serve`, or choose one with --url)",
                data_dir.display()
            ),
        }
    }

    async fn running(&self, settings: &Settings) -> anyhow::Result<Option<ServerConnection>> {
        let Some(url) = living_url(&settings.data_dir) else {
            return Ok(None);
        };
        let connection = self.local(settings, url, LocalServer::Elsewhere)?;
        match reachable(&connection.client).await {
            Ok(()) => Ok(Some(connection)),
            // It has just ended.
            Err(ClientError::Connect(_)) => Ok(None),
            Err(error) => Err(error).with_context(|| format!("the server at {}", connection.url)),
        }
    }

    async fn own(&self, settings: &Settings) -> anyhow::Result<ServerConnection> {
        let server = Server::start(self.settings(Some(OWN_ADDR.to_owned()))?).await?;
        if let Some(hint) = &server.model_hint {
            hint_lines(hint, "codelab …")
                .iter()
                .for_each(|line| note(line));
        }
        let connection = self.local(settings, server.url(), LocalServer::InThisProcess)?;
        Ok(ServerConnection {
            server: Some(server),
            ..connection
        })
    }

    fn local(
        &self,
        settings: &Settings,
        url: String,
        lives: LocalServer,
    ) -> anyhow::Result<ServerConnection> {
        local(settings, self.user, self.token.as_deref(), url, lives)
    }
}

/// A word for a shell.
pub fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:@%+=,".contains(c);
    match !word.is_empty() && word.chars().all(is_plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    }
}

/// Where a local server runs.
pub enum LocalServer {
    InThisProcess,
    Elsewhere,
}

/// A server that uses this data folder, with a token of its own making unless one is given. The
/// token is sent only while that server lives: its port may be anybody's afterwards.
pub fn local(
    settings: &Settings,
    user: UserId,
    token: Option<&str>,
    url: String,
    lives: LocalServer,
) -> anyhow::Result<ServerConnection> {
    let (token, user_id) = match token {
        Some(token) => (token.to_owned(), subject(token)),
        None => (
            local_token(settings, &Identity::of(user), TOKEN_SECONDS)?,
            Some(user),
        ),
    };
    let data_dir = std::path::absolute(&settings.data_dir)?;
    let name = format!("local {}", data_dir.display());
    let access = match lives {
        // The port belongs to this process as long as it runs.
        LocalServer::InThisProcess => Credentials::Bearer(token),
        LocalServer::Elsewhere => {
            let folder = data_dir.clone();
            Credentials::BearerAt(token, Arc::new(move || living_url(&folder)))
        }
    };
    let client = Client::new(&url, access)?;
    let (policy, sandbox) = (settings.policy.clone(), settings.sandbox.clone());
    Ok(ServerConnection {
        client,
        url,
        name,
        user_id,
        data_dir,
        policy,
        sandbox,
        network: settings.network.clone(),
        language: language(settings),
        server: None,
    })
}

fn language(settings: &Settings) -> Language {
    let setting = settings.page_locale.map(|locale| locale.tag());
    Language::choose(setting, |name| std::env::var(name).ok())
}

/// Whether the server answers and accepts the token.
async fn reachable(client: &Client) -> Result<(), ClientError> {
    client
        .project_sessions(None, Some(1), None)
        .await
        .map(|_| ())
}

/// The user of a token, read without checking the signature: the server does that.
fn subject(token: &str) -> Option<UserId> {
    let payload = token.split('.').nth(1)?;
    let claims: Value =
        serde_json::from_slice(&BASE64_URL_SAFE_NO_PAD.decode(payload).ok()?).ok()?;
    match claims.get("sub")? {
        Value::String(digits) => UserId::parse(digits),
        number => number.as_i64().and_then(UserId::new),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        target: ServerTarget,
    }

    #[test]
    fn an_empty_ca_file_counts_as_not_given() {
        let ca_file = |value: &str| {
            let arguments = ["codelab", "--ca-file", value];
            let target = Command::try_parse_from(arguments).map(|command| command.target);
            let target = target.unwrap_or_else(|error| panic!("{value:?}: {error}"));
            target.ca_file().map(Path::to_owned)
        };
        assert_eq!(ca_file(""), None);
        assert_eq!(ca_file("/ca.pem"), Some(PathBuf::from("/ca.pem")));
    }

    #[test]
    fn the_flags_lead_to_the_same_server_without_its_token() {
        for (arguments, expected) in [
            (vec![], ""),
            (
                vec!["--data-dir", "/my data", "--user", "2"],
                " --data-dir '/my data' --user 2",
            ),
            (
                vec!["--url", "https://codelab.example", "--token", "secret"],
                " --url https://codelab.example",
            ),
        ] {
            let all = ["codelab"].into_iter().chain(arguments.clone());
            let command = Command::try_parse_from(all).unwrap_or_else(|error| panic!("{error}"));
            assert_eq!(command.target.flags(), expected, "{arguments:?}");
        }
    }

    #[test]
    fn a_tokens_user_is_read_from_its_claims() {
        let token = |claims: &str| format!("e30.{}.x", BASE64_URL_SAFE_NO_PAD.encode(claims));
        assert_eq!(subject(&token(r#"{"sub":7}"#)), UserId::new(7));
        assert_eq!(subject(&token(r#"{"sub":"7"}"#)), UserId::new(7));
        for other in [
            "",
            "opaque",
            "a.b.c",
            &token("{}"),
            &token(r#"{"sub":-1}"#),
            &token("[1]"),
        ] {
            assert_eq!(subject(other), None, "{other}");
        }
    }
}
