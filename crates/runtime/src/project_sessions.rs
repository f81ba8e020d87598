//! Sessions of projects: what the server asks of the runtime for a user. An [`OwnedSession`] says
//! whose each is.

mod previews;

use std::collections::BTreeSet;
use std::sync::Arc;

use codelab_engine::{
    Budget, CallVersion, CallerAnswer, Decision, LEASE_SECONDS, ThreadPhase, WaitingWish,
};
use codelab_protocol::{
    AgentName, CallId, CallerContext, ClientId, Digest, ErrorCode, FileBase, MessageId, PlanId,
    RememberedId, SessionId, SessionKind, TurnId, UserId, WaitingInSession,
};
use codelab_store::{OpenApprovalRow, OwnedSession, WaitingSession};
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use serde_json::Value;

use crate::owner::{Accepted, Command, Mail, NewSession};
use crate::registry::SessionName;
use crate::runtime::{Runtime, SessionSummary, whole};
use crate::space::{AGENTS_PAGE, CallMode, ClientsFull, Space, SpaceKey};
use crate::user_events::{UserCursor, UserEvents, UserReader};
use crate::{Reader, RuntimeError, state};

/// Sessions that are recovered beside each other, so that their commits share transactions.
const RECOVERED_AT_ONCE: usize = 64;
/// What is listed of what waits for a user.
const MAX_WAITING: usize = 1000;

/// What became of a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResultAccepted {
    New,
    Duplicate,
}

impl Runtime {
    /// Makes a session in a project.
    pub async fn create_project_session(
        &self,
        space: SpaceKey,
        title: Option<String>,
        budget: Budget,
    ) -> Result<SessionId, RuntimeError> {
        let id = crate::ids::session_id();
        let new = NewSession {
            system_prompt: None,
            title,
            budget,
            space: Some(space),
            fork: None,
        };
        self.ask(&name(&id), |reply| Mail::Create { new, reply })
            .await?;
        Ok(id)
    }

    pub(crate) fn call_began(&self, space: &Space, id: &SessionId, mode: CallMode) {
        tracing::info!(session = %id, mode = mode.as_str(), "message accepted");
        space.call_began(mode);
        match mode {
            CallMode::Direct => self.inner.metrics.direct_calls.inc(),
            CallMode::Orchestrated => self.inner.metrics.orchestrated_calls.inc(),
        };
    }

    /// The agent that a caller names.
    pub(crate) async fn target(
        &self,
        space: &Space,
        target: &str,
    ) -> Result<AgentName, RuntimeError> {
        let team = space
            .team_snapshot()
            .await
            .map_err(RuntimeError::of_project_session)?;
        team.resolve(target.trim()).ok_or_else(|| {
            let shown: String = target.chars().take(64).collect();
            codelab_engine::Refusal::new(ErrorCode::AgentNotFound, "Agent not found")
                .with("agent", shown)
                .into()
        })
    }

    /// Whether this turn of a session has begun and waits for a slot at its agent, or for room in
    /// a budget.
    pub async fn waits_for_agent(
        &self,
        session: &OwnedSession,
        turn: TurnId,
    ) -> Result<bool, RuntimeError> {
        let Some(row) = self
            .inner
            .store
            .session(SessionKind::Project, session.id())
            .await?
        else {
            return Ok(false);
        };
        let session = crate::state_of(&row)?;
        let turn = session.turn().filter(|now| now.id == turn);
        Ok(turn.is_some_and(|turn| {
            turn.threads().any(|thread| {
                matches!(
                    thread.phase,
                    ThreadPhase::Queued | ThreadPhase::AwaitingRoom
                )
            })
        }))
    }

    pub async fn answer_question(
        &self,
        session: &OwnedSession,
        call_id: CallId,
        text: String,
    ) -> Result<Reader, RuntimeError> {
        self.submit(&name(session.id()), Command::Answer { call_id, text })
            .await
    }

