//! One step of a session: what came is decided, committed, shown and performed, in this order.

use std::sync::Arc;

use codelab_engine::{CallerAnswer, Input, Session, Turn};
use codelab_protocol::{TurnId, TurnStatus};
use codelab_store::{Commit, NewSessionRow, SessionRow, StoreError, StoredEvent};
use tokio::time::Instant;

use super::{NewSession, Owner, RETRY_DELAY, StepContext};
use crate::RuntimeError;
use crate::clock::now;
use crate::commit::{PreparedCommit, context};
use crate::metrics::{Metrics, TurnMode};
use crate::space::{CallMode, Space, TeamSnapshot};
use crate::timers::log_failure;

/// The turn whose time is measured, and since when.
#[derive(Default)]
pub(super) struct TurnTimer(Option<(TurnId, CallMode, Instant)>);

impl TurnTimer {
    /// Counts the turn that ended, and takes the time of the one that runs now.
    fn note(
        &mut self,
        metrics: &Metrics,
        space: &Space,
        events: &[Arc<StoredEvent>],
        turn: Option<&Turn>,
    ) {
        for event in events
            .iter()
            .filter(|event| event.settled.is_some_and(TurnStatus::is_end))
        {
            if let Some((_, mode, began)) = self.0.take_if(|(turn, ..)| *turn == event.turn) {
                space.call_ended(mode, began.elapsed());
                let mode = TurnMode {
                    mode: mode.as_str().to_owned(),
                };
                metrics
                    .call_duration
                    .get_or_create(&mode)
                    .observe(began.elapsed().as_secs_f64());
            }
        }
        if let Some(turn) = turn
            && self.0.is_none_or(|(began, ..)| began != turn.id)
        {
            let mode = if turn.workflow().is_some() {
                CallMode::Orchestrated
            } else {
                CallMode::Direct
            };
            self.0 = Some((turn.id, mode, Instant::now()));
        }
    }
}

/// What tells that a commit was stored.
enum CommitMark {
    /// Its newest event.
    Seq(u64),
    /// A commit without events changes the state.
    State(Option<String>),
}

impl CommitMark {
    fn of(commit: &Commit) -> Self {
        match commit.events.last() {
            Some(last) => Self::Seq(last.seq),
            None => Self::State(commit.state.clone()),
        }
    }

    fn is_in(&self, row: &SessionRow) -> bool {
        match self {
            Self::Seq(seq) => row.last_seq >= *seq,
            Self::State(state) => state.as_ref().is_none_or(|state| *state == row.state),
        }
    }
}

impl Owner {
    /// Decide, commit, show, perform: in this order. Inputs that come together share a commit; the
    /// answer is the last one's.
    pub(super) async fn take(&mut self, inputs: Vec<Input>) -> Result<CallerAnswer, RuntimeError> {
        self.take_as(inputs, None).await
    }

    /// `new_session`: what the session is that the commit makes.
    pub(super) async fn take_as(
        &mut self,
        inputs: Vec<Input>,
        new_session: Option<&NewSession>,
    ) -> Result<CallerAnswer, RuntimeError> {
        let team = self.team_snapshot().await?;
        let Some(loaded) = &mut self.loaded else {
            return Err(RuntimeError::SessionNotFound);
        };
        let feed = Arc::clone(&self.feed);
        let moment = StepContext {
            now: now(),
            stopping: self.runtime.stopping.is_cancelled(),
            feed: &feed,
        };
        let time = moment.now;
        let before = loaded.session.clone();
        let space = loaded.space.clone();
        // Before the engine looks, so that no change after its look goes unheard.
        match (&mut self.room, &space) {
            (Some(room), _) => drop(room.borrow_and_update()),
            (None, Some(space)) => self.room = Some(space.room()),
            (None, None) => {}
        }
        let (mut effects, mut steps, mut activity) = (Vec::new(), Vec::new(), None);
        let mut answer = Err(RuntimeError::SessionNotFound);
        for input in inputs {
            // What the server does by itself is not the session's activity.
            let is_activity = !matches!(
                input,
                Input::Tick
                    | Input::RoomChanged
                    | Input::CallWaits { .. }
                    | Input::ModelWaits { .. }
                    | Input::ModelHeard { .. }
                    | Input::Recovered { .. }
            );
            let (applied, changes) = loaded.apply(
                input,
                &self.runtime,
                team.as_deref(),
                &mut self.slots,
                &steps,
                moment,
            );
            answer = match applied {
                Ok(applied) if applied.changed => {
                    effects.extend(applied.effects);
                    steps.push(changes);
                    activity = activity.or(is_activity.then_some(time));
                    Ok(applied.answer)
                }
                // An input that changed nothing did nothing to the worker space either.
                other => other
                    .map(|applied| applied.answer)
                    .map_err(RuntimeError::from),
            };
        }
        if steps.is_empty() {
            return answer;
        }
        let prepared = match self.runtime.store.audit_key() {
            Ok(key) => loaded.prepare(self.name.kind, effects, key, activity, time),
            Err(error) => Err(error),
        };
        let stored = match prepared {
            Ok(prepared) => self.store(prepared, new_session).await,
            Err(error) => Err(error),
        };
        match stored {
            Ok(mut prepared) => {
                if let Some(space) = &space {
                    steps
                        .into_iter()
                        .for_each(|changes| self.slots.commit(changes, space));
                }
                let calls = std::mem::take(&mut prepared.calls);
                let tool_calls = std::mem::take(&mut prepared.tool_calls);
                let elicited = std::mem::take(&mut prepared.elicited);
                self.show(prepared);
                elicited
                    .into_iter()
                    .for_each(|answer| self.tools.answer(answer));
                if !moment.stopping {
                    self.begin_tool_calls(tool_calls);
                    self.begin_calls(calls).await;
                }
                answer
            }
            Err(error) => {
                for changes in steps.into_iter().rev() {
                    self.slots
                        .roll_back(changes, space.as_deref(), &self.name.id);
                }
                self.roll_back(before, &error);
                Err(RuntimeError::NotStored(error))
            }
        }
    }

