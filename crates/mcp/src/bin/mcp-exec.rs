//! Owns one server, as `codelab mcp-exec` does. Only this crate's tests start it.

use std::process::ExitCode;

fn main() -> ExitCode {
    codelab_mcp::supervise(std::env::args_os().skip(1))
}