    pub async fn decide_in_project(
        &self,
        session: &OwnedSession,
        call_id: CallId,
        decision: Decision,
        shown: (Option<Digest>, Option<FileBase>),
        decided_by: String,
    ) -> Result<Reader, RuntimeError> {
        self.decide_in(&name(session.id()), call_id, decision, shown, decided_by)
            .await
    }

    /// A client claims a call, or renews its claim. Returns the lease in seconds.
    pub async fn claim(
        &self,
        session: &OwnedSession,
        call_id: CallId,
        client_id: ClientId,
        version: Option<CallVersion>,
    ) -> Result<u64, RuntimeError> {
        let claim = Command::Claim {
            call_id,
            client_id: client_id.clone(),
            version,
        };
        self.by_client(session, &client_id, claim).await?;
        Ok(LEASE_SECONDS)
    }

    /// Attaches the client before its input, so that nobody takes the session from a client that
    /// has just claimed a call. A client whose input is refused is not attached.
    pub(crate) async fn by_client(
        &self,
        session: &OwnedSession,
        client: &ClientId,
        input: Command,
    ) -> Result<Accepted, RuntimeError> {
        let (runtime, space) = (self.clone(), self.space(SpaceKey::of_session(session)));
        let (id, client) = (session.id().clone(), client.clone());
        // One that hangs up meanwhile is answered as well: the owner takes or refuses what was
        // asked all the same.
        whole(async move {
            space.client_asks(&client, &id).map_err(full)?;
            let accepted = runtime.input(&name(&id), input).await;
            space.client_answered(&client, accepted.is_ok());
            accepted
        })
        .await?
    }

    pub async fn client_result(
        &self,
        session: &OwnedSession,
        call_id: CallId,
        client_id: ClientId,
        result: Value,
    ) -> Result<ResultAccepted, RuntimeError> {
        let (result, images) = crate::files::without_images(result);
        let result = Command::ToolResult {
            call_id,
            result,
            client: Some(client_id.clone()),
            images,
        };
        let accepted = self.by_client(session, &client_id, result).await?;
        Ok(match accepted.answer {
            CallerAnswer::Repeat(_) => ResultAccepted::Duplicate,
            CallerAnswer::Nothing
            | CallerAnswer::Span(_)
            | CallerAnswer::Answered(_)
            | CallerAnswer::Steers(_)
            | CallerAnswer::Now(_)
            | CallerAnswer::Claimed => ResultAccepted::New,
        })
    }

