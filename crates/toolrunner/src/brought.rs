//! What the workspace of a tool runner brings: it is read, compared with what a person trusted, told
//! to CodeLab's server, and looked at again while the tool runner runs. Only what is trusted leaves as
//! something that models are told; the rest is sent to be shown to the person.

mod report;
mod watch;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use codelab_protocol::{BroughtKind, Digest, InstructionsReport, Timestamp, TrustContent};
use codelab_workspace::{BroughtFiles, FoundSkill, FoundText, InstructionFolders, OpenError};
use tokio::sync::{Notify, watch as channel};
use tokio_util::sync::CancellationToken;

use crate::trust::{BroughtFile, TrustError, TrustState, TrustStore};
use crate::{RunnerState, lock};
pub(crate) use watch::follow;

/// The folders with instructions are looked for anew after this time.
const WALK_EVERY: Duration = Duration::from_secs(60);
/// After a call that may have made some, they are looked for after this time.
const WALK_PAUSE: Duration = Duration::from_secs(5);
/// A walk may take this part of the time at most.
const WALK_SHARE: u32 = 20;

/// What the workspace brings, as it stands.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BroughtState {
    /// Trusted: its servers are started.
    pub mcp: Option<FoundText>,
    /// Trusted: models are told.
    pub instructions: Vec<FoundText>,
    /// Trusted: models can use them.
    pub skills: Vec<FoundSkill>,
    /// Trusted: the terminal has them.
    pub commands: Vec<FoundText>,
    /// Counts for nothing before a person trusts it.
    pub waiting: Vec<WaitingFile>,
    /// What was passed over, and why.
    pub notices: Vec<String>,
}

/// A content that waits for a person.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WaitingFile {
    pub file: BroughtFile,
    /// Another content of this path was trusted before.
    pub is_changed: bool,
}

impl BroughtState {
    fn ids(&self) -> BTreeSet<(BroughtKind, &str, &Digest)> {
        let waiting = self.waiting.iter().map(|waiting| &waiting.file);
        waiting
            .map(|file| (file.kind, file.path.as_str(), &file.digest))
            .collect()
    }

    /// The paths of what counts.
    fn counted(&self) -> BTreeSet<&str> {
        let instructions = self.instructions.iter().map(|file| file.path.as_str());
        let skills = self.skills.iter().map(|skill| skill.folder.as_str());
        let commands = self.commands.iter().map(|file| file.path.as_str());
        let mcp = self.mcp.iter().map(|file| file.path.as_str());
        mcp.chain(instructions)
            .chain(skills)
            .chain(commands)
            .collect()
    }
}

/// Reads a workspace and says of everything in it whether it counts.
pub struct BroughtReader {
    files: BroughtFiles,
    store: TrustStore,
}

impl BroughtReader {
    /// `hidden` are paths that nobody reads, such as CodeLab's own data folder.
    pub fn open(workspace: &Path, data_dir: &Path, hidden: &[PathBuf]) -> Result<Self, OpenError> {
        let mut private = hidden.to_vec();
        private.push(data_dir.to_owned());
        Ok(Self {
            files: BroughtFiles::open(workspace, &private)?,
            store: TrustStore::new(data_dir),
        })
    }

    /// The folders of the workspace that have instructions.
    pub fn folders(&self) -> InstructionFolders {
        self.folders_until(&CancellationToken::new())
    }

    fn folders_until(&self, cancel: &CancellationToken) -> InstructionFolders {
        self.files.instruction_folders(cancel)
    }

    /// Everything that the workspace brings, with how it stands. A store that cannot be read trusts
    /// nothing.
    pub fn read(
        &self,
        folders: &InstructionFolders,
    ) -> Result<(Vec<(BroughtFile, TrustState)>, Vec<String>), TrustError> {
        let brought = self.files.read(folders);
        let trusted = self.store.of_workspace(self.files.path())?;
        let with_state = |file: BroughtFile| {
            let state = trusted.state(&file);
            (file, state)
        };
        let files = BroughtFile::all(&brought).into_iter().map(with_state);
        Ok((files.collect(), brought.notices))
    }

