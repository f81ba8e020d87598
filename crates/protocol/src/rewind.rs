//! Taking back what was done since a message: files, the conversation, or both.

use serde::{Deserialize, Serialize};

use crate::{CallId, MessageId, RewindId};

/// What a rewind takes back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum RewindScope {
    Files,
    Conversation,
    Both,
}

impl RewindScope {
    pub fn has_files(self) -> bool {
        matches!(self, Self::Files | Self::Both)
    }

    pub fn has_conversation(self) -> bool {
        matches!(self, Self::Conversation | Self::Both)
    }
}

/// The body of `POST /my/chat/{session_id}/rewind`: either `to_message_id` with `scope`, or `undo`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, utoipa::ToSchema)]
pub struct RewindSession {
    /// A message of the user that began a turn. It is taken back with everything after it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub to_message_id: Option<MessageId>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub scope: Option<RewindScope>,
    /// The last rewind that is in force; it is taken back itself.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub undo: Option<RewindId>,
}

/// How a rewind, or its undoing, ended. The event `rewound` and the answer of the request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Rewound {
    pub rewind_id: RewindId,
    pub scope: RewindScope,
    pub to_message_id: MessageId,
    /// Files and folders that are again as they were.
    pub restored: Vec<String>,
    /// Files that somebody else changed. They were not touched, or not taken back as far as wanted.
    pub left: Vec<LeftFile>,
    /// What no rewind takes back: what commands and MCP tools did, and writes of which nothing was
    /// kept.
    pub not_covered: Vec<NotCovered>,
    /// Messages that were taken back, or that are there again.
    #[serde(default)]
    pub messages: u64,
    /// The rewind itself was taken back.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub undone: bool,
    /// Why the files were not taken back. The conversation stays as well then.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub error: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct LeftFile {
    pub path: String,
    pub reason: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct NotCovered {
    /// The tool that did it.
    pub tool: String,
    /// The command, or the path.
    pub what: String,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub reason: Option<String>,
}

/// A rewind that is still under way: the event `rewound` tells of its end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct RewindAccepted {
    pub rewind_id: RewindId,
}

/// The arguments of `rewind_files`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum RewindFiles {
    Undo {
        undo: RewindId,
    },
    Calls {
        rewind_id: RewindId,
        /// In any order: the client knows in which one it wrote.
        calls: Vec<WrittenByCall>,
    },
}

/// A call that wrote, or that may have.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WrittenByCall {
    pub call_id: CallId,
    /// What it wrote, where that is certain.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub path: Option<String>,
}

/// The result of `rewind_files`, where files could be taken back.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct RewoundFiles {
    #[serde(default)]
    pub restored: Vec<String>,
    #[serde(default)]
    pub left: Vec<LeftFile>,
    #[serde(default)]
    pub not_covered: Vec<NotCovered>,
}
