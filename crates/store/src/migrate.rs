//! Schema versions. They are applied in order, each in the transaction that records it.

use rusqlite::{Connection, OptionalExtension as _, TransactionBehavior};
use tokio_postgres::types::{ToSql, Type};

use crate::StoreError;

mod search;

/// `version` is the position in the list, from 1. A released migration is never changed; a new one
/// is added after it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Migration {
    pub version: i64,
    pub name: &'static str,
    pub sql: &'static str,
    step: Option<Step>,
}

/// What SQL alone cannot do, after the SQL of its migration.
#[derive(Debug, Clone, Copy)]
enum Step {
    /// Indexes the words of the messages that are stored already.
    IndexWords,
}

impl Migration {
    const fn new(version: i64, name: &'static str, sql: &'static str) -> Self {
        Self {
            version,
            name,
            sql,
            step: None,
        }
    }

    const fn then(self, step: Step) -> Self {
        Self {
            step: Some(step),
            ..self
        }
    }
}

pub(crate) const SQLITE: &[Migration] = &[
    Migration::new(
        1,
        "init",
        include_str!("../migrations/sqlite/0001_init.sql"),
    ),
    Migration::new(
        2,
        "users",
        include_str!("../migrations/sqlite/0002_users.sql"),
    ),
    Migration::new(
        3,
        "chat",
        include_str!("../migrations/sqlite/0003_chat.sql"),
    ),
    Migration::new(
        4,
        "events_in_order",
        include_str!("../migrations/sqlite/0004_events_in_order.sql"),
    ),
    Migration::new(
        5,
        "keyed_audit",
        include_str!("../migrations/sqlite/0005_keyed_audit.sql"),
    ),
    Migration::new(
        6,
        "notes_and_grants",
        include_str!("../migrations/sqlite/0006_notes_and_grants.sql"),
    ),
    Migration::new(
        7,
        "cluster",
        include_str!("../migrations/sqlite/0007_cluster.sql"),
    ),
    Migration::new(
        8,
        "chat_handover",
        include_str!("../migrations/sqlite/0008_chat_handover.sql"),
    ),
    Migration::new(
        9,
        "last_event",
        include_str!("../migrations/sqlite/0009_last_event.sql"),
    ),
    Migration::new(
        10,
        "models",
        include_str!("../migrations/sqlite/0010_models.sql"),
    ),
    Migration::new(
        11,
        "reasoning",
        include_str!("../migrations/sqlite/0011_reasoning.sql"),
    ),
    Migration::new(
        12,
        "session_marks",
        include_str!("../migrations/sqlite/0012_session_marks.sql"),
    ),
    Migration::new(
        13,
        "search",
        include_str!("../migrations/sqlite/0013_search.sql"),
    )
    .then(Step::IndexWords),
    Migration::new(
        14,
        "attachments",
        include_str!("../migrations/sqlite/0014_attachments.sql"),
    ),
    Migration::new(
        15,
        "mcp_approvals",
        include_str!("../migrations/sqlite/0015_mcp_approvals.sql"),
    ),
    Migration::new(16, "mcp", include_str!("../migrations/sqlite/0016_mcp.sql")),
    Migration::new(
        17,
        "rewind",
        include_str!("../migrations/sqlite/0017_rewind.sql"),
    ),
    Migration::new(
        18,
        "previews",
        include_str!("../migrations/sqlite/0018_previews.sql"),
    ),
];

pub(crate) const POSTGRES: &[Migration] = &[
    Migration::new(
        1,
        "init",
        include_str!("../migrations/postgres/0001_init.sql"),
    ),
    Migration::new(
        2,
        "users",
        include_str!("../migrations/postgres/0002_users.sql"),
    ),
    Migration::new(
        3,
        "chat",
        include_str!("../migrations/postgres/0003_chat.sql"),
    ),
    Migration::new(
        4,
        "events_in_order",
        include_str!("../migrations/postgres/0004_events_in_order.sql"),
    ),
    Migration::new(
        5,
        "keyed_audit",
        include_str!("../migrations/postgres/0005_keyed_audit.sql"),
    ),
    Migration::new(
        6,
        "notes_and_grants",
        include_str!("../migrations/postgres/0006_notes_and_grants.sql"),
    ),
    Migration::new(
        7,
        "cluster",
        include_str!("../migrations/postgres/0007_cluster.sql"),
    ),
    Migration::new(
        8,
        "chat_handover",
        include_str!("../migrations/postgres/0008_chat_handover.sql"),
    ),
    Migration::new(
        9,
        "last_event",
        include_str!("../migrations/postgres/0009_last_event.sql"),
    ),
    Migration::new(
        10,
        "models",
        include_str!("../migrations/postgres/0010_models.sql"),
    ),
    Migration::new(
        11,
        "reasoning",
        include_str!("../migrations/postgres/0011_reasoning.sql"),
    ),
    Migration::new(
        12,
        "session_marks",
        include_str!("../migrations/postgres/0012_session_marks.sql"),
    ),
    Migration::new(
        13,
        "search",
        include_str!("../migrations/postgres/0013_search.sql"),
    )
    .then(Step::IndexWords),
    Migration::new(
        14,
        "attachments",
        include_str!("../migrations/postgres/0014_attachments.sql"),
    ),
    Migration::new(
        15,
        "mcp_approvals",
        include_str!("../migrations/postgres/0015_mcp_approvals.sql"),
    ),
    Migration::new(
        16,
        "mcp",
        include_str!("../migrations/postgres/0016_mcp.sql"),
    ),
    Migration::new(
        17,
        "rewind",
        include_str!("../migrations/postgres/0017_rewind.sql"),
    ),
    Migration::new(
        18,
        "previews",
        include_str!("../migrations/postgres/0018_previews.sql"),
    ),
];

