//! How effects read in a transcript.

use codelab_engine::{Budget, Effect, EventBody, ModelCall, Purpose};
use codelab_protocol::{
    ChunkBody, ErrorData, FileBase, ModelFallback, Plan, RememberedCalls, Role, SessionEventBody,
    TaskId, TaskOrigin, ToolCallChunk,
};
use serde_json::{Map, Value};

/// None where a person would not notice it.
pub fn effect(effect: &Effect) -> Option<String> {
    Some(match effect {
        Effect::Event(event) => {
            let settled = event
                .settled
                .map(|status| format!(" = {}", status.as_str()))
                .unwrap_or_default();
            let text = match &event.body {
                EventBody::Chunk(body) => chunk(body),
                EventBody::Project(body) => chat(body),
            };
            format!("{} {text}{settled}", event.seq)
        }
        Effect::Message(record) => {
            let calls: Vec<String> = record
                .message
                .tool_calls
                .iter()
                .map(|call| format!(" +{}", call.name))
                .collect();
            let role = match record.message.role {
                Role::Assistant => record.message.name.clone().unwrap(),
                role => role.as_str().to_owned(),
            };
            let task = record.task.as_ref().map(of).unwrap_or_default();
            let error = if record.message.error { " (error)" } else { "" };
            let partial = match (record.message.partial, record.message.reason) {
                (true, Some(reason)) => format!(" ({reason:?})"),
                (false, None) => String::new(),
                odd => panic!("partial and its reason are one thing: {odd:?}"),
            };
            let why = match &record.message.error_message {
                Some(why) => format!(" because {}", why.replace('\n', " / ")),
                None => String::new(),
            };
            let retried = match &record.message.retries {
                Some(_) => " (again)",
                None if record.message.steered => " (steered)",
                None => "",
            };
            let content = record.message.content.replace('\n', "\n        ");
            format!(
                "history{task} {role}: {content}{}{error}{partial}{why}{retried}",
                calls.concat()
            )
        }
        Effect::ApprovalOpened(approval) => {
            format!("approval opened: {} ({})", approval.tool, approval.reason)
        }
        Effect::ApprovalClosed { status, .. } => format!("approval closed: {status:?}"),
        Effect::ApprovalMoved { expires_at, .. } => format!("approval now expires at {expires_at}"),
        Effect::ApprovalPreviewed { .. } => return None,
        Effect::CallClosed { status, .. } => format!("call closed: {status:?}"),
        Effect::HistoryHidden { rewind_id, from } => {
            format!("hidden from turn {from} by {rewind_id}")
        }
        Effect::HistoryShown { rewind_id } => format!("shown again: {rewind_id}"),
        Effect::Audit(row) => {
            let modified = row
                .modified
                .as_ref()
                .map(|args| format!(" → {}", json(args)))
                .unwrap_or_default();
            format!(
                "audit {} by {}: {}{modified}",
                row.decision.as_str(),
                row.decided_by,
                json(&row.original)
            )
        }
        Effect::ForgetReasoning { .. } | Effect::Attached(_) => return None,
        Effect::Title(title) => format!("title {title}"),
        Effect::CallModel(call) => {
            let most = call
                .max_tokens
                .map(|tokens| format!(", at most {tokens} tokens"))
                .unwrap_or_default();
            format!("{}{most}", asked(call))
        }
        Effect::PlanSaved { plan, .. } => format!("plan saved: {}", statuses(plan)),
        Effect::Spent(spent) => {
            let task = spent
                .task
                .as_ref()
                .map(|task| format!("[{task}]"))
                .unwrap_or_default();
            format!(
                "spent by {}{task}: {} tokens",
                spent.agent, spent.usage.total_tokens
            )
        }
        Effect::ProjectBudget { budget, granted } => {
            format!(
                "project budget: {}, {} tokens by approvals",
                limits(budget),
                granted.tokens
            )
        }
        Effect::Remember(past) => {
            let how = if past.success { "success" } else { "failure" };
            format!(
                "{} remembers a {how}: {}",
                past.agent,
                past.text.replace('\n', " / ")
            )
        }
        Effect::CallTool {
            tool, arguments, ..
        } => format!(
            "call {} of {} with {}",
            tool.tool,
            tool.server,
            json(arguments)
        ),
        Effect::Elicited { content, .. } => match content {
            Some(content) => format!("the server gets {}", json(content)),
            None => "the server gets no answer".to_owned(),
        },
        Effect::CallOpened { .. }
        | Effect::Switched(_)
        | Effect::InputAccepted { .. }
        | Effect::TakeSlot { .. }
        | Effect::QueueForSlot { .. }
        | Effect::LeaveSlot { .. }
        | Effect::AgentQueueFull { .. }
        | Effect::ReserveBudget { .. }
        | Effect::SpendBudget { .. } => {
            return None;
        }
    })
}

