//! Runs one command behind a wall, as `codelab sandbox-exec` does. Only this crate's tests start
//! it.

use std::process::ExitCode;

fn main() -> ExitCode {
    codelab_workspace::sandbox_exec()
}