const CREATE_LEDGER: &str = "CREATE TABLE IF NOT EXISTS schema_migrations (version BIGINT NOT NULL PRIMARY KEY, name TEXT NOT NULL)";
const READ_VERSION: &str = "SELECT COALESCE(MAX(version), 0) FROM schema_migrations";
const RECORD: &str = "INSERT INTO schema_migrations (version, name) VALUES ($1, $2)";
/// A migration may take longer than a commit, also between two of its statements. The connection of
/// a writer ends a transaction that is idle.
const WITHOUT_TIMEOUTS: &str =
    "SET LOCAL idle_in_transaction_session_timeout = 0; SET LOCAL statement_timeout = 0";
/// The id of the lock that two servers use when they start at the same time on one PostgreSQL.
const LOCK_LEDGER: &str = "SELECT pg_advisory_xact_lock(7136048201935)";

pub(crate) fn newest(migrations: &[Migration]) -> i64 {
    migrations.last().map_or(0, |migration| migration.version)
}

fn check_not_newer(found: i64, migrations: &[Migration]) -> Result<(), StoreError> {
    let known = newest(migrations);
    if found > known {
        Err(StoreError::TooNew { found, known })
    } else {
        Ok(())
    }
}

/// For a database that must not be changed. It must have exactly the newest version.
pub(crate) fn check_current(found: i64, migrations: &[Migration]) -> Result<(), StoreError> {
    check_not_newer(found, migrations)?;
    let known = newest(migrations);
    match found {
        0 => Err(StoreError::Invalid(
            "this is not a CodeLab database".to_owned(),
        )),
        found if found < known => Err(StoreError::TooOld { found, known }),
        _ => Ok(()),
    }
}

pub(crate) fn sqlite(
    connection: &mut Connection,
    migrations: &[Migration],
) -> Result<(), rusqlite::Error> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    transaction.execute_batch(CREATE_LEDGER)?;
    let version: i64 = transaction.query_row(READ_VERSION, [], |row| row.get(0))?;
    for migration in migrations
        .iter()
        .filter(|migration| migration.version > version)
    {
        transaction.execute_batch(migration.sql)?;
        match migration.step {
            Some(Step::IndexWords) => search::fill_sqlite(&transaction)?,
            None => (),
        }
        transaction.execute(RECORD, (migration.version, migration.name))?;
    }
    transaction.commit()
}

/// 0 when the database has no tables of CodeLab.
pub(crate) fn sqlite_version(connection: &Connection) -> Result<i64, rusqlite::Error> {
    let ledger = "SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = 'schema_migrations'";
    match connection.query_row(ledger, [], |_| Ok(())).optional()? {
        None => Ok(0),
        Some(()) => connection.query_row(READ_VERSION, [], |row| row.get(0)),
    }
}

/// Refuses a newer database before changing anything.
pub(crate) fn check_sqlite(
    connection: &Connection,
    migrations: &[Migration],
) -> Result<(), StoreError> {
    let found = sqlite_version(connection).map_err(crate::sqlite::error::translate)?;
    check_not_newer(found, migrations)
}

