//! SQLite: one writer thread and a few reading connections on one file in WAL mode.

use std::path::{Path, PathBuf};
use std::sync::mpsc::RecvTimeoutError;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rusqlite::{Connection, OpenFlags};
use tokio::sync::{Semaphore, mpsc, oneshot};

use crate::columns::{Columns, Decode};
use crate::statement::{Param, Stmt, WriteResult};
use crate::store::Counters;
use crate::{StoreError, StoreOptions, migrate};

pub(crate) mod backup;
pub(crate) mod erase;
pub(crate) mod error;
mod held;
mod lock;
mod writer;

use erase::Eraser;
use error::translate;
use lock::DatabaseLock;
pub(crate) use lock::beside;
use writer::SqliteJob;

/// In earlier versions two connections could corrupt a database during a reset of its write-ahead
/// log.
const OLDEST_SQLITE: i32 = 3_051_003;
const CACHED_STATEMENTS: usize = 64;
/// Pages in the write-ahead log before they are moved to the database.
const CHECKPOINT_PAGES: u32 = 8_000;
/// The write-ahead log is truncated to this size after a checkpoint.
const LOG_LIMIT_BYTES: u32 = 64 << 20;

pub(crate) struct Sqlite {
    /// Absent when opened for reading only.
    writer: Option<mpsc::Sender<SqliteJob>>,
    /// Absent for a database in memory, which only the writer can see.
    readers: Option<Readers>,
    path: Option<PathBuf>,
    /// Rewrites the files after deletions.
    eraser: Arc<Eraser>,
    search_timeout: Duration,
}

impl Sqlite {
    /// Blocks on the disk. Must be called inside a tokio runtime.
    pub fn open(
        path: Option<&Path>,
        options: &StoreOptions,
        counters: Arc<Counters>,
    ) -> Result<Self, StoreError> {
        check_version()?;
        let path = path.map(absolute).transpose()?;
        let lock = path.as_deref().map(DatabaseLock::take).transpose()?;
        let mut connection = match &path {
            Some(path) => open_file(path)?,
            None => Connection::open_in_memory().map_err(translate)?,
        };
        migrate::check_sqlite(&connection, migrate::SQLITE)?;
        configure_writer(&connection, path.is_some(), options)?;
        migrate::sqlite(&mut connection, migrate::SQLITE).map_err(translate)?;
        let readers = path
            .as_deref()
            .map(|path| Readers::open(path, options))
            .transpose()?;
        let eraser = Arc::<Eraser>::default();
        if erase::is_due(&connection).map_err(translate)? {
            eraser.due.notify_one();
        }
        let (sender, queue) = mpsc::channel(options.write_queue.max(1));
        // A database in memory has no files.
        if let Some(folder) = path.as_deref().and_then(Path::parent) {
            let delay = Duration::from_millis(options.erase_delay_ms);
            tokio::runtime::Handle::current().spawn(erase::run(
                sender.downgrade(),
                Arc::clone(&eraser),
                folder.to_owned(),
                delay,
            ));
        }
        let max_batch = options.max_batch.max(1);
        std::thread::Builder::new()
            .name("store-writer".to_owned())
            .spawn(move || writer::run(connection, lock, queue, max_batch, &counters))
            .map_err(|error| StoreError::io("cannot start the writer", &error))?;
        Ok(Self {
            writer: Some(sender),
            readers,
            path,
            eraser,
            search_timeout: Duration::from_millis(options.search_timeout_ms),
        })
    }

    /// Works while a server runs, because it needs no lock. Blocks on the disk.
    pub fn open_read_only(path: &Path, options: &StoreOptions) -> Result<Self, StoreError> {
        check_version()?;
        let path = absolute(path)?;
        if !path.exists() {
            return Err(StoreError::Invalid(format!(
                "there is no database {}",
                path.display()
            )));
        }
        let readers = Readers::open(&path, options)?;
        let version = readers
            .with_idle(|connection| migrate::sqlite_version(connection).map_err(translate))?;
        migrate::check_current(version, migrate::SQLITE)?;
        Ok(Self {
            writer: None,
            readers: Some(readers),
            path: Some(path),
            eraser: Arc::default(),
            search_timeout: Duration::from_millis(options.search_timeout_ms),
        })
    }

    /// Returns when the statements are on the disk. Once they are queued they are committed even if
    /// the future is dropped.
    pub async fn write(&self, stmts: Vec<Stmt>) -> Result<WriteResult, StoreError> {
        let writer = self.writer.as_ref().ok_or(StoreError::ReadOnly)?;
        let (reply, answer) = oneshot::channel();
        writer
            .send(SqliteJob::write(stmts, reply))
            .await
            .map_err(|_| StoreError::stopped())?;
        // The writer died without an answer, so the row may be stored or not.
        answer
            .await
            .map_or(Err(StoreError::Unknown), |(outcome, _)| outcome)
    }

