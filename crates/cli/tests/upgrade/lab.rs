//! A server process of any version on a data folder, and plain JSON requests to it.
//!
//! The typed client is not used here: it speaks the language of the present version, and these
//! requests also go to older programs.

use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::time::Duration;

use codelab_client::{Client, ClientLimits, Credentials, Method};
use codelab_fakemodel::FakeModel;
use codelab_testkit::announced_url;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};

const INTERNAL_KEY: &str = "upgrade-test-key";
/// A process or a request that takes longer than this hangs.
const DEADLINE: Duration = Duration::from_secs(60);
/// Small enough that one session of long messages is compacted, and the others are not.
const COMPACT_TOKENS: &str = "600";
/// Approvals of a fixture must not expire while the fixture is made or continued.
const APPROVAL_TIMEOUT_SECONDS: &str = "3600";

/// Who sends a request.
#[derive(Clone)]
pub enum Caller {
    Internal,
    User(String),
}

pub struct Lab {
    pub model: FakeModel,
    program: PathBuf,
    settings: Vec<(String, String)>,
    home: TempDir,
    server: Option<Running>,
}

struct Running {
    url: String,
    child: Child,
    /// Kept open, because the server may write to it.
    _stdout: Lines<BufReader<ChildStdout>>,
}

impl Lab {
    /// Everything but the server; its data folder is still empty.
    pub async fn prepare(program: &Path, settings: &[(&str, &str)]) -> Self {
        let model = FakeModel::start().await;
        let url = model.url();
        let own = [
            ("INTERNAL_API_KEY", INTERNAL_KEY),
            ("LLM_PROXY_URL", &url),
            ("RUST_LOG", "warn"),
            ("CODELAB_CONTEXT__COMPACT_TOKENS", COMPACT_TOKENS),
            (
                "CODELAB_LIMITS__APPROVAL_TIMEOUT_SECONDS",
                APPROVAL_TIMEOUT_SECONDS,
            ),
        ];
        let settings = own.iter().chain(settings);
        let home = tempfile::tempdir().unwrap();
        std::fs::create_dir(home.path().join("data")).unwrap();
        Self {
            model,
            program: program.to_owned(),
            settings: settings
                .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
                .collect(),
            home,
            server: None,
        }
    }

    pub fn data_dir(&self) -> PathBuf {
        self.home.path().join("data")
    }

    /// Starts the server. Panics with its log when it does not come up.
    pub async fn start(&mut self) {
        let log = self.home.path().join("server.log");
        let mut command = self.command(&["serve", "--addr", "127.0.0.1:0"]);
        command
            .stdout(Stdio::piped())
            .stderr(std::fs::File::create(&log).unwrap());
        let mut child = command.spawn().unwrap();
        let mut stdout = BufReader::new(child.stdout.take().unwrap()).lines();
        let url = tokio::time::timeout(DEADLINE, announced_url(&mut stdout)).await;
        let url = url.expect("the server starts in time").unwrap_or_else(|| {
            let log = std::fs::read_to_string(&log).unwrap_or_default();
            panic!("the server did not start: {log}")
        });
        self.server = Some(Running {
            url,
            child,
            _stdout: stdout,
        });
    }

    /// `kill -9`: work that is under way stays open in the database.
    pub async fn kill(&mut self) {
        let mut server = self.server.take().expect("a server runs");
        server.child.kill().await.unwrap();
    }

    /// Runs a command of the program on this data folder to its end.
    pub async fn run(&self, arguments: &[&str]) -> Output {
        tokio::time::timeout(DEADLINE, self.command(arguments).output())
            .await
            .expect("the command ends in time")
            .unwrap()
    }

    pub async fn user(&self, user: u64) -> Caller {
        let output = self.run(&["token", "--user", &user.to_string()]).await;
        assert!(output.status.success(), "{output:?}");
        Caller::User(String::from_utf8(output.stdout).unwrap().trim().to_owned())
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        command
            .args(arguments)
            .arg("--data-dir")
            .arg(self.data_dir())
            .env_clear()
            .envs(self.settings.iter().cloned())
            .stdin(Stdio::null())
            .kill_on_drop(true);
        command
    }

    pub fn client(&self, caller: &Caller) -> Client {
        let url = &self.server.as_ref().expect("a server runs").url;
        let credentials = match caller {
            Caller::Internal => Credentials::InternalKey(INTERNAL_KEY.to_owned()),
            Caller::User(token) => Credentials::Bearer(token.clone()),
        };
        let limits = ClientLimits {
            idle_timeout_ms: DEADLINE.as_millis() as u64,
            ..ClientLimits::default()
        };
        Client::with_limits(url, credentials, limits).unwrap()
    }

    /// The status and the JSON of an answer. An event stream comes as an array of its
    /// frames.
    pub async fn ask(
        &self,
        caller: &Caller,
        method: Method,
        path: &str,
        body: Value,
    ) -> (u16, Value) {
        ask(&self.client(caller), method, path, body).await
    }

    pub async fn get(&self, caller: &Caller, path: &str) -> Value {
        let (status, answer) = self.ask(caller, Method::GET, path, Value::Null).await;
        assert_eq!(status, 200, "GET {path}: {answer}");
        answer
    }

    pub async fn post(&self, caller: &Caller, path: &str, body: Value) -> Value {
        let (status, answer) = self.ask(caller, Method::POST, path, body).await;
        assert!(
            (200..300).contains(&status),
            "POST {path}: {status} {answer}"
        );
        answer
    }
}

pub async fn ask(client: &Client, method: Method, path: &str, body: Value) -> (u16, Value) {
    let body = match body {
        Value::Null => String::new(),
        body => body.to_string(),
    };
    let headers = [("content-type", "application/json")];
    let answer = client.raw(method, path, &headers, body).await.unwrap();
    let text = String::from_utf8(answer.body.to_vec()).unwrap();
    let value = serde_json::from_str(&text).unwrap_or_else(|_| frames(&text));
    (answer.status, value)
}

/// The frames of an event stream, each with its number, if it has one, and its data.
fn frames(text: &str) -> Value {
    let frames = text.split("\n\n").filter_map(|frame| {
        let field = |name| frame.lines().find_map(|line| line.strip_prefix(name));
        let data: Value = serde_json::from_str(field("data: ")?).unwrap();
        let id: Option<u64> = field("id: ").map(|id| id.parse().unwrap());
        Some(json!({"id": id, "data": data}))
    });
    frames.collect()
}

/// The first value of this name, however deep it is.
pub fn find(value: &Value, name: &str) -> Option<Value> {
    match value {
        Value::Object(map) => map
            .get(name)
            .filter(|found| !found.is_null())
            .cloned()
            .or_else(|| map.values().find_map(|inner| find(inner, name))),
        Value::Array(list) => list.iter().find_map(|inner| find(inner, name)),
        _ => None,
    }
}