    /// The project's agents as they are at this moment; none for a session of the runtime kind.
    pub(super) async fn team_snapshot(&self) -> Result<Option<Arc<TeamSnapshot>>, RuntimeError> {
        let Some(space) = self
            .loaded
            .as_ref()
            .and_then(|loaded| loaded.space.as_ref())
        else {
            return Ok(None);
        };
        let team = space
            .team_snapshot()
            .await
            .map_err(RuntimeError::of_project_session)?;
        space
            .refresh_ledger(&team)
            .await
            .map_err(RuntimeError::of_project_session)?;
        Ok(Some(team))
    }

    pub(super) async fn store(
        &mut self,
        mut prepared: PreparedCommit,
        new_session: Option<&NewSession>,
    ) -> Result<PreparedCommit, StoreError> {
        let Some(loaded) = &mut self.loaded else {
            return Err(StoreError::NotFound);
        };
        prepared.commit.search_user = loaded.space.as_ref().map(|space| space.user());
        if loaded.new {
            let space = new_session.and_then(|new_session| new_session.space);
            prepared.commit.create = Some(NewSessionRow {
                kind: self.name.kind,
                session_id: self.name.id.clone(),
                user_id: space.map(|space| space.user),
                project_id: space.map(|space| space.project),
                system_prompt: loaded.system_prompt.clone(),
                created_at: now(),
                owner: Some(self.run.server_id.to_string()),
            });
            if let Some(fork) = new_session.and_then(|new_session| new_session.fork.as_ref()) {
                prepared.commit.attachments_shared.clone_from(&fork.files);
            }
            prepared.commit.title = prepared
                .commit
                .title
                .or_else(|| new_session.and_then(|new_session| new_session.title.clone()));
            prepared
                .commit
                .context
                .get_or_insert_with(|| context(&loaded.session, now()));
        }
        let commit = std::mem::replace(
            &mut prepared.commit,
            codelab_store::Commit::new(loaded.key, loaded.epoch),
        );
        if !self.runtime.cluster.lease.held(&self.run).await {
            return Err(StoreError::Conflict);
        }
        self.runtime.failpoint.pass("before_commit");
        let mark = CommitMark::of(&commit);
        match self.runtime.store.commit(commit).await {
            Ok(()) => {}
            Err(StoreError::Unknown) if !loaded.new => self.find_out(&mark).await?,
            Err(error) => return Err(error),
        }
        self.runtime.failpoint.pass("after_commit");
        if let Some(loaded) = &mut self.loaded
            && std::mem::take(&mut loaded.new)
        {
            self.feed.opened(loaded.key, 0, true);
        }
        Ok(prepared)
    }

