//! The one call of the client: claimed, answered, late, or never taken.

use codelab_protocol::{
    AuditDecision, CallId, CallOutcome, ClientId, Digest, RewindFiles, RewindId, Rewound,
    RewoundFiles, SessionEventBody, TaskOrigin, Timestamp, Tool, ToolCall, ToolCallChunk,
    ToolCallClosed, ToolCallEvent, ToolResultEvent, TurnId, TurnStatus,
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{FilesEnd, Wanted, bounded};
use crate::prompt::tokens_of_text;
use crate::session::{Session, Transition};
use crate::turn::{CallClaim, LateCall};
use crate::world::{LEASE_SECONDS, MAX_LATE_CALLS, MAX_UNCLAIMED_REWIND_SECONDS};
use crate::{
    CallStatus, CallerAnswer, DecisionRecord, Downtime, Effect, EventRange, Refusal, orchestrator,
};

const UNCLAIMED: &str = "No tool runner took the call, so no file was changed";
const CANCELLED: &str = "It was stopped before a tool runner took it, so no file was changed";
const UNKNOWN: &str = "The tool runner stopped answering while it took files back. It ends the work \
     when it is there again, and says then which files are which";

/// A rewind whose files the client takes back.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct OpenRewind {
    turn: TurnId,
    wanted: Wanted,
    call_id: CallId,
    /// Until when a client must take it.
    deadline: Timestamp,
    claim: Option<CallClaim>,
}

impl OpenRewind {
    pub(super) fn id(&self) -> &RewindId {
        &self.wanted.rewind_id
    }

    pub(crate) fn next_deadline(&self) -> Timestamp {
        self.claim
            .as_ref()
            .map_or(self.deadline, |claim| claim.until)
    }
}

impl Session {
    /// What is said late, of a turn that is just being taken back, goes with it.
    pub(crate) fn note_late_message(&mut self, turn: TurnId, text: &str) {
        let open = self.rewind.as_mut();
        let Some(part) = open.and_then(|open| open.wanted.part.as_mut()) else {
            return;
        };
        let tokens = tokens_of_text(text);
        if turn >= part.turn {
            part.messages += 1;
            part.tokens += tokens;
        } else {
            part.kept_tokens += tokens;
        }
    }

    /// Whether the call is the one of the rewind that is under way.
    pub(crate) fn is_rewind_call(&self, call_id: &CallId) -> bool {
        self.rewind
            .as_ref()
            .is_some_and(|open| open.call_id == *call_id)
    }
}

impl Transition<'_, '_> {
    /// The person's wish is the approval.
    pub(super) fn call_client(
        &mut self,
        turn: TurnId,
        wanted: Wanted,
        files: &RewindFiles,
        decided_by: String,
    ) {
        let call_id = self.world.ids.call_id();
        let tool = Tool::RewindFiles.as_str().to_owned();
        let arguments = match serde_json::to_value(files) {
            Ok(Value::Object(arguments)) => arguments,
            Ok(_) | Err(_) => Map::new(),
        };
        self.output.push(Effect::CallOpened {
            call_id: call_id.clone(),
            turn,
            tool: tool.clone(),
        });
        self.output.push(Effect::Audit(DecisionRecord {
            call_id: call_id.clone(),
            tool: tool.clone(),
            original: arguments.clone(),
            modified: None,
            decision: AuditDecision::Approve,
            decided_by,
            reason: None,
            at: self.world.now,
        }));
        let shown = ToolCallEvent {
            call: ToolCallChunk {
                base: None,
                digest: codelab_protocol::arguments_digest(&tool, &arguments),
                mcp: None,
                tool_call: ToolCall {
                    call_id: call_id.clone(),
                    name: tool,
                    arguments,
                },
                requires_approval: false,
                approved: true,
                reason: None,
                parts: Vec::new(),
                expires_at: None,
                agent: orchestrator(),
                user_id: self.session.caller.user_id,
            },
            client_attached: self.space.client_attached,
            origin: TaskOrigin::default(),
        };
        self.log()
            .event(turn, SessionEventBody::ToolCall(Box::new(shown)));
        let deadline = self.world.now.plus_seconds(MAX_UNCLAIMED_REWIND_SECONDS);
        self.session.rewind = Some(Box::new(OpenRewind {
            turn,
            wanted,
            call_id,
            deadline,
            claim: None,
        }));
    }