/// Prepares nothing by name, because a pooler may stand between.
pub(crate) async fn postgres(
    client: &mut tokio_postgres::Client,
    migrations: &[Migration],
) -> Result<(), StoreError> {
    let failed = |error| crate::postgres::error::translate(&error);
    let transaction = client.transaction().await.map_err(failed)?;
    transaction
        .batch_execute(WITHOUT_TIMEOUTS)
        .await
        .map_err(failed)?;
    transaction
        .batch_execute(LOCK_LEDGER)
        .await
        .map_err(failed)?;
    transaction
        .batch_execute(CREATE_LEDGER)
        .await
        .map_err(failed)?;
    let version: i64 = transaction
        .query_typed_one(READ_VERSION, &[])
        .await
        .map_err(failed)?
        .get(0);
    check_not_newer(version, migrations)?;
    for migration in migrations
        .iter()
        .filter(|migration| migration.version > version)
    {
        transaction
            .batch_execute(migration.sql)
            .await
            .map_err(failed)?;
        match migration.step {
            Some(Step::IndexWords) => search::fill_postgres(&transaction).await?,
            None => (),
        }
        let record: [(&(dyn ToSql + Sync), Type); 2] = [
            (&migration.version, Type::INT8),
            (&migration.name, Type::TEXT),
        ];
        transaction
            .execute_typed(RECORD, &record)
            .await
            .map_err(failed)?;
    }
    transaction.commit().await.map_err(failed)
}

