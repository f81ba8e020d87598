//! The writer thread. It runs the waiting jobs in one transaction and answers them after one fsync.
//!
//! A failed job does not affect the others in its batch. A job whose first statement fails is left
//! out. If a job fails later, the others are run again without it.

use std::time::{Duration, Instant};

use rusqlite::Connection;
use tokio::sync::mpsc::error::TryRecvError;
use tokio::sync::{mpsc, oneshot};

use super::error::translate;
use super::held::HeldStatements;
use super::lock::DatabaseLock;
use crate::StoreError;
use crate::statement::{Stmt, WriteResult};
use crate::store::Counters;

/// Not longer than an fsync of a fast disk, so that it adds little to the commit before it.
const LOOK_OUT: Duration = Duration::from_micros(100);

/// After this many batches of one write in a row, the thread assumes a single caller. One such
/// batch is not enough: it also happens when one of many callers is late.
const ALONE_AGAIN: u32 = 8;

type Outcome = Result<WriteResult, StoreError>;

/// The statements are returned with the result, so that the caller's thread frees them and not the
/// writer thread.
pub(super) type JobResult = (Outcome, Vec<Stmt>);

pub(super) struct SqliteWrite {
    stmts: Vec<Stmt>,
    reply: oneshot::Sender<JobResult>,
}

impl SqliteWrite {
    fn answer(self, outcome: Outcome) {
        let _ = self.reply.send((outcome, self.stmts));
    }
}

pub(super) enum SqliteJob {
    Write(SqliteWrite),
    Other(OtherJob),
}

pub(super) enum OtherJob {
    Alone(Box<dyn FnOnce(&Connection) + Send>),
    Close(oneshot::Sender<()>),
}

impl SqliteJob {
    pub fn write(stmts: Vec<Stmt>, reply: oneshot::Sender<JobResult>) -> Self {
        Self::Write(SqliteWrite { stmts, reply })
    }

    /// Runs between two transactions with exclusive use of the connection.
    pub fn alone(work: impl FnOnce(&Connection) + Send + 'static) -> Self {
        Self::Other(OtherJob::Alone(Box::new(work)))
    }

    pub fn close(done: oneshot::Sender<()>) -> Self {
        Self::Other(OtherJob::Close(done))
    }
}

/// Ends when the queue is closed and empty. Then it closes the connection and frees the lock.
pub(super) fn run(
    connection: Connection,
    lock: Option<DatabaseLock>,
    mut queue: mpsc::Receiver<SqliteJob>,
    max_batch: usize,
    counters: &Counters,
) {
    let closing = serve(&connection, &mut queue, max_batch, counters);
    if let Err((_, error)) = connection.close() {
        tracing::warn!(error = %translate(error), "the database did not close cleanly");
    }
    drop(lock);
    for done in closing {
        let _ = done.send(());
    }
}

/// Returns the callers that wait for the end.
fn serve(
    connection: &Connection,
    queue: &mut mpsc::Receiver<SqliteJob>,
    max_batch: usize,
    counters: &Counters,
) -> Vec<oneshot::Sender<()>> {
    let mut statements = HeldStatements::new(connection);
    let mut batch = Batch::new(max_batch);
    let mut closing = Vec::new();
    let mut alone_in_a_row = ALONE_AGAIN;
    while let Some(job) = next_job(queue, alone_in_a_row < ALONE_AGAIN) {
        batch.take(job);
        batch.gather(queue);
        if !batch.jobs.is_empty() {
            let together = run_batch(&mut statements, &mut batch, queue, counters);
            alone_in_a_row = if together > 1 {
                0
            } else {
                alone_in_a_row.saturating_add(1)
            };
        }
        match batch.other.take() {
            Some(OtherJob::Alone(work)) => work(connection),
            Some(OtherJob::Close(done)) => {
                queue.close();
                closing.push(done);
            }
            None => {}
        }
    }
    closing
}

/// Callers that just got their answer often write again, and putting this thread to sleep and
/// waking it takes as long as they need. So with many callers the thread polls the queue for a
/// moment before it sleeps.
fn next_job(queue: &mut mpsc::Receiver<SqliteJob>, crowded: bool) -> Option<SqliteJob> {
    let answered = Instant::now();
    while crowded && answered.elapsed() < LOOK_OUT {
        match queue.try_recv() {
            Ok(job) => return Some(job),
            Err(TryRecvError::Disconnected) => return None,
            Err(TryRecvError::Empty) => std::hint::spin_loop(),
        }
    }
    queue.blocking_recv()
}

/// The writes that share a transaction, and the job after them.
struct Batch {
    jobs: Vec<SqliteWrite>,
    /// A job of another kind. It runs after the writes before it. Later writes wait for the next
    /// batch.
    other: Option<OtherJob>,
    max_jobs: usize,
}

impl Batch {
    fn new(max_jobs: usize) -> Self {
        Self {
            jobs: Vec::with_capacity(max_jobs),
            other: None,
            max_jobs,
        }
    }

    fn take(&mut self, job: SqliteJob) {
        match job {
            SqliteJob::Write(write) => self.jobs.push(write),
            SqliteJob::Other(other) => self.other = Some(other),
        }
    }

