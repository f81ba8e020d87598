//! Turns SQLite's errors into the store's.

use rusqlite::ErrorCode;
use rusqlite::ffi::SQLITE_IOERR_SHMSIZE;

use crate::StoreError;

pub(crate) fn translate(error: rusqlite::Error) -> StoreError {
    let rusqlite::Error::SqliteFailure(failure, _) = &error else {
        return StoreError::Corrupt("a row does not have the expected form".to_owned());
    };
    let code = failure.extended_code;
    match failure.code {
        ErrorCode::DiskFull => StoreError::DiskFull,
        // The shared-memory file beside the database could not grow. In practice the disk is full.
        ErrorCode::SystemIoFailure if code == SQLITE_IOERR_SHMSIZE => StoreError::DiskFull,
        ErrorCode::SystemIoFailure | ErrorCode::CannotOpen | ErrorCode::PermissionDenied => {
            StoreError::Io(format!("SQLite error {code}"))
        }
        ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase => {
            StoreError::Corrupt(format!("SQLite error {code}"))
        }
        ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked | ErrorCode::OutOfMemory => {
            StoreError::Unavailable(format!("SQLite error {code}"))
        }
        // Only searches are interrupted.
        ErrorCode::OperationInterrupted => StoreError::search_took_too_long(),
        // The file or file system became read-only while the store was writing. That is an outage.
        ErrorCode::ReadOnly => {
            StoreError::Unavailable(format!("its file cannot be written (SQLite error {code})"))
        }
        _ => StoreError::Invalid(format!("SQLite error {code}")),
    }
}

#[cfg(test)]
mod tests {
    use rusqlite::ffi::{Error, SQLITE_READONLY};

    use super::*;

    #[test]
    fn a_file_that_became_read_only_is_an_outage() {
        let error = translate(rusqlite::Error::SqliteFailure(
            Error::new(SQLITE_READONLY),
            None,
        ));
        assert!(error.is_outage(), "{error}");
    }
}
