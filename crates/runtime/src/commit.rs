//! The engine's effects as one commit of the store.

use std::borrow::Cow;
use std::sync::Arc;

use codelab_engine::{
    Approval, ApprovalStatus, AuditRecord, CallStatus, Effect, EventRecord, MessageRecord, ModelCall, Session,
};
use codelab_protocol::{ApprovalInfo, Chunk, SwitchEntry, Timestamp, arguments_digest};
use codelab_store::{
    self as store, ApprovalClosed, ApprovalExtended, AuditAppended, AuditHead, Commit, Epoch, InputRow, NewContext,
    NewInput, Realm, Schedule, SessionKey, StoredEvent, StoredMessage, StoredSwitch, ToolCallClosed, ToolCallOpened,
    ToolCallStatus, audit_chain,
};
use serde_json::json;

/// A commit, and what to do once it is durable.
pub(crate) struct Prepared {
    pub commit: Commit,
    pub events: Vec<Arc<StoredEvent>>,
    pub messages: Vec<MessageRecord>,
    pub audit_head: AuditHead,
    pub schedule: Schedule,
    pub after: Vec<After>,
}

pub(crate) enum After {
    CallModel(ModelCall),
    AbortModel,
}

/// Where the session stood in the store before the effects.
pub(crate) struct Standing<'a> {
    pub key: SessionKey,
    pub epoch: Epoch,
    pub realm: Realm,
    pub schedule: Schedule,
    pub audit_head: &'a AuditHead,
}

pub(crate) fn prepare(
    session: &Session,
    effects: Vec<Effect>,
    standing: &Standing<'_>,
    activity: Option<Timestamp>,
    now: Timestamp,
) -> Result<Prepared, serde_json::Error> {
    let mut commit = Commit::new(standing.key, standing.epoch);
    commit.state = Some(serde_json::to_string(session)?);
    commit.last_activity = activity;
    let schedule = Schedule { wake_at: session.next_deadline(), running: session.is_running() };
    commit.schedule = (schedule != standing.schedule).then_some(schedule);
    let mut prepared = Prepared {
        commit,
        events: Vec::new(),
        messages: Vec::new(),
        audit_head: standing.audit_head.clone(),
        schedule,
        after: Vec::new(),
    };
    let mut audit_rows = Vec::new();
    for effect in effects {
        prepared.add(effect, session, standing, &mut audit_rows, now)?;
    }
    if !audit_rows.is_empty() {
        prepared.commit.audit = Some(AuditAppended {
            realm: standing.realm,
            session_id: session.id().clone(),
            rows: audit_rows,
            head: prepared.audit_head.clone(),
        });
    }
    prepared.commit.events = prepared.events.iter().map(|event| StoredEvent::clone(event)).collect();
    Ok(prepared)
}

