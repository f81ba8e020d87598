//! From the records of calls to the steps of a rewind: which path goes from what to what.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use codelab_protocol::{CallId, NotCovered, RewindId, SessionId, Tool, WrittenByCall};

use super::BeforeStore;
use super::place::WorkspaceFiles;
use super::plan::{Direction, RewindPlan, Step, StepOutcome};
use super::record::{EarlierState, PathState, WriteRecord};
use super::rewind::RewindError;
use crate::journal::CallKey;

const NOTHING_KEPT: &str =
    "nothing is kept of what it replaced: it is too old, or another client wrote it";

impl BeforeStore {
    /// Whether these calls certainly wrote, and nothing of any of them is here.
    pub(super) fn keeps_none(&self, key: &CallKey, calls: &[WrittenByCall]) -> bool {
        let has_record = |call: &WrittenByCall| {
            let of_call = CallKey {
                session_id: key.session_id.clone(),
                call_id: call.call_id.clone(),
            };
            self.record(&of_call).is_some()
        };
        calls.iter().any(|call| call.path.is_some()) && !calls.iter().any(has_record)
    }

    pub(super) fn plan_back(
        &self,
        hand: &WorkspaceFiles<'_>,
        key: &CallKey,
        id: &RewindId,
        calls: &[WrittenByCall],
    ) -> RewindPlan {
        let (steps, not_covered) = self.steps_back(hand, &key.session_id, calls);
        RewindPlan {
            session_id: key.session_id.clone(),
            call_id: key.call_id.clone(),
            rewind_id: id.clone(),
            direction: Direction::Back,
            at: self.next_at(),
            steps,
            not_covered,
        }
    }

    pub(super) fn steps_back(
        &self,
        hand: &WorkspaceFiles<'_>,
        session: &SessionId,
        calls: &[WrittenByCall],
    ) -> (Vec<Step>, Vec<NotCovered>) {
        let taken = self.taken_back(session);
        let mut not_covered = Vec::new();
        let mut by_path: BTreeMap<PathBuf, Vec<WriteRecord>> = BTreeMap::new();
        let mut made = Vec::new();
        for call in calls.iter().filter(|call| !taken.contains(&call.call_id)) {
            let of_call = CallKey {
                session_id: session.clone(),
                call_id: call.call_id.clone(),
            };
            match (self.record(&of_call), &call.path) {
                (Some(record), _) => match (&record.before, &record.after) {
                    (EarlierState::NotKept(why), _) => {
                        not_covered.push(uncovered(record.path.to_string_lossy(), why));
                    }
                    (EarlierState::Kept(_), PathState::Folder { .. }) => made.push(record),
                    (EarlierState::Kept(_), _) => {
                        by_path.entry(record.path.clone()).or_default().push(record);
                    }
                },
                (None, Some(path)) => not_covered.push(uncovered(path.into(), NOTHING_KEPT)),
                // It had not begun to write.
                (None, None) => {}
            }
        }
        let mut files: Vec<(u64, Step)> = Vec::new();
        for (path, mut records) in by_path {
            records.sort_by_key(|record| record.at);
            files.extend(step_back(path, &records));
            made.append(&mut records);
        }
        // The newest first.
        files.sort_by_key(|(at, _)| std::cmp::Reverse(*at));
        let files: Vec<Step> = files.into_iter().map(|(_, step)| step).collect();
        let mut steps = self.folders_needed(hand, &files);
        steps.extend(files);
        let back: BTreeSet<CallId> = steps.iter().flat_map(|step| step.calls.clone()).collect();
        steps.extend(folders_back(&made, &back));
        (steps, not_covered)
    }

    /// Folders that are gone, and without which files cannot come back, the outermost first. They are
    /// steps, so that they go again when the rewind is undone.
    fn folders_needed(&self, hand: &WorkspaceFiles<'_>, files: &[Step]) -> Vec<Step> {
        let is_gone = |path: &Path| matches!(hand.look(path), Ok(PathState::Absent));
        let mut needed = BTreeSet::new();
        for step in files {
            let content = step.target.content();
            let is_kept = content.is_some_and(|it| self.object_path(&it.hash).exists());
            if is_kept && is_gone(&step.path) {
                let parents = step.path.ancestors().skip(1);
                let parents = parents.filter(|parent| !parent.as_os_str().is_empty());
                needed.extend(parents.filter(|parent| is_gone(parent)).map(Path::to_owned));
            }
        }
        let step = |path| Step {
            path,
            expect: PathState::Absent,
            target: PathState::Folder { mode: None },
            calls: Vec::new(),
            is_partial: false,
            is_asked: false,
        };
        needed.into_iter().map(step).collect()
    }

