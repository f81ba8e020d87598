//! Follows the events of the user's sessions: accepts calls that wait for a tool runner, stops calls
//! that the server closed. After a reconnect it continues after the last event. Where it has none, or
//! could not do what the events asked for, it reads the logs of the sessions, so that no call is
//! missed.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use codelab_client::{Backoff, ClientError, EventData, EventStream};
use codelab_protocol::{
    ApprovalRequest, AttachedClient, CallId, ChangeProjectSession, Patch, SessionEvent,
    SessionEventBody, SessionId, ToolCallEvent,
};
use codelab_workspace::CallKey;
use tokio::time::sleep;

use super::{RunnerState, ServedCalls, ToolRunnerEvent, lock};

/// The server detaches a client after 60 s without a request.
const ATTACH_EVERY: Duration = Duration::from_secs(20);
/// Sessions whose logs are read at once, newest activity first.
const MAX_CAUGHT_UP: u64 = 50;
/// Sessions whose project is cached.
const MAX_KNOWN_SESSIONS: usize = 10_000;

/// Cache: whether a session belongs to this project.
#[derive(Default)]
struct Known(HashMap<SessionId, bool>);

pub(super) async fn stay_attached(shared: Arc<RunnerState>) {
    loop {
        sleep(ATTACH_EVERY).await;
        if let Err(error) = shared.attach().await {
            tracing::debug!(%error, "renewing the attachment of the tool runner failed");
        }
    }
}

/// Returns when the server refuses this client permanently.
pub(super) async fn follow(shared: Arc<RunnerState>) {
    let backoff = Backoff::default();
    let mut known = Known::default();
    let (mut failures, mut is_lost) = (0, false);
    // The id of the last event that was handled.
    let mut last = None;
    loop {
        let lost = match connect(&shared, last.as_deref()).await {
            Ok(stream) => {
                failures = 0;
                if std::mem::take(&mut is_lost) {
                    shared.emit(ToolRunnerEvent::Reconnected);
                }
                listen(&shared, stream, &mut known, &mut last).await
            }
            // The server does not know this id: it is of another version or another database.
            Err(error) if error.status() == Some(422) && last.is_some() => {
                last = None;
                continue;
            }
            Err(error) => error,
        };
        if !lost.is_passing() {
            shared.emit(ToolRunnerEvent::Ended {
                reason: lost.to_string(),
            });
            return;
        }
        if !std::mem::replace(&mut is_lost, true) {
            shared.emit(ToolRunnerEvent::Disconnected {
                reason: lost.to_string(),
            });
        }
        sleep(backoff.delay(failures)).await;
        failures = failures.saturating_add(1);
    }
}

/// Subscribes before it reads the logs, so that no call is missed in between.
async fn connect(
    shared: &RunnerState,
    after: Option<&str>,
) -> Result<EventStream<SessionEvent>, ClientError> {
    let stream = shared.client.user_events(after).await?;
    shared.attach().await?;
    Ok(stream)
}

async fn listen(
    shared: &Arc<RunnerState>,
    mut stream: EventStream<SessionEvent>,
    known: &mut Known,
    last: &mut Option<String>,
) -> ClientError {
    let has_unclaimed = shared.has_unclaimed.swap(false, Ordering::AcqRel);
    if (last.is_none() || has_unclaimed)
        && let Err(error) = catch_up(shared, known).await
    {
        // What this did not read has to be read at the next attempt.
        shared.has_unclaimed.store(true, Ordering::Release);
        return error;
    }
    loop {
        match stream.next().await {
            Some(Ok(event)) => {
                if let EventData::Chunk(event) = event.data
                    && let Err(error) = handle(shared, event, known).await
                {
                    return error;
                }
                *last = stream.last_id().map(str::to_owned);
            }
            Some(Err(error)) => return error,
            None => return ClientError::Cut("the stream of events ended".to_owned()),
        }
    }
}

