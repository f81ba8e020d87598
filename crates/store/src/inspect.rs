//! Checks whether a server could use a database. It creates no file and no table, needs no lock,
//! and can run beside a server.

use std::io::ErrorKind;
use std::path::Path;
use std::time::SystemTime;

use codelab_protocol::{Digest, Timestamp};
use rusqlite::{Connection, OpenFlags, OptionalExtension as _};

use crate::audit_chain::AuditKey;
use crate::migrate::{self, Migration};
use crate::postgres::{Postgres, PostgresLook};
use crate::sqlite::error::translate;
use crate::{DatabaseUrl, StoreError, StoreOptions};

/// Facts about a database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Inspection {
    /// Such as `SQLite 3.51.3`.
    pub engine: String,
    pub schema: SchemaState,
    /// Whether the audit log was sealed with the key of the options. `None` if the log is not
    /// sealed or there is no key.
    pub audit_key_fits: Option<bool>,
    /// PostgreSQL's clock.
    pub clock: Option<DatabaseClock>,
    pub access: DatabaseAccess,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SchemaState {
    /// There are no tables of CodeLab, or no database file.
    Missing,
    /// The next start of a server upgrades it.
    Old {
        found: i64,
        known: i64,
    },
    Current {
        version: i64,
    },
    /// Only a newer program can use it.
    TooNew {
        found: i64,
        known: i64,
    },
}

/// Whether a server could write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DatabaseAccess {
    Full,
    /// The user may not make tables.
    NoCreate,
    /// It is a standby or read-only.
    ReadOnly,
}

/// The database's clock and this machine's when the answer arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DatabaseClock {
    pub theirs: Timestamp,
    pub ours: Timestamp,
}

pub(crate) const SEALED_AT: &str = "SELECT sealed_at, seal FROM audit_seals WHERE id = 1";
/// The schema version that introduced the seals.
const SEALS_SINCE: i64 = 5;

impl SchemaState {
    fn of(found: i64, migrations: &[Migration]) -> Self {
        let known = migrate::newest(migrations);
        match found {
            0 => Self::Missing,
            found if found < known => Self::Old { found, known },
            found if found > known => Self::TooNew { found, known },
            version => Self::Current { version },
        }
    }
}

/// Reads the facts within the time limits of the options. Does not block async threads.
pub async fn inspect(options: StoreOptions) -> Result<Inspection, StoreError> {
    match options.url.clone() {
        DatabaseUrl::SqliteFile(path) => {
            let look = move || inspect_sqlite(&path, &options);
            tokio::task::spawn_blocking(look)
                .await
                .unwrap_or_else(|_| Err(StoreError::stopped()))
        }
        DatabaseUrl::SqliteMemory => Ok(sqlite(SchemaState::Missing, None)),
        DatabaseUrl::Postgres(url) => {
            let PostgresLook {
                version,
                found,
                seal,
                clock,
                access,
            } = Postgres::look(&url, &options).await?;
            Ok(Inspection {
                engine: format!("PostgreSQL {version}"),
                schema: SchemaState::of(found, migrate::POSTGRES),
                audit_key_fits: fits(options.audit_key.as_ref(), seal),
                clock: Some(clock),
                access,
            })
        }
    }
}

/// Whether a database of this version has a table of seals.
pub(crate) fn has_seals(found: i64) -> bool {
    found >= SEALS_SINCE
}

fn inspect_sqlite(path: &Path, options: &StoreOptions) -> Result<Inspection, StoreError> {
    match path.try_exists() {
        Ok(true) => {}
        Ok(false) => return Ok(sqlite(SchemaState::Missing, None)),
        // The folder does not exist either. The check of the data folder reports that.
        Err(error) if error.kind() == ErrorKind::NotADirectory => {
            return Ok(sqlite(SchemaState::Missing, None));
        }
        Err(error) => {
            return Err(StoreError::io(
                &format!("cannot look at {}", path.display()),
                &error,
            ));
        }
    }
    let connection = open_unchanged(path)?;
    connection
        .busy_timeout(std::time::Duration::from_millis(options.busy_timeout_ms))
        .map_err(translate)?;
    let found = migrate::sqlite_version(&connection).map_err(translate)?;
    let read = |row: &rusqlite::Row<'_>| Ok((row.get::<_, i64>(0)?, row.get::<_, String>(1)?));
    let seal = match has_seals(found) {
        true => connection
            .query_row(SEALED_AT, [], read)
            .optional()
            .map_err(translate)?,
        false => None,
    };
    let fits = fits(
        options.audit_key.as_ref(),
        seal.map(|(at, seal)| (Timestamp::from_millis(at), seal)),
    );
    Ok(sqlite(SchemaState::of(found, migrate::SQLITE), fits))
}

