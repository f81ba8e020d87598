//! Removes deleted data from the files. `secure_delete` overwrites rows in place, but not the
//! copies that remain when SQLite moves rows between pages, and the log keeps whole pages. So after
//! deletions the file is rewritten (`VACUUM`) and the log is emptied. Commits wait meanwhile, about
//! a second for 100 MB. So several deletions share one rewrite, and the health routes show that
//! commits wait.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use codelab_protocol::Reminder;
use rusqlite::{Connection, OptionalExtension as _};
use tokio::sync::{Notify, mpsc, oneshot};

use super::error::translate;
use super::writer::SqliteJob;
use crate::StoreError;
use crate::statement::Stmt;

/// Rewrites use at most one part in this many of the time, however many deletions there are.
const PAUSE_PER_WORK: u32 = 10;
/// How long to wait for readers of the log before the next attempt.
const READERS_DEADLINE: Duration = Duration::from_millis(100);
const FIRST_RETRY: Duration = Duration::from_millis(500);
const LONGEST_RETRY: Duration = Duration::from_secs(30);

/// `VACUUM` writes a copy beside the database, and then all of it into the log.
const COPIES: u64 = 2;

const NOTE: &str = "INSERT INTO counters (name, value) VALUES ('erase_due', 1) \
     ON CONFLICT (name) DO UPDATE SET value = counters.value + 1";
const DUE: &str = "SELECT value FROM counters WHERE name = 'erase_due'";
const DONE: &str = "DELETE FROM counters WHERE name = 'erase_due' AND value = $1";

/// The index of the search only marks deleted words, so it is made anew. Merging it (`optimize`) is
/// not enough: that leaves an index of one part as it is.
const REWRITE: &str = "INSERT INTO session_search (session_search) VALUES ('rebuild'); VACUUM";

/// Part of the transaction that deletes, so that it survives a crash.
pub(super) fn note() -> Stmt {
    Stmt::any(NOTE, vec![])
}

pub(super) fn is_due(connection: &Connection) -> rusqlite::Result<bool> {
    Ok(due(connection)?.is_some())
}

/// The state of the task that rewrites the file.
#[derive(Default)]
pub(super) struct Eraser {
    /// Wakes the task after a deletion, or when the store closes.
    pub due: Notify,
    /// Set while a rewrite runs and commits wait for it.
    begun_at: Mutex<Option<Instant>>,
}

impl Eraser {
    /// How long commits have been waiting for a rewrite.
    pub fn rewrites_for(&self) -> Option<Duration> {
        self.begun().map(|at| at.elapsed())
    }

    fn begun(&self) -> std::sync::MutexGuard<'_, Option<Instant>> {
        self.begun_at.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Rewrites the file after deletions, until the store is closed.
pub(super) async fn run(
    writer: mpsc::WeakSender<SqliteJob>,
    eraser: Arc<Eraser>,
    folder: PathBuf,
    delay: Duration,
) {
    loop {
        eraser.due.notified().await;
        if is_gone(&writer) {
            return;
        }
        tokio::time::sleep(delay).await;
        let began = Instant::now();
        let (watched, folder) = (Arc::clone(&eraser), folder.clone());
        let rewriting = move |connection: &Connection| rewrite(connection, &watched, &folder);
        let Some(noted) = persist(&writer, rewriting).await else {
            return;
        };
        let work = began.elapsed();
        // Only the log is tried again. Another rewrite would make the log grow while a long read
        // blocks it.
        let Some(()) = persist(&writer, empty_log).await else {
            return;
        };
        let Some(()) = persist(&writer, move |connection| done(connection, noted)).await else {
            return;
        };
        tokio::time::sleep(work * PAUSE_PER_WORK).await;
    }
}

fn is_gone(writer: &mpsc::WeakSender<SqliteJob>) -> bool {
    writer.upgrade().is_none_or(|writer| writer.is_closed())
}

/// Runs on the writer thread between two transactions, and repeats until it succeeds. Ends when the
/// store is closed.
async fn persist<T: Send + 'static>(
    writer: &mpsc::WeakSender<SqliteJob>,
    work: impl Fn(&Connection) -> Result<T, StoreError> + Clone + Send + 'static,
) -> Option<T> {
    let (mut delay, mut reminder) = (FIRST_RETRY, Reminder::default());
    loop {
        let (reply, answer) = oneshot::channel();
        let work = work.clone();
        let job = SqliteJob::alone(move |connection| drop(reply.send(work(connection))));
        writer.upgrade()?.send(job).await.ok()?;
        match answer.await.ok()? {
            Ok(done) => return Some(done),
            Err(error) if reminder.is_due(Instant::now()) => {
                tracing::warn!(%error, "deleted text is still in the database's files, trying again");
            }
            Err(error) => {
                tracing::debug!(%error, "deleted text is still in the database's files, trying again")
            }
        }
        tokio::time::sleep(delay).await;
        delay = (delay * 2).min(LONGEST_RETRY);
        if is_gone(writer) {
            return None;
        }
    }
}

