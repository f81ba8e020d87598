//! Approvals: a person's decision about a tool call, or the lack of one.

use codelab_policy::{Ask, RememberKey, Verdict};
use codelab_protocol::{CallId, ChunkBody, Digest, ErrorCode, ToolCallChunk, TurnStatus};
use serde_json::{Map, Value};

use super::{OpenCall, Phase, Turn, error_data, too_deep};
use crate::session::Step;
use crate::world::{MAX_ARGUMENT_DEPTH, MAX_REMEMBERED};
use crate::{
    Answer, Approval, ApprovalStatus, AuditRecord, CallStatus, Decided, Decision, Effect, KnownApproval, Refusal, Span,
};

impl Step<'_, '_> {
    pub(crate) fn request_approval(&mut self, mut turn: Turn, call: OpenCall, ask: Ask) {
        let timeout_seconds = self.world.limits.approval_timeout_seconds;
        let expires_at = (timeout_seconds > 0).then(|| self.world.now.plus_seconds(timeout_seconds));
        let chunk = self.call_chunk(&call);
        let approval = Box::new(Approval {
            call_id: call.call_id.clone(),
            tool: call.tool.as_str().to_owned(),
            arguments: call.arguments.clone(),
            digest: chunk.digest.clone(),
            parts: ask.parts.clone(),
            reason: ask.reason.clone(),
            remember: ask.remember,
            created_at: self.world.now,
            expires_at,
            timeout_seconds,
        });
        self.effects.push(Effect::ApprovalOpened(Approval::clone(&approval)));
        let shown =
            ToolCallChunk { requires_approval: true, reason: Some(ask.reason), parts: ask.parts, expires_at, ..chunk };
        self.event(turn.id, ChunkBody::ToolCall(shown));
        self.settle(TurnStatus::AwaitingApproval);
        turn.phase = Phase::AwaitingApproval { call, approval };
        self.session.turn = Some(turn);
    }

    /// A call that an earlier decision covers: not asked, but audited.
    pub(crate) fn pass_remembered(&mut self, turn: Turn, call: OpenCall, ask: Ask, rule: String) {
        self.effects.push(Effect::Audit(AuditRecord {
            call_id: call.call_id.clone(),
            tool: call.tool.as_str().to_owned(),
            original: call.arguments.clone(),
            modified: None,
            decision: Decided::Approve,
            decided_by: rule,
            reason: Some(ask.reason.clone()),
            at: self.world.now,
        }));
        self.dispatch(turn, call, Some(ask.reason));
    }

    pub(crate) fn decision(
        &mut self,
        call_id: CallId,
        decision: Decision,
        digest: Option<Digest>,
        decided_by: String,
        known: Option<KnownApproval>,
    ) -> Result<Answer, Refusal> {
        let Some(Turn { id, phase: Phase::AwaitingApproval { call, approval }, .. }) = &self.session.turn else {
            return Err(not_pending(&call_id, known));
        };
        if call.call_id != call_id {
            return Err(not_pending(&call_id, known));
        }
        if approval.expires_at.is_some_and(|expires_at| expires_at <= self.world.now) {
            return Err(Refusal::new(ErrorCode::Conflict, "The approval has expired"));
        }
        if digest.is_some_and(|digest| digest != approval.digest) {
            return Err(Refusal::new(ErrorCode::Conflict, "The digest does not match what waits for a decision")
                .with("digest", approval.digest.as_str()));
        }
        if let Decision::Edit { arguments } = &decision {
            self.check_edit(call, arguments)?;
        }
        let span = Span { turn: *id, after_seq: self.session.last_seq };
        if let Some(turn) = self.session.turn.take() {
            self.decided(turn, decision, decided_by);
        }
        Ok(Answer::Span(span))
    }

    /// What a person wrote passes the same checks as what the model wrote.
    fn check_edit(&self, call: &OpenCall, arguments: &Map<String, Value>) -> Result<(), Refusal> {
        if too_deep(&Value::Object(arguments.clone()), MAX_ARGUMENT_DEPTH) {
            return Err(Refusal::new(ErrorCode::InvalidToolArguments, "The arguments are nested too deeply"));
        }
        match self.check_call(call.tool.as_str(), &Ok(arguments.clone())) {
            Ok(_) => Ok(()),
            Err(error) => Err(Refusal { code: error.error_code, message: error.message, details: error.details }),
        }
    }

    /// Why a call would ask now; the person who edits it has answered that already.
    fn edit_reason(&self, call: &OpenCall, arguments: &Map<String, Value>, before: String) -> String {
        let checked = self.check_call(call.tool.as_str(), &Ok(arguments.clone()));
        match checked.map(|(_, _, checked)| self.world.policy.review(&checked)) {
            Ok(Verdict::Ask(ask)) => ask.reason,
            _ => before,
        }
    }

