//! The one owner of a live session: takes its inputs in order, commits, shows, performs.

mod load;
mod model;

use std::sync::Arc;
use std::time::Duration;

use codelab_engine::{
    Answer, Applied, Decision, Effect, Input, KnownApproval, KnownCall, Phase, Refusal, Session, Span, UserMessage,
    World,
};
use codelab_protocol::{AgentName, CallId, Digest, Timestamp, TurnStatus};
use codelab_store::{AuditHead, Epoch, NewSession, Realm, Schedule, SessionKey, StoreError, ToolCallStatus};
use serde_json::Value;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use self::model::ModelTask;
use crate::RuntimeError;
use crate::clock::now;
use crate::commit::{After, Prepared, Standing, context, prepare};
use crate::feed::Feed;
use crate::history::Recent;
use crate::ids::RandomIds;
use crate::metrics::Metrics;
use crate::registry::Name;
use crate::runtime::{Inner, SessionView};

/// How long an input that nobody waits for is held back after the database refused it.
const RETRY_DELAY: Duration = Duration::from_millis(500);

pub(crate) type Reply<T> = oneshot::Sender<Result<T, RuntimeError>>;

pub(crate) enum Mail {
    Input {
        input: Outside,
        reply: Reply<Taken>,
    },
    /// Makes a session that has said nothing yet.
    Create {
        system_prompt: Option<String>,
        reply: Reply<SessionView>,
    },
    Delete {
        hard: bool,
        reply: Reply<()>,
    },
    /// Look whether anything is due.
    Touch {
        reply: Option<Reply<()>>,
    },
}

/// What comes from outside; the owner adds what the store knows.
#[derive(Clone)]
pub(crate) enum Outside {
    UserMessage(UserMessage),
    SwitchAgent(AgentName),
    ToolResult { call_id: CallId, result: Value },
    Decision { call_id: CallId, decision: Decision, digest: Option<Digest>, decided_by: String },
    Cancel { drop_queue: bool },
    Reset,
}

/// An input that was committed.
pub(crate) struct Taken {
    pub key: SessionKey,
    pub answer: Answer,
    pub view: SessionView,
}

pub(crate) struct Owner {
    runtime: Arc<Inner>,
    name: Name,
    mailbox: mpsc::Receiver<Mail>,
    feed: Arc<Feed>,
    loaded: Option<Loaded>,
    model: Option<ModelTask>,
    /// An outcome that the database did not take yet.
    retry: Option<(Input, Instant)>,
}

/// The session as far as it is in memory.
pub(crate) struct Loaded {
    key: SessionKey,
    epoch: Epoch,
    session: Session,
    system_prompt: Option<String>,
    audit_head: AuditHead,
    schedule: Schedule,
    recent: Option<Recent>,
    /// Not in the store yet; the first commit makes it.
    new: bool,
}

impl Owner {
    pub fn new(runtime: Arc<Inner>, name: Name, mailbox: mpsc::Receiver<Mail>, feed: Arc<Feed>) -> Self {
        Self { runtime, name, mailbox, feed, loaded: None, model: None, retry: None }
    }

    pub async fn run(mut self) {
        let runtime = Arc::clone(&self.runtime);
        loop {
            let patience = Duration::from_millis(runtime.live.idle_ms);
            let idle = self.model.is_none() && self.retry.is_none();
            let retry_at = self.retry.as_ref().map(|(_, at)| *at);
            tokio::select! {
                mail = self.mailbox.recv() => match mail {
                    Some(mail) => self.open(mail).await,
                    None => break,
                },
                outcome = ModelTask::finished(&mut self.model) => {
                    self.model = None;
                    runtime.failpoint.pass("model_finished");
                    self.inside(outcome).await;
                }
                () = tokio::time::sleep_until(retry_at.unwrap_or_else(Instant::now)), if retry_at.is_some() => {
                    if let Some((input, _)) = self.retry.take() {
                        self.inside(input).await;
                    }
                }
                () = runtime.stopping.cancelled(), if idle => break,
                () = runtime.halted.cancelled() => break,
                () = tokio::time::sleep(patience), if idle => {
                    if runtime.registry.retire(&runtime, &self.name, &self.mailbox) {
                        return;
                    }
                }
            }
            let nothing_to_own = self.loaded.is_none() && self.model.is_none() && self.retry.is_none();
            if nothing_to_own && runtime.registry.retire(&runtime, &self.name, &self.mailbox) {
                return;
            }
        }
        // Whoever still waits is told that the server stops; nothing of theirs was taken.
        self.mailbox.close();
        while self.mailbox.try_recv().is_ok() {}
        runtime.registry.retire(&runtime, &self.name, &self.mailbox);
    }

