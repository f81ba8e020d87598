//! One server as a child process: start it, kill it, stop it for a while, ask how it is.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::{Duration, Instant};

use codelab_client::{Client, ClientLimits, Credentials, Method};
use codelab_testkit::announced_url;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};

use crate::relay::Relay;

pub const INTERNAL_KEY: &str = "cluster-test-key-of-more-than-32-characters";
pub const JWT_SECRET: &str = "cluster-test-jwt-secret-of-more-than-32-characters";
pub const MASTER_KEY: &str = "cluster-test-master-key-of-more-than-32-characters";
/// Longer than one lease, because a server with a lapsing row's address waits for that.
const START_TIMEOUT: Duration = Duration::from_secs(30);
/// Model calls that run get ten seconds.
const END_TIMEOUT: Duration = Duration::from_secs(25);
const READY_TIMEOUT: Duration = Duration::from_secs(40);
const POLL: Duration = Duration::from_millis(50);
const PROBE_TIMEOUT_MS: u64 = 2_000;
/// Few waiting messages, so that a full queue is met too.
const QUEUE_LENGTH: &str = "4";

/// What all servers of an installation are started with.
#[derive(Debug, Clone)]
pub struct Settings {
    pub database_url: String,
    pub model_url: String,
    pub more: Vec<(String, String)>,
}

pub struct Server {
    /// From 1.
    pub number: usize,
    pub port: u16,
    /// The other servers come through this.
    pub relay: Relay,
    pub folder: PathBuf,
    running: Option<Running>,
    /// How far the log was looked through.
    log_seen: u64,
}

struct Running {
    child: Child,
    /// Kept open: the server may write to it.
    _stdout: Lines<BufReader<ChildStdout>>,
}

impl Server {
    /// Has a folder and a port, and does not run yet.
    pub async fn new(number: usize, base: &Path) -> Self {
        let folder = base.join(format!("server{number}"));
        std::fs::create_dir(&folder).unwrap();
        let free = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let port = free.local_addr().unwrap().port();
        Self {
            number,
            port,
            relay: Relay::start(port).await,
            folder,
            running: None,
            log_seen: 0,
        }
    }

    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// The address under which the others reach it.
    pub fn cluster_address(&self) -> String {
        format!("http://127.0.0.1:{}", self.relay.port)
    }

    pub fn client(&self) -> Client {
        let limits = ClientLimits {
            answer_timeout_ms: PROBE_TIMEOUT_MS,
            ..ClientLimits::default()
        };
        let key = Credentials::InternalKey(INTERNAL_KEY.to_owned());
        Client::with_limits(&self.url(), key, limits).unwrap()
    }

    pub fn is_running(&self) -> bool {
        self.running.is_some()
    }

    /// Until it says where it listens.
    pub async fn start(&mut self, settings: &Settings) -> Result<(), String> {
        let mut command = command(&["serve", "--addr"], settings);
        command
            .arg(format!("127.0.0.1:{}", self.port))
            .arg("--data-dir")
            .arg(&self.folder)
            .env("CODELAB_CLUSTER__ADDRESS", self.cluster_address())
            .envs(settings.more.iter().cloned())
            .stdout(Stdio::piped())
            .stderr(self.log_file()?);
        let mut child = command
            .spawn()
            .map_err(|error| format!("server {} cannot be started: {error}", self.number))?;
        let stdout = child.stdout.take().ok_or("the server has no output")?;
        let mut lines = BufReader::new(stdout).lines();
        let address = tokio::time::timeout(START_TIMEOUT, announced_url(&mut lines)).await;
        if !matches!(address, Ok(Some(_))) {
            let state = child.try_wait();
            return Err(format!(
                "server {} did not start ({state:?}): {}",
                self.number,
                self.log_end()
            ));
        }
        self.running = Some(Running {
            child,
            _stdout: lines,
        });
        Ok(())
    }

    fn log_file(&self) -> Result<std::fs::File, String> {
        let path = self.folder.join("server.log");
        let open = std::fs::File::options()
            .create(true)
            .append(true)
            .open(&path);
        open.map_err(|error| format!("{}: {error}", path.display()))
    }

    /// SIGKILL.
    pub async fn kill(&mut self) -> Result<(), String> {
        let Some(mut running) = self.running.take() else {
            return Err(format!("server {} does not run", self.number));
        };
        running.child.kill().await.map_err(|e| e.to_string())?;
        self.look_through_log().map(|_| ())
    }

