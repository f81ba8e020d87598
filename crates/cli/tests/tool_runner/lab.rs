//! A machine with a home, a workspace and a data folder; the `codelab` program on it; a scripted
//! model.

use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use codelab_client::{Client, Credentials, EventData, FollowUntil, ResumingEvents};
use codelab_fakemodel::{FakeModel, Reply};
use codelab_protocol::{
    CreateProjectSession, HitlDecision, SendMessage, SessionEvent, SessionEventBody, SessionId,
};
use codelab_testkit::eventually;
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt as _, AsyncRead, BufReader};
use tokio::process::{Child, Command};

/// Longer than anything here takes, also on a busy machine.
pub const DEADLINE: Duration = Duration::from_secs(120);
const SIGABRT: i32 = 6;

pub struct Lab {
    pub model: FakeModel,
    pub workspace: PathBuf,
    pub data: PathBuf,
    pub home: PathBuf,
    /// A port that was free a moment ago, so that a server that comes back is found where it was.
    port: u16,
    _folder: TempDir,
}

impl Lab {
    /// Not in the system's folder for temporary files, which sandboxes replace as a whole.
    pub async fn new() -> Self {
        let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let base = folder.path().canonicalize().unwrap();
        let [workspace, data, home] = ["workspace", "data", "home"].map(|name| base.join(name));
        for folder in [&workspace, &data, &home] {
            std::fs::create_dir(folder).unwrap();
        }
        let port = std::net::TcpListener::bind("127.0.0.1:0")
            .unwrap()
            .local_addr()
            .unwrap()
            .port();
        let model = FakeModel::start().await;
        model.default_reply(Reply::text("Done."));
        Self {
            model,
            workspace,
            data,
            home,
            port,
            _folder: folder,
        }
    }

    pub fn codelab(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_codelab"));
        command
            .args(arguments)
            .env_clear()
            .env("HOME", &self.home)
            .env("CODELAB_DATA_DIR", &self.data);
        command
            .env("PATH", std::env::var_os("PATH").unwrap())
            .env("LLM_PROXY_URL", self.model.url());
        command
            .env("LLM_MODEL", "test-model")
            .env("RUST_LOG", "warn")
            .current_dir(&self.workspace);
        command.stdin(Stdio::null()).kill_on_drop(true);
        command
    }

    pub async fn run(&self, arguments: &[&str]) -> Output {
        tokio::time::timeout(DEADLINE, self.codelab(arguments).output())
            .await
            .expect("the command ends")
            .unwrap()
    }

    pub async fn serve(&self, arguments: &[&str]) -> Process {
        let addr = format!("127.0.0.1:{}", self.port);
        let command = self.codelab(&[&["serve", "--addr", &addr], arguments].concat());
        Process::start(command, " is at ").await
    }

    pub async fn work(&self) -> Process {
        let command = self.codelab(&["work", "--workspace", self.workspace.to_str().unwrap()]);
        Process::start(command, "working in ").await
    }

    /// A server that dies at this place.
    pub async fn serve_armed(&self, failpoint: &str) -> Process {
        let addr = format!("127.0.0.1:{}", self.port);
        let mut command = self.codelab(&["serve", "--addr", &addr]);
        command.env("CODELAB_FAILPOINT", failpoint);
        Process::start(command, " is at ").await
    }

    /// A tool runner that dies at this place.
    pub async fn work_armed(&self, failpoint: &str) -> Process {
        Process::start(self.work_command(failpoint), "working in ").await
    }

    pub fn work_command(&self, failpoint: &str) -> Command {
        let mut command = self.codelab(&["work", "--workspace", self.workspace.to_str().unwrap()]);
        command.env("CODELAB_CLIENT_FAILPOINT", failpoint);
        command
    }

    /// Somebody else listens where the server did.
    pub async fn take_port(&self) -> std::net::TcpListener {
        eventually("the port is free", async || {
            std::net::TcpListener::bind(("127.0.0.1", self.port))
        })
        .await
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    /// Of the first user, for the server of this machine.
    pub async fn token(&self) -> String {
        let token = self.run(&["token", "--user", "1"]).await;
        assert!(token.status.success(), "{token:?}");
        String::from_utf8(token.stdout).unwrap().trim().to_owned()
    }

    /// The first user, at the server of this machine.
    pub async fn person(&self) -> Person {
        let token = self.token().await;
        let client = Client::new(
            &format!("http://127.0.0.1:{}", self.port),
            Credentials::Bearer(token),
        )
        .unwrap();
        let session = client
            .create_project_session(&CreateProjectSession::default())
            .await
            .unwrap()
            .session_id;
        Person { client, session }
    }

    pub fn read(&self, path: &str) -> String {
        std::fs::read_to_string(self.workspace.join(path)).unwrap_or_default()
    }

    /// What was last said to the model, as JSON.
    pub fn last_request(&self) -> String {
        self.model
            .requests()
            .last()
            .map(|request| request.body.to_string())
            .unwrap_or_default()
    }
}

/// Somebody who talks to an agent.
pub struct Person {
    pub client: Client,
    pub session: SessionId,
}

impl Person {
    pub async fn says(&self, text: &str) {
        let message = SendMessage {
            content: Some(text.to_owned()),
            target_agent: Some("coder".to_owned()),
            ..Default::default()
        };
        // The turn goes on without a reader.
        drop(
            self.client
                .stream_project_message(&self.session, &message)
                .await
                .unwrap(),
        );
    }

