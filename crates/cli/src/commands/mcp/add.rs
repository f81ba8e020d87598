//! `codelab mcp add`: one more server in the person's own `mcp.json`.

use std::process::ExitCode;

use anyhow::bail;
use clap::Args;
use codelab_protocol::McpServerName;
use serde_json::{Map, Value, json};

use super::super::{note, say};
use super::{own_config, server_name};

const WRONG_USAGE: u8 = 2;

#[derive(Args)]
#[command(
    after_help = "Examples:\n  codelab mcp add git -- uvx mcp-server-git\n  codelab mcp add \
                        notes --env NOTES_TOKEN -- npx -y notes-mcp\n  codelab mcp add docs --url \
                        https://docs.example.com/mcp"
)]
pub struct AddServer {
    /// The server's name: letters, digits, `_` and `-`
    #[arg(value_name = "NAME", value_parser = server_name)]
    name: McpServerName,
    /// A variable for the server's environment; K alone takes the value from your environment each
    /// time the server starts, so that it is not written into the file
    #[arg(long, value_name = "K=V", conflicts_with = "url")]
    env: Vec<String>,
    /// The address of a server that speaks streamable HTTP
    #[arg(long, value_name = "URL", conflicts_with = "command")]
    url: Option<String>,
    /// A header for each request to the address
    #[arg(long, value_name = "K=V", requires = "url")]
    header: Vec<String>,
    /// The program and its arguments
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<String>,
}

impl AddServer {
    pub fn run(self) -> anyhow::Result<ExitCode> {
        if self.url.is_none() && self.command.is_empty() {
            note("name the server's program behind --, or its address with --url:");
            note(&format!(
                "  codelab mcp add {} -- PROGRAM ARGUMENTS",
                self.name
            ));
            note(&format!("  codelab mcp add {} --url https://…", self.name));
            return Ok(ExitCode::from(WRONG_USAGE));
        }
        let own = own_config()?;
        let entry = self.entry()?;
        own.add(&self.name, entry)?;
        say(&format!(
            "{} is added to {}",
            self.name,
            own.path().display()
        ));
        say(&format!("`codelab mcp test {}` tries it", self.name));
        Ok(ExitCode::SUCCESS)
    }

    fn entry(&self) -> anyhow::Result<Value> {
        if let Some(url) = &self.url {
            let mut entry = json!({"type": "http", "url": url});
            if !self.header.is_empty() {
                entry["headers"] = Value::Object(pairs("--header", &self.header)?);
            }
            return Ok(entry);
        }
        let Some((program, arguments)) = self.command.split_first() else {
            bail!("name the program after --, or an address with --url");
        };
        let mut entry = json!({"command": program, "args": arguments});
        if !self.env.is_empty() {
            entry["env"] = Value::Object(pairs("--env", &self.env)?);
        }
        Ok(entry)
    }
}

/// The error does not repeat the text: it can be a secret.
fn pairs(flag: &str, texts: &[String]) -> anyhow::Result<Map<String, Value>> {
    let is_name = |name: &str| {
        !name.is_empty()
            && name
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || "_-".contains(c))
    };
    let mut pairs = Map::new();
    for (number, text) in texts.iter().enumerate() {
        let (name, value) = match text.split_once('=') {
            Some((name, value)) => (name, value.to_owned()),
            None => (text.as_str(), format!("${{{text}}}")),
        };
        if !is_name(name) {
            bail!("{flag} number {} is not of the form K=V", number + 1);
        }
        pairs.insert(name.to_owned(), value.into());
    }
    Ok(pairs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_variable_without_a_value_is_taken_from_the_environment_later() {
        let texts = ["A=b=c".to_owned(), "TOKEN".to_owned()];
        let found = pairs("--env", &texts).unwrap();
        assert_eq!(
            Value::Object(found),
            json!({"A": "b=c", "TOKEN": "${TOKEN}"})
        );
        let error = pairs("--env", &["se cret".to_owned()])
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("number 1") && !error.contains("cret"),
            "{error}"
        );
    }
}
