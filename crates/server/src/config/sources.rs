//! Where settings come from, merged into one table.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use toml::{Table, Value};

use super::{ConfigError, wrong};

/// What the command line says.
#[derive(Debug, Clone, Default)]
pub struct Flags {
    pub config: Option<PathBuf>,
    pub addr: Option<String>,
    pub data_dir: Option<PathBuf>,
}

type Environment = BTreeMap<String, String>;

/// Names from before there was a prefix.
const PLAIN_NAMES: [(&str, &str); 12] = [
    ("DATABASE_URL", "database.url"),
    ("REDIS_URL", "redis.url"),
    ("QDRANT_URL", "qdrant.url"),
    ("QDRANT_API_KEY", "qdrant.api_key"),
    ("EMBEDDING_MODEL", "embedding.model"),
    ("LLM_PROXY_URL", "llm.proxy_url"),
    ("LLM_MODEL", "llm.model"),
    ("LLM_MODEL_OVERRIDE", "llm.model_override"),
    ("OPENAI_API_KEY", "llm.api_key"),
    ("LLM_API_KEY", "llm.api_key"),
    ("MULTI_AGENT_MODE", "multi_agent_mode"),
    ("CODELAB_ADDR", "addr"),
];

/// Settings without a table; any other `CODELAB_X` without `__` is not a setting.
const TOP_LEVEL: [&str; 3] = ["locale", "multi_agent_mode", "multiple_tool_calls"];

/// These stay texts even if they look like numbers.
const TEXTS: [&str; 11] = [
    "database.url",
    "redis.url",
    "qdrant.url",
    "qdrant.api_key",
    "embedding.model",
    "llm.proxy_url",
    "llm.model",
    "llm.model_override",
    "llm.api_key",
    "addr",
    "auth.jwt_public_key_file",
];

/// The flag, the environment, else the user's data folder.
pub(super) fn data_dir(flags: &Flags, environment: &Environment) -> Result<PathBuf, ConfigError> {
    if let Some(folder) = &flags.data_dir {
        return Ok(folder.clone());
    }
    let folder = |name: &str| environment.get(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    folder("CODELAB_DATA_DIR")
        .or_else(|| folder("XDG_DATA_HOME").map(|home| home.join("codelab")))
        .or_else(|| folder("HOME").map(|home| home.join(".local/share/codelab")))
        .ok_or_else(|| wrong("data_dir", "there is no home folder; give --data-dir or CODELAB_DATA_DIR"))
}

pub(super) fn merged(flags: &Flags, environment: &Environment, data_dir: &Path) -> Result<Table, ConfigError> {
    let mut table = read_file(flags, data_dir)?;
    for (name, setting) in PLAIN_NAMES {
        if let Some(value) = environment.get(name).filter(|value| !value.is_empty()) {
            set(&mut table, setting, value)?;
        }
    }
    for (name, value) in environment {
        let Some(rest) = name.strip_prefix("CODELAB_") else { continue };
        let setting = rest.to_lowercase().replace("__", ".");
        if rest.contains("__") || TOP_LEVEL.contains(&setting.as_str()) {
            set(&mut table, &setting, value)?;
        }
    }
    if let Some(addr) = &flags.addr {
        set(&mut table, "addr", addr)?;
    }
    Ok(table)
}

/// The file that was named, else the one in the data folder; never one from the working folder, which may be hostile.
fn read_file(flags: &Flags, data_dir: &Path) -> Result<Table, ConfigError> {
    let path = flags.config.clone().unwrap_or_else(|| data_dir.join("codelab.toml"));
    let shown = path.display().to_string();
    let text = match std::fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound && flags.config.is_none() => return Ok(Table::new()),
        Err(error) => return Err(wrong(&shown, &error.to_string())),
    };
    text.parse().map_err(|error: toml::de::Error| {
        let line = error.span().map_or(1, |span| text.get(..span.start).unwrap_or("").matches('\n').count() + 1);
        wrong(&format!("{shown}, line {line}"), error.message())
    })
}

fn set(table: &mut Table, setting: &str, text: &str) -> Result<(), ConfigError> {
    let mut parts: Vec<&str> = setting.split('.').collect();
    let Some(last) = parts.pop().filter(|last| !last.is_empty()) else {
        return Err(wrong(setting, "is not a setting"));
    };
    let mut place = table;
    for part in parts {
        let entry = place.entry(part.to_owned()).or_insert_with(|| Value::Table(Table::new()));
        place = entry.as_table_mut().ok_or_else(|| wrong(setting, "is not a setting"))?;
    }
    place.insert(last.to_owned(), value_of(setting, text));
    Ok(())
}

/// Numbers, booleans and lists as in the file; anything else is a text.
fn value_of(setting: &str, text: &str) -> Value {
    let parsed = || format!("value = {text}").parse::<Table>().ok()?.remove("value");
    if TEXTS.contains(&setting) {
        return Value::String(text.to_owned());
    }
    parsed().unwrap_or_else(|| Value::String(text.to_owned()))
}