    /// SIGTERM, and its end.
    pub async fn terminate(&mut self) -> Result<ExitStatus, String> {
        self.signal(Signal::TERM);
        let Some(mut running) = self.running.take() else {
            return Err(format!("server {} does not run", self.number));
        };
        let ended = tokio::time::timeout(END_TIMEOUT, running.child.wait()).await;
        let status = ended
            .map_err(|_| {
                let end = self.log_end();
                format!("server {} did not end after SIGTERM: {end}", self.number)
            })?
            .map_err(|error| error.to_string())?;
        if status.success() {
            Ok(status)
        } else {
            let end = self.log_end();
            Err(format!("server {} ended with {status}: {end}", self.number))
        }
    }

    pub fn signal(&self, signal: Signal) {
        let id = self
            .running
            .as_ref()
            .and_then(|running| running.child.id())
            .and_then(|id| Pid::from_raw(id as i32));
        if let Some(id) = id {
            kill_process(id, signal).unwrap();
        }
    }

    /// An end that nobody asked for.
    pub fn check_alive(&mut self) -> Result<(), String> {
        let Some(running) = &mut self.running else {
            return Ok(());
        };
        match running.child.try_wait() {
            Ok(None) => self.look_through_log().map(|_| ()),
            ended => Err(format!(
                "server {} ended by itself ({ended:?}): {}",
                self.number,
                self.log_end()
            )),
        }
    }

    /// Waits until `/health/ready` says yes.
    pub async fn ready(&self) -> Result<(), String> {
        let client = self.client();
        let deadline = Instant::now() + READY_TIMEOUT;
        loop {
            let answer = client.raw(Method::GET, "/health/ready", &[], "").await;
            if matches!(&answer, Ok(answer) if answer.status == 200) {
                return Ok(());
            }
            if Instant::now() > deadline {
                let said = answer.map(|answer| String::from_utf8_lossy(&answer.body).into_owned());
                return Err(format!(
                    "server {} was not ready after {READY_TIMEOUT:?}: {said:?}: {}",
                    self.number,
                    self.log_end()
                ));
            }
            tokio::time::sleep(POLL).await;
        }
    }

    /// What `/health` says about the installation.
    pub async fn cluster(&self) -> Option<Value> {
        let answer = self.client().raw(Method::GET, "/health", &[], "").await;
        let health: Value = serde_json::from_slice(&answer.ok()?.body).ok()?;
        Some(health["cluster"].clone())
    }

    /// The id of this run of it in the installation.
    pub async fn server_id(&self) -> Option<String> {
        Some(self.cluster().await?["server"].as_str()?.to_owned())
    }

    /// How many projects and sessions it owns.
    pub async fn owned(&self) -> u64 {
        let cluster = self.cluster().await.unwrap_or_default();
        let count = |name: &str| cluster["owned"][name].as_u64().unwrap_or_default();
        count("projects") + count("sessions")
    }

    /// Panics are faults. Gives the lines that were logged as errors, which an outage may bring.
    pub fn look_through_log(&mut self) -> Result<Vec<String>, String> {
        let text = std::fs::read_to_string(self.folder.join("server.log")).unwrap_or_default();
        let new = text.get(self.log_seen as usize..).unwrap_or_default();
        self.log_seen = text.len() as u64;
        if let Some(line) = new.lines().find(|line| line.contains("panicked")) {
            return Err(format!("server {} panicked: {line}", self.number));
        }
        let errors = new.lines().filter(|line| line.contains("\"ERROR\""));
        Ok(errors.map(str::to_owned).collect())
    }

    pub fn log_end(&self) -> String {
        let text = std::fs::read_to_string(self.folder.join("server.log")).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(12)..].join("\n")
    }
}

/// The program with the secrets and the database of the installation, and nothing of this test's
/// own environment.
pub fn command(arguments: &[&str], settings: &Settings) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_codelab"));
    command
        .args(arguments)
        .env_clear()
        .env("INTERNAL_API_KEY", INTERNAL_KEY)
        .env("JWT_SECRET", JWT_SECRET)
        .env("CODELAB_MASTER_KEY", MASTER_KEY)
        .env("DATABASE_URL", &settings.database_url)
        .env("LLM_PROXY_URL", &settings.model_url)
        .env("LLM_MODEL", "test-model")
        .env("CODELAB_LIMITS__QUEUE_LENGTH", QUEUE_LENGTH)
        .env("RUST_LOG", "warn,codelab=info")
        .env("RUST_BACKTRACE", "1")
        .stdin(Stdio::null())
        .kill_on_drop(true);
    command
}
