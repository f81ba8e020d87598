//! `codelab config show`: every setting with its value and where that comes from.

use std::process::ExitCode;

use clap::{Args, Subcommand};
use codelab_policy::visible;
use codelab_server::{ShownSetting, Source};
use serde_json::{Value, json};

use super::{ServerPaths, print_error, say};

/// Longer values push what follows them to the right.
const MAX_VALUE_WIDTH: usize = 40;

#[derive(Subcommand)]
pub enum ConfigCommand {
    /// Print every setting, its value and where it comes from; secrets are hidden
    Show(ShowConfig),
}

#[derive(Args)]
pub struct ShowConfig {
    /// Only what somebody set: no defaults
    #[arg(long)]
    set: bool,
    /// Print one JSON object instead of a table
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    paths: ServerPaths,
}

impl ConfigCommand {
    pub fn run(self) -> anyhow::Result<ExitCode> {
        let Self::Show(show) = self;
        let explained = show.paths.explain();
        let is_wanted = |setting: &&ShownSetting| !show.set || setting.source != Source::Default;
        let settings: Vec<&ShownSetting> = explained.shown.iter().filter(is_wanted).collect();
        match show.json {
            true => say(&as_json(&settings).to_string()),
            false => table(&settings).iter().for_each(|line| say(line)),
        }
        // Shown above as well, where it could be read.
        if let Err(error) = explained.settings {
            print_error(&error.into());
            return Ok(ExitCode::FAILURE);
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn as_json(settings: &[&ShownSetting]) -> Value {
    let all = settings.iter().map(|setting| {
        let (kind, name) = match &setting.source {
            Source::Default => ("default", None),
            Source::File(path) => ("file", Some(path.display().to_string())),
            Source::Environment(name) => ("environment", Some(name.clone())),
            Source::Flag(name) => ("flag", Some((*name).to_owned())),
        };
        json!({ "name": setting.name, "value": setting.value, "source": kind, "from": name })
    });
    json!({ "settings": all.collect::<Vec<_>>() })
}

fn table(settings: &[&ShownSetting]) -> Vec<String> {
    let rows: Vec<(String, String, String)> = settings
        .iter()
        .map(|setting| {
            (
                visible(&setting.name),
                value(setting),
                visible(&setting.source.to_string()),
            )
        })
        .collect();
    let width = |of: fn(&(String, String, String)) -> &String| {
        rows.iter().map(|row| of(row).chars().count()).max()
    };
    let name_width = width(|row| &row.0).unwrap_or(0);
    let value_width = width(|row| &row.1).unwrap_or(0).min(MAX_VALUE_WIDTH);
    let line = |(name, value, from): &(String, String, String)| {
        format!("{name:<name_width$}  {value:<value_width$}  {from}")
    };
    rows.iter().map(line).collect()
}

fn value(setting: &ShownSetting) -> String {
    match &setting.value {
        Value::Null
            if setting
                .name
                .chars()
                .all(|c| c.is_ascii_uppercase() || c == '_') =>
        {
            "(generated)".to_owned()
        }
        Value::Null => "-".to_owned(),
        Value::String(text) => visible(text).replace('\n', " "),
        other => visible(&other.to_string()),
    }
}
