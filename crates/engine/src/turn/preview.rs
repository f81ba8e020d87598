//! What a write would replace: shown with its approval, bound by the decision, and asked about again
//! when the client finds something else there.

use codelab_policy::{Ask, RememberKey, Verdict};
use codelab_protocol::{
    ApprovalPreview, ApproveMode, CallId, CallOutcome, ClientId, Digest, ErrorCode, FileBase,
    FilePreview, MAX_PREVIEW_BYTES, MAX_PREVIEW_TEXT_BYTES, SessionEventBody, SessionKind, Tool,
};
use serde_json::Value;

use super::call::{CheckedTool, ended_or_unknown};
use super::{OpenCall, Thread, ThreadPhase, error_data};
use crate::effect::ShownPreview;
use crate::session::Transition;
use crate::turn::cut;
use crate::world::{MAX_ASKED_AGAIN, MAX_PREVIEWS};
use crate::{
    Approval, ApprovalKind, CallStatus, CallVersion, CallerAnswer, ClientStanding, Decision,
    Effect, KnownCall, Refusal, Session,
};

/// Who decided, where the session's mode let a write pass.
const EDITS_MODE: &str = "mode:edits";

impl Session {
    /// The rule under which a call passes that would ask. Only what could be remembered as a write
    /// of files passes by the mode: protected paths and commands do not.
    pub(super) fn passes_unasked(&self, ask: &Ask) -> Option<String> {
        match (self.approve, &ask.remember) {
            (ApproveMode::Edits, Some(RememberKey::FileWrites)) => Some(EDITS_MODE.to_owned()),
            (ApproveMode::Ask | ApproveMode::Edits, _) => self.remembered(ask),
        }
    }

    fn may_show(&self, client: &ClientId, standing: ClientStanding) -> Result<(), Refusal> {
        let is_elsewhere = self.bound.as_ref().is_some_and(|bound| bound != client);
        if is_elsewhere && !standing.bound_is_gone {
            return Err(Refusal::new(
                ErrorCode::ToolCallClaimed,
                "The session is bound to another client, in another folder",
            ));
        }
        Ok(())
    }
}

impl Approval {
    /// Nobody approves what is not there any more.
    pub(super) fn check_base(
        &self,
        decision: &Decision,
        base: Option<&FileBase>,
    ) -> Result<(), Refusal> {
        let (Some(base), Some(shown)) = (base, &self.preview) else {
            return Ok(());
        };
        let now = &shown.preview.base;
        if base == now || matches!(decision, Decision::Reject { .. }) {
            return Ok(());
        }
        let now = match now {
            FileBase::Missing => Value::Null,
            FileBase::Content(digest) => digest.as_str().into(),
        };
        Err(Refusal::new(
            ErrorCode::Conflict,
            "The file changed since it was shown: look at the difference again",
        )
        .with("base", now))
    }

    /// What the decision agrees to replace: what the person saw, else what was shown last. An edit
    /// that writes elsewhere replaces something that nobody was shown.
    pub(super) fn bound_base(
        &self,
        call: &OpenCall,
        decision: &Decision,
        base: Option<FileBase>,
    ) -> Option<FileBase> {
        let is_same_place = match decision {
            Decision::Edit { arguments } => arguments.get("path") == call.arguments.get("path"),
            Decision::Approve { .. } | Decision::Reject { .. } => true,
        };
        if !is_same_place || !call.tool.is(Tool::WriteFile) {
            return None;
        }
        let shown = || {
            self.preview
                .as_ref()
                .map(|shown| shown.preview.base.clone())
        };
        base.or_else(shown)
    }
}

impl OpenCall {
    pub(super) fn is_of(&self, version: &CallVersion) -> bool {
        self.tool.digest(&self.arguments) == version.digest && self.base == version.base
    }
}

impl Transition<'_, '_> {
    pub(crate) fn preview(
        &mut self,
        call_id: &CallId,
        client_id: ClientId,
        (preview, certain): (FilePreview, Option<Value>),
        (standing, known): (ClientStanding, bool),
    ) -> Result<CallerAnswer, Refusal> {
        let pending = self.session.waiting_thread(call_id).cloned();
        let asks_about_write = |thread: &Thread| matches!(&thread.phase, ThreadPhase::AwaitingApproval { call, .. } if call.tool.is(Tool::WriteFile));
        let Some(thread) = pending.filter(asks_about_write) else {
            return Err(super::approval::not_pending(call_id, known));
        };
        self.session.may_show(&client_id, standing)?;
        let preview = bounded(preview);
        let mut count = 1;
        let last = thread.phase.approval();
        let last = last.and_then(|open| open.preview.as_ref());
        if let (None, Some(result)) = (last, certain) {
            return Ok(self.certain_result(call_id, result));
        }
        if let Some(last) = last {
            if last.client_id != client_id && !standing.other_is_gone {
                return Err(Refusal::new(
                    ErrorCode::ToolCallClaimed,
                    "Another client shows what this call would write",
                ));
            }
            if last.preview == preview {
                return Ok(CallerAnswer::Nothing);
            }
            if last.count >= MAX_PREVIEWS {
                return Err(Refusal::new(
                    ErrorCode::Conflict,
                    "The file changed too often to be shown again",
                ));
            }
            count = last.count + 1;
        }
        for approval in self.session.approvals_mut(call_id) {
            approval.preview = Some(Box::new(ShownPreview {
                preview: preview.clone(),
                client_id: client_id.clone(),
                count,
            }));
        }
        self.output.push(Effect::ApprovalPreviewed {
            call_id: call_id.clone(),
            preview: preview.clone(),
        });
        let shown = ApprovalPreview {
            call_id: call_id.clone(),
            preview,
            origin: self.session.origin(&thread),
        };
        self.log().event(
            thread.turn,
            SessionEventBody::ApprovalPreview(Box::new(shown)),
        );
        // The newest event of a turn says how it stands.
        if let Some(status) = self.session.suspended() {
            self.output.settle_turn(thread.turn, status);
        }
        Ok(CallerAnswer::Nothing)
    }

