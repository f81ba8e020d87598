//! Approvals: a person's decision about a tool call, a plan or a budget, or the lack of one.

use codelab_policy::{Ask, RememberKey, Verdict};
use codelab_protocol::{
    CallId, CallOutcome, Digest, ErrorCode, ErrorData, FileBase, ToolCallChunk,
};
use serde_json::{Map, Value};

use super::call::CheckedTool;
use super::{OpenCall, REJECTED_BY_PERSON, Thread, ThreadPhase, error_data, too_deep};
use crate::session::Transition;
use crate::world::{MAX_ARGUMENT_DEPTH, MAX_REMEMBERED};
use crate::{
    Approval, ApprovalKind, ApprovalOutcome, AuditDecision, CallStatus, CallerAnswer, Decision,
    DecisionRecord, Effect, Refusal, Session, SpaceSnapshot, Team,
};

impl Session {
    fn remember(&mut self, key: Option<RememberKey>) {
        // Some calls are asked about each time.
        let Some(key) = key else { return };
        if self.remembered.contains(&key) {
            return;
        }
        if self.remembered.len() >= MAX_REMEMBERED {
            self.remembered.pop_front();
        }
        self.remembered.push_back(key);
    }
}

impl Team {
    /// What a person wrote passes the same checks as what the model wrote.
    fn check_edit(
        &self,
        thread: &Thread,
        space: &SpaceSnapshot,
        arguments: &Map<String, Value>,
    ) -> Result<(), Refusal> {
        let ThreadPhase::AwaitingApproval { call, .. } = &thread.phase else {
            never!("a tool call is edited that waits for no approval");
            return Ok(());
        };
        if too_deep(&Value::Object(arguments.clone()), MAX_ARGUMENT_DEPTH) {
            return Err(Refusal::new(
                ErrorCode::InvalidToolArguments,
                "The arguments are nested too deeply",
            ));
        }
        match self.check_call(thread, space, &call.tool.name(), &Ok(arguments.clone())) {
            Ok(_) => Ok(()),
            Err(error) => Err(Refusal {
                code: error.error_code,
                message: error.message,
                details: error.details,
            }),
        }
    }
}

impl Transition<'_, '_> {
    pub(crate) fn request_approval(&mut self, thread: Thread, call: OpenCall, ask: Ask) {
        let chunk = self.session.call_chunk(&thread, &call);
        let approval = self.open_approval(Approval {
            call_id: call.call_id.clone(),
            kind: ApprovalKind::Tool,
            tool: call.tool.name(),
            arguments: call.arguments.clone(),
            digest: chunk.digest.clone(),
            mcp: chunk.mcp.clone(),
            parts: ask.parts.clone(),
            reason: ask.reason.clone(),
            remember: ask.remember,
            created_at: self.world.now,
            expires_at: None,
            timeout_seconds: 0,
            preview: None,
        });
        let expires_at = approval.expires_at;
        let shown = ToolCallChunk {
            requires_approval: true,
            reason: Some(ask.reason),
            parts: ask.parts,
            expires_at,
            ..chunk
        };
        self.view().show_approval(&thread, &approval, Some(shown));
        self.suspend(thread, ThreadPhase::AwaitingApproval { call, approval });
    }

    /// Writes the question down, with the time that people have for it.
    pub(crate) fn open_approval(&mut self, approval: Approval) -> Box<Approval> {
        let timeout_seconds = self.world.limits.approval_timeout_seconds;
        let expires_at =
            (timeout_seconds > 0).then(|| self.world.now.plus_seconds(timeout_seconds));
        let approval = Box::new(Approval {
            expires_at,
            timeout_seconds,
            ..approval
        });
        self.output
            .push(Effect::ApprovalOpened(Approval::clone(&approval)));
        approval
    }

    /// A call that an earlier decision covers: not asked, but audited.
    pub(crate) fn pass_remembered(
        &mut self,
        thread: Thread,
        call: OpenCall,
        ask: Ask,
        rule: String,
    ) {
        let reason = format!("{} ({rule})", ask.reason);
        self.output.push(Effect::Audit(DecisionRecord {
            call_id: call.call_id.clone(),
            tool: call.tool.name(),
            original: call.arguments.clone(),
            modified: None,
            decision: AuditDecision::Approve,
            decided_by: rule,
            reason: Some(reason.clone()),
            at: self.world.now,
        }));
        self.dispatch(thread, call, Some(reason));
    }