fn asked(call: &ModelCall) -> String {
    match &call.purpose {
        Purpose::Classify { .. } => format!("classify, attempt {}", call.id.attempt),
        Purpose::Step { origin, .. } => {
            let (step, attempt) = (call.id.step, call.id.attempt);
            format!(
                "call model for {}{}, step {step}, attempt {attempt}",
                call.agent,
                of(origin)
            )
        }
        Purpose::Plan { repair: None } => format!("ask for a plan, attempt {}", call.id.attempt),
        Purpose::Plan {
            repair: Some(repair),
        } => {
            format!(
                "ask for a better plan, attempt {}: {}",
                call.id.attempt, repair.error
            )
        }
        Purpose::Summarize { from, before } => {
            format!(
                "sum up messages {from}..{before}, attempt {}",
                call.id.attempt
            )
        }
        Purpose::Join { results, .. } => format!(
            "join {} results, attempt {}",
            results.len(),
            call.id.attempt
        ),
    }
}

fn chunk(body: &ChunkBody) -> String {
    match body {
        ChunkBody::AssistantMessage(message) => {
            format!("{} says: {}", message.agent, message.content)
        }
        ChunkBody::ModelFallback(fallback) => model_fallback(fallback),
        ChunkBody::ModelWaiting(waiting) => format!("model_waiting {}", waiting.kind.as_str()),
        ChunkBody::AssistantDelta(_) | ChunkBody::ReasoningDelta(_) | ChunkBody::Gap(_) => {
            "never an event of the engine".to_owned()
        }
        ChunkBody::ToolCall(call) => tool_call(call),
        ChunkBody::ToolResult(result) => {
            format!("tool_result {}: {}", result.tool_name, result.result)
        }
        ChunkBody::SwitchAgent(switch) => {
            format!(
                "switch {} → {} ({})",
                switch.from_agent, switch.to_agent, switch.reason
            )
        }
        ChunkBody::Question(question) => {
            format!("question: {} {:?}", question.question, question.options)
        }
        ChunkBody::Error(error) => format!("error {}", failure(error)),
        ChunkBody::Completion(completion) => {
            format!("completion by {}: {}", completion.agent, completion.message)
        }
    }
}

