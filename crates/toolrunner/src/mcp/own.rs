//! The person's own servers: `mcp.json` in `$XDG_CONFIG_HOME/codelab`. It can hold secrets, so it
//! is written with mode 0600. One that others can change is not believed.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use codelab_mcp::McpConfig;
use codelab_protocol::McpServerName;
use serde_json::{Map, Value, json};

use crate::trust::{is_private, replace_private};

const FILE: &str = "codelab/mcp.json";
const SERVERS: &str = "mcpServers";
const MAX_BYTES: u64 = 1 << 20;

/// The file, whether it exists or not.
#[derive(Debug, Clone)]
pub struct OwnConfig {
    path: PathBuf,
}

/// Why a server could not be added.
#[derive(Debug, thiserror::Error)]
pub enum AddError {
    #[error("{file} has a server {name} already; `codelab mcp remove {name}` removes it")]
    Exists { file: String, name: McpServerName },
    #[error("{0}")]
    Unusable(String),
}

impl OwnConfig {
    /// `None` without a home folder.
    pub fn find(variable: impl Fn(&str) -> Option<String>) -> Option<Self> {
        let set = |name: &str| {
            let value = variable(name).filter(|value| Path::new(value).is_absolute());
            value.map(PathBuf::from)
        };
        let config =
            set("XDG_CONFIG_HOME").or_else(|| set("HOME").map(|home| home.join(".config")));
        config.map(|config| Self {
            path: config.join(FILE),
        })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The servers of the file; none if there is no file. The error is a sentence for a person and
    /// has no value of the file in it.
    pub fn read(&self) -> Result<McpConfig, String> {
        match self.text()? {
            Some(text) => McpConfig::parse(&text).map_err(|error| self.unusable(error)),
            None => Ok(McpConfig::default()),
        }
    }

    /// Adds a server. The rest of the file stays as it is.
    pub fn add(&self, name: &McpServerName, entry: Value) -> Result<(), AddError> {
        let mut root = self.object().map_err(AddError::Unusable)?;
        let servers = root
            .entry(SERVERS)
            .or_insert_with(|| Value::Object(Map::new()));
        let Value::Object(servers) = servers else {
            return Err(AddError::Unusable(
                self.unusable(format!("{SERVERS} is no JSON object")),
            ));
        };
        if servers.contains_key(name.as_str()) {
            return Err(AddError::Exists {
                file: self.path.display().to_string(),
                name: name.clone(),
            });
        }
        servers.insert(name.to_string(), entry);
        let text = serde_json::to_string_pretty(&root).unwrap_or_default();
        McpConfig::parse(&text).map_err(|error| AddError::Unusable(error.to_string()))?;
        self.write(&text).map_err(AddError::Unusable)
    }

    /// Whether there was such a server.
    pub fn remove(&self, name: &str) -> Result<bool, String> {
        let mut root = self.object()?;
        let servers = root.get_mut(SERVERS).and_then(Value::as_object_mut);
        if servers.is_none_or(|servers| servers.shift_remove(name).is_none()) {
            return Ok(false);
        }
        self.write(&serde_json::to_string_pretty(&root).unwrap_or_default())?;
        Ok(true)
    }

    fn object(&self) -> Result<Map<String, Value>, String> {
        let text = self.text()?.unwrap_or_else(|| json!({}).to_string());
        match serde_json::from_str(&text) {
            Ok(Value::Object(root)) => Ok(root),
            // The parser's own words could repeat a secret.
            Ok(_) => Err(self.unusable("it is no JSON object")),
            Err(error) => Err(self.unusable(format!(
                "it is not JSON: line {}, column {}",
                error.line(),
                error.column()
            ))),
        }
    }

    fn text(&self) -> Result<Option<String>, String> {
        let file = match File::open(&self.path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(self.unusable(error)),
        };
        if !is_private(&file).map_err(|error| self.unusable(error))? {
            return Err(self.unusable(
                "others can change it, and it says which programs run; make it yours alone with \
                 `chmod 600`",
            ));
        }
        let mut text = String::new();
        let read = file.take(MAX_BYTES + 1).read_to_string(&mut text);
        read.map_err(|error| self.unusable(error))?;
        if text.len() as u64 > MAX_BYTES {
            return Err(self.unusable(format!("it is larger than {MAX_BYTES} bytes")));
        }
        Ok(Some(text))
    }

    fn write(&self, text: &str) -> Result<(), String> {
        if let Some(folder) = self.path.parent() {
            let made = fs::DirBuilder::new()
                .recursive(true)
                .mode(0o700)
                .create(folder);
            made.map_err(|error| self.unusable(error))?;
        }
        replace_private(&self.path, format!("{text}\n").as_bytes())
            .map_err(|error| self.unusable(error))
    }

    fn unusable(&self, reason: impl std::fmt::Display) -> String {
        format!("{}: {reason}", self.path.display())
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn own(folder: &Path) -> OwnConfig {
        let home = folder.to_str().unwrap().to_owned();
        OwnConfig::find(|name| (name == "XDG_CONFIG_HOME").then(|| home.clone())).unwrap()
    }

    fn name(text: &str) -> McpServerName {
        McpServerName::parse(text).unwrap()
    }

    #[test]
    fn a_server_is_added_and_removed_and_the_rest_stays() {
        let folder = tempfile::tempdir().unwrap();
        let own = own(folder.path());
        assert!(own.read().unwrap().servers.is_empty());
        own.add(&name("a"), json!({"command": "x", "env": {"K": "canary"}}))
            .unwrap();
        let mode = fs::metadata(own.path()).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let text = fs::read_to_string(own.path()).unwrap();
        fs::write(own.path(), text.replacen('{', "{\"theirs\": [1],", 1)).unwrap();
        own.add(&name("b"), json!({"url": "https://a.test/mcp"}))
            .unwrap();
        assert_eq!(own.read().unwrap().servers.len(), 2);
        let twice = own.add(&name("a"), json!({"command": "y"})).unwrap_err();
        assert!(matches!(twice, AddError::Exists { .. }));
        assert!(!twice.to_string().contains("canary"));
        assert!(own.remove("a").unwrap() && !own.remove("a").unwrap());
        let text = fs::read_to_string(own.path()).unwrap();
        assert!(text.contains("theirs") && text.contains("a.test") && !text.contains("canary"));
    }

    #[test]
    fn what_cannot_be_used_is_not_written_and_not_repeated() {
        let folder = tempfile::tempdir().unwrap();
        let own = own(folder.path());
        assert!(
            own.add(&name("a"), json!({"type": "sse", "url": "http://b"}))
                .is_err()
        );
        assert!(!own.path().exists());
        own.add(&name("a"), json!({"command": "x"})).unwrap();
        fs::set_permissions(own.path(), fs::Permissions::from_mode(0o662)).unwrap();
        assert!(own.read().unwrap_err().contains("chmod 600"));
        fs::set_permissions(own.path(), fs::Permissions::from_mode(0o600)).unwrap();
        fs::write(own.path(), r#"{"mcpServers": {"a": {"env": {"K": "canary"#).unwrap();
        let errors = [
            own.read().unwrap_err(),
            own.remove("a").unwrap_err(),
            own.add(&name("b"), json!({"command": "x"}))
                .unwrap_err()
                .to_string(),
        ];
        for error in errors {
            assert!(
                error.contains("line 1") && !error.contains("canary"),
                "{error}"
            );
        }
    }
}