    pub(super) fn plan_forth(
        &self,
        key: &CallKey,
        id: &RewindId,
    ) -> Result<RewindPlan, RewindError> {
        let plan = self.plan(&key.session_id, id, Direction::Back);
        let back = plan.ok_or(RewindError::UnknownRewind)?;
        let progress = self.progress(&back);
        // One that was begun and of whose end nothing is known is looked at.
        let changed = |index: &usize| match progress.done.get(index) {
            Some(StepOutcome::Restored) | None => progress.begun.get(index),
            Some(StepOutcome::Left(_) | StepOutcome::Unmentioned) => None,
        };
        let steps = back.steps.iter().enumerate();
        let steps = steps.filter_map(|(index, step)| {
            Some(Step {
                path: step.path.clone(),
                expect: step.target.clone(),
                target: changed(&index)?.clone(),
                calls: step.calls.clone(),
                is_partial: false,
                is_asked: step.is_asked,
            })
        });
        // The other way round: folders come before what is in them.
        let mut steps: Vec<Step> = steps.collect();
        steps.reverse();
        Ok(RewindPlan {
            session_id: key.session_id.clone(),
            call_id: key.call_id.clone(),
            rewind_id: id.clone(),
            direction: Direction::Forth,
            at: self.next_at(),
            steps,
            not_covered: Vec::new(),
        })
    }
}

/// From what the last call left to what was there before the first. Where somebody else wrote in
/// between, only as far as to what they left.
fn step_back(path: PathBuf, records: &[WriteRecord]) -> Option<(u64, Step)> {
    let (last, earlier) = records.split_last()?;
    let mut target = kept(last)?;
    let mut calls = vec![last.call_id.clone()];
    let mut is_partial = false;
    for record in earlier.iter().rev() {
        let before = kept(record)?;
        if record.after.is(target) {
            target = before;
        } else if !before.is(target) {
            is_partial = true;
            break;
        }
        calls.push(record.call_id.clone());
    }
    let step = Step {
        path,
        expect: last.after.clone(),
        target: target.clone(),
        calls,
        is_partial,
        is_asked: true,
    };
    Some((last.at, step))
}

fn kept(record: &WriteRecord) -> Option<&PathState> {
    match &record.before {
        EarlierState::Kept(state) => Some(state),
        EarlierState::NotKept(_) => None,
    }
}

/// Folders that the calls made, the innermost first.
fn folders_back(records: &[WriteRecord], back: &BTreeSet<CallId>) -> Vec<Step> {
    let mut folders: BTreeMap<PathBuf, Step> = BTreeMap::new();
    for record in records {
        let is_folder = matches!(record.after, PathState::Folder { .. });
        if !is_folder && !back.contains(&record.call_id) {
            continue;
        }
        for made in &record.created {
            let is_asked = is_folder && *made == record.path;
            let step = folders.entry(made.clone()).or_insert_with(|| Step {
                path: made.clone(),
                expect: PathState::Folder { mode: None },
                target: PathState::Absent,
                calls: Vec::new(),
                is_partial: false,
                is_asked: false,
            });
            step.is_asked |= is_asked;
            step.calls.push(record.call_id.clone());
        }
    }
    let mut steps: Vec<Step> = folders.into_values().collect();
    steps.sort_by_key(|step| std::cmp::Reverse(step.path.components().count()));
    steps
}

pub(super) fn uncovered(path: std::borrow::Cow<'_, str>, reason: &str) -> NotCovered {
    NotCovered {
        tool: Tool::WriteFile.as_str().to_owned(),
        what: path.into_owned(),
        reason: (!reason.is_empty()).then(|| reason.to_owned()),
    }
}
