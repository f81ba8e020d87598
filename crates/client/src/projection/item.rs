//! The things a person sees in a session.

use codelab_protocol::{
    AgentName, AgentQuestion, ApprovalOutcome, ApprovalRequest, ApproveMode, Attachment, CallId,
    CallOutcome, ErrorData, Gap, HistoryCompacted, McpCall, MessageCreated, MessageDelta,
    MessageId, ModelFallback, ModelWaiting, PartialReason, PlanRequest, RememberedCalls,
    RememberedRevoked, Rewound, Role, SwitchAgent, TaskOrigin, ToolCall, ToolProgress, TurnError,
};
use serde_json::{Map, Value};

use super::PlanView;

/// One entry of the session's timeline.
#[derive(Debug, Clone, PartialEq)]
pub enum SessionItem {
    Message(MessageView),
    Call(Box<CallView>),
    Question(QuestionView),
    Plan(Box<PlanView>),
    Budget(Box<BudgetView>),
    Error(TurnError),
    Note(SessionNote),
}

#[derive(Debug, Clone, PartialEq)]
pub struct MessageView {
    pub message_id: MessageId,
    pub role: Role,
    pub agent: Option<AgentName>,
    pub text: String,
    /// What the model thought before it answered.
    pub reasoning: String,
    pub status: MessageStatus,
    /// What the person should know about this answer, such as that it was cut.
    pub warnings: Vec<String>,
    /// The files that the person sent with it.
    pub attachments: Vec<Attachment>,
    /// The person said it to the agents that were at work.
    pub steered: bool,
    pub origin: TaskOrigin,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MessageStatus {
    /// Tokens still arrive. A higher attempt replaces the text.
    Streaming {
        attempt: u32,
    },
    Complete,
    /// The message reports a failure instead of an answer.
    Error,
    /// A person stopped the turn in the middle of this answer.
    Stopped,
    /// The turn failed in the middle of this answer.
    Failed,
}

#[derive(Debug, Clone, PartialEq)]
pub struct CallView {
    pub call: ToolCall,
    /// The MCP server and its tool, where it is not a built-in one.
    pub mcp: Option<Box<McpCall>>,
    pub agent: Option<AgentName>,
    pub status: ToolCallStatus,
    /// How far it is, where its MCP server says so.
    pub progress: Option<ToolProgress>,
    /// The arguments as the model wrote them, if a person changed them.
    pub proposed_arguments: Option<Map<String, Value>>,
    pub decision: Option<DecisionView>,
    pub origin: TaskOrigin,
}

#[derive(Debug, Clone, PartialEq)]
pub enum ToolCallStatus {
    /// The model asked for it.
    Proposed,
    AwaitingApproval(Box<ApprovalRequest>),
    /// No tool runner is attached that could run it.
    AwaitingClient,
    Running,
    Finished {
        result: Value,
        /// The call had been given up before its result came.
        is_late: bool,
    },
    Closed(CallOutcome),
    /// The call was refused, or the turn went on without it. No event says so.
    NotRun,
}

/// How an approval, a plan or a budget was decided.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DecisionView {
    pub decision: ApprovalOutcome,
    pub decided_by: String,
    pub reason: Option<String>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct QuestionView {
    pub question: AgentQuestion,
    pub status: QuestionStatus,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum QuestionStatus {
    Open,
    Answered(String),
    /// The turn ended without an answer.
    Closed,
}

/// A turn that needs more budget.
#[derive(Debug, Clone, PartialEq)]
pub struct BudgetView {
    pub request: ApprovalRequest,
    pub decision: Option<DecisionView>,
}

#[derive(Debug, Clone, PartialEq)]
pub enum SessionNote {
    AgentSwitched(SwitchAgent),
    HistoryCompacted(HistoryCompacted),
    /// The summary that a person asked for could not be written.
    CompactionFailed(ErrorData),
    /// A person took back what was allowed for the rest of the session.
    RememberedRevoked(RememberedRevoked),
    /// What passes without a question is another thing now.
    ApproveChanged(ApproveMode),
    /// A person took back files, messages or both, or gave them back.
    Rewound(Box<Rewound>),
    /// Another model was asked.
    ModelFallback(ModelFallback),
    /// A call waits until its server can be asked again.
    ModelWaiting(ModelWaiting),
    /// These events were pruned.
    Gap(Gap),
    /// The log was replaced, and this one starts at its beginning.
    StartOver,
}

/// Something that waits for the person.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum WaitingItem<'a> {
    /// A tool call or a budget.
    Approval(&'a ApprovalRequest),
    Plan(&'a PlanRequest),
    Question(&'a AgentQuestion),
}

impl<'a> WaitingItem<'a> {
    pub fn call_id(self) -> &'a CallId {
        match self {
            Self::Approval(request) => &request.approval.call_id,
            Self::Plan(request) => &request.approval.call_id,
            Self::Question(question) => &question.call_id,
        }
    }
}

impl SessionItem {
    /// What of this item waits for the person.
    pub fn waiting(&self) -> Option<WaitingItem<'_>> {
        match self {
            Self::Call(call) => match &call.status {
                ToolCallStatus::AwaitingApproval(request) => Some(WaitingItem::Approval(request)),
                ToolCallStatus::Proposed
                | ToolCallStatus::AwaitingClient
                | ToolCallStatus::Running
                | ToolCallStatus::Finished { .. }
                | ToolCallStatus::Closed(_)
                | ToolCallStatus::NotRun => None,
            },
            Self::Question(view) => (view.status == QuestionStatus::Open)
                .then_some(WaitingItem::Question(&view.question)),
            Self::Plan(view) => view.request.as_ref().map(WaitingItem::Plan),
            Self::Budget(view) => {
                (view.decision.is_none()).then_some(WaitingItem::Approval(&view.request))
            }
            Self::Message(_) | Self::Error(_) | Self::Note(_) => None,
        }
    }

    /// Whether more events about this item are expected.
    pub fn is_open(&self) -> bool {
        match self {
            Self::Message(message) => matches!(message.status, MessageStatus::Streaming { .. }),
            Self::Call(call) => !call.status.is_end(),
            Self::Plan(view) => view.is_open(),
            Self::Question(_) | Self::Budget(_) => self.waiting().is_some(),
            Self::Error(_) | Self::Note(_) => false,
        }
    }

    /// About how much memory it takes.
    pub(super) fn weight_bytes(&self) -> usize {
        match self {
            Self::Message(message) => message.text.len() + message.reasoning.len(),
            Self::Call(view) => {
                let result = match &view.status {
                    ToolCallStatus::Finished { result, .. } => json_bytes(result),
                    ToolCallStatus::AwaitingApproval(request) => {
                        map_bytes(&request.approval.arguments)
                    }
                    ToolCallStatus::Proposed
                    | ToolCallStatus::AwaitingClient
                    | ToolCallStatus::Running
                    | ToolCallStatus::Closed(_)
                    | ToolCallStatus::NotRun => 0,
                };
                let before = view.proposed_arguments.as_ref().map_or(0, map_bytes);
                map_bytes(&view.call.arguments) + before + result
            }
            Self::Question(view) => {
                view.question.question.len()
                    + view.question.options.iter().map(String::len).sum::<usize>()
            }
            Self::Plan(view) => view.weight_bytes(),
            Self::Budget(view) => map_bytes(&view.request.approval.arguments),
            Self::Error(error) => error.error.message.len() + map_bytes(&error.error.details),
            Self::Note(SessionNote::HistoryCompacted(compacted)) => compacted.summary.len(),
            Self::Note(SessionNote::CompactionFailed(error)) => error.message.len(),
            Self::Note(SessionNote::RememberedRevoked(revoked)) => {
                match &revoked.remembered.covers {
                    RememberedCalls::FileWrites => 0,
                    RememberedCalls::Command { command, .. } => command.len(),
                    RememberedCalls::McpTool { tool, .. } => tool.len(),
                }
            }
            Self::Note(SessionNote::Rewound(rewound)) => {
                let left = rewound.left.iter();
                let left = left.map(|left| left.path.len() + left.reason.len());
                let others = rewound.not_covered.iter().map(|other| other.what.len());
                let restored = rewound.restored.iter().map(String::len);
                restored.chain(left).chain(others).sum()
            }
            Self::Note(SessionNote::AgentSwitched(switch)) => switch.reason.len(),
            Self::Note(SessionNote::ModelFallback(fallback)) => {
                fallback.from.len() + fallback.to.len()
            }
            Self::Note(
                SessionNote::ApproveChanged(_)
                | SessionNote::ModelWaiting(_)
                | SessionNote::Gap(_)
                | SessionNote::StartOver,
            ) => 0,
        }
    }
}

impl MessageView {
    pub(super) fn stored(created: &MessageCreated) -> Self {
        let message = &created.message;
        Self {
            message_id: message.message_id.clone(),
            role: message.role,
            agent: message.agent_id.clone(),
            text: message.content.clone(),
            reasoning: message
                .reasoning
                .as_ref()
                .map(|reasoning| reasoning.text.clone())
                .unwrap_or_default(),
            status: match (message.reason, message.error) {
                (Some(PartialReason::Stopped), _) => MessageStatus::Stopped,
                (Some(PartialReason::Failed), _) => MessageStatus::Failed,
                (None, true) => MessageStatus::Error,
                (None, false) => MessageStatus::Complete,
            },
            warnings: message.warnings.clone(),
            attachments: message.attachments.clone(),
            steered: message.steered,
            origin: created.origin.clone(),
        }
    }

    pub(super) fn streamed(delta: &MessageDelta) -> Self {
        Self {
            message_id: delta.message_id.clone(),
            role: Role::Assistant,
            agent: Some(delta.agent.clone()),
            text: String::new(),
            reasoning: String::new(),
            status: MessageStatus::Streaming {
                attempt: delta.attempt,
            },
            warnings: Vec::new(),
            attachments: Vec::new(),
            steered: false,
            origin: delta.origin.clone(),
        }
    }

    /// Adds a delta; the first byte that differs, or `None` if the delta does not fit.
    pub(super) fn stream(&mut self, delta: &MessageDelta) -> Option<usize> {
        let kept = self.begin_piece(delta, |message| &message.text)?;
        let replaced = self.text.split_off(kept);
        self.text.push_str(&delta.content);
        // A repeated text changes nothing up to its end.
        let is_repeated = !replaced.is_empty() && delta.content.starts_with(&replaced);
        Some(if is_repeated {
            kept + replaced.len()
        } else {
            kept
        })
    }
}

impl MessageView {
    /// Adds a piece of what the model thinks. Whether it fits.
    pub(super) fn think(&mut self, delta: &MessageDelta) -> bool {
        let Some(kept) = self.begin_piece(delta, |message| &message.reasoning) else {
            return false;
        };
        self.reasoning.truncate(kept);
        self.reasoning.push_str(&delta.content);
        true
    }

    /// How much of the text stays before this piece, or `None` if the piece does not fit. A higher
    /// attempt replaces the answer and its reasoning.
    fn begin_piece(
        &mut self,
        delta: &MessageDelta,
        text: impl Fn(&Self) -> &String,
    ) -> Option<usize> {
        let MessageStatus::Streaming { attempt } = self.status else {
            return None;
        };
        if delta.attempt < attempt {
            return None;
        }
        if delta.attempt > attempt {
            self.status = MessageStatus::Streaming {
                attempt: delta.attempt,
            };
            self.text.clear();
            self.reasoning.clear();
            return Some(0);
        }
        let kept = usize::try_from(delta.offset).ok()?;
        // Behind a hole nothing can be placed. The stored message closes the hole.
        text(self).get(..kept)?;
        Some(kept)
    }
}

impl CallView {
    pub(super) fn proposed(call: &ToolCall, created: &MessageCreated) -> Self {
        Self {
            call: call.clone(),
            mcp: None,
            agent: created.message.agent_id.clone(),
            status: ToolCallStatus::Proposed,
            progress: None,
            proposed_arguments: None,
            decision: None,
            origin: created.origin.clone(),
        }
    }
}

impl ToolCallStatus {
    /// Whether the call has ended. A late result may still follow.
    pub fn is_end(&self) -> bool {
        match self {
            Self::Finished { .. } | Self::Closed(_) | Self::NotRun => true,
            Self::Proposed | Self::AwaitingApproval(_) | Self::AwaitingClient | Self::Running => {
                false
            }
        }
    }

    /// Whether it was given to tool runners and has not ended.
    pub fn is_running(&self) -> bool {
        matches!(self, Self::Running | Self::AwaitingClient)
    }

    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Proposed => "proposed",
            Self::AwaitingApproval(_) => "awaiting_approval",
            Self::AwaitingClient => "awaiting_client",
            Self::Running => "running",
            Self::Finished { result, .. } if is_failure(result) => "failed",
            Self::Finished { .. } | Self::Closed(CallOutcome::Completed) => "completed",
            Self::Closed(CallOutcome::Rejected) => "rejected",
            Self::Closed(CallOutcome::Cancelled) => "cancelled",
            Self::Closed(CallOutcome::Expired) => "expired",
            Self::Closed(CallOutcome::Unknown) => "unknown",
            Self::NotRun => "not_run",
        }
    }
}

/// A tool reports its failure in its result: `success` is false, or there is only an `error`.
fn is_failure(result: &Value) -> bool {
    match result.get("success") {
        Some(success) => *success == Value::Bool(false),
        None => result.get("error").is_some_and(Value::is_string),
    }
}

fn map_bytes(map: &Map<String, Value>) -> usize {
    map.iter()
        .map(|(name, value)| name.len() + json_bytes(value))
        .sum()
}

fn json_bytes(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 8,
        Value::String(text) => text.len(),
        Value::Array(values) => values.iter().map(json_bytes).sum(),
        Value::Object(map) => map_bytes(map),
    }
}
