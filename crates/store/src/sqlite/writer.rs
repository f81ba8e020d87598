//! The one thread that writes: it takes what waits, runs it in one transaction, and answers after one fsync.
//!
//! The jobs of a batch do not touch each other: when one fails, the others are run again without it.

use rusqlite::Connection;
use tokio::sync::{mpsc, oneshot};

use super::error::translate;
use super::lock::DatabaseLock;
use crate::StoreError;
use crate::statement::{Expect, Stmt, Written};
use crate::store::Counters;

type Reply = oneshot::Sender<Result<Written, StoreError>>;

pub(super) struct WriteJob {
    stmts: Vec<Stmt>,
    reply: Reply,
}

pub(super) enum Job {
    Write(WriteJob),
    Read(Box<dyn FnOnce(&Connection) + Send>),
    Close(oneshot::Sender<()>),
}

impl Job {
    pub fn write(stmts: Vec<Stmt>, reply: Reply) -> Self {
        Self::Write(WriteJob { stmts, reply })
    }
}

/// Ends when the queue is closed and empty; only then are the connection and the lock let go.
pub(super) fn run(
    connection: Connection,
    lock: Option<DatabaseLock>,
    mut queue: mpsc::Receiver<Job>,
    max_batch: usize,
    counters: &Counters,
) {
    let mut batch = Vec::with_capacity(max_batch);
    let mut closing = Vec::new();
    while let Some(job) = queue.blocking_recv() {
        let mut other = gather(job, &mut queue, &mut batch, max_batch);
        if !batch.is_empty() {
            run_batch(&connection, &mut batch, counters);
        }
        match other.take() {
            Some(Job::Read(work)) => work(&connection),
            Some(Job::Close(done)) => {
                queue.close();
                closing.push(done);
            }
            Some(Job::Write(_)) | None => {}
        }
    }
    if let Err((_, error)) = connection.close() {
        tracing::warn!(error = %translate(error), "the database did not close cleanly");
    }
    drop(lock);
    for done in closing {
        let _ = done.send(());
    }
}

/// Moves the writes that wait into `batch`; stops at a job of another kind and returns it.
fn gather(first: Job, queue: &mut mpsc::Receiver<Job>, batch: &mut Vec<WriteJob>, max_batch: usize) -> Option<Job> {
    let mut next = Some(first);
    while let Some(job) = next {
        match job {
            Job::Write(write) => batch.push(write),
            other => return Some(other),
        }
        next = if batch.len() < max_batch { queue.try_recv().ok() } else { None };
    }
    None
}

fn run_batch(connection: &Connection, batch: &mut Vec<WriteJob>, counters: &Counters) {
    match transact(connection, batch) {
        Ok(outcomes) => {
            counters.count(outcomes.iter().filter(|outcome| outcome.is_ok()).count());
            for (job, outcome) in batch.drain(..).zip(outcomes) {
                let _ = job.reply.send(outcome);
            }
        }
        Err(error) => {
            if !connection.is_autocommit() && run_sql(connection, "ROLLBACK").is_err() {
                tracing::error!("a failed transaction could not be rolled back");
            }
            for job in batch.drain(..) {
                let _ = job.reply.send(Err(error.clone()));
            }
        }
    }
}

/// An error means that nothing of the batch was written.
///
/// The jobs run together, without savepoints, which cost a copy of every page a job touches. Only when one of them fails
/// is the batch rolled back and run again with a savepoint for each, so that the others are not touched by its failure.
fn transact(connection: &Connection, batch: &[WriteJob]) -> Result<Vec<Result<Written, StoreError>>, StoreError> {
    run_sql(connection, "BEGIN IMMEDIATE")?;
    let together: Result<Vec<_>, _> = batch.iter().map(|job| apply(connection, &job.stmts)).collect();
    let outcomes = match together {
        Ok(written) => written.into_iter().map(Ok).collect(),
        // Some errors (a full disk, broken I/O) make SQLite roll the transaction back by itself.
        Err(error) if batch.len() == 1 || connection.is_autocommit() => return Err(error),
        Err(_) => {
            run_sql(connection, "ROLLBACK")?;
            run_sql(connection, "BEGIN IMMEDIATE")?;
            batch.iter().map(|job| isolated(connection, &job.stmts)).collect::<Result<_, _>>()?
        }
    };
    run_sql(connection, "COMMIT")?;
    Ok(outcomes)
}

/// The outer error ends the whole batch, the inner one only this job.
fn isolated(connection: &Connection, stmts: &[Stmt]) -> Result<Result<Written, StoreError>, StoreError> {
    run_sql(connection, "SAVEPOINT job")?;
    let outcome = apply(connection, stmts);
    if let Err(error) = &outcome {
        // Some errors (a full disk, broken I/O) make SQLite roll the transaction back by itself.
        if connection.is_autocommit() {
            return Err(error.clone());
        }
        run_sql(connection, "ROLLBACK TO job")?;
    }
    run_sql(connection, "RELEASE job")?;
    Ok(outcome)
}

fn apply(connection: &Connection, stmts: &[Stmt]) -> Result<Written, StoreError> {
    let mut last = Written::default();
    for stmt in stmts {
        let written = execute(connection, stmt).map_err(translate)?;
        last = stmt.check(written)?;
    }
    Ok(last)
}

fn execute(connection: &Connection, stmt: &Stmt) -> rusqlite::Result<Written> {
    let mut statement = connection.prepare_cached(stmt.sql)?;
    let params = rusqlite::params_from_iter(&stmt.params);
    if stmt.expect != Expect::Number {
        return Ok(Written { rows: statement.execute(params)? as u64, number: None });
    }
    let mut rows = statement.query(params)?;
    let number = rows.next()?.map(|row| row.get(0)).transpose()?;
    // A statement that returns rows takes effect only when it is run to its end.
    while rows.next()?.is_some() {}
    Ok(Written { rows: u64::from(number.is_some()), number })
}

fn run_sql(connection: &Connection, sql: &'static str) -> Result<(), StoreError> {
    connection.prepare_cached(sql).and_then(|mut statement| statement.execute([])).map(drop).map_err(translate)
}
