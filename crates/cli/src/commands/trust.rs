//! `codelab trust`: a person looks at what a folder brings, such as `.mcp.json`, `AGENTS.md` and
//! skills, and says that it counts. Nothing else trusts anything, `--approve all` included.

use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context as _;
use clap::Args;
use codelab_protocol::BroughtKind;
use codelab_toolrunner::{BroughtFile, BroughtReader, TrustState, TrustStore, kind_name};

use super::tool_runner::{ask, in_one_line, is_yes};
use super::{ServerPaths, note, now, say};

/// Exit codes: 0 everything is trusted · 1 failed · 3 something is not trusted
const NOT_TRUSTED: u8 = 3;

#[derive(Args)]
#[command(
    after_help = "Exit codes: 0 everything is trusted, 1 failed, 2 wrong usage, 3 something \
                        is not trusted"
)]
pub struct TrustCommand {
    /// The folder whose files are shown
    #[arg(long, value_name = "DIR", default_value = ".")]
    workspace: PathBuf,
    /// Trust what is shown without asking
    #[arg(long, conflicts_with = "forget")]
    yes: bool,
    /// Trust nothing of this folder any more
    #[arg(long)]
    forget: bool,
    #[command(flatten)]
    paths: ServerPaths,
}

impl TrustCommand {
    pub fn run(self) -> anyhow::Result<ExitCode> {
        let data_dir = std::path::absolute(self.paths.settings(None)?.data_dir)?;
        let store = TrustStore::new(&data_dir);
        let folder = std::fs::canonicalize(&self.workspace)
            .with_context(|| format!("the folder {}", self.workspace.display()))?;
        if self.forget {
            let forgotten = store.forget(&folder)?;
            let folder = in_one_line(&folder.display().to_string());
            say(&format!(
                "{folder}: contents that were trusted: {forgotten}, now: 0"
            ));
            return Ok(ExitCode::SUCCESS);
        }
        let reader = BroughtReader::open(&folder, &data_dir, &[])?;
        let folders = reader.folders();
        let (files, passed_over) = reader.read(&folders)?;
        let mut is_refused = false;
        for (file, state) in &files {
            is_refused |= !self.decide(&store, &folder, file, *state)?;
        }
        for notice in &passed_over {
            note(&format!("passed over: {}", in_one_line(notice)));
        }
        if files.is_empty() {
            let folder = in_one_line(&folder.display().to_string());
            say(&format!("{folder} brings nothing that needs trust"));
        }
        Ok(match is_refused {
            true => ExitCode::from(NOT_TRUSTED),
            false => ExitCode::SUCCESS,
        })
    }

    /// Whether the file is trusted now. What is trusted is what was shown.
    fn decide(
        &self,
        store: &TrustStore,
        folder: &Path,
        file: &BroughtFile,
        state: TrustState,
    ) -> anyhow::Result<bool> {
        shown(folder, file, state).iter().for_each(|line| say(line));
        let is_trusted = match state {
            TrustState::Trusted => return Ok(true),
            TrustState::New | TrustState::Changed => self.yes || asked(file),
        };
        if is_trusted {
            store.trust(folder, file, now())?;
            say(&format!("{} is trusted", in_one_line(&file.path)));
        } else {
            say(&format!(
                "{} is not trusted, so it does not count",
                in_one_line(&file.path)
            ));
        }
        Ok(is_trusted)
    }
}

/// Every line of the file begins with a bar, so that none can pass for one of ours.
fn shown(folder: &Path, file: &BroughtFile, state: TrustState) -> Vec<String> {
    let known = match state {
        TrustState::Trusted => "trusted",
        TrustState::New => "not trusted yet",
        TrustState::Changed => "changed since it was trusted",
    };
    let path = in_one_line(&folder.join(&file.path).display().to_string());
    let mut lines = vec![
        format!("{path} ({}): {known}", kind_name(file.kind)),
        format!("SHA-256 {}", file.digest),
    ];
    lines.extend(
        file.content
            .lines()
            .map(|line| format!("  | {}", in_one_line(line))),
    );
    match file.kind {
        BroughtKind::McpServers => lines.extend(codelab_toolrunner::what_starts(file, folder)),
        BroughtKind::Skill => lines.extend(file.parts.iter().map(|part| {
            let path = in_one_line(&part.path);
            format!(
                "  file {path}: {} bytes, SHA-256 {}",
                part.bytes, part.digest
            )
        })),
        BroughtKind::Instructions | BroughtKind::Command => {}
    }
    lines
}

fn asked(file: &BroughtFile) -> bool {
    if !std::io::stdin().is_terminal() {
        note("Nobody is at the terminal to trust it. `codelab trust --yes` trusts without asking.");
        return false;
    }
    let question = format!("Trust this content of {}? [y/N] ", in_one_line(&file.path));
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    let answer = runtime.map(|runtime| runtime.block_on(ask(&question)));
    answer.is_ok_and(|answer| answer.is_some_and(|answer| is_yes(&answer)))
}
