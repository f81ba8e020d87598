//! What goes to the scrollback: finished, printed once, never touched again.

use codelab_protocol::{
    AgentName, ApprovalOutcome, CallOutcome, CommandPart, ErrorCode, PlanStatus, TaskId,
    TaskStatus, ToolCall, Usage,
};
use serde_json::{Map, Value};

use super::diff::Before;
use super::markdown::MarkdownPiece;
use super::plan::PlanView;

#[derive(Debug, Clone, PartialEq)]
pub enum Block {
    User(String),
    /// A part of an answer; its first part names who speaks.
    Answer {
        agent: Option<AgentName>,
        piece: MarkdownPiece,
    },
    /// What was printed of an answer does not count: the model began again.
    AnswerRestarted,
    /// The turn ended before the answer did.
    AnswerCut,
    Call(CallEnd),
    Approval(ApprovalShown),
    /// A plan that waits for a person.
    PlanProposed {
        plan: PlanView,
        reason: String,
    },
    /// A request that one agent takes, without a graph.
    Routed {
        agent: AgentName,
        is_fallback: bool,
    },
    TaskEnded {
        id: TaskId,
        agent: AgentName,
        status: TaskStatus,
        note: Option<String>,
    },
    PlanEnded {
        status: PlanStatus,
        can_retry: bool,
    },
    Decided {
        decision: ApprovalOutcome,
        by: String,
        reason: Option<String>,
    },
    Question {
        agent: AgentName,
        question: String,
        options: Vec<String>,
    },
    Answered(String),
    Switched {
        from: AgentName,
        to: AgentName,
        reason: String,
    },
    Queued {
        position: u64,
    },
    Error {
        message: String,
        code: Option<ErrorCode>,
    },
    Spent(Usage),
    Cancelled,
    /// A quiet remark.
    Notice(String),
    /// What a command of the person printed.
    Listing(Vec<String>),
    Plan(PlanView),
}

/// A tool call that is over.
#[derive(Debug, Clone, PartialEq)]
pub struct CallEnd {
    pub call: ToolCall,
    pub task: Option<TaskId>,
    pub end: End,
}

#[derive(Debug, Clone, PartialEq)]
pub enum End {
    Result { value: Value, is_late: bool },
    Closed(CallOutcome),
}

/// What a person decides about, as it was asked.
#[derive(Debug, Clone, PartialEq)]
pub struct ApprovalShown {
    pub agent: Option<AgentName>,
    pub task: Option<TaskId>,
    pub kind: ApprovalCardKind,
    pub reason: String,
    /// The arguments are not those the digest was made of: such a thing must not be approved.
    pub is_forged: bool,
}

#[derive(Debug, Clone, PartialEq)]
pub enum ApprovalCardKind {
    Write {
        arguments: Map<String, Value>,
        before: Before,
    },
    Command {
        command: String,
        cwd: Option<String>,
        parts: Vec<CommandPart>,
    },
    Budget(Map<String, Value>),
    Tool {
        name: String,
        arguments: Map<String, Value>,
    },
}
