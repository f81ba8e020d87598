//! Reads settings from all sources and merges them into one table, which remembers the source of
//! each value.

use std::collections::BTreeMap;
use std::fmt;
use std::io::ErrorKind;
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

pub(super) type Environment = BTreeMap<String, String>;

/// Where a value was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// Nobody set it.
    Default,
    File(PathBuf),
    /// The variable's name.
    Environment(String),
    Flag(&'static str),
}

/// All values that were set, with their sources. A name is a list, because names of models have
/// dots.
#[derive(Debug, Default)]
pub(super) struct Merged {
    pub table: Table,
    pub sources: BTreeMap<Vec<String>, Source>,
}

/// Names from before there was a prefix.
const PLAIN_NAMES: [(&str, &str); 13] = [
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
    ("CODELAB_CA_FILE", "http.ca_file"),
];

/// Settings without a table.
const TOP_LEVEL: [&str; 3] = ["locale", "multi_agent_mode", "multiple_tool_calls"];
/// Variables `CODELAB_X` of this program that stand in no table of the settings. Other names
/// without a table belong to somebody else (a shell script, a container's service links) and are
/// ignored, unless they look like a misspelt name of this program.
const NO_SETTINGS: [&str; 8] = [
    "addr",
    "ca_file",
    "data_dir",
    "failpoint",
    "master_key",
    "seed",
    "token",
    "url",
];

const MODEL_MAP: &str = "model_map";
const PRICES: &str = "prices";
const MODELS: &str = "models";
/// Tables by models' names.
const OF_MODELS: [&str; 3] = [MODEL_MAP, PRICES, MODELS];

/// These stay texts even if they look like numbers.
const TEXTS: [&str; 12] = [
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
    "http.ca_file",
];

/// The flag, the environment, else the user's data folder.
pub(super) fn data_dir(
    flags: &Flags,
    environment: &Environment,
) -> Result<(PathBuf, Source), ConfigError> {
    if let Some(folder) = &flags.data_dir {
        return Ok((folder.clone(), Source::Flag("--data-dir")));
    }
    let folder = |name: &str, beneath: &str| {
        let value = environment.get(name).filter(|value| !value.is_empty())?;
        Some((Path::new(value).join(beneath), name.to_owned()))
    };
    if let Some((folder, name)) = folder("CODELAB_DATA_DIR", "") {
        return Ok((folder, Source::Environment(name)));
    }
    folder("XDG_DATA_HOME", "codelab")
        .map(|(folder, name)| (folder, Source::Environment(name)))
        .or_else(|| {
            folder("HOME", ".local/share/codelab").map(|(folder, _)| (folder, Source::Default))
        })
        .ok_or_else(|| {
            wrong(
                "data_dir",
                "there is no home folder; give --data-dir or CODELAB_DATA_DIR",
            )
        })
}

pub(super) fn merged(
    flags: &Flags,
    environment: &Environment,
    data_dir: &Path,
) -> Result<Merged, ConfigError> {
    let mut merged = Merged::default();
    if let Some((path, table)) = read_file(flags, data_dir)? {
        note_file(&table, &mut Vec::new(), &path, &mut merged.sources);
        merged.table = table;
    }
    for (name, setting) in PLAIN_NAMES {
        if let Some(value) = environment.get(name).filter(|value| !value.is_empty()) {
            merged.set(
                &Setting::dotted(setting),
                value,
                Source::Environment(name.to_owned()),
            )?;
        }
    }
    for (name, value) in environment {
        let Some(own) = name.strip_prefix("CODELAB_") else {
            continue;
        };
        match Setting::from_environment(own) {
            Some(setting) => merged.set(&setting, value, Source::Environment(name.clone()))?,
            None => {
                if let Some(meant) = misspelt(&own.to_lowercase()) {
                    let meant = meant.to_uppercase();
                    return Err(wrong(
                        name,
                        &format!("is not a setting; is CODELAB_{meant} meant?"),
                    ));
                }
            }
        }
    }
    if let Some(addr) = &flags.addr {
        merged.set(&Setting::dotted("addr"), addr, Source::Flag("--addr"))?;
    }
    Ok(merged)
}

/// Every value of the file, tables within tables included.
fn note_file(
    table: &Table,
    above: &mut Vec<String>,
    file: &Path,
    sources: &mut BTreeMap<Vec<String>, Source>,
) {
    for (name, value) in table {
        above.push(name.clone());
        match value {
            Value::Table(table) => note_file(table, above, file, sources),
            _ => _ = sources.insert(above.clone(), Source::File(file.to_owned())),
        }
        above.pop();
    }
}

/// The setting that was probably meant, if the name is close to one.
fn misspelt(name: &str) -> Option<&'static str> {
    let known = || TOP_LEVEL.into_iter().chain(NO_SETTINGS);
    if known().any(|right| right == name) {
        return None;
    }
    // The beginning of a long name, or at most one wrong letter in five. Short names are not
    // guessed.
    let is_start = |right: &str| name.len() > MIN_GUESSED && right.starts_with(name);
    let is_near =
        |right: &str| right.len() > MIN_GUESSED && distance(name, right) <= right.len() / 5;
    known().find(|right| is_start(right) || is_near(right))
}

