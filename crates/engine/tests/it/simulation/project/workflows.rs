//! What was seen of plans, and the promises about them.

use std::collections::{BTreeMap, BTreeSet};

use codelab_protocol::{
    Plan, PlanId, PlanStatus, SessionEventBody, TaskId, TaskStatus, TurnId, TurnStatus,
    WorkflowStatus, paths_overlap,
};

/// The plans of a life, and for each turn the run of one.
#[derive(Default)]
pub struct Workflows {
    runs: BTreeMap<TurnId, Run>,
    saved: BTreeMap<PlanId, Plan>,
}

/// One run of a plan; a retry is another.
#[derive(Default)]
struct Run {
    needs: BTreeMap<TaskId, BTreeSet<TaskId>>,
    paths: BTreeMap<TaskId, Vec<String>>,
    resolved: bool,
    started: BTreeSet<TaskId>,
    ended: BTreeMap<TaskId, TaskStatus>,
    completed: Option<WorkflowStatus>,
}

impl Workflows {
    pub fn saved(&mut self, plan: &Plan) {
        self.saved.insert(plan.plan_id.clone(), plan.clone());
    }

    pub fn plans(&self) -> Vec<Plan> {
        self.saved.values().cloned().collect()
    }

    pub fn is_run(&self, turn: TurnId) -> bool {
        self.runs.contains_key(&turn)
    }

    pub fn event(&mut self, turn: TurnId, body: &SessionEventBody, settled: Option<TurnStatus>) {
        match body {
            SessionEventBody::TaskPlanCreated(plan) => {
                let mut run = Run::default();
                for task in &plan.tasks {
                    run.paths.insert(task.id.clone(), task.paths.clone());
                    run.needs
                        .insert(task.id.clone(), task.depends_on.iter().cloned().collect());
                    if task.status == TaskStatus::Completed {
                        run.ended.insert(task.id.clone(), TaskStatus::Completed);
                    }
                }
                assert!(
                    self.runs.insert(turn, run).is_none(),
                    "two plans in one turn"
                );
            }
            SessionEventBody::PlanResolved(resolved) => {
                let run = self.runs.get_mut(&turn).unwrap();
                assert!(
                    !std::mem::replace(&mut run.resolved, true),
                    "a plan is decided twice"
                );
                assert!(
                    run.started.is_empty(),
                    "a task started before the plan was decided"
                );
                if resolved.decision == codelab_engine::ApprovalOutcome::Edited {
                    let needs = |needs: &[TaskId]| needs.iter().cloned().collect();
                    let paths = resolved.tasks.iter();
                    run.paths = paths.map(|t| (t.id.clone(), t.paths.clone())).collect();
                    run.needs = resolved
                        .tasks
                        .iter()
                        .map(|t| (t.id.clone(), needs(&t.depends_on)))
                        .collect();
                }
            }
            SessionEventBody::TaskStarted(started) => {
                self.runs.get_mut(&turn).unwrap().start(&started.task_id)
            }
            SessionEventBody::TaskCompleted(done) => {
                if let Some(task) = &done.origin.task_id {
                    self.runs
                        .get_mut(&turn)
                        .unwrap()
                        .end(task, TaskStatus::Completed);
                }
            }
            SessionEventBody::TaskFailed(failed) => {
                self.runs
                    .get_mut(&turn)
                    .unwrap()
                    .end(&failed.task_id, TaskStatus::Failed);
            }
            SessionEventBody::TaskSkipped(skipped) => {
                let run = self.runs.get_mut(&turn).unwrap();
                assert!(
                    !run.started.contains(&skipped.task_id),
                    "{} was skipped while it ran",
                    skipped.task_id
                );
                assert_eq!(
                    run.ended.get(&skipped.because_of),
                    Some(&TaskStatus::Failed)
                );
                run.end(&skipped.task_id, TaskStatus::Skipped);
            }
            SessionEventBody::WorkflowCompleted(done) => {
                let run = self.runs.entry(turn).or_default();
                assert_eq!(
                    run.completed.replace(done.status),
                    None,
                    "a workflow ended twice"
                );
                let ended = matches!(
                    settled,
                    Some(TurnStatus::Completed | TurnStatus::Failed | TurnStatus::Cancelled)
                );
                assert!(ended, "something follows the end of a workflow");
                run.check_end(done.status);
                let plan = &self.saved[&done.plan_id];
                assert_eq!(
                    plan.status,
                    status(done.status),
                    "the saved plan stands otherwise"
                );
                assert!(
                    plan.tasks.iter().all(|task| has_ended(task.status)),
                    "an ended plan has open tasks"
                );
            }
            _ => {}
        }
    }

    /// Every workflow that was seen has ended once.
    pub fn at_rest(&self) {
        for (turn, run) in &self.runs {
            assert!(
                run.completed.is_some(),
                "the workflow of turn {turn} never ended"
            );
        }
        for plan in self.saved.values() {
            assert!(plan.status.has_ended(), "a plan was left {:?}", plan.status);
        }
    }

    /// The store shows the plan as it stands.
    pub fn agree(&self, now: &Plan) {
        if !now.tasks.is_empty() {
            assert_eq!(
                self.saved.get(&now.plan_id),
                Some(now),
                "the saved plan is not the one that runs"
            );
        }
    }
}

impl Run {
    fn start(&mut self, task: &TaskId) {
        assert!(self.started.insert(task.clone()), "{task} started twice");
        assert!(
            !self.ended.contains_key(task),
            "{task} started after its end"
        );
        let runs = |other: &&TaskId| *other != task && !self.ended.contains_key(*other);
        for other in self.started.iter().filter(runs) {
            let overlap = paths_overlap(&self.paths[task], &self.paths[other]);
            assert!(!overlap, "{task} and {other} write the same files at once");
        }
        for needed in &self.needs[task] {
            let state = self.ended.get(needed);
            assert_eq!(
                state,
                Some(&TaskStatus::Completed),
                "{task} started before {needed} was done"
            );
        }
    }

    fn end(&mut self, task: &TaskId, status: TaskStatus) {
        assert!(self.needs.contains_key(task), "{task} is not in the plan");
        assert_eq!(
            self.ended.insert(task.clone(), status),
            None,
            "{task} ended twice"
        );
    }

    fn check_end(&self, status: WorkflowStatus) {
        let done = self
            .ended
            .values()
            .filter(|status| **status == TaskStatus::Completed)
            .count();
        let all = self.ended.len() == self.needs.len();
        match status {
            WorkflowStatus::Completed => assert!(all && done == self.needs.len() && done > 0),
            // The tasks of one that was stopped for its budget end without a word of their own.
            WorkflowStatus::Partial => assert!(done > 0 && done < self.needs.len()),
            WorkflowStatus::Failed => assert!(all && done == 0),
            WorkflowStatus::Cancelled => {}
        }
    }
}

fn status(status: WorkflowStatus) -> PlanStatus {
    match status {
        WorkflowStatus::Completed => PlanStatus::Completed,
        WorkflowStatus::Partial => PlanStatus::Partial,
        WorkflowStatus::Failed => PlanStatus::Failed,
        WorkflowStatus::Cancelled => PlanStatus::Cancelled,
    }
}

fn has_ended(status: TaskStatus) -> bool {
    matches!(
        status,
        TaskStatus::Completed | TaskStatus::Failed | TaskStatus::Skipped | TaskStatus::Cancelled
    )
}
