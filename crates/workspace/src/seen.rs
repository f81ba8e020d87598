//! What agents have read: which content of which file each of them saw last, so that a write can tell
//! that somebody else was there since, and what they changed.
//!
//! Lives as long as the client. What is forgotten counts as not read, so a person is asked.

use std::collections::{HashMap, VecDeque};
use std::io::{self, Read, Seek};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cap_fs_ext::MetadataExt;
use cap_std::fs::{File, Metadata};
use codelab_protocol::{AgentName, Digest, FileBase, PlanId, SessionId, TaskId, TaskOrigin};

/// Readings of all agents. The oldest are forgotten first.
const MAX_READINGS: usize = 16_384;
/// Contents that are kept to show what changed. The oldest are forgotten first.
const MAX_KEPT_BYTES: usize = 32 * 1024 * 1024;
const MAX_KEPT_FILE_BYTES: usize = 1024 * 1024;

/// Larger files are told apart by their metadata alone.
pub(crate) const MAX_HASHED_BYTES: u64 = 16 * 1024 * 1024;

/// An agent of a session, in a task of a plan or outside of one. Each has seen what it has seen
/// itself.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ReadingAgent {
    session_id: SessionId,
    task: Option<(PlanId, TaskId)>,
    agent: AgentName,
}

impl ReadingAgent {
    pub fn new(session_id: &SessionId, origin: &TaskOrigin, agent: &AgentName) -> Self {
        Self {
            session_id: session_id.clone(),
            task: origin.plan_id.clone().zip(origin.task_id.clone()),
            agent: agent.clone(),
        }
    }
}

/// What a file is at one moment: the SHA-256 of all of it, or of its metadata where it is too large.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fingerprint(Digest);

impl Fingerprint {
    pub fn of_content(bytes: &[u8]) -> Self {
        Self(Digest::of_bytes(bytes))
    }

    fn of_metadata(metadata: &Metadata) -> Self {
        let modified = metadata.modified().map(|time| {
            let since = time.into_std().duration_since(std::time::UNIX_EPOCH);
            since.unwrap_or_default().as_nanos()
        });
        let text = format!(
            "{} bytes, {:?}, {} {}",
            metadata.len(),
            modified.ok(),
            metadata.dev(),
            metadata.ino()
        );
        Self(Digest::of_bytes(text.as_bytes()))
    }

    /// Leaves the file at its start.
    pub fn of_file(file: &mut File) -> io::Result<Self> {
        Present::of_file(file).map(|present| present.fingerprint)
    }

    pub fn base(&self) -> FileBase {
        FileBase::Content(self.0.clone())
    }
}

/// A file as it is now.
pub(crate) struct Present {
    pub fingerprint: Fingerprint,
    /// Absent where it is too large.
    pub bytes: Option<Vec<u8>>,
}

impl Present {
    pub fn of_bytes(bytes: &[u8]) -> Self {
        Self {
            fingerprint: Fingerprint::of_content(bytes),
            bytes: Some(bytes.to_vec()),
        }
    }

    /// Leaves the file at its start.
    pub fn of_file(file: &mut File) -> io::Result<Self> {
        let metadata = file.metadata()?;
        let mut bytes = Vec::new();
        if metadata.len() <= MAX_HASHED_BYTES {
            file.rewind()?;
            Read::by_ref(file)
                .take(MAX_HASHED_BYTES + 1)
                .read_to_end(&mut bytes)?;
            file.rewind()?;
        }
        // It can grow while it is read.
        let is_whole = metadata.len() <= MAX_HASHED_BYTES && bytes.len() as u64 <= MAX_HASHED_BYTES;
        Ok(match is_whole {
            true => Self {
                fingerprint: Fingerprint::of_content(&bytes),
                bytes: Some(bytes),
            },
            false => Self {
                fingerprint: Fingerprint::of_metadata(&file.metadata()?),
                bytes: None,
            },
        })
    }
}

#[derive(Default)]
pub(crate) struct Readings(Mutex<State>);

/// `None` is the person at this machine.
type Key = (Option<ReadingAgent>, PathBuf);

