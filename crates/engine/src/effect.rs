//! What should happen: rows to commit together, then model calls to start or stop.

use codelab_policy::RememberKey;
use codelab_protocol::{
    AgentName, CallId, ChunkBody, ClientMessageId, CommandPart, Digest, Message, MessageId, Timestamp, TurnId,
    TurnStatus,
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The outcome of an accepted input.
#[derive(Debug, Default)]
pub struct Applied {
    pub effects: Vec<Effect>,
    /// What the caller who sent the input is shown.
    pub answer: Answer,
    /// Whether there is anything to commit; the state can change without any other effect.
    pub changed: bool,
}

/// Which events answer a caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Answer {
    /// Nobody waits, or there is nothing to show.
    #[default]
    Nothing,
    /// The turn's events from there on, until it settles.
    Span(Span),
    /// The turn stands like this and the input changed nothing about it now.
    Now(TurnStatus),
}

/// The events of one turn after a number, until the turn settles.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Span {
    pub turn: TurnId,
    pub after_seq: u64,
}

#[derive(Debug, Clone)]
pub enum Effect {
    Event(EventRecord),
    Message(MessageRecord),
    Switched(SwitchRecord),
    ApprovalOpened(Approval),
    ApprovalClosed {
        call_id: CallId,
        status: ApprovalStatus,
    },
    ApprovalMoved {
        call_id: CallId,
        expires_at: Timestamp,
    },
    CallOpened {
        call_id: CallId,
        turn: TurnId,
        tool: String,
    },
    CallClosed {
        call_id: CallId,
        status: CallStatus,
        result_digest: Option<Digest>,
        span: Option<Span>,
    },
    /// The caller's own id of a message, so that a repeat finds its span.
    InputTaken {
        client_message_id: ClientMessageId,
        span: Span,
    },
    Audit(AuditRecord),
    Title(String),
    CallModel(ModelCall),
    /// Whatever model call runs for this session is no longer wanted.
    AbortModel,
}

#[derive(Debug, Clone)]
pub struct EventRecord {
    pub seq: u64,
    pub turn: TurnId,
    pub body: ChunkBody,
    /// Set on the last event before the turn ends or suspends.
    pub settled: Option<TurnStatus>,
}

#[derive(Debug, Clone)]
pub struct MessageRecord {
    pub ord: u64,
    pub turn: TurnId,
    pub message: Message,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SwitchRecord {
    pub ord: u64,
    pub from: AgentName,
    pub to: AgentName,
    pub reason: String,
    pub confidence: Option<String>,
    pub at: Timestamp,
}

/// An open question to a person about a tool call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Approval {
    pub call_id: CallId,
    pub tool: String,
    pub arguments: Map<String, Value>,
    pub digest: Digest,
    pub parts: Vec<CommandPart>,
    pub reason: String,
    pub remember: Option<RememberKey>,
    pub created_at: Timestamp,
    pub expires_at: Option<Timestamp>,
    pub timeout_seconds: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ApprovalStatus {
    Approved,
    Edited,
    Rejected,
    Expired,
    Cancelled,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallStatus {
    /// Waits for an approval or a result.
    Open,
    Finished,
    Rejected,
    TimedOut,
    Cancelled,
}

/// One decision about a tool call, for the audit log.
#[derive(Debug, Clone, PartialEq)]
pub struct AuditRecord {
    pub call_id: CallId,
    pub tool: String,
    pub original: Map<String, Value>,
    pub modified: Option<Map<String, Value>>,
    pub decision: Decided,
    pub decided_by: String,
    pub reason: Option<String>,
    pub at: Timestamp,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decided {
    Approve,
    Edit,
    Reject,
}

impl Decided {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Approve => "approve",
            Self::Edit => "edit",
            Self::Reject => "reject",
        }
    }
}

/// Names one model call of a session; an outcome for any other one is stale.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ModelCallId {
    pub turn: TurnId,
    /// 0 is the classification, steps count from 1.
    pub step: u32,
    /// Grows when the call is made again after a crash.
    pub attempt: u32,
}

#[derive(Debug, Clone)]
pub struct ModelCall {
    pub id: ModelCallId,
    pub agent: AgentName,
    pub purpose: Purpose,
}

#[derive(Debug, Clone)]
pub enum Purpose {
    Classify {
        text: String,
    },
    /// One step of the agent's loop; the answer will have this id.
    Step {
        message_id: MessageId,
    },
}