    /// A write that deletes. Soon afterwards no file of the database holds the deleted data.
    pub async fn erase(&self, mut stmts: Vec<Stmt>) -> Result<(), StoreError> {
        stmts.push(erase::note());
        self.write(stmts).await?;
        self.eraser.due.notify_one();
        Ok(())
    }

    /// How long commits have been waiting for a rewrite after deletions.
    pub fn rewrites_for(&self) -> Option<Duration> {
        self.eraser.rewrites_for()
    }

    pub async fn read<T: Send + 'static>(
        &self,
        sql: &'static str,
        params: Vec<Param>,
        decode: Decode<T>,
    ) -> Result<Vec<T>, StoreError> {
        self.with_connection(move |connection| query(connection, sql, &params, decode))
            .await
    }

    /// A read that is interrupted if it takes too long.
    pub async fn search<T: Send + 'static>(
        &self,
        sql: &'static str,
        params: Vec<Param>,
        decode: Decode<T>,
    ) -> Result<Vec<T>, StoreError> {
        let limit = self.search_timeout;
        self.with_connection(move |connection| {
            within(limit, connection, || {
                query(connection, sql, &params, decode)
            })
        })
        .await
    }

    pub fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    /// Always false for a store that was opened for reading only.
    pub fn has_lost_its_writer(&self) -> bool {
        self.writer.as_ref().is_some_and(mpsc::Sender::is_closed)
    }

    /// Runs `work` on a blocking thread, with a connection that sees every acknowledged commit.
    pub async fn with_connection<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        if let Some(readers) = &self.readers {
            return readers.run(work).await;
        }
        let writer = self.writer.as_ref().ok_or(StoreError::ReadOnly)?;
        let (reply, answer) = oneshot::channel();
        let job = SqliteJob::alone(move |connection| drop(reply.send(work(connection))));
        writer.send(job).await.map_err(|_| StoreError::stopped())?;
        answer.await.unwrap_or_else(|_| Err(StoreError::stopped()))
    }

    /// Commits the queued jobs, then closes the file and frees its lock.
    pub async fn close(&self) {
        if let Some(readers) = &self.readers {
            readers.close().await;
        }
        if let Some(writer) = &self.writer {
            let (done, closed) = oneshot::channel();
            if writer.send(SqliteJob::close(done)).await.is_ok() {
                let _ = closed.await;
            }
        }
    }
}

impl Drop for Sqlite {
    fn drop(&mut self) {
        // The writer ends first. So the task that rewrites the file sees that the store is closed,
        // and ends too.
        self.writer = None;
        self.eraser.due.notify_one();
    }
}

struct Readers {
    permits: Arc<Semaphore>,
    idle: Arc<Mutex<Vec<Connection>>>,
    count: u32,
}

impl Readers {
    fn open(path: &Path, options: &StoreOptions) -> Result<Self, StoreError> {
        let count = u32::try_from(options.readers.max(1)).unwrap_or(1);
        let open = |_| open_reader(path, options);
        let idle = (0..count).map(open).collect::<Result<Vec<_>, _>>()?;
        Ok(Self {
            permits: Arc::new(Semaphore::new(count as usize)),
            idle: Arc::new(Mutex::new(idle)),
            count,
        })
    }

    async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let permit = Arc::clone(&self.permits)
            .acquire_owned()
            .await
            .map_err(|_| StoreError::stopped())?;
        let idle = Arc::clone(&self.idle);
        let task = tokio::task::spawn_blocking(move || {
            let result = with_idle(&idle, work);
            drop(permit);
            result
        });
        task.await.unwrap_or_else(|_| Err(StoreError::stopped()))
    }

    fn with_idle<T>(
        &self,
        work: impl FnOnce(&Connection) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        with_idle(&self.idle, work)
    }

    async fn close(&self) {
        let all = self.permits.acquire_many(self.count).await;
        self.permits.close();
        if all.is_ok() {
            self.idle
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .clear();
        }
    }
}

/// There is one connection per permit, so a holder of a permit always finds one.
fn with_idle<T>(
    idle: &Mutex<Vec<Connection>>,
    work: impl FnOnce(&Connection) -> Result<T, StoreError>,
) -> Result<T, StoreError> {
    let free = idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
    let connection = free.ok_or_else(StoreError::stopped)?;
    let result = work(&connection);
    idle.lock()
        .unwrap_or_else(PoisonError::into_inner)
        .push(connection);
    result
}

/// Interrupts the work if it takes longer. The thread that watches it ends first, so it cannot
/// interrupt what the connection does next.
fn within<T>(
    limit: Duration,
    connection: &Connection,
    work: impl FnOnce() -> Result<T, StoreError>,
) -> Result<T, StoreError> {
    let interrupt = connection.get_interrupt_handle();
    let (done, ended) = std::sync::mpsc::channel::<()>();
    std::thread::scope(|scope| {
        let watch = move || {
            if ended.recv_timeout(limit) == Err(RecvTimeoutError::Timeout) {
                interrupt.interrupt();
            }
        };
        let name = "store-search".to_owned();
        std::thread::Builder::new()
            .name(name)
            .spawn_scoped(scope, watch)
            .map_err(|error| StoreError::io("cannot watch a search", &error))?;
        let result = work();
        drop(done);
        result
    })
}

