//! `codelab memory rebuild`: every agent's memory made anew from the database.

use std::process::ExitCode;

use anyhow::Context;
use clap::{Args, Subcommand};
use codelab_runtime::rebuild_memories;
use codelab_store::{Store, StoreOptions};

use super::{ServerPaths, make_private_files, say};

#[derive(Subcommand)]
pub enum MemoryCommand {
    /// Make the memories of all agents anew from the database, while the server is stopped
    Rebuild(RebuildMemory),
}

#[derive(Args)]
pub struct RebuildMemory {
    #[command(flatten)]
    paths: ServerPaths,
}

impl MemoryCommand {
    pub fn run(self) -> anyhow::Result<ExitCode> {
        let Self::Rebuild(rebuild) = self;
        let settings = rebuild.paths.settings(None)?;
        make_private_files();
        codelab_server::private_data_folder(&settings.data_dir)
            .with_context(|| format!("data folder {}", settings.data_dir.display()))?;
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .enable_all()
            .build()?;
        runtime.block_on(async {
            let memory = codelab_server::memory(&settings)?;
            let store = Store::open(StoreOptions::new(settings.database)).await?;
            let (mut agents, mut interactions, mut broken) = (0_u64, 0_u64, 0_u64);
            let ended = rebuild_memories(store.clone(), memory, |paths, rebuilt| {
                agents += 1;
                match rebuilt {
                    Ok(count) => interactions += count,
                    Err(error) => {
                        broken += 1;
                        say(&format!("{} of project {}: {error}", paths.agent, paths.project_id));
                    }
                }
            })
            .await;
            store.close().await;
            ended?;
            say(&format!("{interactions} interactions of {agents} agents indexed, {broken} agents without a memory"));
            Ok(if broken == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
        })
    }
}
