//! Where the server of a data folder listens, for other commands on this machine. The address
//! counts only while the server that wrote it lives: it holds a lock that the system frees when the
//! process ends, however it ends. So nobody who has the port afterwards is taken for the server,
//! and is sent a token.

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::private::write_private;

const ADDRESS_FILE: &str = "server-addr";
const LOCK_FILE: &str = "server-addr.lock";
/// Whoever looks for the server holds the lock for an instant.
const LOCK_ATTEMPTS: u32 = 50;
const LOCK_PAUSE: Duration = Duration::from_millis(10);

/// The address stands in the data folder for as long as this lives.
#[derive(Debug)]
pub(crate) struct KeptAddress {
    path: PathBuf,
    text: String,
    lock: File,
}

impl KeptAddress {
    /// `WouldBlock` when another server of this data folder lives.
    pub async fn write(data_dir: &Path, addr: SocketAddr) -> io::Result<Self> {
        let path = data_dir.join(ADDRESS_FILE);
        let lock = open_lock(data_dir)?;
        // What an earlier server left must be gone before the lock says that the address counts.
        lock.try_lock_shared()?;
        let removed = remove(&path);
        lock.unlock()?;
        removed?;
        let mut attempt = 0;
        while let Err(error) = lock.try_lock() {
            attempt += 1;
            match error {
                TryLockError::WouldBlock if attempt < LOCK_ATTEMPTS => {
                    tokio::time::sleep(LOCK_PAUSE).await
                }
                error => return Err(error.into()),
            }
        }
        let kept = Self {
            path,
            text: addr.to_string(),
            lock,
        };
        write_private(&kept.path, &kept.text)?;
        Ok(kept)
    }
}

impl KeptAddress {
    /// Nobody is to find the server here any more; the data folder is still its own.
    pub fn withdraw(&self) {
        if std::fs::read_to_string(&self.path).is_ok_and(|text| text == self.text)
            && let Err(error) = remove(&self.path)
        {
            tracing::warn!(%error, "the server's address stays in the data folder");
        }
    }
}

impl Drop for KeptAddress {
    fn drop(&mut self) {
        self.withdraw();
        // A process that is being started meanwhile holds a copy of the handle for a moment, and
        // with it the lock.
        if let Err(error) = self.lock.unlock() {
            tracing::warn!(%error, "the lock of the server's address was not released");
        }
    }
}

/// Where the living server of this data folder listens.
pub(crate) fn living(data_dir: &Path) -> Option<SocketAddr> {
    let lock = File::open(data_dir.join(LOCK_FILE)).ok()?;
    // Shared, so that two who look do not take each other for the server.
    match lock.try_lock_shared() {
        Err(TryLockError::WouldBlock) => {}
        Ok(()) | Err(TryLockError::Error(_)) => return None,
    }
    std::fs::read_to_string(data_dir.join(ADDRESS_FILE))
        .ok()?
        .trim()
        .parse()
        .ok()
}

fn open_lock(data_dir: &Path) -> io::Result<File> {
    OpenOptions::new()
        .create(true)
        .truncate(false)
        .write(true)
        .mode(0o600)
        .open(data_dir.join(LOCK_FILE))
}

fn remove(path: &Path) -> io::Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn an_address_counts_while_its_server_lives() {
        let folder = tempfile::tempdir().unwrap();
        let (place, addr) = (folder.path(), "127.0.0.1:4711".parse().unwrap());
        assert_eq!(living(place), None);
        let kept = KeptAddress::write(place, addr).await.unwrap();
        assert_eq!((living(place), living(place)), (Some(addr), Some(addr)));
        let other = "127.0.0.1:4712".parse().unwrap();
        let error = KeptAddress::write(place, other).await.unwrap_err();
        assert_eq!(
            (error.kind(), living(place)),
            (io::ErrorKind::WouldBlock, Some(addr)),
            "the first one stays"
        );
        drop(kept);
        assert_eq!(living(place), None);
        assert!(!place.join(ADDRESS_FILE).exists());
    }

    #[tokio::test]
    async fn what_a_killed_server_left_is_not_believed() {
        let folder = tempfile::tempdir().unwrap();
        let (place, addr) = (folder.path(), "127.0.0.1:4711".parse().unwrap());
        for left in ["127.0.0.1:80", "", "nonsense"] {
            std::fs::write(place.join(ADDRESS_FILE), left).unwrap();
            File::create(place.join(LOCK_FILE)).unwrap();
            assert_eq!(living(place), None, "{left:?}");
            let kept = KeptAddress::write(place, addr).await.unwrap();
            assert_eq!(living(place), Some(addr), "{left:?}");
            // Another server's by now, which did not ask.
            std::fs::write(place.join(ADDRESS_FILE), "127.0.0.1:81").unwrap();
            drop(kept);
            assert!(place.join(ADDRESS_FILE).exists(), "only its own is removed");
        }
    }
}
