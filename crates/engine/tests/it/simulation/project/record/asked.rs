//! What the simulated world may ask a record for.

use codelab_engine::{Approval, ApprovalKind, ApprovalOutcome, KnownCall, ModelCallId};
use codelab_protocol::{CallId, ClientId, FileBase, Plan};
use serde_json::{Map, Value};

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

    pub fn holder(&self, call_id: &CallId) -> Option<ClientId> {
        self.calls.get(call_id)?.holder.clone()
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

    /// What runs is what was agreed, and replaces what was shown.
    pub(super) fn dispatched(
        &mut self,
        call_id: &CallId,
        arguments: &Map<String, Value>,
        base: Option<&FileBase>,
    ) {
        if let Some(asked) = self.approvals.get(call_id) {
            let expected = match asked.status {
                Some(ApprovalOutcome::Approved) => Some(&asked.approval.arguments),
                Some(ApprovalOutcome::Edited) => asked.modified.as_ref(),
                _ => panic!("{call_id} runs without a yes"),
            };
            assert_eq!(
                expected,
                Some(arguments),
                "what runs is not what was approved"
            );
            let is_moved = asked.approval.arguments.get("path") != arguments.get("path");
            let is_write = asked.approval.tool == "write_file";
            let shown = asked.agreed.as_ref().or(asked.shows.as_ref());
            let agreed = shown.filter(|_| is_write && !is_moved);
            assert_eq!(base, agreed, "it may replace what nobody was shown");
            let is_stale =
                asked.agreed.is_some() && asked.shows.is_some() && asked.agreed != asked.shows;
            assert!(!is_stale, "something else was shown last");
        } else {
            assert_eq!(base, None, "nobody agreed to that");
        }
        let call = self
            .calls
            .get_mut(call_id)
            .expect("dispatched a call that was never opened");
        assert_eq!(
            call.dispatched.replace(arguments.clone()),
            None,
            "{call_id} runs twice"
        );
    }
}
