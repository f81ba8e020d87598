//! The one owner of a live session: takes its inputs in order, commits, shows, performs.

mod command;
mod load;
mod loaded;
mod model;
mod recall;
mod rewind;
mod step;
mod tool;

use codelab_protocol::{ClientId, SessionKind, ToolProgress};
use std::sync::Arc;
use std::time::Duration;

use codelab_engine::{Budget, CallerAnswer, Downtime, Fork, Input, ModelCallId};
use codelab_store::{SessionKey, SharedAttachment, StoreError};
use futures_util::FutureExt as _;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::Instant;

pub(crate) use self::command::Command;
use self::loaded::{LoadedSession, StepContext};
use self::model::{ModelTasks, Next};
pub(crate) use self::model::{measured_call, window_of};
pub(crate) use self::rewind::RewindAsked;
use self::step::TurnTimer;
use self::tool::ToolTasks;
pub(crate) use self::tool::{ElicitedAnswer, NamedToolCall};
use crate::RuntimeError;
use crate::clock::now;
use crate::cluster::ServerRun;
use crate::feed::Feed;
use crate::registry::SessionName;
use crate::runtime::{Inner, SessionSummary};
use crate::space::{HeldSlots, SpaceKey};

/// How long an input that nobody waits for is held back after the database refused it.
const RETRY_DELAY: Duration = Duration::from_millis(500);
/// How long the database may refuse such an input before the readers of the session hear of it.
const TELL_AFTER: Duration = Duration::from_secs(1);

pub(crate) type ReplyTo<T> = oneshot::Sender<Result<T, RuntimeError>>;

pub(crate) enum Mail {
    Input {
        input: Command,
        reply: ReplyTo<Accepted>,
    },
    /// Makes a session that has said nothing yet.
    Create {
        new: NewSession,
        reply: ReplyTo<SessionSummary>,
    },
    Delete {
        hard: bool,
        reply: ReplyTo<()>,
    },
    /// A client tells how far its call is. Nothing is stored.
    Progress {
        client_id: ClientId,
        progress: ToolProgress,
        reply: ReplyTo<()>,
    },
    /// Look whether anything is due.
    Touch {
        reply: Option<ReplyTo<()>>,
    },
}

/// What a session is from its first moment on.
#[derive(Debug, Clone, Default)]
pub(crate) struct NewSession {
    pub system_prompt: Option<String>,
    pub title: Option<String>,
    pub budget: Budget,
    /// Whose project it belongs to; none for a session of the runtime kind.
    pub space: Option<SpaceKey>,
    /// The history that it begins with.
    pub fork: Option<Box<NewFork>>,
}

/// The history of another session, and the files in it.
#[derive(Debug, Clone)]
pub(crate) struct NewFork {
    pub fork: Fork,
    pub files: Vec<SharedAttachment>,
}

/// An input that was committed.
pub(crate) struct Accepted {
    pub key: SessionKey,
    pub answer: CallerAnswer,
    pub view: SessionSummary,
}

pub(crate) struct Owner {
    runtime: Arc<Inner>,
    /// The run of the server that owns the session; the owner ends with it.
    run: Arc<ServerRun>,
    name: SessionName,
    /// Tells it from other owners of the session on this server.
    number: u64,
    mailbox: mpsc::Receiver<Box<Mail>>,
    feed: Arc<Feed>,
    loaded: Option<LoadedSession>,
    models: ModelTasks,
    tools: ToolTasks,
    slots: HeldSlots,
    /// Tells of room in the project's budget, since the last step looked.
    room: Option<watch::Receiver<()>>,
    began: TurnTimer,
    /// Outcomes that the database did not take yet; the others wait behind them, where they are.
    retry: Option<(Vec<Input>, Instant)>,
    /// Since when the database takes nothing of what came from this server itself.
    refused_since: Option<Instant>,
    /// How long nobody had the session that was claimed, until its recovery is stored.
    down: Option<Downtime>,
    /// Model calls that wait for their user's share, and whose clocks run still.
    held: Vec<ModelCallId>,
}

