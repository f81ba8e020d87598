//! Statements that need the time of the database.
//!
//! Servers compare their leases by one clock: that of PostgreSQL. An embedded database is on the
//! same machine as its one server, which tells it the time.

use std::time::{SystemTime, UNIX_EPOCH};

use codelab_protocol::Timestamp;

use super::{Backend, Store};
use crate::statement::Param;

/// One statement in the words of both databases.
#[derive(Clone, Copy)]
pub(super) struct TimedSql {
    pub postgres: &'static str,
    pub sqlite: &'static str,
}

/// Joins pieces of SQL; `["1"]` stands for the time, given as parameter `$1` or, on PostgreSQL,
/// taken from its clock where that is null.
macro_rules! timed_sql {
    ($($piece:tt),+ $(,)?) => {
        $crate::store::clock::TimedSql {
            postgres: concat!($($crate::store::clock::timed_sql!(@postgres $piece)),+),
            sqlite: concat!($($crate::store::clock::timed_sql!(@sqlite $piece)),+),
        }
    };
    (@postgres [$number:literal]) => {
        concat!("COALESCE($", $number, ", (extract(epoch FROM clock_timestamp()) * 1000)::bigint)")
    };
    (@sqlite [$number:literal]) => { concat!("$", $number) };
    (@postgres $text:literal) => { $text };
    (@sqlite $text:literal) => { $text };
}
pub(super) use timed_sql;

impl Store {
    pub(super) fn timed(&self, sql: TimedSql) -> &'static str {
        match self.backend.as_ref() {
            Backend::Sqlite(_) => sql.sqlite,
            Backend::Postgres(_) => sql.postgres,
        }
    }

    /// The parameter that stands for the time.
    pub(super) fn clock(&self, at: Option<Timestamp>) -> Param {
        match (self.backend.as_ref(), at) {
            (_, Some(at)) => at.into(),
            (Backend::Postgres(_), None) => Param::Null,
            (Backend::Sqlite(_), None) => {
                let now = SystemTime::now().duration_since(UNIX_EPOCH);
                let millis =
                    now.map_or(0, |now| i64::try_from(now.as_millis()).unwrap_or(i64::MAX));
                Param::from(millis)
            }
        }
    }
}