    pub(crate) fn claim_rewind(
        &mut self,
        client_id: ClientId,
        bound_is_gone: bool,
    ) -> Result<CallerAnswer, Refusal> {
        let elsewhere = self.session.bound.as_ref();
        let elsewhere = elsewhere.is_some_and(|bound| *bound != client_id);
        let claimed = |why: &str| Refusal::new(codelab_protocol::ErrorCode::ToolCallClaimed, why);
        if elsewhere && !bound_is_gone {
            let why = "The session is bound to another client, in another folder";
            return Err(claimed(why));
        }
        let until = self.world.now.plus_seconds(LEASE_SECONDS);
        let Some(open) = &mut self.session.rewind else {
            never!("a rewind is claimed that is not under way");
            return Ok(CallerAnswer::Nothing);
        };
        let others = open.claim.as_ref();
        if others.is_some_and(|claim| claim.client_id != client_id) {
            return Err(claimed("Another client runs this call"));
        }
        open.claim = Some(CallClaim {
            client_id: client_id.clone(),
            until,
        });
        self.session.bound = Some(client_id);
        Ok(CallerAnswer::Claimed)
    }

    pub(crate) fn rewind_result(
        &mut self,
        result: Value,
        client: Option<&ClientId>,
        digest: Digest,
    ) -> Result<CallerAnswer, Refusal> {
        let claim = self
            .session
            .rewind
            .as_ref()
            .and_then(|open| open.claim.as_ref());
        self.session.check_holder(claim, client)?;
        let Some(open) = self.session.rewind.take() else {
            never!("a result is for a rewind that is not under way");
            return Ok(CallerAnswer::Nothing);
        };
        let span = EventRange {
            turn: open.turn,
            after_seq: self.session.last_seq,
        };
        self.output.push(Effect::CallClosed {
            call_id: open.call_id.clone(),
            status: CallStatus::Finished,
            result_digest: Some(digest),
            span: Some(span),
            did: None,
        });
        let end = files_end(&result);
        let shown = ToolResultEvent {
            call_id: open.call_id.clone(),
            tool_name: Tool::RewindFiles.as_str().to_owned(),
            result,
            late: false,
            origin: TaskOrigin::default(),
        };
        self.log()
            .event(open.turn, SessionEventBody::ToolResult(shown));
        self.end_rewind(open.turn, open.wanted, Some(open.call_id), end);
        Ok(CallerAnswer::Span(span))
    }

    /// The client is there again and says what became of the files.
    pub(crate) fn late_rewind(
        &mut self,
        late: &LateCall,
        result: Value,
        digest: Digest,
    ) -> CallerAnswer {
        let span = EventRange {
            turn: late.turn,
            after_seq: self.session.last_seq,
        };
        self.output.push(Effect::CallClosed {
            call_id: late.call_id.clone(),
            status: CallStatus::Finished,
            result_digest: Some(digest),
            span: Some(span),
            did: None,
        });
        let end = files_end(&result);
        self.view().show_late_result(late, result);
        let is_it = |call: &Option<CallId>| call.as_ref() == Some(&late.call_id);
        let mut records = self.session.rewinds.iter();
        if let Some(record) = records.find(|record| is_it(&record.call_id)) {
            let (files, error) = match end {
                FilesEnd::Done(files) => (files, None),
                FilesEnd::Failed(why) | FilesEnd::Unknown(why) => {
                    (RewoundFiles::default(), Some(why))
                }
                FilesEnd::NotWanted => (RewoundFiles::default(), None),
            };
            let rewound = Rewound {
                rewind_id: record.rewind_id.clone(),
                scope: record.scope,
                to_message_id: record.to_message_id.clone(),
                restored: files.restored,
                left: files.left,
                not_covered: files.not_covered,
                messages: 0,
                undone: false,
                error,
            };
            self.log()
                .event(late.turn, SessionEventBody::Rewound(Box::new(rewound)));
        }
        CallerAnswer::Now(TurnStatus::Completed)
    }

