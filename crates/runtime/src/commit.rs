//! The engine's effects as one commit of the store.

use std::borrow::Cow;
use std::sync::Arc;

use codelab_engine::{
    ApprovalOutcome, CallStatus, DecisionRecord, Effect, EventBody, EventRecord, MessageRecord,
    ModelCall, Session,
};
use codelab_protocol::{
    Chunk, SessionEvent, SessionKind, SwitchEntry, Timestamp, arguments_digest,
};
use codelab_store::{
    self as store, ApprovalClosed, ApprovalExtended, ApprovalPreviewed, AuditAppended, AuditHead,
    Commit, Epoch, InputRow, NewContext, NewInput, NewInteraction, NewSpending, PlanSaved,
    ProjectBudget, Schedule, SessionKey, StoredEvent, StoredMessage, StoredSwitch, ToolCallEnd,
    ToolCallOpened, ToolCallStatus,
    audit_chain::{self, AuditKey, ChainOwner},
};
use serde_json::json;

use crate::owner::{ElicitedAnswer, NamedToolCall};

/// A commit, and what to do once it is durable.
pub(crate) struct PreparedCommit {
    pub commit: Commit,
    pub events: Vec<Arc<StoredEvent>>,
    pub messages: Vec<MessageRecord>,
    pub audit_head: AuditHead,
    pub schedule: Schedule,
    /// Model calls to make.
    pub calls: Vec<ModelCall>,
    /// Calls of MCP servers' tools to make.
    pub tool_calls: Vec<NamedToolCall>,
    /// Answers of people to MCP servers.
    pub elicited: Vec<ElicitedAnswer>,
    /// Something in it can be remembered.
    pub remembers: bool,
}

const MICROS: f64 = 1_000_000.0;
/// How an interaction is called that came from a session's work.
const INTERACTION: &str = "interaction";

/// Where the session stood in the store before the effects.
pub(crate) struct StoredPosition<'a> {
    pub key: SessionKey,
    pub epoch: Epoch,
    pub kind: SessionKind,
    pub schedule: Schedule,
    pub audit_head: &'a AuditHead,
    pub audit_key: &'a AuditKey,
}

impl StoredPosition<'_> {
    fn chain<'s>(&self, session: &'s Session) -> ChainOwner<'s> {
        ChainOwner {
            key: self.key,
            kind: self.kind,
            session_id: session.id(),
        }
    }
}

pub(crate) fn prepare(
    session: &Session,
    effects: Vec<Effect>,
    stored: &StoredPosition<'_>,
    activity: Option<Timestamp>,
    now: Timestamp,
) -> Result<PreparedCommit, serde_json::Error> {
    let mut commit = Commit::new(stored.key, stored.epoch);
    commit.state = Some(serde_json::to_string(session)?);
    commit.last_activity = activity;
    let schedule = Schedule {
        wake_at: session.next_deadline(),
        running: session.is_running(),
    };
    commit.schedule = (schedule != stored.schedule).then_some(schedule);
    let mut prepared = PreparedCommit {
        commit,
        events: Vec::new(),
        messages: Vec::new(),
        audit_head: stored.audit_head.clone(),
        schedule,
        calls: Vec::new(),
        tool_calls: Vec::new(),
        elicited: Vec::new(),
        remembers: false,
    };
    let mut audit_rows = Vec::new();
    for effect in effects {
        prepared.add(effect, session, stored, &mut audit_rows, now)?;
    }
    if !audit_rows.is_empty() {
        prepared.commit.audit = Some(AuditAppended {
            kind: stored.kind,
            session_id: session.id().clone(),
            rows: audit_rows,
            seal: audit_chain::seal(
                stored.audit_key,
                stored.chain(session),
                &prepared.audit_head,
            ),
            head: prepared.audit_head.clone(),
        });
    }
    prepared.commit.events = prepared
        .events
        .iter()
        .map(|event| StoredEvent::clone(event))
        .collect();
    Ok(prepared)
}

