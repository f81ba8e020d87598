//! Plans: a graph of tasks, each for one agent, and a workflow that executes one.
//!
//! Here is what a workflow is; what happens to it is in `planning`, `running`, `ending` and
//! `retry`.

mod ending;
mod fallback;
mod graph;
mod own_call;
mod planning;
mod results;
mod retry;
mod running;
mod workflow;
mod written;

use codelab_protocol::{
    AgentName, CallId, ErrorData, MessageId, Plan, PlanId, PlanStatus, PlannedTask, Task, TaskId,
    TaskOrigin, TaskStatus, Timestamp, TurnId, TurnStatus, Usage, WorkflowId, paths_overlap,
};
use serde::{Deserialize, Serialize};

pub use written::parse_plan;

use crate::turn::{Thread, ThreadPhase};
use crate::{Approval, BudgetScope, BudgetWhy, Lane, ModelCallId, Spending};

/// A plan on its way.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Workflow {
    pub(crate) plan_id: PlanId,
    pub(crate) workflow_id: WorkflowId,
    pub(crate) phase: WorkflowPhase,
    pub(crate) fallback: bool,
    pub(crate) requires_approval: bool,
    pub(crate) tasks: Vec<TaskState>,
    pub(crate) usage: Option<Usage>,
    /// What its own model call under way may cost.
    pub(crate) reserved: Option<Spending>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "phase", rename_all = "snake_case")]
pub(crate) enum WorkflowPhase {
    /// A person decides whether anything more may be spent before there is a plan.
    AwaitingBudget {
        approval: Box<Approval>,
        scope: BudgetScope,
        #[serde(default)]
        why: BudgetWhy,
        /// Of the call that plans: it may have been made before and lost with a server.
        #[serde(default)]
        attempt: u32,
    },
    /// The budget has no room for the next call of the workflow itself before others end.
    AwaitingRoom {
        next: Box<WorkflowPhase>,
    },
    /// The model writes the plan, or mends one that cannot be used.
    Planning {
        attempt: u32,
        repair: Option<Repair>,
    },
    /// A person decides about the plan.
    AwaitingApproval {
        approval: Box<Approval>,
    },
    Running,
    /// The model joins the tasks' results to one answer.
    Joining {
        message_id: MessageId,
        attempt: u32,
    },
}

