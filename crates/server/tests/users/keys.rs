//! Key pairs for tokens that are signed elsewhere, made anew for every run.

use std::path::PathBuf;
use std::sync::LazyLock;

use jsonwebtoken::{Algorithm, EncodingKey, Header};
use p256::elliptic_curve::rand_core::OsRng;
use p256::pkcs8::{EncodePrivateKey, EncodePublicKey, LineEnding};
use serde_json::Value;
use tempfile::TempDir;

use crate::kit::claims;

/// Enough for a signature that nobody relies on; longer ones take long to find.
const RSA_BITS: usize = 2048;

pub struct KeyPair {
    algorithm: Algorithm,
    signing: EncodingKey,
    pub public_pem: String,
    folder: TempDir,
}

pub static RSA: LazyLock<KeyPair> = LazyLock::new(|| {
    let key = rsa::RsaPrivateKey::new(&mut OsRng, RSA_BITS).unwrap();
    let signing =
        EncodingKey::from_rsa_pem(key.to_pkcs8_pem(LineEnding::LF).unwrap().as_bytes()).unwrap();
    KeyPair::new(
        Algorithm::RS256,
        signing,
        key.to_public_key()
            .to_public_key_pem(LineEnding::LF)
            .unwrap(),
    )
});

pub static EC: LazyLock<KeyPair> = LazyLock::new(|| {
    let key = p256::SecretKey::random(&mut OsRng);
    let signing =
        EncodingKey::from_ec_pem(key.to_pkcs8_pem(LineEnding::LF).unwrap().as_bytes()).unwrap();
    KeyPair::new(
        Algorithm::ES256,
        signing,
        key.public_key().to_public_key_pem(LineEnding::LF).unwrap(),
    )
});

impl KeyPair {
    fn new(algorithm: Algorithm, signing: EncodingKey, public_pem: String) -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("public.pem"), &public_pem).unwrap();
        Self {
            algorithm,
            signing,
            public_pem,
            folder,
        }
    }

    pub fn sign(&self, claims: &Value) -> String {
        jsonwebtoken::encode(&Header::new(self.algorithm), claims, &self.signing).unwrap()
    }

    /// Where the public key is.
    pub fn file(&self) -> PathBuf {
        self.folder.path().join("public.pem")
    }

    /// A token signed with the public key's own bytes as if they were a shared secret.
    pub fn swapped(&self) -> String {
        let secret = EncodingKey::from_secret(self.public_pem.as_bytes());
        jsonwebtoken::encode(&Header::new(Algorithm::HS256), &claims(1), &secret).unwrap()
    }
}
