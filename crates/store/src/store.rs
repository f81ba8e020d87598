//! The store: opening, committing, closing. Reading and removing is in the submodules.

use codelab_protocol::SessionKind;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::audit_chain::AuditKey;
use crate::columns::Decode;
use crate::commit::{Commit, statements};
use crate::options::{DatabaseUrl, StoreOptions};
use crate::postgres::Postgres;
use crate::sealed::SealingKey;
use crate::sqlite::Sqlite;
use crate::statement::{Param, Stmt, WriteResult};
use crate::vitals::Vitals;
use crate::{Pulse, SessionKey, StoreError};

mod attachments;
mod audit;
mod authorizations;
mod chat;
mod clock;
mod counters;
mod life;
mod logins;
mod owners;
mod pages;
#[cfg(test)]
pub(crate) mod query_plan;
mod read;
mod rewinds;
mod searches;
mod servers;
mod users;

pub use audit::AuditSealed;
pub use chat::MAX_CHAT_HANDOVER_BYTES;
pub use owners::{OwnedRow, OwnerRow, Ownership, Search};
pub use read::MessageRange;
pub use rewinds::{HistorySize, RanCallRow};
use searches::Searches;
pub use servers::{NewServer, ServerRow};
pub use users::{
    AgentLocation, FoundSession, MAX_DEFINITIONS_OF_TOOL, OwnedSession, ProjectStore, UserStore,
};

/// A handle to the database. Clones share it.
#[derive(Clone)]
pub struct Store {
    backend: Arc<Backend>,
    counters: Arc<Counters>,
    audit_key: Option<AuditKey>,
    sealing_key: Option<SealingKey>,
    vitals: Arc<Vitals>,
    searches: Arc<Searches>,
    /// The server that writes. On a shared database every transaction proves that others have not
    /// ended it.
    writes_as: Arc<Mutex<Option<Arc<str>>>>,
}

enum Backend {
    Sqlite(Sqlite),
    Postgres(Postgres),
}

/// How well commits share transactions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoreStats {
    /// Writes that were stored and acknowledged.
    pub commits: u64,
    /// Transactions that stored them. Each waits once for the disk.
    pub transactions: u64,
}

#[derive(Default)]
pub(crate) struct Counters {
    commits: AtomicU64,
    transactions: AtomicU64,
}

impl Counters {
    pub fn count(&self, commits: usize) {
        self.commits.fetch_add(commits as u64, Ordering::Relaxed);
        self.transactions.fetch_add(1, Ordering::Relaxed);
    }
}

impl Store {
    /// Creates or upgrades the tables. An SQLite file is locked against other processes until the
    /// store is closed.
    pub async fn open(options: StoreOptions) -> Result<Self, StoreError> {
        let counters = Arc::new(Counters::default());
        let (audit_key, sealing_key) = (options.audit_key.clone(), options.sealing_key.clone());
        let searches = Searches::new(searches_at_once(&options));
        let backend = match options.url.clone() {
            DatabaseUrl::SqliteFile(path) => {
                let counters = Arc::clone(&counters);
                Backend::Sqlite(
                    blocking(move || Sqlite::open(Some(&path), &options, counters)).await?,
                )
            }
            DatabaseUrl::SqliteMemory => {
                Backend::Sqlite(Sqlite::open(None, &options, Arc::clone(&counters))?)
            }
            DatabaseUrl::Postgres(url) => {
                Backend::Postgres(Postgres::open(&url, &options, &counters).await?)
            }
        };
        Ok(Self {
            backend: Arc::new(backend),
            counters,
            audit_key,
            sealing_key,
            vitals: Arc::default(),
            searches,
            writes_as: Arc::default(),
        })
    }

