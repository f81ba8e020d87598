//! What a workspace brings counts only after a person trusted that very content. This is the store
//! of what was trusted, by workspace, kind, path and digest, in the client's data folder.
//!
//! Nothing here runs or believes a file. A store that cannot be read trusts nothing.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use codelab_protocol::{BroughtKind, Digest, Timestamp, TrustContent};
use codelab_workspace::{FoundContents, FoundSkill, FoundText, SkillFile};
use serde::{Deserialize, Serialize};

const STORE: &str = "trust.json";
const LOCK: &str = "trust.lock";
const MAX_STORE_BYTES: u64 = 4 << 20;
/// Contents that are remembered of one file, so that changing branches does not ask again.
const MAX_CONTENTS: usize = 16;
/// An entry without its paths.
const ENTRY_BYTES: usize = 256;
/// Contents that are remembered in all. The oldest are forgotten first.
const MAX_ENTRIES: usize = 10_000;
/// Permission bits with which somebody else could change a file.
const OTHERS_WRITE: u32 = 0o022;

/// How people read of a kind.
pub fn kind_name(kind: BroughtKind) -> &'static str {
    match kind {
        BroughtKind::McpServers => "MCP servers",
        BroughtKind::Instructions => "instructions",
        BroughtKind::Skill => "skill",
        BroughtKind::Command => "command",
    }
}

/// A content of a workspace. It was read once: its digest is of these very bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BroughtFile {
    pub kind: BroughtKind,
    /// Within the workspace; of a skill, its folder.
    pub path: String,
    /// Of a skill, its `SKILL.md`.
    pub content: String,
    /// Of a skill, over all its files.
    pub digest: Digest,
    /// The files of a skill.
    pub parts: Vec<SkillFile>,
}

impl BroughtFile {
    pub fn of_text(kind: BroughtKind, text: FoundText) -> Self {
        Self {
            kind,
            path: text.path,
            content: text.content,
            digest: text.digest,
            parts: Vec::new(),
        }
    }

    pub fn of_skill(skill: &FoundSkill) -> Self {
        Self {
            kind: BroughtKind::Skill,
            path: skill.folder.clone(),
            content: skill.text.content.clone(),
            digest: skill.digest.clone(),
            parts: skill.files.clone(),
        }
    }

    /// Everything that a workspace brings and that counts only after trust.
    pub fn all(brought: &FoundContents) -> Vec<Self> {
        let of = |kind| move |text: &FoundText| Self::of_text(kind, text.clone());
        let mut files: Vec<Self> = brought
            .mcp
            .iter()
            .map(of(BroughtKind::McpServers))
            .collect();
        let instructions = brought.instructions.iter();
        files.extend(instructions.map(of(BroughtKind::Instructions)));
        files.extend(brought.skills.iter().map(Self::of_skill));
        files.extend(brought.commands.iter().map(of(BroughtKind::Command)));
        files
    }

    pub fn id(&self) -> TrustContent {
        TrustContent {
            kind: self.kind,
            path: self.path.clone(),
            digest: self.digest.clone(),
        }
    }
}

/// What is known about a file's content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TrustState {
    Trusted,
    /// Another content of this file was trusted.
    Changed,
    New,
}

#[derive(Debug, thiserror::Error)]
pub enum TrustError {
    #[error("{path}: {source}")]
    Io { path: PathBuf, source: io::Error },
    #[error("{path} is damaged ({reason}); nothing is trusted until it is removed")]
    Damaged { path: PathBuf, reason: String },
    #[error("{path} can be changed by others; nothing is trusted until its mode is 600")]
    NotPrivate { path: PathBuf },
}

#[derive(Debug, Clone)]
pub struct TrustStore {
    folder: PathBuf,
}

#[derive(Debug, Default, Serialize, Deserialize)]
struct Trusted {
    /// Oldest first.
    trusted: Vec<TrustEntry>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct TrustEntry {
    workspace: PathBuf,
    kind: BroughtKind,
    path: String,
    digest: Digest,
    at: Timestamp,
}

impl TrustEntry {
    fn is_of(&self, workspace: &Path, file: &BroughtFile) -> bool {
        self.workspace == workspace && self.kind == file.kind && self.path == file.path
    }
}

/// What was trusted of one workspace.
#[derive(Default)]
pub struct TrustedContents(Vec<TrustEntry>);

impl TrustedContents {
    pub fn state(&self, file: &BroughtFile) -> TrustState {
        let mut state = TrustState::New;
        let same = |entry: &&TrustEntry| entry.kind == file.kind && entry.path == file.path;
        for entry in self.0.iter().filter(same) {
            if entry.digest == file.digest {
                return TrustState::Trusted;
            }
            state = TrustState::Changed;
        }
        state
    }
}

impl TrustStore {
    pub fn new(data_dir: &Path) -> Self {
        Self {
            folder: data_dir.to_owned(),
        }
    }

