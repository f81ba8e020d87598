//! What can happen to a session, and why it may be refused.

use codelab_protocol::{
    AgentName, CallId, CallerContext, ClientMessageId, Digest, ErrorCode, ModelFailure, ModelOutput,
};
use serde_json::{Map, Value};

use crate::{ApprovalStatus, CallStatus, ModelCallId};

#[derive(Debug, Clone)]
pub enum Input {
    UserMessage(UserMessage),
    /// The caller chooses the agent; `orchestrator` takes an earlier choice back.
    SwitchAgent {
        agent: AgentName,
    },
    ToolResult {
        call_id: CallId,
        result: Value,
        /// What the store knows of a call that the current turn does not hold.
        known: Option<KnownCall>,
    },
    Decision {
        call_id: CallId,
        decision: Decision,
        /// Must be the digest that was shown, where the decision carries one.
        digest: Option<Digest>,
        decided_by: String,
        /// What the store knows of an approval that the current turn does not hold.
        known: Option<KnownApproval>,
    },
    ModelFinished {
        call: ModelCallId,
        outcome: Result<ModelOutput, ModelFailure>,
    },
    /// Time has passed; expires what is due.
    Tick,
    /// The owner of this epoch took the session over after `down_ms` without one, or lost the model call it was in.
    Recovered {
        down_ms: i64,
        epoch: u64,
    },
    Cancel {
        drop_queue: bool,
    },
    Reset,
}

#[derive(Debug, Clone)]
pub struct UserMessage {
    pub text: String,
    /// Pins this agent.
    pub agent: Option<AgentName>,
    pub client_message_id: Option<ClientMessageId>,
    pub caller: CallerContext,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Decision {
    Approve { remember: bool },
    Edit { arguments: Map<String, Value> },
    Reject { feedback: Option<String> },
}

/// A tool call that is no longer open.
#[derive(Debug, Clone, PartialEq)]
pub struct KnownCall {
    pub status: CallStatus,
    pub result_digest: Option<Digest>,
    /// The span of events that answered its result.
    pub span: Option<crate::Span>,
}

/// An approval that is no longer open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KnownApproval {
    pub status: ApprovalStatus,
}

/// Why an input was not taken. The session is unchanged.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{message}")]
pub struct Refusal {
    pub code: ErrorCode,
    pub message: String,
    pub details: Map<String, Value>,
}

impl Refusal {
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), details: Map::new() }
    }

    pub fn with(mut self, key: &str, value: impl Into<Value>) -> Self {
        self.details.insert(key.to_owned(), value.into());
        self
    }
}
