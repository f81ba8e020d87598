//! Logs go to standard error: for people on a terminal, as JSON lines otherwise; or to a file, where the screen is the
//! person's.

use std::fs::OpenOptions;
use std::io::IsTerminal;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Mutex;

use tracing_subscriber::EnvFilter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

/// A larger log of earlier runs is begun anew.
const MAX_FILE_BYTES: u64 = 8 << 20;

/// This program's own events from `info` up. The engine of memories warns at every start of a check that it makes itself.
const DEFAULT: &str = "warn,codelab=info,qdrant_edge::common::mmap=error";

/// `RUST_LOG` chooses what is logged.
pub fn start() {
    start_with(DEFAULT);
}

/// For commands that talk to a person: only what went wrong, unless `RUST_LOG` says otherwise.
pub fn start_quiet() {
    start_with("error");
}

/// For commands that need the screen for something else.
pub fn start_in_file(path: &Path) -> anyhow::Result<()> {
    if let Some(folder) = path.parent() {
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    }
    let is_large = std::fs::metadata(path).is_ok_and(|found| found.len() > MAX_FILE_BYTES);
    if is_large {
        std::fs::remove_file(path)?;
    }
    let file = OpenOptions::new().create(true).append(true).mode(0o600).open(path)?;
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(DEFAULT));
    let layer = tracing_subscriber::fmt::layer().json().flatten_event(true).with_writer(Mutex::new(file));
    tracing_subscriber::registry().with(filter).with(layer).init();
    Ok(())
}

fn start_with(default: &str) {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(default));
    let registry = tracing_subscriber::registry().with(filter);
    if std::io::stderr().is_terminal() {
        registry.with(tracing_subscriber::fmt::layer().with_writer(std::io::stderr).with_target(false)).init();
    } else {
        registry.with(tracing_subscriber::fmt::layer().json().flatten_event(true).with_writer(std::io::stderr)).init();
    }
}