impl Owner {
    pub fn new(
        runtime: Arc<Inner>,
        name: SessionName,
        number: u64,
        mailbox: mpsc::Receiver<Box<Mail>>,
        feed: Arc<Feed>,
    ) -> Self {
        let run = runtime.cluster.run();
        Self {
            runtime,
            run,
            name,
            number,
            mailbox,
            feed,
            loaded: None,
            models: ModelTasks::default(),
            tools: ToolTasks::default(),
            slots: HeldSlots::default(),
            room: None,
            began: TurnTimer::default(),
            retry: None,
            refused_since: None,
            down: None,
            held: Vec::new(),
        }
    }

    /// What a step needs is boxed: most of its life an owner waits, and should take little room
    /// then.
    pub async fn run(mut self) {
        let (runtime, run) = (Arc::clone(&self.runtime), Arc::clone(&self.run));
        loop {
            if !self.held.is_empty() && self.retry.is_none() {
                let held = std::mem::take(&mut self.held).into_iter();
                Box::pin(
                    self.inside(
                        held.map(|call| Input::CallWaits { call, waits: true })
                            .collect(),
                    ),
                )
                .await;
            }
            let live = usize::try_from(runtime.metrics.live_sessions.get()).unwrap_or(0);
            let deadline = runtime.live.idle_time(live);
            let nothing_ends =
                self.models.is_empty() && self.tools.is_empty() && self.retry.is_none();
            let space = self.loaded.as_ref().and_then(|loaded| loaded.space.clone());
            let awaits_room = self
                .loaded
                .as_ref()
                .is_some_and(|loaded| loaded.session.awaits_room());
            let idle = nothing_ends && !self.slots.is_waiting() && !awaits_room;
            // While one outcome waits for the database, the others stay where they are.
            let retry_at = self.retry.as_ref().map(|(_, at)| *at);
            tokio::select! {
                mail = self.mailbox.recv() => match mail {
                    Some(mail) => Box::pin(self.open(*mail)).await,
                    None => break,
                },
                next = self.models.next(), if retry_at.is_none() => match next {
                    Next::Prepared(call, recalled) => Box::pin(self.call_model(call, recalled)).await,
                    Next::Admitted(call, recalled, slot) => {
                        Box::pin(self.inside(vec![Input::CallWaits { call: call.id, waits: false }])).await;
                        if self.wants(call.id) {
                            Box::pin(self.make_call(call, recalled, slot)).await;
                        }
                    }
                    Next::Outcome(outcome) => {
                        runtime.failpoint.pass("model_finished");
                        let outcomes = self.models.with_others(outcome).await;
                        Box::pin(self.inside(outcomes)).await;
                    }
                },
                news = self.tools.next(), if retry_at.is_none() => Box::pin(self.tool_news(news)).await,
                granted = self.slots.granted(space.as_deref()), if retry_at.is_none() => {
                    let mut all = vec![granted];
                    while let Some(granted) = self.slots.granted(space.as_deref()).now_or_never() {
                        all.push(granted);
                    }
                    Box::pin(self.inside(all)).await;
                }
                () = room_changed(&mut self.room), if awaits_room && retry_at.is_none() => {
                    Box::pin(self.inside(vec![Input::RoomChanged])).await;
                }
                () = tokio::time::sleep_until(retry_at.unwrap_or_else(Instant::now)), if retry_at.is_some() => {
                    if let Some((inputs, _)) = self.retry.take() {
                        Box::pin(self.inside(inputs)).await;
                    }
                }
                // What queues for a slot would not begin any more.
                () = runtime.stopping.cancelled(), if nothing_ends => break,
                () = runtime.halted.cancelled() => break,
                () = run.ended.cancelled() => break,
                () = tokio::time::sleep(deadline), if idle => {
                    if runtime.registry.retire(&runtime, &self.name, self.number, &self.mailbox) {
                        return;
                    }
                }
            }
            let nothing_to_own = self.loaded.is_none()
                && self.models.is_empty()
                && self.tools.is_empty()
                && self.retry.is_none();
            if nothing_to_own
                && runtime
                    .registry
                    .retire(&runtime, &self.name, self.number, &self.mailbox)
            {
                return;
            }
        }
        // Whoever still waits is told that the server stops; nothing of theirs was accepted.
        self.mailbox.close();
        while self.mailbox.try_recv().is_ok() {}
        runtime
            .registry
            .retire(&runtime, &self.name, self.number, &self.mailbox);
    }

