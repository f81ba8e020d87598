//! A workspace in a folder of its own, with a home and an outside that must stay untouched.

use std::fs;
use std::path::{Path, PathBuf};

use codelab_protocol::{Tool, ToolArguments};
use codelab_workspace::{Call, Launcher, Options, Sandbox, Workspace};
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

pub fn launcher() -> Launcher {
    Launcher { program: env!("CARGO_BIN_EXE_codelab-sandbox-exec").into(), arguments: Vec::new() }
}

impl Lab {
    pub fn new() -> Self {
        Self::with(|_| {})
    }

    pub fn behind(sandbox: &Sandbox) -> Self {
        Self::with(|options| options.sandbox = sandbox.clone())
    }

    /// Not in the system's folder for temporary files, which sandboxes replace as a whole.
    pub fn with(change: impl FnOnce(&mut Options)) -> Self {
        let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let base = folder.path().canonicalize().unwrap();
        let [root, outside, home, data] = ["root", "outside", "home", "data"].map(|name| base.join(name));
        for folder in [&root, &outside, &home, &data] {
            fs::create_dir(folder).unwrap();
        }
        fs::write(outside.join("secret.txt"), CANARY).unwrap();
        let mut options = Options::new(launcher());
        options.home = Some(home.clone());
        options.data_dir = Some(data.clone());
        change(&mut options);
        let workspace = Workspace::open(&root, options).unwrap();
        Self { workspace, root, outside, home, data, _folder: folder }
    }

    /// The same folders with another root.
    pub fn moved_to(self, root: PathBuf, options: Options) -> Self {
        Self { workspace: Workspace::open(&root, options).unwrap(), root, ..self }
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
        let arguments = arguments_of(tool, arguments);
        let call = Call { user_id: None, arguments: &arguments };
        self.workspace.run(call, CancellationToken::new()).await
    }

    pub async fn command(&self, command: &str) -> Value {
        self.call("execute_command", json!({"command": command, "timeout_seconds": 60})).await
    }

    /// Everything outside the root as it was, and nothing more.
    pub fn assert_outside_untouched(&self, after: &str) {
        let names: Vec<_> = fs::read_dir(&self.outside).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(names, ["secret.txt"], "{after}");
        assert_eq!(fs::read_to_string(self.outside.join("secret.txt")).unwrap(), CANARY, "{after}");
    }
}

pub fn arguments_of(tool: &str, arguments: Value) -> ToolArguments {
    let Value::Object(arguments) = arguments else { panic!("arguments are an object") };
    Tool::parse(tool).unwrap().check(&arguments).unwrap()
}

pub fn error(result: &Value) -> &str {
    assert_eq!(result["success"], false, "{result}");
    result["error"].as_str().unwrap()
}

pub fn content(result: &Value) -> &str {
    assert_eq!(result["success"], true, "{result}");
    result["content"].as_str().unwrap()
}
