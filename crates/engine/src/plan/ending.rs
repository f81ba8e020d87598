//! How a workflow ends: its results joined to one answer, cancelled, or lost with the server.

use codelab_protocol::{
    ErrorData, Message, MessageId, ModelFailure, ModelOutput, PartialReason, PlanStatus, Role,
    SessionEventBody, TurnStatus, WorkflowCompleted, WorkflowStatus,
};

use super::{TaskRun, Workflow, WorkflowPhase};
use crate::session::Transition;
use crate::world::MAX_ATTEMPTS;
use crate::{ApprovalKind, ApprovalOutcome, Downtime, Lane, Spending, orchestrator};

impl Transition<'_, '_> {
    /// Every task has ended: one answer is made of what they gave.
    pub(super) fn tasks_ended(&mut self) {
        let Some((_, workflow)) = self.session.workflow() else {
            never!("tasks ended without a workflow");
            return;
        };
        let done: Vec<&str> = workflow.completed().map(|(_, result)| result).collect();
        let only = match done.as_slice() {
            [] => Some(String::new()),
            [result] => Some((*result).to_owned()),
            _ => None,
        };
        let message_id = self.world.ids.message_id();
        match only {
            Some(text) => self.finish_workflow(message_id, text, Vec::new()),
            None => self.own_call(WorkflowPhase::Joining {
                message_id,
                attempt: 0,
            }),
        }
    }

    pub(super) fn joined(
        &mut self,
        message_id: MessageId,
        outcome: Result<ModelOutput, ModelFailure>,
    ) {
        match outcome {
            Ok(output) if !output.text.trim().is_empty() => {
                self.finish_workflow(message_id, output.text, output.warnings);
            }
            // No joined answer, or an empty one: the results stand beside each other.
            Ok(_) | Err(_) => self.finish_concatenated(message_id),
        }
    }

    pub(super) fn finish_concatenated(&mut self, message_id: MessageId) {
        let Some((_, workflow)) = self.session.workflow() else {
            never!("results are joined without a workflow");
            return;
        };
        let text = workflow.results().join("\n\n");
        self.finish_workflow(message_id, text, Vec::new());
    }

    /// `warnings` are about the text: that it was cut, or that another model gave it.
    pub(super) fn finish_workflow(
        &mut self,
        message_id: MessageId,
        text: String,
        warnings: Vec<String>,
    ) {
        let Some((_, workflow)) = self.session.workflow() else {
            never!("a workflow finishes that is not there");
            return;
        };
        let done = workflow.completed().count();
        let (status, plan_status) = match (done, done == workflow.tasks.len()) {
            (0, _) => (WorkflowStatus::Failed, PlanStatus::Failed),
            (_, true) => (WorkflowStatus::Completed, PlanStatus::Completed),
            (_, false) => (WorkflowStatus::Partial, PlanStatus::Partial),
        };
        let answer = Message {
            message_id,
            warnings,
            ..self.new_message(Role::Assistant, text)
        };
        self.answer_workflow(answer, status, plan_status);
        self.end_turn(if status == WorkflowStatus::Failed {
            TurnStatus::Failed
        } else {
            TurnStatus::Completed
        });
    }

    /// The only task failed in the middle of its answer.
    pub(super) fn finish_unfinished(&mut self, text: String) {
        let answer = self
            .new_message(Role::Assistant, text)
            .into_partial(PartialReason::Failed);
        self.answer_workflow(answer, WorkflowStatus::Failed, PlanStatus::Failed);
        self.end_turn(TurnStatus::Failed);
    }