    /// `workspace` is the folder's real path.
    pub fn state(&self, workspace: &Path, file: &BroughtFile) -> Result<TrustState, TrustError> {
        Ok(self.of_workspace(workspace)?.state(file))
    }

    /// What was trusted of one workspace, for several contents at once.
    pub fn of_workspace(&self, workspace: &Path) -> Result<TrustedContents, TrustError> {
        let mut stored = self.load()?.trusted;
        stored.retain(|entry| entry.workspace == workspace);
        Ok(TrustedContents(stored))
    }

    pub fn trust(
        &self,
        workspace: &Path,
        file: &BroughtFile,
        at: Timestamp,
    ) -> Result<(), TrustError> {
        self.change(|stored| {
            let same = |entry: &TrustEntry| entry.is_of(workspace, file);
            stored.retain(|entry| !(same(entry) && entry.digest == file.digest));
            let earlier = stored.iter().filter(|entry| same(entry)).count();
            let mut surplus = (earlier + 1).saturating_sub(MAX_CONTENTS);
            stored.retain(|entry| {
                let is_forgotten = surplus > 0 && same(entry);
                surplus -= usize::from(is_forgotten);
                !is_forgotten
            });
            stored.push(TrustEntry {
                workspace: workspace.to_owned(),
                kind: file.kind,
                path: file.path.clone(),
                digest: file.digest.clone(),
                at,
            });
            let surplus = stored.len().saturating_sub(MAX_ENTRIES);
            stored.drain(..surplus);
            // What could not be read again would trust nothing at all.
            let bytes = |entry: &TrustEntry| {
                ENTRY_BYTES + entry.path.len() + entry.workspace.as_os_str().len()
            };
            let mut total: usize = stored.iter().map(bytes).sum();
            let mut forgotten = 0;
            while total > MAX_STORE_BYTES as usize / 2 && forgotten + 1 < stored.len() {
                total -= bytes(&stored[forgotten]);
                forgotten += 1;
            }
            stored.drain(..forgotten);
        })
    }

    /// Trusts nothing of this workspace any more. Returns how many contents were trusted.
    pub fn forget(&self, workspace: &Path) -> Result<usize, TrustError> {
        let mut forgotten = 0;
        self.change(|stored| {
            let before = stored.len();
            stored.retain(|entry| entry.workspace != workspace);
            forgotten = before - stored.len();
        })?;
        Ok(forgotten)
    }

    fn path(&self) -> PathBuf {
        self.folder.join(STORE)
    }

    fn io(&self, source: io::Error) -> TrustError {
        let path = self.path();
        TrustError::Io { path, source }
    }

    fn load(&self) -> Result<Trusted, TrustError> {
        let path = self.path();
        let file = match File::open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Trusted::default()),
            Err(error) => return Err(self.io(error)),
        };
        if !is_private(&file).map_err(|error| self.io(error))? {
            return Err(TrustError::NotPrivate { path });
        }
        let mut text = String::new();
        file.take(MAX_STORE_BYTES)
            .read_to_string(&mut text)
            .map_err(|error| self.io(error))?;
        serde_json::from_str(&text).map_err(|error| TrustError::Damaged {
            path,
            reason: error.to_string(),
        })
    }

    /// One process at a time, and a crash leaves the old store or the new one.
    fn change(&self, step: impl FnOnce(&mut Vec<TrustEntry>)) -> Result<(), TrustError> {
        let made = fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&self.folder);
        made.map_err(|error| self.io(error))?;
        let lock = private_file().truncate(false).open(self.folder.join(LOCK));
        let lock = lock.map_err(|error| self.io(error))?;
        lock.lock().map_err(|error| self.io(error))?;
        let mut stored = self.load()?;
        step(&mut stored.trusted);
        let text = serde_json::to_vec_pretty(&stored).map_err(|error| self.io(error.into()))?;
        replace_private(&self.path(), &text).map_err(|error| self.io(error))
    }
}

/// Whether only the owner, who must be this user or root, can change the file.
pub(crate) fn is_private(file: &File) -> io::Result<bool> {
    let metadata = file.metadata()?;
    let owner = metadata.uid();
    let is_ours = owner == rustix::process::geteuid().as_raw() || owner == 0;
    Ok(is_ours && metadata.mode() & OTHERS_WRITE == 0)
}

