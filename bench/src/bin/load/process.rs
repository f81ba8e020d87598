//! Child processes of a run. They print their address on standard output and end with the run.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use codelab_testkit::announced_url;
use serde_json::Value;
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

use crate::generate::{LoadReport, Order, PAUSE};
use crate::wire::{LoadAccess, LoadTarget, Wire};

const START_LIMIT: Duration = Duration::from_secs(30);
const STOP_LIMIT: Duration = Duration::from_secs(15);
const KEY: &str = "bench-internal-key";
const LOCAL: &str = "127.0.0.1";
/// Settings that differ from the defaults. Every run prints them.
pub const RAISED: [(&str, &str); 2] = [
    // A plan of ten tasks must run without a person's approval.
    ("CODELAB_PLAN__APPROVAL_TASKS", "100"),
    // One user adds and searches memories without a pause.
    ("CODELAB_LIMITS__USER_REQUESTS_PER_SECOND", "0"),
];
/// How often a server that has just started is asked for its health.
const HEALTH_LOOK: Duration = Duration::from_millis(1);
/// How often it is tried to drain a server that does not know the other one yet.
const DRAIN_LOOK: Duration = Duration::from_millis(200);

/// A child process that serves requests.
pub struct Served {
    pub addr: String,
    child: Child,
    /// Kept open, because the process may write to it.
    _stdout: Lines<BufReader<ChildStdout>>,
}

impl Served {
    /// Starts one of this program's own parts.
    pub async fn part(name: &str, arguments: &[&str]) -> anyhow::Result<Self> {
        let mut part = Command::new(std::env::current_exe()?);
        part.arg(name).args(arguments);
        Self::start(part, name).await
    }

    async fn start(mut command: Command, name: &str) -> anyhow::Result<Self> {
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .kill_on_drop(true);
        let mut child = command
            .spawn()
            .with_context(|| format!("{name} does not start"))?;
        let mut stdout = BufReader::new(
            child
                .stdout
                .take()
                .context("the process has no standard output")?,
        )
        .lines();
        let url = tokio::time::timeout(START_LIMIT, announced_url(&mut stdout)).await;
        let url = url
            .ok()
            .flatten()
            .with_context(|| format!("{name} does not start"))?;
        let addr = url.trim_start_matches("http://").to_owned();
        Ok(Self {
            addr,
            child,
            _stdout: stdout,
        })
    }

    pub fn target(&self) -> LoadTarget {
        LoadTarget {
            addr: self.addr.clone(),
            access: LoadAccess::Nobody,
        }
    }

    pub fn usage(&self) -> anyhow::Result<ProcessUsage> {
        ProcessUsage::of(self.child.id().context("the process has ended")?)
    }
}

/// Processor time and memory that a process has used.
#[derive(Debug, Clone, Copy)]
pub struct ProcessUsage {
    pub cpu_seconds: f64,
    pub resident_kib: f64,
}

impl ProcessUsage {
    fn of(process: u32) -> anyhow::Result<Self> {
        let stat = std::fs::read_to_string(format!("/proc/{process}/stat"))?;
        // The name, in parentheses, may contain anything. Fields 14 and 15 are the times in user
        // and in kernel mode.
        let (_, fields) = stat
            .rsplit_once(") ")
            .context("/proc/PID/stat has an unknown format")?;
        let fields: Vec<&str> = fields.split(' ').collect();
        let ticks: f64 = fields[11].parse::<f64>()? + fields[12].parse::<f64>()?;
        let pages: f64 = fields[21].parse()?;
        Ok(Self {
            cpu_seconds: ticks / rustix::param::clock_ticks_per_second() as f64,
            resident_kib: pages * rustix::param::page_size() as f64 / 1024.0,
        })
    }
}

/// A CodeLab server on a data folder of its own.
pub struct CodeLab {
    served: Served,
    program: PathBuf,
    folder: TempDir,
    /// From the start of the process to its first healthy answer.
    pub cold_start: Duration,
}

impl CodeLab {
    pub async fn start(
        program: &Path,
        dir: &Path,
        database: Option<&str>,
        model: &Served,
    ) -> anyhow::Result<Self> {
        let addr = format!("{LOCAL}:0");
        Self::start_with(program, dir, database, model, (&addr, &[])).await
    }

    /// One of several servers of an installation.
    pub async fn member(
        program: &Path,
        dir: &Path,
        database: &str,
        model: &Served,
    ) -> anyhow::Result<Self> {
        let free = std::net::TcpListener::bind((LOCAL, 0))?.local_addr()?;
        let (addr, address) = (free.to_string(), format!("http://{free}"));
        let settings = [
            ("CODELAB_CLUSTER__ADDRESS", address.as_str()),
            ("JWT_SECRET", KEY),
            ("CODELAB_MASTER_KEY", KEY),
        ];
        Self::start_with(program, dir, Some(database), model, (&addr, &settings)).await
    }

