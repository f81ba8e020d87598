//! PostgreSQL's errors in the store's words. Only the five-character code is kept: messages quote
//! stored values.

use tokio_postgres::Error;
use tokio_postgres::error::{Severity, SqlState};

use crate::StoreError;

pub(crate) fn translate(error: &Error) -> StoreError {
    let Some(code) = error.code() else {
        // Without a code the server said nothing: the driver could not encode, decode, or reach it.
        return StoreError::Unavailable(with_cause(error));
    };
    let text = code.code();
    match text.get(..2).unwrap_or_default() {
        "53" if *code == SqlState::DISK_FULL => StoreError::DiskFull,
        // What is wrong with an address, in words: whoever starts a server reads this line alone.
        "28" => StoreError::Unavailable(format!(
            "PostgreSQL refused the user or the password (error {text})"
        )),
        "3D" => StoreError::Unavailable(format!(
            "PostgreSQL has no database of this name (error {text})"
        )),
        "08" | "40" | "53" | "55" | "57" => {
            StoreError::Unavailable(format!("PostgreSQL error {text}"))
        }
        "58" => StoreError::Io(format!("PostgreSQL error {text}")),
        "XX" => StoreError::Corrupt(format!("PostgreSQL error {text}")),
        // A standby, or a server that somebody set so: an outage, unlike a store that was opened
        // for reading.
        "25" if *code == SqlState::READ_ONLY_SQL_TRANSACTION => {
            StoreError::Unavailable(format!("PostgreSQL takes no writes (error {text})"))
        }
        _ => StoreError::Invalid(format!("PostgreSQL error {text}")),
    }
}

/// The driver's words, and the system's where it could not connect: refused, no such host, no
/// route.
fn with_cause(error: &Error) -> String {
    let mut text = error.to_string();
    if let Some(cause) =
        std::error::Error::source(error).and_then(|cause| cause.downcast_ref::<std::io::Error>())
    {
        text.push_str(&format!(": {cause}"));
    }
    text
}

/// Whether the connection is of no further use: it broke, or the server ended it.
pub(crate) fn ends_connection(error: &Error) -> bool {
    match error.as_db_error() {
        None => true,
        Some(db) => matches!(
            db.parsed_severity(),
            Some(Severity::Fatal | Severity::Panic)
        ),
    }
}