    /// The workflow's answer: this one, and what it does not cover.
    fn answer_workflow(&mut self, answer: Message, status: WorkflowStatus, ended: PlanStatus) {
        let Some((turn, workflow)) = self.session.workflow() else {
            never!("a workflow is answered that is not there");
            return;
        };
        // A plan of one task speaks with that task's voice, also when it failed.
        let author = match workflow.tasks.as_slice() {
            [only] => only.agent.clone(),
            _ => orchestrator(),
        };
        let missing = missing(workflow);
        let response = match &missing {
            None => answer.content.clone(),
            Some(missing) if answer.content.is_empty() => missing.clone(),
            Some(missing) => format!("{}\n\n{missing}", answer.content),
        };
        // The text of a partial answer is what was streamed, and nothing else.
        let (content, error_message) = match answer.partial {
            true => (answer.content.clone(), missing),
            false => (response.clone(), None),
        };
        let usage = workflow.total_usage();
        let (plan_id, workflow_id) = (workflow.plan_id.clone(), workflow.workflow_id.clone());
        let message_id = Some(answer.message_id.clone());
        let message = Message {
            content,
            error_message,
            agent_id: Some(author.clone()),
            name: Some(author.into()),
            usage: usage.clone(),
            error: status == WorkflowStatus::Failed,
            ..answer
        };
        self.view().show_message(turn, &message, None);
        self.message(turn, None, message);
        self.save_plan(Some(ended));
        let completed = WorkflowCompleted {
            plan_id,
            workflow_id,
            status,
            response,
            message_id,
            usage,
        };
        self.log()
            .event(turn, SessionEventBody::WorkflowCompleted(completed));
    }

    /// A person allowed no more spending: what was done so far is the answer.
    pub(crate) fn stop_workflow(&mut self, error: ErrorData) {
        let Some((turn, workflow)) = self.session.workflow() else {
            never!("a workflow is stopped that is not there");
            return;
        };
        let mut parts = workflow.results();
        parts.extend(workflow.begun());
        let (status, ended, settled) = match workflow.completed().next() {
            Some(_) => (
                WorkflowStatus::Partial,
                PlanStatus::Partial,
                TurnStatus::Completed,
            ),
            None => (
                WorkflowStatus::Cancelled,
                PlanStatus::Cancelled,
                TurnStatus::Cancelled,
            ),
        };
        parts.push(match parts.is_empty() {
            true => format!("Nothing was done. {}.", error.message),
            false => format!("Stopped here. {}.", error.message),
        });
        self.session.note_error(&error.message);
        self.view().show_turn_error(turn, error);
        drop(self.stop_tasks());
        let answer = self.new_message(Role::Assistant, parts.join("\n\n"));
        self.answer_workflow(answer, status, ended);
        self.end_turn(settled);
    }

    /// Stops every task; what has ended keeps its result.
    pub(crate) fn cancel_workflow(&mut self) {
        self.keep_stopped_joining();
        let streamed = self.stop_tasks();
        self.keep_stopped_answer(streamed);
        let Some((turn, workflow)) = self.session.workflow() else {
            never!("a workflow is cancelled that is not there");
            return;
        };
        let (plan_id, workflow_id, usage) = (
            workflow.plan_id.clone(),
            workflow.workflow_id.clone(),
            workflow.total_usage(),
        );
        self.save_plan(Some(PlanStatus::Cancelled));
        let (status, response) = (WorkflowStatus::Cancelled, String::new());
        let completed = WorkflowCompleted {
            plan_id,
            workflow_id,
            status,
            response,
            message_id: None,
            usage,
        };
        self.log()
            .event(turn, SessionEventBody::WorkflowCompleted(completed));
    }

    /// The joined answer as far as it was streamed.
    fn keep_stopped_joining(&mut self) {
        if let Some((turn, workflow)) = self.session.workflow()
            && let WorkflowPhase::Joining {
                message_id,
                attempt,
            } = &workflow.phase
            && let Some(text) = self.streamed(message_id, *attempt)
        {
            let said = self.said_by(&orchestrator(), message_id.clone(), text);
            self.keep_partial(turn, None, said.into_partial(PartialReason::Stopped));
        }
    }

    /// A plan of one task speaks with that task's voice, also when it was stopped.
    fn keep_stopped_answer(&mut self, streamed: Vec<String>) {
        let Some((turn, workflow)) = self.session.workflow() else {
            never!("a workflow is stopped that is not there");
            return;
        };
        let [only] = workflow.tasks.as_slice() else {
            return;
        };
        let agent = only.agent.clone();
        for text in streamed {
            let message_id = self.world.ids.message_id();
            let said = self.said_by(&agent, message_id, text);
            self.keep_partial(turn, None, said.into_partial(PartialReason::Stopped));
        }
    }