    /// Approves everything until the turn is over; what happened, in order.
    pub async fn approves_until_done(&self) -> Vec<SessionEventBody> {
        let mut events: ResumingEvents<SessionEvent> = ResumingEvents::new(
            self.client.clone(),
            self.session.clone(),
            None,
            FollowUntil::Dropped,
        );
        let mut seen = Vec::new();
        let all = async {
            while let Some(event) = events.next().await {
                match event.unwrap().data {
                    EventData::Chunk(event) => {
                        if let SessionEventBody::ApprovalRequest(asked) = &event.body {
                            let approve = HitlDecision {
                                decision: Some(codelab_protocol::DecisionChoice::Approve.into()),
                                ..HitlDecision::default()
                            };
                            let decided = self
                                .client
                                .decide(&self.session, &asked.approval.call_id, &approve)
                                .await;
                            assert!(decided.is_ok() || decided.unwrap_err().status() == Some(409));
                        }
                        seen.push(event.body);
                    }
                    EventData::Done(done) if done.status.is_end() => break,
                    _ => {}
                }
            }
        };
        tokio::time::timeout(DEADLINE, all)
            .await
            .expect("the turn ends");
        seen
    }
}

/// A program that said that it is ready.
pub struct Process {
    child: Child,
    pub said: Arc<Mutex<Vec<String>>>,
}

impl Process {
    pub async fn start(command: Command, ready: &str) -> Self {
        let process = Self::spawn(command);
        process.says(ready).await;
        process
    }

    pub fn spawn(mut command: Command) -> Self {
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let said = Arc::new(Mutex::new(Vec::new()));
        collect(child.stdout.take().unwrap(), Arc::clone(&said));
        collect(child.stderr.take().unwrap(), Arc::clone(&said));
        Self { child, said }
    }

    /// Waits until it has printed this.
    pub async fn says(&self, text: &str) -> String {
        let mut found = None;
        eventually(text, async || {
            let said = self.said.lock().unwrap();
            found = said.iter().find(|line| line.contains(text)).cloned();
            if found.is_some() {
                Ok(())
            } else {
                Err(said.join("\n"))
            }
        })
        .await;
        found.unwrap()
    }

    pub fn pid(&self) -> u32 {
        self.child.id().unwrap()
    }

    pub async fn kill(mut self) {
        self.child.kill().await.unwrap();
    }

    /// Waits until it dies at its armed place.
    pub async fn dies(mut self) {
        let died = tokio::time::timeout(DEADLINE, self.child.wait()).await;
        let said = || self.said.lock().unwrap().join("\n");
        let status = died.unwrap_or_else(|_| panic!("it lives on: {}", said()));
        assert_eq!(status.unwrap().signal(), Some(SIGABRT), "{}", said());
    }

    pub async fn signal(&self, name: &str) {
        let sent = Command::new("kill")
            .args([name, &self.pid().to_string()])
            .status()
            .await
            .unwrap();
        assert!(sent.success());
    }

    /// SIGTERM, and waits for its end.
    pub async fn stop(mut self) -> Option<i32> {
        self.signal("-TERM").await;
        tokio::time::timeout(DEADLINE, self.child.wait())
            .await
            .expect("it ends")
            .unwrap()
            .code()
    }

    /// The most memory it ever had.
    pub fn peak_bytes(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.pid())).unwrap();
        let line = status
            .lines()
            .find_map(|line| line.strip_prefix("VmHWM:"))
            .unwrap();
        line.trim()
            .strip_suffix(" kB")
            .unwrap()
            .parse::<u64>()
            .unwrap()
            * 1024
    }
}

fn collect(pipe: impl AsyncRead + Unpin + Send + 'static, said: Arc<Mutex<Vec<String>>>) {
    tokio::spawn(async move {
        let mut lines = BufReader::new(pipe).lines();
        while let Ok(Some(line)) = lines.next_line().await {
            said.lock().unwrap().push(line);
        }
    });
}

pub async fn exists(path: &Path) {
    eventually(&path.display().to_string(), async || {
        if path.exists() {
            Ok(())
        } else {
            Err("nothing".to_owned())
        }
    })
    .await;
}
