//! The master key. All keys that protect data in the database are derived from it. It comes from the
//! environment, or is generated once and kept in the data folder. It is in no database and no backup.

use std::fmt;
use std::fs::OpenOptions;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use codelab_llm::Secret;
use codelab_store::audit_chain::AuditKey;
use codelab_store::{AuditSealed, SealingKey, Store};
use hkdf::Hkdf;
use sha2::{Digest as _, Sha256};

use crate::config::Settings;
use crate::secrets::{Secrets, SecretsError, kept, kept_or_made};
use crate::serve::StartError;

/// Marks that the audit log was sealed. Write access to the database is not enough to remove it.
const SEALED_FILE: &str = "audit-sealed";
const AUDIT: &str = "codelab audit log, version 1";
const SEALING: &str = "codelab secrets of users, version 1";
const FINGERPRINT: &str = "codelab fingerprint of secrets, version 1";

pub struct MasterKey(Secret);

impl MasterKey {
    /// Where it is kept if it was not given.
    pub fn file(data_dir: &Path) -> PathBuf {
        data_dir.join("master.key")
    }

    pub fn load_or_make(settings: &Settings) -> Result<Self, SecretsError> {
        if let Some(key) = Self::given(settings) {
            return Ok(key);
        }
        kept_or_made(&settings.data_dir, &Self::file(&settings.data_dir)).map(Self)
    }

    /// None where there is none yet.
    pub fn find(settings: &Settings) -> Result<Option<Self>, SecretsError> {
        match Self::given(settings) {
            Some(key) => Ok(Some(key)),
            None => Ok(kept(&Self::file(&settings.data_dir))?.map(Self)),
        }
    }

    fn given(settings: &Settings) -> Option<Self> {
        settings.master_key.clone().map(Self)
    }

    /// Keys the audit log.
    pub fn audit_key(&self) -> AuditKey {
        AuditKey::new(&self.derive(AUDIT))
    }

    /// Encrypts users' secrets in the database.
    pub fn sealing_key(&self) -> SealingKey {
        SealingKey::new(&self.derive(SEALING))
    }

    /// Tells whether two servers have the same secrets, and nothing else about them.
    pub fn fingerprint(&self, secrets: &Secrets) -> String {
        let mut hash = Sha256::new_with_prefix(self.derive(FINGERPRINT));
        for secret in [&secrets.internal_api_key, &secrets.jwt_secret] {
            let bytes = secret.expose().as_bytes();
            hash.update((bytes.len() as u64).to_be_bytes());
            hash.update(bytes);
        }
        hex(&hash.finalize())
    }

    /// A key for one purpose; keys for other purposes tell nothing about it.
    fn derive(&self, purpose: &str) -> [u8; 32] {
        let mut key = [0; 32];
        let derived = Hkdf::<Sha256>::new(None, self.0.expose().as_bytes())
            .expand(purpose.as_bytes(), &mut key);
        derived.expect("HKDF gives 32 bytes");
        key
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

impl fmt::Debug for MasterKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MasterKey")
    }
}

/// The file that says that the audit log was sealed. To be removed with a database from before
/// there was a key.
pub fn audit_sealed_file(data_dir: &Path) -> PathBuf {
    data_dir.join(SEALED_FILE)
}

/// Seals the decisions from before there was a key, at the first start with one.
pub(crate) async fn seal_audit(
    store: &Store,
    data_dir: &Path,
    embedded: bool,
) -> Result<(), StartError> {
    let (file, now) = (audit_sealed_file(data_dir), codelab_runtime::now());
    match store.seal_audit(file.exists(), now).await? {
        AuditSealed::Before => {}
        AuditSealed::Now { chains: 0 } => {}
        AuditSealed::Now { chains } => {
            tracing::info!(
                chains,
                "audit log entries from before the master key are now sealed with it"
            );
        }
        AuditSealed::WithAnotherKey => {
            // Two servers with two keys would break each other's audit chains.
            let servers = store.servers(None).await?;
            if !embedded && servers.iter().any(|server| !server.lapsed) {
                return Err(StartError::OtherMasterKey);
            }
            tracing::warn!(
                "the audit log was sealed with another master key and cannot be verified with this one"
            );
        }
        AuditSealed::NotAgain => return Err(StartError::Unsealed(file)),
    }
    let made = OpenOptions::new()
        .create(true)
        .append(true)
        .mode(0o600)
        .open(&file);
    made.map(drop).map_err(|error| StartError::Io {
        what: file.display().to_string(),
        error,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_purpose_has_its_own_key_and_nothing_is_printed() {
        let key = MasterKey(Secret::new("0123456789abcdef0123456789abcdef"));
        assert_eq!(key.derive("a"), key.derive("a"));
        assert_ne!(key.derive("a"), key.derive("b"));
        assert_ne!(
            key.derive("a"),
            MasterKey(Secret::new("another")).derive("a")
        );
        assert_eq!(format!("{key:?}"), "MasterKey");
    }
}
