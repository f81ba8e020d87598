//! Logs go to standard error: for people on a terminal, as JSON lines otherwise.

use std::io::IsTerminal;

use tracing_subscriber::EnvFilter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

/// `RUST_LOG` chooses what is logged; by default this program's own events from `info` up.
pub fn start() {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("warn,codelab=info"));
    let registry = tracing_subscriber::registry().with(filter);
    if std::io::stderr().is_terminal() {
        registry.with(tracing_subscriber::fmt::layer().with_writer(std::io::stderr).with_target(false)).init();
    } else {
        registry.with(tracing_subscriber::fmt::layer().json().flatten_event(true).with_writer(std::io::stderr)).init();
    }
}
