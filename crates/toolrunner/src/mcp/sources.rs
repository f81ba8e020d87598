//! Which servers are configured: the person's own `mcp.json`, and the workspace's `.mcp.json` where
//! a person trusted that very content. A person's own entry wins over one of the workspace.

use std::path::Path;

use codelab_mcp::{McpConfig, ServerConfig};
use codelab_policy::visible;
use codelab_protocol::{BroughtKind, McpServerName};
use codelab_workspace::read_mcp_file;

use super::OwnConfig;
use crate::trust::{BroughtFile, TrustState, TrustStore};

const WORKSPACE_FILE: &str = ".mcp.json";

/// Who says that a server is to be started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum McpSource {
    /// The person's own configuration.
    Own,
    /// The workspace, with the person's trust.
    Workspace,
}

#[derive(Debug, Clone)]
pub struct ConfiguredServer {
    pub name: McpServerName,
    pub source: McpSource,
    /// With the values of variables, or why it cannot be started.
    pub config: Result<ServerConfig, String>,
}

/// What a person should know about the configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum McpNotice {
    /// The workspace brings a file that nobody trusted.
    Untrusted { path: &'static str },
    /// The workspace's file was trusted with another content.
    Changed { path: &'static str },
    /// Nothing of a file counts.
    Unusable { reason: String },
    /// Both files have this server. The person's own counts.
    Overridden { name: McpServerName },
    /// Something in a file has no effect.
    Ignored { file: String, what: String },
}

#[derive(Debug, Default)]
pub struct ConfiguredServers {
    pub servers: Vec<ConfiguredServer>,
    pub notices: Vec<McpNotice>,
}

impl ConfiguredServers {
    /// Reads both files once. What is wrong with one of them is a notice, not an error: the other
    /// tools still work. `workspace` is the folder's real path.
    pub fn read(
        own: Option<&OwnConfig>,
        workspace: &Path,
        trust: &TrustStore,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Self {
        let mut found = Self::default();
        let own = own.map(|own| (own.path().display().to_string(), own.read()));
        let own = own.and_then(|(file, config)| found.usable(&file, config));
        let theirs = found.trusted(workspace, trust);
        found.merge(
            &own.unwrap_or_default(),
            &theirs.unwrap_or_default(),
            variable,
        );
        found
    }

    /// The servers of a workspace's file with this content, which a person trusted.
    pub(crate) fn of_workspace(
        own: Option<&OwnConfig>,
        content: &str,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Self {
        let mut found = Self::default();
        let own = own.and_then(|own| own.read().ok());
        let theirs = found.parsed(content);
        found.merge(
            &own.unwrap_or_default(),
            &theirs.unwrap_or_default(),
            variable,
        );
        found
            .servers
            .retain(|server| server.source == McpSource::Workspace);
        found
    }

    fn merge(
        &mut self,
        own: &McpConfig,
        theirs: &McpConfig,
        variable: impl Fn(&str) -> Option<String>,
    ) {
        let both =
            |name: &McpServerName| own.servers.contains_key(name) || own.disabled.contains(name);
        let mut servers = Vec::new();
        let mut add = |source, name: &McpServerName, config: &ServerConfig| {
            let config = config.expand(&variable).map_err(|error| error.to_string());
            servers.push(ConfiguredServer {
                name: name.clone(),
                source,
                config,
            });
        };
        for (name, config) in &own.servers {
            add(McpSource::Own, name, config);
        }
        for (name, config) in &theirs.servers {
            match both(name) {
                true => self
                    .notices
                    .push(McpNotice::Overridden { name: name.clone() }),
                false => add(McpSource::Workspace, name, config),
            }
        }
        self.servers = servers;
    }

    /// The workspace's servers, if a person trusted this content.
    fn trusted(&mut self, workspace: &Path, trust: &TrustStore) -> Option<McpConfig> {
        let file = match read_mcp_file(workspace) {
            Ok(file) => BroughtFile::of_text(BroughtKind::McpServers, file?),
            Err(reason) => {
                self.notices.push(McpNotice::Unusable { reason });
                return None;
            }
        };
        let path = WORKSPACE_FILE;
        match trust.state(workspace, &file) {
            // What is started is what was read above, whatever the file says by now.
            Ok(TrustState::Trusted) => self.parsed(&file.content),
            Ok(TrustState::New) => {
                self.notices.push(McpNotice::Untrusted { path });
                None
            }
            Ok(TrustState::Changed) => {
                self.notices.push(McpNotice::Changed { path });
                None
            }
            Err(error) => {
                let reason = error.to_string();
                self.notices.push(McpNotice::Unusable { reason });
                None
            }
        }
    }

    fn parsed(&mut self, content: &str) -> Option<McpConfig> {
        let config = McpConfig::parse(content);
        let config = config.map_err(|error| format!("{WORKSPACE_FILE}: {error}"));
        self.usable(WORKSPACE_FILE, config)
    }

    fn usable(&mut self, file: &str, config: Result<McpConfig, String>) -> Option<McpConfig> {
        match config {
            Ok(config) => {
                let ignored = |what: &String| McpNotice::Ignored {
                    file: file.to_owned(),
                    what: what.clone(),
                };
                self.notices.extend(config.warnings.iter().map(ignored));
                Some(config)
            }
            Err(reason) => {
                self.notices.push(McpNotice::Unusable { reason });
                None
            }
        }
    }
}

/// What a workspace's file would start, for the person who decides about it.
pub fn what_starts(file: &BroughtFile, workspace: &Path) -> Vec<String> {
    let config = match McpConfig::parse(&file.content) {
        Ok(config) => config,
        Err(error) => {
            return vec![format!(
                "It cannot be used: {}",
                visible(&error.to_string())
            )];
        }
    };
    let mut lines = Vec::new();
    for (name, server) in &config.servers {
        match server {
            ServerConfig::Stdio(stdio) => {
                let words = std::iter::once(&stdio.command).chain(&stdio.args);
                let words: Vec<String> = words.map(|word| in_quotes(word)).collect();
                let place = match &stdio.cwd {
                    Some(cwd) => format!(" in {}", in_quotes(&cwd.to_string_lossy())),
                    None => String::new(),
                };
                lines.push(format!(
                    "{name}: starts {}{place} with your rights, outside the sandbox",
                    words.join(" ")
                ));
                // Their values can be secrets.
                let variables: Vec<String> = stdio.env.keys().map(|key| in_quotes(key)).collect();
                if !variables.is_empty() {
                    lines.push(format!("{name}: sets {}", variables.join(", ")));
                }
                let folder = match &stdio.cwd {
                    Some(cwd) => workspace.join(cwd),
                    None => workspace.to_owned(),
                };
                let mut inside = std::iter::once(&stdio.command)
                    .chain(&stdio.args)
                    .filter(|word| lies_in(workspace, &folder, word));
                if let Some(word) = inside.next() {
                    lines.push(format!("{name}: {} lies in this folder", in_quotes(word)));
                }
            }
            ServerConfig::Http(http) => {
                lines.push(format!(
                    "{name}: sends requests to {}",
                    in_quotes(&http.url)
                ));
            }
        }
    }
    let starts = |server: &ServerConfig| matches!(server, ServerConfig::Stdio(_));
    if config.servers.values().any(starts) {
        let text = "Trust covers this file, not the programs that it starts. Whoever can change a \
                    program, agents included, changes what runs.";
        lines.push(text.to_owned());
    }
    lines.extend(config.warnings.iter().map(|warning| visible(warning)));
    lines
}

/// A word of a command that names something in the workspace. The command runs in `folder`.
fn lies_in(workspace: &Path, folder: &Path, word: &str) -> bool {
    let is_path = word.contains('/') || word.contains('.');
    let path = folder.join(word);
    let real = path.canonicalize();
    is_path && real.is_ok_and(|real| real.starts_with(workspace) && real.is_file())
}

fn in_quotes(word: &str) -> String {
    let shown = visible(word).replace('\n', "\\n");
    match shown.contains([' ', '"', '\'']) || shown.is_empty() {
        true => format!("{shown:?}"),
        false => shown,
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use codelab_protocol::Timestamp;

    use super::*;

    struct Lab {
        folder: tempfile::TempDir,
    }

    impl Lab {
        fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            for name in ["config/codelab", "data", "work"] {
                fs::create_dir_all(folder.path().join(name)).unwrap();
            }
            Self { folder }
        }

        fn work(&self) -> std::path::PathBuf {
            self.folder.path().join("work").canonicalize().unwrap()
        }

        fn own(&self, text: &str) {
            fs::write(self.folder.path().join("config/codelab/mcp.json"), text).unwrap();
        }

        fn theirs(&self, text: &str) {
            fs::write(self.work().join(WORKSPACE_FILE), text).unwrap();
        }

        fn store(&self) -> TrustStore {
            TrustStore::new(&self.folder.path().join("data"))
        }

        fn trust(&self) {
            let file = self.file();
            let at = Timestamp::from_millis(1);
            self.store().trust(&self.work(), &file, at).unwrap();
        }

        fn file(&self) -> BroughtFile {
            let text = read_mcp_file(&self.work()).unwrap().unwrap();
            BroughtFile::of_text(BroughtKind::McpServers, text)
        }

        fn read(&self) -> ConfiguredServers {
            let config = self.folder.path().join("config");
            let config = config.to_str().unwrap().to_owned();
            let own = OwnConfig::find(|_| Some(config.clone()));
            let variable = |name: &str| (name == "SET").then(|| "value".to_owned());
            ConfiguredServers::read(own.as_ref(), &self.work(), &self.store(), variable)
        }
    }

    fn names(found: &ConfiguredServers) -> Vec<(&str, McpSource)> {
        let name = |server: &'_ ConfiguredServer| server.source;
        let servers = found.servers.iter();
        servers
            .map(|server| (server.name.as_str(), name(server)))
            .collect()
    }

    #[test]
    fn the_workspaces_servers_count_after_trust_in_that_very_content() {
        let lab = Lab::new();
        assert!(lab.read().servers.is_empty() && lab.read().notices.is_empty());
        lab.theirs(r#"{"mcpServers": {"a": {"command": "x"}}}"#);
        let found = lab.read();
        assert!(found.servers.is_empty());
        let path = WORKSPACE_FILE;
        assert_eq!(found.notices, [McpNotice::Untrusted { path }]);
        lab.trust();
        assert_eq!(names(&lab.read()), [("a", McpSource::Workspace)]);
        lab.theirs(r#"{"mcpServers": {"a": {"command": "y"}}}"#);
        let found = lab.read();
        assert!(found.servers.is_empty());
        assert_eq!(found.notices, [McpNotice::Changed { path }]);
    }

    #[test]
    fn a_persons_own_server_wins_and_can_switch_one_off() {
        let lab = Lab::new();
        lab.own(
            r#"{"mcpServers": {"a": {"command": "mine"}, "b": {"command": "x", "disabled": true}}}"#,
        );
        lab.theirs(
            r#"{"mcpServers": {"a": {"command": "theirs"}, "b": {"command": "y"}, "c": {"command": "z"}}}"#,
        );
        lab.trust();
        let found = lab.read();
        assert_eq!(
            names(&found),
            [("a", McpSource::Own), ("c", McpSource::Workspace)]
        );
        assert_eq!(found.notices.len(), 2, "{:?}", found.notices);
    }

    #[test]
    fn an_unusable_file_is_told_and_the_other_one_counts() {
        let lab = Lab::new();
        lab.own(r#"{"mcpServers": {"a": {"command": "x", "env": {"K": "canary"}"#);
        lab.theirs(r#"{"mcpServers": {"b": {"command": "${UNSET}", "env": {"K": "${SET}"}}}}"#);
        lab.trust();
        let found = lab.read();
        assert_eq!(names(&found), [("b", McpSource::Workspace)]);
        let reason = found.servers[0].config.as_ref().unwrap_err();
        assert!(reason.contains("UNSET is not set"), "{reason}");
        let notices = format!("{:?}", found.notices);
        assert!(
            notices.contains("not JSON") && !notices.contains("canary"),
            "{notices}"
        );
    }

    #[test]
    fn a_person_sees_what_would_start_and_that_it_can_be_changed() {
        let lab = Lab::new();
        fs::write(lab.work().join("server.py"), "").unwrap();
        fs::create_dir(lab.work().join("tools")).unwrap();
        fs::write(lab.work().join("tools/deep.py"), "").unwrap();
        lab.theirs(
            r#"{"mcpServers": {"a": {"command": "python3", "args": ["server.py", "\u001b[2J b"],
                "env": {"LD_PRELOAD": "./canary.so", "\u001bX": "canary"}},
                "b": {"url": "https://a.test/mcp"},
                "c": {"command": "python3", "args": ["deep.py"], "cwd": "tools"}}}"#,
        );
        let lines = what_starts(&lab.file(), &lab.work()).join("\n");
        assert!(lines.contains("a: starts python3 server.py"), "{lines}");
        assert!(lines.contains("server.py lies in this folder"), "{lines}");
        assert!(
            lines.contains("c: starts python3 deep.py in tools with"),
            "{lines}"
        );
        assert!(lines.contains("deep.py lies in this folder"), "{lines}");
        assert!(
            lines.contains("b: sends requests to https://a.test/mcp"),
            "{lines}"
        );
        assert!(
            lines.contains("LD_PRELOAD") && !lines.contains("canary"),
            "{lines}"
        );
        assert!(lines.contains("not the programs that it starts"), "{lines}");
        assert!(!lines.contains('\u{1b}'), "{lines}");
        lab.theirs(r#"{"mcpServers": {"b": {"url": "https://a.test/mcp"}}}"#);
        let lines = what_starts(&lab.file(), &lab.work()).join("\n");
        assert!(!lines.contains("programs"), "{lines}");
    }
}
