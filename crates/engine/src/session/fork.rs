//! A session that begins with the history of another one.

use std::collections::{BTreeMap, BTreeSet};

use codelab_protocol::{
    CallId, ForkedFrom, HistoryCompacted, Message, MessageCreated, MessageId, Reasoning, Role,
    SessionEventBody, TaskOrigin, ToolResultEvent, TurnId, TurnStatus,
};
use serde_json::Value;

use super::{Session, Transition};
use crate::{Budget, CallerAnswer, MessageRecord};

/// What a new session takes from another one. Approvals, what was remembered, what was spent, the
/// client and everything that waits stay there.
#[derive(Debug, Clone)]
pub struct Fork {
    pub from: ForkedFrom,
    pub original: Box<Session>,
    /// Of the session's own history, oldest first, with their numbers there.
    pub messages: Vec<MessageRecord>,
}

const NOT_FINISHED: &str = "This call had not ended when the session was forked.";

impl Session {
    pub fn forked_from(&self) -> Option<&ForkedFrom> {
        self.forked_from.as_ref()
    }

    /// Whether the turn was done in the session that this one was forked from.
    pub(crate) fn is_of_original(&self, turn: TurnId) -> bool {
        self.forked_turn.is_some_and(|last| turn <= last)
    }

    /// The session's limits as a person set them, without what approvals added.
    pub fn budget_as_set(&self) -> Budget {
        let Budget { usd, tokens } = self.budget;
        Budget {
            usd: usd.map(|usd| (usd - self.granted.usd).max(0.0)),
            tokens: tokens.map(|tokens| tokens.saturating_sub(self.granted.tokens)),
        }
    }
}

impl Transition<'_, '_> {
    /// Fills a session that has just been made. Its log shows the history as it was said, so that
    /// whoever follows events sees it too.
    pub(super) fn fork(&mut self, fork: Fork) -> CallerAnswer {
        let Fork {
            from,
            original,
            messages,
        } = fork;
        let Some(last) = messages.last() else {
            never!("a session is forked without a history");
            return CallerAnswer::Nothing;
        };
        let (last_turn, is_whole) = (last.turn, last.ord + 1 >= original.message_count);
        self.session.forked_from = Some(from);
        self.session.model.clone_from(&original.model);
        self.session.chosen.clone_from(&original.chosen);
        self.session.caller = original.caller.clone();
        // What it goes on with was said with the instructions of these folders.
        self.session.touched.clone_from(&original.touched);
        // What happened later is not known here.
        if is_whole {
            self.session.last_error.clone_from(&original.last_error);
            self.session
                .modified_files
                .clone_from(&original.modified_files);
        }
        self.session.last_turn = last_turn.0;
        self.session.forked_turn = Some(last_turn);
        let earlier = messages.iter().filter(|record| record.turn < last_turn);
        self.session.last_began_at = Some(earlier.count() as u64);
        let covered = original.covered(&messages);
        let open = open_calls(&messages);
        let mut ids = BTreeMap::new();
        for (place, record) in messages.into_iter().enumerate() {
            if covered == Some(place) {
                self.take_summary(&original, place, record.turn);
            }
            self.copy(record, &mut ids);
        }
        if covered == Some(ids.len()) {
            self.take_summary(&original, ids.len(), last_turn);
        }
        for (call_id, name) in open {
            let result = Message {
                tool_call_id: Some(call_id),
                name: Some(name),
                ..self.new_message(Role::Tool, NOT_FINISHED.to_owned())
            };
            self.show_copied(last_turn, &result);
            self.message(last_turn, None, result);
        }
        self.session.copy_plan_state(&original, is_whole);
        self.output.settle(TurnStatus::Completed);
        CallerAnswer::Nothing
    }

    /// `ids`: the new ids of the messages that were copied before.
    fn copy(&mut self, record: MessageRecord, ids: &mut BTreeMap<MessageId, MessageId>) {
        let message_id = self.world.ids.message_id();
        ids.insert(record.message.message_id.clone(), message_id.clone());
        let before = &record.message;
        let retries = before.retries.as_ref().and_then(|id| ids.get(id)).cloned();
        // Providers want reasoning back only within its turn.
        let reasoning = before.reasoning.as_ref().map(|reasoning| {
            Box::new(Reasoning {
                opaque: Value::Null,
                ..Reasoning::clone(reasoning)
            })
        });
        let message = Message {
            message_id,
            retries,
            reasoning,
            ..record.message
        };
        self.show_copied(record.turn, &message);
        self.message(record.turn, None, message);
    }

    fn show_copied(&mut self, turn: TurnId, message: &Message) {
        let event = match (message.role, &message.tool_call_id) {
            (Role::Tool, Some(call_id)) => SessionEventBody::ToolResult(ToolResultEvent {
                call_id: call_id.clone(),
                tool_name: message.name.clone().unwrap_or_default(),
                result: serde_json::from_str(&message.content)
                    .unwrap_or_else(|_| Value::from(message.content.as_str())),
                late: false,
                origin: TaskOrigin::default(),
            }),
            // The tasks and plans that messages name are not part of this session.
            (Role::User | Role::Assistant | Role::System | Role::Tool, _) => {
                let message = Message {
                    plan_id: None,
                    task_id: None,
                    ..message.clone()
                };
                SessionEventBody::MessageCreated(Box::new(MessageCreated {
                    origin: TaskOrigin::default(),
                    message,
                    workflow_id: None,
                }))
            }
        };
        self.log().event(turn, event);
    }

    /// The messages so far are the ones that the summary covers.
    fn take_summary(&mut self, original: &Session, covered: usize, turn: TurnId) {
        let Some(summary) = self.session.copy_summary(original, covered as u64) else {
            return;
        };
        let compacted = HistoryCompacted {
            messages: covered as u64,
            summary,
        };
        self.log()
            .event(turn, SessionEventBody::HistoryCompacted(compacted));
    }
}

/// Calls without a result, with their names. Models insist on one for each.
fn open_calls(messages: &[MessageRecord]) -> Vec<(CallId, String)> {
    let results = messages.iter().filter_map(|record| {
        let message = &record.message;
        let call = message.tool_call_id.as_ref();
        call.filter(|_| message.role == Role::Tool)
    });
    let ended: BTreeSet<&CallId> = results.collect();
    let calls = messages
        .iter()
        .flat_map(|record| &record.message.tool_calls);
    calls
        .filter(|call| !ended.contains(&call.call_id))
        .map(|call| (call.call_id.clone(), call.name.clone()))
        .collect()
}