    pub(crate) fn decision(
        &mut self,
        call_id: CallId,
        decision: Decision,
        (digest, base): (Option<Digest>, Option<FileBase>),
        decided_by: String,
        known: bool,
    ) -> Result<CallerAnswer, Refusal> {
        let open = self
            .session
            .pending_approvals()
            .find(|approval| approval.call_id == call_id);
        let Some(approval) = open else {
            return Err(not_pending(&call_id, known));
        };
        if approval
            .expires_at
            .is_some_and(|expires_at| expires_at <= self.world.now)
        {
            return Err(Refusal::new(
                ErrorCode::Conflict,
                "The approval has expired",
            ));
        }
        if digest.is_some_and(|digest| digest != approval.digest) {
            return Err(Refusal::new(
                ErrorCode::Conflict,
                "The digest does not match what waits for a decision",
            )
            .with("digest", approval.digest.as_str()));
        }
        approval.check_base(&decision, base.as_ref())?;
        let span = self.session.here();
        match approval.kind {
            ApprovalKind::Tool => self.decide_call(&call_id, decision, base, decided_by)?,
            ApprovalKind::Budget => self.decide_budget(&call_id, decision, decided_by)?,
            ApprovalKind::Plan => self.decide_plan(decision, decided_by)?,
        }
        Ok(CallerAnswer::Span(span))
    }

    fn decide_call(
        &mut self,
        call_id: &CallId,
        decision: Decision,
        base: Option<FileBase>,
        decided_by: String,
    ) -> Result<(), Refusal> {
        if let (Decision::Edit { arguments }, Some(thread)) =
            (&decision, self.session.waiting_thread(call_id))
        {
            let team = self.world.team;
            team.check_edit(thread, &self.space, arguments)?;
        }
        let Some(thread) = self.session.take_waiting(call_id) else {
            never!("an approval is pending that no thread waits for");
            return Ok(());
        };
        self.decided(thread, decision, base, decided_by);
        Ok(())
    }

    /// Why a call would ask now; the person who edits it has answered that already.
    fn edit_reason(
        &self,
        thread: &Thread,
        call: &OpenCall,
        arguments: &Map<String, Value>,
        before: String,
    ) -> String {
        let (team, name) = (self.world.team, call.tool.name());
        let checked = team.check_call(thread, &self.space, &name, &Ok(arguments.clone()));
        match checked {
            Ok((_, CheckedTool::BuiltIn(_, checked))) => match self.world.policy.review(&checked) {
                Verdict::Ask(ask) => ask.reason,
                Verdict::Allow => before,
            },
            // Each call of such a tool asks for the same reason.
            Ok((_, CheckedTool::Named(_))) | Err(_) => before,
        }
    }

    /// Why the tool of an MCP server cannot be called any more, where that is known. One that is not
    /// known at the moment may come back with its server, which checks the definition itself.
    fn refused_since(&self, call: &OpenCall) -> Option<ErrorData> {
        let mcp = call.tool.mcp()?;
        let name = call.tool.name();
        let why = self.space.named_tools.refuses(&name, &mcp.id)?;
        let message = format!("{name} was not run: {why}");
        Some(error_data(ErrorCode::ToolValidationError, &message))
    }