    async fn open(&mut self, mail: Mail) {
        match mail {
            Mail::Input { input, reply } => {
                let taken = self.outside(input).await;
                self.runtime.count_input(&taken);
                // A caller that went away does not undo what was committed.
                let _ = reply.send(taken);
            }
            Mail::Create { system_prompt, reply } => {
                let _ = reply.send(self.create(system_prompt).await);
            }
            Mail::Delete { hard, reply } => {
                let _ = reply.send(self.delete(hard).await);
            }
            Mail::Touch { reply } => {
                let touched = self.touch().await;
                if let (Err(error), true) = (&touched, reply.is_none()) {
                    tracing::warn!(session = %self.name.id, %error, "a due session could not be looked at");
                }
                if let Some(reply) = reply {
                    let _ = reply.send(touched);
                }
            }
        }
    }

    async fn outside(&mut self, input: Outside) -> Result<Taken, RuntimeError> {
        let creates = matches!(input, Outside::UserMessage(_) | Outside::SwitchAgent(_));
        self.load(creates).await?;
        if let Some(span) = self.repeated(&input).await? {
            return self.taken(Answer::Span(span));
        }
        let input = self.informed(input).await?;
        let answer = self.take(input).await?;
        self.taken(answer)
    }

    fn taken(&self, answer: Answer) -> Result<Taken, RuntimeError> {
        let loaded = self.loaded.as_ref().ok_or(RuntimeError::SessionNotFound)?;
        Ok(Taken { key: loaded.key, answer, view: SessionView::of(&loaded.session) })
    }

    /// The span of an earlier message with the same `client_message_id`.
    async fn repeated(&self, input: &Outside) -> Result<Option<Span>, RuntimeError> {
        let (Outside::UserMessage(message), Some(loaded)) = (input, &self.loaded) else { return Ok(None) };
        let Some(id) = message.client_message_id.as_ref().filter(|_| !loaded.new) else { return Ok(None) };
        let known = self.runtime.store.input(loaded.key, id).await?;
        Ok(known.map(|input| Span { turn: input.turn, after_seq: input.after_seq }))
    }

    /// Adds what the store knows of calls and approvals that are not open any more.
    async fn informed(&self, input: Outside) -> Result<Input, RuntimeError> {
        let Some(loaded) = &self.loaded else { return Err(RuntimeError::SessionNotFound) };
        let store = &self.runtime.store;
        Ok(match input {
            Outside::UserMessage(message) => Input::UserMessage(message),
            Outside::SwitchAgent(agent) => Input::SwitchAgent { agent },
            Outside::ToolResult { call_id, result } => {
                let known = match loaded.holds(&call_id) {
                    true => None,
                    false => store.tool_call(loaded.key, &call_id).await?.map(known_call),
                };
                Input::ToolResult { call_id, result, known }
            }
            Outside::Decision { call_id, decision, digest, decided_by } => {
                let known = match loaded.session.pending_approval().is_some_and(|open| open.call_id == call_id) {
                    true => None,
                    false => store.approval(loaded.key, &call_id).await?.and_then(|row| known_approval(row.status)),
                };
                Input::Decision { call_id, decision, digest, decided_by, known }
            }
            Outside::Cancel { drop_queue } => Input::Cancel { drop_queue },
            Outside::Reset => Input::Reset,
        })
    }

    /// An input that comes from this server itself. If the database does not take it now, it is tried again.
    async fn inside(&mut self, input: Input) {
        let result = match self.load(false).await {
            Ok(()) => self.take(input.clone()).await,
            Err(error) => Err(error),
        };
        match result {
            Ok(_) | Err(RuntimeError::Refused(_) | RuntimeError::SessionNotFound) => {}
            Err(RuntimeError::NotStored(StoreError::Conflict)) => {
                tracing::warn!(session = %self.name.id, "the session has another owner now");
            }
            Err(error) => {
                tracing::error!(session = %self.name.id, %error, "an outcome is not stored yet, trying again");
                self.retry = Some((input, Instant::now() + RETRY_DELAY));
            }
        }
    }

