//! Follows what happens in the user's sessions: offers calls that wait for hands, stops those that
//! were closed. After a lost connection it looks at the sessions' own logs, so that no call is
//! missed.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use codelab_client::{Backoff, ClientError, EventData, EventStream};
use codelab_protocol::{CallId, SessionEvent, SessionEventBody, SessionId, ToolCallChunk};
use codelab_workspace::CallKey;
use tokio::time::sleep;

use super::{RunnerState, ServedCalls, ToolRunnerEvent, lock};

/// The server takes a client for gone that it has not heard of for 60 s.
const ATTACH_EVERY: Duration = Duration::from_secs(20);
/// Sessions that are looked at after a lost connection, those with the newest activity.
const MAX_CAUGHT_UP: u64 = 50;
/// Sessions whose project is remembered.
const MAX_KNOWN_SESSIONS: usize = 10_000;

/// Which sessions are of this project.
#[derive(Default)]
struct Known(HashMap<SessionId, bool>);

pub(super) async fn stay_attached(shared: Arc<RunnerState>) {
    loop {
        sleep(ATTACH_EVERY).await;
        if let Err(error) = shared.attach().await {
            tracing::debug!(%error, "the server did not hear that the client is there");
        }
    }
}

/// Until the server refuses for good.
pub(super) async fn follow(shared: Arc<RunnerState>) {
    let backoff = Backoff::default();
    let mut known = Known::default();
    let (mut failures, mut is_lost) = (0, false);
    loop {
        let lost = match connect(&shared).await {
            Ok(stream) => {
                failures = 0;
                if std::mem::take(&mut is_lost) {
                    shared.tell(ToolRunnerEvent::Reconnected);
                }
                listen(&shared, stream, &mut known).await
            }
            Err(error) => error,
        };
        if !lost.is_passing() {
            shared.tell(ToolRunnerEvent::Ended {
                reason: lost.to_string(),
            });
            return;
        }
        if !std::mem::replace(&mut is_lost, true) {
            shared.tell(ToolRunnerEvent::Disconnected {
                reason: lost.to_string(),
            });
        }
        sleep(backoff.delay(failures)).await;
        failures = failures.saturating_add(1);
    }
}

/// Subscribed before anything is looked up, so that nothing falls between.
async fn connect(shared: &RunnerState) -> Result<EventStream<SessionEvent>, ClientError> {
    let stream = shared.client.user_events().await?;
    shared.attach().await?;
    Ok(stream)
}

async fn listen(
    shared: &Arc<RunnerState>,
    mut stream: EventStream<SessionEvent>,
    known: &mut Known,
) -> ClientError {
    if let Err(error) = catch_up(shared, known).await {
        return error;
    }
    loop {
        match stream.next().await {
            Some(Ok(event)) => {
                let EventData::Chunk(event) = event.data else {
                    continue;
                };
                if let Err(error) = take(shared, event, known).await {
                    return error;
                }
            }
            Some(Err(error)) => return error,
            None => return ClientError::Cut("the stream of events ended".to_owned()),
        }
    }
}

async fn take(
    shared: &Arc<RunnerState>,
    event: SessionEvent,
    known: &mut Known,
) -> Result<(), ClientError> {
    let session = event.session_id;
    match event.body {
        // A session that is named later is looked at then.
        SessionEventBody::ToolCall(call)
            if !call.call.requires_approval
                && shared.may_serve(&session)
                && known.is_ours(shared, &session).await? =>
        {
            shared.offer(&session, call.call);
        }
        SessionEventBody::ToolCallClosed(closed) => {
            shared.closed(&CallKey {
                session_id: session,
                call_id: closed.call_id,
            });
        }
        _ => {}
    }
    Ok(())
}

/// Offers what was asked for while nobody listened.
async fn catch_up(shared: &Arc<RunnerState>, known: &mut Known) -> Result<(), ClientError> {
    let sessions = shared
        .client
        .project_sessions(Some(shared.project), Some(MAX_CAUGHT_UP), None)
        .await?
        .sessions;
    for session in sessions {
        known.note(&session.session_id, true);
        if !shared.may_serve(&session.session_id) {
            continue;
        }
        match look_at(shared, &session.session_id).await {
            // What cannot be read of one session is no reason to leave the others alone.
            Err(ClientError::Invalid(why)) => {
                tracing::warn!(session = %session.session_id, why, "a session cannot be read, and is left alone");
            }
            looked => looked?,
        }
    }
    Ok(())
}

/// Offers the calls of a session that has just been named.
pub(super) async fn catch_up_with(shared: Arc<RunnerState>, session: SessionId) {
    if let Err(error) = look_at(&shared, &session).await {
        tracing::debug!(%error, "a session could not be looked at; it is when the connection is back");
    }
}

async fn look_at(shared: &Arc<RunnerState>, session: &SessionId) -> Result<(), ClientError> {
    // What begins while the log is read is not in it.
    let running = shared.running_of(session);
    let detail = match shared.client.project_session(session).await {
        Ok(detail) => detail,
        Err(error) if error.status() == Some(404) => return Ok(()),
        Err(error) => return Err(error),
    };
    let open = if detail.busy {
        open_calls(shared, session).await?
    } else {
        BTreeMap::new()
    };
    shared.closed_but(&running, &open);
    for call in open.into_values() {
        shared.offer(session, call);
    }
    Ok(())
}

/// The calls of a session that wait for a client.
async fn open_calls(
    shared: &RunnerState,
    session: &SessionId,
) -> Result<BTreeMap<CallId, ToolCallChunk>, ClientError> {
    let mut events = shared
        .client
        .project_session_events(session, None, false)
        .await?;
    let mut open = BTreeMap::new();
    while let Some(event) = events.next().await {
        let EventData::Chunk(event) = event?.data else {
            continue;
        };
        match event.body {
            SessionEventBody::ToolCall(call) if !call.call.requires_approval => {
                open.insert(call.call.tool_call.call_id.clone(), call.call);
            }
            SessionEventBody::ToolResult(result) => {
                open.remove(&result.call_id);
            }
            SessionEventBody::ToolCallClosed(closed) => {
                open.remove(&closed.call_id);
            }
            _ => {}
        }
    }
    Ok(open)
}

impl RunnerState {
    fn may_serve(&self, session: &SessionId) -> bool {
        self.serves == ServedCalls::Project || lock(&self.served).contains(session)
    }

    fn closed(&self, key: &CallKey) {
        if let Some(stop) = lock(&self.running).get(key) {
            stop.cancel();
        }
    }

    /// What ran here for a session and is no longer open was closed while nobody listened.
    fn closed_but(&self, running: &[CallKey], open: &BTreeMap<CallId, ToolCallChunk>) {
        for key in running
            .iter()
            .filter(|key| !open.contains_key(&key.call_id))
        {
            self.closed(key);
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
                tracing::warn!(%session, why, "a session cannot be read, and is left alone");
                return Ok(false);
            }
            Err(error) => return Err(error),
        };
        self.note(session, is_ours);
        Ok(is_ours)
    }

    fn note(&mut self, session: &SessionId, is_ours: bool) {
        if self.0.len() >= MAX_KNOWN_SESSIONS {
            self.0.clear();
        }
        self.0.insert(session.clone(), is_ours);
    }
}
