//! The two kinds of sessions.

use serde::{Deserialize, Serialize};

/// Which API a session speaks, and whose agents it works with. Ids of one kind mean nothing to the
/// other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SessionKind {
    /// The built-in team; requests are routed.
    Runtime,
    /// A project's agents; requests are planned, or go to the agent that was named.
    Project,
}

impl SessionKind {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Runtime => "runtime",
            Self::Project => "project",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        [Self::Runtime, Self::Project]
            .into_iter()
            .find(|kind| kind.as_str() == text)
    }
}
