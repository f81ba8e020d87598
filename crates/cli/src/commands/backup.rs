//! `codelab backup` and `codelab restore`: the embedded database as one file.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, bail};
use clap::Args;
use codelab_server::{MasterKey, audit_sealed_file};
use codelab_store::{DatabaseUrl, Store, StoreOptions, restore_sqlite};

use super::{ServerPaths, say};

#[derive(Args)]
pub struct BackupCommand {
    /// The file to write; it must not exist
    file: PathBuf,
    #[command(flatten)]
    paths: ServerPaths,
}

impl BackupCommand {
    /// Works while the server runs.
    pub fn run(self) -> anyhow::Result<ExitCode> {
        let settings = self.paths.settings(None)?;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        runtime.block_on(async {
            let store = Store::open_read_only(StoreOptions::new(settings.database.clone())).await?;
            store.backup(&self.file).await?;
            anyhow::Ok(())
        })?;
        say(&format!("backup written to {}", self.file.display()));
        let key = match settings.master_key {
            Some(_) => "CODELAB_MASTER_KEY".to_owned(),
            None => MasterKey::file(&settings.data_dir).display().to_string(),
        };
        say(&format!(
            "the master key is not in it: keep {key} in another place, the audit log cannot be verified without it"
        ));
        Ok(ExitCode::SUCCESS)
    }
}

#[derive(Args)]
pub struct RestoreCommand {
    /// A file that `codelab backup` wrote
    file: PathBuf,
    #[command(flatten)]
    paths: ServerPaths,
}

impl RestoreCommand {
    /// Only while the server is stopped.
    pub fn run(self) -> anyhow::Result<ExitCode> {
        let settings = self.paths.settings(None)?;
        let DatabaseUrl::SqliteFile(path) = settings.database else {
            bail!("only the embedded database can be restored; use PostgreSQL's own tools");
        };
        codelab_server::private_data_folder(&settings.data_dir)
            .with_context(|| format!("data folder {}", settings.data_dir.display()))?;
        let restored = restore_sqlite(&self.file, &path)?;
        if restored.is_from_before_the_key {
            // Its decisions are sealed at the next start.
            remove_if_there(&audit_sealed_file(&settings.data_dir))?;
        }
        say(&format!(
            "restored {} from {}",
            path.display(),
            self.file.display()
        ));
        Ok(ExitCode::SUCCESS)
    }
}

fn remove_if_there(file: &Path) -> std::io::Result<()> {
    match std::fs::remove_file(file) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}