impl PreparedCommit {
    fn add(
        &mut self,
        effect: Effect,
        session: &Session,
        stored: &StoredPosition<'_>,
        audit_rows: &mut Vec<store::AuditRow>,
        now: Timestamp,
    ) -> Result<(), serde_json::Error> {
        let commit = &mut self.commit;
        match effect {
            Effect::Event(event) => self
                .events
                .push(Arc::new(stored_event(session, event, now)?)),
            Effect::Message(record) => {
                let MessageRecord {
                    ord,
                    turn,
                    task,
                    message,
                } = record.clone();
                commit.messages.push(StoredMessage {
                    ord: ord + 1,
                    turn,
                    task,
                    message,
                });
                self.messages.push(record);
            }
            Effect::Attached(file) => commit.attachments.push(file),
            Effect::ForgetReasoning { turn } => commit.reasoning_forgotten.push(turn),
            Effect::Switched(switch) => {
                let entry = SwitchEntry {
                    from_agent: switch.from,
                    to_agent: switch.to,
                    reason: switch.reason,
                    confidence: switch.confidence,
                    timestamp: switch.at,
                };
                commit.switches.push(StoredSwitch {
                    ord: switch.ord + 1,
                    entry,
                });
                commit.context = Some(context(session, now));
            }
            Effect::ApprovalOpened(approval) => commit.approvals_opened.push(approval.info()),
            Effect::ApprovalMoved {
                call_id,
                expires_at,
            } => {
                commit.approvals_extended.push(ApprovalExtended {
                    call_id,
                    expires_at: Some(expires_at),
                });
            }
            Effect::ApprovalPreviewed { call_id, preview } => {
                commit
                    .approvals_previewed
                    .push(ApprovalPreviewed { call_id, preview });
            }
            Effect::ApprovalClosed { call_id, status } => {
                let status = match status {
                    ApprovalOutcome::Approved => store::ApprovalStatus::Approved,
                    ApprovalOutcome::Edited => store::ApprovalStatus::Edited,
                    ApprovalOutcome::Rejected => store::ApprovalStatus::Rejected,
                    ApprovalOutcome::Expired => store::ApprovalStatus::Expired,
                    ApprovalOutcome::Cancelled => store::ApprovalStatus::Cancelled,
                };
                commit.approvals_closed.push(ApprovalClosed {
                    call_id,
                    status,
                    decided_at: now,
                });
            }
            Effect::CallOpened {
                call_id,
                turn,
                tool,
            } => {
                commit.tool_calls_opened.push(ToolCallOpened {
                    call_id,
                    turn,
                    tool_name: tool,
                });
            }
            Effect::CallClosed {
                call_id,
                status,
                result_digest,
                span,
            } => {
                let status = match status {
                    CallStatus::Finished => ToolCallStatus::Completed,
                    CallStatus::Rejected => ToolCallStatus::Rejected,
                    CallStatus::TimedOut => ToolCallStatus::Unknown,
                    CallStatus::Cancelled => ToolCallStatus::Cancelled,
                };
                let after_seq = span.map(|span| span.after_seq);
                commit.tool_calls_closed.push(ToolCallEnd {
                    call_id,
                    status,
                    result_digest,
                    after_seq,
                });
            }
            Effect::InputAccepted {
                client_message_id,
                span,
            } => {
                let input = InputRow {
                    turn: span.turn,
                    after_seq: span.after_seq,
                };
                commit.inputs.push(NewInput {
                    client_message_id,
                    input,
                });
            }
            Effect::Audit(record) => {
                let record = audit_record(record);
                let row = audit_chain::append(
                    stored.audit_key,
                    &self.audit_head,
                    stored.chain(session),
                    record,
                );
                self.audit_head = audit_chain::head_after(&self.audit_head, &row);
                audit_rows.push(row);
            }
            Effect::Title(title) => commit.title = Some(title),
            Effect::PlanSaved { turn, plan } => commit.plans.push(PlanSaved {
                turn,
                plan: *plan,
                at: now,
            }),
            Effect::Spent(spending) => {
                let (agent, turn, task, usage) =
                    (spending.agent, spending.turn, spending.task, spending.usage);
                commit.spendings.push(NewSpending {
                    agent,
                    turn,
                    task,
                    usage,
                    at: now,
                });
            }
            Effect::ProjectBudget { budget, granted } => {
                commit.project_budget = Some(ProjectBudget {
                    budget_micro_usd: budget.usd.map(|usd| (usd * MICROS).round() as u64),
                    budget_tokens: budget.tokens,
                    granted_micro_usd: (granted.usd * MICROS).round() as u64,
                    granted_tokens: granted.tokens,
                    at: now,
                });
            }
            Effect::Remember(interaction) => {
                self.remembers = true;
                commit.interactions.push(NewInteraction {
                    agent: interaction.agent,
                    task: interaction.task,
                    kind: INTERACTION.to_owned(),
                    success: Some(interaction.success),
                    text: interaction.text,
                    metadata: Default::default(),
                    at: now,
                });
            }
            Effect::CallTool {
                call_id,
                tool,
                arguments,
            } => self.tool_calls.push(NamedToolCall {
                call_id,
                tool,
                arguments,
            }),
            Effect::Elicited { call_id, content } => {
                self.elicited.push(ElicitedAnswer { call_id, content });
            }
            Effect::CallModel(call) => self.calls.push(call),
            // Performed in the worker space when they were decided.
            Effect::TakeSlot { .. }
            | Effect::QueueForSlot { .. }
            | Effect::LeaveSlot { .. }
            | Effect::AgentQueueFull { .. }
            | Effect::ReserveBudget { .. }
            | Effect::SpendBudget { .. } => {}
        }
        Ok(())
    }
}

fn stored_event(
    session: &Session,
    event: EventRecord,
    now: Timestamp,
) -> Result<StoredEvent, serde_json::Error> {
    let (kind, body) = match event.body {
        EventBody::Chunk(body) => (
            body.kind(),
            serde_json::to_string(&Chunk {
                body,
                timestamp: now,
            })?,
        ),
        EventBody::Project(body) => {
            let (kind, session_id, seq) = (body.kind(), session.id().clone(), Some(event.seq));
            (
                kind,
                serde_json::to_string(&SessionEvent {
                    body,
                    session_id,
                    seq,
                    timestamp: now,
                })?,
            )
        }
    };
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
        metadata: json!({ "last_error": session.last_error(), "files_modified": files })
            .to_string(),
        created_at: now,
        last_switch_at: session.last_switch().map(|switch| switch.at),
    }
}

fn audit_record(record: DecisionRecord) -> store::AuditRecord {
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
        reason_digest: record
            .reason
            .as_deref()
            .map(store::AuditRecord::digest_of_reason),
        reason: record.reason,
        timestamp: record.at,
    }
}
