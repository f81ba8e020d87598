//! People go back to what they said before, think better of it, and try a second way in a fork.

use codelab_engine::{Fork, Input, RewindInput, RewindWish};
use codelab_protocol::{CallId, ForkedFrom, RewindScope};
use serde_json::json;

use super::Life;
use super::record::Record;
use crate::it::kit::project_session;

impl Life {
    /// To any message, also to one that is no place to go back to.
    pub(super) fn rewind(&mut self) -> Input {
        let said = match self.rng.one_in(4) {
            true => self.record.history.message_ids(),
            false => self.record.message_ids(),
        };
        let Some(message_id) = self.rng.pick(&said).cloned() else {
            return self.user_message();
        };
        let scopes = [
            RewindScope::Files,
            RewindScope::Conversation,
            RewindScope::Both,
        ];
        let wish = RewindWish::To {
            found: self.record.history.part(&message_id),
            message_id,
            scope: *self.rng.pick(&scopes).unwrap(),
        };
        self.wish(wish)
    }

    /// The last rewind, or one long past.
    pub(super) fn undo(&mut self) -> Input {
        let rewinds = self.record.history.rewinds();
        let last = rewinds.last().cloned();
        let any = self.rng.pick(rewinds).cloned();
        match last.filter(|_| self.rng.one_in(2)).or(any) {
            Some(id) => self.wish(RewindWish::Undo(id)),
            None => self.rewind(),
        }
    }

    /// What the store knows is read directly before the step.
    pub(super) fn looks_again(&self, input: &mut Input) {
        if let Input::Rewind(rewind) = input
            && let RewindWish::To {
                message_id, found, ..
            } = &mut rewind.wish
        {
            *found = self.record.history.part(message_id);
        }
    }

    fn wish(&mut self, wish: RewindWish) -> Input {
        Input::Rewind(Box::new(RewindInput {
            wish,
            decided_by: "person".to_owned(),
            bound_is_gone: self.rng.one_in(8),
        }))
    }

    /// What the client does, or does not do.
    pub(super) fn rewind_goes_on(&mut self, call_id: CallId) -> Input {
        let Some(holder) = self.record.holder(&call_id) else {
            if self.rng.one_in(8) {
                self.stage.now = self.stage.now.plus_seconds(61);
                return Input::Tick;
            }
            let bound = self.session.bound_client().cloned();
            let client = bound.unwrap_or_else(|| self.client());
            return self.claim(call_id, client);
        };
        let result = match self.rng.below(8) {
            0 => {
                self.stage.now = self.stage.now.plus_seconds(31);
                return Input::Tick;
            }
            1 => return Input::ClientGone { client_id: holder },
            2 => json!({ "success": false, "error": "the disk is full" }),
            3 => json!({ "success": true, "restored": 3 }),
            _ => json!({ "success": true, "restored": ["w"], "left": [], "not_covered": [] }),
        };
        Input::ToolResult {
            known: self.record.known_call(&call_id),
            call_id,
            result,
            client: Some(holder),
            images: Vec::new(),
        }
    }

    /// The original is left as it is; what it has open is nothing to the fork.
    pub(super) fn goes_on_in_a_fork(&mut self) {
        let said = self.record.history.message_ids();
        let at = self.rng.pick(&said).cloned();
        let copied = at
            .as_ref()
            .and_then(|at| self.record.history.until(at).zip(Some(at.clone())));
        let Some((messages, message_id)) = copied else {
            return;
        };
        let original = self.session.clone();
        let mut fork = project_session(original.budget_as_set());
        self.stage.space.lose_slots();
        let input = Input::Fork(Box::new(Fork {
            from: ForkedFrom {
                session_id: original.id().clone(),
                message_id,
            },
            original: Box::new(original),
            messages: messages.clone(),
        }));
        let applied = self.stage.apply(&mut fork, input).unwrap();
        self.record = Record::of_fork(&messages, &applied, &fork);
        self.session = fork;
        self.past_models.clear();
    }
}
