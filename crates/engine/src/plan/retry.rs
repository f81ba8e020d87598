//! Running a stored plan again: what ended well stays as it is.

use codelab_protocol::{ErrorCode, MessageId, Plan, PlanStatus, SessionKind, Task, TaskStatus};

use super::{TaskRun, TaskState, Workflow, WorkflowPhase};
use crate::prompt::without_middle;
use crate::session::Transition;
use crate::turn::{Turn, TurnWork};
use crate::world::MAX_REQUEST_BYTES;
use crate::{CallerAnswer, EventRange, Refusal};

impl Transition<'_, '_> {
    /// A plan whose request was taken back does not run: nobody would see its answer.
    pub(crate) fn retry_stored_plan(
        &mut self,
        plan: Plan,
        request: &str,
        message_id: Option<MessageId>,
        is_rewound: bool,
    ) -> Result<CallerAnswer, Refusal> {
        if is_rewound {
            let why = "The plan's request was taken back by a rewind; undo that first";
            return Err(Refusal::new(ErrorCode::Conflict, why));
        }
        self.retry_plan(plan, request, message_id)
    }

    /// Runs the tasks of an ended plan again that failed, were skipped or cancelled. `message_id`:
    /// what it was made for.
    pub(crate) fn retry_plan(
        &mut self,
        plan: Plan,
        request: &str,
        message_id: Option<MessageId>,
    ) -> Result<CallerAnswer, Refusal> {
        if self.session.kind != SessionKind::Project || !self.session.is_idle() {
            return Err(Refusal::new(
                ErrorCode::Conflict,
                "The session is busy; retry when its turn has ended",
            ));
        }
        let is_open = |task: &&Task| task.status != TaskStatus::Completed;
        // One that was cancelled while its results were joined has no task to run, but no answer
        // either.
        if !plan.status.has_ended() || plan.status == PlanStatus::Completed || plan.tasks.is_empty()
        {
            return Err(Refusal::new(
                ErrorCode::Conflict,
                "The plan has no tasks to run again",
            ));
        }
        // A plan that a person refused, or never saw, does not start this way.
        if plan.requires_approval && plan.tasks.iter().all(never_ran) {
            return Err(Refusal::new(
                ErrorCode::Conflict,
                "None of the plan's tasks has run; send the request again",
            ));
        }
        self.agents_are_there(plan.tasks.iter().filter(is_open))?;
        let span = self.resume_plan(plan, request, message_id);
        // What had failed is open again, for everybody who looks.
        self.show_plan();
        Ok(CallerAnswer::Span(span))
    }

    /// The agents of tasks that are to run can have left the team since.
    pub(crate) fn agents_are_there<'t>(
        &self,
        tasks: impl IntoIterator<Item = &'t Task>,
    ) -> Result<(), Refusal> {
        let mut tasks = tasks.into_iter();
        let gone = tasks.find(|task| self.world.team.get(&task.agent).is_none());
        match gone {
            None => Ok(()),
            Some(task) => {
                let message = format!("Agent not found: {}", task.agent);
                let refusal = Refusal::new(ErrorCode::AgentNotFound, message);
                Err(refusal.with("agent", task.agent.as_str()))
            }
        }
    }

    /// A stored plan goes on in a turn of its own. `message_id`: what it was made for.
    pub(crate) fn resume_plan(
        &mut self,
        plan: Plan,
        request: &str,
        message_id: Option<MessageId>,
    ) -> EventRange {
        let span = EventRange {
            turn: self.session.new_turn_id(),
            after_seq: self.session.last_seq,
        };
        let workflow = Workflow {
            plan_id: plan.plan_id,
            workflow_id: plan.workflow_id,
            phase: WorkflowPhase::Running,
            fallback: plan.fallback,
            requires_approval: plan.requires_approval,
            tasks: plan.tasks.into_iter().map(TaskState::again).collect(),
            usage: None,
            reserved: None,
        };
        let message_id = message_id.unwrap_or_else(|| self.world.ids.message_id());
        let work = TurnWork::Workflow(Box::new(workflow));
        // As with a new message: nobody handed this over.
        (self.session.last_switch, self.session.ended) = (None, None);
        let request = without_middle(request, MAX_REQUEST_BYTES);
        self.session.turn = Some(Turn {
            id: span.turn,
            message_id,
            called: None,
            request,
            work,
            earlier: self.session.compaction.said(),
            shown: self.session.compaction.shown(),
            left_out: 0,
            keeps_reasoning: false,
            said: Vec::new(),
            told: Vec::new(),
        });
        span
    }
}

fn never_ran(task: &Task) -> bool {
    task.status == TaskStatus::Cancelled && task.usage.is_none()
}

impl TaskState {
    /// A task of a stored plan that is run again where it did not end well.
    fn again(task: Task) -> Self {
        let state = match task.result {
            Some(result) if task.status == TaskStatus::Completed => TaskRun::Completed { result },
            Some(_) | None => TaskRun::Pending,
        };
        Self {
            id: task.id,
            agent: task.agent,
            description: task.description,
            depends_on: task.depends_on,
            paths: task.paths,
            estimated_tokens: task.estimated_tokens,
            estimated_cost_usd: task.estimated_cost_usd,
            state,
            usage: task.usage,
        }
    }
}
