//! The workspace as a client uses it: open it once, run calls in it. Who may call and which tool it
//! is are decided here, what the tools do is not.

use std::path::Path;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use codelab_policy::{Ask, Policy, Verdict};
use codelab_protocol::{
    FileBase, FilePreview, RewindFiles, RewoundFiles, SessionId, Tool, ToolArguments, UserId,
    WriteFile, WrittenByCall,
};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::before::{BeforeLimits, BeforeStore, Changed, Keeping, WorkspaceFiles};
use crate::error::{OpenError, ToolRefusal};
use crate::failpoint::ClientFailpoint;
use crate::journal::CallKey;
use crate::options::{WorkspaceLimits, WorkspaceOptions};
use crate::root::Root;
use crate::sandbox::{Sandbox, secrets};
use crate::seen::{ReadingAgent, Readings};
use crate::tools::{self, Approved, Commands, FileNow, WriteQuestion, Writer, WrittenPath};

/// The user's files and the tools that work on them. Cheap to clone.
#[derive(Clone)]
pub struct Workspace {
    shared: Arc<Shared>,
}

struct Shared {
    root: Root,
    readings: Readings,
    /// Held from the look at a file to its replacement, so that two agents do not cross.
    writing: Mutex<()>,
    user_id: Option<UserId>,
    policy: Policy,
    limits: WorkspaceLimits,
    commands: Commands,
    /// What writes replaced, or why nothing is kept. Unset where nobody wants it.
    before: OnceLock<Result<BeforeStore, String>>,
}

/// One tool call, for one user.
#[derive(Debug, Clone, Copy)]
pub struct Call<'a> {
    /// Whom the call is for, where the server says so.
    pub user_id: Option<UserId>,
    pub arguments: &'a ToolArguments,
    /// A person saw it and agreed.
    pub is_approved: bool,
    /// The agent that calls; absent for what the person at this machine does themselves.
    pub reader: Option<&'a ReadingAgent>,
    /// What a person agreed to replace; absent where nobody said.
    pub base: Option<&'a FileBase>,
    /// The call's name, under which is kept what it replaces; without one nothing is.
    pub key: Option<&'a CallKey>,
}

/// How a call ended.
#[derive(Debug, Clone, PartialEq)]
pub enum RunOutcome {
    Done(Value),
    /// Nothing was written: a person must see the write first.
    Asks(Box<WriteQuestion>),
}

impl Workspace {
    /// Opens the root; from here on it is known by its handle and not by its name.
    pub fn open(root: impl AsRef<Path>, options: WorkspaceOptions) -> Result<Self, OpenError> {
        let hidden = secrets::hidden(&options);
        let root = Root::open(root.as_ref(), &hidden)?;
        let WorkspaceOptions {
            user_id,
            ref policy,
            ref limits,
            ..
        } = options;
        let (policy, limits) = (
            policy.in_workspace(&root.path().to_string_lossy()),
            limits.clone(),
        );
        let commands = Commands::new(options, hidden);
        Ok(Self {
            shared: Arc::new(Shared {
                root,
                readings: Readings::default(),
                writing: Mutex::default(),
                user_id,
                policy,
                limits,
                commands,
                before: OnceLock::new(),
            }),
        })
    }

    /// From now on, what writes replace is kept in this folder. Where it cannot be used, writes
    /// happen all the same and say that they cannot be rewound. Blocks on the disk.
    pub fn keep_before_images(
        &self,
        folder: &Path,
        limits: BeforeLimits,
        failpoint: ClientFailpoint,
    ) {
        let opened = BeforeStore::open(folder, limits, failpoint).map_err(|error| {
            tracing::warn!(%error, "what writes replace cannot be kept, so no write can be rewound");
            format!("the client's data folder cannot be used: {error}")
        });
        // Whoever was first stays: both are of the same folder.
        let _ = self.shared.before.set(opened);
    }

    /// The result of a rewind that an earlier process began and did not end. What it had not done
    /// yet is done. Blocks on the disk.
    pub fn resume_rewind(&self, key: &CallKey) -> Value {
        let resumed = self.shared.resume(key);
        resumed.unwrap_or_else(|refusal| tools::refused(&refusal))
    }

    /// What a rewind of these calls would do to the files as they are now. `None` where nothing is
    /// kept. Blocks on the disk.
    pub fn foresee_rewind(
        &self,
        session: &SessionId,
        calls: &[WrittenByCall],
    ) -> Option<RewoundFiles> {
        let store = self.shared.store_of_before_images()?;
        let hand = WorkspaceFiles::new(&self.shared.root);
        Some(store.foresee(&hand, session, calls))
    }

    /// Where the root was found, without symbolic links.
    pub fn root(&self) -> &Path {
        self.shared.root.path()
    }

