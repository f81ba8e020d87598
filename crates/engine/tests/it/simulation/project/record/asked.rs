//! What the simulated world may ask a record for.

use codelab_engine::{Approval, ApprovalKind, ApprovalOutcome, KnownCall, ModelCallId};
use codelab_protocol::{CallId, Plan};

use super::{Asked, Record};

impl Asked {
    pub(super) fn new(approval: &Approval) -> Self {
        Self {
            approval: approval.clone(),
            status: None,
            modified: None,
            audited: 0,
            shows: approval
                .preview
                .as_ref()
                .map(|shown| shown.preview.base.clone()),
            agreed: None,
        }
    }

    /// Only a plan that nobody decided about is asked about again.
    pub(super) fn is_renewable(&self) -> bool {
        let is_plan = self.approval.kind == ApprovalKind::Plan;
        is_plan && self.status == Some(ApprovalOutcome::Expired)
    }
}

impl Record {
    /// The model calls of the last commit.
    pub fn made(&self) -> Vec<ModelCallId> {
        self.made.clone()
    }

    pub fn plans(&self) -> Vec<Plan> {
        self.workflows.plans()
    }

    pub fn call_ids(&self) -> Vec<CallId> {
        self.calls.keys().cloned().collect()
    }

    pub fn approval_ids(&self) -> Vec<CallId> {
        self.approvals.keys().cloned().collect()
    }

    pub fn asked_about(&self, call_id: &CallId) -> Option<&'static str> {
        self.approvals
            .get(call_id)
            .map(|asked| asked.approval.kind.as_str())
    }

    pub fn known_call(&self, call_id: &CallId) -> Option<KnownCall> {
        let call = self.calls.get(call_id)?;
        let (result_digest, span) = call.result.clone().unzip();
        Some(KnownCall {
            result_digest,
            span,
        })
    }

    pub fn known_approval(&self, call_id: &CallId) -> bool {
        self.approvals
            .get(call_id)
            .is_some_and(|asked| asked.status.is_some())
    }
}
