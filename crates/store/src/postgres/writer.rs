//! The writer task. It collects the waiting jobs, sends them together, and commits once for all.
//!
//! The statements of a batch are pipelined without savepoints. If a job fails, the batch is rolled
//! back and run again with a savepoint for each job, so that the other jobs succeed.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use tokio::sync::{mpsc, oneshot};
use tokio_postgres::Client;

use super::connection::{PostgresConnection, Prepared};
use super::error::{ends_connection, is_conflict, translate};
use super::link::PostgresLink;
use crate::StoreError;
use crate::statement::{Expect, Param, Stmt, WriteResult};
use crate::store::Counters;

/// A batch can be run again if its connection broke before the commit was sent.
const BATCH_ATTEMPTS: usize = 2;
/// A batch can be run again if other transactions made it fail.
const CONFLICT_ATTEMPTS: u32 = 6;
/// It doubles with every attempt, so that the others can end.
const CONFLICT_PAUSE: Duration = Duration::from_millis(5);

type Outcome = Result<WriteResult, StoreError>;
type Reply = oneshot::Sender<Outcome>;

// Shut out by whoever ends this server, and by nothing else: renewing the lease changes no key.
const HOLD_OWN_SERVER: &str =
    "SELECT 1 FROM servers WHERE server_id = $1 AND ended = 0 FOR KEY SHARE";

pub(super) struct PostgresWrite {
    stmts: Vec<Stmt>,
    /// The server that writes, where the transaction shall prove that it has not ended.
    server_id: Option<Arc<str>>,
    reply: Reply,
}

pub(super) enum PostgresJob {
    Write(PostgresWrite),
    Close(oneshot::Sender<()>),
}

impl PostgresJob {
    pub fn write(stmts: Vec<Stmt>, server_id: Option<Arc<str>>, reply: Reply) -> Self {
        Self::Write(PostgresWrite {
            stmts,
            server_id,
            reply,
        })
    }
}

/// Why a whole batch failed.
enum Broken {
    /// The connection broke before the commit was sent: nothing is stored.
    Before(StoreError),
    /// The server refused the commit: nothing is stored.
    Refused(StoreError),
    /// Other transactions made it fail: nothing is stored. The transaction may still be open.
    Conflicted(StoreError),
    /// The connection broke during the commit.
    During,
}

/// Ends when the queue is closed and empty.
pub(super) async fn run(
    mut link: PostgresLink,
    timeout: Duration,
    mut queue: mpsc::Receiver<PostgresJob>,
    max_batch: usize,
    counters: Arc<Counters>,
) {
    let mut batch = Vec::with_capacity(max_batch);
    let mut closing = Vec::new();
    while let Some(job) = queue.recv().await {
        // Callers that just got their answer may write again. Yielding once lets them join this
        // batch.
        tokio::task::yield_now().await;
        let mut next = Some(job);
        while let Some(job) = next.take() {
            match job {
                PostgresJob::Write(write) => batch.push(write),
                PostgresJob::Close(done) => {
                    queue.close();
                    closing.push(done);
                }
            }
            if batch.len() < max_batch {
                next = queue.try_recv().ok();
            }
        }
        if !batch.is_empty() {
            let outcomes = run_batch(&mut link, &batch, timeout).await;
            let stored = outcomes.iter().filter(|outcome| outcome.is_ok()).count();
            if stored > 0 {
                counters.count(stored);
            }
            for (job, outcome) in batch.drain(..).zip(outcomes) {
                let _ = job.reply.send(outcome);
            }
        }
    }
    drop(link);
    for done in closing {
        let _ = done.send(());
    }
}

async fn run_batch(
    link: &mut PostgresLink,
    batch: &[PostgresWrite],
    timeout: Duration,
) -> Vec<Outcome> {
    let (mut losses, mut conflicts) = (0, 0);
    let failure = loop {
        let connection = match link.connection().await {
            Ok(connection) => connection,
            Err(error) => break error,
        };
        match transact(&connection, batch, timeout).await {
            Ok(outcomes) => return outcomes,
            Err(Broken::Refused(error)) => break error,
            Err(Broken::During) => {
                link.forget(&connection);
                break StoreError::Unknown;
            }
            Err(Broken::Before(error)) => {
                link.forget(&connection);
                losses += 1;
                if losses == BATCH_ATTEMPTS {
                    break error;
                }
            }
            Err(Broken::Conflicted(error)) => {
                let ended = tokio::time::timeout(timeout, control(&connection.client, "ROLLBACK"));
                if !matches!(ended.await, Ok(Ok(()))) {
                    link.forget(&connection);
                }
                conflicts += 1;
                if conflicts == CONFLICT_ATTEMPTS {
                    break error;
                }
                tokio::time::sleep(CONFLICT_PAUSE * 2_u32.pow(conflicts)).await;
            }
        }
    };
    vec![Err(failure); batch.len()]
}

