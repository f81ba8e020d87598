//! The server's own secrets: from the environment, else made once and kept in the data folder.

use std::fs;
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use codelab_llm::Secret;
use codelab_runtime::random_hex;

use crate::config::{JwtAlgorithm, Settings};

pub struct Secrets {
    pub internal_api_key: Secret,
    pub jwt_secret: Secret,
    /// Where the generated key is, if it was not given.
    pub internal_key_file: Option<PathBuf>,
}

#[derive(Debug, thiserror::Error)]
pub enum SecretsError {
    #[error("{}: {why}", path.display())]
    File { path: PathBuf, why: String },
    #[error("addr: {addr} can be reached from other machines, so INTERNAL_API_KEY and JWT_SECRET must both be set")]
    Exposed { addr: std::net::SocketAddr },
}

const SECRET_BYTES: usize = 32;

impl Secrets {
    /// Refuses to be reachable from outside with secrets that nobody chose.
    pub fn load(settings: &Settings) -> Result<Self, SecretsError> {
        let tokens_are_safe = settings.jwt_secret.is_some() || settings.jwt.algorithm != JwtAlgorithm::Hs256;
        let given = settings.internal_api_key.is_some() && tokens_are_safe;
        if settings.is_exposed() && !given {
            return Err(SecretsError::Exposed { addr: settings.addr });
        }
        let folder = settings.data_dir.join("secrets");
        let key_file = folder.join("internal_api_key");
        let kept = |given: &Option<Secret>, path: &Path| match given {
            Some(secret) => Ok(secret.clone()),
            None => kept_or_made(&folder, path),
        };
        Ok(Self {
            internal_api_key: kept(&settings.internal_api_key, &key_file)?,
            jwt_secret: kept(&settings.jwt_secret, &folder.join("jwt_secret"))?,
            internal_key_file: settings.internal_api_key.is_none().then_some(key_file),
        })
    }
}

/// The secret in a file; none where there is no file.
pub(crate) fn kept(path: &Path) -> Result<Option<Secret>, SecretsError> {
    let failed = |why: String| Err(SecretsError::File { path: path.to_owned(), why });
    match fs::read_to_string(path) {
        Ok(text) if text.trim().is_empty() => failed("the file is empty".to_owned()),
        Ok(text) => Ok(Some(Secret::new(text.trim()))),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => failed(error.to_string()),
    }
}

/// The secret in a file, which is made where there is none.
pub(crate) fn kept_or_made(folder: &Path, path: &Path) -> Result<Secret, SecretsError> {
    let failed = |error: std::io::Error| SecretsError::File { path: path.to_owned(), why: error.to_string() };
    if let Some(secret) = kept(path)? {
        return Ok(secret);
    }
    fs::DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(failed)?;
    let secret = random_hex(SECRET_BYTES);
    // Written aside and renamed, so that a crash never leaves an empty secret.
    let draft = path.with_extension("new");
    let _ = fs::remove_file(&draft);
    let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&draft).map_err(failed)?;
    file.write_all(secret.as_bytes()).and_then(|()| file.sync_all()).map_err(failed)?;
    fs::rename(&draft, path).map_err(failed)?;
    Ok(Secret::new(secret))
}