    /// A client lets go of everything it held.
    pub async fn detach_client(
        &self,
        space: &Space,
        client_id: &ClientId,
    ) -> Result<bool, RuntimeError> {
        let Some(sessions) = space.detach_client(client_id) else {
            return Ok(false);
        };
        for id in sessions {
            let gone = Command::ClientGone {
                client_id: client_id.clone(),
            };
            match self.input(&name(&id), gone).await {
                Ok(_) | Err(RuntimeError::SessionNotFound) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }

    /// Runs the tasks of an ended plan again that did not end well.
    pub async fn retry_plan(
        &self,
        session: &OwnedSession,
        plan_id: PlanId,
    ) -> Result<Reader, RuntimeError> {
        let user = SpaceKey::of_session(session).user;
        let _coming = self.inner.user_shares.turn(user, session.id())?;
        self.submit(&name(session.id()), Command::RetryPlan { plan_id })
            .await
    }

    /// Runs the last turn again, if it failed or was stopped.
    pub async fn retry_turn(
        &self,
        session: &OwnedSession,
        message_id: Option<MessageId>,
        caller: CallerContext,
    ) -> Result<Reader, RuntimeError> {
        let user = SpaceKey::of_session(session).user;
        let _coming = self.inner.user_shares.turn(user, session.id())?;
        let retry = Command::Retry { message_id, caller };
        self.submit(&name(session.id()), retry).await
    }

    /// Ends the current turn. The flag says whether there was one.
    pub async fn cancel_project_session(
        &self,
        session: &OwnedSession,
        drop_queue: bool,
    ) -> Result<(SessionSummary, bool), RuntimeError> {
        self.cancel_in(&name(session.id()), drop_queue).await
    }

    /// Sums the history up now. An event tells of the end.
    pub async fn compact_session(&self, session: &OwnedSession) -> Result<(), RuntimeError> {
        let user = SpaceKey::of_session(session).user;
        let _coming = self.inner.user_shares.turn(user, session.id())?;
        self.tell_project_session(session.id(), Command::Compact)
            .await
    }

    /// Changes what happens to a message that waits. Events tell of it.
    pub async fn change_waiting(
        &self,
        session: &OwnedSession,
        message_id: MessageId,
        wish: WaitingWish,
    ) -> Result<(), RuntimeError> {
        self.tell_project_session(session.id(), Command::ChangeWaiting { message_id, wish })
            .await
    }

    /// Takes back what a person allowed for the rest of the session.
    pub async fn revoke_remembered(
        &self,
        session: &OwnedSession,
        id: RememberedId,
        revoked_by: String,
    ) -> Result<(), RuntimeError> {
        self.tell_project_session(session.id(), Command::Revoke { id, revoked_by })
            .await
    }

    /// For the agents of this session; none: each agent's own.
    pub async fn choose_model(
        &self,
        session: &OwnedSession,
        model: Option<String>,
    ) -> Result<(), RuntimeError> {
        self.tell_project_session(session.id(), Command::ChooseModel { model })
            .await
    }

    /// Whom messages of this session go to that name nobody; none: they are planned.
    pub async fn choose_agent(
        &self,
        session: &OwnedSession,
        target: Option<String>,
    ) -> Result<(), RuntimeError> {
        let space = self.space(SpaceKey::of_session(session));
        let agent = match target {
            Some(target) => Some(self.target(&space, &target).await?),
            None => None,
        };
        self.tell_project_session(session.id(), Command::ChooseAgent { agent })
            .await
    }

    /// For a session that was found in its project.
    pub(crate) async fn tell_project_session(
        &self,
        id: &SessionId,
        input: Command,
    ) -> Result<(), RuntimeError> {
        self.input(&name(id), input).await.map(drop)
    }

    /// Really deletes the session's rows, and what agents remember of it.
    pub async fn delete_project_session(&self, session: &OwnedSession) -> Result<(), RuntimeError> {
        self.delete_session(SpaceKey::of_session(session), session.id())
            .await
    }

    /// The same, of a session that was found in its project.
    pub(crate) async fn delete_session(
        &self,
        key: SpaceKey,
        id: &SessionId,
    ) -> Result<(), RuntimeError> {
        let (runtime, id) = (self.clone(), id.clone());
        whole(async move {
            runtime
                .ask(&name(&id), |reply| Mail::Delete { hard: true, reply })
                .await?;
            if let Some(project) = runtime
                .inner
                .store
                .of(key.user)
                .project(key.project)
                .await?
            {
                let agents = project
                    .agents(AGENTS_PAGE, 0)
                    .await?
                    .0
                    .into_iter()
                    .map(|row| row.agent.name);
                runtime
                    .inner
                    .memories
                    .forget_session(key, &agents.collect::<Vec<_>>(), &id)
                    .await;
            }
            Ok(())
        })
        .await?
    }

    /// What an earlier server left of the session is recovered first.
    pub async fn touch_project_session(&self, row: &OwnedSession) -> Result<(), RuntimeError> {
        self.recover(&name(&row.session_id), row).await.map(drop)
    }

    /// The same for the sessions of these approvals, whose times it can move; whether any was
    /// recovered. One that cannot be recovered now is shown as it was left.
    pub async fn touch_sessions_of(
        &self,
        user: UserId,
        open: &[OpenApprovalRow],
    ) -> Result<bool, RuntimeError> {
        let mine = self.inner.cluster.server_id();
        let left = |approval: &&OpenApprovalRow| {
            approval.owner.as_deref() != Some(&*mine) && approval.info.expires_at.is_some()
        };
        let left = open.iter().filter(left);
        let left = left.map(|approval| approval.session_id.clone());
        self.recover_sessions(user, left.collect()).await
    }

    /// Recovers what other servers left of these sessions; whether any was.
    async fn recover_sessions(
        &self,
        user: UserId,
        left: BTreeSet<SessionId>,
    ) -> Result<bool, RuntimeError> {
        let recovered = stream::iter(left).map(async |id| {
            let Some(row) = self.inner.store.of(user).session(&id).await? else { return Ok(false) };
            match self.recover(&name(&id), &row).await {
                // Its server lives.
                Err(RuntimeError::Elsewhere) => Ok(false),
                Err(error) => {
                    tracing::warn!(session = %id, %error, "session could not be recovered, its approvals are listed as they were stored");
                    Ok(false)
                }
                recovered => recovered,
            }
        });
        let recovered: Vec<bool> = recovered
            .buffer_unordered(RECOVERED_AT_ONCE)
            .try_collect()
            .await?;
        Ok(recovered.contains(&true))
    }

    /// What waits for a user in all sessions, oldest first.
    pub async fn waiting(&self, user: UserId) -> Result<Vec<WaitingInSession>, RuntimeError> {
        let (mine, me) = (self.inner.store.of(user), self.inner.cluster.server_id());
        let (mut found, mut after) = (Vec::new(), None);
        while found.len() < MAX_WAITING {
            let mut part = mine.waiting_sessions(after).await?;
            let left = part.iter().filter(|row| row.owner.as_deref() != Some(&*me));
            let left = left.map(|row| row.session_id.clone()).collect();
            if self.recover_sessions(user, left).await? {
                part = mine.waiting_sessions(after).await?;
            }
            let Some(last) = part.last() else { break };
            after = Some(last.key);
            found.extend(part.into_iter().flat_map(waiting_in));
        }
        found.sort_by_key(|found| found.waiting.created_at);
        found.truncate(MAX_WAITING);
        Ok(found)
    }

    pub fn project_session_events(&self, row: &OwnedSession, after: u64, follow: bool) -> Reader {
        self.log_of(&name(&row.session_id), row, after, follow)
    }

    /// All sessions of a user, after the cursor or from now on. `is_merged`: events of other servers
    /// are told to [`Runtime::all_user_events`].
    pub async fn user_events(
        &self,
        user: UserId,
        after: Option<UserCursor>,
        is_merged: bool,
    ) -> Result<UserReader, RuntimeError> {
        let (events, store) = (&self.inner.user_events, &self.inner.store);
        let metrics = &self.inner.metrics;
        Ok(UserReader::open(events, store, metrics, (user, after), is_merged).await?)
    }

    /// Where the events of all users' sessions are told.
    pub fn all_user_events(&self) -> &Arc<UserEvents> {
        &self.inner.user_events
    }

    /// Whether the session is in memory here, or somebody reads its events.
    pub(crate) fn is_live_session(&self, id: &SessionId) -> bool {
        self.inner.registry.is_known(&name(id))
    }
}

pub(crate) fn name(id: &SessionId) -> SessionName {
    SessionName {
        kind: SessionKind::Project,
        id: id.clone(),
    }
}

fn waiting_in(session: WaitingSession) -> Vec<WaitingInSession> {
    let state = match state::parse(&session.state) {
        Ok(state) => state,
        Err(error) => {
            tracing::warn!(session = %session.session_id, %error, "session cannot be read, what waits in it is not listed");
            return Vec::new();
        }
    };
    let waiting = state.waiting().into_iter();
    waiting
        .map(|waiting| WaitingInSession {
            session_id: session.session_id.clone(),
            project_id: session.project_id,
            title: session.title.clone(),
            waiting,
        })
        .collect()
}

fn full(error: ClientsFull) -> RuntimeError {
    codelab_engine::Refusal::new(ErrorCode::Conflict, error.to_string()).into()
}
