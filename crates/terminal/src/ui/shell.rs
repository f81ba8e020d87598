//! `!command` and `/diff`: programs that the person starts in the workspace. A command has the
//! person's own rights, and agents never reach that: what they run goes through the tool runner.
//! `/diff` runs git behind the sandbox, because a repository's settings can name programs.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use codelab_protocol::{ExecuteCommand, ToolArguments};
use codelab_workspace::{Call, Workspace};
use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, ChildStdout, Command};
use tokio_util::sync::CancellationToken;

use crate::Language;
use crate::texts::CommandText;

use super::block::Block;
use super::requests::RequestOutcome;

/// Of a command's output, from its start and from its end.
const HEAD_LINES: usize = 200;
const TAIL_LINES: usize = 400;
/// A longer line is broken.
const MAX_LINE_BYTES: usize = 8 << 10;
/// How long output is awaited that came before the command's end.
const DRAIN_TIME: Duration = Duration::from_millis(200);
/// `/diff` asks nothing of the repository but its content: no program that a setting names, nothing
/// of submodules, which have settings of their own. Where there is no repository, git would compare
/// files that have no history.
const DIFF: &str = "git rev-parse --verify HEAD >/dev/null && git --no-pager -c core.quotePath=false diff --no-ext-diff --no-textconv \
                    --no-color --ignore-submodules=all HEAD -- .";
const UNTRACKED: &str =
    "git --no-pager -c core.quotePath=false ls-files --others --exclude-standard";

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

/// What changed in the workspace since the last commit. Git runs as it does for an agent: behind
/// the sandbox, with a repository that it cannot change. It does not run at all where the
/// repository's settings make it start other programs.
pub async fn diff(
    workspace: Workspace,
    stop: CancellationToken,
    language: Language,
) -> RequestOutcome {
    let notice = |text: String| RequestOutcome::Ran(vec![Block::Notice(text)]);
    let looked = workspace.clone();
    let programs = tokio::task::spawn_blocking(move || looked.git_programs()).await;
    match programs {
        Ok(programs) if programs.is_empty() => {}
        Ok(programs) => {
            return notice(language.with(CommandText::GitRunsPrograms, &[&programs.join(", ")]));
        }
        Err(error) => return notice(language.with(CommandText::GitFailed, &[&error.to_string()])),
    }
    let mut printed = Vec::new();
    for command in [DIFF, UNTRACKED] {
        match git(&workspace, command, &stop).await {
            Ok(text) => printed.push(text),
            Err(GitError::Stopped) => {
                return notice(language.text(CommandText::CommandStopped).to_owned());
            }
            Err(GitError::Failed(why)) => {
                return notice(language.with(CommandText::GitFailed, &[&why]));
            }
        }
    }
    let rows = |text: &String| text.lines().map(str::to_owned).collect::<Vec<_>>();
    let mut printed = printed.iter().map(rows);
    let (changed, untracked) = (
        printed.next().unwrap_or_default(),
        printed.next().unwrap_or_default(),
    );
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
        true => notice(language.text(CommandText::NoChanges).to_owned()),
        false => RequestOutcome::Ran(blocks),
    }
}

enum GitError {
    Stopped,
    /// In git's own words, or in those of the sandbox.
    Failed(String),
}

async fn git(
    workspace: &Workspace,
    command: &str,
    stop: &CancellationToken,
) -> Result<String, GitError> {
    let arguments = ToolArguments::ExecuteCommand(ExecuteCommand {
        command: command.to_owned(),
        cwd: None,
        timeout_seconds: None,
    });
    // Not approved: the repository stays read-only.
    let call = Call {
        user_id: None,
        arguments: &arguments,
        is_approved: false,
        reader: None,
        base: None,
        key: None,
    };
    let result = workspace.run(call, stop.clone()).await;
    if stop.is_cancelled() {
        return Err(GitError::Stopped);
    }
    let text = |name: &str| result.get(name).and_then(Value::as_str).unwrap_or_default();
    if result.get("success") == Some(&Value::Bool(true)) {
        return Ok(text("stdout").to_owned());
    }
    let why = [text("stderr").trim(), text("error")];
    let why = why.into_iter().find(|words| !words.is_empty());
    Err(GitError::Failed(why.unwrap_or_default().to_owned()))
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
    let mut child = start(folder, command)?;
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
    let mut lines = OutputLines {
        from: BufReader::new(stdout),
        line: Vec::new(),
    };
    let status = tokio::select! {
        status = wait(&mut child, &mut lines, &mut out) => Some(status?),
        () = stop.cancelled() => None,
    };
    // Whoever stops a command means its children too. Those that a command which ended has left
    // behind, such as a server, stay.
    match status {
        Some(status) => {
            group.leave();
            out.end = status.code().map_or(CommandEnd::Signal, CommandEnd::Code);
            lines.forget();
        }
        None => drop(group),
    }
    Ok(out)
}