    /// Adds waiting jobs from the queue, up to the limit.
    fn gather(&mut self, queue: &mut mpsc::Receiver<SqliteJob>) {
        while self.other.is_none() && self.jobs.len() < self.max_jobs {
            let Ok(job) = queue.try_recv() else { return };
            self.take(job);
        }
    }
}

/// Returns the number of jobs.
fn run_batch(
    statements: &mut HeldStatements<'_>,
    batch: &mut Batch,
    queue: &mut mpsc::Receiver<SqliteJob>,
    counters: &Counters,
) -> usize {
    let outcome = transact(statements, batch, queue);
    let count = batch.jobs.len();
    match outcome {
        Ok(outcomes) => {
            let stored = outcomes.iter().filter(|outcome| outcome.is_ok()).count();
            if stored > 0 {
                counters.count(stored);
            }
            for (job, outcome) in batch.jobs.drain(..).zip(outcomes) {
                job.answer(outcome);
            }
        }
        Err(error) => {
            if !statements.connection.is_autocommit() && run_sql(statements, "ROLLBACK").is_err() {
                tracing::error!("a failed transaction could not be rolled back");
            }
            for job in batch.jobs.drain(..) {
                job.answer(Err(error.clone()));
            }
        }
    }
    count
}

/// An error means that nothing of the batch was written.
///
/// The jobs run without savepoints, because a savepoint costs a copy of every page that a job
/// changes. If the first statement of a job is refused, the job changed nothing and the others
/// continue. If a job fails later, the batch is rolled back and run again with a savepoint for each
/// job.
fn transact(
    statements: &mut HeldStatements<'_>,
    batch: &mut Batch,
    queue: &mut mpsc::Receiver<SqliteJob>,
) -> Result<Vec<Outcome>, StoreError> {
    run_sql(statements, "BEGIN IMMEDIATE")?;
    let outcomes = match together(statements, batch, queue) {
        Ok(outcomes) => outcomes,
        // Some errors (a full disk, broken I/O) make SQLite roll the transaction back by itself.
        Err(error) if batch.jobs.len() == 1 || statements.connection.is_autocommit() => {
            return Err(error);
        }
        Err(_) => {
            run_sql(statements, "ROLLBACK")?;
            run_sql(statements, "BEGIN IMMEDIATE")?;
            batch
                .jobs
                .iter()
                .map(|job| isolated(statements, &job.stmts))
                .collect::<Result<_, _>>()?
        }
    };
    run_sql(statements, "COMMIT")?;
    Ok(outcomes)
}

/// Callers of the previous batch often write again while this one runs. They still share its fsync.
fn together(
    statements: &mut HeldStatements<'_>,
    batch: &mut Batch,
    queue: &mut mpsc::Receiver<SqliteJob>,
) -> Result<Vec<Outcome>, StoreError> {
    let mut outcomes = Vec::with_capacity(batch.max_jobs);
    while let Some(job) = batch.jobs.get(outcomes.len()) {
        outcomes.push(match may_begin(statements, &job.stmts)? {
            Ok(written) => Ok(apply(
                statements,
                job.stmts.get(1..).unwrap_or_default(),
                written,
            )?),
            Err(refused) => Err(refused),
        });
        if outcomes.len() == batch.jobs.len() {
            batch.gather(queue);
        }
    }
    Ok(outcomes)
}

/// Runs the first statement of a job. The inner error means that it changed nothing and that the
/// job ends.
fn may_begin(statements: &mut HeldStatements<'_>, stmts: &[Stmt]) -> Result<Outcome, StoreError> {
    let Some(first) = stmts.first() else {
        return Ok(Ok(WriteResult::default()));
    };
    let written = statements.execute(first).map_err(translate)?;
    match first.check(written) {
        Err(refused) if written.rows == 0 => Ok(Err(refused)),
        checked => checked.map(Ok),
    }
}

/// The outer error ends the whole batch, the inner one only this job.
fn isolated(statements: &mut HeldStatements<'_>, stmts: &[Stmt]) -> Result<Outcome, StoreError> {
    run_sql(statements, "SAVEPOINT job")?;
    let outcome = apply(statements, stmts, WriteResult::default());
    if let Err(error) = &outcome {
        // Some errors (a full disk, broken I/O) make SQLite roll the transaction back by itself.
        if statements.connection.is_autocommit() {
            return Err(error.clone());
        }
        run_sql(statements, "ROLLBACK TO job")?;
    }
    run_sql(statements, "RELEASE job")?;
    Ok(outcome)
}

/// The result of the last statement, or `last` if there is none.
fn apply(
    statements: &mut HeldStatements<'_>,
    stmts: &[Stmt],
    mut last: WriteResult,
) -> Result<WriteResult, StoreError> {
    for stmt in stmts {
        let written = statements.execute(stmt).map_err(translate)?;
        last = stmt.check(written)?;
    }
    Ok(last)
}

fn run_sql(statements: &mut HeldStatements<'_>, sql: &'static str) -> Result<(), StoreError> {
    statements.run(sql).map_err(translate)
}
