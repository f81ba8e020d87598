//! Takes back what calls wrote, path by path, and gives it back.
//!
//! A path is changed only if it is what the last of the calls left. Each step looks at the path
//! first, so that a rewind which a crash interrupted can be gone through again from its start.

use std::ffi::OsStr;
use std::io;
use std::path::Path;

use codelab_protocol::{LeftFile, NotCovered, RewindFiles, RewoundFiles, SessionId, WrittenByCall};

use super::BeforeStore;
use super::place::{Aside, WorkspaceFiles};
use super::plan::{ProgressLine, ProgressLog, RewindPlan, RewindProgress, Step, StepOutcome};
use super::record::PathState;
use super::steps::uncovered;
use crate::journal::CallKey;
use crate::swap::Swapped;

/// Entries of each list of a result. The last one says how many more there are.
const MAX_LISTED: usize = 1000;

const CHANGED: &str = "it was changed since, by hand, by a command or by another session";
const MODE_CHANGED: &str = "its permissions were changed since";
const NOT_A_FILE: &str = "a folder, a link or something else is there now";
const NOT_EMPTY: &str = "it is not empty";
const PARTIAL: &str =
    "somebody else changed it between two of the writes; it is now as they left it";
const DROPPED: &str = "its earlier content is not kept any more";

/// Why nothing was taken back.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RewindError {
    #[error("this client keeps nothing of that rewind, so it cannot be taken back here")]
    UnknownRewind,
    #[error(
        "this client keeps nothing of what would be taken back: it was written in another folder, by \
         another client or too long ago. The conversation alone can still be rewound"
    )]
    NothingKept,
    #[error("the plan of the rewind could not be stored, so no file was changed: {0}")]
    NotStored(#[from] io::Error),
}

/// What a rewind changed, for whoever compares protected paths.
pub(crate) enum Changed<'a> {
    File { bytes: &'a [u8], mode: u32 },
    Folder,
    Gone,
}

type Tell<'a> = &'a dyn Fn(&Path, Changed<'_>);

impl BeforeStore {
    pub fn rewind(
        &self,
        hand: &WorkspaceFiles<'_>,
        key: &CallKey,
        asked: &RewindFiles,
        tell: Tell<'_>,
    ) -> Result<RewoundFiles, RewindError> {
        let plan = match asked {
            RewindFiles::Calls { rewind_id, calls } => {
                if self.keeps_none(key, calls) {
                    return Err(RewindError::NothingKept);
                }
                self.plan_back(hand, key, rewind_id, calls)
            }
            RewindFiles::Undo { undo } => self.plan_forth(key, undo)?,
        };
        let lock = self.shared_lock()?;
        self.save_plan(&plan)?;
        drop(lock);
        self.failpoint.pass("rewind_planned");
        Ok(self.follow(hand, &plan, tell))
    }

    /// Ends a rewind that an earlier process began. `None` if it had not begun: no file was changed.
    pub fn resume(
        &self,
        hand: &WorkspaceFiles<'_>,
        key: &CallKey,
        tell: Tell<'_>,
    ) -> Option<RewoundFiles> {
        let plans = self.plans(&key.session_id);
        let plan = plans.into_iter().find(|plan| plan.call_id == key.call_id)?;
        Some(self.follow(hand, &plan, tell))
    }

    /// What a rewind of these calls would do now. Nothing is changed.
    pub fn foresee(
        &self,
        hand: &WorkspaceFiles<'_>,
        session: &SessionId,
        calls: &[WrittenByCall],
    ) -> RewoundFiles {
        let (steps, not_covered) = self.steps_back(hand, session, calls);
        let outcomes = steps.iter().map(|step| match self.find(hand, step) {
            Found::AsWanted | Found::Goes(_) => StepOutcome::Restored,
            Found::Stays(outcome) => outcome,
        });
        let outcomes = outcomes.collect();
        told(&steps, not_covered, outcomes)
    }

    /// Looks at the path of a step.
    fn find(&self, hand: &WorkspaceFiles<'_>, step: &Step) -> Found {
        let Step {
            path,
            expect,
            target,
            ..
        } = step;
        let present = match hand.look(path) {
            Ok(present) => present,
            Err(error) => return Found::Stays(left(&format!("it cannot be reached: {error}"))),
        };
        if present.is(target) && has_mode_of(&present, target) {
            return Found::AsWanted;
        }
        let was_removed = present == PathState::Absent && target.content().is_some();
        if !(present.is(expect) || was_removed) {
            return Found::Stays(left_because(step, &present));
        }
        if target
            .content()
            .is_some_and(|content| self.get(content).is_none())
        {
            return Found::Stays(left(DROPPED));
        }
        Found::Goes(present)
    }

    /// Goes through the plan. What an earlier process did of it is seen and not done twice.
    fn follow(&self, hand: &WorkspaceFiles<'_>, plan: &RewindPlan, tell: Tell<'_>) -> RewoundFiles {
        let progress = self.progress(plan);
        let mut log = self.log(plan);
        let mut outcomes = Vec::with_capacity(plan.steps.len());
        for (index, step) in plan.steps.iter().enumerate() {
            let outcome = match (progress.done.get(&index), &mut log) {
                (Some(done), _) => done.clone(),
                (None, Ok(log)) => {
                    let work = StepWork {
                        store: self,
                        hand,
                        plan,
                        index,
                        step,
                        tell,
                    };
                    work.take(&progress, log)
                }
                (None, Err(error)) => left(&format!("the client cannot write its plan: {error}")),
            };
            outcomes.push(outcome);
        }
        if let Ok(log) = &mut log
            && let Err(error) = log.add(&ProgressLine::Finished)
        {
            tracing::warn!(%error, "the end of a rewind was not written to its plan");
        }
        self.failpoint.pass("rewind_finished");
        told(&plan.steps, plan.not_covered.clone(), outcomes)
    }
}

/// What stands in the way of a step, if anything.
enum Found {
    /// It is what it should become.
    AsWanted,
    Goes(PathState),
    Stays(StepOutcome),
}

/// One step of a plan.
struct StepWork<'a> {
    store: &'a BeforeStore,
    hand: &'a WorkspaceFiles<'a>,
    plan: &'a RewindPlan,
    index: usize,
    step: &'a Step,
    tell: Tell<'a>,
}