    async fn open(&mut self, mail: Mail) {
        match mail {
            Mail::Input { input, reply } => {
                let accepted = self.handle_command(input).await;
                self.runtime.count_input(&accepted);
                // A caller that went away does not undo what was committed.
                let _ = reply.send(accepted);
            }
            Mail::Create { new, reply } => {
                let _ = reply.send(self.create(new).await);
            }
            Mail::Delete { hard, reply } => {
                let _ = reply.send(self.delete(hard).await);
            }
            Mail::Progress {
                client_id,
                progress,
                reply,
            } => {
                let _ = reply.send(self.client_progress(&client_id, progress).await);
            }
            Mail::Touch { reply } => {
                let touched = self.touch().await;
                if let (Err(error), true) = (&touched, reply.is_none())
                    && !error.is_outage()
                {
                    tracing::warn!(session = %self.name.id, %error, "due session could not be loaded");
                }
                if let Some(reply) = reply {
                    let _ = reply.send(touched);
                }
            }
        }
    }

    async fn handle_command(&mut self, input: Command) -> Result<Accepted, RuntimeError> {
        let is_runtime = self.name.kind == SessionKind::Runtime;
        let creates =
            is_runtime && matches!(input, Command::UserMessage(_) | Command::SwitchAgent(_));
        if creates
            && self.loaded.is_none()
            && self.runtime.store.refuses_one_alone()
            && let Some(accepted) = self.accept_as_first(input.clone()).await
        {
            return accepted;
        }
        self.load(creates).await?;
        self.accept_command(input).await
    }

    /// Most messages to a session that is not in memory begin it. The commit finds out, so that
    /// they need not look first; `None` where nothing was stored because the session is there
    /// already, or because there was nothing to store.
    async fn accept_as_first(&mut self, input: Command) -> Option<Result<Accepted, RuntimeError>> {
        self.loaded = Some(self.new_session(&NewSession::default()));
        let accepted = self.accept_command(input).await;
        if self.loaded.as_ref().is_some_and(|loaded| !loaded.new) {
            return Some(accepted);
        }
        self.forget();
        match accepted {
            Err(RuntimeError::NotStored(error)) if !matches!(error, StoreError::AlreadyExists) => {
                Some(Err(RuntimeError::NotStored(error)))
            }
            Ok(_) | Err(_) => None,
        }
    }

    async fn accept_command(&mut self, input: Command) -> Result<Accepted, RuntimeError> {
        if let Some(span) = self.repeated(&input).await? {
            return self.accepted(CallerAnswer::Repeat(span));
        }
        let input = self.informed(input).await?;
        let answer = self.take(vec![input]).await?;
        self.accepted(answer)
    }

    fn accepted(&self, answer: CallerAnswer) -> Result<Accepted, RuntimeError> {
        let loaded = self.loaded.as_ref().ok_or(RuntimeError::SessionNotFound)?;
        Ok(Accepted {
            key: loaded.key,
            answer,
            view: SessionSummary::of(&loaded.session),
        })
    }

    /// Inputs that come from this server itself. If the database does not take them now, they are
    /// tried again.
    async fn inside(&mut self, inputs: Vec<Input>) {
        let begun = Instant::now();
        let result = match self.load(false).await {
            Ok(()) => self.take(inputs.clone()).await,
            Err(error) => Err(error),
        };
        match result {
            Ok(_) | Err(RuntimeError::Refused(_) | RuntimeError::SessionNotFound) => {
                self.untroubled()
            }
            Err(RuntimeError::NotStored(StoreError::Conflict)) => {
                self.untroubled();
                tracing::warn!(session = %self.name.id, "session has another owner now, input dropped");
            }
            Err(error) => {
                self.not_stored(&error, begun);
                let inputs = still_true(inputs, self.loaded.is_none());
                self.retry = Some((inputs, Instant::now() + RETRY_DELAY));
            }
        }
    }

    fn untroubled(&mut self) {
        if self.refused_since.take().is_some() {
            self.feed.untroubled();
        }
    }

