//! `codelab audit verify`: checks every chain of decisions, while the server runs or not.

use std::process::ExitCode;

use clap::{Args, Subcommand};
use codelab_store::{AuditSession, Store, StoreOptions};

use super::{Place, say};

/// Sessions read at once.
const PAGE: usize = 500;

#[derive(Subcommand)]
pub enum Audit {
    /// Check that no decision was changed, removed or added
    Verify(Verify),
}

#[derive(Args)]
pub struct Verify {
    #[command(flatten)]
    place: Place,
}

impl Audit {
    pub fn run(self) -> anyhow::Result<ExitCode> {
        let Self::Verify(verify) = self;
        let settings = verify.place.settings(None)?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(async {
            let store = Store::open_read_only(StoreOptions::new(settings.database)).await?;
            check_all(&store).await
        })
    }
}

async fn check_all(store: &Store) -> anyhow::Result<ExitCode> {
    let (mut after, mut sessions, mut rows, mut broken) = (None, 0_u64, 0_u64, 0_u64);
    loop {
        let page = store.audit_sessions(after, PAGE).await?;
        let Some(last) = page.last() else { break };
        after = Some(last.key);
        for session in page {
            sessions += 1;
            match check(store, &session).await? {
                Ok(count) => rows += count,
                Err(problem) => {
                    broken += 1;
                    say(&problem);
                }
            }
        }
    }
    if broken > 0 {
        say(&format!("audit log broken: {broken} of {sessions} sessions"));
        return Ok(ExitCode::FAILURE);
    }
    say(&format!("audit log whole: {rows} decisions in {sessions} sessions"));
    Ok(ExitCode::SUCCESS)
}

async fn check(store: &Store, session: &AuditSession) -> anyhow::Result<Result<u64, String>> {
    let Some((realm, id)) = &session.name else {
        return Ok(Err(format!("session number {}: its head is missing", session.key)));
    };
    let verified = store.verify_audit(session.key, *realm, id).await?;
    Ok(verified.map(|head| head.count).map_err(|problem| format!("session {id}: {problem}")))
}
