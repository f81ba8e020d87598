//! The one owner of a live session: takes its inputs in order, commits, shows, performs.

mod load;
mod loaded;
mod model;
mod outside;
mod recall;

use std::sync::Arc;
use std::time::Duration;

use codelab_engine::{Answer, Budget, Downtime, Input, Session};
use codelab_protocol::{TurnId, TurnStatus};
use codelab_store::{NewSession, Realm, SessionKey, StoreError};
use futures_util::FutureExt as _;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use self::loaded::{Loaded, Moment};
pub(crate) use self::model::measured_call;
use self::model::{ModelTasks, Next};
pub(crate) use self::outside::Outside;
use crate::RuntimeError;
use crate::clock::now;
use crate::commit::{Prepared, context};
use crate::feed::Feed;
use crate::metrics::{Metrics, Mode};
use crate::registry::Name;
use crate::runtime::{Inner, SessionView};
use crate::space::{CallMode, Crew, Places, SpaceKey};

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
        new: Birth,
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

/// What a session is from its first moment on.
#[derive(Debug, Clone, Default)]
pub(crate) struct Birth {
    pub system_prompt: Option<String>,
    pub title: Option<String>,
    pub budget: Budget,
    /// Whose project it belongs to; none in the runtime realm.
    pub space: Option<SpaceKey>,
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
    mailbox: mpsc::Receiver<Box<Mail>>,
    feed: Arc<Feed>,
    loaded: Option<Loaded>,
    models: ModelTasks,
    places: Places,
    /// The turn whose time is taken.
    began: Option<(TurnId, CallMode, Instant)>,
    /// Outcomes that the database did not take yet; the others wait behind them, where they are.
    retry: Option<(Vec<Input>, Instant)>,
    /// How long nobody had the session that was claimed, until its recovery is stored.
    down: Option<Downtime>,
}

impl Owner {
    pub fn new(runtime: Arc<Inner>, name: Name, mailbox: mpsc::Receiver<Box<Mail>>, feed: Arc<Feed>) -> Self {
        Self {
            runtime,
            name,
            mailbox,
            feed,
            loaded: None,
            models: ModelTasks::default(),
            places: Places::default(),
            began: None,
            retry: None,
            down: None,
        }
    }

