//! The writer's statements, prepared once and kept as long as its connection.

use std::collections::HashMap;

use rusqlite::{Connection, Statement};

use crate::statement::{Expect, Stmt, WriteResult};

/// The text of a statement is a constant of this crate, so its address identifies it. Comparing
/// addresses is faster than comparing texts, and the number of statements is limited.
pub(super) struct HeldStatements<'c> {
    pub connection: &'c Connection,
    prepared: HashMap<(usize, usize), Statement<'c>>,
}

impl<'c> HeldStatements<'c> {
    pub fn new(connection: &'c Connection) -> Self {
        Self {
            connection,
            prepared: HashMap::new(),
        }
    }

    pub fn run(&mut self, sql: &'static str) -> rusqlite::Result<()> {
        self.prepared(sql)?.execute([]).map(drop)
    }

    pub fn execute(&mut self, stmt: &Stmt) -> rusqlite::Result<WriteResult> {
        let statement = self.prepared(stmt.sql)?;
        let written = execute(statement, stmt);
        // The parameters may be large, so they are freed.
        statement.clear_bindings();
        written
    }

    fn prepared(&mut self, sql: &'static str) -> rusqlite::Result<&mut Statement<'c>> {
        use std::collections::hash_map::Entry;
        match self.prepared.entry((sql.as_ptr().addr(), sql.len())) {
            Entry::Occupied(held) => Ok(held.into_mut()),
            Entry::Vacant(entry) => Ok(entry.insert(self.connection.prepare(sql)?)),
        }
    }
}

fn execute(statement: &mut Statement<'_>, stmt: &Stmt) -> rusqlite::Result<WriteResult> {
    let params = rusqlite::params_from_iter(&stmt.params);
    if stmt.expect != Expect::Number {
        return Ok(WriteResult {
            rows: statement.execute(params)? as u64,
            number: None,
        });
    }
    let mut rows = statement.query(params)?;
    let number = rows.next()?.map(|row| row.get(0)).transpose()?;
    // A statement that returns rows must be run to its end to have its effect.
    while rows.next()?.is_some() {}
    Ok(WriteResult {
        rows: u64::from(number.is_some()),
        number,
    })
}
