//! The client's own memory of tool calls, so that none runs twice: claimed, started, finished with
//! its result, and acknowledged by the server. Every step is on disk before it counts.
//!
//! One file of lines in the client's data folder, each with a checksum. A torn last line is what a
//! crash leaves and is dropped; any other damage is an error, because what cannot be read may have
//! run. Calls block on the disk.

mod file;
mod record;

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use codelab_protocol::{CallId, CalledTool, Digest, SessionId, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use file::JournalFile;
use record::{CallStage, JournalRecord};

/// Calls that are open or whose result the server has not acknowledged.
const MAX_OPEN: usize = 1000;
/// Acknowledged calls that are remembered, so that a repeated offer is recognised.
const MAX_ACKNOWLEDGED: usize = 1000;
/// A result that nobody took for so long belongs to a call that was closed without it.
const MAX_UNSENT_AGE: Duration = Duration::from_secs(7 * 24 * 60 * 60);
/// The file is rewritten with what still counts when it grows past this.
const MAX_FILE_BYTES: u64 = 32 * 1024 * 1024;

/// A call's name: call ids are unique within a session only.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct CallKey {
    pub session_id: SessionId,
    pub call_id: CallId,
}

/// What is claimed: the digest tells whether a later offer is the same call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JournalClaim {
    pub tool: CalledTool,
    pub digest: Digest,
}

/// A call that an earlier process left open.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnfinishedCall {
    pub key: CallKey,
    pub claim: JournalClaim,
    pub since: Timestamp,
}

#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    #[error("the journal {path} is in use by another process")]
    InUse { path: PathBuf },
    #[error("the journal {path} is damaged at line {line}")]
    Damaged { path: PathBuf, line: usize },
    #[error("the journal {path}: {source}")]
    Io { path: PathBuf, source: io::Error },
    #[error("an earlier write to the journal failed; nothing more is run until it is opened again")]
    Broken,
    #[error("call {call_id} of session {session_id} is known already: it is {phase}", call_id = .key.call_id, session_id = .key.session_id)]
    Known { key: CallKey, phase: &'static str },
    #[error("call {call_id} of session {session_id} cannot be {wanted}: it is {phase}", call_id = .key.call_id, session_id = .key.session_id)]
    OutOfOrder {
        key: CallKey,
        wanted: &'static str,
        phase: &'static str,
    },
    #[error("{MAX_OPEN} calls are open or unacknowledged: no further one is taken")]
    Full,
}

pub struct Journal(Mutex<State>);

struct State {
    file: JournalFile,
    calls: BTreeMap<CallKey, Entry>,
    /// Of acknowledged calls, the order they will be forgotten in.
    acknowledged: u64,
    is_broken: bool,
}

struct Entry {
    claim: JournalClaim,
    since: Timestamp,
    phase: Phase,
}

enum Phase {
    Claimed,
    /// By this process.
    Started,
    /// By an earlier one; whether it ran, and how far, nobody knows.
    Unknown,
    Finished(Value),
    Acknowledged {
        order: u64,
    },
}

impl Journal {
    /// Opens or creates the journal of a data folder; one process at a time.
    pub fn open(folder: &Path) -> Result<Self, JournalError> {
        let (file, records) = JournalFile::open(folder)?;
        let mut state = State {
            file,
            calls: BTreeMap::new(),
            acknowledged: 0,
            is_broken: false,
        };
        for record in records {
            state.apply(record);
        }
        for entry in state.calls.values_mut() {
            if matches!(entry.phase, Phase::Started) {
                entry.phase = Phase::Unknown;
            }
        }
        let expired =
            now().plus_millis(-i64::try_from(MAX_UNSENT_AGE.as_millis()).unwrap_or(i64::MAX));
        state.calls.retain(|_, entry| {
            !matches!(entry.phase, Phase::Finished(_)) || entry.since >= expired
        });
        state.compact()?;
        Ok(Self(Mutex::new(state)))
    }