async fn handle(
    shared: &Arc<RunnerState>,
    event: SessionEvent,
    known: &mut Known,
) -> Result<(), ClientError> {
    let session = event.session_id;
    match event.body {
        // `serve` reads the log of a session that is named later.
        SessionEventBody::ToolCall(call)
            if !call.call.requires_approval
                && shared.may_serve(&session)
                && known.is_ours(shared, &session).await? =>
        {
            shared.offer(&session, *call);
        }
        SessionEventBody::ApprovalRequest(request)
            if shared.may_serve(&session) && known.is_ours(shared, &session).await? =>
        {
            shared.watch(&session, *request);
        }
        SessionEventBody::ApprovalResolved(resolved) => {
            shared.unwatch(&session, &resolved.call_id);
        }
        SessionEventBody::MessageCreated(created) => {
            if let Some(question) = &created.message.answers {
                let answer = Some(created.message.content.as_str());
                shared.answers.arrived(&session, question, answer);
            }
            if shared.approve.is_some()
                && shared.may_serve(&session)
                && known.is_ours(shared, &session).await?
                && shared.will_serve(&session).await
            {
                shared.tell_approve(&session).await;
            }
        }
        SessionEventBody::ToolCallClosed(closed) => {
            shared.answers.arrived(&session, &closed.call_id, None);
            shared.unwatch(&session, &closed.call_id);
            shared.stop_call(&CallKey {
                session_id: session,
                call_id: closed.call_id,
            });
        }
        // Events of this session were left out, so its log is read.
        SessionEventBody::Gap(_)
            if shared.may_serve(&session) && known.is_ours(shared, &session).await? =>
        {
            read_session(shared, &session).await?;
        }
        _ => {}
    }
    Ok(())
}

/// Offers the calls that wait, whenever they came.
async fn catch_up(shared: &Arc<RunnerState>, known: &mut Known) -> Result<(), ClientError> {
    let sessions = shared
        .client
        .project_sessions(Some(shared.project), Some(MAX_CAUGHT_UP), None)
        .await?
        .sessions;
    for session in sessions {
        known.remember(&session.session_id, true);
        if !shared.may_serve(&session.session_id) {
            continue;
        }
        match read_session(shared, &session.session_id).await {
            // One unreadable session must not stop the others.
            Err(ClientError::Invalid(why)) => {
                tracing::warn!(session = %session.session_id, why, "session skipped, its log cannot be read");
            }
            looked => looked?,
        }
    }
    Ok(())
}

/// Offers the waiting calls of a session that was passed to `serve`.
pub(super) async fn catch_up_with(shared: Arc<RunnerState>, session: SessionId) {
    if let Err(error) = read_session(&shared, &session).await {
        tracing::debug!(%error, %session, "reading the session's log failed, it is read again after a reconnect");
    }
}

async fn read_session(shared: &Arc<RunnerState>, session: &SessionId) -> Result<(), ClientError> {
    // Calls that start while the log is read are not in it, so they are not in this list.
    let running = shared.running_of(session);
    let detail = match shared.client.project_session(session).await {
        Ok(detail) => detail,
        Err(error) if error.status() == Some(404) => return Ok(()),
        Err(error) => return Err(error),
    };
    let OpenCalls { open, asked } = if detail.busy {
        open_calls(shared, session).await?
    } else {
        OpenCalls::default()
    };
    shared.stop_all_except(&running, &open);
    shared.unwatch_all_except(session, &asked);
    for call in open.into_values() {
        shared.offer(session, call);
    }
    for request in asked.into_values() {
        shared.watch(session, request);
    }
    Ok(())
}

/// The calls of a session that wait for a tool runner, and those that wait for a person.
#[derive(Default)]
struct OpenCalls {
    open: BTreeMap<CallId, ToolCallEvent>,
    asked: BTreeMap<CallId, ApprovalRequest>,
}

async fn open_calls(shared: &RunnerState, session: &SessionId) -> Result<OpenCalls, ClientError> {
    let mut events = shared
        .client
        .project_session_events(session, None, false)
        .await?;
    let OpenCalls {
        mut open,
        mut asked,
    } = OpenCalls::default();
    while let Some(event) = events.next().await {
        let EventData::Chunk(event) = event?.data else {
            continue;
        };
        match event.body {
            SessionEventBody::ToolCall(call) if !call.call.requires_approval => {
                open.insert(call.call.tool_call.call_id.clone(), *call);
            }
            // A call can be asked about again after it was approved.
            SessionEventBody::ApprovalRequest(request) => {
                let id = request.approval.call_id.clone();
                open.remove(&id);
                asked.insert(id, *request);
            }
            SessionEventBody::ApprovalPreview(shown) => {
                if let Some(request) = asked.get_mut(&shown.call_id) {
                    request.approval.preview = Some(Box::new(shown.preview));
                }
            }
            SessionEventBody::ApprovalResolved(resolved) => {
                asked.remove(&resolved.call_id);
            }
            SessionEventBody::ToolResult(result) => {
                open.remove(&result.call_id);
            }
            SessionEventBody::ToolCallClosed(closed) => {
                open.remove(&closed.call_id);
                asked.remove(&closed.call_id);
                shared.answers.arrived(session, &closed.call_id, None);
            }
            SessionEventBody::MessageCreated(created) => {
                if let Some(question) = &created.message.answers {
                    let answer = Some(created.message.content.as_str());
                    shared.answers.arrived(session, question, answer);
                }
            }
            _ => {}
        }
    }
    Ok(OpenCalls { open, asked })
}