    pub fn sandbox(&self) -> &Sandbox {
        self.shared.commands.sandbox()
    }

    /// What this client itself wants a person to see first, whatever the server decided: what the
    /// policy asks for, and every command where there is no sandbox.
    pub fn review(&self, arguments: &ToolArguments) -> Verdict {
        match self.shared.policy.review(arguments) {
            Verdict::Allow
                if matches!(arguments, ToolArguments::ExecuteCommand(_))
                    && self.sandbox().is_none() =>
            {
                let reason = "There is no sandbox on this machine: every command requires approval"
                    .to_owned();
                Verdict::Ask(Ask {
                    reason,
                    parts: Vec::new(),
                    remember: None,
                })
            }
            Verdict::Allow => match self.review_links(arguments) {
                Verdict::Allow => self.review_git(arguments),
                verdict @ Verdict::Ask(_) => verdict,
            },
            Verdict::Ask(ask) => Verdict::Ask(self.with_programs(ask, arguments)),
        }
    }

    /// Whoever is asked about a git command should know what else would run.
    fn with_programs(&self, mut ask: Ask, arguments: &ToolArguments) -> Ask {
        if let Verdict::Ask(programs) = self.review_git(arguments) {
            ask.reason = format!("{}. {}", ask.reason, programs.reason);
            ask.remember = None;
        }
        ask
    }

    /// The policy judges names, and a symbolic link gives a file a harmless one. Blocks on the file
    /// system for a moment.
    fn review_links(&self, arguments: &ToolArguments) -> Verdict {
        let ToolArguments::ExecuteCommand(call) = arguments else {
            return Verdict::Allow;
        };
        match tools::misleading_link(&self.shared.root, &self.shared.policy, call) {
            Some(link) => Verdict::Ask(Ask {
                reason: link.to_string(),
                parts: Vec::new(),
                remember: None,
            }),
            None => Verdict::Allow,
        }
    }

    /// A look at a repository runs whatever its settings name. Blocks on the file system for a
    /// moment.
    fn review_git(&self, arguments: &ToolArguments) -> Verdict {
        let ToolArguments::ExecuteCommand(call) = arguments else {
            return Verdict::Allow;
        };
        let named = tools::programs_of_git(&self.shared.root, &call.command);
        if named.is_empty() {
            return Verdict::Allow;
        }
        let reason = format!(
            "Git would run programs that this repository's settings name, which requires approval: {}",
            codelab_policy::visible(&named.join(", "))
        );
        Verdict::Ask(Ask {
            reason,
            parts: Vec::new(),
            remember: None,
        })
    }

    /// What the workspace's repositories make git run of their own accord. Blocks on the file
    /// system for a moment.
    pub fn git_programs(&self) -> Vec<String> {
        tools::programs_of_repositories(&self.shared.root)
    }

    /// Runs a call that was approved where it had to be. The result is what the model reads;
    /// failures are results too. A command stops when `cancel` is; what is being written is written
    /// to its end.
    pub async fn run(&self, call: Call<'_>, cancel: CancellationToken) -> Value {
        match self.run_or_ask(call, cancel).await {
            RunOutcome::Done(value) => value,
            RunOutcome::Asks(question) => tools::refused(&ToolRefusal::Asks(question)),
        }
    }

    /// The same, for who can ask a person.
    pub async fn run_or_ask(&self, call: Call<'_>, cancel: CancellationToken) -> RunOutcome {
        let done = match self.check(call) {
            Ok(()) => {
                let approved = if call.is_approved {
                    Approved::Yes
                } else {
                    Approved::No
                };
                self.perform(call, approved, cancel).await
            }
            Err(refusal) => Err(refusal),
        };
        match done {
            Ok(value) => RunOutcome::Done(value),
            Err(ToolRefusal::Asks(question)) => RunOutcome::Asks(question),
            Err(refusal) => RunOutcome::Done(tools::refused(&refusal)),
        }
    }

    /// Whether a person must see this write before it is begun. The write itself looks again.
    pub async fn question(&self, call: Call<'_>) -> Option<WriteQuestion> {
        let ToolArguments::WriteFile(write) = call.arguments.clone() else {
            return None;
        };
        let shared = Arc::clone(&self.shared);
        let (reader, base) = (call.reader.cloned(), call.base.cloned());
        let look = move || {
            let Shared {
                root,
                readings,
                limits,
                ..
            } = &*shared;
            let writer = Writer {
                reader: reader.as_ref(),
                base: base.as_ref(),
            };
            let question = tools::question(root, readings, limits, &write, writer);
            Ok(question.or_else(|| shared.git_question(&write, writer)))
        };
        blocking(look).await.ok().flatten()
    }

