//! An MCP server that behaves as it is told, well or badly, and a program that uses one. Only this
//! crate's tests start it.

mod driver;
mod server;

use std::process::{Command, ExitCode};
use std::time::Duration;

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let mode = arguments.next().unwrap_or_default();
    let done = match mode.as_str() {
        "drive" => driver::drive(&arguments.collect::<Vec<_>>()),
        "linger" => linger(arguments.next().as_deref()),
        mode => server::serve(mode),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

/// A process that does not want to be found: it leaves its session, its parent ends, and it does
/// not listen to polite signals.
fn linger(stage: Option<&str>) -> std::io::Result<()> {
    let _ = rustix::process::setsid();
    if stage != Some("again") {
        let itself = std::env::current_exe()?;
        Command::new(itself).args(["linger", "again"]).spawn()?;
        return Ok(());
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        use tokio::signal::unix::{SignalKind, signal};
        let mut asked = signal(SignalKind::terminate())?;
        loop {
            tokio::select! {
                _ = asked.recv() => {}
                () = tokio::time::sleep(Duration::from_secs(600)) => return Ok(()),
            }
        }
    })
}