/// Names up to this length have too many neighbours.
const MIN_GUESSED: usize = 5;

/// How many letters must be put in, left out or changed to get from one name to the other.
fn distance(from: &str, to: &str) -> usize {
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (index, letter) in from.bytes().enumerate() {
        let mut diagonal = row[0];
        row[0] = index + 1;
        for (column, other) in to.bytes().enumerate() {
            let changed = diagonal + usize::from(letter != other);
            diagonal = row[column + 1];
            row[column + 1] = changed.min(diagonal + 1).min(row[column] + 1);
        }
    }
    row[to.len()]
}

/// Where a setting stands: the tables it is in, and its own name. A name may hold dots, as models'
/// names do.
struct Setting(Vec<String>);

impl Setting {
    fn dotted(text: &str) -> Self {
        Self(text.split('.').map(str::to_owned).collect())
    }

    /// `LIMITS__STEPS` is `limits.steps`. Models' names are kept as they are written; what cannot
    /// stand in a name that a shell exports can still be given with `env` or by a container's
    /// settings.
    fn from_environment(name: &str) -> Option<Self> {
        let lower = name.to_lowercase();
        let Some((table, rest)) = name.split_once("__") else {
            return TOP_LEVEL
                .contains(&lower.as_str())
                .then(|| Self(vec![lower]));
        };
        let table = table.to_lowercase();
        if !OF_MODELS.contains(&table.as_str()) {
            return Some(Self(lower.split("__").map(str::to_owned).collect()));
        }
        Some(Self(match rest.rsplit_once("__") {
            Some((model, field)) if table != MODEL_MAP => {
                vec![table, model.to_owned(), field.to_lowercase()]
            }
            _ => vec![table, rest.to_owned()],
        }))
    }

    fn is_text(&self) -> bool {
        self.0.first().is_some_and(|table| table == MODEL_MAP)
            || TEXTS.contains(&self.to_string().as_str())
    }
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.join("."))
    }
}

/// The file that was named, else the one in the data folder; never one from the working folder,
/// which may be hostile.
fn read_file(flags: &Flags, data_dir: &Path) -> Result<Option<(PathBuf, Table)>, ConfigError> {
    let path = flags
        .config
        .clone()
        .unwrap_or_else(|| data_dir.join("codelab.toml"));
    let shown = path.display().to_string();
    let text = match std::fs::read_to_string(&path) {
        Ok(text) => text,
        // Whoever creates the data folder reports why it cannot be used.
        Err(error)
            if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory)
                && flags.config.is_none() =>
        {
            return Ok(None);
        }
        Err(error) => return Err(wrong(&shown, &error.to_string())),
    };
    let table = text.parse().map_err(|error: toml::de::Error| {
        let line = error.span().map_or(1, |span| {
            text.get(..span.start).unwrap_or("").matches('\n').count() + 1
        });
        wrong(&format!("{shown}, line {line}"), error.message())
    })?;
    Ok(Some((path, table)))
}

impl Merged {
    fn set(&mut self, setting: &Setting, text: &str, source: Source) -> Result<(), ConfigError> {
        let refused = || wrong(&setting.to_string(), "is not a setting");
        let (last, tables) = setting
            .0
            .split_last()
            .filter(|(last, _)| !last.is_empty())
            .ok_or_else(refused)?;
        let is_of_models = tables
            .first()
            .is_some_and(|table| OF_MODELS.contains(&table.as_str()));
        let mut table = &mut self.table;
        let mut path = Vec::new();
        for name in tables {
            let name = known(table, name, is_of_models);
            path.push(name.clone());
            let entry = table
                .entry(name)
                .or_insert_with(|| Value::Table(Table::new()));
            table = entry.as_table_mut().ok_or_else(refused)?;
        }
        let name = known(table, last, is_of_models);
        path.push(name.clone());
        table.insert(name, value_of(setting, text));
        self.sources.insert(path, source);
        Ok(())
    }
}

/// No two models differ by case alone. So if a name is already in the table, it is used with its
/// spelling there.
fn known(table: &Table, name: &str, is_of_models: bool) -> String {
    let same = |key: &&String| is_of_models && key.eq_ignore_ascii_case(name);
    table
        .keys()
        .find(same)
        .cloned()
        .unwrap_or_else(|| name.to_owned())
}

/// Numbers, booleans and lists as in the file; anything else is a text.
fn value_of(setting: &Setting, text: &str) -> Value {
    let parsed = || {
        format!("value = {text}")
            .parse::<Table>()
            .ok()?
            .remove("value")
    };
    let value = if setting.is_text() { None } else { parsed() };
    value.unwrap_or_else(|| Value::String(text.to_owned()))
}
