//! `codelab completions SHELL` and `codelab man`: made from the command line's own definition.

use std::io::Write as _;
use std::process::ExitCode;

use anyhow::{Context, bail};
use clap::{Args, Command};
use clap_complete::Shell;

#[derive(Args)]
pub struct CompletionsCommand {
    /// For bash: `codelab completions bash > ~/.local/share/bash-completion/completions/codelab`
    shell: Shell,
}

#[derive(Args)]
pub struct ManCommand {
    /// A command, such as `serve`; without it the page of the program itself
    command: Vec<String>,
}

impl CompletionsCommand {
    pub fn run(self, mut program: Command) -> anyhow::Result<ExitCode> {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut program, "codelab", &mut script);
        print(&script)
    }
}

impl ManCommand {
    pub fn run(self, mut program: Command) -> anyhow::Result<ExitCode> {
        program.build();
        let mut page_of = program;
        for name in &self.command {
            let Some(found) = page_of.find_subcommand(name) else {
                bail!("there is no command {name}")
            };
            page_of = found.clone();
        }
        let mut page = Vec::new();
        clap_mangen::Man::new(page_of).render(&mut page)?;
        print(&page)
    }
}

fn print(bytes: &[u8]) -> anyhow::Result<ExitCode> {
    std::io::stdout()
        .lock()
        .write_all(bytes)
        .context("standard output")?;
    Ok(ExitCode::SUCCESS)
}
