//! A folder to work in, a data folder, a scripted model, and servers that can be killed.

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use codelab_fakemodel::{FakeModel, Reply};
use codelab_testkit::announced_url;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};

use crate::terminal::Terminal;

pub const GREET: &str = "def greet():\n    return \"Hello\"\n";

pub struct Lab {
    pub model: FakeModel,
    home: TempDir,
    settings: Vec<(String, String)>,
}

impl Lab {
    pub async fn new() -> Self {
        let model = FakeModel::start().await;
        let home = tempfile::tempdir().unwrap();
        for folder in ["work", "data"] {
            fs::create_dir(home.path().join(folder)).unwrap();
        }
        fs::write(home.path().join("work/greet.py"), GREET).unwrap();
        let editor = home.path().join("editor");
        let settings = [
            ("HOME", home.path().to_str().unwrap().to_owned()),
            (
                "CODELAB_DATA_DIR",
                home.path().join("data").to_str().unwrap().to_owned(),
            ),
            // Nobody listens there, so that a chat without a server starts its own.
            ("CODELAB_ADDR", format!("127.0.0.1:{}", free_port())),
            ("LLM_PROXY_URL", model.url()),
            ("EDITOR", editor.to_str().unwrap().to_owned()),
        ];
        let settings = settings
            .map(|(name, value)| (name.to_owned(), value))
            .to_vec();
        let mut lab = Self {
            model,
            home,
            settings,
        };
        lab.edit_with("#!/bin/sh\nsed -i 's/Hello/Good day/' \"$1\"\n");
        lab
    }

    /// The person's editor.
    pub fn edit_with(&mut self, script: &str) {
        let editor = self.home.path().join("editor");
        fs::write(&editor, script).unwrap();
        fs::set_permissions(&editor, fs::Permissions::from_mode(0o755)).unwrap();
    }

    /// For everything that is started from now on.
    pub fn set(&mut self, name: &str, value: &str) {
        self.settings.push((name.to_owned(), value.to_owned()));
    }

    pub fn work(&self) -> PathBuf {
        self.home.path().join("work")
    }

    pub fn file(&self, name: &str) -> Option<String> {
        fs::read_to_string(self.work().join(name)).ok()
    }

    pub fn write(&self, name: &str, content: &str) {
        fs::write(self.work().join(name), content).unwrap();
    }

    pub fn settings(&self) -> Vec<(&str, &str)> {
        self.settings
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()))
            .collect()
    }

    /// `codelab chat` in the folder.
    pub fn chat(&self, arguments: &[&str]) -> Terminal {
        let all: Vec<&str> = ["chat"].iter().chain(arguments).copied().collect();
        let terminal = Terminal::start(&all, &self.settings(), &self.work());
        terminal.wait_for("/help");
        terminal
    }

    /// Where a server of the settings listens.
    pub fn port(&self) -> u16 {
        let settings = self.settings();
        let (_, addr) = settings
            .iter()
            .find(|(name, _)| *name == "CODELAB_ADDR")
            .unwrap();
        addr.rsplit(':').next().unwrap().parse().unwrap()
    }

    /// Of the first user.
    pub async fn token(&self) -> String {
        let mut command = Command::new(env!("CARGO_BIN_EXE_codelab"));
        command.args(["token", "--user", "1"]);
        let output = command.env_clear().envs(self.settings()).output().await;
        String::from_utf8(output.unwrap().stdout)
            .unwrap()
            .trim()
            .to_owned()
    }

    pub fn home(&self) -> &Path {
        self.home.path()
    }

    /// A server of its own, at the address of the settings.
    pub async fn serve(&self) -> Child {
        let mut command = Command::new(env!("CARGO_BIN_EXE_codelab"));
        command
            .arg("serve")
            .env_clear()
            .envs(self.settings())
            .stdin(Stdio::null());
        let log = fs::File::options()
            .create(true)
            .append(true)
            .open(self.home.path().join("server.log"))
            .unwrap();
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(log)
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        if announced_url(&mut lines).await.is_none() {
            panic!(
                "no server: {}",
                fs::read_to_string(self.home.path().join("server.log")).unwrap()
            );
        }
        // Kept open: the server may write to it.
        tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
        child
    }

    /// Plans are made of one task for this agent, which is how a request is routed.
    pub fn route_to(&self, agent: &str) {
        let task = json!({ "id": "one", "agent": agent, "description": "Do it.", "depends_on": [], "estimated_tokens": 10 });
        let is_planning = |body: &Value| body.get("response_format").is_some();
        self.model.on(
            is_planning,
            Reply::text(json!({ "tasks": [task] }).to_string()),
        );
    }

    pub fn call(&self, tool: &str, arguments: Value) {
        self.model.reply(Reply::tool_call(tool, arguments));
    }
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port()
}