async fn transact(
    connection: &PostgresConnection,
    batch: &[PostgresWrite],
    timeout: Duration,
) -> Result<Vec<Outcome>, Broken> {
    let late = || StoreError::Unavailable("no answer within the time limit".to_owned());
    let executed = tokio::time::timeout(timeout, execute(connection, batch));
    let outcomes = executed.await.map_err(|_| Broken::Before(late()))??;
    if outcomes.iter().all(Result::is_err) {
        return Ok(outcomes);
    }
    match tokio::time::timeout(timeout, connection.client.batch_execute("COMMIT")).await {
        Ok(Ok(())) => Ok(outcomes),
        Ok(Err(error)) if is_conflict(&error) => Err(Broken::Conflicted(translate(&error))),
        Ok(Err(error)) if !ends_connection(&error) => Err(Broken::Refused(translate(&error))),
        Ok(Err(_)) | Err(_) => Err(Broken::During),
    }
}

/// Leaves a transaction open unless every job failed.
async fn execute(
    connection: &PostgresConnection,
    batch: &[PostgresWrite],
) -> Result<Vec<Outcome>, Broken> {
    let client = &connection.client;
    let mut prepared = Vec::with_capacity(batch.len());
    for job in batch {
        prepared.push(prepare(connection, &job.stmts).await?);
    }
    let proof = ServerProof::of(batch);
    let proof_statements = prepare(connection, &proof.stmts).await?;
    let begin = Sent::control(client, connection.begin());
    let proof_sent = send(connection, &proof.stmts, &proof_statements);
    let all_sent: Vec<_> = batch
        .iter()
        .zip(&prepared)
        .map(|(job, statements)| send(connection, &job.stmts, statements))
        .collect();
    begin.answer().await.map_err(broken)?;
    let proven = collect(&proof.stmts, proof_sent).await?;
    let mut outcomes = Vec::with_capacity(batch.len());
    for (job, sent) in batch.iter().zip(all_sent) {
        outcomes.push(collect(&job.stmts, sent).await?);
    }
    if let Err(error) = proven {
        return unproven(client, batch, &error).await;
    }
    if outcomes.iter().all(Result::is_ok) {
        return Ok(outcomes);
    }
    control(client, "ROLLBACK").await?;
    if batch.len() == 1 {
        return Ok(outcomes);
    }
    control(client, connection.begin()).await?;
    let proof_sent = send(connection, &proof.stmts, &proof_statements);
    if let Err(error) = collect(&proof.stmts, proof_sent).await? {
        return unproven(client, batch, &error).await;
    }
    execute_isolated(connection, batch, &prepared).await
}

/// Proves once for a whole transaction that the servers which write have not ended.
struct ServerProof {
    stmts: Vec<Stmt>,
}

impl ServerProof {
    fn of(batch: &[PostgresWrite]) -> Self {
        let mut servers: Vec<&Arc<str>> = batch
            .iter()
            .filter_map(|job| job.server_id.as_ref())
            .collect();
        servers.dedup();
        let stmts = servers
            .into_iter()
            .map(|server| Stmt::one(HOLD_OWN_SERVER, vec![Param::Shared(Arc::clone(server))]));
        Self {
            stmts: stmts.collect(),
        }
    }
}

/// The outcomes of a transaction that could not prove that its servers have not ended.
async fn unproven(
    client: &Client,
    batch: &[PostgresWrite],
    error: &StoreError,
) -> Result<Vec<Outcome>, Broken> {
    control(client, "ROLLBACK").await?;
    Ok(batch.iter().map(|job| job.unproven(error)).collect())
}

impl PostgresWrite {
    fn unproven(&self, error: &StoreError) -> Outcome {
        Err(match self.server_id {
            Some(_) => error.clone(),
            None => StoreError::Unavailable("a server was ended, trying again helps".to_owned()),
        })
    }
}

