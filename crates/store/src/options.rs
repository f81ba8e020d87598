//! The address of the database, and its limits.

use std::fmt;
use std::path::PathBuf;

use crate::StoreError;
use crate::audit_chain::AuditKey;
use crate::postgres::address::PostgresAddress;
use crate::sealed::SealingKey;

/// `sqlite:/path/file.db`, `sqlite::memory:` or `postgres://user@host/name`. Printing it never
/// shows a password.
#[derive(Clone, PartialEq, Eq)]
pub enum DatabaseUrl {
    SqliteFile(PathBuf),
    /// For tests and trials. Its data is lost when the store is closed.
    SqliteMemory,
    Postgres(String),
}

impl DatabaseUrl {
    pub fn parse(text: &str) -> Result<Self, StoreError> {
        if let Some(path) = text.strip_prefix("sqlite:") {
            return Self::parse_sqlite(path);
        }
        if text.starts_with("postgres:") || text.starts_with("postgresql:") {
            return Self::parse_postgres(text);
        }
        Err(StoreError::Invalid(
            "the database address must start with sqlite: or postgres:".to_owned(),
        ))
    }

    fn parse_sqlite(path: &str) -> Result<Self, StoreError> {
        if path == ":memory:" {
            return Ok(Self::SqliteMemory);
        }
        let path = path.strip_prefix("//").unwrap_or(path);
        if path.is_empty() || path.contains('\0') {
            return Err(StoreError::Invalid(
                "the database address sqlite: needs the path of a file".to_owned(),
            ));
        }
        Ok(Self::SqliteFile(PathBuf::from(path)))
    }

    fn parse_postgres(text: &str) -> Result<Self, StoreError> {
        PostgresAddress::parse(text)?;
        Ok(Self::Postgres(text.to_owned()))
    }
}

impl fmt::Display for DatabaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::SqliteFile(path) => write!(f, "sqlite:{}", path.display()),
            Self::SqliteMemory => f.write_str("sqlite::memory:"),
            Self::Postgres(_) => f.write_str("postgres:…"),
        }
    }
}

impl fmt::Debug for DatabaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Every limit of a store.
#[derive(Debug, Clone)]
pub struct StoreOptions {
    pub url: DatabaseUrl,
    /// The key of the audit log. Without it decisions can be neither stored nor verified.
    pub audit_key: Option<AuditKey>,
    /// The key of users' secrets. Without it they can be neither stored nor read.
    pub sealing_key: Option<SealingKey>,
    /// Commits that may wait for each writer. Further callers wait for room.
    pub write_queue: usize,
    /// Commits that share one transaction and one fsync.
    pub max_batch: usize,
    /// Connections for reads. Callers wait while all are busy.
    pub readers: usize,
    /// PostgreSQL: connections for writes. A session always uses the same one.
    pub writers: usize,
    /// SQLite: page cache of the writer. Each reader has a quarter of it.
    pub cache_kib: u32,
    /// SQLite: the maximum size of the database, in pages of 4 KiB. A commit beyond it fails as on
    /// a full disk.
    pub max_pages: Option<u32>,
    /// SQLite: how long to wait for another connection's lock.
    pub busy_timeout_ms: u64,
    /// SQLite: how long to collect deletions before the file is rewritten without the deleted data.
    pub erase_delay_ms: u64,
    /// PostgreSQL: how long a connection to one host may take to open. `connect_timeout` in the
    /// address replaces it.
    pub connect_timeout_ms: u64,
    /// PostgreSQL: how long a batch, its commit or a read may take before the connection is given
    /// up.
    pub query_timeout_ms: u64,
    /// How long a search may take.
    pub search_timeout_ms: u64,
}

impl StoreOptions {
    pub fn new(url: DatabaseUrl) -> Self {
        Self {
            url,
            audit_key: None,
            sealing_key: None,
            write_queue: 1024,
            max_batch: 256,
            readers: 2,
            writers: 2,
            cache_kib: 16 * 1024,
            max_pages: None,
            busy_timeout_ms: 5_000,
            erase_delay_ms: 5_000,
            connect_timeout_ms: 5_000,
            query_timeout_ms: 30_000,
            search_timeout_ms: 10_000,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses() {
        let file = |path: &str| DatabaseUrl::SqliteFile(PathBuf::from(path));
        for (text, expected) in [
            ("sqlite:/data/codelab.db", file("/data/codelab.db")),
            ("sqlite:///data/codelab.db", file("/data/codelab.db")),
            ("sqlite:codelab.db", file("codelab.db")),
            ("sqlite::memory:", DatabaseUrl::SqliteMemory),
            (
                "postgres://me:secret@db/codelab",
                DatabaseUrl::Postgres("postgres://me:secret@db/codelab".to_owned()),
            ),
        ] {
            let url = DatabaseUrl::parse(text).unwrap();
            assert_eq!(url, expected, "{text}");
            assert!(!format!("{url} {url:?}").contains("secret"));
        }
        for bad in [
            "",
            "sqlite:",
            "mysql://x",
            "/data/codelab.db",
            "postgres://h:port/x",
            "postgres://h/x?sslmode=strict",
        ] {
            assert!(
                matches!(DatabaseUrl::parse(bad), Err(StoreError::Invalid(_))),
                "{bad}"
            );
        }
    }
}
