//! A connection that is opened again after a loss, with growing pauses between attempts.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::connection::{PostgresAccess, PostgresConnection};
use super::connector::PostgresConnector;
use crate::StoreError;

const FIRST_BACKOFF: Duration = Duration::from_millis(100);
const LONGEST_BACKOFF: Duration = Duration::from_secs(5);
/// For what a lease depends on.
const LONGEST_URGENT_BACKOFF: Duration = Duration::from_secs(1);

pub(super) struct PostgresLink {
    connector: Arc<PostgresConnector>,
    access: PostgresAccess,
    connection: Option<Arc<PostgresConnection>>,
    backoff: Duration,
    longest_backoff: Duration,
    not_before: Instant,
    /// What the connector had made when this link failed last.
    made_before: usize,
}

impl PostgresLink {
    pub fn new(
        connector: Arc<PostgresConnector>,
        access: PostgresAccess,
        connection: Option<PostgresConnection>,
    ) -> Self {
        Self {
            connector,
            access,
            connection: connection.map(Arc::new),
            backoff: FIRST_BACKOFF,
            longest_backoff: LONGEST_BACKOFF,
            not_before: Instant::now(),
            made_before: 0,
        }
    }

    /// Never pauses for long between attempts.
    pub fn urgent(self) -> Self {
        Self {
            longest_backoff: LONGEST_URGENT_BACKOFF,
            ..self
        }
    }

    /// While the server is unreachable, callers fail at once. They do not wait for the next attempt
    /// to connect. As soon as another link has connected, this one tries again too.
    pub async fn connection(&mut self) -> Result<Arc<PostgresConnection>, StoreError> {
        let usable = self
            .connection
            .as_ref()
            .filter(|connection| connection.is_usable() && self.connector.is_current(connection));
        if let Some(connection) = usable {
            return Ok(Arc::clone(connection));
        }
        self.connection = None;
        let is_back = self.connector.made() != self.made_before;
        if Instant::now() < self.not_before && !is_back {
            return Err(StoreError::Unavailable(
                "the connection is lost, trying again soon".to_owned(),
            ));
        }
        match self.connector.connect(self.access).await {
            Ok(connection) => {
                let connection = Arc::new(connection);
                self.backoff = FIRST_BACKOFF;
                self.connection = Some(Arc::clone(&connection));
                Ok(connection)
            }
            Err(error) => {
                self.made_before = self.connector.made();
                self.not_before = Instant::now() + self.backoff;
                self.backoff = (self.backoff * 2).min(self.longest_backoff);
                Err(error)
            }
        }
    }

    /// Gives up a broken connection, unless another caller has already replaced it.
    pub fn forget(&mut self, broken: &Arc<PostgresConnection>) {
        self.connection
            .take_if(|current| Arc::ptr_eq(current, broken));
    }

    pub fn close(&mut self) {
        self.connection = None;
    }
}
