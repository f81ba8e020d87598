//! Makes connections to PostgreSQL, all with the same settings: finds the host that takes writes,
//! and finds out whether a pooler stands before it.

use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio_postgres::config::SslMode;
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, Config, Error, NoTls};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::address::PostgresAddress;
use super::connection::{Pooler, PostgresAccess, PostgresConnection};
use super::error::{is_tls_failure, translate};
use super::tls::TlsMode;
use crate::{StoreError, StoreOptions};

/// How often two connections are compared to find a pooler. Other clients of a busy pooler can hide
/// it in one comparison, and hardly in four.
const POOLER_PROBES: usize = 4;
/// Names the process of PostgreSQL that answers. The time tells servers apart whose processes have
/// the same number.
const BACKEND: &str = "SELECT pg_backend_pid()::TEXT || ' ' || pg_postmaster_start_time()::TEXT";

pub(super) struct PostgresConnector {
    hosts: Vec<Config>,
    /// The position of the host that was found last. It is tried first, so that a dead one does not
    /// delay every connection.
    current: AtomicUsize,
    /// How many connections were made.
    made: AtomicUsize,
    pooler: Arc<Pooler>,
    tls_mode: TlsMode,
    /// `None` with `sslmode=disable`.
    tls: Option<MakeRustlsConnect>,
    /// For each host.
    connect_timeout: Duration,
    pub query_timeout: Duration,
}

impl PostgresConnector {
    pub fn new(url: &str, options: &StoreOptions) -> Result<Self, StoreError> {
        let PostgresAddress {
            mut hosts,
            tls,
            is_pooled,
        } = PostgresAddress::parse(url)?;
        let home = std::env::var_os("HOME");
        let query_timeout = Duration::from_millis(options.query_timeout_ms);
        for host in &mut hosts {
            host.tcp_user_timeout(query_timeout);
        }
        let connect_timeout = hosts
            .first()
            .and_then(|host| host.get_connect_timeout().copied())
            .unwrap_or(Duration::from_millis(options.connect_timeout_ms));
        Ok(Self {
            hosts,
            current: AtomicUsize::new(0),
            made: AtomicUsize::new(0),
            pooler: Arc::new(Pooler::new(is_pooled)),
            tls_mode: tls.mode,
            tls: tls.connector(home.as_deref().map(Path::new))?,
            connect_timeout,
            query_timeout,
        })
    }

    pub async fn connect(&self, access: PostgresAccess) -> Result<PostgresConnection, StoreError> {
        let connection = self.dial().await?;
        let connection = self.settle(connection, access).await?;
        self.made.fetch_add(1, Ordering::Relaxed);
        Ok(connection)
    }

    /// Grows whenever a connection was made: the server can be reached again.
    pub fn made(&self) -> usize {
        self.made.load(Ordering::Relaxed)
    }

    /// For a few queries that prepare nothing, whether or not there is a pooler.
    pub async fn connect_briefly(&self) -> Result<PostgresConnection, StoreError> {
        self.dial().await
    }

    /// The first two connections of a store. They show whether there is a pooler, before one of
    /// them leaves anything behind in the server.
    pub async fn connect_first(
        &self,
        accesses: [PostgresAccess; 2],
    ) -> Result<[PostgresConnection; 2], StoreError> {
        let (one, other) = (self.dial().await?, self.dial().await?);
        if !self.pooler.is_there() {
            let compared = tokio::time::timeout(self.connect_timeout, share_backends(&one, &other));
            let shared = compared.await.map_err(|_| late())?;
            if shared.map_err(|error| translate(&error))? {
                self.pooler.found();
            }
        }
        Ok([
            self.settle(one, accesses[0]).await?,
            self.settle(other, accesses[1]).await?,
        ])
    }

    /// Whether the connection is to the host that was found last. After a failover the old primary
    /// may still answer, but what it answers is old.
    pub fn is_current(&self, connection: &PostgresConnection) -> bool {
        connection.host == self.current.load(Ordering::Relaxed)
    }

    async fn settle(
        &self,
        connection: PostgresConnection,
        access: PostgresAccess,
    ) -> Result<PostgresConnection, StoreError> {
        tokio::time::timeout(self.connect_timeout, connection.settle(access))
            .await
            .unwrap_or_else(|_| Err(late()))
    }

    /// Tries each host once.
    async fn dial(&self) -> Result<PostgresConnection, StoreError> {
        let first = self.current.load(Ordering::Relaxed);
        let mut failures = Vec::new();
        let others = (0..self.hosts.len()).filter(|host| *host != first);
        for host in std::iter::once(first).chain(others) {
            let attempt = tokio::time::timeout(self.connect_timeout, self.dial_host(host)).await;
            match attempt.unwrap_or_else(|_| Err(late())) {
                Ok(connection) => {
                    if self.current.swap(host, Ordering::Relaxed) != host {
                        tracing::info!(host = host + 1, "another host of PostgreSQL is used now");
                    }
                    return Ok(connection);
                }
                Err(error) if self.hosts.len() == 1 => return Err(error),
                Err(StoreError::Unavailable(reason)) => failures.push((host, reason)),
                Err(error) => failures.push((host, error.to_string())),
            }
        }
        failures.sort_unstable();
        let all: Vec<_> = failures
            .into_iter()
            .map(|(host, reason)| format!("host {}: {reason}", host + 1))
            .collect();
        Err(StoreError::Unavailable(all.join("; ")))
    }

    /// With `sslmode=prefer`, a server that cannot be used with TLS is tried without it, as libpq
    /// does.
    async fn dial_host(&self, host: usize) -> Result<PostgresConnection, StoreError> {
        let config = &self.hosts[host];
        let dialled = match &self.tls {
            None => dial_plain(config).await,
            Some(tls) => match config.connect(tls.clone()).await {
                Ok((client, driver)) => Ok((client, Box::pin(driver) as Driver)),
                Err(error) if self.tls_mode == TlsMode::Prefer && may_work_plain(&error) => {
                    dial_plain(config.clone().ssl_mode(SslMode::Disable)).await
                }
                Err(error) => Err(error),
            },
        };
        let (client, driver) = dialled.map_err(|error| translate(&error))?;
        let driver = tokio::spawn(async move {
            if let Err(error) = driver.await {
                tracing::debug!(error = %translate(&error), "database connection ended");
            }
        });
        let pooler = Arc::clone(&self.pooler);
        Ok(PostgresConnection::new(
            client,
            host,
            pooler,
            driver.abort_handle(),
        ))
    }
}

fn late() -> StoreError {
    StoreError::Unavailable("no connection within the time limit".to_owned())
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

/// Without a pooler, each connection has a process of PostgreSQL for itself and keeps it. A pooler
/// in session mode does the same.
async fn share_backends(
    one: &PostgresConnection,
    other: &PostgresConnection,
) -> Result<bool, Error> {
    let known = [backend(one).await?, backend(other).await?];
    let mut is_shared = known[0] == known[1];
    for _ in 1..POOLER_PROBES {
        // The other one comes first, because a pooler may hand out two processes in turn.
        is_shared |= backend(other).await? != known[1] || backend(one).await? != known[0];
    }
    Ok(is_shared)
}

async fn backend(connection: &PostgresConnection) -> Result<String, Error> {
    let row = connection.client.query_typed_one(BACKEND, &[]).await?;
    row.try_get(0)
}