fn chat(body: &SessionEventBody) -> String {
    use SessionEventBody as E;
    match body {
        E::MessageCreated(created) => {
            let who = created
                .message
                .name
                .clone()
                .unwrap_or_else(|| created.message.role.as_str().to_owned());
            format!("message_created{} by {who}", of(&created.origin))
        }
        E::MessageQueued(queued) => {
            let steers = if queued.steers { " to steer" } else { "" };
            let (position, content) = (queued.position, &queued.content);
            format!("message_queued{steers}, position {position}: {content}")
        }
        E::MessageDequeued(back) => format!("message_dequeued {:?}", back.reason),
        E::DirectAgentCall(call) => format!("direct_agent_call {}", call.agent),
        E::AgentStatusChanged(changed) => {
            format!(
                "agent_status_changed{} {} {}",
                of(&changed.origin),
                changed.agent,
                changed.status.as_str()
            )
        }
        E::AgentSwitched(switch) => {
            format!(
                "agent_switched {} → {} ({})",
                switch.from_agent, switch.to_agent, switch.reason
            )
        }
        E::TaskPlanCreated(plan) => {
            let cost = if plan.cost_known {
                ""
            } else {
                ", more or less"
            };
            let fallback = if plan.fallback { ", a fallback" } else { "" };
            let tasks: Vec<String> = plan
                .tasks
                .iter()
                .map(|task| {
                    let needs: Vec<&str> = task.depends_on.iter().map(|id| id.as_str()).collect();
                    format!(" {}={}<{}", task.id, task.agent, needs.join(","))
                })
                .collect();
            let (tasks, usd) = (tasks.concat(), plan.estimated_cost_usd);
            format!(
                "task_plan_created {}{tasks} for ${usd:.2}{cost}{fallback}",
                plan.status.as_str()
            )
        }
        E::PlanRequest(request) => format!("plan_request: {}", request.approval.reason),
        E::PlanResolved(resolved) => {
            let tasks: Vec<String> = resolved
                .tasks
                .iter()
                .map(|task| format!(" {}={}", task.id, task.agent))
                .collect();
            format!(
                "plan_resolved {} by {}{}",
                resolved.decision.as_str(),
                resolved.decided_by,
                tasks.concat()
            )
        }
        E::TaskStarted(started) => format!("task_started[{}] {}", started.task_id, started.agent),
        E::TaskProgress(done) => {
            let (step, note) = (done.step, &done.note);
            format!(
                "task_progress[{}] step {step}: {note} ({}/{})",
                done.task_id, done.tasks_done, done.tasks_total
            )
        }
        E::TaskCompleted(done) => format!(
            "task_completed{} {}: {}",
            of(&done.origin),
            done.agent,
            done.response
        ),
        E::TaskFailed(failed) => {
            format!("task_failed[{}] {}", failed.task_id, failure(&failed.error))
        }
        E::TaskSkipped(skipped) => format!(
            "task_skipped[{}] because of {}",
            skipped.task_id, skipped.because_of
        ),
        E::WorkflowCompleted(done) => {
            let tokens = done
                .usage
                .as_ref()
                .map(|usage| format!(", {} tokens", usage.total_tokens))
                .unwrap_or_default();
            format!(
                "workflow_completed {:?}{tokens}: {}",
                done.status,
                done.response.replace('\n', " / ")
            )
        }
        E::ToolCall(call) => {
            let alone = if call.client_attached {
                ""
            } else {
                ", nobody is there"
            };
            format!("{}{}{alone}", tool_call(&call.call), of(&call.origin))
        }
        E::ToolResult(result) => {
            let late = if result.late { " late" } else { "" };
            format!(
                "tool_result{}{late} {}: {}",
                of(&result.origin),
                result.tool_name,
                result.result
            )
        }
        E::ToolProgress(_) => "tool_progress".to_owned(),
        E::ToolCallClosed(closed) => format!("tool_call_closed {:?}", closed.outcome),
        E::ApprovalPreview(shown) => {
            format!(
                "approval_preview{} {}",
                of(&shown.origin),
                shown.preview.diff
            )
        }
        E::ApprovalRequest(request) => {
            let approval = &request.approval;
            let set_aside = match &approval.arguments.get("reserved") {
                Some(reserved) => format!(", {} set aside", reserved["tokens"]),
                None => String::new(),
            };
            format!(
                "approval_request{} {}: {}{set_aside}",
                of(&request.origin),
                approval.kind.as_str(),
                approval.reason
            )
        }
        E::ApprovalResolved(resolved) => {
            format!(
                "approval_resolved {} {} by {}",
                resolved.kind.as_str(),
                resolved.decision.as_str(),
                resolved.decided_by
            )
        }
        E::Question(question) => {
            let server = match &question.server {
                Some(server) => format!(" by the server {server}"),
                None => String::new(),
            };
            let asked = &question.question;
            format!("question{}{server}: {asked}", of(&question.origin))
        }
        E::Error(error) => format!("error{} {}", of(&error.origin), failure(&error.error)),
        E::HistoryCompacting(compacting) => format!("history_compacting {}", compacting.messages),
        E::CompactionFailed(error) => format!(
            "compaction_failed {}: {}",
            error.error_code.as_str(),
            error.message
        ),
        E::Rewound(rewound) => format!(
            "rewound {}{} {:?} restored {:?} left {} not covered {:?}{}",
            rewound.rewind_id,
            if rewound.undone { " undone" } else { "" },
            rewound.scope,
            rewound.restored,
            rewound.left.len(),
            rewound
                .not_covered
                .iter()
                .map(|other| other.what.as_str())
                .collect::<Vec<_>>(),
            rewound
                .error
                .as_ref()
                .map_or(String::new(), |error| format!(": {error}")),
        ),
        E::ApproveChanged(changed) => format!("approve_changed {:?}", changed.approve),
        E::RememberedRevoked(revoked) => {
            let covers = match &revoked.remembered.covers {
                RememberedCalls::FileWrites => "file writes".to_owned(),
                RememberedCalls::Command { command, cwd } => format!("{command} in {cwd:?}"),
                RememberedCalls::McpTool { server, tool } => format!("{tool} of {server}"),
            };
            format!("remembered_revoked {covers} by {}", revoked.revoked_by)
        }
        E::HistoryCompacted(compacted) => format!(
            "history_compacted {}: {}",
            compacted.messages, compacted.summary
        ),
        E::ModelFallback(fallback) => model_fallback(fallback),
        E::ModelWaiting(waiting) => format!(
            "model_waiting{} {}",
            of(&waiting.origin),
            waiting.kind.as_str()
        ),
        E::WaitingAdded(waiting) => format!(
            "waiting_added {:?} of {}: {}",
            waiting.kind, waiting.agent, waiting.text
        ),
        E::WaitingRemoved(_) => "waiting_removed".to_owned(),
        E::MessageDelta(_) | E::ReasoningDelta(_) | E::Gap(_) => {
            "never an event of the engine".to_owned()
        }
    }
}

