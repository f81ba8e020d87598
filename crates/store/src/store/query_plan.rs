//! For tests: the index that SQLite would use for a query.

use rusqlite::Connection;

/// A database with the newest tables and no rows.
pub fn empty() -> Connection {
    let mut connection = Connection::open_in_memory().unwrap();
    crate::migrate::sqlite(&mut connection, crate::migrate::SQLITE).unwrap();
    connection
}

pub fn assert_uses(connection: &Connection, sql: &str, index: &str) {
    let mut statement = connection
        .prepare(&format!("EXPLAIN QUERY PLAN {sql}"))
        .unwrap();
    for position in 1..=statement.parameter_count() {
        statement.raw_bind_parameter(position, 1).unwrap();
    }
    let mut plan = String::new();
    let mut rows = statement.raw_query();
    while let Some(row) = rows.next().unwrap() {
        plan.push_str(&row.get::<_, String>(3).unwrap());
        plan.push('\n');
    }
    assert!(plan.contains(index), "{sql}\n{plan}");
}
