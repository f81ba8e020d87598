//! Login tickets. The server or the command line makes one; it can be used once and starts a web
//! session.
//!
//! A ticket is stored in the database. With an embedded database, a second process stores it as a
//! file in the data folder instead. Only its hash is stored.

use std::fs;
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use codelab_protocol::{Digest, Timestamp, UserId};
use codelab_runtime::random_hex;
use codelab_store::{Store, StoreError};
use serde::{Deserialize, Serialize};

use super::cookie::{LIFETIME_SECONDS, WebSession};

const TICKET_BYTES: usize = 32;
const FOLDER: &str = "login-tickets";
/// How often expired tickets and sessions are removed. They stop working when they expire.
pub(crate) const LOGIN_HOUSEKEEPING: Duration = Duration::from_secs(600);

/// What opens a session once: the secret part of a login link.
pub struct LoginTicket(String);

/// What a ticket's file says; its name is the ticket's hash.
#[derive(Serialize, Deserialize)]
struct TicketFile {
    user_id: UserId,
    expires_at: Timestamp,
}

impl LoginTicket {
    pub const LIFETIME_SECONDS: u64 = 600;

    pub(crate) fn new() -> Self {
        Self(random_hex(TICKET_BYTES))
    }

    /// A text that cannot be a ticket is not looked for.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let is_hex = text.len() == TICKET_BYTES * 2 && text.bytes().all(|b| b.is_ascii_hexdigit());
        is_hex.then(|| Self(text.to_owned()))
    }

    /// Leaves a new ticket for a server that holds the embedded database, running or not.
    pub fn leave_in(
        data_dir: &Path,
        user_id: UserId,
        expires_at: Timestamp,
    ) -> std::io::Result<Self> {
        let folder = data_dir.join(FOLDER);
        fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&folder)?;
        let ticket = Self::new();
        let draft = folder.join(format!("{}.new", ticket.hash()));
        let mut file = fs::OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&draft)?;
        file.write_all(
            serde_json::to_string(&TicketFile {
                user_id,
                expires_at,
            })?
            .as_bytes(),
        )?;
        // The server must never see half of it.
        fs::rename(&draft, folder.join(ticket.hash().as_str()))?;
        Ok(ticket)
    }

    /// Keeps a new ticket in a database that several processes may write.
    pub async fn keep_in(
        store: &Store,
        user_id: UserId,
        expires_at: Timestamp,
    ) -> Result<Self, StoreError> {
        let ticket = Self::new();
        store
            .add_login_ticket(&ticket.hash(), user_id, expires_at)
            .await?;
        Ok(ticket)
    }

    /// The address for a browser. The part after `#` is never sent to a server or written to its
    /// log.
    pub fn link(&self, base_url: &str) -> String {
        format!("{}/#login={}", base_url.trim_end_matches('/'), self.0)
    }

    fn hash(&self) -> Digest {
        Digest::of_bytes(self.0.as_bytes())
    }
}

/// Takes tickets, opens and ends web sessions.
#[derive(Clone)]
pub(crate) struct Logins {
    store: Store,
    folder: PathBuf,
}

impl Logins {
    pub fn new(store: Store, data_dir: &Path) -> Self {
        Self {
            store,
            folder: data_dir.join(FOLDER),
        }
    }

    /// `None` for a ticket that is unknown, used or too old.
    pub async fn log_in(
        &self,
        ticket: &LoginTicket,
        now: Timestamp,
    ) -> Result<Option<(UserId, WebSession, Timestamp)>, StoreError> {
        let hash = ticket.hash();
        let user = match self.store.take_login_ticket(&hash, now).await? {
            Some(user) => Some(user),
            None => self.take_file(&hash, now),
        };
        let Some(user) = user else { return Ok(None) };
        let session = WebSession::new();
        let expires_at = now.plus_seconds(LIFETIME_SECONDS);
        self.store
            .add_web_session(&session.hash(), user, now, expires_at)
            .await?;
        Ok(Some((user, session, expires_at)))
    }

    /// If two requests use the same file, the one that removes it wins.
    fn take_file(&self, hash: &Digest, now: Timestamp) -> Option<UserId> {
        let path = self.folder.join(hash.as_str());
        let ticket = read_file(&path)?;
        fs::remove_file(&path).ok()?;
        (ticket.expires_at > now).then_some(ticket.user_id)
    }

    pub async fn log_out(&self, session: &WebSession) -> Result<(), StoreError> {
        self.store.end_web_session(&session.hash()).await
    }

    pub async fn remove_expired(&self, now: Timestamp) {
        if let Err(error) = self.store.remove_expired_logins(now).await {
            tracing::warn!(%error, "removing expired logins failed");
        }
        for entry in fs::read_dir(&self.folder).into_iter().flatten().flatten() {
            let path = entry.path();
            if read_file(&path).is_some_and(|ticket| ticket.expires_at <= now) {
                let _ = fs::remove_file(&path);
            }
        }
    }
}

fn read_file(path: &Path) -> Option<TicketFile> {
    serde_json::from_str(&fs::read_to_string(path).ok()?).ok()
}