    /// A file as it is now, for a person who decides about a write. It counts for nobody as a
    /// reading. The error says why it cannot be seen.
    pub async fn file_now(&self, path: &str) -> Result<FileNow, String> {
        let (shared, path) = (Arc::clone(&self.shared), path.to_owned());
        let looked = blocking(move || tools::file_now(&shared.root, &path)).await;
        looked.map_err(|refusal| refusal.to_string())
    }

    /// What this write of this agent would do to the file as it is now.
    pub async fn preview(
        &self,
        write: &WriteFile,
        reader: Option<&ReadingAgent>,
    ) -> Option<FilePreview> {
        let shared = Arc::clone(&self.shared);
        let (write, reader) = (write.clone(), reader.cloned());
        let look = move || {
            let Shared {
                root,
                readings,
                limits,
                ..
            } = &*shared;
            Ok(tools::preview(
                root,
                readings,
                limits,
                &write,
                reader.as_ref(),
            ))
        };
        blocking(look).await.ok()
    }

    /// The result of this write of this agent, where it is certain without writing.
    pub async fn certain_result(
        &self,
        write: &WriteFile,
        reader: Option<&ReadingAgent>,
    ) -> Option<Value> {
        let shared = Arc::clone(&self.shared);
        let (write, reader) = (write.clone(), reader.cloned());
        let look = move || {
            let Shared {
                root,
                readings,
                limits,
                policy,
                ..
            } = &*shared;
            let rules = (limits, policy);
            Ok(tools::certain_result(
                root,
                readings,
                rules,
                &write,
                reader.as_ref(),
            ))
        };
        blocking(look).await.ok().flatten()
    }

    fn check(&self, call: Call<'_>) -> Result<(), ToolRefusal> {
        match (call.user_id, self.shared.user_id) {
            (Some(named), Some(own)) if named != own => Err(ToolRefusal::WrongUser(named)),
            _ => Ok(()),
        }
    }

    async fn perform(
        &self,
        call: Call<'_>,
        approved: Approved,
        cancel: CancellationToken,
    ) -> Result<Value, ToolRefusal> {
        if cancel.is_cancelled() {
            return Err(ToolRefusal::Cancelled);
        }
        let shared = Arc::clone(&self.shared);
        let arguments = call.arguments.clone();
        if let ToolArguments::ExecuteCommand(command) = arguments {
            let prepared = blocking(move || {
                tools::prepare(&shared.root, &shared.commands, &command, approved)
            })
            .await?;
            return Ok(tools::execute(&self.shared.commands, prepared, &cancel).await);
        }
        let (reader, base) = (call.reader.cloned(), call.base.cloned());
        let key = call.key.cloned();
        blocking(move || {
            let writer = Writer {
                reader: reader.as_ref(),
                base: base.as_ref(),
            };
            shared.work_on_files(&arguments, writer, key.as_ref(), &cancel)
        })
        .await
    }
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, ToolRefusal> + Send + 'static,
) -> Result<T, ToolRefusal> {
    let failed = |error| ToolRefusal::Io {
        what: "the tool failed".to_owned(),
        source: std::io::Error::other(error),
    };
    tokio::task::spawn_blocking(work).await.map_err(failed)?
}

impl Shared {
    /// A person who agreed to what is replaced has seen where it is.
    fn git_question(&self, call: &WriteFile, writer: Writer<'_>) -> Option<WriteQuestion> {
        if writer.base.is_some() || writer.reader.is_none() {
            return None;
        }
        let real = self.root.target(&call.path).ok()?.real();
        let why = tools::leads_git(&self.root, &real, self.commands.home())?;
        let path = codelab_policy::visible(&call.path);
        let Self {
            root,
            readings,
            limits,
            ..
        } = self;
        Some(WriteQuestion {
            reason: format!("File modification requires approval: {path} {why}"),
            preview: tools::preview(root, readings, limits, call, writer.reader),
        })
    }

