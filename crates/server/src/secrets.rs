//! The server's own secrets: from the environment, else made once and kept in the data folder.

use std::fs;
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use codelab_llm::Secret;
use codelab_runtime::random_hex;

use crate::config::{JwtAlgorithm, Settings};
use crate::serve::living_url;

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
    #[error(
        "addr: {addr} can be reached from other machines, so INTERNAL_API_KEY and JWT_SECRET must both be set"
    )]
    Exposed { addr: std::net::SocketAddr },
    #[error(
        "cluster.address: the servers of one installation share their secrets, so INTERNAL_API_KEY, JWT_SECRET and CODELAB_MASTER_KEY must all be set"
    )]
    NotShared,
    #[error(
        "{name}: has {bytes} bytes, and {addr} can be reached from other machines: it needs at least {SECRET_BYTES}"
    )]
    Short {
        name: &'static str,
        bytes: usize,
        addr: std::net::SocketAddr,
    },
    #[error(
        "{name}: the server that runs with this data folder was given it as a setting; set the same {name} for this command"
    )]
    NotInFolder { name: &'static str },
}

/// Length of generated secrets, and minimum length of configured ones.
const SECRET_BYTES: usize = 32;
const FOLDER: &str = "secrets";
const INTERNAL_KEY_FILE: &str = "internal_api_key";
const JWT_SECRET_FILE: &str = "jwt_secret";

impl Secrets {
    /// Refuses to listen on a public address with generated secrets, or with secrets that can be
    /// guessed. On the loopback address a short secret only gets a warning; see
    /// [`Self::warn_of_short`].
    pub fn check(settings: &Settings) -> Result<(), SecretsError> {
        let tokens_are_safe =
            settings.jwt_secret.is_some() || settings.jwt.algorithm != JwtAlgorithm::Hs256;
        let are_shared =
            tokens_are_safe && settings.internal_api_key.is_some() && settings.master_key.is_some();
        if settings.cluster_address.is_some() && !are_shared {
            return Err(SecretsError::NotShared);
        }
        if !settings.is_exposed() {
            return Ok(());
        }
        let addr = settings.addr;
        if settings.internal_api_key.is_none() || !tokens_are_safe {
            return Err(SecretsError::Exposed { addr });
        }
        match Self::short(settings).first() {
            Some(&(name, bytes)) => Err(SecretsError::Short { name, bytes, addr }),
            None => Ok(()),
        }
    }

    /// Says which secrets are too short for a server that others can reach.
    pub(crate) fn warn_of_short(settings: &Settings) {
        for (name, bytes) in Self::short(settings) {
            tracing::warn!(
                name,
                bytes,
                "a secret is short and can be guessed, use at least {SECRET_BYTES} bytes"
            );
        }
    }

    /// The given secrets that are in use and too short, with their lengths.
    pub fn short(settings: &Settings) -> Vec<(&'static str, usize)> {
        let jwt = settings
            .jwt_secret
            .as_ref()
            .filter(|_| settings.jwt.algorithm == JwtAlgorithm::Hs256);
        let given = [
            ("INTERNAL_API_KEY", settings.internal_api_key.as_ref()),
            ("JWT_SECRET", jwt),
            ("CODELAB_MASTER_KEY", settings.master_key.as_ref()),
        ];
        let lengths = given
            .into_iter()
            .filter_map(|(name, secret)| Some((name, secret?.expose().len())));
        lengths.filter(|(_, bytes)| *bytes < SECRET_BYTES).collect()
    }

    /// The internal key as a server would have it; none where none was given or made yet.
    pub fn find_internal_key(settings: &Settings) -> Result<Option<Secret>, SecretsError> {
        match &settings.internal_api_key {
            Some(key) => Ok(Some(key.clone())),
            None => kept(&settings.data_dir.join(FOLDER).join(INTERNAL_KEY_FILE)),
        }
    }

    /// What tokens are signed with, for a command beside a server.
    pub fn jwt_secret_beside(settings: &Settings) -> Result<Secret, SecretsError> {
        let kept = beside(
            settings,
            "JWT_SECRET",
            &settings.jwt_secret,
            JWT_SECRET_FILE,
        )?;
        kept.map_or_else(|| Ok(Self::load(settings)?.jwt_secret), Ok)
    }

    /// The key of operators, for a command beside a server.
    pub fn internal_api_key_beside(settings: &Settings) -> Result<Secret, SecretsError> {
        let given = &settings.internal_api_key;
        let kept = beside(settings, "INTERNAL_API_KEY", given, INTERNAL_KEY_FILE)?;
        kept.map_or_else(|| Ok(Self::load(settings)?.internal_api_key), Ok)
    }

    pub fn load(settings: &Settings) -> Result<Self, SecretsError> {
        Self::check(settings)?;
        let folder = settings.data_dir.join(FOLDER);
        let key_file = folder.join(INTERNAL_KEY_FILE);
        let kept = |given: &Option<Secret>, path: &Path| match given {
            Some(secret) => Ok(secret.clone()),
            None => kept_or_made(&folder, path),
        };
        Ok(Self {
            internal_api_key: kept(&settings.internal_api_key, &key_file)?,
            jwt_secret: kept(&settings.jwt_secret, &folder.join(JWT_SECRET_FILE))?,
            internal_key_file: settings.internal_api_key.is_none().then_some(key_file),
        })
    }
}

/// A secret that is given or in the folder. The secrets of a server that runs are not made up: what is
/// not in its folder came from its settings.
fn beside(
    settings: &Settings,
    name: &'static str,
    given: &Option<Secret>,
    file: &str,
) -> Result<Option<Secret>, SecretsError> {
    let found = match given {
        Some(secret) => Some(secret.clone()),
        None => kept(&settings.data_dir.join(FOLDER).join(file))?,
    };
    match found {
        None if living_url(&settings.data_dir).is_some() => Err(SecretsError::NotInFolder { name }),
        found => Ok(found),
    }
}

/// The secret in a file; none where there is no file.
pub(crate) fn kept(path: &Path) -> Result<Option<Secret>, SecretsError> {
    let failed = |why: String| {
        Err(SecretsError::File {
            path: path.to_owned(),
            why,
        })
    };
    match fs::read_to_string(path) {
        Ok(text) if text.trim().is_empty() => failed("the file is empty".to_owned()),
        Ok(text) => Ok(Some(Secret::new(text.trim()))),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => failed(error.to_string()),
    }
}

/// The secret in a file, which is made where there is none.
pub(crate) fn kept_or_made(folder: &Path, path: &Path) -> Result<Secret, SecretsError> {
    let failed = |error: std::io::Error| SecretsError::File {
        path: path.to_owned(),
        why: error.to_string(),
    };
    if let Some(secret) = kept(path)? {
        return Ok(secret);
    }
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(folder)
        .map_err(failed)?;
    let secret = random_hex(SECRET_BYTES);
    // Written aside and renamed, so that a crash never leaves an empty secret.
    let draft = path.with_extension("new");
    let _ = fs::remove_file(&draft);
    let mut file = fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&draft)
        .map_err(failed)?;
    file.write_all(secret.as_bytes())
        .and_then(|()| file.sync_all())
        .map_err(failed)?;
    fs::rename(&draft, path).map_err(failed)?;
    Ok(Secret::new(secret))
}
