//! Ids are newtypes from one macro, so that two of them cannot be mixed up.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// Why a text is not a valid id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what} must be 1 to {max} characters of A-Z a-z 0-9 . _ : -")]
pub struct InvalidId {
    what: &'static str,
    max: usize,
}

macro_rules! string_id {
    ($(#[$doc:meta])* $name:ident, $what:literal, $max:literal) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, utoipa::ToSchema)]
        #[serde(try_from = "String", into = "String")]
        #[schema(value_type = String)]
        pub struct $name(Arc<str>);

        impl $name {
            pub const MAX_LENGTH: usize = $max;

            /// Accepts 1 to `MAX_LENGTH` characters of `A-Z a-z 0-9 . _ : -`.
            pub fn parse(text: &str) -> Result<Self, InvalidId> {
                let allowed = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b':' | b'-');
                if text.is_empty() || text.len() > $max || !text.bytes().all(allowed) {
                    return Err(InvalidId { what: $what, max: $max });
                }
                Ok(Self(text.into()))
            }

            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl TryFrom<String> for $name {
            type Error = InvalidId;
            fn try_from(text: String) -> Result<Self, InvalidId> {
                Self::parse(&text)
            }
        }

        impl FromStr for $name {
            type Err = InvalidId;
            fn from_str(text: &str) -> Result<Self, InvalidId> {
                Self::parse(text)
            }
        }

        impl From<$name> for String {
            fn from(id: $name) -> String {
                id.0.as_ref().to_owned()
            }
        }

        impl AsRef<str> for $name {
            fn as_ref(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

string_id!(
    /// One session. The caller chooses the id in the runtime API, the server in a project.
    SessionId, "session_id", 128
);
string_id!(
    /// One tool call, approval or question; unique within its session.
    CallId, "call_id", 128
);
string_id!(
    /// One stored message.
    MessageId, "message_id", 128
);
string_id!(
    /// The caller's own name for a message it sends; a repeat never starts a second turn.
    ClientMessageId, "client_message_id", 128
);
string_id!(
    /// The name of an agent definition.
    AgentName, "agent", 64
);
string_id!(
    /// One agent of a project; its name may exist in other projects as well.
    AgentId, "agent_id", 128
);

string_id!(
    /// One plan of a session; also the call id of its approval.
    PlanId, "plan_id", 128
);
string_id!(
    /// A plan being executed.
    WorkflowId, "workflow_id", 128
);
string_id!(
    /// One task; unique within its plan.
    TaskId, "task id", 64
);
string_id!(
    /// A program that runs tools in a user's workspace.
    ClientId, "client_id", 128
);
string_id!(
    /// Something that a person allowed for the rest of a session; unique within it.
    RememberedId, "remembered_id", 64
);
string_id!(
    /// One rewind; unique within its session.
    RewindId, "rewind_id", 128
);

impl AgentName {
    /// The agent that plans, answers for several agents, and is active between turns.
    pub const ORCHESTRATOR: &str = "orchestrator";

    pub fn is_orchestrator(&self) -> bool {
        self.as_str() == Self::ORCHESTRATOR
    }
}

/// The number of a turn within its session, from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct TurnId(pub u64);

impl fmt::Display for TurnId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

macro_rules! number_id {
    ($(#[$doc:meta])* $name:ident, $refusal:literal) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, utoipa::ToSchema)]
        #[serde(try_from = "i64", into = "i64")]
        #[schema(value_type = i64, minimum = 1)]
        pub struct $name(i64);

        impl $name {
            pub fn new(id: i64) -> Option<Self> {
                (id > 0).then_some(Self(id))
            }

            /// Takes the digits of the number and nothing else: no sign, no leading zero, no space.
            pub fn parse(text: &str) -> Option<Self> {
                let is_plain = text.bytes().all(|b| b.is_ascii_digit()) && !text.starts_with('0');
                if is_plain { text.parse().ok().and_then(Self::new) } else { None }
            }

            pub fn get(self) -> i64 {
                self.0
            }
        }

        impl FromStr for $name {
            type Err = &'static str;
            fn from_str(text: &str) -> Result<Self, Self::Err> {
                Self::parse(text).ok_or($refusal)
            }
        }

        impl TryFrom<i64> for $name {
            type Error = &'static str;
            fn try_from(id: i64) -> Result<Self, Self::Error> {
                Self::new(id).ok_or($refusal)
            }
        }

        impl From<$name> for i64 {
            fn from(id: $name) -> i64 {
                id.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

number_id!(
    /// A person, as named by a token's `sub`: a positive integer.
    UserId, "user_id must be a positive integer"
);
number_id!(
    /// One project of a user.
    ProjectId, "project_id must be a positive integer"
);
number_id!(
    /// One message of the global Chat; later ones have larger numbers, also after a restart.
    GlobalMessageId, "a message id must be a positive integer"
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_take_the_documented_alphabet_only() {
        for good in ["a", "A.b_c:d-9", &"x".repeat(128)] {
            assert!(SessionId::parse(good).is_ok(), "{good}");
        }
        for bad in ["", " ", "a b", "a/b", "é", "a\n", "a\0", &"x".repeat(129)] {
            assert!(SessionId::parse(bad).is_err(), "{bad:?}");
        }
        assert!(serde_json::from_str::<SessionId>("\"a/b\"").is_err());
    }

    #[test]
    fn numbers_are_their_digits_only() {
        assert_eq!(ProjectId::parse("42").map(ProjectId::get), Some(42));
        assert_eq!(
            ProjectId::parse("9223372036854775807").map(ProjectId::get),
            Some(i64::MAX)
        );
        for bad in [
            "",
            "0",
            "-1",
            "+1",
            "01",
            " 1",
            "1.0",
            "1e3",
            "x",
            "9223372036854775808",
            "\u{661}",
        ] {
            assert_eq!(ProjectId::parse(bad), None, "{bad:?}");
        }
    }
}
