//! What is kept of answers that were not finished.

use std::collections::{BTreeMap, BTreeSet};

use codelab_engine::Input;
use codelab_protocol::{Message, MessageId, PartialReason, Role};

use super::Record;
use crate::it::kit::Stage;

/// Every message of a life.
#[derive(Default)]
pub struct Said {
    ids: BTreeSet<MessageId>,
    by_users: BTreeMap<MessageId, Message>,
    is_recovery: bool,
    /// What waits is told again, with its new time.
    pub is_renewal: bool,
}

impl Said {
    pub fn step(&mut self, input: &Input) {
        self.is_recovery = matches!(input, Input::Recovered { .. });
        self.is_renewal = matches!(input, Input::Renew { .. });
    }

    pub fn message(&mut self, message: &Message, stage: &Stage) {
        let id = &message.message_id;
        assert!(self.ids.insert(id.clone()), "{id} was said twice");
        if let Some(retried) = &message.retries {
            let first = &self.by_users[retried];
            assert_eq!(first.content, message.content, "{id} says something else");
        }
        if message.role == Role::User && message.answers.is_none() {
            self.by_users.insert(id.clone(), message.clone());
        }
        assert_eq!(message.partial, message.reason.is_some(), "{id}");
        if !message.partial {
            assert_eq!(message.error_message, None, "{id} is whole");
            return;
        }
        assert!(!self.is_recovery, "a crash forgets what was streamed");
        assert_eq!(Some(&message.content), stage.streamed.0.as_ref(), "{id}");
        assert!(!message.content.trim().is_empty(), "{id} says nothing");
        let has_failed = message.reason == Some(PartialReason::Failed);
        assert_eq!(message.error, has_failed, "{id}");
        assert_eq!(message.error_message.is_some(), has_failed, "{id}");
    }
}

impl Record {
    pub fn request(&self, id: &MessageId) -> Option<Message> {
        self.said.by_users.get(id).cloned()
    }

    pub fn message_ids(&self) -> Vec<MessageId> {
        self.said.by_users.keys().cloned().collect()
    }
}
