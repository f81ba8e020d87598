//! What the tests share: scripted servers, calls, and counting processes.

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use codelab_mcp::{
    CallEvent, CallOptions, ElicitReply, McpCallEnd, McpConfig, McpLauncher, McpLimits, Place,
    ServerConfig, ServerHandle, ServerState,
};
use codelab_protocol::{McpServerName, McpStatus};
use serde_json::{Map, Value, json};
use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

/// Tests wait for events; this is when they give up.
pub const PATIENCE: Duration = Duration::from_secs(60);

pub const SCRIPTED: &str = env!("CARGO_BIN_EXE_scripted-server");
pub const LAUNCHER: &str = env!("CARGO_BIN_EXE_mcp-exec");

pub fn launcher() -> McpLauncher {
    McpLauncher {
        program: PathBuf::from(LAUNCHER),
        arguments: Vec::new(),
    }
}

/// A text that only one test's processes have in their environment.
pub fn mark() -> String {
    format!("mark-{}-{:016x}", std::process::id(), fastrand::u64(..))
}

pub fn config(entry: &Value) -> (McpServerName, ServerConfig) {
    let text = json!({"mcpServers": {"server": entry}}).to_string();
    let config = McpConfig::parse(&text).unwrap();
    config.servers.into_iter().next().unwrap()
}

pub fn process(entry: &Value, limits: McpLimits) -> ServerHandle {
    let (name, config) = config(entry);
    let place = Place::Process {
        launcher: launcher(),
        workspace: std::env::temp_dir(),
    };
    ServerHandle::start(name, config, place, limits)
}

pub fn scripted(mode: &str, mark: &str, limits: McpLimits) -> ServerHandle {
    let env = json!({"CODELAB_TEST_MARK": mark});
    process(
        &json!({"command": SCRIPTED, "args": [mode], "env": env}),
        limits,
    )
}

/// Short pauses, so that tests are.
pub fn limits() -> McpLimits {
    McpLimits {
        first_restart_pause: Duration::from_millis(20),
        longest_restart_pause: Duration::from_millis(100),
        handshake_timeout: Duration::from_secs(30),
        list_timeout: Duration::from_secs(30),
        ..McpLimits::default()
    }
}

pub async fn state_where(
    handle: &ServerHandle,
    wanted: impl Fn(&ServerState) -> bool,
) -> ServerState {
    let mut state = handle.watch();
    let found = timeout(PATIENCE, state.wait_for(|state| wanted(state))).await;
    match found {
        Ok(found) => found.unwrap().clone(),
        Err(_) => panic!("the state stays {:?}", handle.watch().borrow()),
    }
}

pub async fn ready(handle: &ServerHandle) -> ServerState {
    let wanted = |state: &ServerState| {
        assert!(
            matches!(state.status, McpStatus::Starting | McpStatus::Ready),
            "{state:?}"
        );
        state.status == McpStatus::Ready
    };
    state_where(handle, wanted).await
}

pub fn object(value: Value) -> Map<String, Value> {
    value.as_object().unwrap().clone()
}

pub fn quiet() -> CallOptions {
    CallOptions {
        stop: CancellationToken::new(),
        asks: mpsc::channel(1).0,
    }
}

/// A call of the tool as the server describes it now.
pub async fn call(handle: &ServerHandle, tool: &str, arguments: Value) -> McpCallEnd {
    call_with(handle, tool, arguments, quiet()).await
}

pub async fn call_with(
    handle: &ServerHandle,
    tool: &str,
    arguments: Value,
    options: CallOptions,
) -> McpCallEnd {
    let state = handle.watch().borrow().clone();
    let found = state.tools.iter().find(|offered| offered.name == tool);
    let digest = found
        .unwrap_or_else(|| panic!("no {tool}: {state:?}"))
        .digest();
    let called = handle.call(tool, &digest, object(arguments), options);
    timeout(PATIENCE, called).await.unwrap()
}

pub fn content(end: &McpCallEnd) -> &str {
    match end {
        McpCallEnd::Result(result) => result["content"].as_str().unwrap(),
        other => panic!("{other:?}"),
    }
}

/// Answers all questions, and keeps what was heard.
pub fn listening(
    answer: impl Fn() -> ElicitReply + Send + 'static,
) -> (CallOptions, tokio::task::JoinHandle<Vec<String>>) {
    let (asks, mut events) = mpsc::channel(64);
    let heard = tokio::spawn(async move {
        let mut heard = Vec::new();
        while let Some(event) = events.recv().await {
            match event {
                CallEvent::Progress {
                    progress,
                    total,
                    message,
                } => heard.push(format!("{progress} {total:?} {message:?}")),
                CallEvent::Elicit { message, reply, .. } => {
                    heard.push(message);
                    let _ = reply.send(answer());
                }
            }
        }
        heard
    });
    let options = CallOptions {
        stop: CancellationToken::new(),
        asks,
    };
    (options, heard)
}

/// Processes with the mark in their environment.
pub fn marked(mark: &str) -> Vec<u32> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let Some(pid) = entry
            .file_name()
            .to_str()
            .and_then(|name| name.parse().ok())
        else {
            continue;
        };
        let Ok(environment) = fs::read(entry.path().join("environ")) else {
            continue;
        };
        if memmem(&environment, mark.as_bytes()) {
            found.push(pid);
        }
    }
    found
}

fn memmem(text: &[u8], part: &[u8]) -> bool {
    text.windows(part.len()).any(|window| window == part)
}

pub async fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < end, "never: {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
