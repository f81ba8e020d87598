//! What was deleted leaves the files too. `secure_delete` overwrites rows where they stood, but not the copies that stay
//! behind when SQLite moves rows from page to page, and the log keeps whole pages. So after deletions the file is rewritten
//! (`VACUUM`) and the log is emptied. That holds up all commits, about a second for 100 MB: deletions share it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use rusqlite::{Connection, OptionalExtension as _};
use tokio::sync::{Notify, mpsc, oneshot};

use super::error::translate;
use super::writer::Job;
use crate::StoreError;
use crate::statement::Stmt;

/// Rewriting takes at most one part in so many of the time, however often somebody deletes.
const PAUSE_PER_WORK: u32 = 10;
/// How long the log's readers are waited for before it is tried again.
const READERS_PATIENCE: Duration = Duration::from_millis(100);
const FIRST_RETRY: Duration = Duration::from_millis(500);
const LONGEST_RETRY: Duration = Duration::from_secs(30);

const NOTE: &str = "INSERT INTO counters (name, value) VALUES ('erase_due', 1) \
     ON CONFLICT (name) DO UPDATE SET value = counters.value + 1";
const DUE: &str = "SELECT value FROM counters WHERE name = 'erase_due'";
const DONE: &str = "DELETE FROM counters WHERE name = 'erase_due' AND value = $1";

/// Goes into the transaction that deletes, so that a crash does not forget it.
pub(super) fn note() -> Stmt {
    Stmt::any(NOTE, vec![])
}

pub(super) fn is_due(connection: &Connection) -> rusqlite::Result<bool> {
    Ok(due(connection)?.is_some())
}

/// Rewrites the file whenever somebody deleted, until the store is closed: it is woken for that too.
pub(super) async fn run(writer: mpsc::WeakSender<Job>, due: Arc<Notify>, delay: Duration) {
    loop {
        due.notified().await;
        if is_gone(&writer) {
            return;
        }
        tokio::time::sleep(delay).await;
        let began = Instant::now();
        let Some(noted) = persist(&writer, rewrite).await else { return };
        let work = began.elapsed();
        // Without rewriting again: while somebody reads for long, the log would only grow.
        let Some(()) = persist(&writer, empty_log).await else { return };
        let Some(()) = persist(&writer, move |connection| done(connection, noted)).await else { return };
        tokio::time::sleep(work * PAUSE_PER_WORK).await;
    }
}

fn is_gone(writer: &mpsc::WeakSender<Job>) -> bool {
    writer.upgrade().is_none_or(|writer| writer.is_closed())
}

/// Does it on the writer's thread, between two transactions, as often as it takes; nothing when the store is closed.
async fn persist<T: Send + 'static>(
    writer: &mpsc::WeakSender<Job>,
    work: impl Fn(&Connection) -> Result<T, StoreError> + Clone + Send + 'static,
) -> Option<T> {
    let mut delay = FIRST_RETRY;
    loop {
        let (reply, answer) = oneshot::channel();
        let work = work.clone();
        let job = Job::alone(move |connection| drop(reply.send(work(connection))));
        writer.upgrade()?.send(job).await.ok()?;
        match answer.await.ok()? {
            Ok(done) => return Some(done),
            Err(error) => tracing::warn!(%error, "deleted text is still in the database's files, trying again"),
        }
        tokio::time::sleep(delay).await;
        delay = (delay * 2).min(LONGEST_RETRY);
        if is_gone(writer) {
            return None;
        }
    }
}

/// What was noted before; nothing is rewritten where nothing is.
fn rewrite(connection: &Connection) -> Result<Option<i64>, StoreError> {
    let noted = due(connection).map_err(translate)?;
    if noted.is_some() {
        connection.execute_batch("VACUUM").map_err(translate)?;
    }
    Ok(noted)
}

/// What was deleted since the rewriting has counted on, and is still due.
fn done(connection: &Connection, noted: Option<i64>) -> Result<(), StoreError> {
    connection.execute(DONE, [noted]).map(drop).map_err(translate)
}

fn due(connection: &Connection) -> rusqlite::Result<Option<i64>> {
    connection.query_row(DUE, [], |row| row.get(0)).optional()
}

/// Moves the log into the database and cuts it to nothing, unless somebody still reads from it.
fn empty_log(connection: &Connection) -> Result<(), StoreError> {
    let patience: u32 = connection.query_row("PRAGMA busy_timeout", [], |row| row.get(0)).map_err(translate)?;
    connection.busy_timeout(READERS_PATIENCE).map_err(translate)?;
    let emptied = connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get::<_, bool>(0));
    connection.busy_timeout(Duration::from_millis(patience.into())).map_err(translate)?;
    match emptied.map_err(translate)? {
        false => Ok(()),
        true => Err(StoreError::Unavailable("its log is being read".to_owned())),
    }
}