/// Writes a file of mode 0600 whole: a crash leaves the old content or the new one.
pub(crate) fn replace_private(path: &Path, content: &[u8]) -> io::Result<()> {
    let draft = path.with_extension(format!("draft-{}", std::process::id()));
    let written = private_file()
        .truncate(true)
        .open(&draft)
        .and_then(|mut file| {
            file.write_all(content)?;
            file.sync_all()?;
            fs::rename(&draft, path)
        });
    if written.is_err() {
        let _ = fs::remove_file(&draft);
    }
    written?;
    match path.parent() {
        Some(folder) => File::open(folder)?.sync_all(),
        None => Ok(()),
    }
}

fn private_file() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.write(true).create(true).mode(0o600);
    options
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn file(content: &str) -> BroughtFile {
        BroughtFile {
            kind: BroughtKind::McpServers,
            path: ".mcp.json".to_owned(),
            content: content.to_owned(),
            digest: Digest::of_bytes(content.as_bytes()),
            parts: Vec::new(),
        }
    }

    fn at(millis: i64) -> Timestamp {
        Timestamp::from_millis(millis)
    }

    #[test]
    fn trust_is_for_one_content_in_one_workspace() {
        let data = tempfile::tempdir().unwrap();
        let store = TrustStore::new(&data.path().join("new"));
        let (here, there) = (Path::new("/here"), Path::new("/there"));
        let state = |workspace, content| store.state(workspace, &file(content)).unwrap();
        assert_eq!(state(here, "a"), TrustState::New);
        store.trust(here, &file("a"), at(1)).unwrap();
        assert_eq!(state(here, "a"), TrustState::Trusted);
        assert_eq!(state(here, "b"), TrustState::Changed);
        assert_eq!(state(there, "a"), TrustState::New);
        let again = TrustStore::new(&data.path().join("new"));
        assert_eq!(again.state(here, &file("a")).unwrap(), TrustState::Trusted);
        let mode = fs::metadata(store.path()).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert_eq!(store.forget(here).unwrap(), 1);
        assert_eq!(state(here, "a"), TrustState::New);
    }

    #[test]
    fn a_file_has_a_bounded_number_of_trusted_contents() {
        let data = tempfile::tempdir().unwrap();
        let store = TrustStore::new(data.path());
        let here = Path::new("/here");
        store.trust(Path::new("/there"), &file("x"), at(0)).unwrap();
        for number in 0..=MAX_CONTENTS {
            let file = file(&number.to_string());
            store.trust(here, &file, at(number as i64)).unwrap();
            store.trust(here, &file, at(number as i64)).unwrap();
        }
        assert_eq!(store.state(here, &file("0")).unwrap(), TrustState::Changed);
        assert_eq!(store.state(here, &file("1")).unwrap(), TrustState::Trusted);
        assert_eq!(store.load().unwrap().trusted.len(), MAX_CONTENTS + 1);
    }

    #[test]
    fn a_damaged_store_or_one_of_others_trusts_nothing() {
        let data = tempfile::tempdir().unwrap();
        let store = TrustStore::new(data.path());
        let here = Path::new("/here");
        store.trust(here, &file("a"), at(1)).unwrap();
        fs::set_permissions(store.path(), fs::Permissions::from_mode(0o666)).unwrap();
        let error = store.state(here, &file("a")).unwrap_err();
        assert!(matches!(error, TrustError::NotPrivate { .. }), "{error}");
        fs::set_permissions(store.path(), fs::Permissions::from_mode(0o600)).unwrap();
        fs::write(store.path(), "{").unwrap();
        let error = store.state(here, &file("a")).unwrap_err();
        assert!(matches!(error, TrustError::Damaged { .. }), "{error}");
        assert!(store.trust(here, &file("b"), at(2)).is_err());
    }

    #[test]
    fn two_processes_lose_no_entry() {
        let data = tempfile::tempdir().unwrap();
        let trusted: Vec<BroughtFile> = (0..8).map(|n| file(&n.to_string())).collect();
        let here = Path::new("/here");
        std::thread::scope(|scope| {
            for file in &trusted {
                let store = TrustStore::new(data.path());
                scope.spawn(move || store.trust(here, file, at(1)).unwrap());
            }
        });
        let store = TrustStore::new(data.path());
        for file in &trusted {
            assert_eq!(store.state(here, file).unwrap(), TrustState::Trusted);
        }
    }
}