impl StepWork<'_> {
    fn take(&self, progress: &RewindProgress, log: &mut ProgressLog) -> StepOutcome {
        let outcome = self.outcome(progress, log).unwrap_or_else(|error| {
            let why = format!("it could not be changed: {error}");
            left(&why)
        });
        let done = ProgressLine::Done {
            step: self.index,
            outcome: outcome.clone(),
        };
        if let Err(error) = log.add(&done) {
            tracing::debug!(%error, "how a step of a rewind ended was not written, it can be seen again");
        }
        self.store.failpoint.pass("rewind_done");
        outcome
    }

    fn outcome(&self, progress: &RewindProgress, log: &mut ProgressLog) -> io::Result<StepOutcome> {
        let name = self.aside_name();
        let aside = Aside {
            name: &name,
            failpoint: &self.store.failpoint,
        };
        let Step { path, target, .. } = self.step;
        if let Some(found) = progress.begun.get(&self.index) {
            let tidied = self.hand.tidy_up(path, (found, target), aside)?;
            if let Swapped::Kept(kept) = tidied {
                return Ok(left_aside(&kept));
            }
        }
        let present = match self.store.find(self.hand, self.step) {
            Found::AsWanted => return Ok(StepOutcome::Restored),
            Found::Stays(outcome) => return Ok(outcome),
            Found::Goes(present) => present,
        };
        if let PathState::File { content, .. } = &present
            && let Err(why) = self.keep(content)
        {
            return Ok(left(&why));
        }
        self.store.failpoint.pass("rewind_kept");
        if !progress.begun.contains_key(&self.index) {
            log.add(&ProgressLine::Begun {
                step: self.index,
                found: present.clone(),
            })?;
        }
        self.store.failpoint.pass("rewind_begun");
        let outcome = self.apply(&present, aside)?;
        self.store.failpoint.pass("rewind_applied");
        Ok(outcome)
    }

    /// What is replaced is kept, so that the rewind can be taken back.
    fn keep(&self, content: &super::record::Content) -> Result<(), String> {
        let failed = |why: &dyn std::fmt::Display| {
            format!("what would be replaced cannot be kept, so it was not touched: {why}")
        };
        let store = self.store;
        if store.object_path(&content.hash).exists() {
            return Ok(());
        }
        store.room_for(content.size).map_err(|why| failed(&why))?;
        let _lock = store.shared_lock().map_err(|why| failed(&why))?;
        let mut file = self
            .hand
            .open(&self.step.path)
            .map_err(|why| failed(&why))?;
        match store.put(&mut file) {
            Ok(kept) if kept == *content => Ok(()),
            Ok(_) => Err(CHANGED.to_owned()),
            Err(why) => Err(failed(&why)),
        }
    }

    /// The same in every process that goes through the plan.
    fn aside_name(&self) -> String {
        let id = super::short_name(self.plan.call_id.as_str());
        format!(".codelab-{id}-{}.tmp", self.index)
    }

    fn apply(&self, present: &PathState, aside: Aside<'_>) -> io::Result<StepOutcome> {
        let Step {
            path,
            target,
            is_asked,
            ..
        } = self.step;
        match target {
            PathState::Absent if matches!(present, PathState::Folder { .. }) => {
                if !self.hand.remove_folder(path)? {
                    return Ok(match is_asked {
                        true => left(NOT_EMPTY),
                        false => StepOutcome::Unmentioned,
                    });
                }
                (self.tell)(path, Changed::Gone);
            }
            PathState::Absent => {
                if let Some(left) = not_done(self.hand.remove(path, present, aside)?) {
                    return Ok(left);
                }
                (self.tell)(path, Changed::Gone);
            }
            PathState::Folder { mode } => {
                self.hand.make_folder(path, *mode)?;
                (self.tell)(path, Changed::Folder);
            }
            PathState::File { content, mode } => {
                let Some(bytes) = self.store.get(content) else {
                    return Ok(left(DROPPED));
                };
                let content = (bytes.as_slice(), *mode);
                if let Some(left) = not_done(self.hand.write(path, present, content, aside)?) {
                    return Ok(left);
                }
                let mode = mode.unwrap_or_default();
                (self.tell)(
                    path,
                    Changed::File {
                        bytes: &bytes,
                        mode,
                    },
                );
            }
            PathState::Other => return Ok(left(NOT_A_FILE)),
        }
        Ok(StepOutcome::Restored)
    }
}