    fn decided(
        &mut self,
        thread: Thread,
        decision: Decision,
        base: Option<FileBase>,
        decided_by: String,
    ) {
        let ThreadPhase::AwaitingApproval { call, approval } = thread.phase.clone() else {
            never!("a tool call is decided that waits for no approval");
            return self.session.put(thread);
        };
        let call = OpenCall {
            base: approval.bound_base(&call, &decision, base),
            ..call
        };
        match decision {
            Decision::Approve { remember } => {
                self.close_approval(&approval, ApprovalOutcome::Approved, None, decided_by, None);
                if remember {
                    self.session.remember(approval.remember);
                }
                match self.refused_since(&call) {
                    None => self.dispatch(thread, call, Some(approval.reason)),
                    Some(error) => self.call_expired(
                        thread,
                        &call,
                        CallStatus::Rejected,
                        CallOutcome::Rejected,
                        error,
                    ),
                }
            }
            Decision::Edit { arguments } => {
                let edited = arguments != call.arguments;
                let modified = Some(arguments.clone());
                let reason = self.edit_reason(&thread, &call, &arguments, approval.reason.clone());
                let audited = Some(reason.clone());
                self.close_approval(
                    &approval,
                    ApprovalOutcome::Edited,
                    modified,
                    decided_by,
                    audited,
                );
                self.dispatch(
                    thread,
                    OpenCall {
                        arguments,
                        edited,
                        ..call
                    },
                    Some(reason),
                );
            }
            Decision::Reject { feedback } => {
                let told = match feedback
                    .as_deref()
                    .map(str::trim)
                    .filter(|text| !text.is_empty())
                {
                    Some(feedback) => format!("{REJECTED_BY_PERSON}: {feedback}"),
                    None => {
                        format!("{REJECTED_BY_PERSON}. Do not repeat it; find another way or ask.")
                    }
                };
                self.close_approval(
                    &approval,
                    ApprovalOutcome::Rejected,
                    None,
                    decided_by,
                    feedback,
                );
                self.output.close_call(&call.call_id, CallStatus::Rejected);
                self.view()
                    .show_closed(&thread, &call.call_id, CallOutcome::Rejected);
                self.tool_message(&thread, &call.call_id, &call.tool.name(), told);
                self.next_call(thread);
            }
        }
    }

    pub(crate) fn close_approval(
        &mut self,
        approval: &Approval,
        status: ApprovalOutcome,
        modified: Option<Map<String, Value>>,
        decided_by: String,
        reason: Option<String>,
    ) {
        let decision = match status {
            ApprovalOutcome::Approved => AuditDecision::Approve,
            ApprovalOutcome::Edited => AuditDecision::Edit,
            ApprovalOutcome::Rejected | ApprovalOutcome::Cancelled | ApprovalOutcome::Expired => {
                AuditDecision::Reject
            }
        };
        self.output.push(Effect::ApprovalClosed {
            call_id: approval.call_id.clone(),
            status,
        });
        self.view().show_resolved(
            approval,
            status,
            &decided_by,
            reason.clone(),
            modified.clone(),
        );
        self.output.push(Effect::Audit(DecisionRecord {
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

    /// An approval that a cancel took away: nobody decided, so nothing is audited.
    pub(crate) fn withdraw_approval(&mut self, approval: &Approval) {
        // Tasks share a question about the budget, and its answer can be what ends them.
        if self.output.closes_approval(&approval.call_id) {
            return;
        }
        let status = ApprovalOutcome::Cancelled;
        self.output.push(Effect::ApprovalClosed {
            call_id: approval.call_id.clone(),
            status,
        });
        self.view()
            .show_resolved(approval, status, "cancel", None, None);
    }

    /// Nobody decided about a tool call in time.
    pub(crate) fn approval_expired(&mut self, thread: Thread) {
        let ThreadPhase::AwaitingApproval { call, approval } = thread.phase.clone() else {
            never!("an approval expires that no thread waits for");
            return self.session.put(thread);
        };
        self.close_approval(
            &approval,
            ApprovalOutcome::Expired,
            None,
            TIMEOUT.to_owned(),
            None,
        );
        let seconds = approval.timeout_seconds;
        let message = format!(
            "Nobody decided about {} within {seconds} seconds",
            approval.tool
        );
        let error = error_data(ErrorCode::HitlTimeout, &message);
        self.call_expired(
            thread,
            &call,
            CallStatus::Rejected,
            CallOutcome::Rejected,
            error,
        );
    }
}

/// Who decided, when nobody did.
pub(crate) const TIMEOUT: &str = "timeout";

/// How a remembered rule is named in the audit log.
pub(super) fn rule_name(key: &RememberKey) -> String {
    match key {
        RememberKey::FileWrites => "remembered: file writes".to_owned(),
        RememberKey::Command(_) => "remembered: the same command".to_owned(),
        RememberKey::McpTool(tool) => {
            let name = codelab_policy::visible(&tool.tool);
            format!("remembered: {name} of {}", tool.server)
        }
    }
}

pub(super) fn not_pending(call_id: &CallId, known: bool) -> Refusal {
    let refusal = match known {
        true => Refusal::new(
            ErrorCode::Conflict,
            "The approval was decided, expired or cancelled already",
        ),
        false => Refusal::new(
            ErrorCode::PendingApprovalNotFound,
            format!("No pending approval: {call_id}"),
        ),
    };
    refusal.with("tool_call_id", call_id.as_str())
}
