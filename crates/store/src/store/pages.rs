//! Reads lists with a limit of bytes as well as of rows, because one row can be megabytes.

use super::Store;
use crate::StoreError;
use crate::columns::Decode;
use crate::statement::Param;

/// Maximum bytes of a list that is returned as one page.
pub(super) const MAX_LIST_BYTES: u64 = 4 * 1024 * 1024;
/// Maximum bytes of one part of a list that is read to its end.
pub(super) const MAX_PART_BYTES: u64 = 64 * 1024;
/// Maximum rows of one such part.
pub(super) const MAX_PART_ROWS: u64 = 1000;

/// A list, oldest or newest first: its rows, and their sizes in the same order. `LIMIT` is their
/// first parameter after those that say which rows.
pub(super) struct SizedList<T> {
    pub sizes: &'static str,
    pub rows: &'static str,
    pub decode: Decode<T>,
}

impl Store {
    /// At most `limit` rows and `max_bytes`, but at least one row if there is one.
    pub(super) async fn read_sized<T: Send + 'static>(
        &self,
        list: SizedList<T>,
        which: Vec<Param>,
        limit: u64,
        offset: Option<u64>,
        max_bytes: u64,
    ) -> Result<Vec<T>, StoreError> {
        let params = |limit: u64| {
            let window = [Some(limit), offset].into_iter().flatten().map(Param::from);
            which.iter().cloned().chain(window).collect::<Vec<_>>()
        };
        let sizes = self
            .read(list.sizes, params(limit), |row| row.count())
            .await?;
        let mut bytes = 0;
        let fits = |size: &&u64| {
            let room = bytes < max_bytes;
            bytes += **size;
            room
        };
        match sizes.iter().take_while(fits).count() as u64 {
            0 => Ok(Vec::new()),
            page => self.read(list.rows, params(page), list.decode).await,
        }
    }
}
