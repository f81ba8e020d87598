//! Rows of the tables. A row that is written and read with the same fields is one type.

use std::borrow::Cow;
use std::sync::Arc;

use codelab_protocol::{
    AgentName, ApprovalInfo, Attachment, CallId, Digest, Message, MessageId, PartialReason, PlanId,
    ProjectId, Reasoning, SessionEvent, SessionId, SessionKind, SwitchEntry, TaskId, TaskOrigin,
    Timestamp, TurnId, TurnStatus, UserId,
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{Epoch, SessionKey, StoreError};

macro_rules! text_enum {
    ($(#[$doc:meta])* $name:ident { $($variant:ident = $text:literal,)* }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum $name { $($variant,)* }

        impl $name {
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $text,)* }
            }

            pub fn parse(text: &str) -> Option<Self> {
                match text { $($text => Some(Self::$variant),)* _ => None }
            }
        }
    };
}

text_enum!(
    /// The state of a question to a person.
    ApprovalStatus {
        Pending = "pending",
        Approved = "approved",
        Edited = "edited",
        Rejected = "rejected",
        Expired = "expired",
        Cancelled = "cancelled",
    }
);

text_enum!(
    /// The state of a tool call. A late result may still complete a call that ended as `Unknown`.
    ToolCallStatus {
        Open = "open",
        Completed = "completed",
        Rejected = "rejected",
        Cancelled = "cancelled",
        Unknown = "unknown",
    }
);

/// All fields of one session.
#[derive(Debug, Clone, PartialEq)]
pub struct SessionRow {
    pub key: SessionKey,
    pub kind: SessionKind,
    pub session_id: SessionId,
    pub user_id: Option<UserId>,
    pub project_id: Option<ProjectId>,
    pub title: Option<String>,
    pub system_prompt: Option<String>,
    pub created_at: Timestamp,
    pub last_activity: Timestamp,
    pub deleted_at: Option<Timestamp>,
    pub message_count: u64,
    /// The number of the newest event, 0 when there is none.
    pub last_seq: u64,
    /// The number of the oldest event that was not pruned.
    pub first_seq: u64,
    /// The engine's snapshot.
    pub state: String,
    pub owner: Option<String>,
    pub epoch: Epoch,
    pub schedule: Schedule,
    pub marks: SessionMarks,
}

/// What a person marked a session with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SessionMarks {
    pub pinned: bool,
    /// Lists leave it out.
    pub archived: bool,
}

/// When a session must be loaded although there is no request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Schedule {
    /// The next deadline.
    pub wake_at: Option<Timestamp>,
    /// A turn has a model call or queued work, so it must be resumed when a server starts.
    pub running: bool,
}

/// A session that is due or was running.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionRef {
    pub key: SessionKey,
    pub kind: SessionKind,
    pub session_id: SessionId,
    pub project_id: Option<ProjectId>,
    /// The server that asked owns it; otherwise nobody does.
    pub is_mine: bool,
}

#[derive(Debug, Clone, PartialEq)]
pub struct StoredMessage {
    /// The position in its thread, from 1.
    pub ord: u64,
    pub turn: TurnId,
    /// The task of its thread. `None` for the session's own history.
    pub task: Option<TaskOrigin>,
    pub message: Message,
}

impl StoredMessage {
    pub fn is_own(&self) -> bool {
        self.task
            .as_ref()
            .is_none_or(|origin| *origin == TaskOrigin::default())
    }

    /// The plan and the task whose thread it belongs to.
    pub(crate) fn thread(&self) -> Result<Option<(PlanId, TaskId)>, StoreError> {
        match self.task.clone().unwrap_or_default() {
            TaskOrigin {
                plan_id: None,
                task_id: None,
            } => Ok(None),
            TaskOrigin {
                plan_id: Some(plan),
                task_id: Some(task),
            } => Ok(Some((plan, task))),
            _ => Err(StoreError::Invalid(
                "a task's message names its plan and its task".to_owned(),
            )),
        }
    }
}

/// Fields that few messages have.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct MessageNotes {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answers: Option<CallId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub plan_id: Option<PlanId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task_id: Option<TaskId>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// What its provider wants back has a column of its own. Rows of earlier versions have it here.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reasoning: Option<Box<Reasoning>>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub is_cut: bool,
    /// Set on a partial answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub partial: Option<PartialReason>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error_message: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retries: Option<MessageId>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub steered: bool,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub attachments: Vec<Attachment>,
}

