//! The database: reached, its tables' version known, its key right. Nothing in it is changed.

use std::sync::Arc;

use codelab_server::MasterKey;
use codelab_store::{
    DatabaseAccess, DatabaseUrl, Inspection, SchemaState, StoreError, StoreOptions, inspect,
};

use super::Subject;
use super::clock::ClockComparison;
use super::report::DoctorFinding;

const CHECK: &str = "database";

pub struct DatabaseCheck {
    pub finding: DoctorFinding,
    pub clock: Option<ClockComparison>,
    /// Whether the master key is the one that the audit log was sealed with, where both are there.
    pub audit_key_fits: Option<bool>,
}

impl DatabaseCheck {
    pub fn failed(finding: DoctorFinding) -> Self {
        Self {
            finding,
            clock: None,
            audit_key_fits: None,
        }
    }
}

pub async fn check(subject: Arc<Subject>) -> DatabaseCheck {
    let settings = &subject.settings;
    let limit_ms = u64::try_from(subject.limit.as_millis()).unwrap_or(u64::MAX);
    let options = StoreOptions {
        // A key that cannot be read has a line of its own.
        audit_key: MasterKey::find(settings)
            .ok()
            .flatten()
            .map(|key| key.audit_key()),
        connect_timeout_ms: limit_ms,
        query_timeout_ms: limit_ms,
        busy_timeout_ms: limit_ms.min(StoreOptions::new(settings.database.clone()).busy_timeout_ms),
        ..StoreOptions::new(settings.database.clone())
    };
    match inspect(options).await {
        Err(error) => DatabaseCheck::failed(failed(&subject, &error)),
        Ok(found) => {
            let clock = found.clock.map(|clock| ClockComparison {
                whose: "PostgreSQL",
                ahead_ms: clock
                    .ours
                    .as_millis()
                    .saturating_sub(clock.theirs.as_millis()),
            });
            DatabaseCheck {
                finding: judge(&subject, &found),
                clock,
                audit_key_fits: found.audit_key_fits,
            }
        }
    }
}

fn judge(subject: &Subject, found: &Inspection) -> DoctorFinding {
    let location = format!("{} at {}", found.engine, location(subject));
    match (found.access, found.schema) {
        (DatabaseAccess::ReadOnly, _) => DoctorFinding::problem(
            CHECK,
            format!("{location} is a standby, which takes no changes."),
            format!("Name the primary server in {}.", setting(subject)),
        ),
        (DatabaseAccess::NoCreate, SchemaState::Missing | SchemaState::Old { .. }) => {
            DoctorFinding::problem(
                CHECK,
                format!("{location}: its user may not make tables."),
                "As the database's owner type `GRANT CREATE ON SCHEMA public TO …`.",
            )
        }
        (_, SchemaState::Missing) => DoctorFinding::ok(
            CHECK,
            format!("{location} has no tables of CodeLab yet; the first start makes them."),
        ),
        (_, SchemaState::Current { version }) => {
            DoctorFinding::ok(CHECK, format!("{location}, schema version {version}."))
        }
        (_, SchemaState::Old { found, known }) => DoctorFinding::warning(
            CHECK,
            format!("{location} has schema version {found}, and this program needs {known}."),
            format!(
                "Start the server once: it upgrades the database. {} first.",
                backup(subject)
            ),
        ),
        (_, SchemaState::TooNew { found, known }) => DoctorFinding::problem(
            CHECK,
            format!("{location} has schema version {found}, and this program knows only {known}."),
            "Install the newer CodeLab that made it, or name another database.",
        ),
    }
}

fn failed(subject: &Subject, error: &StoreError) -> DoctorFinding {
    let why = match error {
        StoreError::Unavailable(why) => why.clone(),
        error => error.to_string(),
    };
    let found = format!("{} cannot be used: {why}.", location(subject));
    let setting = setting(subject);
    let advice = match (&subject.settings.database, error) {
        (DatabaseUrl::Postgres(_), StoreError::Unavailable(why))
            if why.contains("refused the user") =>
        {
            format!("Correct the user and the password in {setting}.")
        }
        (DatabaseUrl::Postgres(_), StoreError::Unavailable(why))
            if why.contains("no database of this name") =>
        {
            format!("Make it with `createdb`, or correct its name in {setting}.")
        }
        (DatabaseUrl::Postgres(_), StoreError::Unavailable(_)) => {
            format!("Start PostgreSQL, or correct the host and the port in {setting}.")
        }
        (_, StoreError::Corrupt(_)) => {
            "Replace it with a backup: `codelab restore FILE`.".to_owned()
        }
        (DatabaseUrl::SqliteFile(path), _) => {
            format!(
                "Check that {} can be read and is a database of CodeLab.",
                path.display()
            )
        }
        _ => format!("Check {setting}."),
    };
    DoctorFinding::problem(CHECK, found, advice)
}

/// Without a password.
fn location(subject: &Subject) -> String {
    match &subject.settings.database {
        DatabaseUrl::SqliteFile(path) => {
            format!("{}{}", path.display(), subject.origin_of("database.url"))
        }
        DatabaseUrl::SqliteMemory => "memory, which a stop of the server empties".to_owned(),
        DatabaseUrl::Postgres(_) => format!(
            "{}{}",
            subject.shown("database.url"),
            subject.origin_of("database.url")
        ),
    }
}

fn setting(subject: &Subject) -> String {
    subject.place_of("database.url", "DATABASE_URL")
}

fn backup(subject: &Subject) -> &'static str {
    match subject.settings.database {
        DatabaseUrl::Postgres(_) => "Make a backup with `pg_dump`",
        _ => "Copy its file",
    }
}
