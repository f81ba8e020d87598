//! Approvals: what a person is asked about, what the person chooses, and how it ended.

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};
use utoipa::PartialSchema;
use utoipa::openapi::schema::{ObjectBuilder, Type};
use utoipa::openapi::{RefOr, Schema};

use crate::MaybeKnown;

/// What an approval is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ApprovalKind {
    Tool,
    Plan,
    Budget,
}

impl ApprovalKind {
    pub fn parse(text: &str) -> Option<Self> {
        [Self::Tool, Self::Plan, Self::Budget]
            .into_iter()
            .find(|kind| kind.as_str() == text)
    }

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Tool => "tool",
            Self::Plan => "plan",
            Self::Budget => "budget",
        }
    }
}

/// What a person chooses. A request may write it in any case.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DecisionChoice {
    Approve,
    Edit,
    Reject,
}

impl DecisionChoice {
    pub const ALL: [Self; 3] = [Self::Approve, Self::Edit, Self::Reject];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Approve => "approve",
            Self::Edit => "edit",
            Self::Reject => "reject",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|choice| choice.as_str().eq_ignore_ascii_case(text))
    }
}

impl Serialize for DecisionChoice {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for DecisionChoice {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::parse(&text)
            .ok_or_else(|| D::Error::unknown_variant(&text, &["APPROVE", "EDIT", "REJECT"]))
    }
}

/// The document lists the spellings in one case.
impl PartialSchema for DecisionChoice {
    fn schema() -> RefOr<Schema> {
        let words = Self::ALL.map(Self::as_str);
        let upper = words.map(str::to_ascii_uppercase);
        ObjectBuilder::new()
            .schema_type(Type::String)
            .description(Some("What a person chooses, in upper or lower case."))
            .enum_values(Some(
                upper
                    .into_iter()
                    .chain(words.map(str::to_owned))
                    .collect::<Vec<_>>(),
            ))
            .into()
    }
}

impl utoipa::ToSchema for DecisionChoice {}

/// How an approval ended, as events tell it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub enum ApprovalOutcome {
    #[serde(rename = "approve")]
    Approved,
    #[serde(rename = "edit")]
    Edited,
    #[serde(rename = "reject")]
    Rejected,
    #[serde(rename = "expired")]
    Expired,
    #[serde(rename = "cancelled")]
    Cancelled,
}

impl ApprovalOutcome {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Approved => "approve",
            Self::Edited => "edit",
            Self::Rejected => "reject",
            Self::Expired => "expired",
            Self::Cancelled => "cancelled",
        }
    }
}

/// A decision as the audit log spells it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "UPPERCASE")]
pub enum AuditDecision {
    Approve,
    Edit,
    /// Also an approval that expired; `decided_by` is `timeout` then.
    Reject,
}

impl AuditDecision {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Approve => "APPROVE",
            Self::Edit => "EDIT",
            Self::Reject => "REJECT",
        }
    }
}

impl MaybeKnown<AuditDecision> {
    /// As it stands in the row.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Known(decision) => decision.as_str(),
            Self::Unknown(text) => text,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_word_is_written_as_it_is_sent() {
        fn wire(value: impl Serialize) -> serde_json::Value {
            serde_json::to_value(value).unwrap()
        }
        for kind in [ApprovalKind::Tool, ApprovalKind::Plan, ApprovalKind::Budget] {
            assert_eq!(wire(kind), kind.as_str());
        }
        for outcome in [
            ApprovalOutcome::Approved,
            ApprovalOutcome::Edited,
            ApprovalOutcome::Rejected,
            ApprovalOutcome::Expired,
            ApprovalOutcome::Cancelled,
        ] {
            assert_eq!(wire(outcome), outcome.as_str());
        }
        for (decision, word) in [
            (AuditDecision::Approve, "APPROVE"),
            (AuditDecision::Edit, "EDIT"),
            (AuditDecision::Reject, "REJECT"),
        ] {
            assert_eq!((wire(decision), decision.as_str()), (word.into(), word));
        }
    }

    #[test]
    fn a_choice_is_read_in_any_case() {
        for text in ["approve", "APPROVE", "Approve"] {
            let choice: DecisionChoice = serde_json::from_value(text.into()).unwrap();
            assert_eq!(choice, DecisionChoice::Approve);
        }
        assert!(serde_json::from_str::<DecisionChoice>("\"maybe\"").is_err());
    }
}