    /// Returns what was streamed of the tasks' unfinished answers.
    fn stop_tasks(&mut self) -> Vec<String> {
        let mut streamed = Vec::new();
        for thread in self.session.take_all_threads() {
            let (index, usage) = (thread.lane().task(), thread.usage());
            streamed.extend(self.cancel_thread(thread));
            match index.and_then(|index| self.session.workflow_mut()?.tasks.get_mut(index)) {
                Some(task) => task.usage = usage,
                None => never!("a stopped thread is no task of the plan"),
            }
        }
        let approval = self
            .session
            .workflow()
            .and_then(|(_, workflow)| workflow.approval().cloned());
        if let Some(approval) = approval {
            self.withdraw_approval(&approval);
            if approval.kind == ApprovalKind::Plan {
                self.plan_resolved(
                    ApprovalOutcome::Cancelled,
                    "cancel".to_owned(),
                    None,
                    Vec::new(),
                );
            }
        }
        let Some(workflow) = self.session.workflow_mut() else {
            never!("tasks are stopped without a workflow");
            return streamed;
        };
        workflow.phase = WorkflowPhase::Running;
        for task in &mut workflow.tasks {
            if matches!(task.state, TaskRun::Pending | TaskRun::Open(_)) {
                task.state = TaskRun::Cancelled;
            }
        }
        if workflow.reserved.take().is_some() {
            self.spend_budget(Lane::OWN, Spending::default());
        }
        streamed
    }

    pub(crate) fn workflow_recovered(&mut self, down: Downtime) {
        // A direct call has no workflow.
        let Some(workflow) = self.session.workflow_mut() else {
            return;
        };
        workflow.reserved = None;
        let mut phase = workflow.phase.clone();
        match &mut phase {
            WorkflowPhase::Planning { attempt, .. } | WorkflowPhase::Joining { attempt, .. } => {
                *attempt += 1;
                let given_up = *attempt > MAX_ATTEMPTS;
                self.set_phase(phase.clone());
                match (given_up, phase) {
                    (false, phase) => self.own_call(phase),
                    (true, WorkflowPhase::Joining { message_id, .. }) => {
                        self.finish_concatenated(message_id)
                    }
                    (true, WorkflowPhase::Planning { .. }) => self.fall_back(),
                    (
                        true,
                        WorkflowPhase::AwaitingBudget { .. }
                        | WorkflowPhase::AwaitingRoom { .. }
                        | WorkflowPhase::AwaitingApproval { .. }
                        | WorkflowPhase::Running,
                    ) => never!("a model call is given up in a phase that has none"),
                }
            }
            WorkflowPhase::AwaitingApproval { approval }
            | WorkflowPhase::AwaitingBudget { approval, .. } => {
                self.output.move_approval(approval, down);
                self.set_phase(phase);
            }
            WorkflowPhase::AwaitingRoom { next } => {
                let next = *next.clone();
                self.own_call(next);
            }
            WorkflowPhase::Running => {}
        }
    }
}

impl Workflow {
    fn total_usage(&self) -> Option<codelab_protocol::Usage> {
        self.tasks
            .iter()
            .filter_map(|task| task.usage.clone())
            .chain(self.usage.clone())
            .reduce(|sum, usage| sum.plus(usage))
    }
}

/// What the answer does not cover, and why.
fn missing(workflow: &Workflow) -> Option<String> {
    let lines: Vec<String> = workflow
        .tasks
        .iter()
        .filter_map(|task| {
            let why = match &task.state {
                TaskRun::Failed { error } => format!("failed: {}", error.message),
                TaskRun::Skipped { because_of } => {
                    format!("skipped, because {because_of} failed")
                }
                TaskRun::Cancelled => "cancelled".to_owned(),
                TaskRun::Pending | TaskRun::Open(_) | TaskRun::Completed { .. } => return None,
            };
            Some(format!("- {} ({}): {why}", task.id, task.agent))
        })
        .collect();
    (!lines.is_empty()).then(|| format!("Not done:\n{}", lines.join("\n")))
}
