//! One connection to PostgreSQL with its prepared statements.

use std::collections::HashMap;
use std::str::FromStr;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use bytes::BytesMut;
use tokio::task::AbortHandle;
use tokio_postgres::types::{IsNull, ToSql, Type, to_sql_checked};
use tokio_postgres::{Client, Config, NoTls, Statement};

use super::error::{ends_connection, translate};
use super::text;
use crate::statement::Param;
use crate::{StoreError, StoreOptions};

/// Commits wait for the disk whatever the server's default is. A server that hangs in one
/// statement, or a program that hangs inside a transaction, must not hold locks for ever.
const WRITER_SETTINGS: &str =
    "SET synchronous_commit = on; SET idle_in_transaction_session_timeout = '60s'";
const READER_SETTINGS: &str = "SET default_transaction_read_only = on";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PostgresAccess {
    Write,
    Read,
}

/// How to make connections.
pub(super) struct Connector {
    config: Config,
    connect_timeout: Duration,
    pub query_timeout: Duration,
}

impl Connector {
    pub fn new(url: &str, options: &StoreOptions) -> Result<Self, StoreError> {
        let mut config = Config::from_str(url).map_err(|_| {
            StoreError::Invalid("the postgres: database address is malformed".to_owned())
        })?;
        if config.get_application_name().is_none() {
            config.application_name("codelab");
        }
        let query_timeout = Duration::from_millis(options.query_timeout_ms);
        config.tcp_user_timeout(query_timeout);
        Ok(Self {
            config,
            connect_timeout: Duration::from_millis(options.connect_timeout_ms),
            query_timeout,
        })
    }

    pub async fn connect(&self, access: PostgresAccess) -> Result<PostgresConnection, StoreError> {
        let attempt = async {
            let (client, driver) = self
                .config
                .connect(NoTls)
                .await
                .map_err(|error| translate(&error))?;
            let driver = tokio::spawn(async move {
                if let Err(error) = driver.await {
                    tracing::debug!(error = %translate(&error), "a connection to the database ended");
                }
            });
            let connection = PostgresConnection {
                client,
                statements: Mutex::new(HashMap::new()),
                driver: driver.abort_handle(),
            };
            let settings = if access == PostgresAccess::Write {
                WRITER_SETTINGS
            } else {
                READER_SETTINGS
            };
            connection
                .client
                .batch_execute(settings)
                .await
                .map_err(|error| translate(&error))?;
            Ok(connection)
        };
        let late = || StoreError::Unavailable("no connection within the time limit".to_owned());
        tokio::time::timeout(self.connect_timeout, attempt)
            .await
            .unwrap_or_else(|_| Err(late()))
    }
}

pub(super) struct PostgresConnection {
    pub client: Client,
    statements: Mutex<HashMap<&'static str, Statement>>,
    driver: AbortHandle,
}

impl PostgresConnection {
    /// Statements come from this crate's constants, so there are only so many.
    pub async fn prepare(&self, sql: &'static str) -> Result<Statement, tokio_postgres::Error> {
        let known = self
            .statements
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .get(sql)
            .cloned();
        if let Some(statement) = known {
            return Ok(statement);
        }
        let statement = self.client.prepare(sql).await?;
        self.statements
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(sql, statement.clone());
        Ok(statement)
    }

    pub fn is_usable_after(&self, error: &tokio_postgres::Error) -> bool {
        !self.client.is_closed() && !ends_connection(error)
    }
}

/// What is still under way on a connection that is given up must not linger on a dead socket.
impl Drop for PostgresConnection {
    fn drop(&mut self) {
        self.driver.abort();
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
            (Self::Null, _) => Ok(IsNull::Yes),
            _ => Err("a parameter does not have the type of its column".into()),
        }
    }

    fn accepts(ty: &Type) -> bool {
        matches!(*ty, Type::INT8 | Type::TEXT)
    }

    to_sql_checked!();
}
