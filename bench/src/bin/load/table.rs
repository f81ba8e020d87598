//! One table per database, with goals beside results.

use std::fmt::{self, Write as _};

pub struct Row {
    pub what: String,
    pub codelab: String,
    /// The result of the bare relay, if it does the same work.
    pub limit: String,
    pub against: Goal,
}

pub struct Goal {
    pub seen: String,
    pub wanted: &'static str,
    pub is_met: bool,
}

/// `heads` names the two sides that were compared.
pub fn of(database: &str, heads: (&str, &str), rows: &[Row]) -> String {
    let (own, other) = heads;
    let mut table =
        format!("\n| {database} | {own} | {other} | seen | goal | |\n|---|---|---|---|---|---|\n");
    for row in rows {
        let _never_fails = writeln!(table, "{row}");
    }
    table
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            what,
            codelab,
            limit,
            against:
                Goal {
                    seen,
                    wanted,
                    is_met,
                },
        } = self;
        let verdict = if *is_met { "met" } else { "**missed**" };
        write!(
            f,
            "| {what} | {codelab} | {limit} | {seen} | {wanted} | {verdict} |"
        )
    }
}
