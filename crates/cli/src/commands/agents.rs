//! `codelab agents import`: agent definitions from files into a project, over the API.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, anyhow, bail};
use clap::{Args, Subcommand};
use codelab_client::Client;
use codelab_protocol::{ProjectAgent, ProjectId};
use codelab_server::check_agent;

use super::connection::{ServerTarget, WhenMissing};
use super::{project_id, say};
use crate::import::{self, Definition};

/// Larger files are no agent definitions.
const MAX_FILE_BYTES: u64 = 1 << 20;

#[derive(Subcommand)]
pub enum AgentsCommand {
    /// Add agents from Markdown files with front matter, or from a .roomodes file
    Import(ImportAgents),
}

#[derive(Args)]
pub struct ImportAgents {
    /// Markdown files with front matter, or .roomodes files (YAML or JSON)
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// The project's number; by default the user's default project
    #[arg(long, value_name = "P", value_parser = project_id)]
    project: Option<ProjectId>,
    /// Change agents that exist instead of leaving them alone
    #[arg(long)]
    update: bool,
    #[command(flatten)]
    target: ServerTarget,
}

/// What became of one definition.
enum Outcome {
    Added(Vec<String>),
    Updated(Vec<String>),
    Exists,
    Failed(String),
}

impl AgentsCommand {
    pub fn run(self) -> anyhow::Result<ExitCode> {
        let Self::Import(import) = self;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        runtime.block_on(import.run())
    }
}

impl ImportAgents {
    /// Every definition is read and checked before anything is sent: one that is wrong keeps all of
    /// them out.
    async fn run(self) -> anyhow::Result<ExitCode> {
        let definitions = definitions(&self.files)?;
        let client = self.target.connect(WhenMissing::Complain).await?.client;
        let project = match self.project {
            Some(project) => project,
            None => default_project(&client).await?,
        };
        let existing = client.project_agents(project).await?;
        let mut failures = 0;
        for definition in definitions {
            for note in &definition.notes {
                say(&format!("{}: {note}", definition.agent.name));
            }
            let outcome = self.save(&client, project, &existing, &definition).await;
            failures += usize::from(matches!(outcome, Outcome::Failed(_)));
            report(&definition.agent.name, outcome);
        }
        Ok(if failures == 0 {
            ExitCode::SUCCESS
        } else {
            ExitCode::FAILURE
        })
    }

    async fn save(
        &self,
        client: &Client,
        project: ProjectId,
        existing: &[ProjectAgent],
        definition: &Definition,
    ) -> Outcome {
        let name = &definition.agent.name;
        let saved = match existing.iter().find(|agent| agent.name.as_str() == name) {
            None => {
                client
                    .create_project_agent(project, &definition.agent)
                    .await
            }
            Some(_) if !self.update => return Outcome::Exists,
            Some(agent) => {
                let change = definition.as_change();
                return match client
                    .change_project_agent(project, &agent.agent_id, &change)
                    .await
                {
                    Ok(saved) => Outcome::Updated(saved.warnings),
                    Err(error) => Outcome::Failed(error.to_string()),
                };
            }
        };
        match saved {
            Ok(saved) => Outcome::Added(saved.warnings),
            Err(error) => Outcome::Failed(error.to_string()),
        }
    }
}

fn definitions(files: &[PathBuf]) -> anyhow::Result<Vec<Definition>> {
    let mut definitions: Vec<Definition> = Vec::new();
    for file in files {
        let shown = || file.display().to_string();
        for definition in import::read(file, &read(file)?).with_context(shown)? {
            let name = &definition.agent.name;
            if definitions.iter().any(|other| other.agent.name == *name) {
                bail!("{}: {name} is defined twice", shown());
            }
            check_agent(definition.agent.clone())
                .map_err(|why| anyhow!("{}: {name}: {why}", shown()))?;
            definitions.push(definition);
        }
    }
    Ok(definitions)
}

pub async fn default_project(client: &Client) -> anyhow::Result<ProjectId> {
    let projects = client.projects().await?;
    if let Some(project) = projects.iter().find(|project| project.is_default) {
        return Ok(project.project_id);
    }
    let named: Vec<String> = projects
        .iter()
        .map(|project| format!("{} ({})", project.project_id, project.name))
        .collect();
    bail!(
        "there is no default project; name one with --project: {}",
        named.join(", ")
    )
}

fn report(name: &str, outcome: Outcome) {
    let (what, warnings) = match outcome {
        Outcome::Added(warnings) => ("added".to_owned(), warnings),
        Outcome::Updated(warnings) => ("updated".to_owned(), warnings),
        Outcome::Exists => (
            "exists already, left alone (--update changes it)".to_owned(),
            Vec::new(),
        ),
        Outcome::Failed(why) => (
            format!("not imported: {}", why.replace('\n', " ")),
            Vec::new(),
        ),
    };
    say(&format!("{name}: {what}"));
    for warning in warnings {
        say(&format!("{name}: {warning}"));
    }
}

fn read(file: &Path) -> anyhow::Result<String> {
    let shown = file.display().to_string();
    let size = std::fs::metadata(file)
        .with_context(|| shown.clone())?
        .len();
    if size > MAX_FILE_BYTES {
        bail!("{shown}: larger than {MAX_FILE_BYTES} bytes");
    }
    std::fs::read_to_string(file).with_context(|| shown)
}