    /// Nobody decides about a write that changes nothing, whatever they would say. The agent gets the
    /// result.
    fn certain_result(&mut self, call_id: &CallId, result: Value) -> CallerAnswer {
        let span = self.session.here();
        let Some(thread) = self.session.take_waiting(call_id) else {
            never!("the call that has a result is not open");
            return CallerAnswer::Nothing;
        };
        let ThreadPhase::AwaitingApproval { call, approval } = thread.phase.clone() else {
            never!("the call that has a result does not wait for a person");
            self.session.put(thread);
            return CallerAnswer::Nothing;
        };
        self.withdraw_approval(&approval);
        self.output.push(Effect::CallClosed {
            call_id: call_id.clone(),
            status: CallStatus::Finished,
            result_digest: Some(Digest::of_json(&result)),
            span: Some(span),
            did: None,
        });
        self.session.note_failure(&call, &result);
        let text = call.told(&result);
        self.view().show_client_result(&thread, &call, result);
        self.tool_message(&thread, &call.call_id, &call.tool.name(), text);
        self.next_call(thread);
        CallerAnswer::Span(span)
    }

    /// The call goes back to where it waits for a person. Nothing of it has run.
    pub(crate) fn ask_again(
        &mut self,
        call_id: &CallId,
        client_id: ClientId,
        (reason, preview): (String, FilePreview),
        known: Option<KnownCall>,
    ) -> Result<CallerAnswer, Refusal> {
        let is_project = self.session.kind == SessionKind::Project;
        match self
            .session
            .waiting_thread(call_id)
            .map(|thread| &thread.phase)
        {
            Some(ThreadPhase::AwaitingResult { call, claim, .. })
                if is_project && call.tool.is(Tool::WriteFile) =>
            {
                self.session
                    .check_holder(claim.as_ref(), Some(&client_id))?;
            }
            // The same request came before.
            Some(ThreadPhase::AwaitingApproval { .. }) => return Ok(CallerAnswer::Nothing),
            Some(_) => {
                return Err(Refusal::new(
                    ErrorCode::Conflict,
                    "The call is not a write that a client runs",
                ));
            }
            None => return Err(ended_or_unknown(call_id, known.is_some())),
        }
        let span = self.session.here();
        let Some(thread) = self.session.take_waiting(call_id) else {
            never!("the call that asks again is not open");
            return Ok(CallerAnswer::Nothing);
        };
        let ThreadPhase::AwaitingResult { call, .. } = thread.phase.clone() else {
            never!("the call that asks again is not open");
            self.session.put(thread);
            return Ok(CallerAnswer::Nothing);
        };
        if call.asked_again >= MAX_ASKED_AGAIN {
            let message = "The file changed again and again while a person decided. Nothing was \
                           written";
            let error = error_data(ErrorCode::Conflict, message);
            self.call_expired(
                thread,
                &call,
                CallStatus::Rejected,
                CallOutcome::Rejected,
                error,
            );
            return Ok(CallerAnswer::Span(span));
        }
        let call = OpenCall {
            base: None,
            asked_again: call.asked_again + 1,
            ..call
        };
        self.open_again(thread, call, client_id, (reason, bounded(preview)));
        Ok(CallerAnswer::Span(span))
    }

    fn open_again(
        &mut self,
        thread: Thread,
        call: OpenCall,
        client_id: ClientId,
        (reason, preview): (String, FilePreview),
    ) {
        let chunk = self.session.call_chunk(&thread, &call);
        let (parts, remember) = match self.asks_now(&thread, &call) {
            Some(ask) => (ask.parts, ask.remember),
            None => (Vec::new(), None),
        };
        let approval = self.open_approval(Approval {
            call_id: call.call_id.clone(),
            kind: ApprovalKind::Tool,
            tool: call.tool.name(),
            arguments: call.arguments.clone(),
            digest: chunk.digest,
            mcp: None,
            parts,
            reason: cut(&reason, MAX_PREVIEW_TEXT_BYTES).to_owned(),
            remember,
            created_at: self.world.now,
            expires_at: None,
            timeout_seconds: 0,
            preview: Some(Box::new(ShownPreview {
                preview,
                client_id,
                count: 1,
            })),
        });
        self.view().show_approval(&thread, &approval, None);
        self.suspend(thread, ThreadPhase::AwaitingApproval { call, approval });
    }

    /// What the policy asks about this call.
    fn asks_now(&self, thread: &Thread, call: &OpenCall) -> Option<Ask> {
        let (team, name) = (self.world.team, call.tool.name());
        let checked = team.check_call(thread, &self.space, &name, &Ok(call.arguments.clone()));
        let Ok((_, CheckedTool::BuiltIn(_, checked))) = checked else {
            return None;
        };
        match self.world.policy.review(&checked) {
            Verdict::Ask(ask) => Some(ask),
            Verdict::Allow => None,
        }
    }
}

/// Clients are not trusted to keep their texts short.
fn bounded(preview: FilePreview) -> FilePreview {
    let diff = cut(&preview.diff, MAX_PREVIEW_BYTES);
    FilePreview {
        truncated: preview.truncated || diff.len() < preview.diff.len(),
        diff: diff.to_owned(),
        note: preview
            .note
            .map(|note| cut(&note, MAX_PREVIEW_TEXT_BYTES).to_owned()),
        ..preview
    }
}