    fn state(&self, folders: &InstructionFolders) -> BroughtState {
        let mut brought = self.files.read(folders);
        let mut state = BroughtState {
            notices: std::mem::take(&mut brought.notices),
            ..BroughtState::default()
        };
        let trusted = self.store.of_workspace(self.files.path());
        let trusted = trusted.unwrap_or_else(|error| {
            state.notices.insert(0, error.to_string());
            Default::default()
        });
        let mut waiting = Vec::new();
        let mut counts = |file: BroughtFile| {
            let is_changed = match trusted.state(&file) {
                TrustState::Trusted => return true,
                TrustState::Changed => true,
                TrustState::New => false,
            };
            waiting.push(WaitingFile { file, is_changed });
            false
        };
        let text = |kind, text: &FoundText| BroughtFile::of_text(kind, text.clone());
        let mcp = brought
            .mcp
            .filter(|file| counts(text(BroughtKind::McpServers, file)));
        let mut instructions = brought.instructions;
        instructions.retain(|file| counts(text(BroughtKind::Instructions, file)));
        let mut skills = brought.skills;
        skills.retain(|skill| counts(BroughtFile::of_skill(skill)));
        let mut commands = brought.commands;
        commands.retain(|file| counts(text(BroughtKind::Command, file)));
        BroughtState {
            mcp,
            instructions,
            skills,
            commands,
            waiting,
            ..state
        }
    }

    /// Trusts a content if the workspace still has it. Returns whether it does.
    fn trust(
        &self,
        folders: &InstructionFolders,
        id: &TrustContent,
        at: Timestamp,
    ) -> Result<bool, TrustError> {
        let brought = self.files.read(folders);
        let files = BroughtFile::all(&brought);
        match files.into_iter().find(|file| file.id() == *id) {
            Some(file) => {
                self.store.trust(self.files.path(), &file, at)?;
                Ok(true)
            }
            None => Ok(false),
        }
    }
}

/// The workspace of a running tool runner.
pub(crate) struct RunnerBrought {
    reader: Arc<BroughtReader>,
    folders: Mutex<KnownFolders>,
    state: channel::Sender<Arc<BroughtState>>,
    /// The report that CodeLab's server has.
    sent: Mutex<Option<Digest>>,
    /// Decisions of the page that were tried.
    tried: Mutex<BTreeSet<(BroughtKind, String, Digest)>>,
    /// Look now.
    wake: Notify,
    /// A call may have made folders with instructions.
    is_stale: AtomicBool,
}

/// What the folder of a tool runner brings, for the person at its machine.
#[derive(Clone)]
pub struct BroughtHandle(pub(crate) Arc<RunnerState>);

impl BroughtHandle {
    pub fn state(&self) -> Arc<BroughtState> {
        self.0.brought.state()
    }

    /// The person trusts this content. Returns whether the folder still had it.
    pub async fn trust(&self, id: TrustContent) -> Result<bool, TrustError> {
        self.0.trust_brought(id).await
    }
}

#[derive(Default)]
struct KnownFolders {
    found: InstructionFolders,
    /// When they were looked for, and how long that took.
    walked: Option<(Instant, Duration)>,
}

impl KnownFolders {
    fn is_due(&self, is_stale: bool) -> bool {
        let Some((at, took)) = self.walked else {
            return true;
        };
        let pause = if is_stale { WALK_PAUSE } else { WALK_EVERY };
        at.elapsed() >= pause.max(took * WALK_SHARE)
    }
}

impl RunnerBrought {
    pub fn new(reader: BroughtReader) -> Self {
        Self {
            reader: Arc::new(reader),
            folders: Mutex::default(),
            state: channel::Sender::default(),
            sent: Mutex::default(),
            tried: Mutex::default(),
            wake: Notify::new(),
            is_stale: AtomicBool::new(false),
        }
    }

    pub fn state(&self) -> Arc<BroughtState> {
        Arc::clone(&self.state.borrow())
    }

    /// The digest of the report that CodeLab's server should have from this tool runner.
    pub fn sent(&self) -> Digest {
        let sent = lock(&self.sent).clone();
        sent.unwrap_or_else(|| InstructionsReport::default().digest())
    }

    /// CodeLab's server has another report than the one that was sent, or none.
    pub fn send_again(&self) {
        *lock(&self.sent) = None;
        self.wake.notify_one();
    }
}
