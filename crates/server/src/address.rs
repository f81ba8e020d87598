//! The file in the data folder that tells other commands on this machine where the server listens.
//! The address is valid only while the server runs: it holds a lock, which the system frees when
//! the process ends for any reason. So no command mistakes another program on the same port for the
//! server, and sends it a token.

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
        // The lock says that the address is valid, so an old address is removed before it is taken.
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
    /// Removes the address, but keeps the lock of the data folder.
    pub fn withdraw(&self) {
        if std::fs::read_to_string(&self.path).is_ok_and(|text| text == self.text)
            && let Err(error) = remove(&self.path)
        {
            tracing::warn!(%error, "removing the file with the server's address failed");
        }
    }
}

impl Drop for KeptAddress {
    fn drop(&mut self) {
        self.withdraw();
        // A process that is being started meanwhile holds a copy of the handle for a moment, and
        // with it the lock.
        if let Err(error) = self.lock.unlock() {
            tracing::warn!(%error, "releasing the lock of the server's address failed");
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
        let (data, addr) = (folder.path(), "127.0.0.1:4711".parse().unwrap());
        assert_eq!(living(data), None);
        let kept = KeptAddress::write(data, addr).await.unwrap();
        assert_eq!((living(data), living(data)), (Some(addr), Some(addr)));
        let other = "127.0.0.1:4712".parse().unwrap();
        let error = KeptAddress::write(data, other).await.unwrap_err();
        assert_eq!(
            (error.kind(), living(data)),
            (io::ErrorKind::WouldBlock, Some(addr)),
            "the first one stays"
        );
        drop(kept);
        assert_eq!(living(data), None);
        assert!(!data.join(ADDRESS_FILE).exists());
    }

    #[tokio::test]
    async fn what_a_killed_server_left_is_not_believed() {
        let folder = tempfile::tempdir().unwrap();
        let (data, addr) = (folder.path(), "127.0.0.1:4711".parse().unwrap());
        for left in ["127.0.0.1:80", "", "nonsense"] {
            std::fs::write(data.join(ADDRESS_FILE), left).unwrap();
            File::create(data.join(LOCK_FILE)).unwrap();
            assert_eq!(living(data), None, "{left:?}");
            let kept = KeptAddress::write(data, addr).await.unwrap();
            assert_eq!(living(data), Some(addr), "{left:?}");
            // Now the file names another server, which did not take the lock.
            std::fs::write(data.join(ADDRESS_FILE), "127.0.0.1:81").unwrap();
            drop(kept);
            assert!(data.join(ADDRESS_FILE).exists(), "only its own is removed");
        }
    }
}