    /// Before anything is run: this call is this client's. Refused for every call that was ever
    /// claimed here, as far back as the journal remembers.
    pub fn claim(&self, key: &CallKey, claim: JournalClaim) -> Result<(), JournalError> {
        let mut state = self.state()?;
        if let Some(entry) = state.calls.get(key) {
            return Err(JournalError::Known {
                key: key.clone(),
                phase: entry.phase.name(),
            });
        }
        if state
            .calls
            .values()
            .filter(|entry| entry.phase.is_open())
            .count()
            >= MAX_OPEN
        {
            return Err(JournalError::Full);
        }
        state.write(key, CallStage::Claimed(claim))
    }

    /// Whether this call was ever claimed here, as far back as the journal remembers.
    pub fn knows(&self, key: &CallKey) -> bool {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .calls
            .contains_key(key)
    }

    /// Immediately before the first side effect.
    pub fn start(&self, key: &CallKey) -> Result<(), JournalError> {
        self.step(key, CallStage::Started, |phase| {
            matches!(phase, Phase::Claimed)
        })
    }

    pub fn finish(&self, key: &CallKey, result: Value) -> Result<(), JournalError> {
        self.step(key, CallStage::Finished(result), |phase| {
            matches!(phase, Phase::Started)
        })
    }

    /// What an earlier process began was gone on with, and has a result now.
    pub fn finish_resumed(&self, key: &CallKey, result: Value) -> Result<(), JournalError> {
        self.step(key, CallStage::Finished(result), |phase| {
            matches!(phase, Phase::Unknown)
        })
    }

    /// The server has the result, knows that there is none, or closed the call: nothing is sent any
    /// more.
    pub fn acknowledge(&self, key: &CallKey) -> Result<(), JournalError> {
        self.step(key, CallStage::Acknowledged, |phase| {
            !matches!(phase, Phase::Started | Phase::Acknowledged { .. })
        })
    }

    /// Nothing of the call has run, and somebody else decides whether it will: it is forgotten, so
    /// that it can be claimed again. `start` was called only if the tool said for certain that it
    /// did nothing.
    pub fn release(&self, key: &CallKey) -> Result<(), JournalError> {
        self.step(key, CallStage::Released, |phase| {
            matches!(phase, Phase::Claimed | Phase::Started)
        })
    }

    /// Calls that an earlier process started and did not finish. They may have run; they are
    /// reported, never rerun.
    pub fn unknown(&self) -> Vec<UnfinishedCall> {
        self.open_calls(|phase| matches!(phase, Phase::Unknown))
    }

    /// Calls that were claimed and not started: nothing of them has run.
    pub fn unstarted(&self) -> Vec<UnfinishedCall> {
        self.open_calls(|phase| matches!(phase, Phase::Claimed))
    }

    /// Results to send, again and again until they are acknowledged.
    pub fn unsent(&self) -> Vec<(CallKey, Value)> {
        let state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let finished = state
            .calls
            .iter()
            .filter_map(|(key, entry)| match &entry.phase {
                Phase::Finished(result) => Some((key.clone(), result.clone())),
                _ => None,
            });
        finished.collect()
    }

    /// The result of a call that is finished and not acknowledged yet.
    pub fn result(&self, key: &CallKey) -> Option<Value> {
        let state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match &state.calls.get(key)?.phase {
            Phase::Finished(result) => Some(result.clone()),
            _ => None,
        }
    }

    fn open_calls(&self, is_wanted: impl Fn(&Phase) -> bool) -> Vec<UnfinishedCall> {
        let state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let wanted = state
            .calls
            .iter()
            .filter(|(_, entry)| is_wanted(&entry.phase));
        wanted
            .map(|(key, entry)| UnfinishedCall {
                key: key.clone(),
                claim: entry.claim.clone(),
                since: entry.since,
            })
            .collect()
    }

    fn step(
        &self,
        key: &CallKey,
        step: CallStage,
        may: impl Fn(&Phase) -> bool,
    ) -> Result<(), JournalError> {
        let mut state = self.state()?;
        let phase = state.calls.get(key).map(|entry| &entry.phase);
        if !phase.is_some_and(may) {
            let phase = phase.map_or("unknown to the journal", Phase::name);
            return Err(JournalError::OutOfOrder {
                key: key.clone(),
                wanted: step.name(),
                phase,
            });
        }
        state.write(key, step)
    }

