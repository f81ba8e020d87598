//! Who runs a client tool call: claims, leases, and results that come after they lapsed.

use codelab_protocol::{
    CallId, CallOutcome, CalledTool, ClientId, Digest, ErrorCode, Message, Role, SessionKind,
    TaskOrigin, Tool, TurnId, TurnStatus,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::call::{ended_or_unknown, text_of};
use super::did::has_done;
use super::{CallClaim, OpenCall, Thread, ThreadPhase, Turn};
use crate::session::Transition;
use crate::world::{LEASE_SECONDS, MAX_LATE_CALLS};
use crate::{
    CallStatus, CallVersion, CallerAnswer, Effect, EventRange, KnownCall, Lane, Refusal, Session,
};

/// A claimed call whose lease lapsed: it may or may not have run, and its result may still come.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct LateCall {
    pub call_id: CallId,
    pub client_id: ClientId,
    pub tool: CalledTool,
    pub turn: TurnId,
    pub task: Option<TaskOrigin>,
    /// What it wrote or ran, if it did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub did: Option<String>,
}

impl Session {
    /// Results come from whoever claimed the call; sessions of the runtime kind have no claims.
    pub(crate) fn check_holder(
        &self,
        claim: Option<&CallClaim>,
        client: Option<&ClientId>,
    ) -> Result<(), Refusal> {
        if self.kind == SessionKind::Runtime
            || claim.map(|claim| &claim.client_id) == client && client.is_some()
        {
            return Ok(());
        }
        Err(Refusal::new(
            ErrorCode::ToolCallClaimed,
            "The call is not claimed by this client",
        ))
    }

    fn claimed_by(&self, client_id: &ClientId) -> Option<Lane> {
        let holds = |thread: &&Thread| matches!(&thread.phase, ThreadPhase::AwaitingResult { claim: Some(claim), .. } if claim.client_id == *client_id);
        self.turn.as_ref()?.threads().find(holds).map(Thread::lane)
    }

    pub(crate) fn take_late(&mut self, call_id: &CallId, client_id: &ClientId) -> Option<LateCall> {
        let found = self
            .late
            .iter()
            .position(|late| late.call_id == *call_id && late.client_id == *client_id)?;
        self.late.remove(found)
    }
}

impl Transition<'_, '_> {
    /// `bound_is_gone`: the client that the session is bound to has not been seen for a while.
    pub(crate) fn claim(
        &mut self,
        (call_id, version): (CallId, Option<CallVersion>),
        client_id: ClientId,
        bound_is_gone: bool,
        known: Option<KnownCall>,
    ) -> Result<CallerAnswer, Refusal> {
        if self.session.is_rewind_call(&call_id) {
            return self.claim_rewind(client_id, bound_is_gone);
        }
        match self
            .session
            .waiting_thread(&call_id)
            .map(|thread| &thread.phase)
        {
            Some(ThreadPhase::AwaitingResult {
                claim: Some(claim), ..
            }) if claim.client_id != client_id => {
                return Err(claimed(&call_id, "Another client runs this call"));
            }
            Some(ThreadPhase::AwaitingResult { call, .. }) => {
                if version.is_some_and(|version| !call.is_of(&version)) {
                    return Err(Refusal::new(
                        ErrorCode::Conflict,
                        "The call was changed since: another version of it is approved",
                    ));
                }
            }
            Some(ThreadPhase::AwaitingApproval { .. }) => {
                return Err(Refusal::new(
                    ErrorCode::Conflict,
                    "The call is not approved yet",
                ));
            }
            Some(
                ThreadPhase::Routing { .. }
                | ThreadPhase::Queued
                | ThreadPhase::Thinking { .. }
                | ThreadPhase::Calling { .. }
                | ThreadPhase::AwaitingAnswer { .. }
                | ThreadPhase::AwaitingRoom
                | ThreadPhase::AwaitingBudget { .. },
            ) => {
                return Err(Refusal::new(
                    ErrorCode::Conflict,
                    "The call is not one that a client runs",
                ));
            }
            None => return Err(ended_or_unknown(&call_id, known.is_some())),
        }
        let elsewhere = self
            .session
            .bound
            .as_ref()
            .is_some_and(|bound| *bound != client_id);
        if elsewhere && !bound_is_gone {
            return Err(claimed(
                &call_id,
                "The session is bound to another client, in another folder",
            ));
        }
        self.session.bound = Some(client_id.clone());
        let until = self.world.now.plus_seconds(LEASE_SECONDS);
        if let Some(turn) = &mut self.session.turn {
            for thread in turn.threads_mut() {
                if let ThreadPhase::AwaitingResult { call, claim, .. } = &mut thread.phase
                    && call.call_id == call_id
                {
                    *claim = Some(CallClaim {
                        client_id: client_id.clone(),
                        until,
                    });
                }
            }
        }
        Ok(CallerAnswer::Claimed)
    }

