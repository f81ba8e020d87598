//! The baseline: one transaction per append, which waits for the disk each time.
//!
//! An append does the same as in the store, in the simplest way: it adds an event and replaces the
//! session's state.

use std::path::Path;

use rusqlite::Connection;
use tokio::task::JoinHandle;
use tokio_postgres::{Client, NoTls, Statement};

use crate::payload;

/// The same value as in the store, so that neither checkpoints its log more often than the other.
const CHECKPOINT_PAGES: u32 = 8_000;

pub struct BareSqlite {
    connection: Connection,
    seq: i64,
}

impl BareSqlite {
    pub fn open(path: &Path) -> anyhow::Result<Self> {
        let connection = Connection::open(path)?;
        connection.pragma_update(None, "journal_mode", "WAL")?;
        connection.pragma_update(None, "synchronous", "FULL")?;
        connection.pragma_update(None, "wal_autocheckpoint", CHECKPOINT_PAGES)?;
        connection.execute_batch(
            "CREATE TABLE events (seq INTEGER PRIMARY KEY, body TEXT) STRICT;
             CREATE TABLE sessions (id INTEGER PRIMARY KEY, state TEXT) STRICT;
             INSERT INTO sessions VALUES (1, '')",
        )?;
        Ok(Self { connection, seq: 0 })
    }

    pub fn append(&mut self) -> anyhow::Result<()> {
        self.seq += 1;
        let (body, state) = (
            payload::event_body(self.seq as u64),
            payload::state(self.seq as u64),
        );
        self.connection
            .prepare_cached("BEGIN IMMEDIATE")?
            .execute([])?;
        self.connection
            .prepare_cached("UPDATE sessions SET state = ?1 WHERE id = 1")?
            .execute([state])?;
        self.connection
            .prepare_cached("INSERT INTO events VALUES (?1, ?2)")?
            .execute((self.seq, body))?;
        self.connection.prepare_cached("COMMIT")?.execute([])?;
        Ok(())
    }
}

pub struct BarePostgres {
    client: Client,
    driver: JoinHandle<Result<(), tokio_postgres::Error>>,
    append: Statement,
    url: String,
    schema: String,
    seq: i64,
}

impl BarePostgres {
    /// Works in a schema of its own.
    pub async fn open(url: &str) -> anyhow::Result<Self> {
        let schema = format!("appends_{:08x}", getrandom::u32()?);
        let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
        let driver = tokio::spawn(connection);
        client
            .batch_execute(&format!(
                "CREATE SCHEMA {schema}; SET search_path = {schema};
                 CREATE TABLE bare_events (seq BIGINT PRIMARY KEY, body TEXT);
                 CREATE TABLE bare_sessions (id BIGINT PRIMARY KEY, state TEXT);
                 INSERT INTO bare_sessions VALUES (1, '')"
            ))
            .await?;
        // Both in one statement, which is one transaction and one round trip.
        let append = client
            .prepare(
                "WITH event AS (INSERT INTO bare_events VALUES ($1, $2)) UPDATE bare_sessions SET state = $3 WHERE id = 1",
            )
            .await?;
        Ok(Self {
            client,
            driver,
            append,
            url: url.to_owned(),
            schema,
            seq: 0,
        })
    }

    /// The same database, with the schema that is only for this run.
    pub fn own_url(&self) -> String {
        let separator = if self.url.contains('?') { '&' } else { '?' };
        format!(
            "{}{separator}options=-c%20search_path%3D{}",
            self.url, self.schema
        )
    }

    pub async fn append(&mut self) -> anyhow::Result<()> {
        self.seq += 1;
        let (body, state) = (
            payload::event_body(self.seq as u64),
            payload::state(self.seq as u64),
        );
        self.client
            .execute(&self.append, &[&self.seq, &body, &state])
            .await?;
        Ok(())
    }

    pub async fn remove(self) -> anyhow::Result<()> {
        self.client
            .batch_execute(&format!("DROP SCHEMA {} CASCADE", self.schema))
            .await?;
        drop(self.client);
        Ok(self.driver.await??)
    }
}