#[derive(Default)]
struct State {
    readings: HashMap<Key, Fingerprint>,
    order: VecDeque<Key>,
    contents: HashMap<Digest, Arc<[u8]>>,
    kept: VecDeque<Digest>,
    kept_bytes: usize,
}

impl Readings {
    /// The reader has seen this content of the file: it read it, all or a part, or it wrote it.
    pub fn remember(&self, reader: Option<&ReadingAgent>, real: &Path, present: &Present) {
        let mut state = self.state();
        let key = (reader.cloned(), real.to_owned());
        let fingerprint = present.fingerprint.clone();
        if state.readings.insert(key.clone(), fingerprint).is_none() {
            state.order.push_back(key);
        }
        if state.order.len() > MAX_READINGS
            && let Some(oldest) = state.order.pop_front()
        {
            state.readings.remove(&oldest);
        }
        if let Some(bytes) = &present.bytes {
            state.keep(&present.fingerprint, bytes);
        }
    }

    /// What the reader saw last.
    pub fn of(&self, reader: Option<&ReadingAgent>, real: &Path) -> Option<Fingerprint> {
        let key = (reader.cloned(), real.to_owned());
        self.state().readings.get(&key).cloned()
    }

    /// The content that somebody saw, if it is still kept.
    pub fn content(&self, seen: &Fingerprint) -> Option<Arc<[u8]>> {
        self.state().contents.get(&seen.0).cloned()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn keep(&mut self, fingerprint: &Fingerprint, bytes: &[u8]) {
        let digest = &fingerprint.0;
        if bytes.len() > MAX_KEPT_FILE_BYTES || self.contents.contains_key(digest) {
            return;
        }
        self.contents.insert(digest.clone(), bytes.into());
        self.kept.push_back(digest.clone());
        self.kept_bytes += bytes.len();
        while self.kept_bytes > MAX_KEPT_BYTES
            && let Some(oldest) = self.kept.pop_front()
        {
            let gone = self.contents.remove(&oldest);
            self.kept_bytes -= gone.map_or(0, |bytes| bytes.len());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn present(text: &str) -> Present {
        Present::of_bytes(text.as_bytes())
    }

    fn reader(session: &str, task: Option<&str>, agent: &str) -> ReadingAgent {
        let origin = TaskOrigin {
            plan_id: task.map(|_| "plan".parse().unwrap()),
            task_id: task.map(|task| task.parse().unwrap()),
        };
        ReadingAgent::new(&session.parse().unwrap(), &origin, &agent.parse().unwrap())
    }

    #[test]
    fn each_agent_of_each_task_has_seen_what_it_has_seen_itself() {
        let readings = Readings::default();
        let path = Path::new("a.py");
        let seen = reader("s", Some("a"), "coder");
        readings.remember(Some(&seen), path, &present("one"));
        for other in [
            reader("s", Some("b"), "coder"),
            reader("s", None, "coder"),
            reader("s", Some("a"), "writer"),
            reader("t", Some("a"), "coder"),
        ] {
            assert_eq!(readings.of(Some(&other), path), None, "{other:?}");
        }
        assert_eq!(readings.of(None, path), None);
        let one = Fingerprint::of_content(b"one");
        assert_eq!(readings.of(Some(&seen), path), Some(one.clone()));
        assert_eq!(readings.content(&one).as_deref(), Some(&b"one"[..]));
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let readings = Readings::default();
        let reader = reader("s", None, "coder");
        let big = "x".repeat(MAX_KEPT_FILE_BYTES - 8);
        for number in 0..MAX_READINGS + 3 {
            let path = PathBuf::from(format!("f{number}"));
            let text = match number % 200 {
                0 => format!("{number:08}{big}"),
                _ => number.to_string(),
            };
            readings.remember(Some(&reader), &path, &present(&text));
        }
        let state = readings.state();
        assert_eq!(state.readings.len(), MAX_READINGS);
        assert_eq!(state.order.len(), MAX_READINGS);
        assert!(state.kept_bytes <= MAX_KEPT_BYTES);
        let kept: usize = state.contents.values().map(|bytes| bytes.len()).sum();
        assert_eq!(kept, state.kept_bytes);
    }
}
