//! What asks and what passes, as a person would notice it.

mod commands;
mod corpus;
mod git;
mod paths;
mod reach;
mod runners;
#[cfg(unix)]
mod shells;
mod text;

use codelab_policy::{Ask, Policy, Verdict};
use codelab_protocol::{ExecuteCommand, ToolArguments, WriteFile};

fn execute(command: &str, cwd: Option<&str>) -> ToolArguments {
    ToolArguments::ExecuteCommand(ExecuteCommand {
        command: command.to_owned(),
        cwd: cwd.map(str::to_owned),
        timeout_seconds: None,
    })
}

fn write(path: &str) -> ToolArguments {
    ToolArguments::WriteFile(WriteFile {
        path: path.to_owned(),
        content: Some("x".to_owned()),
        edits: None,
        create_dirs: false,
    })
}

fn run(command: &str) -> Verdict {
    Policy::default().review(&execute(command, None))
}

fn asked(verdict: Verdict, what: &str) -> Ask {
    match verdict {
        Verdict::Ask(ask) => ask,
        Verdict::Allow => panic!("passed unasked: {what:?}"),
    }
}

/// The next number of a seeded sequence (SplitMix64).
fn next(state: &mut u64) -> usize {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut value = *state;
    value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    ((value ^ (value >> 31)) >> 33) as usize
}