    /// Writes with the gate held, so that a command that runs is not taken for the writer of this
    /// very content.
    fn write(
        &self,
        key: Option<&CallKey>,
        write: impl FnOnce(&Keeping<'_>) -> Result<(Value, WrittenPath), ToolRefusal>,
    ) -> Result<Value, ToolRefusal> {
        let gate = self.commands.gate(&self.root)?;
        let _alone = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let keeping = Keeping::new(self.before.get(), key);
        let (mut value, written) = write(&keeping).inspect_err(|_| keeping.nothing_written())?;
        keeping.written(written.mode);
        if let Some(why) = keeping.not_covered() {
            value["not_covered"] = why.into();
        }
        let Some(gate) = gate else { return Ok(value) };
        let is_protected = |path: &Path| self.policy.protects(&path.to_string_lossy());
        let WrittenPath {
            real,
            content,
            mode,
        } = written;
        if let Err(error) = gate.add_written(&real, content, mode, is_protected) {
            tracing::warn!(%error, "recording a write to a protected path failed, the end of a command may undo the write");
        }
        Ok(value)
    }

    fn rewind(&self, key: Option<&CallKey>, asked: &RewindFiles) -> Result<Value, ToolRefusal> {
        let (store, key) = self
            .store_of_before_images()
            .zip(key)
            .ok_or(ToolRefusal::NothingKept)?;
        self.changing_files(|hand, tell| store.rewind(hand, key, asked, tell))?
            .map(|done| rewound(&done))
            .map_err(ToolRefusal::Rewind)
    }

    fn resume(&self, key: &CallKey) -> Result<Value, ToolRefusal> {
        let store = self.store_of_before_images();
        let store = store.ok_or(ToolRefusal::NothingKept)?;
        let resumed = self.changing_files(|hand, tell| store.resume(hand, key, tell))?;
        resumed
            .map(|done| rewound(&done))
            .ok_or(ToolRefusal::NotBegun)
    }

    fn store_of_before_images(&self) -> Option<&BeforeStore> {
        self.before.get().and_then(|store| store.as_ref().ok())
    }

    /// With the gate held, as for every write.
    fn changing_files<T>(
        &self,
        change: impl FnOnce(&WorkspaceFiles<'_>, &dyn Fn(&Path, Changed<'_>)) -> T,
    ) -> Result<T, ToolRefusal> {
        let gate = self.commands.gate(&self.root)?;
        let _alone = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let is_protected = |path: &Path| self.policy.protects(&path.to_string_lossy());
        let tell = |path: &Path, changed: Changed<'_>| {
            let Some(gate) = &gate else { return };
            let told = match changed {
                Changed::File { bytes, mode } => {
                    gate.add_written(path, Some(bytes.to_vec()), mode, is_protected)
                }
                Changed::Folder => gate.add_written(path, None, 0, is_protected),
                Changed::Gone => gate.add_removed(path),
            };
            if let Err(error) = told {
                tracing::warn!(%error, "recording a rewind of a protected path failed, the end of a command may undo it");
            }
        };
        Ok(change(&WorkspaceFiles::new(&self.root), &tell))
    }

    fn work_on_files(
        &self,
        arguments: &ToolArguments,
        writer: Writer<'_>,
        key: Option<&CallKey>,
        cancel: &CancellationToken,
    ) -> Result<Value, ToolRefusal> {
        let Self {
            root,
            readings,
            policy,
            limits,
            ..
        } = self;
        match arguments {
            ToolArguments::ReadFile(call) => {
                tools::read_file(root, readings, limits, call, writer.reader)
            }
            ToolArguments::WriteFile(call) => {
                if let Some(question) = self.git_question(call, writer) {
                    return Err(ToolRefusal::Asks(Box::new(question)));
                }
                self.write(key, |keeping| {
                    tools::write_file(root, readings, policy, limits, call, writer, keeping)
                })
            }
            ToolArguments::ListFiles(call) => tools::list_files(root, limits, call, cancel),
            ToolArguments::SearchInCode(call) => tools::search_in_code(root, limits, call, cancel),
            ToolArguments::CreateDirectory { path } => self.write(key, |keeping| {
                tools::create_directory(root, policy, path, keeping)
            }),
            ToolArguments::RewindFiles(asked) => self.rewind(key, asked),
            ToolArguments::ExecuteCommand(_) => {
                Err(ToolRefusal::NotOurs(Tool::ExecuteCommand.as_str()))
            }
            ToolArguments::AttemptCompletion { .. } => {
                Err(ToolRefusal::NotOurs(Tool::AttemptCompletion.as_str()))
            }
            ToolArguments::AskFollowupQuestion { .. } => {
                Err(ToolRefusal::NotOurs(Tool::AskFollowupQuestion.as_str()))
            }
            ToolArguments::SwitchMode(_) => Err(ToolRefusal::NotOurs(Tool::SwitchMode.as_str())),
            ToolArguments::Echo { .. } => Err(ToolRefusal::NotOurs(Tool::Echo.as_str())),
            ToolArguments::Calculator { .. } => {
                Err(ToolRefusal::NotOurs(Tool::Calculator.as_str()))
            }
            ToolArguments::SearchTools { .. } => {
                Err(ToolRefusal::NotOurs(Tool::SearchTools.as_str()))
            }
            ToolArguments::UseSkill { .. } => Err(ToolRefusal::NotOurs(Tool::UseSkill.as_str())),
        }
    }
}

fn rewound(done: &RewoundFiles) -> Value {
    let RewoundFiles {
        restored,
        left,
        not_covered,
    } = done;
    json!({"success": true, "restored": restored, "left": left, "not_covered": not_covered})
}
