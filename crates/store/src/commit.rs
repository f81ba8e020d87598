//! Everything that one step of a session changed. It is written completely or not at all.

use codelab_protocol::{
    AgentName, ApprovalInfo, AttachedFile, CallId, ClientMessageId, Digest, FilePreview, ProjectId,
    SessionId, SessionKind, Timestamp, TurnId, UserId,
};

use crate::project_session::{NewInteraction, NewSpending, PlanSaved, ProjectBudget};
use crate::row::{
    ApprovalStatus, AuditHead, AuditRow, InputRow, Schedule, StoredEvent, StoredMessage,
    StoredSwitch, ToolCallStatus,
};
use crate::{Epoch, SessionKey};

pub(crate) mod project_session;
mod rewind;
pub(crate) mod statements;

pub use rewind::HistoryChange;

/// Fails with `Conflict` unless the session exists, is not deleted, has this epoch, and its newest
/// event is the one just before the first of `events`; with `NotFound` when it makes a session in a
/// project that is gone or another user's.
#[derive(Debug, Clone)]
pub struct Commit {
    pub key: SessionKey,
    pub epoch: Epoch,
    /// Set for the first commit of a session, which creates it.
    pub create: Option<NewSessionRow>,
    /// The engine's new snapshot. `None` keeps the old one. A new session needs one.
    pub state: Option<String>,
    /// `None` means unchanged. Callers should set it only when it changes, because it has an index.
    pub schedule: Option<Schedule>,
    /// `None` means unchanged.
    pub last_activity: Option<Timestamp>,
    /// `None` means unchanged.
    pub title: Option<String>,
    pub messages: Vec<StoredMessage>,
    /// The content of files that messages of the session refer to.
    pub attachments: Vec<AttachedFile>,
    /// Files of another session that messages of this one refer to as well.
    pub attachments_shared: Vec<SharedAttachment>,
    /// Turns whose reasoning no provider wants back any more. What people read of it stays.
    pub reasoning_forgotten: Vec<TurnId>,
    /// Contiguous: each `seq` is one more than the last.
    pub events: Vec<StoredEvent>,
    pub switches: Vec<StoredSwitch>,
    pub context: Option<NewContext>,
    pub approvals_opened: Vec<ApprovalInfo>,
    pub approvals_extended: Vec<ApprovalExtended>,
    pub approvals_previewed: Vec<ApprovalPreviewed>,
    pub approvals_closed: Vec<ApprovalClosed>,
    pub tool_calls_opened: Vec<ToolCallOpened>,
    pub tool_calls_closed: Vec<ToolCallEnd>,
    pub inputs: Vec<NewInput>,
    pub audit: Option<AuditAppended>,
    // The rest is only for sessions of a project.
    /// Whose search finds the title and the messages of this commit: the session's user.
    pub search_user: Option<UserId>,
    pub plans: Vec<PlanSaved>,
    pub spendings: Vec<NewSpending>,
    pub interactions: Vec<NewInteraction>,
    pub project_budget: Option<ProjectBudget>,
    /// What rewinds take back or give back, after the messages of this commit.
    pub history_changes: Vec<HistoryChange>,
}

impl Commit {
    /// A commit that changes nothing yet.
    pub fn new(key: SessionKey, epoch: Epoch) -> Self {
        Self {
            key,
            epoch,
            create: None,
            state: None,
            schedule: None,
            last_activity: None,
            title: None,
            messages: Vec::new(),
            attachments: Vec::new(),
            attachments_shared: Vec::new(),
            reasoning_forgotten: Vec::new(),
            events: Vec::new(),
            switches: Vec::new(),
            context: None,
            approvals_opened: Vec::new(),
            approvals_extended: Vec::new(),
            approvals_previewed: Vec::new(),
            approvals_closed: Vec::new(),
            tool_calls_opened: Vec::new(),
            tool_calls_closed: Vec::new(),
            inputs: Vec::new(),
            audit: None,
            search_user: None,
            plans: Vec::new(),
            spendings: Vec::new(),
            interactions: Vec::new(),
            project_budget: None,
            history_changes: Vec::new(),
        }
    }
}

/// Fails with `Conflict` unless that session refers to the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SharedAttachment {
    pub from: SessionKey,
    pub digest: Digest,
}

/// The fields of a new session. Its title is in the commit.
#[derive(Debug, Clone)]
pub struct NewSessionRow {
    pub kind: SessionKind,
    pub session_id: SessionId,
    pub user_id: Option<UserId>,
    pub project_id: Option<ProjectId>,
    pub system_prompt: Option<String>,
    pub created_at: Timestamp,
    pub owner: Option<String>,
}

/// Created by the first commit and replaced by later ones. `created_at` stays that of the first.
#[derive(Debug, Clone)]
pub struct NewContext {
    pub current_agent: AgentName,
    pub switch_count: u64,
    /// JSON object.
    pub metadata: String,
    pub created_at: Timestamp,
    pub last_switch_at: Option<Timestamp>,
}

/// What a pending write would do to the file as it is now.
#[derive(Debug, Clone)]
pub struct ApprovalPreviewed {
    pub call_id: CallId,
    pub preview: FilePreview,
}

/// A new deadline of a pending approval.
#[derive(Debug, Clone)]
pub struct ApprovalExtended {
    pub call_id: CallId,
    pub expires_at: Option<Timestamp>,
}

/// Fails with `Conflict` unless the approval is pending: one decision wins.
#[derive(Debug, Clone)]
pub struct ApprovalClosed {
    pub call_id: CallId,
    pub status: ApprovalStatus,
    pub decided_at: Timestamp,
}

#[derive(Debug, Clone)]
pub struct ToolCallOpened {
    pub call_id: CallId,
    pub turn: TurnId,
    pub tool_name: String,
}

/// Fails with `Conflict` unless the call is open or its outcome was unknown.
#[derive(Debug, Clone)]
pub struct ToolCallEnd {
    pub call_id: CallId,
    pub status: ToolCallStatus,
    pub result_digest: Option<Digest>,
    pub after_seq: Option<u64>,
    /// What it changed: a path, a command, or the tool of an MCP server.
    pub did: Option<String>,
}

/// Fails with `Conflict` if the session has seen this `client_message_id`.
#[derive(Debug, Clone)]
pub struct NewInput {
    pub client_message_id: ClientMessageId,
    pub input: InputRow,
}

/// New links of the session's audit chain. Fails with `Conflict` unless they follow the stored
/// head.
#[derive(Debug, Clone)]
pub struct AuditAppended {
    pub kind: SessionKind,
    pub session_id: SessionId,
    pub rows: Vec<AuditRow>,
    /// The head after the last of `rows`.
    pub head: AuditHead,
    /// The seal of that head. `None` if the head before it had no seal.
    pub seal: Option<Digest>,
}
