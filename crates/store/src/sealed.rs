//! Secrets of users in the database: encrypted, and bound to the place where they are stored.

use std::collections::BTreeMap;
use std::fmt;

use ring::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::rand::{SecureRandom as _, SystemRandom};

use crate::StoreError;

/// The key of users' secrets. It is never stored in the database, and debug output does not show
/// it.
#[derive(Clone)]
pub struct SealingKey(LessSafeKey);

impl SealingKey {
    pub const BYTES: usize = 32;

    pub fn new(bytes: &[u8; Self::BYTES]) -> Self {
        let key = UnboundKey::new(&AES_256_GCM, bytes).expect("AES-256 takes 32 bytes");
        Self(LessSafeKey::new(key))
    }

    /// AES-256-GCM. Every value has a random nonce, which stands before it.
    fn seal(&self, place: &SealedPlace<'_>, secret: &str) -> Result<Vec<u8>, StoreError> {
        let failed = |_| StoreError::Io("a secret could not be encrypted".to_owned());
        let mut nonce = [0; NONCE_LEN];
        SystemRandom::new().fill(&mut nonce).map_err(failed)?;
        let mut sealed = secret.as_bytes().to_vec();
        let (aad, once) = (place.aad(), Nonce::assume_unique_for_key(nonce));
        self.0
            .seal_in_place_append_tag(once, aad, &mut sealed)
            .map_err(failed)?;
        Ok([nonce.as_slice(), &sealed].concat())
    }

    fn open(&self, place: &SealedPlace<'_>, stored: &[u8]) -> Option<String> {
        let (nonce, sealed) = stored.split_at_checked(NONCE_LEN)?;
        let nonce = Nonce::try_assume_unique_for_key(nonce).ok()?;
        let mut sealed = sealed.to_vec();
        let secret = self.0.open_in_place(nonce, place.aad(), &mut sealed).ok()?;
        String::from_utf8(secret.to_vec()).ok()
    }
}

impl fmt::Debug for SealingKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SealingKey")
    }
}

/// The column and the row of a secret. A secret that is moved elsewhere cannot be read there.
pub(crate) struct SealedPlace<'a> {
    pub column: &'static str,
    pub row: &'a [&'a str],
}

impl SealedPlace<'_> {
    fn aad(&self) -> Aad<Vec<u8>> {
        let mut bytes = Vec::new();
        for part in std::iter::once(&self.column).chain(self.row) {
            bytes.extend((part.len() as u64).to_be_bytes());
            bytes.extend(part.as_bytes());
        }
        Aad::from(bytes)
    }
}

/// Encrypts with the store's key.
pub(crate) fn seal(
    key: Option<&SealingKey>,
    place: &SealedPlace<'_>,
    secret: &str,
) -> Result<Vec<u8>, StoreError> {
    let key = key.ok_or_else(|| {
        StoreError::Invalid("secrets cannot be stored without the master key".to_owned())
    })?;
    key.seal(place, secret)
}

pub(crate) fn open(
    key: Option<&SealingKey>,
    place: &SealedPlace<'_>,
    stored: Option<&[u8]>,
) -> Opened<SecretText> {
    match stored {
        None => Opened::Nothing,
        Some(stored) => key
            .and_then(|key| key.open(place, stored))
            .map_or(Opened::Unreadable, |text| Opened::Value(SecretText(text))),
    }
}

/// What was found where a secret may be stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Opened<T> {
    Nothing,
    Value(T),
    /// It was encrypted with another master key, or changed since.
    Unreadable,
}

impl<T> Opened<T> {
    pub fn value(self) -> Option<T> {
        match self {
            Self::Value(value) => Some(value),
            Self::Nothing | Self::Unreadable => None,
        }
    }
}

/// A text that nothing prints.
#[derive(Clone, PartialEq, Eq)]
pub struct SecretText(String);

impl SecretText {
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for SecretText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretText")
    }
}

/// Headers by name. Debug output shows the names only.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct SecretHeaders(BTreeMap<String, String>);

impl SecretHeaders {
    pub fn new(headers: BTreeMap<String, String>) -> Self {
        Self(headers)
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    pub fn expose(&self) -> &BTreeMap<String, String> {
        &self.0
    }
}

impl fmt::Debug for SecretHeaders {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLACE: SealedPlace<'static> = SealedPlace {
        column: "mcp_servers.headers",
        row: &["1", "github"],
    };

    #[test]
    fn a_secret_is_read_only_with_its_key_and_at_its_place() {
        let (one, other) = (SealingKey::new(&[1; 32]), SealingKey::new(&[2; 32]));
        let sealed = one.seal(&PLACE, "hunter2").unwrap();
        assert_eq!(one.open(&PLACE, &sealed).as_deref(), Some("hunter2"));
        assert_ne!(one.seal(&PLACE, "hunter2").unwrap(), sealed);
        assert!(!String::from_utf8_lossy(&sealed).contains("hunter2"));
        assert_eq!(other.open(&PLACE, &sealed), None);
        for place in [
            SealedPlace {
                column: "mcp_servers.tokens",
                ..PLACE
            },
            SealedPlace {
                row: &["2", "github"],
                ..PLACE
            },
            SealedPlace {
                row: &["1g", "ithub"],
                ..PLACE
            },
        ] {
            assert_eq!(one.open(&place, &sealed), None);
        }
        for position in 0..sealed.len() {
            let mut changed = sealed.clone();
            changed[position] ^= 1;
            assert_eq!(one.open(&PLACE, &changed), None, "{position}");
            assert_eq!(one.open(&PLACE, &sealed[..position]), None, "{position}");
        }
    }

    #[test]
    fn nothing_is_printed() {
        let headers = SecretHeaders::new([("X-Key".to_owned(), "hunter2".to_owned())].into());
        let shown = format!(
            "{:?} {:?} {headers:?}",
            SealingKey::new(&[1; 32]),
            Opened::Value(SecretText::new("hunter2"))
        );
        assert_eq!(shown, r#"SealingKey Value(SecretText) {"X-Key"}"#);
    }
}
