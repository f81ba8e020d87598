//! One installation: PostgreSQL, a scripted model, servers, and HAProxy in front of them.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Output;
use std::sync::Arc;

use codelab_client::{Client, ClientLimits, Credentials};
use codelab_fakemodel::FakeModel;
use codelab_testkit::LoadBalancer;
use tempfile::TempDir;

use crate::postgres::Postgres;
use crate::server::{INTERNAL_KEY, Server, Settings, command};

/// A server that does not answer for this long hangs, also while PostgreSQL is frozen.
const ANSWER_TIMEOUT_MS: u64 = 30_000;

pub struct Installation {
    pub servers: Vec<Server>,
    pub postgres: Postgres,
    /// A copy of `postgres` that can be promoted.
    pub standby: Option<Postgres>,
    pub model: Arc<FakeModel>,
    pub settings: Settings,
    /// The operator's, through the load balancer.
    pub client: Client,
    pub balancer: LoadBalancer,
    folder: TempDir,
}

impl Installation {
    /// `None`, and a line that says so, where HAProxy is missing.
    pub async fn start(servers: usize, more: &[(&str, &str)]) -> Option<Self> {
        let folder = new_folder();
        let postgres = Postgres::start(&folder.path().join("postgres")).await;
        let url = postgres.url();
        Self::on(folder, (postgres, None), url, servers, more).await
    }

    /// On a primary and its synchronous standby, both named in the address.
    pub async fn with_standby(servers: usize) -> Option<Self> {
        let folder = new_folder();
        let primary = Postgres::start(&folder.path().join("primary")).await;
        let standby = Postgres::standby_of(&primary, &folder.path().join("standby")).await;
        let url = format!(
            "postgres://codelab@127.0.0.1:{},127.0.0.1:{}/postgres?target_session_attrs=read-write",
            primary.port, standby.port
        );
        Self::on(folder, (primary, Some(standby)), url, servers, &[]).await
    }

    async fn on(
        folder: TempDir,
        (postgres, standby): (Postgres, Option<Postgres>),
        database_url: String,
        servers: usize,
        more: &[(&str, &str)],
    ) -> Option<Self> {
        let model = Arc::new(FakeModel::start().await);
        let settings = Settings {
            database_url,
            model_url: model.url(),
            more: more
                .iter()
                .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
                .collect(),
        };
        let mut started = Vec::new();
        for number in 1..=servers {
            let mut server = Server::new(number, folder.path()).await;
            server.start(&settings).await.unwrap();
            server.ready().await.unwrap();
            started.push(server);
        }
        let ports: Vec<u16> = started.iter().map(|server| server.port).collect();
        let balancer = LoadBalancer::start(folder.path(), &ports).await?;
        let key = Credentials::InternalKey(INTERNAL_KEY.to_owned());
        let client = client_of(&balancer.url(), key);
        Some(Self {
            servers: started,
            postgres,
            standby,
            model,
            settings,
            client,
            balancer,
            folder,
        })
    }

    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// A user's client, through the load balancer.
    pub async fn user(&self, number: i64) -> Client {
        let token = self.token(number).await;
        client_of(&self.balancer.url(), Credentials::Bearer(token))
    }

    /// A user's client at one of the servers.
    pub async fn user_at(&self, server: usize, number: i64) -> Client {
        let token = self.token(number).await;
        client_of(&self.servers[server].url(), Credentials::Bearer(token))
    }

    pub async fn token(&self, user: i64) -> String {
        let output = self.codelab(&["token", "--user", &user.to_string()]).await;
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    /// Runs a command beside the first server.
    pub async fn codelab(&self, arguments: &[&str]) -> Output {
        let mut command = command(arguments, &self.settings);
        command.arg("--data-dir").arg(&self.servers[0].folder);
        command.output().await.unwrap()
    }

    /// Waits until every server that runs is ready.
    pub async fn ready(&self) -> Result<(), String> {
        for server in self.servers.iter().filter(|server| server.is_running()) {
            server.ready().await?;
        }
        Ok(())
    }

    /// The ids under which the servers are part of the installation.
    pub async fn server_ids(&self) -> Vec<Option<String>> {
        let mut ids = Vec::new();
        for server in &self.servers {
            ids.push(server.server_id().await);
        }
        ids
    }

    /// Takes the data away. Not called after a failure, so that it can be looked at.
    pub fn remove(mut self) {
        self.folder.disable_cleanup(false);
    }
}

/// Only removed when it is asked for.
fn new_folder() -> TempDir {
    let mut folder = tempfile::Builder::new()
        .prefix("codelab-cluster-")
        .tempdir()
        .unwrap();
    folder.disable_cleanup(true);
    // PostgreSQL's own user must come through.
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o711)).unwrap();
    folder
}

fn client_of(url: &str, credentials: Credentials) -> Client {
    let limits = ClientLimits {
        answer_timeout_ms: ANSWER_TIMEOUT_MS,
        ..ClientLimits::default()
    };
    Client::with_limits(url, credentials, limits).unwrap()
}
