//! What is configured, and from where.

use codelab_server::{Explained, Source};

use super::report::DoctorFinding;

/// Names that are listed; `codelab config show` has all.
const MAX_NAMES: usize = 12;

pub fn check(explained: &Explained) -> DoctorFinding {
    match &explained.settings {
        Err(error) => DoctorFinding::problem(
            "settings",
            format!("A setting cannot be used: {error}."),
            "Correct it: a server does not start with it.",
        ),
        Ok(_) => DoctorFinding::ok("settings", described(explained)),
    }
}

/// The file did not come in time.
pub fn unreadable(seconds: u64) -> DoctorFinding {
    let found = format!("The settings could not be read within {seconds} s.");
    DoctorFinding::problem(
        "settings",
        found,
        "Check the disk or network share that holds the data folder.",
    )
}

fn described(explained: &Explained) -> String {
    let mut names = Vec::new();
    let (mut in_file, mut file) = (0, None);
    for setting in &explained.shown {
        match &setting.source {
            Source::Environment(name) => names.push(name.as_str()),
            Source::File(path) => {
                in_file += 1;
                file = Some(path);
            }
            Source::Default | Source::Flag(_) => {}
        }
    }
    let some = |count: usize| format!("{count} setting{}", if count == 1 { "" } else { "s" });
    let mut parts = Vec::new();
    if let Some(file) = file {
        parts.push(format!("{} from {}", some(in_file), file.display()));
    }
    if !names.is_empty() {
        let more = if names.len() > MAX_NAMES { ", …" } else { "" };
        let count = some(names.len());
        names.truncate(MAX_NAMES);
        parts.push(format!(
            "{count} from the environment ({}{more})",
            names.join(", ")
        ));
    }
    match parts.is_empty() {
        true => "Nothing is set, so everything is as by default.".to_owned(),
        false => format!("{}. `codelab config show` lists all.", parts.join("; ")),
    }
}