impl RunnerState {
    fn may_serve(&self, session: &SessionId) -> bool {
        self.serves == ServedCalls::Project || lock(&self.served).contains(session)
    }

    fn stop_call(&self, key: &CallKey) {
        if let Some(known) = lock(&self.running).get(key) {
            known.stop.cancel();
        }
    }

    /// Stops calls that run here and that the server closed while the connection was lost.
    fn stop_all_except(&self, running: &[CallKey], open: &BTreeMap<CallId, ToolCallEvent>) {
        for key in running
            .iter()
            .filter(|key| !open.contains_key(&key.call_id))
        {
            self.stop_call(key);
        }
    }

    fn running_of(&self, session: &SessionId) -> Vec<CallKey> {
        lock(&self.running)
            .keys()
            .filter(|key| key.session_id == *session)
            .cloned()
            .collect()
    }
}

impl Known {
    async fn is_ours(
        &mut self,
        shared: &RunnerState,
        session: &SessionId,
    ) -> Result<bool, ClientError> {
        if let Some(&is_ours) = self.0.get(session) {
            return Ok(is_ours);
        }
        let is_ours = match shared.client.project_session(session).await {
            Ok(detail) => detail.session.project_id == shared.project,
            Err(error) if error.status() == Some(404) => return Ok(false),
            Err(ClientError::Invalid(why)) => {
                tracing::warn!(%session, why, "session skipped, its log cannot be read");
                return Ok(false);
            }
            Err(error) => return Err(error),
        };
        self.remember(session, is_ours);
        Ok(is_ours)
    }

    fn remember(&mut self, session: &SessionId, is_ours: bool) {
        if self.0.len() >= MAX_KNOWN_SESSIONS {
            self.0.clear();
        }
        self.0.insert(session.clone(), is_ours);
    }
}

impl RunnerState {
    /// Ends watching what was decided while the connection was lost.
    fn unwatch_all_except(&self, session: &SessionId, asked: &BTreeMap<CallId, ApprovalRequest>) {
        let decided =
            |key: &&CallKey| key.session_id == *session && !asked.contains_key(&key.call_id);
        let decided: Vec<CallKey> = lock(&self.watched)
            .keys()
            .filter(decided)
            .cloned()
            .collect();
        for key in decided {
            self.unwatch(session, &key.call_id);
        }
    }
}

impl RunnerState {
    /// Whether the calls of the session come here. Where several clients are attached, that is known
    /// after the first one.
    async fn will_serve(&self, session: &SessionId) -> bool {
        if lock(&self.served).contains(session) {
            return true;
        }
        let others = |client: &AttachedClient| client.present && client.client_id != self.client_id;
        match self.client.clients(self.project).await {
            Ok(clients) => !clients.iter().any(others),
            Err(error) => {
                tracing::debug!(%error, "the clients of the project are not known");
                false
            }
        }
    }

    /// The person at this machine said what passes in the sessions that are served here.
    pub(crate) async fn tell_approve(&self, session: &SessionId) {
        let Some(mode) = self.approve else { return };
        {
            let mut told = lock(&self.told);
            if told.len() >= MAX_KNOWN_SESSIONS {
                told.clear();
            }
            if !told.insert(session.clone()) {
                return;
            }
        }
        let body = ChangeProjectSession {
            approve: Patch::Value(mode),
            ..ChangeProjectSession::default()
        };
        if let Err(error) = self.client.change_project_session(session, &body).await {
            lock(&self.told).remove(session);
            tracing::warn!(%session, %error, "telling what passes in a session failed, it asks as before");
        }
    }
}
