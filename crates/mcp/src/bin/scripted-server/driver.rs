//! A program that uses a scripted server, so that its memory and its death can be looked at.

use std::fs;
use std::io::{self, Write};
use std::path::PathBuf;
use std::time::Duration;

use codelab_mcp::{
    CallOptions, McpConfig, McpLauncher, McpLimits, Place, ServerHandle, ServerState,
};
use codelab_protocol::McpStatus;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// `LAUNCHER MODE [TOOL ARGUMENTS]`: starts a server of that mode, calls a tool, says how it went
/// and how much memory it took, and then waits for its death.
pub fn drive(arguments: &[String]) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    runtime.block_on(driven(arguments))
}

async fn driven(arguments: &[String]) -> io::Result<()> {
    let missing = || io::Error::other("arguments are missing");
    let launcher = McpLauncher {
        program: PathBuf::from(arguments.first().ok_or_else(missing)?),
        arguments: Vec::new(),
    };
    let mode = arguments.get(1).ok_or_else(missing)?;
    let program = std::env::current_exe()?;
    let mark = std::env::var("CODELAB_TEST_MARK").unwrap_or_default();
    let config = json!({"mcpServers": {"s": {
        "command": program, "args": [mode], "env": {"CODELAB_TEST_MARK": mark},
    }}});
    let config = McpConfig::parse(&config.to_string()).map_err(io::Error::other)?;
    let Some((name, server)) = config.servers.into_iter().next() else {
        return Err(missing());
    };
    let place = Place::Process {
        launcher,
        workspace: std::env::current_dir()?,
    };
    let limits = McpLimits {
        call_timeout: Duration::from_secs(10),
        ..McpLimits::default()
    };
    let handle = ServerHandle::start(name, server, place, limits);
    let state = settled(&handle).await;
    let mut said = json!({"status": state.status, "error": state.error});
    if let (Some(tool), Some(text)) = (arguments.get(2), arguments.get(3)) {
        let definition = state.tools.iter().find(|offered| offered.name == *tool);
        let digest = definition.ok_or_else(missing)?.digest();
        let arguments: Value = serde_json::from_str(text)?;
        let arguments = arguments.as_object().cloned().unwrap_or_default();
        let (asks, _events) = mpsc::channel(8);
        let options = CallOptions {
            stop: CancellationToken::new(),
            asks,
        };
        let end = handle.call(tool, &digest, arguments, options).await;
        let end: String = format!("{end:?}").chars().take(300).collect();
        said["end"] = Value::from(end);
    }
    let status = fs::read_to_string("/proc/self/status")?;
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let peak = peak.and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok());
    said["peak_kib"] = Value::from(peak);
    writeln!(io::stdout(), "{said}")?;
    io::stdout().flush()?;
    tokio::time::sleep(Duration::from_secs(600)).await;
    Ok(())
}

async fn settled(handle: &ServerHandle) -> ServerState {
    let mut state = handle.watch();
    let settled = state.wait_for(|state| state.status != McpStatus::Starting);
    match settled.await {
        Ok(state) => state.clone(),
        Err(_) => handle.watch().borrow().clone(),
    }
}
