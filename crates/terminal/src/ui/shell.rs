//! `!command` and `/diff`: programs that the person starts, in the workspace and with the person's
//! own rights. Agents never reach this: what they run goes through the tool runner.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::{AsyncBufRead, AsyncBufReadExt as _, AsyncReadExt as _, BufReader};
use tokio::process::Command;
use tokio_util::sync::CancellationToken;

use crate::Language;
use crate::texts::CommandText;

use super::block::Block;
use super::requests::RequestOutcome;

/// Of a command's output, from its start and from its end.
const HEAD_LINES: usize = 200;
const TAIL_LINES: usize = 400;
/// A longer line is cut.
const MAX_LINE_BYTES: u64 = 8 << 10;
/// Git is asked by the names of its own options only, so that no setting of the repository starts
/// another program to show a difference.
const DIFF: &str =
    "git --no-pager -c core.fsmonitor=false diff --no-ext-diff --no-textconv --no-color HEAD -- .";
const UNTRACKED: &str =
    "git --no-pager -c core.fsmonitor=false ls-files --others --exclude-standard";
const IS_REPOSITORY: &str = "git rev-parse --verify HEAD";

/// Runs a command of the person's and shows what it prints.
pub async fn run(
    folder: PathBuf,
    command: String,
    stop: CancellationToken,
    language: Language,
) -> RequestOutcome {
    let ran = output(&folder, &command, &stop).await;
    let (rows, end) = match ran {
        Ok(ran) => (ran.rows(language), ran.end),
        Err(error) => {
            let text = language.with(CommandText::CommandNotStarted, &[&error.to_string()]);
            return RequestOutcome::Ran(vec![Block::Notice(text)]);
        }
    };
    let end = match end {
        CommandEnd::Code(code) => format!("exit {code}"),
        CommandEnd::Signal => language.text(CommandText::CommandKilled).to_owned(),
        CommandEnd::Stopped => language.text(CommandText::CommandStopped).to_owned(),
    };
    let told = language.with(CommandText::CommandEnded, &[&end]);
    RequestOutcome::Ran(vec![Block::Listing(rows), Block::Notice(told)])
}

/// What changed in the workspace since the last commit.
pub async fn diff(folder: PathBuf, stop: CancellationToken, language: Language) -> RequestOutcome {
    let notice = |text: CommandText| {
        RequestOutcome::Ran(vec![Block::Notice(language.text(text).to_owned())])
    };
    match output(&folder, IS_REPOSITORY, &stop).await {
        Ok(ran) if ran.end == CommandEnd::Code(0) => {}
        Ok(_) | Err(_) => return notice(CommandText::NoGit),
    }
    let (changed, untracked) = (
        output(&folder, DIFF, &stop).await,
        output(&folder, UNTRACKED, &stop).await,
    );
    let (Ok(changed), Ok(untracked)) = (changed, untracked) else {
        return notice(CommandText::NoGit);
    };
    let (changed, untracked) = (changed.rows(language), untracked.rows(language));
    let mut blocks = Vec::new();
    if !changed.is_empty() {
        blocks.push(Block::Patch(changed));
    }
    if !untracked.is_empty() {
        blocks.push(Block::Notice(
            language.with(CommandText::Untracked, &[&untracked.join(", ")]),
        ));
    }
    match blocks.is_empty() {
        true => notice(CommandText::NoChanges),
        false => RequestOutcome::Ran(blocks),
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CommandEnd {
    Code(i32),
    Signal,
    Stopped,
}

/// What a command printed, without its middle if that is long.
#[derive(Debug)]
struct CommandOutput {
    head: Vec<String>,
    tail: VecDeque<String>,
    left_out: usize,
    end: CommandEnd,
}

impl CommandOutput {
    fn push(&mut self, line: String) {
        if self.head.len() < HEAD_LINES {
            return self.head.push(line);
        }
        self.tail.push_back(line);
        if self.tail.len() > TAIL_LINES {
            self.tail.pop_front();
            self.left_out += 1;
        }
    }

    fn rows(&self, language: Language) -> Vec<String> {
        let gap = (self.left_out > 0)
            .then(|| language.with(CommandText::LinesLeftOut, &[&self.left_out.to_string()]));
        let head = self.head.iter().cloned();
        head.chain(gap).chain(self.tail.iter().cloned()).collect()
    }
}

async fn output(
    folder: &Path,
    command: &str,
    stop: &CancellationToken,
) -> std::io::Result<CommandOutput> {
    // One pipe for both streams keeps their order.
    let mut child = Command::new("sh")
        .arg("-c")
        .arg(format!("exec 2>&1\n{command}"))
        .current_dir(folder)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .process_group(0)
        .spawn()?;
    let group = ProcessGroup(child.id().and_then(|id| Pid::from_raw(id.try_into().ok()?)));
    let mut out = CommandOutput {
        head: Vec::new(),
        tail: VecDeque::new(),
        left_out: 0,
        end: CommandEnd::Stopped,
    };
    let Some(stdout) = child.stdout.take() else {
        return Ok(out);
    };
    let mut stdout = BufReader::new(stdout);
    let all = async {
        while let Some(line) = line(&mut stdout).await? {
            out.push(line);
        }
        child.wait().await
    };
    let status = tokio::select! {
        status = all => Some(status?),
        () = stop.cancelled() => None,
    };
    // Whoever stops a command means its children too. Those that a command which ended has left
    // behind, such as a server, stay.
    match status {
        Some(status) => {
            group.leave();
            out.end = status.code().map_or(CommandEnd::Signal, CommandEnd::Code);
        }
        None => drop(group),
    }
    Ok(out)
}

/// The next line, without its end and without what is too long of it.
async fn line(from: &mut (impl AsyncBufRead + Unpin)) -> std::io::Result<Option<String>> {
    let mut bytes = Vec::new();
    let length = (&mut *from)
        .take(MAX_LINE_BYTES)
        .read_until(b'\n', &mut bytes)
        .await?;
    if length == 0 {
        return Ok(None);
    }
    let text = String::from_utf8_lossy(&bytes);
    Ok(Some(text.trim_end_matches(['\n', '\r']).to_owned()))
}

/// Kills the command and its children when it is dropped.
struct ProcessGroup(Option<Pid>);

impl ProcessGroup {
    fn leave(mut self) {
        self.0 = None;
    }
}

impl Drop for ProcessGroup {
    fn drop(&mut self) {
        if let Some(group) = self.0 {
            // It may have ended by itself.
            let _ = kill_process_group(group, Signal::KILL);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_commands_output_is_bounded_and_it_can_be_stopped() {
        let folder = tempfile::tempdir().unwrap();
        let never = CancellationToken::new();
        let ran = output(folder.path(), "seq 1 1000; echo e >&2; exit 3", &never).await;
        let ran = ran.unwrap();
        let rows = ran.rows(Language::En);
        assert_eq!(ran.end, CommandEnd::Code(3));
        assert_eq!(rows.len(), HEAD_LINES + 1 + TAIL_LINES);
        assert_eq!((rows[0].as_str(), rows[600].as_str()), ("1", "e"));
        let stop = CancellationToken::new();
        let stopping = stop.clone();
        let stopped = tokio::join!(output(folder.path(), "sleep 600 & wait", &stop), async {
            stopping.cancel();
        });
        assert_eq!(stopped.0.unwrap().end, CommandEnd::Stopped);
    }
}