    /// For reading only, also beside a running server. Every write fails with `ReadOnly`.
    pub async fn open_read_only(options: StoreOptions) -> Result<Self, StoreError> {
        let (audit_key, sealing_key) = (options.audit_key.clone(), options.sealing_key.clone());
        let searches = Searches::new(searches_at_once(&options));
        let backend = match options.url.clone() {
            DatabaseUrl::SqliteFile(path) => {
                Backend::Sqlite(blocking(move || Sqlite::open_read_only(&path, &options)).await?)
            }
            DatabaseUrl::SqliteMemory => {
                return Err(StoreError::Invalid(
                    "a database in memory has nothing to read".to_owned(),
                ));
            }
            DatabaseUrl::Postgres(url) => {
                Backend::Postgres(Postgres::open_read_only(&url, &options).await?)
            }
        };
        Ok(Self {
            backend: Arc::new(backend),
            counters: Arc::default(),
            audit_key,
            sealing_key,
            vitals: Arc::default(),
            searches,
            writes_as: Arc::default(),
        })
    }

    /// Returns when the commit is on the disk. Dropping the future does not stop a queued commit.
    ///
    /// After the first commit of a session has returned, its commits are stored in the order of the
    /// calls. After any error, `Conflict` and `Unknown` included, the session must be read again
    /// before the next commit.
    pub async fn commit(&self, commit: Commit) -> Result<(), StoreError> {
        let in_project = commit
            .create
            .as_ref()
            .is_some_and(|session| session.kind == SessionKind::Project);
        // Commits that lock projects go through one writer. Two writers could deadlock.
        let key = (!in_project).then_some(commit.key);
        match self.write(key, statements::build(commit)?).await {
            // A new session conflicts only if its project is missing.
            Err(StoreError::Conflict) if in_project => Err(StoreError::NotFound),
            written => written.map(drop),
        }
    }

    /// Whether writing has become impossible.
    pub fn has_lost_its_writer(&self) -> bool {
        match self.backend.as_ref() {
            Backend::Sqlite(sqlite) => sqlite.has_lost_its_writer(),
            Backend::Postgres(postgres) => postgres.has_lost_its_writer(),
        }
    }

    /// Whether the database answers and its writer is alive.
    pub async fn ping(&self) -> Result<(), StoreError> {
        if self.has_lost_its_writer() {
            return Err(StoreError::stopped());
        }
        self.read(
            "SELECT version FROM schema_migrations LIMIT 1",
            vec![],
            |row| row.int(),
        )
        .await
        .map(drop)
    }

    /// The state of reads, by the last one.
    pub fn reads(&self) -> Pulse {
        self.vitals.reads.pulse()
    }

    /// The state of writes, by the last one.
    pub fn writes(&self) -> Pulse {
        self.vitals.writes.pulse()
    }

    /// Free bytes on the disk of an embedded database. Blocks on the disk.
    pub fn free_bytes(&self) -> Option<u64> {
        let Backend::Sqlite(sqlite) = self.backend.as_ref() else {
            return None;
        };
        crate::sqlite::erase::free_bytes(sqlite.path()?)
    }

    /// How long commits have been waiting for the file of an embedded database to be rewritten
    /// after deletions.
    pub fn rewrites_for(&self) -> Option<std::time::Duration> {
        match self.backend.as_ref() {
            Backend::Sqlite(sqlite) => sqlite.rewrites_for(),
            Backend::Postgres(_) => None,
        }
    }

    /// Commits what is queued, then closes the database. Later calls fail with `Unavailable`.
    pub async fn close(&self) {
        match self.backend.as_ref() {
            Backend::Sqlite(sqlite) => sqlite.close().await,
            Backend::Postgres(postgres) => postgres.close().await,
        }
    }

    /// Whether a commit with a refused first statement costs the other commits of its transaction
    /// nothing. On PostgreSQL all statements were already sent, so the whole batch is run again.
    pub fn refuses_one_alone(&self) -> bool {
        matches!(self.backend.as_ref(), Backend::Sqlite(_))
    }

    pub fn stats(&self) -> StoreStats {
        StoreStats {
            commits: self.counters.commits.load(Ordering::Relaxed),
            transactions: self.counters.transactions.load(Ordering::Relaxed),
        }
    }

