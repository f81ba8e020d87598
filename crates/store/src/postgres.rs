//! PostgreSQL: writer tasks that commit waiting jobs together, and a few connections for reads.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::{Mutex, Semaphore, mpsc, oneshot};
use tokio_postgres::error::SqlState;

use crate::columns::{Columns, Decode};
use crate::statement::{Param, Stmt, WriteResult};
use crate::store::Counters;
use crate::{SessionKey, StoreError, StoreOptions, migrate};

pub(crate) mod address;
mod connection;
mod connector;
pub(crate) mod error;
mod link;
mod look;
pub(crate) mod text;
pub(crate) mod tls;
mod writer;

use connection::{PostgresAccess, PostgresConnection};
use connector::PostgresConnector;
use error::{is_conflict, translate};
use link::PostgresLink;
pub(crate) use look::PostgresLook;
use writer::PostgresJob;

/// How long the database may take for what a lease depends on. A lease is renewed every three
/// seconds, and a connection that answers nothing must not take all the time that it runs.
const LEASE_TIMEOUT: Duration = Duration::from_secs(3);
/// Reads that share one connection; they are pipelined.
const READS_PER_CONNECTION: usize = 16;
/// A read on a dead connection is tried once more on a new one. A read that failed because of other
/// transactions is tried once more too.
const READ_ATTEMPTS: usize = 2;
/// PostgreSQL ends a search that takes too long. Only if that does not happen, as behind a pooler,
/// its connection is given up.
const SEARCH_GRACE: Duration = Duration::from_secs(2);

pub(crate) struct Postgres {
    /// Empty when opened for reading only.
    writers: Vec<mpsc::Sender<PostgresJob>>,
    /// For leases alone, so that they wait for nothing else that is written.
    lease_writer: Option<mpsc::Sender<PostgresJob>>,
    connector: Arc<PostgresConnector>,
    readers: Vec<Mutex<PostgresLink>>,
    /// For searches alone, so that no other read waits behind a slow one.
    searcher: Mutex<PostgresLink>,
    search_timeout: Duration,
    next_reader: AtomicUsize,
    permits: Semaphore,
}

impl Postgres {
    pub async fn open(
        url: &str,
        options: &StoreOptions,
        counters: &Arc<Counters>,
    ) -> Result<Self, StoreError> {
        let connector = Arc::new(PostgresConnector::new(url, options)?);
        let [mut first, reader] = connector
            .connect_first([PostgresAccess::Write, PostgresAccess::Read])
            .await?;
        migrate::postgres(&mut first.client, migrate::POSTGRES).await?;
        let mut first = Some(first);
        let spawn = |link, timeout| {
            let (sender, queue) = mpsc::channel(options.write_queue.max(1));
            let counters = Arc::clone(counters);
            let max_batch = options.max_batch.max(1);
            tokio::spawn(writer::run(link, timeout, queue, max_batch, counters));
            sender
        };
        let mut link =
            || PostgresLink::new(Arc::clone(&connector), PostgresAccess::Write, first.take());
        let timeout = connector.query_timeout;
        let writers = (0..options.writers.max(1))
            .map(|_| spawn(link(), timeout))
            .collect();
        let lease_writer = spawn(link().urgent(), LEASE_TIMEOUT.min(timeout));
        let readers = vec![reader];
        Ok(Self {
            lease_writer: Some(lease_writer),
            ..Self::with_readers(connector, writers, readers, options)
        })
    }

    pub async fn open_read_only(url: &str, options: &StoreOptions) -> Result<Self, StoreError> {
        let connector = Arc::new(PostgresConnector::new(url, options)?);
        let first = connector
            .connect_first([PostgresAccess::Read, PostgresAccess::Read])
            .await?;
        let version = migrate::postgres_version(&first[0].client).await?;
        migrate::check_current(version, migrate::POSTGRES)?;
        Ok(Self::with_readers(
            connector,
            Vec::new(),
            first.into(),
            options,
        ))
    }

    fn with_readers(
        connector: Arc<PostgresConnector>,
        writers: Vec<mpsc::Sender<PostgresJob>>,
        connections: Vec<PostgresConnection>,
        options: &StoreOptions,
    ) -> Self {
        let count = options.readers.max(1);
        let mut connections = connections.into_iter();
        let mut link = || {
            let connector = Arc::clone(&connector);
            Mutex::new(PostgresLink::new(
                connector,
                PostgresAccess::Read,
                connections.next(),
            ))
        };
        let readers = (0..count).map(|_| link()).collect();
        let timeout_ms = options.search_timeout_ms;
        let search = PostgresAccess::Search { timeout_ms };
        let searcher = PostgresLink::new(Arc::clone(&connector), search, None);
        let permits = Semaphore::new(count * READS_PER_CONNECTION);
        Self {
            writers,
            lease_writer: None,
            connector,
            readers,
            searcher: Mutex::new(searcher),
            search_timeout: Duration::from_millis(timeout_ms) + SEARCH_GRACE,
            next_reader: AtomicUsize::new(0),
            permits,
        }
    }