    /// Finds out whether a commit was stored whose outcome is unknown. `Unavailable` if it was not,
    /// so that the session goes on from where it stood and nothing is done twice.
    async fn find_out(&mut self, mark: &CommitMark) -> Result<(), StoreError> {
        let runtime = Arc::clone(&self.runtime);
        loop {
            if !runtime.cluster.lease.held(&self.run).await || runtime.halted.is_cancelled() {
                return Err(StoreError::Conflict);
            }
            match self.look_for(mark).await {
                Ok(true) => return Ok(()),
                Ok(false) => {
                    let why = "the connection broke before a commit was stored";
                    return Err(StoreError::Unavailable(why.to_owned()));
                }
                Err(error) if error.is_outage() => {
                    log_failure(&error, "the outcome of a commit is not known yet");
                    tokio::time::sleep(RETRY_DELAY).await;
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Whether the commit is stored. The session is claimed once more: that waits for a commit that
    /// is still under way, and afterwards none of before can come.
    async fn look_for(&mut self, mark: &CommitMark) -> Result<bool, StoreError> {
        let Some(loaded) = &mut self.loaded else {
            return Err(StoreError::NotFound);
        };
        let store = &self.runtime.store;
        let in_project = loaded.space.is_some() && self.runtime.cluster.is_among();
        let claimed = match in_project {
            true => {
                store
                    .claim_session_in_project(loaded.key, &self.run.server_id)
                    .await?
            }
            false => store.claim_session(loaded.key, &self.run.server_id).await?,
        };
        loaded.epoch = claimed.ok_or(StoreError::Conflict)?;
        let row = store.session(self.name.kind, &self.name.id).await?;
        let row = row.filter(|row| row.epoch == loaded.epoch && row.deleted_at.is_none());
        row.map(|row| mark.is_in(&row)).ok_or(StoreError::Conflict)
    }

    fn roll_back(&mut self, before: Session, error: &StoreError) {
        if !matches!(error, StoreError::AlreadyExists) {
            Metrics::count(&self.runtime.metrics.commit_failures, error_name(error));
        }
        let keeps = matches!(
            error,
            StoreError::DiskFull | StoreError::Unavailable(_) | StoreError::Io(_)
        );
        match &mut self.loaded {
            Some(loaded) if keeps => loaded.session = before,
            // What is stored is not what we think: forget, and read it again when it is needed.
            Some(_) | None => self.forget(),
        }
        if matches!(error, StoreError::Conflict) && self.runtime.cluster.is_among() {
            self.feed = self.runtime.registry.moved_away(&self.name);
        }
    }

    fn show(&mut self, prepared: PreparedCommit) {
        let Some(loaded) = &mut self.loaded else {
            return;
        };
        loaded.audit_head = prepared.audit_head;
        loaded.schedule = prepared.schedule;
        if prepared.rereads {
            loaded.recent = None;
        } else if let Some(recent) = &mut loaded.recent {
            prepared
                .messages
                .iter()
                .for_each(|message| recent.push(message, &self.runtime.prompt));
        }
        for event in &prepared.events {
            if let Some(status) = event.settled {
                let turn = event.turn;
                tracing::info!(session = %self.name.id, %turn, status = status.as_str(), "turn settled");
                Metrics::count(&self.runtime.metrics.turns, status.as_str());
                if status == TurnStatus::AwaitingApproval {
                    Metrics::count(&self.runtime.metrics.approvals, "asked");
                }
            }
        }
        let wanted = loaded.session.model_calls();
        let awaited: Vec<_> = wanted
            .iter()
            .filter_map(|(call, message_id)| Some(((*message_id)?, call.attempt)))
            .collect();
        self.feed
            .publish(&prepared.events, loaded.session.is_idle(), &awaited);
        self.models
            .keep_only(|id| wanted.iter().any(|(call, _)| *call == id));
        self.tools.keep_only(&loaded.session.tool_calls());
        if let Some(space) = &loaded.space {
            let mut threads = loaded
                .session
                .turn()
                .into_iter()
                .flat_map(|turn| turn.threads());
            space.session_works(
                &self.name.id,
                threads.any(|thread| thread.phase.suspended().is_none()),
            );
            self.runtime.user_shares.works(
                space.user(),
                &self.name.id,
                loaded.session.is_running(),
            );
            self.began.note(
                &self.runtime.metrics,
                space,
                &prepared.events,
                loaded.session.turn(),
            );
            self.runtime
                .user_events
                .publish(space.user(), loaded.key, &prepared.events);
            if prepared.remembers {
                self.runtime.memories.added();
            }
        }
        self.runtime.failpoint.pass("after_show");
    }
}

fn error_name(error: &StoreError) -> &'static str {
    match error {
        StoreError::Conflict | StoreError::AlreadyExists | StoreError::NotFound => "conflict",
        StoreError::DiskFull => "disk_full",
        StoreError::Unavailable(_) => "unavailable",
        StoreError::Unknown => "unknown",
        StoreError::Locked(_)
        | StoreError::TooNew { .. }
        | StoreError::TooOld { .. }
        | StoreError::ReadOnly
        | StoreError::Corrupt(_)
        | StoreError::Invalid(_)
        | StoreError::Overloaded(_)
        | StoreError::Io(_) => "other",
    }
}
