//! The wall around agents' commands, put up for real around a trial command.

use codelab_workspace::{Detection, Launcher, Sandbox};

use super::report::DoctorFinding;
use crate::commands::tool_runner::SANDBOX_EXEC;

const CHECK: &str = "sandbox";
/// What is shown of why a wall was refused.
const MAX_REASON_CHARS: usize = 160;

pub async fn check() -> DoctorFinding {
    let launcher = match Launcher::current([SANDBOX_EXEC]) {
        Ok(launcher) => launcher,
        Err(error) => {
            let found = format!("The program cannot find itself, so no command can run: {error}.");
            return DoctorFinding::problem(CHECK, found, "Start it by its path.");
        }
    };
    judge(&Sandbox::detect(&launcher).await)
}

fn judge(detection: &Detection) -> DoctorFinding {
    let tried = "a trial command ran behind it and could not write outside";
    let bwrap_is_missing = detection
        .refused
        .iter()
        .any(|reason| reason.contains("not installed"));
    match &detection.sandbox {
        Sandbox::Bwrap {
            with_landlock: true,
            ..
        } => DoctorFinding::ok(CHECK, format!("bubblewrap with Landlock inside: {tried}.")),
        Sandbox::Bwrap {
            with_landlock: false,
            ..
        } => DoctorFinding::ok(
            CHECK,
            format!("bubblewrap: {tried}. This kernel has no Landlock to go with it."),
        ),
        Sandbox::Landlock => DoctorFinding::warning(
            CHECK,
            format!(
                "Landlock alone: {tried}, but other processes and the network are seen. {}",
                why(detection)
            ),
            advice(bwrap_is_missing),
        ),
        Sandbox::None => DoctorFinding::warning(
            CHECK,
            format!(
                "There is no sandbox, so every command of an agent asks first. {}",
                why(detection)
            ),
            advice(bwrap_is_missing),
        ),
    }
}

/// The first reason and the last one: the strongest wall's and the weakest's.
fn why(detection: &Detection) -> String {
    let mut reasons: Vec<&String> = detection.refused.iter().collect();
    if reasons.len() > 2 {
        reasons.drain(1..reasons.len() - 1);
    }
    let cut = |reason: &String| {
        let line = reason.replace('\n', " ");
        let shown: String = line.chars().take(MAX_REASON_CHARS).collect();
        if shown.len() < line.len() {
            format!("{shown}…")
        } else {
            shown
        }
    };
    format!(
        "Tried: {}.",
        reasons.into_iter().map(cut).collect::<Vec<_>>().join("; ")
    )
}

fn advice(bwrap_is_missing: bool) -> &'static str {
    match bwrap_is_missing {
        true => "Install bubblewrap, for example with `apt install bubblewrap`.",
        false => {
            "Let this user make user namespaces: `sysctl kernel.unprivileged_userns_clone=1`, on Ubuntu also \
             `sysctl kernel.apparmor_restrict_unprivileged_userns=0`; in a container, a seccomp profile that allows them."
        }
    }
}