    /// Decide, commit, show, perform: in this order.
    async fn take(&mut self, input: Input) -> Result<Answer, RuntimeError> {
        let Some(loaded) = &mut self.loaded else { return Err(RuntimeError::SessionNotFound) };
        let time = now();
        // What the server does by itself is not the session's activity.
        let activity = !matches!(input, Input::Tick | Input::Recovered { .. });
        let before = loaded.session.clone();
        let applied = loaded.apply(input, &self.runtime, time)?;
        if !applied.changed {
            return Ok(applied.answer);
        }
        let stored = match loaded.prepare(self.name.realm, applied.effects, activity.then_some(time), time) {
            Ok(prepared) => self.store(prepared).await,
            Err(error) => Err(error),
        };
        match stored {
            Ok(prepared) => {
                self.show(prepared).await;
                Ok(applied.answer)
            }
            Err(error) => {
                self.roll_back(before, &error);
                Err(RuntimeError::NotStored(error))
            }
        }
    }

    async fn store(&mut self, mut prepared: Prepared) -> Result<Prepared, StoreError> {
        let Some(loaded) = &mut self.loaded else { return Err(StoreError::NotFound) };
        if loaded.new {
            prepared.commit.create = Some(NewSession {
                realm: self.name.realm,
                session_id: self.name.id.clone(),
                user_id: None,
                project_id: None,
                description: None,
                system_prompt: loaded.system_prompt.clone(),
                created_at: now(),
                owner: Some(self.runtime.server_id.clone()),
            });
            prepared.commit.context.get_or_insert_with(|| context(&loaded.session, now()));
        }
        let commit = std::mem::replace(&mut prepared.commit, codelab_store::Commit::new(loaded.key, loaded.epoch));
        self.runtime.failpoint.pass("before_commit");
        self.runtime.store.commit(commit).await?;
        self.runtime.failpoint.pass("after_commit");
        loaded.new = false;
        Ok(prepared)
    }

    fn roll_back(&mut self, before: Session, error: &StoreError) {
        Metrics::count(&self.runtime.metrics.commit_failures, error_name(error));
        let keeps = matches!(error, StoreError::DiskFull | StoreError::Unavailable(_) | StoreError::Io(_));
        match &mut self.loaded {
            Some(loaded) if keeps => loaded.session = before,
            // What is stored is not what we think: forget, and read it again when it is needed.
            _ => {
                self.model = None;
                self.loaded = None;
            }
        }
    }

    async fn show(&mut self, prepared: Prepared) {
        let Some(loaded) = &mut self.loaded else { return };
        loaded.audit_head = prepared.audit_head;
        loaded.schedule = prepared.schedule;
        if let Some(recent) = &mut loaded.recent {
            prepared.messages.iter().for_each(|message| recent.push(message, &self.runtime.prompt));
        }
        for event in &prepared.events {
            if let Some(status) = event.settled {
                let turn = event.turn;
                tracing::info!(session = %self.name.id, %turn, status = status.as_str(), "turn");
                Metrics::count(&self.runtime.metrics.turns, status.as_str());
                if status == TurnStatus::AwaitingApproval {
                    Metrics::count(&self.runtime.metrics.approvals, "asked");
                }
            }
        }
        let awaited = match loaded.session.turn().map(|turn| &turn.phase) {
            Some(Phase::Thinking { message_id, attempt }) => Some((message_id, *attempt)),
            _ => None,
        };
        self.feed.publish(&prepared.events, loaded.session.turn().is_none(), awaited);
        self.runtime.failpoint.pass("after_show");
        for after in prepared.after {
            match after {
                After::AbortModel => self.model = None,
                After::CallModel(call) => self.call_model(call).await,
            }
        }
    }