    /// A client lets go of the session; what it was running has an unknown outcome.
    pub(crate) fn client_gone(&mut self, client_id: &ClientId) -> CallerAnswer {
        if self.session.bound.as_ref() == Some(client_id) {
            self.session.bound = None;
            self.output.mark_changed();
        }
        self.rewind_client_gone(client_id);
        while let Some(lane) = self.session.claimed_by(client_id) {
            let Some(thread) = self.session.take_thread(lane) else {
                never!("the thread of a claimed call is not in its turn");
                break;
            };
            self.lease_lapsed(thread);
        }
        CallerAnswer::Nothing
    }

    /// The lease ran out: the person and the model are told that nobody knows whether it ran.
    pub(crate) fn lease_lapsed(&mut self, thread: Thread) {
        let ThreadPhase::AwaitingResult {
            call,
            claim: Some(claim),
            ..
        } = thread.phase.clone()
        else {
            never!("a lease lapses that nobody holds");
            return self.session.put(thread);
        };
        self.withdraw_elicitation(&thread, &call);
        let OpenCall { call_id, tool, .. } = &call;
        let name = tool.name();
        self.output
            .close_call_that_did(call_id, CallStatus::TimedOut, call.may_have_done());
        self.view()
            .show_closed(&thread, call_id, CallOutcome::Unknown);
        let message = format!(
            "The client that ran {name} stopped answering. It may or may not have run: look before you repeat it"
        );
        self.session.note_error(&message);
        self.tool_message(
            &thread,
            call_id,
            &name,
            format!("Outcome unknown. {message}"),
        );
        if self.session.late.len() >= MAX_LATE_CALLS {
            self.session.late.pop_front();
        }
        self.session.late.push_back(LateCall {
            call_id: call_id.clone(),
            client_id: claim.client_id,
            tool: tool.clone(),
            turn: thread.turn,
            task: self.session.task_of(&thread),
            did: call.about(),
        });
        self.next_call(thread);
    }

    /// Shown, and read by the model at its next step.
    pub(crate) fn late_result(
        &mut self,
        late: LateCall,
        result: Value,
        digest: Digest,
    ) -> CallerAnswer {
        if late.tool.is(Tool::RewindFiles) {
            return self.late_rewind(&late, result, digest);
        }
        let span = EventRange {
            turn: late.turn,
            after_seq: self.session.last_seq,
        };
        let status = CallStatus::Finished;
        let call_id = late.call_id.clone();
        self.output.push(Effect::CallClosed {
            call_id,
            status,
            result_digest: Some(digest),
            span: Some(span),
            did: late.did.clone().filter(|_| has_done(&late.tool, &result)),
        });
        let tool = late.tool.name();
        let text = format!(
            "Late result of {tool} ({}), whose outcome was unknown: {}",
            late.call_id,
            text_of(&result)
        );
        self.view().show_late_result(&late, result);
        let message = Message {
            name: Some(tool),
            ..self.new_message(Role::Tool, text)
        };
        // A task that has ended is not asked again; the session's own history is read by whoever
        // comes next.
        let plan = self
            .session
            .turn
            .as_ref()
            .filter(|turn| turn.id == late.turn)
            .and_then(Turn::workflow);
        let is_open = |origin: &TaskOrigin| {
            plan.zip(origin.task_id.as_ref())
                .is_some_and(|(plan, task)| plan.is_open(task))
        };
        let task = late.task.clone().filter(is_open);
        self.session.note_late_message(late.turn, &message.content);
        self.message(late.turn, task, message);
        match self
            .session
            .turn
            .as_ref()
            .filter(|turn| turn.id == late.turn)
        {
            Some(turn) => turn
                .suspended()
                .map_or(CallerAnswer::Span(span), CallerAnswer::Now),
            None => CallerAnswer::Now(TurnStatus::Completed),
        }
    }
}

fn claimed(call_id: &CallId, why: &str) -> Refusal {
    Refusal::new(ErrorCode::ToolCallClaimed, why).with("call_id", call_id.as_str())
}
