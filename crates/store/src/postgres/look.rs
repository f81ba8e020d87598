//! Reads facts about a PostgreSQL database without changing it.

use codelab_protocol::Timestamp;

use super::Postgres;
use super::connector::PostgresConnector;
use super::error::translate;
use crate::inspect::{DatabaseAccess, DatabaseClock, SEALED_AT, has_seals};
use crate::{StoreError, StoreOptions, migrate};

/// Only the number of the version. The rest names the packager.
const SERVER: &str = "SELECT split_part(current_setting('server_version'), ' ', 1), \
     pg_is_in_recovery(), COALESCE(has_schema_privilege(current_schema(), 'CREATE'), false)";
const CLOCK: &str = "SELECT CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000 AS BIGINT)";

pub(crate) struct PostgresLook {
    pub version: String,
    /// The schema version. 0 if there are no tables of CodeLab.
    pub found: i64,
    pub seal: Option<(Timestamp, String)>,
    pub clock: DatabaseClock,
    pub access: DatabaseAccess,
}

impl Postgres {
    pub async fn look(url: &str, options: &StoreOptions) -> Result<PostgresLook, StoreError> {
        let connector = PostgresConnector::new(url, options)?;
        let look = async {
            let connection = connector.connect_briefly().await?;
            let failed = |error| translate(&error);
            let server = connection
                .client
                .query_typed_one(SERVER, &[])
                .await
                .map_err(failed)?;
            let access = match (server.get(1), server.get(2)) {
                (true, _) => DatabaseAccess::ReadOnly,
                (false, false) => DatabaseAccess::NoCreate,
                (false, true) => DatabaseAccess::Full,
            };
            let found = migrate::postgres_version(&connection.client).await?;
            let seal = match has_seals(found) {
                true => connection
                    .client
                    .query_typed_opt(SEALED_AT, &[])
                    .await
                    .map_err(failed)?,
                false => None,
            };
            let seal = seal.map(|row| (Timestamp::from_millis(row.get(0)), row.get(1)));
            // This is the last query, so that both clocks are read at the same moment.
            let clock = DatabaseClock::now(
                connection
                    .client
                    .query_typed_one(CLOCK, &[])
                    .await
                    .map_err(failed)?
                    .get(0),
            );
            Ok(PostgresLook {
                version: server.get(0),
                found,
                seal,
                clock,
                access,
            })
        };
        let late = || StoreError::Unavailable("no answer within the time limit".to_owned());
        tokio::time::timeout(connector.query_timeout, look)
            .await
            .unwrap_or_else(|_| Err(late()))
    }
}
