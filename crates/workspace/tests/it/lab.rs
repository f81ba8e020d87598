//! A workspace in a folder of its own, with a home folder and surroundings that must stay
//! untouched.

use std::fs;
use std::path::{Path, PathBuf};

use codelab_protocol::{Tool, ToolArguments};
use codelab_workspace::{Call, CallKey, Launcher, Sandbox, Workspace, WorkspaceOptions};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

pub const CANARY: &str = "canary-7c1f";

pub struct Lab {
    pub workspace: Workspace,
    pub root: PathBuf,
    pub outside: PathBuf,
    pub home: PathBuf,
    pub data: PathBuf,
    _folder: TempDir,
}

/// For tests that run as an ordinary user, everything is in one folder that this user can reach.
pub const USER_FOLDER: &str = "CODELAB_TEST_USER_FOLDER";

pub fn launcher() -> Launcher {
    let program = match std::env::var_os(USER_FOLDER) {
        Some(folder) => Path::new(&folder).join("codelab-sandbox-exec"),
        None => env!("CARGO_BIN_EXE_codelab-sandbox-exec").into(),
    };
    Launcher {
        program,
        arguments: Vec::new(),
    }
}

/// Not the system's temporary folder, which sandboxes replace as a whole.
pub fn folder() -> TempDir {
    let place = std::env::var_os(USER_FOLDER).unwrap_or_else(|| env!("CARGO_TARGET_TMPDIR").into());
    tempfile::tempdir_in(place).unwrap()
}

impl Lab {
    pub fn new() -> Self {
        Self::with(|_| {})
    }

    pub fn behind(sandbox: &Sandbox) -> Self {
        Self::with(|options| options.sandbox = sandbox.clone())
    }

    pub fn with(change: impl FnOnce(&mut WorkspaceOptions)) -> Self {
        Self::within(folder(), change)
    }

    pub fn within(folder: TempDir, change: impl FnOnce(&mut WorkspaceOptions)) -> Self {
        let base = folder.path().canonicalize().unwrap();
        let [root, outside, home, data] =
            ["root", "outside", "home", "data"].map(|name| base.join(name));
        for folder in [&root, &outside, &home, &data] {
            fs::create_dir(folder).unwrap();
        }
        fs::write(outside.join("secret.txt"), CANARY).unwrap();
        let mut options = WorkspaceOptions::new(launcher());
        options.home = Some(home.clone());
        options.data_dir = Some(data.clone());
        change(&mut options);
        let workspace = Workspace::open(&root, options).unwrap();
        Self {
            workspace,
            root,
            outside,
            home,
            data,
            _folder: folder,
        }
    }

    fn options(&self, sandbox: &Sandbox) -> WorkspaceOptions {
        let mut options = WorkspaceOptions::new(launcher());
        options.home = Some(self.home.clone());
        options.data_dir = Some(self.data.clone());
        options.sandbox = sandbox.clone();
        options.policy = options.policy.protect("deploy");
        options
    }

    /// The same folders, opened by a new client.
    pub fn reopened(self, sandbox: &Sandbox) -> Self {
        let (root, options) = (self.root.clone(), self.options(sandbox));
        self.moved_to(root, options)
    }

    /// The same folder, opened by a second client at the same time.
    pub fn second(&self, sandbox: &Sandbox) -> Workspace {
        Workspace::open(&self.root, self.options(sandbox)).unwrap()
    }

    /// The same folders with another root.
    pub fn moved_to(self, root: PathBuf, options: WorkspaceOptions) -> Self {
        Self {
            workspace: Workspace::open(&root, options).unwrap(),
            root,
            ..self
        }
    }

    pub fn write(&self, path: &str, content: impl AsRef<[u8]>) {
        let path = self.root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    pub fn read(&self, path: &str) -> String {
        fs::read_to_string(self.root.join(path)).unwrap()
    }

    pub fn link(&self, path: &str, target: impl AsRef<Path>) {
        std::os::unix::fs::symlink(target, self.root.join(path)).unwrap();
    }

    pub async fn call(&self, tool: &str, arguments: Value) -> Value {
        self.run(&arguments_of(tool, arguments), false).await
    }

    async fn run(&self, arguments: &ToolArguments, is_approved: bool) -> Value {
        self.workspace
            .run(
                Call {
                    user_id: None,
                    arguments,
                    is_approved,
                    reader: None,
                    base: None,
                    key: None,
                },
                CancellationToken::new(),
            )
            .await
    }

    /// A call whose writes can be taken back.
    pub async fn call_as(&self, id: &str, tool: &str, arguments: Value) -> Value {
        run_as(&self.workspace, id, &arguments_of(tool, arguments)).await
    }

    pub fn before_images(&self) -> PathBuf {
        self.data.join("before")
    }

    pub async fn command(&self, command: &str) -> Value {
        self.call(
            "execute_command",
            json!({"command": command, "timeout_seconds": 60}),
        )
        .await
    }

    /// A command that starts once this file exists.
    pub async fn command_after(&self, path: &str, command: &str) -> Value {
        crate::commands::wait_until(path, || self.root.join(path).exists()).await;
        self.command(command).await
    }

    /// A command that a person has approved.
    pub async fn approved(&self, command: &str) -> Value {
        self.run(
            &arguments_of(
                "execute_command",
                json!({"command": command, "timeout_seconds": 60}),
            ),
            true,
        )
        .await
    }

    /// Runs git outside the sandbox, as the person would.
    pub fn git(&self, arguments: &[&str]) -> String {
        let mut git = std::process::Command::new("git");
        git.args([
            "-c",
            "user.name=Person",
            "-c",
            "user.email=person@example.org",
        ])
        .args(arguments);
        let done = git
            .current_dir(&self.root)
            .env("HOME", &self.home)
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .output()
            .unwrap();
        assert!(
            done.status.success(),
            "git {arguments:?}: {}",
            String::from_utf8_lossy(&done.stderr)
        );
        String::from_utf8(done.stdout).unwrap()
    }

    /// Everything outside the root is unchanged, and nothing was added.
    pub fn assert_outside_untouched(&self, after: &str) {
        let names: Vec<_> = fs::read_dir(&self.outside)
            .unwrap()
            .map(|entry| entry.unwrap().file_name())
            .collect();
        assert_eq!(names, ["secret.txt"], "{after}");
        assert_eq!(
            fs::read_to_string(self.outside.join("secret.txt")).unwrap(),
            CANARY,
            "{after}"
        );
    }
}

pub fn key_of(id: &str) -> CallKey {
    CallKey {
        session_id: "session".parse().unwrap(),
        call_id: id.parse().unwrap(),
    }
}

pub async fn run_as(workspace: &Workspace, id: &str, arguments: &ToolArguments) -> Value {
    let call = Call {
        reader: None,
        base: None,
        user_id: None,
        arguments,
        is_approved: true,
        key: Some(&key_of(id)),
    };
    workspace.run(call, CancellationToken::new()).await
}

pub fn arguments_of(tool: &str, arguments: Value) -> ToolArguments {
    let Value::Object(arguments) = arguments else {
        panic!("arguments are an object")
    };
    Tool::of_call(tool).unwrap().check(&arguments).unwrap()
}

pub fn error(result: &Value) -> &str {
    assert_eq!(result["success"], false, "{result}");
    result["error"].as_str().unwrap()
}

pub fn content(result: &Value) -> &str {
    assert_eq!(result["success"], true, "{result}");
    result["content"].as_str().unwrap()
}
