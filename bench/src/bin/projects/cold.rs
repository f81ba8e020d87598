//! A server process that has not answered any request yet.

use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use codelab_client::{Client, Credentials, Method};
use codelab_testkit::announced_url;
use serde_json::Value;
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};

/// The agents of a new project. Each is on the bus and has a memory.
const STARTER_AGENTS: u64 = 4;
const START_LIMIT: Duration = Duration::from_secs(30);

pub struct Cold {
    client: Client,
    child: Child,
    /// Kept open, because the server may write to it.
    _stdout: Lines<BufReader<ChildStdout>>,
    folder: TempDir,
}

impl Cold {
    pub async fn start(program: &Path, dir: &Path) -> anyhow::Result<Self> {
        let folder = tempfile::tempdir_in(dir)?;
        let mut serve = Command::new(program);
        serve
            .env_clear()
            .args(["serve", "--addr", "127.0.0.1:0", "--data-dir"])
            .arg(folder.path());
        serve
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .kill_on_drop(true);
        let mut child = serve.spawn()?;
        let mut stdout =
            BufReader::new(child.stdout.take().context("the server has no output")?).lines();
        let url = tokio::time::timeout(START_LIMIT, announced_url(&mut stdout)).await;
        let url = url.ok().flatten().context("the server did not start")?;
        // The program signs the token itself, with the secret of the data folder. The server gets
        // no request.
        let mut token = Command::new(program);
        token
            .env_clear()
            .args(["token", "--user", "1", "--data-dir"])
            .arg(folder.path());
        let token = token.output().await?;
        ensure!(
            token.status.success(),
            "codelab token failed: {}",
            String::from_utf8_lossy(&token.stderr)
        );
        let token = String::from_utf8(token.stdout)?.trim().to_owned();
        let client = Client::new(&url, Credentials::Bearer(token))?;
        Ok(Self {
            client,
            child,
            _stdout: stdout,
            folder,
        })
    }

    /// The duration of the request, which is the server's first.
    pub async fn make_project(&self) -> anyhow::Result<Duration> {
        let began = Instant::now();
        let made = self
            .ask(Method::POST, "/my/projects", r#"{"name":"p"}"#, 201)
            .await?;
        let took = began.elapsed();
        let space = format!("/my/projects/{}/worker-space", made["project_id"]);
        let space = self.ask(Method::GET, &space, "", 200).await?;
        ensure!(
            space["active_agents"] == STARTER_AGENTS,
            "the project is not ready: {space}"
        );
        let collections = self.collections(&made["project_id"])?;
        ensure!(
            collections == STARTER_AGENTS,
            "the project has {collections} memories"
        );
        Ok(took)
    }

    /// The memories of a project's agents. Inside the process each starts as a folder with a
    /// marker. The index files come with the first interaction.
    fn collections(&self, project: &Value) -> anyhow::Result<u64> {
        let of_project = format!("_project{project}_");
        let mut found = 0;
        for entry in std::fs::read_dir(self.folder.path().join("memory"))? {
            found += u64::from(entry?.file_name().to_string_lossy().contains(&of_project));
        }
        Ok(found)
    }

    async fn ask(
        &self,
        method: Method,
        path: &str,
        body: &'static str,
        status: u16,
    ) -> anyhow::Result<Value> {
        let answer = self
            .client
            .raw(method, path, &[("content-type", "application/json")], body)
            .await?;
        let seen = serde_json::from_slice(&answer.body)?;
        ensure!(
            answer.status == status,
            "{path} answers {}: {seen}",
            answer.status
        );
        Ok(seen)
    }

    pub async fn stop(mut self) -> anyhow::Result<()> {
        Ok(self.child.kill().await?)
    }
}
