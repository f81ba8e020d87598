//! `codelab work`: runs the tool calls of a project in a folder, for people who talk to their agents elsewhere.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use codelab_terminal::{Hands, HandsEvent, Serves};

use super::connection::{Target, WhenMissing};
use super::hands::{HandsFlags, at_the_terminal, line_of};
use super::{StopSignals, note, say};
use crate::logs;

#[derive(Args)]
pub struct Work {
    /// The folder in which tool calls run; nothing outside of it is touched
    #[arg(long, value_name = "DIR")]
    workspace: PathBuf,
    #[command(flatten)]
    hands: HandsFlags,
    #[command(flatten)]
    target: Target,
}

impl Work {
    pub fn run(self) -> anyhow::Result<ExitCode> {
        let _logs = logs::start_quiet()?;
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
        runtime.block_on(async {
            let mut signals = StopSignals::new()?;
            let Some(started) = signals.unless(self.start()).await else { return Ok(ExitCode::SUCCESS) };
            let mut hands = started?;
            let code = loop {
                tokio::select! {
                    event = hands.next() => {
                        note(&line_of(&event));
                        if matches!(event, HandsEvent::Ended { .. }) {
                            break ExitCode::FAILURE;
                        }
                    }
                    () = signals.next() => break ExitCode::SUCCESS,
                }
            };
            hands.stop().await;
            Ok(code)
        })
    }

    async fn start(self) -> anyhow::Result<Hands> {
        let connection = self.target.connect(WhenMissing::Complain).await?;
        let hands = self.hands.start(&connection, self.workspace, Serves::Project, at_the_terminal()).await?;
        announce(&hands, &connection.url);
        Ok(hands)
    }
}

/// Where tool calls run from now on, and behind which wall.
pub fn announce(hands: &Hands, url: &str) {
    say(&format!("working in {} for project {} of {url}", hands.workspace().display(), hands.project()));
    match hands.sandbox() {
        "none" => {
            say("sandbox: none, so every command asks");
            for reason in hands.sandbox_refused() {
                say(&format!("         {}", reason.replace('\n', " ")));
            }
        }
        sandbox => say(&format!("sandbox: {sandbox}")),
    }
    if rustix::process::geteuid().is_root() {
        say("         codelab runs as root: commands lose every privilege, but own root's files in the workspace,");
        say("         and a hole in the kernel would cost the whole machine; an ordinary user is safer");
    }
}