/// In a session without a terminal: a program that would ask for a password there fails at once.
fn start(folder: &Path, command: &str) -> std::io::Result<Child> {
    let prepared = |program: &str| {
        let mut prepared = Command::new(program);
        prepared
            .current_dir(folder)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .kill_on_drop(true);
        prepared
    };
    // One pipe for both streams keeps their order.
    let script = format!("exec 2>&1\n{command}");
    let started = prepared("setsid").args(["sh", "-c", &script]).spawn();
    match started {
        // Not every system has it. Without it, a program that reads the terminal waits until it is
        // stopped.
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => prepared("sh")
            .args(["-c", &script])
            .process_group(0)
            .spawn(),
        started => started,
    }
}

/// Until the command itself has ended. What it left behind may hold its output open for ever.
async fn wait(
    child: &mut Child,
    lines: &mut OutputLines,
    out: &mut CommandOutput,
) -> std::io::Result<ExitStatus> {
    let status = loop {
        tokio::select! {
            status = child.wait() => break status?,
            is_open = lines.read(out) => if !is_open? {
                return child.wait().await;
            },
        }
    };
    let drained = async { while matches!(lines.read(out).await, Ok(true)) {} };
    if tokio::time::timeout(DRAIN_TIME, drained).await.is_err() {
        lines.end(out);
    }
    Ok(status)
}

/// What a command prints, line by line.
struct OutputLines {
    from: BufReader<ChildStdout>,
    /// As much of the next line as has come.
    line: Vec<u8>,
}

impl OutputLines {
    /// Reads on; `false` at the end. Dropping the future loses nothing.
    async fn read(&mut self, out: &mut CommandOutput) -> std::io::Result<bool> {
        let bytes = self.from.fill_buf().await?;
        if bytes.is_empty() {
            self.end(out);
            return Ok(false);
        }
        let room = MAX_LINE_BYTES - self.line.len();
        let length = bytes.len().min(room);
        let end = bytes[..length].iter().position(|byte| *byte == b'\n');
        let taken = end.map_or(length, |at| at + 1);
        self.line.extend_from_slice(&bytes[..taken]);
        self.from.consume(taken);
        if end.is_some() || self.line.len() >= MAX_LINE_BYTES {
            self.end(out);
        }
        Ok(true)
    }

    fn end(&mut self, out: &mut CommandOutput) {
        if !self.line.is_empty() {
            let line = std::mem::take(&mut self.line);
            let text = String::from_utf8_lossy(&line);
            out.push(text.trim_end_matches(['\n', '\r']).to_owned());
        }
    }

    /// Whatever still writes there goes on as if somebody read it.
    fn forget(mut self) {
        tokio::spawn(async move { tokio::io::copy(&mut self.from, &mut tokio::io::sink()).await });
    }
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

    #[tokio::test]
    async fn what_a_command_leaves_behind_is_not_awaited() {
        let folder = tempfile::tempdir().unwrap();
        let never = CancellationToken::new();
        let ran = output(folder.path(), "sleep 600 & printf '%s' $!", &never);
        let ran = tokio::time::timeout(Duration::from_secs(60), ran).await;
        let ran = ran.unwrap().unwrap();
        assert_eq!(ran.end, CommandEnd::Code(0));
        let left = ran.rows(Language::En)[0].parse().unwrap();
        // It is still there to be ended.
        rustix::process::kill_process(Pid::from_raw(left).unwrap(), Signal::KILL).unwrap();
    }

    #[tokio::test]
    async fn a_stopped_diff_says_so() {
        let folder = tempfile::tempdir().unwrap();
        let launcher = codelab_workspace::Launcher::current(["sandbox-exec"]).unwrap();
        let options = codelab_workspace::WorkspaceOptions::new(launcher);
        let workspace = Workspace::open(folder.path(), options).unwrap();
        let stop = CancellationToken::new();
        stop.cancel();
        let RequestOutcome::Ran(blocks) = diff(workspace, stop, Language::En).await else {
            panic!()
        };
        assert_eq!(blocks, [Block::Notice("stopped".to_owned())]);
    }
}
