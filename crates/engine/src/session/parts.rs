//! Small parts of a session's state: the sizes of what was said, and messages that wait.

use codelab_protocol::{AgentName, Attachment, CallerContext, MessageId, TurnId, WorkflowId};
use serde::{Deserialize, Serialize};

/// The size of a message, by the estimate.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) struct MessageSize {
    pub turn: TurnId,
    pub tokens: u64,
}

/// A message that was accepted while another turn runs.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct QueuedMessage {
    pub turn: TurnId,
    pub message_id: MessageId,
    /// The workflow that it will be, unless it goes to an agent directly.
    pub workflow_id: Option<WorkflowId>,
    pub text: String,
    pub agent: Option<AgentName>,
    pub caller: CallerContext,
    /// The message whose turn it runs again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retries: Option<MessageId>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub attachments: Vec<Attachment>,
}
