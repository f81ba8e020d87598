//! `codelab audit verify`: checks every chain of decisions, while the server runs or not.

use std::process::ExitCode;

use anyhow::bail;
use clap::{Args, Subcommand};
use codelab_server::{MasterKey, Settings};
use codelab_store::audit_chain::{ChainOwner, Verified};
use codelab_store::{AuditSealed, AuditSession, Store, StoreOptions};

use super::{ServerPaths, say};

/// Sessions read at once.
const PAGE: usize = 500;

#[derive(Subcommand)]
pub enum AuditCommand {
    /// Check that no decision was changed, removed or added
    Verify(VerifyAudit),
}

#[derive(Args)]
pub struct VerifyAudit {
    #[command(flatten)]
    paths: ServerPaths,
}

impl AuditCommand {
    pub fn run(self) -> anyhow::Result<ExitCode> {
        let Self::Verify(verify) = self;
        let settings = verify.paths.settings(None)?;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        runtime.block_on(async {
            let audit_key = Some(key(&settings)?.audit_key());
            let options = StoreOptions {
                audit_key,
                ..StoreOptions::new(settings.database)
            };
            let store = Store::open_read_only(options).await?;
            match store.audit_sealed().await? {
                None => bail!(
                    "the audit log is not sealed with the master key yet: start the server once"
                ),
                Some(AuditSealed::WithAnotherKey) => {
                    say("the audit log was keyed with another master key than this one")
                }
                Some(_) => {}
            }
            check_all(&store).await
        })
    }
}

fn key(settings: &Settings) -> anyhow::Result<MasterKey> {
    let Some(key) = MasterKey::find(settings)? else {
        let file = MasterKey::file(&settings.data_dir);
        bail!(
            "the master key is missing: set CODELAB_MASTER_KEY, or put it back as {}",
            file.display()
        );
    };
    Ok(key)
}

async fn check_all(store: &Store) -> anyhow::Result<ExitCode> {
    let (mut after, mut sessions, mut broken) = (None, 0_u64, 0_u64);
    let (mut rows, mut unkeyed) = (0_u64, 0_u64);
    loop {
        let page = store.audit_sessions(after, PAGE).await?;
        let Some(last) = page.last() else { break };
        after = Some(last.key);
        for session in page {
            sessions += 1;
            match check(store, &session).await? {
                Ok(verified) => {
                    rows += verified.count;
                    unkeyed += verified.unkeyed;
                }
                Err(problem) => {
                    broken += 1;
                    say(&problem);
                }
            }
        }
    }
    if broken > 0 {
        say(&format!(
            "audit log broken: {broken} of {sessions} sessions"
        ));
        return Ok(ExitCode::FAILURE);
    }
    let old = if unkeyed > 0 {
        format!(", {unkeyed} decisions unkeyed")
    } else {
        String::new()
    };
    say(&format!(
        "audit log whole: {rows} decisions in {sessions} sessions{old}"
    ));
    Ok(ExitCode::SUCCESS)
}

async fn check(store: &Store, session: &AuditSession) -> anyhow::Result<Result<Verified, String>> {
    let Some((kind, id)) = &session.name else {
        return Ok(Err(format!(
            "session number {}: its head is missing",
            session.key
        )));
    };
    let verified = store
        .verify_audit(ChainOwner {
            key: session.key,
            kind: *kind,
            session_id: id,
        })
        .await?;
    if let Ok(Verified {
        unkeyed: unkeyed @ 1..,
        ..
    }) = verified
    {
        say(&format!(
            "session {id}: its first {unkeyed} decisions are unkeyed, from before there was a master key"
        ));
    }
    Ok(verified.map_err(|problem| format!("session {id}: {problem}")))
}
