//! What goes to the scrollback. A block is printed once and never changed.

use codelab_client::PlanView;
use codelab_protocol::{
    AgentName, ApprovalOutcome, CallOutcome, CommandPart, ErrorCode, ErrorData, McpCall,
    McpServerName, PlanStatus, TaskId, TaskStatus, ToolCall, Usage,
};
use serde_json::{Map, Value};

use super::diff::Diff;
use super::markdown::MarkdownPiece;
use super::state::Grant;

#[derive(Debug, Clone, PartialEq)]
pub enum Block {
    User(String),
    /// A part of an answer. The first part names the agent.
    Answer {
        agent: Option<AgentName>,
        piece: MarkdownPiece,
    },
    /// The model started again. What was printed of its answer does not count.
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
    /// One agent does the whole request.
    Routed {
        agent: AgentName,
        is_fallback: bool,
    },
    TaskEnded {
        id: TaskId,
        agent: AgentName,
        status: TaskStatus,
        note: Option<String>,
        /// Why it failed.
        error: Option<ErrorData>,
    },
    PlanEnded {
        status: PlanStatus,
        can_retry: bool,
    },
    Decided {
        decision: ApprovalOutcome,
        /// What else passes from now on.
        granted: Option<Grant>,
        by: String,
        reason: Option<String>,
    },
    Question {
        agent: AgentName,
        task: Option<TaskId>,
        /// The MCP server that asks, where it is not the agent.
        server: Option<McpServerName>,
        /// What a server wants to know.
        fields: Vec<String>,
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
        text: String,
        /// It waits for the next tool results of the turn, not for its end.
        steers: bool,
    },
    /// A queued message was taken back.
    Dequeued(String),
    /// `message` is the server's English text. The code and the HTTP status are explained in the
    /// person's language.
    Error {
        message: String,
        code: Option<ErrorCode>,
        status: Option<u16>,
    },
    /// An error of a turn, which its details may explain better than its code.
    TurnError {
        error: ErrorData,
        /// Where it happened, if there are several tasks.
        task: Option<TaskId>,
    },
    Spent(Usage),
    Cancelled,
    /// A dim line.
    Notice(String),
    /// The output of a slash command.
    Listing(Vec<String>),
    /// The lines of a unified diff.
    Patch(Vec<String>),
    Plan(PlanView),
}

/// A tool call that is over.
#[derive(Debug, Clone, PartialEq)]
pub struct CallEnd {
    pub call: ToolCall,
    pub mcp: Option<Box<McpCall>>,
    pub task: Option<TaskId>,
    pub end: End,
}

#[derive(Debug, Clone, PartialEq)]
pub enum End {
    Result { value: Value, is_late: bool },
    Closed(CallOutcome),
}

/// An approval as it is printed.
#[derive(Debug, Clone, PartialEq)]
pub struct ApprovalShown {
    pub agent: Option<AgentName>,
    pub task: Option<TaskId>,
    pub kind: ApprovalCardKind,
    pub reason: String,
    /// The arguments do not match their digest. Such a call must not be approved.
    pub is_forged: bool,
}

#[derive(Debug, Clone, PartialEq)]
pub enum ApprovalCardKind {
    Write {
        arguments: Map<String, Value>,
        /// Made once, because a large file takes its time. `None` if the arguments are wrong.
        diff: Option<Diff>,
    },
    Command {
        command: String,
        cwd: Option<String>,
        parts: Vec<CommandPart>,
    },
    Budget(Map<String, Value>),
    /// A tool of an MCP server.
    Named {
        mcp: Box<McpCall>,
        arguments: Map<String, Value>,
    },
    Tool {
        name: String,
        arguments: Map<String, Value>,
    },
}
