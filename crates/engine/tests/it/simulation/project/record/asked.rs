//! What the simulated world may ask a record for.

use codelab_engine::{KnownCall, ModelCallId};
use codelab_protocol::{CallId, Plan};

use super::Record;

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