    /// Whoever waits for the turn is told, unless it is over in a moment.
    fn not_stored(&mut self, error: &RuntimeError, begun: Instant) {
        let since = *self.refused_since.get_or_insert(begun);
        let (RuntimeError::NotStored(error) | RuntimeError::Store(error)) = error else {
            return;
        };
        if !error.is_outage() {
            tracing::error!(session = %self.name.id, %error, "outcome could not be stored, trying again");
        }
        if since.elapsed() >= TELL_AFTER {
            self.feed.troubled(error);
        }
    }

    /// Drops everything that is held for the session; the store keeps it.
    fn forget(&mut self) {
        self.models = ModelTasks::default();
        self.tools = ToolTasks::default();
        self.slots = HeldSlots::default();
        self.room = None;
        if let Some((inputs, at)) = self.retry.take() {
            self.retry = Some((still_true(inputs, true), at));
        }
        if let Some(space) = self.loaded.take().and_then(|loaded| loaded.space) {
            space.release_all(&self.name.id);
            space.session_works(&self.name.id, false);
            self.runtime
                .user_shares
                .works(space.user(), &self.name.id, false);
        }
    }

    async fn create(&mut self, new_session: NewSession) -> Result<SessionSummary, RuntimeError> {
        match self.load(false).await {
            Ok(()) => return Err(RuntimeError::SessionExists),
            Err(RuntimeError::SessionNotFound) => {}
            Err(error) => return Err(error),
        }
        let mut fresh = self.new_session(&new_session);
        fresh.system_prompt.clone_from(&new_session.system_prompt);
        self.loaded = Some(fresh);
        let Some(loaded) = &mut self.loaded else {
            return Err(RuntimeError::SessionNotFound);
        };
        let stored = match &new_session.fork {
            Some(new) => {
                let fork = Input::Fork(Box::new(new.fork.clone()));
                self.take_as(vec![fork], Some(&new_session)).await.map(drop)
            }
            None => {
                let time = now();
                let key = self.runtime.store.audit_key()?;
                let prepared = loaded.prepare(self.name.kind, Vec::new(), key, Some(time), time)?;
                let stored = self.store(prepared, Some(&new_session)).await;
                stored.map(drop).map_err(RuntimeError::NotStored)
            }
        };
        if let Err(error) = stored {
            self.loaded = None;
            return Err(match error {
                RuntimeError::NotStored(StoreError::AlreadyExists) => RuntimeError::SessionExists,
                error => error,
            });
        }
        let Some(loaded) = &self.loaded else {
            return Err(RuntimeError::SessionNotFound);
        };
        Ok(SessionSummary::of(&loaded.session))
    }

    async fn delete(&mut self, hard: bool) -> Result<(), RuntimeError> {
        let store = self.runtime.store.clone();
        let row = store
            .session(self.name.kind, &self.name.id)
            .await?
            .ok_or(RuntimeError::SessionNotFound)?;
        if row.deleted_at.is_none() {
            match self.load(false).await {
                Ok(()) => drop(self.take(vec![Input::Cancel { drop_queue: true }]).await?),
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
        self.forget();
        self.feed.close();
        Ok(())
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        self.forget();
        self.runtime.registry.owner_left(&self.feed);
    }
}

/// Waits until more may be left of the project's budget; for ever where nobody tells.
async fn room_changed(room: &mut Option<watch::Receiver<()>>) {
    let told = match room {
        Some(room) => room.changed().await.is_ok(),
        None => false,
    };
    if !told {
        std::future::pending().await
    }
}

/// A session that was forgotten has given its slots back, and asks for them again when it is read.
fn still_true(mut inputs: Vec<Input>, forgotten: bool) -> Vec<Input> {
    inputs.retain(|input| {
        !forgotten || !matches!(input, Input::SlotGranted { .. } | Input::SlotLost { .. })
    });
    inputs
}

#[cfg(test)]
mod tests {
    use codelab_engine::Lane;
    use codelab_protocol::AgentStatus;

    use super::*;

    #[test]
    fn a_place_that_was_given_back_is_not_granted_again() {
        let inputs = || {
            vec![
                Input::SlotGranted {
                    lane: Lane::OWN,
                    status: AgentStatus::Processing,
                },
                Input::Tick,
            ]
        };
        assert_eq!(still_true(inputs(), false).len(), 2);
        assert!(matches!(
            still_true(inputs(), true).as_slice(),
            [Input::Tick]
        ));
    }
}
