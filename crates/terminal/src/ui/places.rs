//! Which sessions were held in which folder, so that `--continue` finds the newest one. The server
//! knows projects, not folders. A JSON object per line, newest last.

use std::io;
use std::path::PathBuf;

use codelab_protocol::SessionId;
use serde_json::{Value, json};

use super::lines;

const FILE: &str = "chat-sessions";
const MAX_PLACES: usize = 500;
/// More of an old file is not read.
const MAX_BYTES: u64 = 1 << 20;

/// A folder, as one server's sessions see it.
#[derive(Debug, Clone)]
pub struct WorkPlace {
    pub data_dir: PathBuf,
    /// Identifies the server and, with it, whose sessions these are.
    pub server: String,
    pub folder: PathBuf,
}

impl WorkPlace {
    /// The sessions of this folder, newest first.
    pub fn sessions(&self) -> Vec<SessionId> {
        let own = self.read().into_iter().rev();
        let own = own.filter(|line| self.is_here(line));
        own.filter_map(|line| SessionId::parse(line.get("session")?.as_str()?).ok())
            .collect()
    }

    /// The session becomes the newest one of this folder.
    pub fn remember(&self, session: &SessionId) -> io::Result<()> {
        let mut lines = self.read();
        let is_same = |line: &Value| line.get("session") == Some(&Value::from(session.as_str()));
        lines.retain(|line| !(self.is_here(line) && is_same(line)));
        lines.push(json!({
            "server": self.server,
            "folder": self.folder.to_string_lossy(),
            "session": session.as_str(),
        }));
        let extra = lines.len().saturating_sub(MAX_PLACES);
        lines::write(&self.data_dir.join(FILE), lines.into_iter().skip(extra))
    }

    /// Where the session was held last.
    pub fn folder_of(&self, session: &SessionId) -> Option<PathBuf> {
        let mut lines = self.read().into_iter().rev();
        let is_it = |line: &Value| {
            line.get("server").and_then(Value::as_str) == Some(&self.server)
                && line.get("session").and_then(Value::as_str) == Some(session.as_str())
        };
        let line = lines.find(is_it)?;
        Some(PathBuf::from(line.get("folder")?.as_str()?))
    }

    /// Whether sessions were held in other folders as well.
    pub fn has_others(&self) -> bool {
        let is_other = |line: &Value| {
            line.get("server").and_then(Value::as_str) == Some(&self.server) && !self.is_here(line)
        };
        self.read().iter().any(is_other)
    }

    fn is_here(&self, line: &Value) -> bool {
        let text = |name: &str| line.get(name).and_then(Value::as_str);
        text("server") == Some(&self.server)
            && text("folder") == Some(&*self.folder.to_string_lossy())
    }

    fn read(&self) -> Vec<Value> {
        lines::read(&self.data_dir.join(FILE), MAX_BYTES)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_remembers_its_own_sessions() {
        let data = tempfile::tempdir().unwrap();
        let place = |server: &str, folder: &str| WorkPlace {
            data_dir: data.path().to_owned(),
            server: server.to_owned(),
            folder: PathBuf::from(folder),
        };
        let session = |id: &str| SessionId::parse(id).unwrap();
        let here = place("local", "/work");
        assert_eq!(here.sessions(), []);
        for (place, id) in [
            (&here, "a"),
            (&here, "b"),
            (&place("local", "/other"), "c"),
            (&place("remote", "/work"), "d"),
            (&here, "a"),
        ] {
            place.remember(&session(id)).unwrap();
        }
        assert_eq!(here.sessions(), [session("a"), session("b")]);
        assert_eq!(here.folder_of(&session("c")), Some("/other".into()));
        assert_eq!(here.folder_of(&session("d")), None, "another server's");
        assert!(here.has_others());
        assert!(!place("remote", "/work").has_others());
    }
}
