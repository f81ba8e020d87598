//! What a write would replace: the file's present content by its hash, and the difference to it.

use std::fmt;

use serde::de::{self, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};
use utoipa::PartialSchema;
use utoipa::openapi::schema::{ObjectBuilder, SchemaType, Type};
use utoipa::openapi::{RefOr, Schema};

use crate::{CallId, ClientId, Digest, TaskOrigin};

/// The longest difference that a preview carries.
pub const MAX_PREVIEW_BYTES: usize = 32 * 1024;
/// The longest reason or note that a client gives.
pub const MAX_PREVIEW_TEXT_BYTES: usize = 1000;

const DIGEST_CHARS: usize = 64;

/// What stands where a write puts its content. On the wire: the SHA-256 of the content in hex, or
/// `null` where there is no file. An absent field means something else, so a field of this type in
/// an `Option` needs [`given`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FileBase {
    Missing,
    Content(Digest),
}

impl FileBase {
    pub fn of_bytes(bytes: &[u8]) -> Self {
        Self::Content(Digest::of_bytes(bytes))
    }
}

/// Reads a field whose `null` is a value of its own.
pub fn given<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    deserializer: D,
) -> Result<Option<T>, D::Error> {
    T::deserialize(deserializer).map(Some)
}

impl Serialize for FileBase {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Missing => serializer.serialize_none(),
            Self::Content(digest) => digest.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for FileBase {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // Not as an `Option`: that would take an absent field for `null`.
        deserializer.deserialize_any(FileBaseVisitor)
    }
}

struct FileBaseVisitor;

impl Visitor<'_> for FileBaseVisitor {
    type Value = FileBase;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a SHA-256 in hex, or null")
    }

    fn visit_unit<E: de::Error>(self) -> Result<FileBase, E> {
        Ok(FileBase::Missing)
    }

    fn visit_none<E: de::Error>(self) -> Result<FileBase, E> {
        Ok(FileBase::Missing)
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<FileBase, E> {
        let is_digest =
            text.len() == DIGEST_CHARS && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        match is_digest {
            true => Ok(FileBase::Content(Digest::from_wire(text))),
            false => Err(E::invalid_value(de::Unexpected::Str(text), &self)),
        }
    }
}

impl PartialSchema for FileBase {
    fn schema() -> RefOr<Schema> {
        ObjectBuilder::new()
            .schema_type(SchemaType::from_iter([Type::String, Type::Null]))
            .description(Some(
                "SHA-256 of a file's content in hex; null where there is no file.",
            ))
            .into()
    }
}

impl utoipa::ToSchema for FileBase {}

/// What a write would do to the file as it is now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct FilePreview {
    pub base: FileBase,
    /// A unified diff from the file to what would be written. Empty where a note says why.
    pub diff: String,
    /// The agent that wants to write has not read this file.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub is_unread: bool,
    /// The agent has read the file, and it changed since. Such a write is refused, and the agent is
    /// told what changed.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub is_outdated: bool,
    /// The difference is longer than what is shown.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub truncated: bool,
    /// Why there is no difference to show, or why the write would fail.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub note: Option<String>,
}

/// Body of `PUT /my/chat/{session_id}/approvals/{call_id}/preview`.
#[derive(Debug, Clone, Serialize, Deserialize, utoipa::ToSchema)]
pub struct SendPreview {
    pub client_id: ClientId,
    #[serde(flatten)]
    pub preview: FilePreview,
    /// The result of the call, where it is certain without writing: the write would be refused, or
    /// the file has this content already. With the first preview of an approval nobody is asked.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(value_type = Option<Object>)]
    pub certain_result: Option<Map<String, Value>>,
}

/// Body of `POST /my/chat/{session_id}/tool_calls/{call_id}/ask_again`.
#[derive(Debug, Clone, Serialize, Deserialize, utoipa::ToSchema)]
pub struct AskAgain {
    /// The client that claimed the call.
    pub client_id: ClientId,
    /// Why a person must see the call (again).
    pub reason: String,
    pub preview: FilePreview,
}

/// What a call that waits for a decision would write, as the file is now. It replaces the preview
/// before.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ApprovalPreview {
    pub call_id: CallId,
    #[serde(flatten)]
    pub preview: FilePreview,
    #[serde(flatten)]
    pub origin: TaskOrigin,
}

/// What passes without a question in a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ApproveMode {
    /// What the policy asks about is asked.
    #[default]
    Ask,
    /// Writes of files in the workspace pass. Protected paths and commands ask as before.
    Edits,
}

impl ApproveMode {
    pub const ALL: [Self; 2] = [Self::Ask, Self::Edits];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ask => "ask",
            Self::Edits => "edits",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|mode| mode.as_str() == text)
    }

    pub fn is_ask(&self) -> bool {
        *self == Self::Ask
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Body {
        #[serde(
            default,
            skip_serializing_if = "Option::is_none",
            deserialize_with = "given"
        )]
        base: Option<FileBase>,
    }

    #[test]
    fn absent_null_and_a_hash_are_three_things() {
        let hash = "ab".repeat(32);
        for (text, base) in [
            ("{}".to_owned(), None),
            (r#"{"base":null}"#.to_owned(), Some(FileBase::Missing)),
            (
                format!(r#"{{"base":"{hash}"}}"#),
                Some(FileBase::Content(Digest::from_wire(&hash))),
            ),
        ] {
            let body = Body { base };
            assert_eq!(serde_json::from_str::<Body>(&text).unwrap(), body);
            assert_eq!(serde_json::to_string(&body).unwrap(), text);
        }
        for text in [r#"{"base":"ab"}"#, r#"{"base":1}"#] {
            assert!(serde_json::from_str::<Body>(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_preview_must_say_what_it_is_about() {
        let read = |text: &str| serde_json::from_str::<SendPreview>(text);
        let sent = read(r#"{"client_id":"a","base":null,"diff":""}"#).unwrap();
        assert_eq!(sent.preview.base, FileBase::Missing);
        assert!(read(r#"{"client_id":"a","diff":""}"#).is_err());
    }
}
