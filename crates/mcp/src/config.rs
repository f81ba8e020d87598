//! The ecosystem's configuration: `{"mcpServers": {NAME: {…}}}`. Reads it, and expands `${VAR}`.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::PathBuf;

use codelab_protocol::McpServerName;
use codelab_transport::{InvalidAddress, server_address};
use http::{HeaderName, HeaderValue};
use serde_json::{Map, Value};

mod expand;

pub use expand::UnsetVariable;

/// A configuration file larger than this is not read.
const MAX_CONFIG_BYTES: usize = 1024 * 1024;
const MAX_SERVERS: usize = 64;
const MAX_URL_BYTES: usize = 2048;
const MAX_HEADERS: usize = 32;
const SERVERS: &str = "mcpServers";
/// Headers that the protocol itself sets.
const RESERVED_HEADERS: [&str; 9] = [
    "accept",
    "connection",
    "content-length",
    "content-type",
    "host",
    "last-event-id",
    "mcp-protocol-version",
    "mcp-session-id",
    "transfer-encoding",
];

/// The servers of one configuration file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct McpConfig {
    /// As they stand in the file: `${VAR}` is expanded by [`ServerConfig::expand`].
    pub servers: BTreeMap<McpServerName, ServerConfig>,
    /// Servers with `disabled: true`. They are not among `servers`.
    pub disabled: BTreeSet<McpServerName>,
    /// What is in the file and has no effect.
    pub warnings: Vec<String>,
}

/// How to come to a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ServerConfig {
    Stdio(StdioConfig),
    Http(HttpConfig),
}

/// A program that speaks on its standard input and output.
#[derive(Clone, PartialEq, Eq)]
pub struct StdioConfig {
    pub command: String,
    pub args: Vec<String>,
    pub env: BTreeMap<String, String>,
    /// Relative to the workspace. Without it the program starts in the workspace.
    pub cwd: Option<PathBuf>,
}

/// A server that speaks streamable HTTP.
#[derive(Clone, PartialEq, Eq)]
pub struct HttpConfig {
    pub url: String,
    pub headers: BTreeMap<String, String>,
}

/// Why a configuration cannot be used. Never repeats a value of it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum McpConfigError {
    #[error("the configuration is larger than {MAX_CONFIG_BYTES} bytes")]
    TooLarge,
    #[error("it is not JSON: {0}")]
    NotJson(String),
    #[error(
        "it must be a JSON object like {{\"{SERVERS}\": {{\"NAME\": {{\"command\": \"…\"}}}}}}"
    )]
    NotServers,
    #[error("it has more than {MAX_SERVERS} servers")]
    TooMany,
    #[error("the server {name}: {reason}")]
    Entry { name: String, reason: String },
}

impl McpConfig {
    pub fn parse(text: &str) -> Result<Self, McpConfigError> {
        if text.len() > MAX_CONFIG_BYTES {
            return Err(McpConfigError::TooLarge);
        }
        let root: Value = serde_json::from_str(text).map_err(|error| not_json(&error))?;
        let Value::Object(mut root) = root else {
            return Err(McpConfigError::NotServers);
        };
        let mut config = Self::default();
        let entries = match root.remove(SERVERS) {
            Some(Value::Object(entries)) => entries,
            None if root.is_empty() => Map::new(),
            Some(_) | None => return Err(McpConfigError::NotServers),
        };
        if entries.len() > MAX_SERVERS {
            return Err(McpConfigError::TooMany);
        }
        for key in root.keys() {
            config.warn(&format!("{} has no effect", shown(key)));
        }
        for (name, entry) in entries {
            config.read_entry(&name, entry)?;
        }
        Ok(config)
    }

    fn read_entry(&mut self, name: &str, entry: Value) -> Result<(), McpConfigError> {
        let wrong = |reason: String| McpConfigError::Entry {
            name: shown(name),
            reason,
        };
        let checked = McpServerName::parse(name).map_err(|error| wrong(error.to_string()))?;
        let Value::Object(mut fields) = entry else {
            return Err(wrong("it must be a JSON object".to_owned()));
        };
        let is_disabled = match fields.remove("disabled") {
            None => false,
            Some(Value::Bool(is_disabled)) => is_disabled,
            Some(_) => return Err(wrong("disabled must be true or false".to_owned())),
        };
        let server = ServerConfig::read(&mut fields).map_err(wrong)?;
        for key in fields.keys() {
            self.warn(&format!(
                "{} of the server {name} has no effect",
                shown(key)
            ));
        }
        if is_disabled {
            self.disabled.insert(checked);
        } else {
            self.servers.insert(checked, server);
        }
        Ok(())
    }

    fn warn(&mut self, text: &str) {
        self.warnings.push(text.to_owned());
    }
}

impl ServerConfig {
    /// Takes what it knows out of `fields`.
    fn read(fields: &mut Map<String, Value>) -> Result<Self, String> {
        let kind = take_text(fields, "type")?;
        let has_command = fields.contains_key("command");
        let has_url = fields.contains_key("url");
        match (kind.as_deref(), has_command, has_url) {
            (None, true, true) => Err("it has both command and url; keep one".to_owned()),
            (None | Some("stdio"), true, _) => StdioConfig::read(fields).map(Self::Stdio),
            (None | Some("http" | "streamable-http" | "streamableHttp"), _, true) => {
                HttpConfig::read(fields).map(Self::Http)
            }
            (Some("stdio"), false, _) => Err("it needs a command".to_owned()),
            (Some("http" | "streamable-http" | "streamableHttp"), _, false) => {
                Err("it needs a url".to_owned())
            }
            (Some("sse"), _, _) => Err("the transport sse is not supported, because the protocol \
                 replaced it; ask the server for its streamable HTTP address and use \
                 \"type\": \"http\""
                .to_owned()),
            (Some(other), _, _) => Err(format!(
                "the type {} is unknown; it can be stdio or http",
                shown(other)
            )),
            (None, false, false) => Err("it needs a command or a url".to_owned()),
        }
    }
}

