//! Turns PostgreSQL's errors into the store's. Only the five-character code is kept, because
//! messages quote stored values.

use codelab_transport::tls::{CertificateProblemKind, certificate_problem};
use tokio_postgres::Error;
use tokio_postgres::error::{Severity, SqlState};

use crate::StoreError;

pub(crate) fn translate(error: &Error) -> StoreError {
    let Some(code) = error.code() else {
        // Without a code the error is the driver's: it could not encode, decode, or connect.
        return StoreError::Unavailable(with_cause(error));
    };
    let text = code.code();
    match text.get(..2).unwrap_or_default() {
        "53" if *code == SqlState::DISK_FULL => StoreError::DiskFull,
        // People read the next three lines when a server does not start.
        "28" if *code == SqlState::INVALID_AUTHORIZATION_SPECIFICATION => {
            StoreError::Unavailable(format!(
                "PostgreSQL does not accept this user from here, or only with another sslmode \
                 (error {text})"
            ))
        }
        "28" => StoreError::Unavailable(format!(
            "PostgreSQL refused the user or the password (error {text})"
        )),
        "3D" => StoreError::Unavailable(format!(
            "PostgreSQL has no database of this name (error {text})"
        )),
        // PgBouncer uses this code for most of what it refuses, and says more in its own log.
        "08" if *code == SqlState::PROTOCOL_VIOLATION => StoreError::Unavailable(format!(
            "PostgreSQL or a pooler before it refused the connection (error {text})"
        )),
        "08" | "40" | "53" | "55" | "57" => {
            StoreError::Unavailable(format!("PostgreSQL error {text}"))
        }
        "58" => StoreError::Io(format!("PostgreSQL error {text}")),
        "XX" => StoreError::Corrupt(format!("PostgreSQL error {text}")),
        // The server is a standby or was set to read-only. That is an outage, unlike a store that
        // was opened for reading.
        "25" if *code == SqlState::READ_ONLY_SQL_TRANSACTION => {
            StoreError::Unavailable(format!("PostgreSQL takes no writes (error {text})"))
        }
        _ => StoreError::Invalid(format!("PostgreSQL error {text}")),
    }
}

/// The driver's message, and the cause if the connection failed: refused, no such host, no route,
/// or a certificate that is not trusted.
fn with_cause(error: &Error) -> String {
    let mut text = error.to_string();
    let Some(cause) = std::error::Error::source(error) else {
        return text;
    };
    if let Some(problem) = certificate_problem(cause) {
        let advice = match problem.kind {
            CertificateProblemKind::UnknownIssuer => {
                "name its issuer's certificate with sslrootcert=FILE in the database address"
            }
            CertificateProblemKind::WrongName => "use a host that it is for, or sslmode=verify-ca",
            CertificateProblemKind::Invalid => {
                "replace it on the database server, or check this machine's clock"
            }
        };
        return format!(
            "the certificate of the database server is not trusted: {}; {advice}",
            problem.reason
        );
    }
    if cause.is::<std::io::Error>() || is_tls_failure(error) {
        text.push_str(&format!(": {cause}"));
    }
    text
}

/// Whether TLS failed, rather than the connection below it.
pub(crate) fn is_tls_failure(error: &Error) -> bool {
    // The driver has no other way to tell.
    error.to_string().contains("TLS")
}

/// Whether the connection cannot be used any more: it broke, the server ended it, or another one
/// must be made to reach a server that can do the work.
pub(crate) fn ends_connection(error: &Error) -> bool {
    let Some(db) = error.as_db_error() else {
        return true;
    };
    let is_fatal = matches!(
        db.parsed_severity(),
        Some(Severity::Fatal | Severity::Panic)
    );
    // A pooler reports a lost server as an ordinary error of class 08. A server that takes no
    // writes has become a standby, so the primary is elsewhere.
    is_fatal
        || db.code().code().starts_with("08")
        || matches!(
            *db.code(),
            SqlState::ADMIN_SHUTDOWN
                | SqlState::CRASH_SHUTDOWN
                | SqlState::CANNOT_CONNECT_NOW
                | SqlState::READ_ONLY_SQL_TRANSACTION
        )
        || shows_pooler(error)
}

/// Whether a prepared statement is unknown, or another client made one of the same name. Both
/// happen only if a pooler changes the process of PostgreSQL between two requests.
pub(crate) fn shows_pooler(error: &Error) -> bool {
    matches!(
        error.code(),
        Some(&SqlState::INVALID_SQL_STATEMENT_NAME | &SqlState::DUPLICATE_PSTATEMENT)
    )
}

/// Whether the transaction failed only because of others that ran at the same time. It was rolled
/// back and can be run again.
pub(crate) fn is_conflict(error: &Error) -> bool {
    matches!(
        error.code(),
        Some(&SqlState::T_R_SERIALIZATION_FAILURE | &SqlState::T_R_DEADLOCK_DETECTED)
    )
}
