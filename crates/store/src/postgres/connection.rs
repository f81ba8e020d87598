//! One connection to PostgreSQL: how statements are sent over it.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::BytesMut;
use futures_util::TryStreamExt as _;
use tokio::task::AbortHandle;
use tokio_postgres::types::{IsNull, ToSql, Type, to_sql_checked};
use tokio_postgres::{Client, Error, Row, Statement};

use super::error::{ends_connection, shows_pooler, translate};
use super::text;
use crate::StoreError;
use crate::statement::Param;

/// Commits wait for the disk, and for a synchronous standby, whatever the server's default is. A
/// server that stands still within a transaction must not keep others from taking over.
const WRITER_SETTINGS: &str =
    "SET synchronous_commit = on; SET idle_in_transaction_session_timeout = '5s'";
const READER_SETTINGS: &str = "SET default_transaction_read_only = on";
/// PostgreSQL itself ends a search that takes too long. Giving up its connection would not.
const SEARCH_TIMEOUT: &str = "SET statement_timeout = ";

const BEGIN: &str = "BEGIN";
/// Behind a pooler every transaction brings the settings of a writer along.
const BEGIN_POOLED: &str = "BEGIN; SET LOCAL synchronous_commit = on; \
     SET LOCAL idle_in_transaction_session_timeout = '5s'";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PostgresAccess {
    Write,
    Read,
    /// For reads that may take so long, in milliseconds.
    Search {
        timeout_ms: u64,
    },
}

/// Whether a pooler in transaction mode stands between this program and PostgreSQL.
///
/// Behind one, two transactions of a connection may run in two different processes of PostgreSQL,
/// which other clients use too. All clients of the driver give their statements the same names, so
/// a name could run another program's SQL. Settings would stay behind for others.
#[derive(Debug, Default)]
pub(super) struct Pooler(AtomicBool);

impl Pooler {
    pub fn new(is_known: bool) -> Self {
        Self(AtomicBool::new(is_known))
    }

    pub fn is_there(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    pub fn found(&self) {
        if !self.0.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                "a pooler such as PgBouncer stands before PostgreSQL, so statements are not \
                 prepared by name: add pgbouncer=true to the database address"
            );
        }
    }
}

pub(super) struct PostgresConnection {
    pub client: Client,
    /// The position of its host in the address.
    pub host: usize,
    pooler: Arc<Pooler>,
    mode: SendMode,
    driver: AbortHandle,
}

/// How statements are sent.
enum SendMode {
    /// Each is prepared once. The number of statements is limited, because each is a constant of
    /// this crate.
    Named(Mutex<HashMap<&'static str, Statement>>),
    /// Each is sent as text every time, and nothing stays in the server after a transaction.
    Unnamed,
}

/// A statement that can be sent.
pub(super) enum Prepared {
    Named(Statement),
    Unnamed(&'static str),
}

impl PostgresConnection {
    /// It keeps nothing in the server until `settle` is called.
    pub fn new(client: Client, host: usize, pooler: Arc<Pooler>, driver: AbortHandle) -> Self {
        Self {
            client,
            host,
            pooler,
            mode: SendMode::Unnamed,
            driver,
        }
    }

    /// Sets the connection up for its use, if it is not shared through a pooler.
    pub async fn settle(mut self, access: PostgresAccess) -> Result<Self, StoreError> {
        if self.pooler.is_there() {
            return Ok(self);
        }
        let settings = match access {
            PostgresAccess::Write => WRITER_SETTINGS.to_owned(),
            PostgresAccess::Read => READER_SETTINGS.to_owned(),
            PostgresAccess::Search { timeout_ms } => {
                format!("{READER_SETTINGS}; {SEARCH_TIMEOUT}{timeout_ms}")
            }
        };
        self.client
            .batch_execute(&settings)
            .await
            .map_err(|error| translate(&error))?;
        self.mode = SendMode::Named(Mutex::default());
        Ok(self)
    }

