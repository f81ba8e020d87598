//! What tasks gave: kept within bounds, and handed on to those who need it.

use super::{TaskRun, TaskState, Workflow};
use crate::turn::cut;
use crate::world::{MAX_HANDED_ON_BYTES, MAX_RESULT_BYTES};

/// Bytes of a task's description that stand above its result.
const MAX_PART_DESCRIPTION_BYTES: usize = 200;

/// An answer as the plan keeps it; the task's thread has all of it.
pub(super) fn kept(response: &str) -> String {
    shortened(response, MAX_RESULT_BYTES)
}

impl Workflow {
    /// All results, one text for each.
    pub(super) fn results(&self) -> Vec<String> {
        self.completed()
            .map(|(task, result)| task.part(result))
            .collect()
    }

    /// What tasks that have not ended said last, one text for each.
    pub(super) fn begun(&self) -> Vec<String> {
        let said = |task: &TaskState| match &task.state {
            TaskRun::Open(Some(thread)) => thread
                .said()
                .map(|said| task.part(&format!("(unfinished) {said}"))),
            TaskRun::Open(None)
            | TaskRun::Pending
            | TaskRun::Completed { .. }
            | TaskRun::Failed { .. }
            | TaskRun::Skipped { .. }
            | TaskRun::Cancelled => None,
        };
        self.tasks.iter().filter_map(said).collect()
    }

    /// The results of some tasks for one prompt: long ones are shortened until all fit.
    pub(super) fn handed_on(&self, needed: impl Fn(&TaskState) -> bool) -> Vec<String> {
        let results: Vec<_> = self.completed().filter(|(task, _)| needed(task)).collect();
        let share = share(results.iter().map(|(_, result)| result.len()).collect());
        results
            .into_iter()
            .map(|(task, result)| task.part(&shortened(result, share)))
            .collect()
    }
}

impl TaskState {
    fn part(&self, result: &str) -> String {
        let asked = cut(self.description.trim(), MAX_PART_DESCRIPTION_BYTES);
        format!("[{} by {}] {asked}\n{result}", self.id, self.agent)
    }
}

/// The length at which texts are cut so that all fit together. What short texts do not use goes to
/// the longer ones.
fn share(mut lengths: Vec<usize>) -> usize {
    lengths.sort_unstable();
    let mut left = MAX_HANDED_ON_BYTES;
    for (done, length) in lengths.iter().enumerate() {
        let share = left / (lengths.len() - done);
        if *length > share {
            return share;
        }
        left -= length;
    }
    MAX_HANDED_ON_BYTES
}

fn shortened(text: &str, max_bytes: usize) -> String {
    let start = cut(text, max_bytes);
    match text.len() - start.len() {
        0 => text.to_owned(),
        left_out => {
            format!("{start}\n[… {left_out} bytes left out; the task's thread has all of it]")
        }
    }
}
