//! `codelab backup` and `codelab restore`: the embedded database as one file.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, bail};
use clap::Args;
use codelab_store::{DatabaseUrl, Store, StoreOptions, restore_sqlite};

use super::{Place, say};

#[derive(Args)]
pub struct Backup {
    /// The file to write; it must not exist
    file: PathBuf,
    #[command(flatten)]
    place: Place,
}

impl Backup {
    /// Works while the server runs.
    pub fn run(self) -> anyhow::Result<ExitCode> {
        let settings = self.place.settings(None)?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(async {
            let store = Store::open_read_only(StoreOptions::new(settings.database)).await?;
            store.backup(&self.file).await?;
            anyhow::Ok(())
        })?;
        say(&format!("backup written to {}", self.file.display()));
        Ok(ExitCode::SUCCESS)
    }
}

#[derive(Args)]
pub struct Restore {
    /// A file that `codelab backup` wrote
    file: PathBuf,
    #[command(flatten)]
    place: Place,
}

impl Restore {
    /// Only while the server is stopped.
    pub fn run(self) -> anyhow::Result<ExitCode> {
        let settings = self.place.settings(None)?;
        let DatabaseUrl::SqliteFile(path) = settings.database else {
            bail!("only the embedded database can be restored; use PostgreSQL's own tools");
        };
        codelab_server::private_data_folder(&settings.data_dir)
            .with_context(|| format!("data folder {}", settings.data_dir.display()))?;
        restore_sqlite(&self.file, &path)?;
        say(&format!("restored {} from {}", path.display(), self.file.display()));
        Ok(ExitCode::SUCCESS)
    }
}