    /// Returns when the statements are committed. Once they are queued they are committed even if
    /// the future is dropped.
    ///
    /// With a `server_id` they fail with `Conflict` if others have ended that server.
    ///
    /// All writes of a session go through one writer, so they are committed in the order of the
    /// calls.
    pub async fn write(
        &self,
        key: Option<SessionKey>,
        stmts: Vec<Stmt>,
        server_id: Option<Arc<str>>,
    ) -> Result<WriteResult, StoreError> {
        let shard = key.map_or(0, |key| {
            key.get().unsigned_abs() as usize % self.writers.len().max(1)
        });
        queued(self.writers.get(shard), stmts, server_id).await
    }

    /// A write about servers and their leases. It proves nothing, and waits for no other write.
    pub async fn write_lease(&self, stmts: Vec<Stmt>) -> Result<WriteResult, StoreError> {
        queued(self.lease_writer.as_ref(), stmts, None).await
    }

    pub async fn read<T>(
        &self,
        sql: &'static str,
        params: Vec<Param>,
        decode: Decode<T>,
    ) -> Result<Vec<T>, StoreError> {
        let _permit = self
            .permits
            .acquire()
            .await
            .map_err(|_| StoreError::stopped())?;
        let slot = self.next_reader.fetch_add(1, Ordering::Relaxed) % self.readers.len();
        let mut failure = StoreError::stopped();
        for _ in 0..READ_ATTEMPTS {
            let connection = self.readers[slot].lock().await.connection().await?;
            let answer = tokio::time::timeout(
                self.connector.query_timeout,
                query(&connection, sql, &params),
            )
            .await;
            failure = match answer {
                Ok(Ok(rows)) => return decoded(&rows, decode),
                Ok(Err(error)) if is_conflict(&error) => {
                    failure = translate(&error);
                    continue;
                }
                Ok(Err(error)) if connection.is_usable_after(&error) => {
                    return Err(translate(&error));
                }
                Ok(Err(error)) => translate(&error),
                Err(_) => StoreError::Unavailable("no answer within the time limit".to_owned()),
            };
            self.readers[slot].lock().await.forget(&connection);
        }
        Err(failure)
    }

    /// A read that can take long. After its time limit it is not tried again.
    pub async fn search<T>(
        &self,
        sql: &'static str,
        params: Vec<Param>,
        decode: Decode<T>,
    ) -> Result<Vec<T>, StoreError> {
        let mut failure = StoreError::stopped();
        for _ in 0..READ_ATTEMPTS {
            if self.permits.is_closed() {
                return Err(StoreError::stopped());
            }
            let connection = self.searcher.lock().await.connection().await?;
            let search = query(&connection, sql, &params);
            match tokio::time::timeout(self.search_timeout, search).await {
                Ok(Ok(rows)) => return decoded(&rows, decode),
                Ok(Err(error)) if error.code() == Some(&SqlState::QUERY_CANCELED) => {
                    return Err(StoreError::search_took_too_long());
                }
                Ok(Err(error)) if connection.is_usable_after(&error) => {
                    return Err(translate(&error));
                }
                Ok(Err(error)) => failure = translate(&error),
                Err(_) => {
                    self.searcher.lock().await.forget(&connection);
                    return Err(StoreError::search_took_too_long());
                }
            }
            self.searcher.lock().await.forget(&connection);
        }
        Err(failure)
    }

    fn all_writers(&self) -> impl Iterator<Item = &mpsc::Sender<PostgresJob>> {
        self.writers.iter().chain(&self.lease_writer)
    }

    /// Always false for a store that was opened for reading only.
    pub fn has_lost_its_writer(&self) -> bool {
        self.all_writers().any(mpsc::Sender::is_closed)
    }

    /// Commits the queued jobs, then closes the connections.
    pub async fn close(&self) {
        self.permits.close();
        for reader in &self.readers {
            reader.lock().await.close();
        }
        self.searcher.lock().await.close();
        for writer in self.all_writers() {
            let (done, closed) = oneshot::channel();
            if writer.send(PostgresJob::Close(done)).await.is_ok() {
                let _ = closed.await;
            }
        }
    }
}

async fn query(
    connection: &PostgresConnection,
    sql: &'static str,
    params: &[Param],
) -> Result<Vec<tokio_postgres::Row>, tokio_postgres::Error> {
    let prepared = connection.prepare(sql).await?;
    connection.query(&prepared, params).await
}

fn decoded<T>(rows: &[tokio_postgres::Row], decode: Decode<T>) -> Result<Vec<T>, StoreError> {
    rows.iter()
        .map(|row| decode(&mut Columns::postgres(row)))
        .collect()
}

/// Without a writer, the store was opened for reading only.
async fn queued(
    writer: Option<&mpsc::Sender<PostgresJob>>,
    stmts: Vec<Stmt>,
    server_id: Option<Arc<str>>,
) -> Result<WriteResult, StoreError> {
    let (reply, answer) = oneshot::channel();
    writer
        .ok_or(StoreError::ReadOnly)?
        .send(PostgresJob::write(stmts, server_id, reply))
        .await
        .map_err(|_| StoreError::stopped())?;
    answer.await.unwrap_or(Err(StoreError::Unknown))
}
