//! What is found of a person's session, compared with what was acknowledged and seen.

use std::collections::BTreeMap;

use codelab_client::{ClientError, EventData};
use codelab_protocol::{CallId, Message, SessionEvent, SessionEventBody};

use super::Person;
use crate::workload::check::whole_history;
use crate::workload::ledger::result_of;

const PAGE: u64 = 200;

impl Person {
    /// Everything that is wrong with the session, once it is idle.
    pub async fn found(&self) -> Result<Vec<String>, ClientError> {
        let history = self.history().await?;
        let events = self.all_events().await?;
        let book = self.book();
        let mut problems = whole_history(&book.ledger, &history);
        problems.extend(unchanged(&book.events, &events));
        problems.extend(dispatched_once(&events));
        for call in &book.answered {
            let kept: Vec<&Message> = history
                .iter()
                .filter(|message| message.tool_call_id.as_ref() == Some(call))
                .collect();
            let is_right = kept.len() == 1 && kept[0].content.contains(&result_of(call));
            if !is_right {
                problems.push(format!("the result of {call} is found as {kept:?}"));
            }
        }
        let of = |problem: String| format!("user {} in {}: {problem}", self.user, self.session);
        Ok(problems.into_iter().map(of).collect())
    }

    async fn history(&self) -> Result<Vec<Message>, ClientError> {
        let mut messages = Vec::new();
        loop {
            let offset = messages.len() as u64;
            let page = self
                .client
                .project_session_messages(&self.session, None, Some(PAGE), Some(offset))
                .await?;
            let is_last = page.messages.is_empty() || offset + PAGE >= page.total;
            messages.extend(page.messages);
            if is_last {
                return Ok(messages);
            }
        }
    }

    async fn all_events(&self) -> Result<Vec<(u64, SessionEvent)>, ClientError> {
        let stream = self
            .client
            .project_session_events(&self.session, None, false)
            .await?;
        let events = stream.collect().await?.into_iter();
        let stored = events.filter_map(|event| match (event.id, event.data) {
            (Some(id), EventData::Chunk(event)) => Some((id, event)),
            _ => None,
        });
        Ok(stored.collect())
    }
}

/// The numbers run from 1 without a hole, and what the reader saw has not changed.
fn unchanged(seen: &BTreeMap<u64, SessionEvent>, found: &[(u64, SessionEvent)]) -> Vec<String> {
    let mut problems = Vec::new();
    for ((id, _), expected) in found.iter().zip(1..) {
        if *id != expected {
            problems.push(format!("event {expected} is missing: {id} is in its place"));
            break;
        }
    }
    let by_id: BTreeMap<u64, &SessionEvent> = found.iter().map(|(id, e)| (*id, e)).collect();
    for (id, seen) in seen {
        match by_id.get(id) {
            Some(now) if *now == seen => {}
            now => problems.push(format!("event {id} was {seen:?} and is now {now:?}")),
        }
    }
    problems
}

fn dispatched_once(found: &[(u64, SessionEvent)]) -> Vec<String> {
    let mut times: BTreeMap<&CallId, u64> = BTreeMap::new();
    for (_, event) in found {
        if let SessionEventBody::ToolCall(call) = &event.body
            && !call.call.requires_approval
        {
            *times.entry(&call.call.tool_call.call_id).or_default() += 1;
        }
    }
    let twice = times.into_iter().filter(|(_, times)| *times > 1);
    twice
        .map(|(call, times)| format!("{call} was dispatched {times} times"))
        .collect()
}