/// The deletions recorded so far. Without any, nothing is rewritten.
fn rewrite(
    connection: &Connection,
    eraser: &Eraser,
    folder: &Path,
) -> Result<Option<i64>, StoreError> {
    let noted = due(connection).map_err(translate)?;
    if noted.is_some() {
        check_room(connection, folder)?;
        // The copy holds what people wrote, so it must not be in a folder that all users share.
        // SQLite keeps this setting for the whole process, so it is set each time.
        let folder = folder.to_string_lossy();
        connection
            .pragma_update(None, "temp_store_directory", &*folder)
            .map_err(translate)?;
        *eraser.begun() = Some(Instant::now());
        let rewritten = connection.execute_batch(REWRITE).map_err(translate);
        *eraser.begun() = None;
        rewritten?;
    }
    Ok(noted)
}

/// A rewrite without enough space would fill the disk and then fail.
fn check_room(connection: &Connection, folder: &Path) -> Result<(), StoreError> {
    let number = |sql: &str| {
        connection
            .query_row(sql, [], |row| row.get::<_, u32>(0))
            .map(u64::from)
            .map_err(translate)
    };
    let pages = number("PRAGMA page_count")?.saturating_sub(number("PRAGMA freelist_count")?);
    has_room(
        pages * number("PRAGMA page_size")? * COPIES,
        free_bytes(folder),
    )
}

fn has_room(needed: u64, free: Option<u64>) -> Result<(), StoreError> {
    match free {
        Some(free) if free < needed => Err(StoreError::Unavailable(format!(
            "to rewrite it, {needed} bytes must be free on its disk, and {free} are"
        ))),
        _ => Ok(()),
    }
}

/// Free bytes on the disk of a file or folder. Blocks on the disk.
pub(crate) fn free_bytes(path: &Path) -> Option<u64> {
    let disk = rustix::fs::statvfs(path).ok()?;
    // Some blocks are reserved for root.
    let blocks = if rustix::process::geteuid().is_root() {
        disk.f_bfree
    } else {
        disk.f_bavail
    };
    Some(blocks.saturating_mul(disk.f_frsize))
}

/// Deletions since the rewrite began are still recorded for the next one.
fn done(connection: &Connection, noted: Option<i64>) -> Result<(), StoreError> {
    connection
        .execute(DONE, [noted])
        .map(drop)
        .map_err(translate)
}

fn due(connection: &Connection) -> rusqlite::Result<Option<i64>> {
    connection.query_row(DUE, [], |row| row.get(0)).optional()
}

/// Moves the log into the database and truncates it, unless a reader still uses it.
fn empty_log(connection: &Connection) -> Result<(), StoreError> {
    let deadline: u32 = connection
        .query_row("PRAGMA busy_timeout", [], |row| row.get(0))
        .map_err(translate)?;
    connection
        .busy_timeout(READERS_DEADLINE)
        .map_err(translate)?;
    let emptied = connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| {
        row.get::<_, bool>(0)
    });
    connection
        .busy_timeout(Duration::from_millis(deadline.into()))
        .map_err(translate)?;
    match emptied.map_err(translate)? {
        false => Ok(()),
        true => Err(StoreError::Unavailable("its log is being read".to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_rewritten_without_room_for_it() {
        let folder = tempfile::tempdir().expect("a folder");
        let connection = Connection::open(folder.path().join("a.db")).expect("a database");
        connection
            .execute_batch("CREATE TABLE a (b); INSERT INTO a VALUES (randomblob(100000))")
            .expect("it is filled");
        check_room(&connection, folder.path()).expect("there is room on this disk");
        let error = has_room(200_000, Some(199_999)).expect_err("one byte is missing");
        assert!(
            error.to_string().contains("200000 bytes must be free"),
            "{error}"
        );
        assert_eq!(
            (has_room(200_000, Some(200_000)), has_room(200_000, None)),
            (Ok(()), Ok(()))
        );
    }
}
