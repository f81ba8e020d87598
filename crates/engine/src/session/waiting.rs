//! What of a session waits for a person, and the events that tell of it.

use codelab_protocol::{
    AgentName, CallId, SessionEventBody, SessionKind, Timestamp, TurnId, Waiting, WaitingKind,
    WaitingRemoved,
};

use super::{Session, Transition};
use crate::turn::{Thread, ThreadPhase, Turn, cut};
use crate::{Approval, ApprovalKind, orchestrator};

/// How much is said of what something is about.
const MAX_TEXT_BYTES: usize = 600;
/// The arguments that tell most about a call.
const TELLING_ARGUMENTS: [&str; 3] = ["command", "path", "mode"];

/// Something that waits, where it stands in the session.
struct Found<'a> {
    turn: TurnId,
    /// None for a plan: the orchestrator made it.
    agent: Option<&'a AgentName>,
    asked: Asked<'a>,
}

enum Asked<'a> {
    Approval(&'a Approval),
    Question {
        call_id: &'a CallId,
        text: &'a str,
        at: Option<Timestamp>,
    },
}

impl Session {
    /// Decisions and answers that the session waits for, each once.
    pub fn waiting(&self) -> Vec<Waiting> {
        self.found().iter().map(Found::shown).collect()
    }

    /// What waits before a step, so that the step can tell what it changed.
    pub(super) fn waiting_ids(&self) -> Vec<(TurnId, CallId)> {
        let found = match self.kind {
            SessionKind::Project => self.found(),
            SessionKind::Runtime => Vec::new(),
        };
        let ids = found.iter().map(|found| (found.turn, found.call_id()));
        ids.map(|(turn, id)| (turn, id.clone())).collect()
    }

    fn found(&self) -> Vec<Found<'_>> {
        let turn = self.turn.as_ref();
        let of_plan = turn.and_then(|turn| {
            Some(Found {
                turn: turn.id,
                agent: None,
                asked: Asked::Approval(turn.workflow()?.approval()?),
            })
        });
        let threads = turn.into_iter().flat_map(Turn::threads);
        let mut found: Vec<Found<'_>> = Vec::new();
        for new in of_plan
            .into_iter()
            .chain(threads.filter_map(Found::of_thread))
        {
            // Several tasks can wait for one decision about their budget.
            if found.iter().all(|known| known.call_id() != new.call_id()) {
                found.push(new);
            }
        }
        found
    }
}

impl Transition<'_, '_> {
    pub(super) fn tell_waiting(&mut self, before: &[(TurnId, CallId)]) {
        if self.session.kind != SessionKind::Project {
            return;
        }
        let found = self.session.found();
        let over = before
            .iter()
            .filter(|(_, id)| found.iter().all(|found| found.call_id() != id));
        let over: Vec<(TurnId, CallId)> = over.cloned().collect();
        let new = found
            .iter()
            .filter(|found| before.iter().all(|(_, id)| id != found.call_id()));
        let new: Vec<(TurnId, Waiting)> = new.map(|found| (found.turn, found.shown())).collect();
        for (turn, call_id) in over {
            let removed = SessionEventBody::WaitingRemoved(WaitingRemoved { call_id });
            // Behind what it follows from. The turn may end in this step, with its own event.
            self.log().second_event(turn, removed);
        }
        for (turn, waiting) in new {
            self.log()
                .event(turn, SessionEventBody::WaitingAdded(waiting));
            self.output.settle_with_last(turn);
        }
    }
}

impl<'a> Found<'a> {
    fn of_thread(thread: &'a Thread) -> Option<Self> {
        let asked = match &thread.phase {
            ThreadPhase::AwaitingApproval { approval, .. }
            | ThreadPhase::AwaitingBudget { approval, .. } => Asked::Approval(approval),
            ThreadPhase::AwaitingAnswer {
                call_id,
                question,
                asked_at,
                ..
            } => Asked::Question {
                call_id,
                text: question,
                at: *asked_at,
            },
            ThreadPhase::AwaitingResult { .. } | ThreadPhase::Calling { .. } => {
                let asked = thread.phase.elicitation()?;
                Asked::Question {
                    call_id: &asked.question_id,
                    text: &asked.question,
                    at: Some(asked.asked_at),
                }
            }
            ThreadPhase::Routing { .. }
            | ThreadPhase::Queued
            | ThreadPhase::Thinking { .. }
            | ThreadPhase::AwaitingRoom => return None,
        };
        Some(Self {
            turn: thread.turn,
            agent: Some(&thread.agent),
            asked,
        })
    }

    fn call_id(&self) -> &'a CallId {
        match self.asked {
            Asked::Approval(approval) => &approval.call_id,
            Asked::Question { call_id, .. } => call_id,
        }
    }

    fn shown(&self) -> Waiting {
        let (kind, text, created_at, expires_at) = match self.asked {
            Asked::Approval(approval) => {
                let (kind, text) = match approval.kind {
                    ApprovalKind::Tool => (WaitingKind::Tool, about_call(approval)),
                    ApprovalKind::Plan => (WaitingKind::Plan, approval.reason.clone()),
                    ApprovalKind::Budget => (WaitingKind::Budget, approval.reason.clone()),
                };
                (kind, text, Some(approval.created_at), approval.expires_at)
            }
            Asked::Question { text, at, .. } => (WaitingKind::Question, text.to_owned(), at, None),
        };
        Waiting {
            kind,
            call_id: self.call_id().clone(),
            agent: self.agent.cloned().unwrap_or_else(orchestrator),
            text: in_one_line(&text),
            created_at,
            expires_at,
        }
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