    /// What a step needs is boxed: most of its life an owner waits, and should take little room then.
    pub async fn run(mut self) {
        let runtime = Arc::clone(&self.runtime);
        loop {
            let live = usize::try_from(runtime.metrics.live_sessions.get()).unwrap_or(0);
            let patience = runtime.live.patience(live);
            let nothing_ends = self.models.is_empty() && self.retry.is_none();
            let idle = nothing_ends && !self.places.is_waiting();
            let space = self.loaded.as_ref().and_then(|loaded| loaded.space.clone());
            // While one outcome waits for the database, the others stay where they are.
            let retry_at = self.retry.as_ref().map(|(_, at)| *at);
            tokio::select! {
                mail = self.mailbox.recv() => match mail {
                    Some(mail) => Box::pin(self.open(*mail)).await,
                    None => break,
                },
                next = self.models.next(), if retry_at.is_none() => match next {
                    Next::Recalled(call, recalled) => Box::pin(self.call_model(call, Some(recalled))).await,
                    Next::Outcome(outcome) => {
                        runtime.failpoint.pass("model_finished");
                        let outcomes = self.models.with_others(outcome).await;
                        Box::pin(self.inside(outcomes)).await;
                    }
                },
                granted = self.places.granted(space.as_deref()), if retry_at.is_none() => {
                    let mut all = vec![granted];
                    while let Some(granted) = self.places.granted(space.as_deref()).now_or_never() {
                        all.push(granted);
                    }
                    Box::pin(self.inside(all)).await;
                }
                () = tokio::time::sleep_until(retry_at.unwrap_or_else(Instant::now)), if retry_at.is_some() => {
                    if let Some((inputs, _)) = self.retry.take() {
                        Box::pin(self.inside(inputs)).await;
                    }
                }
                // What queues for a place would not begin any more.
                () = runtime.stopping.cancelled(), if nothing_ends => break,
                () = runtime.halted.cancelled() => break,
                () = tokio::time::sleep(patience), if idle => {
                    if runtime.registry.retire(&runtime, &self.name, &self.mailbox) {
                        return;
                    }
                }
            }
            let nothing_to_own = self.loaded.is_none() && self.models.is_empty() && self.retry.is_none();
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
            Mail::Create { new, reply } => {
                let _ = reply.send(self.create(new).await);
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
        let runtime_realm = self.name.realm == Realm::Runtime;
        let creates = runtime_realm && matches!(input, Outside::UserMessage(_) | Outside::SwitchAgent(_));
        if creates
            && self.loaded.is_none()
            && self.runtime.store.refuses_one_alone()
            && let Some(taken) = self.take_as_first(input.clone()).await
        {
            return taken;
        }
        self.load(creates).await?;
        self.take_outside(input).await
    }

    /// Most messages to a session that is not in memory begin it. The commit finds out, so that they need not look first;
    /// `None` where nothing was stored because the session is there already, or because there was nothing to store.
    async fn take_as_first(&mut self, input: Outside) -> Option<Result<Taken, RuntimeError>> {
        self.loaded = Some(self.unborn(&Birth::default()));
        let taken = self.take_outside(input).await;
        if self.loaded.as_ref().is_some_and(|loaded| !loaded.new) {
            return Some(taken);
        }
        self.forget();
        match taken {
            Err(RuntimeError::NotStored(error)) if !matches!(error, StoreError::AlreadyExists) => {
                Some(Err(RuntimeError::NotStored(error)))
            }
            _ => None,
        }
    }

    async fn take_outside(&mut self, input: Outside) -> Result<Taken, RuntimeError> {
        if let Some(span) = self.repeated(&input).await? {
            return self.taken(Answer::Repeat(span));
        }
        let input = self.informed(input).await?;
        let answer = self.take(vec![input]).await?;
        self.taken(answer)
    }

    fn taken(&self, answer: Answer) -> Result<Taken, RuntimeError> {
        let loaded = self.loaded.as_ref().ok_or(RuntimeError::SessionNotFound)?;
        Ok(Taken { key: loaded.key, answer, view: SessionView::of(&loaded.session) })
    }

    /// Inputs that come from this server itself. If the database does not take them now, they are tried again.
    async fn inside(&mut self, inputs: Vec<Input>) {
        let result = match self.load(false).await {
            Ok(()) => self.take(inputs.clone()).await,
            Err(error) => Err(error),
        };
        match result {
            Ok(_) | Err(RuntimeError::Refused(_) | RuntimeError::SessionNotFound) => {}
            Err(RuntimeError::NotStored(StoreError::Conflict)) => {
                tracing::warn!(session = %self.name.id, "the session has another owner now");
            }
            Err(error) => {
                tracing::error!(session = %self.name.id, %error, "an outcome is not stored yet, trying again");
                self.retry = Some((inputs, Instant::now() + RETRY_DELAY));
            }
        }
    }

    /// Decide, commit, show, perform: in this order. Inputs that come together share a commit; the answer is the last one's.
    async fn take(&mut self, inputs: Vec<Input>) -> Result<Answer, RuntimeError> {
        let crew = self.crew().await?;
        let Some(loaded) = &mut self.loaded else { return Err(RuntimeError::SessionNotFound) };
        let moment = Moment { now: now(), stopping: self.runtime.stopping.is_cancelled() };
        let time = moment.now;
        let before = loaded.session.clone();
        let space = loaded.space.clone();
        let (mut effects, mut steps, mut activity) = (Vec::new(), Vec::new(), None);
        let mut answer = Err(RuntimeError::SessionNotFound);
        for input in inputs {
            // What the server does by itself is not the session's activity.
            let is_activity = !matches!(input, Input::Tick | Input::Recovered { .. });
            let (applied, changes) =
                loaded.apply(input, &self.runtime, crew.as_deref(), &mut self.places, &steps, moment);
            answer = match applied {
                Ok(applied) if applied.changed => {
                    effects.extend(applied.effects);
                    steps.push(changes);
                    activity = activity.or(is_activity.then_some(time));
                    Ok(applied.answer)
                }
                other => {
                    self.places.roll_back(changes, space.as_deref(), &self.name.id);
                    other.map(|applied| applied.answer).map_err(RuntimeError::from)
                }
            };
        }
        if steps.is_empty() {
            return answer;
        }
        let stored = match loaded.prepare(self.name.realm, effects, activity, time) {
            Ok(prepared) => self.store(prepared, None).await,
            Err(error) => Err(error),
        };
        match stored {
            Ok(mut prepared) => {
                if let Some(space) = &space {
                    steps.into_iter().for_each(|changes| self.places.commit(changes, space));
                }
                let calls = std::mem::take(&mut prepared.calls);
                self.show(prepared);
                if !moment.stopping {
                    self.begin_calls(calls).await;
                }
                answer
            }
            Err(error) => {
                for changes in steps.into_iter().rev() {
                    self.places.roll_back(changes, space.as_deref(), &self.name.id);
                }
                self.roll_back(before, &error);
                Err(RuntimeError::NotStored(error))
            }
        }
    }

    /// The project's agents as they are at this moment; none in the runtime realm.
    async fn crew(&self) -> Result<Option<Arc<Crew>>, RuntimeError> {
        let Some(space) = self.loaded.as_ref().and_then(|loaded| loaded.space.as_ref()) else { return Ok(None) };
        let crew = space.crew().await.map_err(RuntimeError::of_project_session)?;
        space.refresh_ledger(&crew).await.map_err(RuntimeError::of_project_session)?;
        Ok(Some(crew))
    }

    async fn store(&mut self, mut prepared: Prepared, birth: Option<&Birth>) -> Result<Prepared, StoreError> {
        let Some(loaded) = &mut self.loaded else { return Err(StoreError::NotFound) };
        if loaded.new {
            let space = birth.and_then(|birth| birth.space);
            prepared.commit.create = Some(NewSession {
                realm: self.name.realm,
                session_id: self.name.id.clone(),
                user_id: space.map(|space| space.user),
                project_id: space.map(|space| space.project),
                description: None,
                system_prompt: loaded.system_prompt.clone(),
                created_at: now(),
                owner: Some(self.runtime.server_id.clone()),
            });
            prepared.commit.title = prepared.commit.title.or_else(|| birth.and_then(|birth| birth.title.clone()));
            prepared.commit.context.get_or_insert_with(|| context(&loaded.session, now()));
        }
        let commit = std::mem::replace(&mut prepared.commit, codelab_store::Commit::new(loaded.key, loaded.epoch));
        self.runtime.failpoint.pass("before_commit");
        self.runtime.store.commit(commit).await?;
        self.runtime.failpoint.pass("after_commit");
        if std::mem::take(&mut loaded.new) {
            self.feed.opened(0, true);
        }
        Ok(prepared)
    }

    fn roll_back(&mut self, before: Session, error: &StoreError) {
        if !matches!(error, StoreError::AlreadyExists) {
            Metrics::count(&self.runtime.metrics.commit_failures, error_name(error));
        }
        let keeps = matches!(error, StoreError::DiskFull | StoreError::Unavailable(_) | StoreError::Io(_));
        match &mut self.loaded {
            Some(loaded) if keeps => loaded.session = before,
            // What is stored is not what we think: forget, and read it again when it is needed.
            _ => self.forget(),
        }
    }

    /// Drops everything that is held for the session; the store keeps it.
    fn forget(&mut self) {
        self.models = ModelTasks::default();
        self.places = Places::default();
        if let Some(space) = self.loaded.take().and_then(|loaded| loaded.space) {
            space.release_all(&self.name.id);
            space.session_works(&self.name.id, false);
        }
    }

    fn show(&mut self, prepared: Prepared) {
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
        let wanted = loaded.session.model_calls();
        let awaited: Vec<_> =
            wanted.iter().filter_map(|(call, message_id)| Some(((*message_id)?, call.attempt))).collect();
        self.feed.publish(&prepared.events, loaded.session.turn().is_none(), &awaited);
        self.models.keep_only(|id| wanted.iter().any(|(call, _)| *call == id));
        if let Some(space) = &loaded.space {
            let mut threads = loaded.session.turn().into_iter().flat_map(|turn| turn.threads());
            space.session_works(&self.name.id, threads.any(|thread| thread.phase.suspended().is_none()));
            for event in prepared.events.iter().filter(|event| event.settled.is_some_and(TurnStatus::is_end)) {
                if let Some((_, mode, began)) = self.began.take_if(|(turn, ..)| *turn == event.turn) {
                    space.call_ended(mode, began.elapsed());
                    let mode = Mode { mode: mode.as_str().to_owned() };
                    self.runtime.metrics.call_duration.get_or_create(&mode).observe(began.elapsed().as_secs_f64());
                }
            }
            if let Some(turn) = loaded.session.turn()
                && self.began.is_none_or(|(began, ..)| began != turn.id)
            {
                let mode = if turn.workflow().is_some() { CallMode::Orchestrated } else { CallMode::Direct };
                self.began = Some((turn.id, mode, Instant::now()));
            }
            self.runtime.user_events.publish(space.user(), &prepared.events);
            if prepared.remembers {
                self.runtime.memories.added();
            }
        }
        self.runtime.failpoint.pass("after_show");
    }

    async fn create(&mut self, birth: Birth) -> Result<SessionView, RuntimeError> {
        match self.load(false).await {
            Ok(()) => return Err(RuntimeError::SessionExists),
            Err(RuntimeError::SessionNotFound) => {}
            Err(error) => return Err(error),
        }
        let mut unborn = self.unborn(&birth);
        unborn.system_prompt.clone_from(&birth.system_prompt);
        self.loaded = Some(unborn);
        let Some(loaded) = &mut self.loaded else { return Err(RuntimeError::SessionNotFound) };
        let time = now();
        let prepared = loaded.prepare(self.name.realm, Vec::new(), Some(time), time)?;
        match self.store(prepared, Some(&birth)).await {
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
    }
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