/// Runs each job in a savepoint of the open transaction.
async fn execute_isolated(
    connection: &PostgresConnection,
    batch: &[PostgresWrite],
    prepared: &[Vec<Prepared>],
) -> Result<Vec<Outcome>, Broken> {
    let client = &connection.client;
    let mut outcomes = Vec::with_capacity(batch.len());
    for (job, statements) in batch.iter().zip(prepared) {
        control(client, "SAVEPOINT job").await?;
        let outcome = collect(&job.stmts, send(connection, &job.stmts, statements)).await?;
        control(
            client,
            if outcome.is_ok() {
                "RELEASE job"
            } else {
                "ROLLBACK TO job; RELEASE job"
            },
        )
        .await?;
        outcomes.push(outcome);
    }
    if outcomes.iter().all(Result::is_err) {
        control(client, "ROLLBACK").await?;
    }
    Ok(outcomes)
}

/// Runs before the transaction, where a failure does not affect other jobs.
async fn prepare(connection: &PostgresConnection, stmts: &[Stmt]) -> Result<Vec<Prepared>, Broken> {
    let mut prepared = Vec::with_capacity(stmts.len());
    for stmt in stmts {
        prepared.push(connection.prepare(stmt.sql).await.map_err(broken)?);
    }
    Ok(prepared)
}

/// A request in flight. The server answers requests in the order in which they were sent.
enum Sent<'a> {
    Waiting(Pin<Box<dyn Future<Output = Result<WriteResult, tokio_postgres::Error>> + Send + 'a>>),
    Answered(Result<WriteResult, tokio_postgres::Error>),
}

impl<'a> Sent<'a> {
    /// The driver sends a request when its future is first polled.
    fn start(
        request: impl Future<Output = Result<WriteResult, tokio_postgres::Error>> + Send + 'a,
    ) -> Self {
        let mut request = Box::pin(request);
        match request.as_mut().now_or_never() {
            Some(answer) => Self::Answered(answer),
            None => Self::Waiting(request),
        }
    }

    fn control(client: &'a Client, sql: &'static str) -> Self {
        Self::start(async move {
            client
                .batch_execute(sql)
                .await
                .map(|()| WriteResult::default())
        })
    }

    async fn answer(self) -> Result<WriteResult, tokio_postgres::Error> {
        match self {
            Self::Waiting(request) => request.await,
            Self::Answered(answer) => answer,
        }
    }
}

fn send<'a>(
    connection: &'a PostgresConnection,
    stmts: &'a [Stmt],
    statements: &'a [Prepared],
) -> Vec<Sent<'a>> {
    let start = |(stmt, statement): (&'a Stmt, &'a Prepared)| {
        Sent::start(request(connection, stmt, statement))
    };
    stmts.iter().zip(statements).map(start).collect()
}

async fn request(
    connection: &PostgresConnection,
    stmt: &Stmt,
    statement: &Prepared,
) -> Result<WriteResult, tokio_postgres::Error> {
    if stmt.expect != Expect::Number {
        return Ok(WriteResult {
            rows: connection.execute(statement, &stmt.params).await?,
            number: None,
        });
    }
    let rows = connection.query(statement, &stmt.params).await?;
    let number = rows.first().map(|row| row.try_get(0)).transpose()?;
    Ok(WriteResult {
        rows: rows.len() as u64,
        number,
    })
}

/// Reads all answers of a job. The result is the first failure, or the result of the last
/// statement.
async fn collect(stmts: &[Stmt], sent: Vec<Sent<'_>>) -> Result<Outcome, Broken> {
    let mut outcome = Ok(WriteResult::default());
    for (stmt, sent) in stmts.iter().zip(sent) {
        let answer = sent.answer().await;
        if outcome.is_err() {
            continue;
        }
        outcome = match answer {
            Ok(written) => stmt.check(written),
            Err(error) if ends_connection(&error) => return Err(broken(error)),
            Err(error) if is_conflict(&error) => {
                return Err(Broken::Conflicted(translate(&error)));
            }
            Err(error) => Err(translate(&error)),
        };
    }
    Ok(outcome)
}

async fn control(client: &Client, sql: &'static str) -> Result<(), Broken> {
    client.batch_execute(sql).await.map_err(broken)
}

fn broken(error: tokio_postgres::Error) -> Broken {
    Broken::Before(translate(&error))
}