    /// The SQL that begins a transaction that writes.
    pub fn begin(&self) -> &'static str {
        match self.mode {
            SendMode::Named(_) => BEGIN,
            SendMode::Unnamed => BEGIN_POOLED,
        }
    }

    pub async fn prepare(&self, sql: &'static str) -> Result<Prepared, Error> {
        let SendMode::Named(statements) = &self.mode else {
            return Ok(Prepared::Unnamed(sql));
        };
        let known = statements
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .get(sql)
            .cloned();
        if let Some(statement) = known {
            return Ok(Prepared::Named(statement));
        }
        let prepared = self.client.prepare(sql).await;
        let statement = prepared.inspect_err(|error| self.learn(error))?;
        statements
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(sql, statement.clone());
        Ok(Prepared::Named(statement))
    }

    /// The request is sent when the future is first polled.
    pub async fn query(&self, prepared: &Prepared, params: &[Param]) -> Result<Vec<Row>, Error> {
        let rows = match prepared {
            Prepared::Named(statement) => self.client.query_raw(statement, params).await,
            Prepared::Unnamed(sql) => {
                let typed = params.iter().map(|param| (param, type_of(param)));
                self.client.query_typed_raw(sql, typed).await
            }
        };
        rows.inspect_err(|error| self.learn(error))?
            .try_collect()
            .await
    }

    /// The number of rows that changed. The request is sent when the future is first polled.
    pub async fn execute(&self, prepared: &Prepared, params: &[Param]) -> Result<u64, Error> {
        let changed = match prepared {
            Prepared::Named(statement) => self.client.execute_raw(statement, params).await,
            Prepared::Unnamed(sql) => {
                let typed: Vec<(&(dyn ToSql + Sync), Type)> = params
                    .iter()
                    .map(|param| (param as &(dyn ToSql + Sync), type_of(param)))
                    .collect();
                self.client.execute_typed(sql, &typed).await
            }
        };
        changed.inspect_err(|error| self.learn(error))
    }

    /// Statements that were prepared by name must not be used once a pooler is found.
    pub fn is_usable(&self) -> bool {
        let has_unsafe_names = matches!(self.mode, SendMode::Named(_)) && self.pooler.is_there();
        !self.client.is_closed() && !has_unsafe_names
    }

    pub fn is_usable_after(&self, error: &Error) -> bool {
        self.is_usable() && !ends_connection(error)
    }

    /// A pooler that was not found at the start gives itself away: prepared statements vanish.
    fn learn(&self, error: &Error) {
        if shows_pooler(error) {
            self.pooler.found();
        }
    }
}

/// Requests in flight on an abandoned connection must not stay on a dead socket.
impl Drop for PostgresConnection {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

/// The server infers the type of NULL, as it does for all parameters of a prepared statement.
fn type_of(param: &Param) -> Type {
    match param {
        Param::Null => Type::UNKNOWN,
        Param::Int(_) => Type::INT8,
        Param::Text(_) | Param::Shared(_) => Type::TEXT,
        Param::Bytes(_) => Type::BYTEA,
    }
}

impl ToSql for Param {
    fn to_sql(
        &self,
        ty: &Type,
        out: &mut BytesMut,
    ) -> Result<IsNull, Box<dyn std::error::Error + Sync + Send>> {
        match (self, self.as_text()) {
            (Self::Int(number), _) if *ty == Type::INT8 => number.to_sql(ty, out),
            (_, Some(string)) if *ty == Type::TEXT => text::encode(string).as_ref().to_sql(ty, out),
            (Self::Bytes(bytes), _) if *ty == Type::BYTEA => bytes.as_ref().to_sql(ty, out),
            (Self::Null, _) => Ok(IsNull::Yes),
            _ => Err("a parameter does not have the type of its column".into()),
        }
    }

    fn accepts(ty: &Type) -> bool {
        matches!(*ty, Type::INT8 | Type::TEXT | Type::BYTEA | Type::UNKNOWN)
    }

    to_sql_checked!();
}
