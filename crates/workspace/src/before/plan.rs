//! The plan of a rewind and how far it is: on disk before the first file is touched.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use codelab_protocol::{CallId, NotCovered, RewindId, SessionId};
use serde::{Deserialize, Serialize};

use super::record::{PathState, read_json};
use super::{BeforeStore, REWINDS, private_file, short_name, sync_dir, write_whole};

/// Which way files go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Direction {
    Back,
    /// The undoing of a rewind.
    Forth,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct RewindPlan {
    pub session_id: SessionId,
    /// The call that asked for it.
    pub call_id: CallId,
    pub rewind_id: RewindId,
    pub direction: Direction,
    /// Nanoseconds since 1970.
    pub at: u64,
    /// In the order in which they are taken.
    pub steps: Vec<Step>,
    pub not_covered: Vec<NotCovered>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Step {
    pub path: PathBuf,
    /// What must be there, or else somebody changed it.
    pub expect: PathState,
    pub target: PathState,
    /// The calls that this takes back, or gives back.
    pub calls: Vec<CallId>,
    /// Somebody else wrote between two of the calls, so that the target is what they left.
    pub is_partial: bool,
    /// A folder that was asked for by its name. One that was made on the way to a file is not
    /// mentioned if others use it.
    pub is_asked: bool,
}

impl Step {
    pub fn is_folder(&self) -> bool {
        let is_folder = |state: &PathState| matches!(state, PathState::Folder { .. });
        is_folder(&self.expect) || is_folder(&self.target)
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum StepOutcome {
    Restored,
    Left(String),
    /// A folder that others use, which nobody asked for by name.
    Unmentioned,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum ProgressLine {
    /// Written before a path is changed.
    Begun {
        step: usize,
        found: PathState,
    },
    Done {
        step: usize,
        outcome: StepOutcome,
    },
    Finished,
}

/// How far a plan is.
#[derive(Debug, Default)]
pub(super) struct RewindProgress {
    pub begun: BTreeMap<usize, PathState>,
    pub done: BTreeMap<usize, StepOutcome>,
}

impl BeforeStore {
    fn plan_path(&self, session: &SessionId, id: &RewindId, direction: Direction) -> PathBuf {
        let way = match direction {
            Direction::Back => "back",
            Direction::Forth => "forth",
        };
        self.session_folder(REWINDS, session.as_str())
            .join(format!("{}.{way}.json", short_name(id.as_str())))
    }

    fn path_of(&self, plan: &RewindPlan) -> PathBuf {
        self.plan_path(&plan.session_id, &plan.rewind_id, plan.direction)
    }

    pub(super) fn plan(
        &self,
        session: &SessionId,
        id: &RewindId,
        direction: Direction,
    ) -> Option<RewindPlan> {
        read_json(&self.plan_path(session, id, direction))
    }

    /// A new plan has no progress.
    pub(super) fn save_plan(&self, plan: &RewindPlan) -> io::Result<()> {
        let path = self.path_of(plan);
        match fs::remove_file(progress_path(&path)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            Err(_) => {}
            Ok(()) => path.parent().map_or(Ok(()), sync_dir)?,
        }
        let text = serde_json::to_vec(plan).map_err(io::Error::other)?;
        write_whole(&path, &text)
    }

    /// All plans of a session, the oldest first.
    pub(super) fn plans(&self, session: &SessionId) -> Vec<RewindPlan> {
        let folder = self.session_folder(REWINDS, session.as_str());
        let mut plans: Vec<RewindPlan> = plans_in(&folder);
        plans.retain(|plan| plan.session_id == *session);
        plans.sort_by_key(|plan| plan.at);
        plans
    }

    pub(super) fn progress(&self, plan: &RewindPlan) -> RewindProgress {
        progress_at(&progress_path(&self.path_of(plan)))
    }

    pub(super) fn log(&self, plan: &RewindPlan) -> io::Result<ProgressLog> {
        let path = progress_path(&self.path_of(plan));
        let mut options = private_file();
        let file = options.append(true).open(&path)?;
        path.parent().map_or(Ok(()), sync_dir)?;
        Ok(ProgressLog { file })
    }

    /// The calls whose writes a rewind has taken back, and none has given back.
    pub(super) fn taken_back(&self, session: &SessionId) -> BTreeSet<CallId> {
        let mut taken = BTreeSet::new();
        for plan in self.plans(session) {
            let progress = self.progress(&plan);
            for (index, step) in plan.steps.iter().enumerate() {
                // What was there already was not taken back, and so it is not given back either.
                let is_changed = progress.begun.contains_key(&index)
                    && progress.done.get(&index) == Some(&StepOutcome::Restored);
                if !is_changed || step.is_folder() {
                    continue;
                }
                match plan.direction {
                    Direction::Back => taken.extend(step.calls.iter().cloned()),
                    Direction::Forth => step.calls.iter().for_each(|call| {
                        taken.remove(call);
                    }),
                }
            }
        }
        taken
    }
}

pub(super) struct ProgressLog {
    file: fs::File,
}

impl ProgressLog {
    /// `Begun` and `Finished` are on disk when this returns. How a step ended can be seen from its
    /// path.
    pub fn add(&mut self, line: &ProgressLine) -> io::Result<()> {
        // A line that a crash cut in two ends here.
        let mut text = serde_json::to_string(line).map_err(io::Error::other)?;
        text.insert(0, '\n');
        text.push('\n');
        self.file.write_all(text.as_bytes())?;
        match line {
            ProgressLine::Begun { .. } | ProgressLine::Finished => self.file.sync_data(),
            ProgressLine::Done { .. } => Ok(()),
        }
    }
}

pub(super) fn plans_in(folder: &Path) -> Vec<RewindPlan> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let paths = entries.map(|entry| entry.path());
    let plans = paths.filter(|path| path.extension().is_some_and(|end| end == "json"));
    plans.filter_map(|path| read_json(&path)).collect()
}

pub(super) fn progress_path(plan: &Path) -> PathBuf {
    plan.with_extension("progress")
}

pub(super) fn progress_at(path: &Path) -> RewindProgress {
    let text = fs::read(path).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let mut progress = RewindProgress::default();
    for line in text.lines() {
        // A crash can cut a line; what it said is found out again.
        match serde_json::from_str(line) {
            Ok(ProgressLine::Begun { step, found }) => {
                progress.begun.insert(step, found);
            }
            Ok(ProgressLine::Done { step, outcome }) => {
                progress.done.insert(step, outcome);
            }
            Ok(ProgressLine::Finished) | Err(_) => {}
        }
    }
    progress
}