fn left_because(step: &Step, present: &PathState) -> StepOutcome {
    let is_folder = matches!(step.expect, PathState::Folder { .. });
    match (present, &step.expect) {
        // A folder that is gone is what was wanted, or somebody took it away.
        (PathState::Absent, _) if is_folder => StepOutcome::Unmentioned,
        _ if step.is_folder() && !step.is_asked => StepOutcome::Unmentioned,
        (
            PathState::File { content, .. },
            PathState::File {
                content: wanted, ..
            },
        ) if content == wanted => left(MODE_CHANGED),
        (PathState::Folder { .. } | PathState::Other, PathState::File { .. }) => left(NOT_A_FILE),
        _ => left(CHANGED),
    }
}

/// Why a file was left that was saved at the very moment; `None` if it was not.
fn not_done(swapped: Swapped) -> Option<StepOutcome> {
    match swapped {
        Swapped::Done => None,
        Swapped::Refused => Some(left(CHANGED)),
        Swapped::Kept(kept) => Some(left_aside(&kept)),
    }
}

fn left_aside(kept: &OsStr) -> StepOutcome {
    let kept = kept.to_string_lossy();
    left(&format!(
        "somebody saved it more than once at this moment; what is not in it is in {kept} beside it"
    ))
}

/// Where the target's mode is known, a file with another one is not yet the target.
fn has_mode_of(present: &PathState, target: &PathState) -> bool {
    match (present, target) {
        (PathState::File { mode, .. }, PathState::File { mode: wanted, .. }) => {
            wanted.is_none() || mode == wanted
        }
        _ => true,
    }
}

fn told(steps: &[Step], not_covered: Vec<NotCovered>, outcomes: Vec<StepOutcome>) -> RewoundFiles {
    let mut told = RewoundFiles {
        not_covered,
        ..RewoundFiles::default()
    };
    for (step, outcome) in steps.iter().zip(outcomes) {
        let path = step.path.to_string_lossy().into_owned();
        let is_folder = step.is_folder();
        match outcome {
            StepOutcome::Restored if step.is_partial => told.left.push(LeftFile {
                path,
                reason: PARTIAL.to_owned(),
            }),
            StepOutcome::Restored if is_folder && !step.is_asked => {}
            StepOutcome::Restored => told.restored.push(path),
            StepOutcome::Left(reason) => told.left.push(LeftFile { path, reason }),
            StepOutcome::Unmentioned => {}
        }
    }
    let RewoundFiles {
        restored,
        left,
        not_covered,
    } = &mut told;
    if let Some(more) = cut(restored) {
        restored.push(more);
    }
    if let Some(path) = cut(left) {
        let reason = String::new();
        left.push(LeftFile { path, reason });
    }
    if let Some(more) = cut(not_covered) {
        not_covered.push(uncovered(more.into(), ""));
    }
    told
}

/// What stands for the entries of a list that is too long.
fn cut<T>(list: &mut Vec<T>) -> Option<String> {
    let more = list.len().saturating_sub(MAX_LISTED);
    list.truncate(MAX_LISTED);
    (more > 0).then(|| format!("… and {more} more"))
}

fn left(reason: &str) -> StepOutcome {
    StepOutcome::Left(reason.to_owned())
}