    fn decided(&mut self, turn: Turn, decision: Decision, decided_by: String) {
        let Phase::AwaitingApproval { call, approval } = turn.phase.clone() else {
            self.session.turn = Some(turn);
            return;
        };
        match decision {
            Decision::Approve { remember } => {
                self.close_approval(&approval, ApprovalStatus::Approved, None, decided_by, None);
                if remember {
                    self.remember(approval.remember);
                }
                self.dispatch(turn, call, Some(approval.reason));
            }
            Decision::Edit { arguments } => {
                let edited = arguments != call.arguments;
                let modified = Some(arguments.clone());
                let reason = self.edit_reason(&call, &arguments, approval.reason.clone());
                let audited = Some(reason.clone());
                self.close_approval(&approval, ApprovalStatus::Edited, modified, decided_by, audited);
                self.dispatch(turn, OpenCall { arguments, edited, ..call }, Some(reason));
            }
            Decision::Reject { feedback } => {
                let told = match feedback.as_deref().map(str::trim).filter(|text| !text.is_empty()) {
                    Some(feedback) => format!("A person rejected this call: {feedback}"),
                    None => "A person rejected this call. Do not repeat it; find another way or ask.".to_owned(),
                };
                self.close_approval(&approval, ApprovalStatus::Rejected, None, decided_by, feedback);
                self.close_call(&call.call_id, CallStatus::Rejected);
                self.tool_message(turn.id, &call.call_id, call.tool.as_str(), told);
                self.next_call(turn);
            }
        }
    }

    fn close_approval(
        &mut self,
        approval: &Approval,
        status: ApprovalStatus,
        modified: Option<Map<String, Value>>,
        decided_by: String,
        reason: Option<String>,
    ) {
        let decision = match status {
            ApprovalStatus::Approved => Decided::Approve,
            ApprovalStatus::Edited => Decided::Edit,
            ApprovalStatus::Rejected | ApprovalStatus::Cancelled | ApprovalStatus::Expired => Decided::Reject,
        };
        self.effects.push(Effect::ApprovalClosed { call_id: approval.call_id.clone(), status });
        self.effects.push(Effect::Audit(AuditRecord {
            call_id: approval.call_id.clone(),
            tool: approval.tool.clone(),
            original: approval.arguments.clone(),
            modified,
            decision,
            decided_by,
            reason: reason.or_else(|| Some(approval.reason.clone())),
            at: self.world.now,
        }));
    }

    fn remember(&mut self, key: Option<RememberKey>) {
        let Some(key) = key else { return };
        if self.session.remembered.contains(&key) {
            return;
        }
        if self.session.remembered.len() >= MAX_REMEMBERED {
            self.session.remembered.pop_front();
        }
        self.session.remembered.push_back(key);
    }

    /// Expires what is due: an approval nobody gave, a result that never came.
    pub(crate) fn tick(&mut self) -> Answer {
        let due = self.session.next_deadline().is_some_and(|deadline| deadline <= self.world.now);
        if !due {
            return Answer::Nothing;
        }
        let Some(turn) = self.session.turn.take() else { return Answer::Nothing };
        let (call, status, error) = match turn.phase.clone() {
            Phase::AwaitingApproval { call, approval } => {
                let status = ApprovalStatus::Expired;
                self.close_approval(&approval, status, None, "timeout".to_owned(), None);
                let seconds = approval.timeout_seconds;
                let message = format!("Nobody decided about {} within {seconds} seconds", approval.tool);
                (call, CallStatus::Rejected, error_data(ErrorCode::HitlTimeout, &message))
            }
            Phase::AwaitingResult { call, .. } => {
                let seconds = self.world.limits.tool_result_timeout_seconds;
                let message = format!(
                    "No result for {} came within {seconds} seconds. It may or may not have run: look before you repeat it",
                    call.tool.as_str()
                );
                (call, CallStatus::TimedOut, error_data(ErrorCode::TaskTimeout, &message))
            }
            _ => {
                self.session.turn = Some(turn);
                return Answer::Nothing;
            }
        };
        let mut error = error;
        error.details.insert("call_id".to_owned(), call.call_id.as_str().into());
        error.details.insert("tool_name".to_owned(), call.tool.as_str().into());
        self.close_call(&call.call_id, status);
        self.note_error(&error.message);
        let told = format!("Error {}: {}", error.error_code.as_str(), error.message);
        self.tool_message(turn.id, &call.call_id, call.tool.as_str(), told);
        self.event(turn.id, ChunkBody::Error(error));
        self.next_call(turn);
        Answer::Nothing
    }
}

/// How a remembered rule is named in the audit log.
pub(super) fn rule_name(key: &RememberKey) -> String {
    match key {
        RememberKey::FileWrites => "remembered: file writes".to_owned(),
        RememberKey::Command(_) => "remembered: the same command".to_owned(),
    }
}

fn not_pending(call_id: &CallId, known: Option<KnownApproval>) -> Refusal {
    let refusal = match known {
        Some(_) => Refusal::new(ErrorCode::Conflict, "The approval was decided, expired or cancelled already"),
        None => Refusal::new(ErrorCode::PendingApprovalNotFound, format!("No pending approval: {call_id}")),
    };
    refusal.with("tool_call_id", call_id.as_str())
}