fn sqlite(schema: SchemaState, audit_key_fits: Option<bool>) -> Inspection {
    let engine = format!("SQLite {}", rusqlite::version());
    Inspection {
        engine,
        schema,
        audit_key_fits,
        clock: None,
        access: DatabaseAccess::Full,
    }
}

/// Without a log beside the database, nobody has it open. SQLite would create a log even to read.
/// It does not if it is told that the file never changes.
fn open_unchanged(path: &Path) -> Result<Connection, StoreError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    if crate::sqlite::beside(path, "-wal").exists() {
        return Connection::open_with_flags(path, flags).map_err(translate);
    }
    let uri = format!("file:{}?immutable=1", encoded(path));
    Connection::open_with_flags(uri, flags | OpenFlags::SQLITE_OPEN_URI).map_err(translate)
}

/// The path as a part of an address.
fn encoded(path: &Path) -> String {
    let mut text = String::new();
    for &byte in path.as_os_str().as_encoded_bytes() {
        match byte {
            b'/' | b'-' | b'.' | b'_' | b'~' => text.push(char::from(byte)),
            byte if byte.is_ascii_alphanumeric() => text.push(char::from(byte)),
            byte => text.push_str(&format!("%{byte:02X}")),
        }
    }
    text
}

fn fits(key: Option<&AuditKey>, seal: Option<(Timestamp, String)>) -> Option<bool> {
    let (sealed_at, seal) = seal?;
    Some(key?.seal_of_upgrade(sealed_at) == Digest::from_wire(&seal))
}

impl DatabaseClock {
    pub(crate) fn now(theirs_ms: i64) -> Self {
        Self {
            theirs: Timestamp::from_millis(theirs_ms),
            ours: SystemTime::now().into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Store;

    fn names(folder: &Path) -> Vec<String> {
        let entries = std::fs::read_dir(folder).unwrap();
        let mut names: Vec<_> = entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    #[tokio::test]
    async fn a_look_at_a_file_changes_nothing() {
        let folder = tempfile::tempdir().unwrap();
        // Has characters that must be escaped in an address.
        let path = folder.path().join("a b?c#%20.db");
        let options = StoreOptions {
            audit_key: Some(AuditKey::new(&[1; 32])),
            ..StoreOptions::new(DatabaseUrl::SqliteFile(path.clone()))
        };
        assert_eq!(
            inspect(options.clone()).await.unwrap().schema,
            SchemaState::Missing
        );
        assert_eq!(names(folder.path()), [""; 0]);

        let store = Store::open(options.clone()).await.unwrap();
        store
            .seal_audit(false, Timestamp::from_millis(5))
            .await
            .unwrap();
        let known = migrate::newest(migrate::SQLITE);
        let found = inspect(options.clone()).await.unwrap();
        assert_eq!(
            found.schema,
            SchemaState::Current { version: known },
            "also while the store is open"
        );
        assert_eq!(found.audit_key_fits, Some(true));
        store.close().await;
        drop(store);

        let before = (names(folder.path()), std::fs::read(&path).unwrap());
        let other = StoreOptions {
            audit_key: Some(AuditKey::new(&[2; 32])),
            ..options.clone()
        };
        assert_eq!(inspect(other).await.unwrap().audit_key_fits, Some(false));
        assert_eq!(
            (names(folder.path()), std::fs::read(&path).unwrap()),
            before
        );

        let connection = Connection::open(&path).unwrap();
        connection
            .execute("DELETE FROM schema_migrations WHERE version > 4", [])
            .unwrap();
        drop(connection);
        let old = inspect(options).await.unwrap();
        assert_eq!(
            (old.schema, old.audit_key_fits),
            (SchemaState::Old { found: 4, known }, None)
        );
    }
}
