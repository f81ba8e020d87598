//! Counters that only increase.

use super::Store;
use crate::StoreError;
use crate::statement::{Expect, Param, Stmt};

// SQLite and PostgreSQL have no common function for the greater of two numbers.
const RESERVE: &str = "INSERT INTO counters (name, value) VALUES ('chat_ids', CAST($1 AS BIGINT) + CAST($2 AS BIGINT)) \
     ON CONFLICT (name) DO UPDATE SET value = CASE WHEN counters.value > $1 THEN counters.value ELSE $1 END + $2 \
     RETURNING value";

impl Store {
    /// Reserves `count` new numbers for the global Chat: those after the first returned number, up
    /// to the second. They begin at `floor` or after the numbers reserved before, whichever is
    /// greater.
    pub async fn reserve_chat_ids(&self, floor: i64, count: u32) -> Result<(i64, i64), StoreError> {
        let params = vec![Param::Int(floor), Param::Int(count.into())];
        let until = self
            .write(
                None,
                vec![Stmt {
                    sql: RESERVE,
                    params,
                    expect: Expect::Number,
                }],
            )
            .await?
            .number;
        let until =
            until.ok_or_else(|| StoreError::Corrupt("a counter has no value".to_owned()))?;
        Ok((until - i64::from(count), until))
    }
}