fn tool_call(call: &ToolCallChunk) -> String {
    let state = match (call.requires_approval, call.approved) {
        (true, _) => " needs approval",
        (false, true) => " approved",
        (false, false) => "",
    };
    let bound = match &call.base {
        None => String::new(),
        Some(FileBase::Missing) => " if there is no file".to_owned(),
        Some(FileBase::Content(digest)) => format!(" if it is {}", &digest.as_str()[..4]),
    };
    format!(
        "tool_call {} {}{state}{bound}",
        call.tool_call.name,
        json(&call.tool_call.arguments)
    )
}

fn failure(error: &ErrorData) -> String {
    format!("{}: {}", error.error_code.as_str(), error.message)
}

fn of(origin: &TaskOrigin) -> String {
    origin
        .task_id
        .as_ref()
        .map(|task| format!("[{task}]"))
        .unwrap_or_default()
}

fn statuses(plan: &Plan) -> String {
    let tasks: Vec<String> = plan
        .tasks
        .iter()
        .map(|task| {
            let waits: Vec<&str> = task.waits_for.iter().map(TaskId::as_str).collect();
            let waits = match waits.is_empty() {
                true => String::new(),
                false => format!("(waits for {})", waits.join(",")),
            };
            format!(" {}={:?}{waits}", task.id, task.status)
        })
        .collect();
    format!("{}{}", plan.status.as_str(), tasks.concat())
}

fn limits(budget: &Budget) -> String {
    let Budget { usd, tokens } = budget;
    format!("{usd:?} usd, {tokens:?} tokens")
}

fn json(arguments: &Map<String, Value>) -> Value {
    Value::from(arguments.clone())
}

fn model_fallback(fallback: &ModelFallback) -> String {
    let ModelFallback {
        from,
        to,
        kind,
        origin,
        ..
    } = fallback;
    format!(
        "model_fallback{} {from} → {to}: {}",
        of(origin),
        kind.as_str()
    )
}
