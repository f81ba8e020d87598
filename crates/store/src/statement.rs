//! A write as data: a list of statements that both databases run in order, all or none.
//!
//! Parameters are written `$1, $2 …` and numbered in the order of their first appearance, because
//! PostgreSQL uses the number and SQLite the order.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use crate::StoreError;

#[derive(Debug)]
pub(crate) struct Stmt {
    pub sql: &'static str,
    pub params: Vec<Param>,
    pub expect: Expect,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Expect {
    Any,
    /// Exactly one row changed, or the whole write fails with `Conflict`.
    One,
    /// Exactly one row changed, or the whole write fails with `AlreadyExists`.
    New,
    /// The statement returns a number, or nothing.
    Number,
}

/// The result of a write: that of its last statement.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct WriteResult {
    pub rows: u64,
    pub number: Option<i64>,
}

impl Stmt {
    pub fn any(sql: &'static str, params: Vec<Param>) -> Self {
        Self {
            sql,
            params,
            expect: Expect::Any,
        }
    }

    pub fn one(sql: &'static str, params: Vec<Param>) -> Self {
        Self {
            sql,
            params,
            expect: Expect::One,
        }
    }

    /// Fails unless `written` is what the statement expects.
    pub fn check(&self, written: WriteResult) -> Result<WriteResult, StoreError> {
        match self.expect {
            Expect::One if written.rows != 1 => Err(StoreError::Conflict),
            Expect::New if written.rows != 1 => Err(StoreError::AlreadyExists),
            _ => Ok(written),
        }
    }
}

#[derive(Clone)]
pub(crate) enum Param {
    Null,
    Int(i64),
    Text(Cow<'static, str>),
    Shared(Arc<str>),
    Bytes(Arc<[u8]>),
}

impl Param {
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            Self::Shared(text) => Some(text),
            Self::Null | Self::Int(_) | Self::Bytes(_) => None,
        }
    }

    pub fn optional<T: Into<Param>>(value: Option<T>) -> Self {
        value.map_or(Self::Null, Into::into)
    }

    pub fn text(text: &str) -> Self {
        Self::Text(Cow::Owned(text.to_owned()))
    }

    pub fn optional_text(text: Option<&str>) -> Self {
        text.map_or(Self::Null, Self::text)
    }
}

/// Shows no values, because the database driver prints parameters in its debug log.
impl fmt::Debug for Param {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => f.write_str("NULL"),
            Self::Int(number) => number.fmt(f),
            Self::Text(_) | Self::Shared(_) => {
                write!(f, "text of {} bytes", self.as_text().map_or(0, str::len))
            }
            Self::Bytes(bytes) => write!(f, "{} bytes", bytes.len()),
        }
    }
}

impl From<i64> for Param {
    fn from(number: i64) -> Self {
        Self::Int(number)
    }
}

/// Counters never reach the limit. Saturating avoids an error path.
impl From<u64> for Param {
    fn from(number: u64) -> Self {
        Self::Int(i64::try_from(number).unwrap_or(i64::MAX))
    }
}

impl From<bool> for Param {
    fn from(flag: bool) -> Self {
        Self::Int(i64::from(flag))
    }
}

impl From<String> for Param {
    fn from(text: String) -> Self {
        Self::Text(Cow::Owned(text))
    }
}

impl From<&'static str> for Param {
    fn from(text: &'static str) -> Self {
        Self::Text(Cow::Borrowed(text))
    }
}

impl From<codelab_protocol::Timestamp> for Param {
    fn from(time: codelab_protocol::Timestamp) -> Self {
        Self::Int(time.as_millis())
    }
}

impl From<crate::SessionKey> for Param {
    fn from(key: crate::SessionKey) -> Self {
        Self::Int(key.get())
    }
}

impl From<codelab_protocol::UserId> for Param {
    fn from(user: codelab_protocol::UserId) -> Self {
        Self::Int(user.get())
    }
}

impl From<codelab_protocol::ProjectId> for Param {
    fn from(project: codelab_protocol::ProjectId) -> Self {
        Self::Int(project.get())
    }
}

impl From<&codelab_protocol::Digest> for Param {
    fn from(digest: &codelab_protocol::Digest) -> Self {
        Self::text(digest.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_output_hides_what_people_wrote() {
        let stmt = Stmt::any(
            "SELECT $1, $2",
            vec!["canary".into(), Param::Shared("canary".into())],
        );
        assert!(!format!("{stmt:?}").contains("canary"));
    }
}
