//! What a session has under way, and what it waits for.

use std::collections::BTreeSet;

use codelab_protocol::{CallId, ClientId, MessageId, TurnStatus};

use crate::turn::{Thread, ThreadPhase, Turn};
use crate::{Approval, ModelCallId, Session};

impl Session {
    /// The model calls that must be under way, each with the message that it will become.
    pub fn model_calls(&self) -> Vec<(ModelCallId, Option<&MessageId>)> {
        let mut calls = self
            .turn
            .as_ref()
            .map(Turn::model_calls)
            .unwrap_or_default();
        calls.extend(self.compacting_call().map(|call| (call, None)));
        calls
    }

    /// The tool calls that the server must be making.
    pub fn tool_calls(&self) -> Vec<&CallId> {
        let threads = self.turn.iter().flat_map(Turn::threads);
        let calls = threads.filter_map(|thread| match &thread.phase {
            ThreadPhase::Calling { call, begun: true } => Some(&call.call_id),
            ThreadPhase::Calling { begun: false, .. }
            | ThreadPhase::Routing { .. }
            | ThreadPhase::Queued
            | ThreadPhase::Thinking { .. }
            | ThreadPhase::AwaitingResult { .. }
            | ThreadPhase::AwaitingApproval { .. }
            | ThreadPhase::AwaitingAnswer { .. }
            | ThreadPhase::AwaitingRoom
            | ThreadPhase::AwaitingBudget { .. } => None,
        });
        calls.collect()
    }

    /// Whether this client runs the call now.
    pub fn is_run_by(&self, call_id: &CallId, client: &ClientId) -> bool {
        let runs = |thread: &Thread| matches!(&thread.phase, ThreadPhase::AwaitingResult { call, claim: Some(claim), .. } if call.call_id == *call_id && claim.client_id == *client);
        self.turn.iter().flat_map(Turn::threads).any(runs)
    }

    /// The status of the current turn, if it is suspended.
    pub fn suspended(&self) -> Option<TurnStatus> {
        self.turn.as_ref().and_then(Turn::suspended)
    }

    /// Whether something waits for room in a budget, and goes on by itself when others have ended.
    pub fn awaits_room(&self) -> bool {
        self.turn.as_ref().is_some_and(Turn::awaits_room)
    }

    /// Whether a question of an agent waits for an answer.
    pub fn asks(&self) -> bool {
        let mut threads = self.turn.iter().flat_map(Turn::threads);
        threads.any(|thread| {
            matches!(thread.phase, ThreadPhase::AwaitingAnswer { .. })
                || thread.phase.elicitation().is_some()
        })
    }

    /// Whether anything goes on by itself that a stopped server would leave behind.
    pub fn is_running(&self) -> bool {
        let works = self.turn.is_some() && self.suspended().is_none();
        works || self.is_compacting()
    }

    /// Each question once, also where several tasks wait for it.
    pub fn pending_approvals(&self) -> impl Iterator<Item = &Approval> {
        let turn = self.turn.as_ref();
        let of_plan = turn
            .and_then(Turn::workflow)
            .and_then(|workflow| workflow.approval());
        let of_threads = turn
            .into_iter()
            .flat_map(Turn::threads)
            .filter_map(|thread| thread.phase.approval());
        let mut seen = BTreeSet::new();
        of_plan
            .into_iter()
            .chain(of_threads)
            .filter(move |approval| seen.insert(&approval.call_id))
    }
}