    fn state(&self) -> Result<MutexGuard<'_, State>, JournalError> {
        let state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if state.is_broken {
            Err(JournalError::Broken)
        } else {
            Ok(state)
        }
    }
}

impl State {
    /// On disk first, then in memory. After a failed write nobody knows what the disk holds, so
    /// nothing more is taken.
    fn write(&mut self, key: &CallKey, step: CallStage) -> Result<(), JournalError> {
        let record = JournalRecord {
            key: key.clone(),
            at: now(),
            step,
        };
        if let Err(error) = self.file.append(&record) {
            self.is_broken = true;
            return Err(error);
        }
        self.apply(record);
        if self.file.size_bytes() > MAX_FILE_BYTES
            && self.file.size_bytes() > 2 * self.file.compacted_bytes()
        {
            self.compact()?;
        }
        Ok(())
    }

    fn apply(&mut self, record: JournalRecord) {
        let JournalRecord { key, at, step } = record;
        let phase = match step {
            CallStage::Claimed(claim) => {
                self.calls.insert(
                    key,
                    Entry {
                        claim,
                        since: at,
                        phase: Phase::Claimed,
                    },
                );
                return;
            }
            CallStage::Released => {
                self.calls.remove(&key);
                return;
            }
            CallStage::Started => Phase::Started,
            CallStage::Finished(result) => Phase::Finished(result),
            CallStage::Acknowledged => {
                self.acknowledged += 1;
                Phase::Acknowledged {
                    order: self.acknowledged,
                }
            }
        };
        if let Some(entry) = self.calls.get_mut(&key) {
            entry.since = at;
            entry.phase = phase;
        }
        self.forget();
    }

    fn forget(&mut self) {
        let kept = self.acknowledged.saturating_sub(MAX_ACKNOWLEDGED as u64);
        let is_forgotten =
            |phase: &Phase| matches!(phase, Phase::Acknowledged { order } if *order <= kept);
        if kept > 0 {
            self.calls.retain(|_, entry| !is_forgotten(&entry.phase));
        }
    }

    fn compact(&mut self) -> Result<(), JournalError> {
        let mut entries: Vec<(&CallKey, &Entry)> = self.calls.iter().collect();
        entries.sort_by_key(|(_, entry)| entry.phase.order());
        let records = entries
            .into_iter()
            .flat_map(|(key, entry)| entry.records(key));
        let rewritten = self.file.rewrite(records);
        self.is_broken |= rewritten.is_err();
        rewritten
    }
}

impl Entry {
    /// The steps that lead to what is known, as they would have been written.
    fn records(&self, key: &CallKey) -> Vec<JournalRecord> {
        let steps = match &self.phase {
            Phase::Claimed => vec![],
            Phase::Started | Phase::Unknown => vec![CallStage::Started],
            Phase::Finished(result) => {
                vec![CallStage::Started, CallStage::Finished(result.clone())]
            }
            Phase::Acknowledged { .. } => vec![CallStage::Acknowledged],
        };
        let steps = [CallStage::Claimed(self.claim.clone())]
            .into_iter()
            .chain(steps);
        steps
            .map(|step| JournalRecord {
                key: key.clone(),
                at: self.since,
                step,
            })
            .collect()
    }
}

impl Phase {
    fn name(&self) -> &'static str {
        match self {
            Self::Claimed => "claimed",
            Self::Started => "started",
            Self::Unknown => "of unknown outcome",
            Self::Finished(_) => "finished",
            Self::Acknowledged { .. } => "acknowledged",
        }
    }

    fn is_open(&self) -> bool {
        !matches!(self, Self::Acknowledged { .. })
    }

    fn order(&self) -> u64 {
        match self {
            Self::Acknowledged { order } => *order,
            _ => u64::MAX,
        }
    }
}

fn now() -> Timestamp {
    SystemTime::now().into()
}
