//! Logs go to standard error: for people on a terminal, as JSON lines otherwise; or to a file,
//! where the screen is the person's. Nothing that runs ever waits for whoever reads them.

mod lossy;

use std::fs::OpenOptions;
use std::io::{self, IsTerminal};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::panic::PanicHookInfo;
use std::path::Path;

use tracing_subscriber::EnvFilter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

use self::lossy::{LogFlush, LossyLog};

/// A larger log of earlier runs is begun anew.
const MAX_FILE_BYTES: u64 = 8 << 20;

/// This program's own events from `info` up.
const DEFAULT: &str = "warn,codelab=info";

/// `RUST_LOG` chooses what is logged. What is returned is held until the end of the program.
pub fn start() -> io::Result<LogFlush> {
    start_with(DEFAULT)
}

/// For commands that talk to a person: only what went wrong, unless `RUST_LOG` says otherwise.
pub fn start_quiet() -> io::Result<LogFlush> {
    start_with("error")
}

/// For commands that need the screen for something else.
pub fn start_in_file(path: &Path) -> io::Result<LogFlush> {
    if let Some(folder) = path.parent() {
        std::fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(folder)?;
    }
    let is_large = std::fs::metadata(path).is_ok_and(|found| found.len() > MAX_FILE_BYTES);
    if is_large {
        std::fs::remove_file(path)?;
    }
    let (writer, rest) = LossyLog::start(
        OpenOptions::new()
            .create(true)
            .append(true)
            .mode(0o600)
            .open(path)?,
    )?;
    let layer = tracing_subscriber::fmt::layer()
        .json()
        .flatten_event(true)
        .with_writer(writer);
    tracing_subscriber::registry()
        .with(filter(DEFAULT))
        .with(layer)
        .init();
    std::panic::set_hook(Box::new(log_panic));
    Ok(rest)
}

fn start_with(default: &str) -> io::Result<LogFlush> {
    let (writer, rest) = LossyLog::start(io::stderr())?;
    let registry = tracing_subscriber::registry().with(filter(default));
    if io::stderr().is_terminal() {
        registry
            .with(
                tracing_subscriber::fmt::layer()
                    .with_writer(writer)
                    .with_target(false),
            )
            .init();
    } else {
        registry
            .with(
                tracing_subscriber::fmt::layer()
                    .json()
                    .flatten_event(true)
                    .with_writer(writer),
            )
            .init();
    }
    std::panic::set_hook(Box::new(log_panic));
    Ok(rest)
}

/// What MCP servers say is nobody's log: the library logs whole messages.
const NEVER: &str = "rmcp=off";

fn filter(default: &str) -> EnvFilter {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(default));
    match NEVER.parse() {
        Ok(never) => filter.add_directive(never),
        Err(_) => filter,
    }
}

/// The usual way writes to standard error by itself, and would wait there.
fn log_panic(panic: &PanicHookInfo<'_>) {
    let location = panic.location().map(ToString::to_string);
    let thread = std::thread::current();
    tracing::error!(
        thread = thread.name(),
        location,
        reason = panic.payload_as_str(),
        "a thread panicked"
    );
}