impl Prepared {
    fn add(
        &mut self,
        effect: Effect,
        session: &Session,
        standing: &Standing<'_>,
        audit_rows: &mut Vec<store::AuditRow>,
        now: Timestamp,
    ) -> Result<(), serde_json::Error> {
        let commit = &mut self.commit;
        match effect {
            Effect::Event(event) => self.events.push(Arc::new(stored_event(event, now)?)),
            Effect::Message(record) => {
                let MessageRecord { ord, turn, message } = record.clone();
                commit.messages.push(StoredMessage { ord: ord + 1, turn, message });
                self.messages.push(record);
            }
            Effect::Switched(switch) => {
                let entry = SwitchEntry {
                    from_agent: switch.from,
                    to_agent: switch.to,
                    reason: switch.reason,
                    confidence: switch.confidence,
                    timestamp: switch.at,
                };
                commit.switches.push(StoredSwitch { ord: switch.ord + 1, entry });
                commit.context = Some(context(session, now));
            }
            Effect::ApprovalOpened(approval) => commit.approvals_opened.push(approval_info(approval)),
            Effect::ApprovalMoved { call_id, expires_at } => {
                commit.approvals_extended.push(ApprovalExtended { call_id, expires_at: Some(expires_at) });
            }
            Effect::ApprovalClosed { call_id, status } => {
                let status = match status {
                    ApprovalStatus::Approved => store::ApprovalStatus::Approved,
                    ApprovalStatus::Edited => store::ApprovalStatus::Edited,
                    ApprovalStatus::Rejected => store::ApprovalStatus::Rejected,
                    ApprovalStatus::Expired => store::ApprovalStatus::Expired,
                    ApprovalStatus::Cancelled => store::ApprovalStatus::Cancelled,
                };
                commit.approvals_closed.push(ApprovalClosed { call_id, status, decided_at: now });
            }
            Effect::CallOpened { call_id, turn, tool } => {
                commit.tool_calls_opened.push(ToolCallOpened { call_id, turn, tool_name: tool });
            }
            Effect::CallClosed { call_id, status, result_digest, span } => {
                let status = match status {
                    CallStatus::Open => ToolCallStatus::Open,
                    CallStatus::Finished => ToolCallStatus::Completed,
                    CallStatus::Rejected => ToolCallStatus::Rejected,
                    CallStatus::TimedOut => ToolCallStatus::Unknown,
                    CallStatus::Cancelled => ToolCallStatus::Cancelled,
                };
                let after_seq = span.map(|span| span.after_seq);
                commit.tool_calls_closed.push(ToolCallClosed { call_id, status, result_digest, after_seq });
            }
            Effect::InputTaken { client_message_id, span } => {
                let input = InputRow { turn: span.turn, after_seq: span.after_seq };
                commit.inputs.push(NewInput { client_message_id, input });
            }
            Effect::Audit(record) => {
                let record = audit_record(record);
                let row = audit_chain::append(&self.audit_head, standing.realm, session.id(), record);
                self.audit_head = audit_chain::head_of(&row);
                audit_rows.push(row);
            }
            Effect::Title(title) => commit.title = Some(title),
            Effect::CallModel(call) => self.after.push(After::CallModel(call)),
            Effect::AbortModel => self.after.push(After::AbortModel),
        }
        Ok(())
    }
}

fn stored_event(event: EventRecord, now: Timestamp) -> Result<StoredEvent, serde_json::Error> {
    let kind = event.body.kind();
    let body = serde_json::to_string(&Chunk { body: event.body, timestamp: now })?;
    Ok(StoredEvent {
        seq: event.seq,
        turn: event.turn,
        kind: Cow::Borrowed(kind),
        body: body.into(),
        settled: event.settled,
        timestamp: now,
    })
}

pub(crate) fn context(session: &Session, now: Timestamp) -> NewContext {
    let files: Vec<&str> = session.modified_files().collect();
    NewContext {
        current_agent: session.current_agent().clone(),
        switch_count: session.switch_count(),
        metadata: json!({ "last_error": session.last_error(), "files_modified": files }).to_string(),
        created_at: now,
        last_switch_at: session.last_switch().map(|switch| switch.at),
    }
}

fn approval_info(approval: Approval) -> ApprovalInfo {
    ApprovalInfo {
        call_id: approval.call_id,
        kind: "tool".to_owned(),
        tool_name: approval.tool,
        arguments: approval.arguments,
        digest: approval.digest,
        parts: approval.parts,
        reason: approval.reason,
        created_at: approval.created_at,
        expires_at: approval.expires_at,
        timeout_seconds: approval.timeout_seconds,
    }
}

fn audit_record(record: AuditRecord) -> store::AuditRecord {
    let digest = |arguments| arguments_digest(&record.tool, arguments);
    store::AuditRecord {
        call_id: record.call_id,
        original_digest: digest(&record.original),
        modified_digest: record.modified.as_ref().map(digest),
        tool_name: record.tool,
        original_args: Some(record.original),
        modified_args: record.modified,
        decision: record.decision.as_str().to_owned(),
        decided_by: record.decided_by,
        reason: record.reason,
        timestamp: record.at,
    }
}
