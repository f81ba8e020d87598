//! What of a session waits for a person, and the events that tell of it.

use codelab_protocol::{
    AgentName, CallId, SessionEventBody, SessionKind, TurnId, Waiting, WaitingKind, WaitingRemoved,
};

use super::{Session, Transition};
use crate::turn::{Thread, ThreadPhase, Turn, cut};
use crate::{Approval, ApprovalKind, orchestrator};

/// How much is said of what something is about.
const MAX_TEXT_BYTES: usize = 600;
/// The arguments that tell most about a call.
const TELLING_ARGUMENTS: [&str; 3] = ["command", "path", "mode"];

impl Session {
    /// Decisions and answers that the session waits for, each once.
    pub fn waiting(&self) -> Vec<Waiting> {
        let mut waiting: Vec<Waiting> = Vec::new();
        for (_, found) in self.waiting_by_turn() {
            if waiting.iter().all(|known| known.call_id != found.call_id) {
                waiting.push(found);
            }
        }
        waiting
    }

    fn waiting_by_turn(&self) -> impl Iterator<Item = (TurnId, Waiting)> {
        let turn = self.turn.as_ref();
        let of_plan = turn.and_then(|turn| {
            let approval = turn.workflow()?.approval()?;
            Some((turn.id, of_approval(approval, &orchestrator())))
        });
        let threads = turn.into_iter().flat_map(Turn::threads);
        let of_threads = threads.filter_map(|thread| Some((thread.turn, of_thread(thread)?)));
        of_plan.into_iter().chain(of_threads)
    }

    /// What waits before a step, so that the step can tell what it changed.
    pub(super) fn waiting_ids(&self) -> Vec<(TurnId, CallId)> {
        let turn = self.turn.as_ref();
        let Some(turn) = turn.filter(|_| self.kind == SessionKind::Project) else {
            return Vec::new();
        };
        let of_plan = turn.workflow().and_then(|workflow| workflow.approval());
        let of_plan = of_plan.map(|approval| (turn.id, approval.call_id.clone()));
        let of_threads = turn.threads().filter_map(|thread| {
            let waits = match &thread.phase {
                ThreadPhase::AwaitingResult { .. } => None,
                phase => phase.call_id(),
            };
            Some((thread.turn, waits?.clone()))
        });
        of_plan.into_iter().chain(of_threads).collect()
    }
}

impl Transition<'_, '_> {
    pub(super) fn tell_waiting(&mut self, before: &[(TurnId, CallId)]) {
        if self.session.kind != SessionKind::Project {
            return;
        }
        let after: Vec<(TurnId, Waiting)> = self.session.waiting_by_turn().collect();
        let is_over = |id: &CallId| after.iter().all(|(_, waiting)| waiting.call_id != *id);
        let mut told: Vec<&CallId> = Vec::new();
        for (turn, id) in before {
            if is_over(id) && !told.contains(&id) {
                told.push(id);
                let removed = WaitingRemoved {
                    call_id: id.clone(),
                };
                // Behind what it follows from. The turn may end in this step, with its own event.
                self.log()
                    .second_event(*turn, SessionEventBody::WaitingRemoved(removed));
            }
        }
        for (turn, waiting) in &after {
            let id = &waiting.call_id;
            if before.iter().all(|(_, known)| known != id) && !told.contains(&id) {
                told.push(id);
                self.log()
                    .event(*turn, SessionEventBody::WaitingAdded(waiting.clone()));
                self.output.settle_with_last(*turn);
            }
        }
    }
}

fn of_thread(thread: &Thread) -> Option<Waiting> {
    match &thread.phase {
        ThreadPhase::AwaitingApproval { approval, .. }
        | ThreadPhase::AwaitingBudget { approval, .. } => {
            Some(of_approval(approval, &thread.agent))
        }
        ThreadPhase::AwaitingAnswer {
            call_id,
            question,
            asked_at,
            ..
        } => Some(Waiting {
            kind: WaitingKind::Question,
            call_id: call_id.clone(),
            agent: thread.agent.clone(),
            text: question.clone(),
            created_at: *asked_at,
            expires_at: None,
        }),
        ThreadPhase::Routing { .. }
        | ThreadPhase::Queued
        | ThreadPhase::Thinking { .. }
        | ThreadPhase::AwaitingResult { .. }
        | ThreadPhase::AwaitingRoom => None,
    }
}

fn of_approval(approval: &Approval, agent: &AgentName) -> Waiting {
    let (kind, text) = match approval.kind {
        ApprovalKind::Tool => (WaitingKind::Tool, about_call(approval)),
        ApprovalKind::Plan => (WaitingKind::Plan, approval.reason.clone()),
        ApprovalKind::Budget => (WaitingKind::Budget, approval.reason.clone()),
    };
    Waiting {
        kind,
        call_id: approval.call_id.clone(),
        agent: agent.clone(),
        text: in_one_line(&text),
        created_at: Some(approval.created_at),
        expires_at: approval.expires_at,
    }
}

fn about_call(approval: &Approval) -> String {
    let told = TELLING_ARGUMENTS
        .iter()
        .find_map(|name| approval.arguments.get(*name)?.as_str());
    match told {
        Some(told) => format!("{} {told}", approval.tool),
        None => approval.tool.clone(),
    }
}

/// The beginning of a text, for a list.
pub(crate) fn in_one_line(text: &str) -> String {
    let words: Vec<&str> = cut(text, MAX_TEXT_BYTES).split_whitespace().collect();
    words.join(" ")
}
