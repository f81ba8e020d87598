//! What waits for a person.

use serde::{Deserialize, Serialize};

use crate::{AgentName, CallId, ProjectId, SessionId, Timestamp};

/// A decision or an answer that a session waits for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Waiting {
    pub kind: WaitingKind,
    pub call_id: CallId,
    /// Who asks.
    pub agent: AgentName,
    /// What it is about, in one line.
    pub text: String,
    /// Absent for a question that an older version asked.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub created_at: Option<Timestamp>,
    /// Absent when it waits for ever.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub expires_at: Option<Timestamp>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum WaitingKind {
    /// A tool call is to be approved.
    Tool,
    /// A plan is to be approved.
    Plan,
    /// More is to be spent than the budget allows.
    Budget,
    /// An agent asks a question.
    Question,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct WaitingRemoved {
    pub call_id: CallId,
}

/// Something that waits, and where.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct WaitingInSession {
    pub session_id: SessionId,
    pub project_id: ProjectId,
    /// Of the session.
    pub title: Option<String>,
    #[serde(flatten)]
    pub waiting: Waiting,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct WaitingList {
    /// Oldest first.
    pub waiting: Vec<WaitingInSession>,
}