impl StdioConfig {
    fn read(fields: &mut Map<String, Value>) -> Result<Self, String> {
        let command = take_text(fields, "command")?.unwrap_or_default();
        if command.trim().is_empty() || command.contains('\0') {
            return Err("its command is empty".to_owned());
        }
        let args = match fields.remove("args") {
            None | Some(Value::Null) => Vec::new(),
            Some(Value::Array(items)) => {
                let texts = items.into_iter().map(|item| match item {
                    Value::String(text) if !text.contains('\0') => Ok(text),
                    _ => Err("args must be a list of texts".to_owned()),
                });
                texts.collect::<Result<_, _>>()?
            }
            Some(_) => return Err("args must be a list of texts".to_owned()),
        };
        let env = take_texts(fields, "env")?;
        let is_usable = |name: &String| !name.is_empty() && !name.contains(['=', '\0']);
        if !env.keys().all(is_usable) || env.values().any(|value| value.contains('\0')) {
            return Err("env has a name or value that no process can have".to_owned());
        }
        Ok(Self {
            command,
            args,
            env,
            cwd: take_text(fields, "cwd")?.map(PathBuf::from),
        })
    }
}

impl HttpConfig {
    fn read(fields: &mut Map<String, Value>) -> Result<Self, String> {
        let config = Self {
            url: take_text(fields, "url")?.unwrap_or_default(),
            headers: take_texts(fields, "headers")?,
        };
        // With variables in it, it is checked when they are known.
        if !config.url.contains("${") {
            check_url(&config.url)?;
        }
        config.check_headers()?;
        Ok(config)
    }

    /// An address and headers from elsewhere, such as a request body.
    pub fn checked(url: &str, headers: BTreeMap<String, String>) -> Result<Self, String> {
        check_url(url)?;
        let config = Self {
            url: url.trim().to_owned(),
            headers,
        };
        config.check_headers()?;
        Ok(config)
    }

    fn check_headers(&self) -> Result<(), String> {
        if self.headers.len() > MAX_HEADERS {
            return Err(format!("it has more than {MAX_HEADERS} headers"));
        }
        for (name, value) in &self.headers {
            let known = HeaderName::from_bytes(name.as_bytes())
                .map_err(|_| format!("{} is not the name of a header", shown(name)))?;
            if RESERVED_HEADERS.contains(&known.as_str()) {
                return Err(format!("the header {known} is set by the protocol itself"));
            }
            HeaderValue::from_str(value)
                .map_err(|_| format!("the value of the header {known} cannot be sent"))?;
        }
        Ok(())
    }
}

/// An MCP address may have a query; otherwise it is like that of any server.
fn check_url(url: &str) -> Result<(), String> {
    if url.len() > MAX_URL_BYTES {
        return Err(format!("its url is longer than {MAX_URL_BYTES} bytes"));
    }
    let without_query = url.split_once('?').map_or(url, |(address, _)| address);
    match server_address(without_query) {
        Err(problem) => Err(format!("its url {problem}")),
        Ok(_) if url.contains('#') => Err(format!("its url {}", InvalidAddress::Query)),
        Ok(_) if url.trim().parse::<http::Uri>().is_err() => {
            Err(format!("its url {}", InvalidAddress::Malformed))
        }
        Ok(_) => Ok(()),
    }
}

fn take_text(fields: &mut Map<String, Value>, key: &str) -> Result<Option<String>, String> {
    match fields.remove(key) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(_) => Err(format!("{key} must be a text")),
    }
}

fn take_texts(
    fields: &mut Map<String, Value>,
    key: &str,
) -> Result<BTreeMap<String, String>, String> {
    let wrong = || format!("{key} must be an object whose values are texts");
    match fields.remove(key) {
        None | Some(Value::Null) => Ok(BTreeMap::new()),
        Some(Value::Object(entries)) => entries
            .into_iter()
            .map(|(name, value)| match value {
                Value::String(text) => Ok((name, text)),
                _ => Err(wrong()),
            })
            .collect(),
        Some(_) => Err(wrong()),
    }
}

/// The parser's own words can repeat a piece of the text; the place is enough.
fn not_json(error: &serde_json::Error) -> McpConfigError {
    McpConfigError::NotJson(format!("line {}, column {}", error.line(), error.column()))
}

/// A key or name from the file, for people.
fn shown(text: &str) -> String {
    const MAX_SHOWN_CHARS: usize = 80;
    let visible = text.chars().map(|c| if c.is_control() { '?' } else { c });
    format!("{:?}", visible.take(MAX_SHOWN_CHARS).collect::<String>())
}

/// Shows no argument and no value of a variable.
impl fmt::Debug for StdioConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StdioConfig")
            .field("command", &self.command)
            .field("args", &self.args.len())
            .field("env", &self.env.keys())
            .field("cwd", &self.cwd)
            .finish()
    }
}

/// Shows no query of the address and no value of a header.
impl fmt::Debug for HttpConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let url = self.url.split('?').next().unwrap_or_default();
        f.debug_struct("HttpConfig")
            .field("url", &url)
            .field("headers", &self.headers.keys())
            .finish()
    }
}

#[cfg(test)]
mod tests;