impl MessageNotes {
    pub fn of(message: &Message) -> Option<Self> {
        let Message {
            answers,
            plan_id,
            task_id,
            warnings,
            reasoning,
            is_cut,
            reason,
            error_message,
            retries,
            steered,
            attachments,
            ..
        } = message;
        let has_any = answers.is_some()
            || plan_id.is_some()
            || task_id.is_some()
            || !warnings.is_empty()
            || reasoning.is_some()
            || *is_cut
            || reason.is_some()
            || error_message.is_some()
            || retries.is_some()
            || *steered
            || !attachments.is_empty();
        has_any.then(|| Self {
            answers: answers.clone(),
            plan_id: plan_id.clone(),
            task_id: task_id.clone(),
            warnings: warnings.clone(),
            reasoning: reasoning.as_ref().map(|reasoning| {
                Box::new(Reasoning {
                    opaque: Value::Null,
                    ..Reasoning::clone(reasoning)
                })
            }),
            is_cut: *is_cut,
            partial: *reason,
            error_message: error_message.clone(),
            retries: retries.clone(),
            steered: *steered,
            attachments: attachments.clone(),
        })
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredEvent {
    pub seq: u64,
    pub turn: TurnId,
    pub kind: Cow<'static, str>,
    /// Wire JSON, as it is streamed.
    pub body: Arc<str>,
    /// Set on the event with which a turn ended or was suspended.
    pub settled: Option<TurnStatus>,
    pub timestamp: Timestamp,
}

impl StoredEvent {
    /// The event of a project's session as a value, for whoever needs more than its wire form.
    pub fn session_event(&self) -> Result<SessionEvent, StoreError> {
        serde_json::from_str(&self.body).map_err(|error| {
            StoreError::Corrupt(format!("event {} is not readable: {error}", self.seq))
        })
    }
}

/// How far the log of a project session goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionLogRow {
    pub key: SessionKey,
    pub session_id: SessionId,
    /// The oldest event that is still stored.
    pub first_seq: u64,
    pub last_seq: u64,
    /// `None` if its newest event is older than this column.
    pub last_event_at: Option<Timestamp>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct StoredSwitch {
    pub ord: u64,
    pub entry: SwitchEntry,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContextRow {
    pub current_agent: AgentName,
    pub switch_count: u64,
    /// JSON object.
    pub metadata: String,
    pub created_at: Timestamp,
    pub last_switch_at: Option<Timestamp>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct ApprovalRow {
    pub info: ApprovalInfo,
    pub status: ApprovalStatus,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolCallRow {
    pub turn: TurnId,
    /// The digest of the accepted result. It distinguishes a repeat from a different result.
    pub result_digest: Option<Digest>,
    /// The events that the result caused come after this one.
    pub after_seq: Option<u64>,
}

/// Which turn a `client_message_id` started; its events come after `after_seq`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InputRow {
    pub turn: TurnId,
    pub after_seq: u64,
}

/// One decision, without its position in the chain.
#[derive(Debug, Clone, PartialEq)]
pub struct AuditRecord {
    pub call_id: CallId,
    pub tool_name: String,
    /// `None` after a purge; the digest stays.
    pub original_args: Option<Map<String, Value>>,
    pub original_digest: Digest,
    pub modified_args: Option<Map<String, Value>>,
    pub modified_digest: Option<Digest>,
    pub decision: String,
    pub decided_by: String,
    /// `None` after a purge if its digest stays.
    pub reason: Option<String>,
    /// `None` in rows that are older than the key.
    pub reason_digest: Option<Digest>,
    pub timestamp: Timestamp,
}

impl AuditRecord {
    pub fn digest_of_reason(reason: &str) -> Digest {
        Digest::of_bytes(reason.as_bytes())
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct AuditRow {
    /// The position in the session's chain, from 1.
    pub ord: u64,
    pub record: AuditRecord,
    pub hash: Digest,
}

/// The end of a session's chain. It is stored apart from the rows, so that missing last rows are
/// detected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditHead {
    pub count: u64,
    pub head: Digest,
    /// The first row with a keyed hash. Rows before it are older than the key.
    pub keyed_from: u64,
    /// Whether it has a valid seal.
    pub is_sealed: bool,
}

/// A session that has an audit log, whether or not the session itself still exists.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditSession {
    pub key: SessionKey,
    /// `None` if neither a head nor the session is left.
    pub name: Option<(SessionKind, SessionId)>,
}