    async fn create(&mut self, system_prompt: Option<String>) -> Result<SessionView, RuntimeError> {
        match self.load(false).await {
            Ok(()) => return Err(RuntimeError::SessionExists),
            Err(RuntimeError::SessionNotFound) => {}
            Err(error) => return Err(error),
        }
        self.load(true).await?;
        let Some(loaded) = &mut self.loaded else { return Err(RuntimeError::SessionNotFound) };
        loaded.system_prompt = system_prompt;
        let time = now();
        let prepared = loaded.prepare(self.name.realm, Vec::new(), Some(time), time)?;
        match self.store(prepared).await {
            Ok(_) => {}
            Err(error) => {
                self.loaded = None;
                return Err(match error {
                    StoreError::AlreadyExists => RuntimeError::SessionExists,
                    error => RuntimeError::NotStored(error),
                });
            }
        }
        let Some(loaded) = &self.loaded else { return Err(RuntimeError::SessionNotFound) };
        Ok(SessionView::of(&loaded.session))
    }

    async fn delete(&mut self, hard: bool) -> Result<(), RuntimeError> {
        let store = self.runtime.store.clone();
        let row = store.session(self.name.realm, &self.name.id).await?.ok_or(RuntimeError::SessionNotFound)?;
        if row.deleted_at.is_none() {
            match self.load(false).await {
                Ok(()) => drop(self.take(Input::Cancel { drop_queue: true }).await?),
                // A session that cannot be read can still be deleted.
                Err(RuntimeError::Store(StoreError::Corrupt(_))) => {}
                Err(error) => return Err(error),
            }
        } else if !hard {
            return Err(RuntimeError::SessionNotFound);
        }
        match hard {
            true => store.purge(row.key).await?,
            false => store.soft_delete(row.key, now()).await?,
        }
        self.model = None;
        self.loaded = None;
        self.feed.close();
        Ok(())
    }
}

impl Loaded {
    fn apply(&mut self, input: Input, runtime: &Inner, now: Timestamp) -> Result<Applied, Refusal> {
        let mut world =
            World { now, ids: &mut RandomIds, team: &runtime.team, limits: &runtime.limits, policy: &runtime.policy };
        self.session.apply(input, &mut world)
    }

    fn prepare(
        &self,
        realm: Realm,
        effects: Vec<Effect>,
        activity: Option<Timestamp>,
        now: Timestamp,
    ) -> Result<Prepared, StoreError> {
        let standing =
            Standing { key: self.key, epoch: self.epoch, realm, schedule: self.schedule, audit_head: &self.audit_head };
        prepare(&self.session, effects, &standing, activity, now)
            .map_err(|error| StoreError::Invalid(format!("a state could not be written: {error}")))
    }

    /// Whether the current turn still holds this call.
    fn holds(&self, call_id: &CallId) -> bool {
        match self.session.turn().map(|turn| &turn.phase) {
            Some(Phase::AwaitingResult { call, .. } | Phase::AwaitingApproval { call, .. }) => call.call_id == *call_id,
            Some(Phase::AwaitingAnswer { call_id: asked }) => asked == call_id,
            _ => false,
        }
    }
}

fn known_call(row: codelab_store::ToolCallRow) -> KnownCall {
    use codelab_engine::CallStatus;
    let status = match row.status {
        ToolCallStatus::Open => CallStatus::Open,
        ToolCallStatus::Completed => CallStatus::Finished,
        ToolCallStatus::Rejected => CallStatus::Rejected,
        ToolCallStatus::Cancelled => CallStatus::Cancelled,
        ToolCallStatus::Unknown => CallStatus::TimedOut,
    };
    let span = row.after_seq.map(|after_seq| Span { turn: row.turn, after_seq });
    KnownCall { status, result_digest: row.result_digest, span }
}

fn known_approval(status: codelab_store::ApprovalStatus) -> Option<KnownApproval> {
    use codelab_engine::ApprovalStatus;
    use codelab_store::ApprovalStatus as Stored;
    let status = match status {
        Stored::Pending => return None,
        Stored::Approved => ApprovalStatus::Approved,
        Stored::Edited => ApprovalStatus::Edited,
        Stored::Rejected => ApprovalStatus::Rejected,
        Stored::Expired => ApprovalStatus::Expired,
        Stored::Cancelled => ApprovalStatus::Cancelled,
    };
    Some(KnownApproval { status })
}

fn error_name(error: &StoreError) -> &'static str {
    match error {
        StoreError::Conflict | StoreError::AlreadyExists | StoreError::NotFound => "conflict",
        StoreError::DiskFull => "disk_full",
        StoreError::Unavailable(_) => "unavailable",
        StoreError::Unknown => "unknown",
        _ => "other",
    }
}