/// 0 when the database has no tables of CodeLab.
pub(crate) async fn postgres_version(client: &tokio_postgres::Client) -> Result<i64, StoreError> {
    let failed = |error| crate::postgres::error::translate(&error);
    let exists = "SELECT to_regclass('schema_migrations') IS NOT NULL";
    if !client
        .query_typed_one(exists, &[])
        .await
        .map_err(failed)?
        .get::<_, bool>(0)
    {
        return Ok(0);
    }
    Ok(client
        .query_typed_one(READ_VERSION, &[])
        .await
        .map_err(failed)?
        .get(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The next migration, as it will look: it changes a table that holds rows.
    fn with_next(released: &[Migration]) -> Vec<Migration> {
        let version = newest(released) + 1;
        let next = Migration::new(version, "next", "ALTER TABLE servers ADD COLUMN next TEXT");
        released.iter().copied().chain([next]).collect()
    }

    const ROWS: &str = "INSERT INTO servers (server_id, started_at, lease_expires_at) VALUES ('a', 1, 2); \
         INSERT INTO sessions (id, realm, session_id, user_id, project_id, created_at, last_activity, epoch, state) \
         VALUES (1, 'project', 's', 7, 8, 1, 2, 1, '{}'); \
         INSERT INTO messages (session_key, ord, turn, message_id, role, timestamp, error, content) \
         VALUES (1, 1, 1, 'm1', 'user', 1, 0, 'kept'); \
         INSERT INTO events (session_key, seq, turn, kind, settled, created_at, body) VALUES (7, 3, 2, 'k', 's', 9, 'b')";
    const CHECK: &str = "SELECT COUNT(*) FROM servers, sessions, messages, events WHERE server_id = 'a' \
         AND next IS NULL AND project_id = 8 AND state = '{}' AND content = 'kept' \
         AND (SELECT COUNT(*) FROM projects) = 0 AND (SELECT COUNT(*) FROM task_messages) = 0 \
         AND (SELECT COUNT(*) FROM spendings) = 0 AND events.session_key = 7 AND seq = 3 AND events.turn = 2 \
         AND kind = 'k' AND settled = 's' AND events.created_at = 9 AND body = 'b'";

    #[test]
    fn the_versions_are_their_places() {
        for migrations in [SQLITE, POSTGRES] {
            let positions: Vec<_> = (1..=migrations.len() as i64).collect();
            assert_eq!(
                migrations
                    .iter()
                    .map(|migration| migration.version)
                    .collect::<Vec<_>>(),
                positions
            );
        }
        assert!(
            SQLITE
                .iter()
                .zip(POSTGRES)
                .all(|(one, other)| one.name == other.name)
        );
    }

    #[test]
    fn sqlite_upgrades_from_every_version_and_keeps_its_rows() {
        let all = with_next(SQLITE);
        for old in 1..all.len() {
            let mut connection = Connection::open_in_memory().unwrap();
            sqlite(&mut connection, &all[..old]).unwrap();
            connection.execute_batch(ROWS).unwrap();
            for _ in 0..2 {
                sqlite(&mut connection, &all).unwrap();
                assert_eq!(
                    connection
                        .query_row(CHECK, [], |row| row.get::<_, i64>(0))
                        .unwrap(),
                    1
                );
                assert_eq!(sqlite_version(&connection).unwrap(), newest(&all));
            }
            let error = check_sqlite(&connection, SQLITE).unwrap_err();
            assert_eq!(
                error,
                StoreError::TooNew {
                    found: newest(&all),
                    known: newest(SQLITE)
                }
            );
            assert!(matches!(
                check_current(old as i64, &all),
                Err(StoreError::TooOld { .. })
            ));
        }
    }

    /// What the store writes into the index is the same in both databases.
    const FOUND: &str =
        "SELECT session_key, ord, words FROM session_texts ORDER BY session_key, ord";

    #[test]
    fn sqlite_finds_by_words_what_older_versions_stored() {
        let mut connection = Connection::open_in_memory().unwrap();
        sqlite(&mut connection, &SQLITE[..12]).unwrap();
        connection
            .execute_batch(&search::sample("' || CHAR(0) || '"))
            .unwrap();
        sqlite(&mut connection, SQLITE).unwrap();
        let mut found = connection.prepare(FOUND).unwrap();
        let found = found.query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)));
        let found: Vec<(i64, i64, String)> = found.unwrap().map(Result::unwrap).collect();
        search::check_sample(&found);
        let matches = "SELECT COUNT(*) FROM session_search WHERE session_search MATCH '\"7:hel\"*'";
        let matches: i64 = connection.query_row(matches, [], |row| row.get(0)).unwrap();
        assert_eq!(matches, 1);
    }

    #[tokio::test]
    async fn postgres_finds_by_words_what_older_versions_stored() {
        let Ok(url) = std::env::var("CODELAB_TEST_POSTGRES_URL") else {
            return;
        };
        let (mut client, driver) = tokio_postgres::connect(&url, tokio_postgres::NoTls)
            .await
            .unwrap();
        tokio::spawn(driver);
        // As on a connection of the store.
        let schema = "DROP SCHEMA IF EXISTS test_migrate_search CASCADE; CREATE SCHEMA test_migrate_search; \
             SET search_path = test_migrate_search; SET idle_in_transaction_session_timeout = '5s'";
        client.batch_execute(schema).await.unwrap();
        postgres(&mut client, &POSTGRES[..12]).await.unwrap();
        let sample = search::sample("' || CHR(1) || '0");
        client.batch_execute(&sample).await.unwrap();
        let mut all = with_next(POSTGRES);
        all.last_mut().unwrap().sql = "DO $$ BEGIN \
             IF current_setting('idle_in_transaction_session_timeout') <> '0' THEN \
             RAISE EXCEPTION 'a long migration would be ended'; END IF; END $$";
        postgres(&mut client, &all).await.unwrap();
        let found = client.query(FOUND, &[]).await.unwrap();
        let found: Vec<(i64, i64, String)> = found
            .iter()
            .map(|row| (row.get(0), row.get(1), row.get(2)))
            .collect();
        // A server of an earlier version deletes a session and knows nothing of the words.
        client
            .batch_execute("DELETE FROM sessions WHERE id = 1")
            .await
            .unwrap();
        let left = client.query(FOUND, &[]).await.unwrap();
        let left: Vec<i64> = left.iter().map(|row| row.get(0)).collect();
        assert_eq!(left, [2]);
        client
            .batch_execute("DROP SCHEMA test_migrate_search CASCADE")
            .await
            .unwrap();
        search::check_sample(&found);
    }

    #[test]
    fn a_migration_that_fails_leaves_no_trace() {
        let mut all = with_next(SQLITE);
        all.last_mut().unwrap().sql =
            "CREATE TABLE half (a BIGINT); INSERT INTO nowhere VALUES (1)";
        let mut connection = Connection::open_in_memory().unwrap();
        sqlite(&mut connection, SQLITE).unwrap();
        assert!(sqlite(&mut connection, &all).is_err());
        assert_eq!(sqlite_version(&connection).unwrap(), newest(SQLITE));
        assert!(connection.prepare("SELECT a FROM half").is_err());
    }

    #[tokio::test]
    async fn postgres_upgrades_from_every_version_and_keeps_its_rows() {
        let Ok(url) = std::env::var("CODELAB_TEST_POSTGRES_URL") else {
            return;
        };
        let (mut client, driver) = tokio_postgres::connect(&url, tokio_postgres::NoTls)
            .await
            .unwrap();
        tokio::spawn(driver);
        let all = with_next(POSTGRES);
        for old in 1..all.len() {
            client
                .batch_execute("CREATE SCHEMA test_migrate; SET search_path = test_migrate")
                .await
                .unwrap();
            postgres(&mut client, &all[..old]).await.unwrap();
            client.batch_execute(ROWS).await.unwrap();
            for _ in 0..2 {
                postgres(&mut client, &all).await.unwrap();
                assert_eq!(
                    client.query_one(CHECK, &[]).await.unwrap().get::<_, i64>(0),
                    1
                );
                assert_eq!(postgres_version(&client).await.unwrap(), newest(&all));
            }
            let error = postgres(&mut client, POSTGRES).await.unwrap_err();
            assert_eq!(
                error,
                StoreError::TooNew {
                    found: newest(&all),
                    known: newest(POSTGRES)
                }
            );
            client
                .batch_execute("DROP SCHEMA test_migrate CASCADE")
                .await
                .unwrap();
        }
    }
}
