//! What the server shows of a session: at every restart, and as a whole once the session is idle.

use std::time::{Duration, Instant};

use codelab_client::{Client, ClientError, EventData};
use codelab_protocol::{
    AgentName, ApprovalInfo, AuditList, CallId, Chunk, ChunkBody, Digest, Message, SessionId,
    SwitchEntry,
};
use serde_json::json;

use crate::workload::ledger::{Ledger, Open};
use crate::workload::visit::Watched;

/// How soon after a restart an approval must be back.
const APPROVAL_BACK: Duration = Duration::from_secs(2);
const POLL: Duration = Duration::from_millis(10);

/// Everything of one session.
#[derive(Debug, Clone)]
pub struct Found {
    pub events: Vec<(u64, Chunk)>,
    pub history: Vec<Message>,
    pub audit: AuditList,
    pub pending: Vec<ApprovalInfo>,
    pub switches: Vec<SwitchEntry>,
    pub current_agent: AgentName,
}

impl Found {
    pub async fn fetch(client: &Client, id: &SessionId) -> Result<Self, ClientError> {
        Ok(Self {
            events: events(client, id).await?,
            history: client.history(id).await?.messages,
            audit: client.audit(id).await?,
            pending: client.pending_approvals(id).await?.pending_approvals,
            switches: client.agent_history(id).await?.switches,
            current_agent: client.current_agent(id).await?.current_agent,
        })
    }

    /// Changes if anything does.
    pub fn digest(&self) -> Digest {
        let events: Vec<_> = self
            .events
            .iter()
            .map(|(id, chunk)| json!([id, chunk]))
            .collect();
        Digest::of_json(&json!([
            events,
            self.history,
            self.audit,
            self.pending,
            self.switches,
            self.current_agent.as_str()
        ]))
    }
}

/// Every stored event, from the first.
async fn events(client: &Client, id: &SessionId) -> Result<Vec<(u64, Chunk)>, ClientError> {
    let mut found = Vec::new();
    for event in client.events(id, None, false).await?.collect().await? {
        match (event.id, event.data) {
            (Some(id), EventData::Chunk(chunk)) => found.push((id, chunk)),
            (None, EventData::Done(_)) => {}
            // The answer that is being written is shown as well.
            (None, EventData::Chunk(chunk))
                if matches!(
                    chunk.body,
                    ChunkBody::AssistantDelta(_) | ChunkBody::ReasoningDelta(_)
                ) => {}
            (id, other) => {
                return Err(ClientError::Invalid(format!(
                    "a stored event is {other:?}, number {id:?}"
                )));
            }
        }
    }
    Ok(found)
}

/// Looks at a session after a restart: all its events, and the approval that must be back. Gives
/// the time that took.
pub async fn recovered(
    client: &Client,
    started_at: Instant,
    watched: &Watched,
) -> Result<Option<Duration>, ClientError> {
    let (exists, approval) = {
        let ledger = watched.ledger();
        (ledger.exists(), certain_approval(&ledger))
    };
    if !exists {
        return Ok(None);
    }
    let back = match approval {
        Some((call_id, digest)) => {
            Some(wait_for_approval(client, started_at, watched, &call_id, &digest).await?)
        }
        None => None,
    };
    let found = events(client, &watched.id).await?;
    let mut ledger = watched.ledger();
    let problems = crate::workload::check::unchanged_events(&ledger, &found);
    problems
        .into_iter()
        .for_each(|problem| ledger.violate(problem));
    found.iter().for_each(|(id, chunk)| ledger.saw(*id, chunk));
    Ok(back)
}

/// An approval that nobody can have decided or cancelled.
fn certain_approval(ledger: &Ledger) -> Option<(CallId, Digest)> {
    let Some(Open::Approval(call_id)) = ledger.open() else {
        return None;
    };
    let call = ledger.calls.get(&call_id)?;
    let is_certain = !call.decided().is_possible() && !ledger.may_be_cancelled(call.seen_at);
    is_certain
        .then(|| call.digest.clone().map(|digest| (call_id, digest)))
        .flatten()
}

async fn wait_for_approval(
    client: &Client,
    started_at: Instant,
    watched: &Watched,
    call_id: &CallId,
    digest: &Digest,
) -> Result<Duration, ClientError> {
    loop {
        let pending = client
            .pending_approvals(&watched.id)
            .await?
            .pending_approvals;
        let elapsed = started_at.elapsed();
        if pending
            .iter()
            .any(|approval| approval.call_id == *call_id && approval.digest == *digest)
        {
            return Ok(elapsed);
        }
        if elapsed > APPROVAL_BACK {
            let problem = format!(
                "{call_id} waited for a decision before the kill; now there is {pending:?}"
            );
            watched.ledger().violate(problem);
            return Ok(elapsed);
        }
        tokio::time::sleep(POLL).await;
    }
}