fn query<T>(
    connection: &Connection,
    sql: &'static str,
    params: &[Param],
    decode: Decode<T>,
) -> Result<Vec<T>, StoreError> {
    let mut statement = connection.prepare_cached(sql).map_err(translate)?;
    let mut rows = statement
        .query(rusqlite::params_from_iter(params))
        .map_err(translate)?;
    let mut found = Vec::new();
    while let Some(row) = rows.next().map_err(translate)? {
        found.push(decode(&mut Columns::sqlite(row))?);
    }
    Ok(found)
}

impl rusqlite::ToSql for Param {
    fn to_sql(&self) -> rusqlite::Result<rusqlite::types::ToSqlOutput<'_>> {
        use rusqlite::types::{ToSqlOutput, ValueRef};
        Ok(ToSqlOutput::Borrowed(match self {
            Self::Null => ValueRef::Null,
            Self::Int(number) => ValueRef::Integer(*number),
            Self::Text(text) => ValueRef::Text(text.as_bytes()),
            Self::Shared(text) => ValueRef::Text(text.as_bytes()),
            Self::Bytes(bytes) => ValueRef::Blob(bytes),
        }))
    }
}

fn check_version() -> Result<(), StoreError> {
    let version = rusqlite::version_number();
    if version >= OLDEST_SQLITE {
        return Ok(());
    }
    Err(StoreError::Invalid(format!(
        "SQLite {} is too old, 3.51.3 is needed",
        rusqlite::version()
    )))
}

fn absolute(path: &Path) -> Result<PathBuf, StoreError> {
    std::path::absolute(path)
        .map_err(|error| StoreError::io("cannot use the path of the database", &error))
}

fn open_file(path: &Path) -> Result<Connection, StoreError> {
    // The file is created here and not by SQLite, so that only its owner can read it. SQLite's
    // other files copy the mode.
    lock::private_file()
        .create(true)
        .truncate(false)
        .write(true)
        .open(path)
        .map_err(|error| {
            StoreError::io(
                &format!("cannot open the database {}", path.display()),
                &error,
            )
        })?;
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    Connection::open_with_flags(path, flags).map_err(translate)
}

fn configure_writer(
    connection: &Connection,
    in_file: bool,
    options: &StoreOptions,
) -> Result<(), StoreError> {
    let set = |name: &str, value: &dyn rusqlite::ToSql| {
        connection
            .pragma_update(None, name, value)
            .map_err(translate)
    };
    connection
        .busy_timeout(Duration::from_millis(options.busy_timeout_ms))
        .map_err(translate)?;
    if in_file {
        let mode: String = connection
            .pragma_update_and_check(None, "journal_mode", "WAL", |row| row.get(0))
            .map_err(translate)?;
        if mode != "wal" {
            return Err(StoreError::Invalid(
                "the file system of the database does not support its log".to_owned(),
            ));
        }
    }
    set("synchronous", &"FULL")?;
    // Overwrites deleted and replaced rows in place. `erase` does the rest.
    connection
        .pragma_update_and_check(None, "secure_delete", "ON", |_| Ok(()))
        .map_err(translate)?;
    set("cache_size", &-i64::from(options.cache_kib))?;
    set("wal_autocheckpoint", &CHECKPOINT_PAGES)?;
    set("journal_size_limit", &LOG_LIMIT_BYTES)?;
    if let Some(max_pages) = options.max_pages {
        set("max_page_count", &max_pages)?;
    }
    connection.set_prepared_statement_cache_capacity(CACHED_STATEMENTS);
    Ok(())
}

fn open_reader(path: &Path, options: &StoreOptions) -> Result<Connection, StoreError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags).map_err(translate)?;
    connection
        .busy_timeout(Duration::from_millis(options.busy_timeout_ms))
        .map_err(translate)?;
    connection
        .pragma_update(None, "cache_size", -i64::from(options.cache_kib / 4))
        .map_err(translate)?;
    connection.set_prepared_statement_cache_capacity(CACHED_STATEMENTS);
    Ok(connection)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_search_is_interrupted_and_the_next_read_is_not() {
        let connection = Connection::open_in_memory().unwrap();
        let endless =
            "WITH RECURSIVE n (x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT MAX(x) FROM n";
        let search = |sql, limit| {
            within(limit, &connection, || {
                query(&connection, sql, &[], |row| row.int())
            })
        };
        let late = search(endless, Duration::from_millis(20));
        assert_eq!(late, Err(StoreError::search_took_too_long()));
        assert_eq!(search("SELECT 1", Duration::from_secs(60)), Ok(vec![1]));
    }
}
