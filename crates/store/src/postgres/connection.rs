//! One connection to PostgreSQL with its prepared statements.

use std::collections::HashMap;
use std::path::Path;
use std::pin::Pin;
use std::str::FromStr;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use bytes::BytesMut;
use tokio::task::AbortHandle;
use tokio_postgres::config::SslMode;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::{IsNull, ToSql, Type, to_sql_checked};
use tokio_postgres::{Client, Config, Error, NoTls, Statement};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::error::{ends_connection, is_tls_failure, translate};
use super::text;
use super::tls::{TlsMode, TlsParameters};
use crate::statement::Param;
use crate::{StoreError, StoreOptions};

/// Commits wait for the disk whatever the server's default is. A program that hangs inside a
/// transaction must not hold its locks for ever.
const WRITER_SETTINGS: &str =
    "SET synchronous_commit = on; SET idle_in_transaction_session_timeout = '60s'";
const READER_SETTINGS: &str = "SET default_transaction_read_only = on";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PostgresAccess {
    Write,
    Read,
}

/// Makes connections, all with the same settings.
pub(super) struct PostgresConnector {
    config: Config,
    tls_mode: TlsMode,
    /// `None` with `sslmode=disable`.
    tls: Option<MakeRustlsConnect>,
    connect_timeout: Duration,
    pub query_timeout: Duration,
}

impl PostgresConnector {
    pub fn new(url: &str, options: &StoreOptions) -> Result<Self, StoreError> {
        let (url, tls) = TlsParameters::split(url)?;
        let mut config = Config::from_str(&url).map_err(|_| {
            StoreError::Invalid("the postgres: database address is malformed".to_owned())
        })?;
        config.ssl_mode(tls.driver_mode());
        let home = std::env::var_os("HOME");
        if config.get_application_name().is_none() {
            config.application_name("codelab");
        }
        let query_timeout = Duration::from_millis(options.query_timeout_ms);
        config.tcp_user_timeout(query_timeout);
        Ok(Self {
            config,
            tls_mode: tls.mode,
            tls: tls.connector(home.as_deref().map(Path::new))?,
            connect_timeout: Duration::from_millis(options.connect_timeout_ms),
            query_timeout,
        })
    }

    pub async fn connect(&self, access: PostgresAccess) -> Result<PostgresConnection, StoreError> {
        let attempt = async {
            let (client, driver) = self.dial().await.map_err(|error| translate(&error))?;
            let driver = tokio::spawn(async move {
                if let Err(error) = driver.await {
                    tracing::debug!(error = %translate(&error), "database connection ended");
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

    /// With `sslmode=prefer`, a server that cannot be used with TLS is tried without it, as libpq
    /// does.
    async fn dial(&self) -> Result<(Client, Driver), Error> {
        let Some(tls) = &self.tls else {
            return dial_plain(&self.config).await;
        };
        match self.config.connect(tls.clone()).await {
            Ok((client, driver)) => Ok((client, Box::pin(driver))),
            Err(error) if self.tls_mode == TlsMode::Prefer && may_work_plain(&error) => {
                dial_plain(self.config.clone().ssl_mode(SslMode::Disable)).await
            }
            Err(error) => Err(error),
        }
    }
}

async fn dial_plain(config: &Config) -> Result<(Client, Driver), Error> {
    let (client, driver) = config.connect(NoTls).await?;
    Ok((client, Box::pin(driver)))
}

/// The handshake failed, or the server's rules refuse this user over TLS.
fn may_work_plain(error: &Error) -> bool {
    match error.code() {
        Some(code) => *code == SqlState::INVALID_AUTHORIZATION_SPECIFICATION,
        None => is_tls_failure(error),
    }
}

/// Moves the bytes of one connection.
type Driver = Pin<Box<dyn Future<Output = Result<(), Error>> + Send>>;

pub(super) struct PostgresConnection {
    pub client: Client,
    statements: Mutex<HashMap<&'static str, Statement>>,
    driver: AbortHandle,
}

impl PostgresConnection {
    /// The number of statements is limited, because each is a constant of this crate.
    pub async fn prepare(&self, sql: &'static str) -> Result<Statement, Error> {
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

    pub fn is_usable_after(&self, error: &Error) -> bool {
        !self.client.is_closed() && !ends_connection(error)
    }
}

/// Requests in flight on an abandoned connection must not stay on a dead socket.
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