    /// Nobody took the call, or whoever did stopped answering.
    pub(crate) fn rewind_due(&mut self) {
        let now = self.world.now;
        if self
            .session
            .rewind
            .as_ref()
            .is_some_and(|open| open.next_deadline() <= now)
        {
            self.drop_rewind(CallOutcome::Expired);
        }
    }

    /// A rewind that a client runs is not stopped: it would leave some files here and some there.
    pub(crate) fn cancel_rewind(&mut self) -> bool {
        let open = self.session.rewind.as_ref();
        let stops = open.is_some_and(|open| open.claim.is_none());
        if stops {
            self.drop_rewind(CallOutcome::Cancelled);
        }
        stops
    }

    pub(crate) fn rewind_client_gone(&mut self, client_id: &ClientId) {
        let claim = self
            .session
            .rewind
            .as_ref()
            .and_then(|open| open.claim.as_ref());
        if claim.is_some_and(|claim| claim.client_id == *client_id) {
            self.drop_rewind(CallOutcome::Unknown);
        }
    }

    fn drop_rewind(&mut self, outcome: CallOutcome) {
        let Some(open) = self.session.rewind.take() else {
            return;
        };
        let OpenRewind {
            turn,
            wanted,
            call_id,
            claim,
            ..
        } = *open;
        let (outcome, status, end) = match (&claim, outcome) {
            (Some(_), _) => (
                CallOutcome::Unknown,
                CallStatus::TimedOut,
                FilesEnd::Unknown(UNKNOWN.to_owned()),
            ),
            (None, CallOutcome::Cancelled) => (
                CallOutcome::Cancelled,
                CallStatus::Cancelled,
                FilesEnd::Failed(CANCELLED.to_owned()),
            ),
            (None, _) => (
                CallOutcome::Expired,
                CallStatus::TimedOut,
                FilesEnd::Failed(UNCLAIMED.to_owned()),
            ),
        };
        self.output.close_call(&call_id, status);
        let closed = ToolCallClosed {
            call_id: call_id.clone(),
            outcome,
        };
        self.log()
            .event(turn, SessionEventBody::ToolCallClosed(closed));
        if let Some(claim) = claim {
            if self.session.late.len() >= MAX_LATE_CALLS {
                self.session.late.pop_front();
            }
            self.session.late.push_back(LateCall {
                call_id: call_id.clone(),
                client_id: claim.client_id,
                tool: Tool::RewindFiles.into(),
                turn,
                task: None,
                did: None,
            });
        }
        self.end_rewind(turn, wanted, Some(call_id), end);
    }

    /// The time without a server does not count.
    pub(crate) fn rewind_recovered(
        &mut self,
        down: Downtime,
        moved: impl Fn(Timestamp, Downtime) -> Timestamp,
    ) {
        if let Some(open) = &mut self.session.rewind {
            open.deadline = moved(open.deadline, down);
            if let Some(claim) = &mut open.claim {
                claim.until = moved(claim.until, down);
            }
        }
    }
}

/// A client that failed has changed nothing, and says why.
fn files_end(result: &Value) -> FilesEnd {
    if result.get("success") == Some(&Value::Bool(true)) {
        return match serde_json::from_value::<RewoundFiles>(result.clone()) {
            Ok(files) => FilesEnd::Done(bounded(files)),
            Err(_) => FilesEnd::Unknown("The tool runner's answer cannot be read".to_owned()),
        };
    }
    let error = result.get("error").and_then(Value::as_str);
    FilesEnd::Failed(
        error
            .unwrap_or("The tool runner could not take files back")
            .to_owned(),
    )
}