    /// SQLite only: a consistent copy of everything acknowledged so far. Refuses to overwrite.
    pub async fn backup(&self, target: impl Into<PathBuf>) -> Result<(), StoreError> {
        match self.backend.as_ref() {
            Backend::Sqlite(sqlite) => sqlite.backup(target.into()).await,
            Backend::Postgres(_) => Err(StoreError::Invalid(
                "a PostgreSQL database is backed up with its own tools".to_owned(),
            )),
        }
    }

    /// Writes of one session are stored in the order of the calls.
    async fn write(
        &self,
        key: Option<SessionKey>,
        stmts: Vec<Stmt>,
    ) -> Result<WriteResult, StoreError> {
        let written = match self.backend.as_ref() {
            Backend::Sqlite(sqlite) => sqlite.write(stmts).await,
            Backend::Postgres(postgres) => postgres.write(key, stmts, self.writer_id()).await,
        };
        self.vitals.writes.note(&written);
        written
    }

    /// A write about servers and their leases, which also a server may make that others have ended.
    /// On PostgreSQL it has a connection of its own, so it tells nothing about other writes.
    async fn write_as_anyone(&self, stmts: Vec<Stmt>) -> Result<WriteResult, StoreError> {
        match self.backend.as_ref() {
            Backend::Sqlite(_) => self.write(None, stmts).await,
            Backend::Postgres(postgres) => postgres.write_lease(stmts).await,
        }
    }

    /// From now on, everything that is written to a shared database fails with `Conflict` once
    /// others have ended this server.
    pub fn write_as(&self, server_id: &Arc<str>) {
        let mut writes_as = self
            .writes_as
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        *writes_as = Some(Arc::clone(server_id));
    }

    fn writer_id(&self) -> Option<Arc<str>> {
        let writes_as = self
            .writes_as
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        writes_as.clone()
    }

    /// Whether several servers can use the database.
    pub fn is_shared(&self) -> bool {
        matches!(self.backend.as_ref(), Backend::Postgres(_))
    }

    /// A write that deletes what people wrote. On SQLite no file holds it any more within a minute.
    /// On PostgreSQL it remains until the next vacuum, and in its log and backups, which CodeLab
    /// does not control.
    async fn erase(&self, key: Option<SessionKey>, stmts: Vec<Stmt>) -> Result<(), StoreError> {
        let written = match self.backend.as_ref() {
            Backend::Sqlite(sqlite) => sqlite.erase(stmts).await,
            Backend::Postgres(postgres) => {
                postgres.write(key, stmts, self.writer_id()).await.map(drop)
            }
        };
        self.vitals.writes.note(&written);
        written
    }

    fn sealing_key(&self) -> Option<&SealingKey> {
        self.sealing_key.as_ref()
    }

    async fn read<T: Send + 'static>(
        &self,
        sql: &'static str,
        params: Vec<Param>,
        decode: Decode<T>,
    ) -> Result<Vec<T>, StoreError> {
        let found = match self.backend.as_ref() {
            Backend::Sqlite(sqlite) => sqlite.read(sql, params, decode).await,
            Backend::Postgres(postgres) => postgres.read(sql, params, decode).await,
        };
        self.vitals.reads.note(&found);
        found
    }

    async fn read_one<T: Send + 'static>(
        &self,
        sql: &'static str,
        params: Vec<Param>,
        decode: Decode<T>,
    ) -> Result<Option<T>, StoreError> {
        Ok(self.read(sql, params, decode).await?.pop())
    }
}

/// SQLite keeps one of its readers for all other reads. On PostgreSQL searches have a connection of
/// their own.
fn searches_at_once(options: &StoreOptions) -> usize {
    match options.url {
        DatabaseUrl::Postgres(_) => 1,
        DatabaseUrl::SqliteFile(_) | DatabaseUrl::SqliteMemory => {
            options.readers.saturating_sub(1).max(1)
        }
    }
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, StoreError> + Send + 'static,
) -> Result<T, StoreError> {
    tokio::task::spawn_blocking(work)
        .await
        .unwrap_or_else(|_| Err(StoreError::stopped()))
}