/// What was wrong with the first plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Repair {
    pub answer: String,
    pub error: String,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct TaskState {
    pub id: TaskId,
    pub agent: AgentName,
    pub description: String,
    pub depends_on: Vec<TaskId>,
    /// The files and folders that it will write.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub paths: Vec<String>,
    pub estimated_tokens: u64,
    pub estimated_cost_usd: Option<f64>,
    pub state: TaskRun,
    pub usage: Option<Usage>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum TaskRun {
    Pending,
    /// Absent only within a step that holds it.
    Open(Option<Box<Thread>>),
    Completed {
        result: String,
    },
    Failed {
        error: ErrorData,
    },
    Skipped {
        because_of: TaskId,
    },
    Cancelled,
}

impl Workflow {
    pub fn plan_id(&self) -> &PlanId {
        &self.plan_id
    }

    pub fn workflow_id(&self) -> &WorkflowId {
        &self.workflow_id
    }

    pub(crate) fn threads(&self) -> impl Iterator<Item = &Thread> {
        self.tasks.iter().filter_map(|task| match &task.state {
            TaskRun::Open(thread) => thread.as_deref(),
            TaskRun::Pending
            | TaskRun::Completed { .. }
            | TaskRun::Failed { .. }
            | TaskRun::Skipped { .. }
            | TaskRun::Cancelled => None,
        })
    }

    pub(crate) fn threads_mut(&mut self) -> impl Iterator<Item = &mut Thread> {
        self.tasks.iter_mut().filter_map(TaskState::thread_mut)
    }

    pub(crate) fn take_thread(&mut self, task: usize) -> Option<Thread> {
        match &mut self.tasks.get_mut(task)?.state {
            TaskRun::Open(thread) => thread.take().map(|thread| *thread),
            TaskRun::Pending
            | TaskRun::Completed { .. }
            | TaskRun::Failed { .. }
            | TaskRun::Skipped { .. }
            | TaskRun::Cancelled => None,
        }
    }

    pub(crate) fn take_all_threads(&mut self) -> Vec<Thread> {
        (0..self.tasks.len())
            .filter_map(|task| self.take_thread(task))
            .collect()
    }

    pub(crate) fn put_thread(&mut self, task: usize, thread: Thread) {
        match self.tasks.get_mut(task) {
            Some(task) => task.state = TaskRun::Open(Some(Box::new(thread))),
            None => never!("a thread is put into a plan that has no such task"),
        }
    }

    pub(crate) fn origin(&self, task: usize) -> Option<TaskOrigin> {
        let task = self.tasks.get(task)?;
        Some(TaskOrigin {
            plan_id: Some(self.plan_id.clone()),
            task_id: Some(task.id.clone()),
        })
    }

    pub(crate) fn description(&self, task: usize) -> Option<&str> {
        self.tasks.get(task).map(|task| task.description.as_str())
    }

    /// The workflow's own model call in this phase: to plan, to repair the plan, or to join
    /// results.
    pub(crate) fn model_call(&self, turn: TurnId) -> Option<ModelCallId> {
        let (step, attempt) = match &self.phase {
            WorkflowPhase::Planning {
                attempt,
                repair: None,
            } => (1, *attempt),
            WorkflowPhase::Planning {
                attempt,
                repair: Some(_),
            } => (2, *attempt),
            WorkflowPhase::Joining { attempt, .. } => (3, *attempt),
            WorkflowPhase::AwaitingBudget { .. }
            | WorkflowPhase::AwaitingRoom { .. }
            | WorkflowPhase::AwaitingApproval { .. }
            | WorkflowPhase::Running => return None,
        };
        Some(ModelCallId {
            turn,
            lane: Lane::OWN,
            step,
            attempt,
        })
    }

    pub(crate) fn awaits_room(&self) -> bool {
        matches!(self.phase, WorkflowPhase::AwaitingRoom { .. })
    }

    pub(crate) fn awaited(&self) -> Option<&MessageId> {
        match &self.phase {
            WorkflowPhase::Joining { message_id, .. } => Some(message_id),
            WorkflowPhase::AwaitingBudget { .. }
            | WorkflowPhase::AwaitingRoom { .. }
            | WorkflowPhase::Planning { .. }
            | WorkflowPhase::AwaitingApproval { .. }
            | WorkflowPhase::Running => None,
        }
    }

    pub(crate) fn approval(&self) -> Option<&Approval> {
        match &self.phase {
            WorkflowPhase::AwaitingApproval { approval }
            | WorkflowPhase::AwaitingBudget { approval, .. } => Some(approval),
            WorkflowPhase::AwaitingRoom { .. }
            | WorkflowPhase::Planning { .. }
            | WorkflowPhase::Running
            | WorkflowPhase::Joining { .. } => None,
        }
    }

    pub(crate) fn deadline(&self) -> Option<Timestamp> {
        self.approval().and_then(|approval| approval.expires_at)
    }

    pub(crate) fn suspended(&self) -> Option<TurnStatus> {
        match &self.phase {
            WorkflowPhase::AwaitingApproval { .. } | WorkflowPhase::AwaitingBudget { .. } => {
                Some(TurnStatus::AwaitingApproval)
            }
            WorkflowPhase::Planning { .. }
            | WorkflowPhase::Joining { .. }
            | WorkflowPhase::AwaitingRoom { .. } => None,
            WorkflowPhase::Running => {
                let statuses: Option<Vec<TurnStatus>> = self
                    .threads()
                    .map(|thread| thread.phase.suspended())
                    .collect();
                let statuses = statuses?;
                let order = [
                    TurnStatus::AwaitingApproval,
                    TurnStatus::AwaitingAnswer,
                    TurnStatus::AwaitingToolResult,
                ];
                order.into_iter().find(|status| statuses.contains(status))
            }
        }
    }

    /// The tasks that may start, in the order of the plan: everything they depend on is done, and no
    /// task that runs writes the same files. One that waits for files keeps later tasks from them,
    /// so that its turn comes.
    pub(crate) fn ready(&self) -> Vec<usize> {
        let mut taken: Vec<&TaskState> = self.tasks.iter().filter(|task| task.is_open()).collect();
        let mut starts = Vec::new();
        for index in self.unblocked() {
            let Some(task) = self.tasks.get(index) else {
                continue;
            };
            let is_free = |other: &&TaskState| !paths_overlap(&task.paths, &other.paths);
            if taken.iter().all(is_free) {
                starts.push(index);
            }
            taken.push(task);
        }
        starts
    }

    /// The tasks that have not begun and depend on nothing that is not done.
    fn unblocked(&self) -> Vec<usize> {
        let done = |id: &TaskId| {
            self.tasks
                .iter()
                .any(|task| task.id == *id && matches!(task.state, TaskRun::Completed { .. }))
        };
        let is_ready = |task: &TaskState| {
            matches!(task.state, TaskRun::Pending) && task.depends_on.iter().all(done)
        };
        self.tasks
            .iter()
            .enumerate()
            .filter(|(_, task)| is_ready(task))
            .map(|(index, _)| index)
            .collect()
    }

    /// Marks every task that can no longer run because this one failed; gives their indexes.
    pub(crate) fn skip_dependents(&mut self, failed: &TaskId) -> Vec<usize> {
        let mut skipped = Vec::new();
        let mut lost = vec![failed.clone()];
        while let Some(id) = lost.pop() {
            for (index, task) in self.tasks.iter_mut().enumerate() {
                if matches!(task.state, TaskRun::Pending) && task.depends_on.contains(&id) {
                    task.state = TaskRun::Skipped {
                        because_of: failed.clone(),
                    };
                    lost.push(task.id.clone());
                    skipped.push(index);
                }
            }
        }
        skipped.sort_unstable();
        skipped
    }

    pub(crate) fn is_open(&self, task: &TaskId) -> bool {
        self.tasks
            .iter()
            .any(|known| known.id == *task && known.is_open())
    }

    pub(crate) fn has_open_tasks(&self) -> bool {
        self.tasks
            .iter()
            .any(|task| matches!(task.state, TaskRun::Pending | TaskRun::Open(_)))
    }

    pub(crate) fn completed(&self) -> impl Iterator<Item = (&TaskState, &str)> {
        self.tasks.iter().filter_map(|task| match &task.state {
            TaskRun::Completed { result } => Some((task, result.as_str())),
            TaskRun::Pending
            | TaskRun::Open(_)
            | TaskRun::Failed { .. }
            | TaskRun::Skipped { .. }
            | TaskRun::Cancelled => None,
        })
    }

    /// The workflow as people see it.
    pub fn plan(&self, ended: Option<PlanStatus>) -> Plan {
        let status = ended.unwrap_or(match self.phase {
            WorkflowPhase::AwaitingApproval { .. } => PlanStatus::AwaitingApproval,
            WorkflowPhase::AwaitingBudget { .. }
            | WorkflowPhase::AwaitingRoom { .. }
            | WorkflowPhase::Planning { .. }
            | WorkflowPhase::Running
            | WorkflowPhase::Joining { .. } => PlanStatus::Running,
        });
        let mut plan = Plan {
            plan_id: self.plan_id.clone(),
            workflow_id: self.workflow_id.clone(),
            status,
            fallback: self.fallback,
            estimated_cost_usd: self.estimated_cost_usd(),
            cost_known: self
                .tasks
                .iter()
                .all(|task| task.estimated_cost_usd.is_some()),
            requires_approval: self.requires_approval,
            tasks: self.tasks.iter().map(TaskState::shown).collect(),
        };
        let waits: Vec<_> = plan.tasks.iter().map(|task| plan.waits_for(task)).collect();
        for (task, waits_for) in plan.tasks.iter_mut().zip(waits) {
            task.waits_for = waits_for;
        }
        plan
    }

    pub(crate) fn estimated_cost_usd(&self) -> f64 {
        self.tasks
            .iter()
            .filter_map(|task| task.estimated_cost_usd)
            .fold(0.0, |sum, usd| sum + usd)
    }

    /// What the plan may use, where what that costs is not known.
    pub(crate) fn unpriced_tokens(&self) -> Option<u64> {
        let is_known = self
            .tasks
            .iter()
            .all(|task| task.estimated_cost_usd.is_some());
        (!is_known).then(|| {
            self.tasks
                .iter()
                .fold(0_u64, |sum, task| sum.saturating_add(task.estimated_tokens))
        })
    }

    pub(crate) fn call_id(&self) -> Option<CallId> {
        CallId::parse(self.plan_id.as_str()).ok()
    }
}

impl TaskState {
    fn is_open(&self) -> bool {
        matches!(self.state, TaskRun::Open(_))
    }

    fn status(&self) -> TaskStatus {
        match &self.state {
            TaskRun::Pending => TaskStatus::Pending,
            TaskRun::Open(thread) => match thread.as_ref().map(|thread| &thread.phase) {
                Some(ThreadPhase::Queued | ThreadPhase::AwaitingRoom) => TaskStatus::Queued,
                Some(phase) if phase.suspended().is_some() => TaskStatus::Waiting,
                // Absent only while a step holds the thread.
                Some(_) | None => TaskStatus::Running,
            },
            TaskRun::Completed { .. } => TaskStatus::Completed,
            TaskRun::Failed { .. } => TaskStatus::Failed,
            TaskRun::Skipped { .. } => TaskStatus::Skipped,
            TaskRun::Cancelled => TaskStatus::Cancelled,
        }
    }

    pub(crate) fn thread_mut(&mut self) -> Option<&mut Thread> {
        match &mut self.state {
            TaskRun::Open(thread) => thread.as_deref_mut(),
            TaskRun::Pending
            | TaskRun::Completed { .. }
            | TaskRun::Failed { .. }
            | TaskRun::Skipped { .. }
            | TaskRun::Cancelled => None,
        }
    }

    fn shown(&self) -> Task {
        Task {
            id: self.id.clone(),
            agent: self.agent.clone(),
            description: self.description.clone(),
            depends_on: self.depends_on.clone(),
            paths: self.paths.clone(),
            waits_for: Vec::new(),
            status: self.status(),
            estimated_tokens: self.estimated_tokens,
            estimated_cost_usd: self.estimated_cost_usd,
            result: match &self.state {
                TaskRun::Completed { result } => Some(result.clone()),
                TaskRun::Pending
                | TaskRun::Open(_)
                | TaskRun::Failed { .. }
                | TaskRun::Skipped { .. }
                | TaskRun::Cancelled => None,
            },
            error: match &self.state {
                TaskRun::Failed { error } => Some(error.clone()),
                TaskRun::Pending
                | TaskRun::Open(_)
                | TaskRun::Completed { .. }
                | TaskRun::Skipped { .. }
                | TaskRun::Cancelled => None,
            },
            usage: self.usage.clone(),
        }
    }

    pub(crate) fn planned(&self) -> PlannedTask {
        PlannedTask {
            id: self.id.clone(),
            agent: self.agent.as_str().to_owned(),
            description: self.description.clone(),
            depends_on: self.depends_on.clone(),
            paths: self.paths.clone(),
            estimated_tokens: self.estimated_tokens,
        }
    }
}
