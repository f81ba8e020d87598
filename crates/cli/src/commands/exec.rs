//! `codelab exec`: one task from a script, from the message to an exit code.

mod approve;
mod run;
mod show;

use std::io::Read;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, bail};
use clap::{Args, ValueEnum};
use codelab_protocol::{ClientMessageId, CreateChat, SendMessage};
use codelab_terminal::Serves;

use self::approve::Approver;
use self::run::Run;
use self::show::Show;
use super::connection::{Connection, Target, WhenMissing};
use super::hands::HandsFlags;
use super::random_name;
use crate::logs;

/// A task given on standard input.
const MAX_TASK_BYTES: u64 = 4 << 20;

/// Exit codes: 0 done · 1 failed · 2 wrong usage · 3 something needed an approval that was not given · 4 partly done ·
/// 130 cancelled
#[derive(Args)]
#[command(after_help = "Exit codes: 0 done, 1 failed, 2 wrong usage, 3 an approval was needed and not given, \
                        4 partly done, 130 cancelled")]
pub struct Exec {
    /// What is to be done; `-` reads it from standard input
    #[arg(value_name = "TASK")]
    task: String,
    /// The agent that gets the task; without one the task is planned
    #[arg(long, value_name = "AGENT")]
    agent: Option<String>,
    /// Print every event as a line of JSON, and at the end a line of type `result`
    #[arg(long)]
    json: bool,
    /// What becomes of tool calls, plans and budgets that need an approval
    #[arg(long, value_enum, value_name = "WHEN", default_value = "none")]
    approve: Approve,
    /// The folder in which tool calls run
    #[arg(long, value_name = "DIR", default_value = ".")]
    workspace: PathBuf,
    #[command(flatten)]
    hands: HandsFlags,
    #[command(flatten)]
    target: Target,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Approve {
    /// They are refused
    None,
    /// The person at the terminal is asked
    Ask,
    /// They are granted, without anybody having looked
    All,
}

impl Exec {
    pub fn run(self) -> anyhow::Result<ExitCode> {
        logs::start_quiet();
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
        runtime.block_on(async {
            let mut connection = self.target.connect(WhenMissing::Start).await?;
            let code = self.perform(&connection).await;
            if let Some(server) = connection.server.take() {
                server.stop().await;
            }
            code
        })
    }

    async fn perform(&self, connection: &Connection) -> anyhow::Result<ExitCode> {
        let approver = Approver::new(self.approve);
        let hands =
            self.hands.start(connection, self.workspace.clone(), Serves::Named, Some(approver.questions())).await?;
        let chat = CreateChat { project_id: Some(hands.project()), ..CreateChat::default() };
        let session = connection.client.create_chat(&chat).await?.session_id;
        hands.serve(&session);
        let message = SendMessage {
            content: Some(self.task()?),
            target_agent: self.agent.clone(),
            client_message_id: Some(ClientMessageId::parse(&random_name("exec")?)?),
        };
        let show = if self.json { Show::Json } else { Show::Text };
        let run = Run::new(connection.client.clone(), session, hands, approver, show);
        run.finish(&message).await
    }

    fn task(&self) -> anyhow::Result<String> {
        let mut text = self.task.clone();
        if text == "-" {
            text.clear();
            std::io::stdin().take(MAX_TASK_BYTES).read_to_string(&mut text).context("standard input")?;
        }
        if text.trim().is_empty() {
            bail!("the task is empty");
        }
        Ok(text)
    }
}
