//! The measure of everything else: one row, one transaction, one wait for the disk, again and again.

use std::path::Path;

use rusqlite::Connection;
use tokio::task::JoinHandle;
use tokio_postgres::{Client, NoTls, Statement};

use crate::payload;

pub struct BareSqlite {
    connection: Connection,
    seq: i64,
}

impl BareSqlite {
    pub fn open(path: &Path) -> anyhow::Result<Self> {
        let connection = Connection::open(path)?;
        connection.pragma_update(None, "journal_mode", "WAL")?;
        connection.pragma_update(None, "synchronous", "FULL")?;
        connection.execute_batch("CREATE TABLE appends (seq INTEGER PRIMARY KEY, body TEXT, state TEXT) STRICT")?;
        Ok(Self { connection, seq: 0 })
    }

    pub fn append(&mut self) -> anyhow::Result<()> {
        self.seq += 1;
        let mut insert = self.connection.prepare_cached("INSERT INTO appends VALUES (?1, ?2, ?3)")?;
        // Outside a transaction each statement is one of its own.
        insert.execute((self.seq, payload::event_body(self.seq as u64), payload::state(self.seq as u64)))?;
        Ok(())
    }
}

pub struct BarePostgres {
    client: Client,
    driver: JoinHandle<Result<(), tokio_postgres::Error>>,
    insert: Statement,
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
                 CREATE TABLE appends (seq BIGINT PRIMARY KEY, body TEXT, state TEXT)"
            ))
            .await?;
        let insert = client.prepare("INSERT INTO appends VALUES ($1, $2, $3)").await?;
        Ok(Self { client, driver, insert, url: url.to_owned(), schema, seq: 0 })
    }

    /// The same database, with the schema that is only for this run.
    pub fn own_url(&self) -> String {
        let separator = if self.url.contains('?') { '&' } else { '?' };
        format!("{}{separator}options=-c%20search_path%3D{}", self.url, self.schema)
    }

    pub async fn append(&mut self) -> anyhow::Result<()> {
        self.seq += 1;
        let (body, state) = (payload::event_body(self.seq as u64), payload::state(self.seq as u64));
        self.client.execute(&self.insert, &[&self.seq, &body, &state]).await?;
        Ok(())
    }

    pub async fn remove(self) -> anyhow::Result<()> {
        self.client.batch_execute(&format!("DROP SCHEMA {} CASCADE", self.schema)).await?;
        drop(self.client);
        Ok(self.driver.await??)
    }
}