    async fn start_with(
        program: &Path,
        dir: &Path,
        database: Option<&str>,
        model: &Served,
        (addr, settings): (&str, &[(&str, &str)]),
    ) -> anyhow::Result<Self> {
        let folder = tempfile::Builder::new()
            .prefix("codelab-load")
            .tempdir_in(dir)?;
        let mut serve = Command::new(program);
        serve
            .env_clear()
            .args(["serve", "--addr", addr, "--data-dir"])
            .arg(folder.path());
        serve
            .env("INTERNAL_API_KEY", KEY)
            .env("LLM_PROXY_URL", format!("http://{}", model.addr));
        serve.envs(RAISED);
        serve.stderr(std::fs::File::create(folder.path().join("server.log"))?);
        if let Some(url) = database {
            serve.env("DATABASE_URL", url);
        }
        serve.envs(settings.iter().copied());
        let began = Instant::now();
        let served = Served::start(serve, "codelab").await?;
        healthy(&served.target()).await?;
        Ok(Self {
            served,
            program: program.to_owned(),
            folder,
            cold_start: began.elapsed(),
        })
    }

    /// From now on it only forwards. Waits until it knows another server that can take over.
    pub async fn drain(&self) -> anyhow::Result<()> {
        let mut failure = String::new();
        let give_up_at = Instant::now() + START_LIMIT;
        while Instant::now() < give_up_at {
            let mut drain = Command::new(&self.program);
            drain
                .env_clear()
                .env("INTERNAL_API_KEY", KEY)
                .args(["cluster", "drain", "--data-dir"])
                .arg(self.folder.path());
            let drained = drain.output().await?;
            if drained.status.success() {
                return Ok(());
            }
            failure = String::from_utf8_lossy(&drained.stderr).into_owned();
            tokio::time::sleep(DRAIN_LOOK).await;
        }
        anyhow::bail!("codelab cluster drain failed: {failure}")
    }

    /// Access as the gateway, for the runtime API.
    pub fn gateway(&self) -> LoadTarget {
        LoadTarget {
            addr: self.served.addr.clone(),
            access: LoadAccess::InternalKey(KEY.to_owned()),
        }
    }

    /// Access as the first user.
    pub async fn user(&self) -> anyhow::Result<LoadTarget> {
        let mut token = Command::new(&self.program);
        token
            .env_clear()
            .args(["token", "--user", "1", "--data-dir"])
            .arg(self.folder.path());
        let token = token.output().await?;
        ensure!(
            token.status.success(),
            "codelab token failed: {}",
            String::from_utf8_lossy(&token.stderr)
        );
        let token = String::from_utf8(token.stdout)?.trim().to_owned();
        Ok(LoadTarget {
            addr: self.served.addr.clone(),
            access: LoadAccess::Token(token),
        })
    }

    pub fn usage(&self) -> anyhow::Result<ProcessUsage> {
        self.served.usage()
    }

    pub async fn stop(mut self) -> anyhow::Result<()> {
        let process = self
            .served
            .child
            .id()
            .and_then(|id| rustix::process::Pid::from_raw(id.cast_signed()));
        rustix::process::kill_process(
            process.context("the server has ended")?,
            rustix::process::Signal::TERM,
        )?;
        tokio::time::timeout(STOP_LIMIT, self.served.child.wait())
            .await
            .context("the server did not stop in time")??;
        Ok(())
    }
}

async fn healthy(target: &LoadTarget) -> anyhow::Result<()> {
    let waiting = async {
        loop {
            let health: Value = Wire::open(target)
                .await?
                .json(hyper::Method::GET, "/health", String::new())
                .await?;
            if health["status"] == "healthy" {
                return anyhow::Ok(());
            }
            tokio::time::sleep(HEALTH_LOOK).await;
        }
    };
    tokio::time::timeout(START_LIMIT, waiting)
        .await
        .context("the server did not become healthy in time")?
}

/// The load generator with one order.
pub struct Generator {
    child: Child,
    stdin: ChildStdin,
    stdout: Lines<BufReader<ChildStdout>>,
}

impl Generator {
    pub async fn start(order: &Order) -> anyhow::Result<Self> {
        let mut generate = Command::new(std::env::current_exe()?);
        generate
            .arg("generate")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true);
        let mut child = generate.spawn()?;
        let mut stdin = child
            .stdin
            .take()
            .context("the process has no standard input")?;
        let stdout = BufReader::new(
            child
                .stdout
                .take()
                .context("the process has no standard output")?,
        )
        .lines();
        stdin
            .write_all(format!("{}\n", serde_json::to_string(order)?).as_bytes())
            .await?;
        Ok(Self {
            child,
            stdin,
            stdout,
        })
    }

    /// Runs until it pauses.
    pub async fn pause(&mut self) -> anyhow::Result<()> {
        let line = self.line().await?;
        ensure!(
            line == PAUSE,
            "the load generator printed {line:?} instead of a pause"
        );
        Ok(())
    }

    pub async fn go_on(&mut self) -> anyhow::Result<()> {
        Ok(self.stdin.write_all(b"\n").await?)
    }

    /// Continues to the end, through all remaining pauses.
    pub async fn report(mut self) -> anyhow::Result<LoadReport> {
        let mut line = PAUSE.to_owned();
        while line == PAUSE {
            self.go_on().await?;
            line = self.line().await?;
        }
        ensure!(
            self.child.wait().await?.success(),
            "the load generator failed"
        );
        Ok(serde_json::from_str(&line)?)
    }

    async fn line(&mut self) -> anyhow::Result<String> {
        self.stdout
            .next_line()
            .await?
            .context("the load generator ended; its output is above")
    }
}
