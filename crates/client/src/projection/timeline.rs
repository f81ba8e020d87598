//! The items of a session in their order, within a limit.

use std::collections::VecDeque;

use codelab_protocol::{CallId, MessageDelta, PlanId};

use super::item::{CallView, MessageStatus, MessageView, SessionItem, ToolCallStatus};
use super::{PlanView, SessionChange};

/// Items that are kept.
pub(super) const MAX_ITEMS: usize = 2_000;
/// Texts, arguments and results that are kept, in bytes.
pub(super) const MAX_BYTES: usize = 64 << 20;

#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Timeline {
    entries: VecDeque<Entry>,
    /// The sum of the entries' weights.
    bytes: usize,
}

#[derive(Debug, Clone, PartialEq)]
struct Entry {
    item: SessionItem,
    weight_bytes: usize,
}

impl Timeline {
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &SessionItem> {
        self.entries.iter().map(|entry| &entry.item)
    }

    pub fn push(&mut self, item: SessionItem) {
        let weight_bytes = item.weight_bytes();
        self.bytes += weight_bytes;
        self.entries.push_back(Entry { item, weight_bytes });
        self.trim();
    }

    /// Changes the newest item that `select` finds something in.
    pub fn change<T>(
        &mut self,
        select: impl Fn(&mut SessionItem) -> Option<&mut T>,
        change: impl FnOnce(&mut T),
    ) -> bool {
        let mut found = None;
        for entry in self.entries.iter_mut().rev() {
            if select(&mut entry.item).is_some() {
                found = Some(entry);
                break;
            }
        }
        let Some(entry) = found else { return false };
        if let Some(part) = select(&mut entry.item) {
            change(part);
        }
        self.bytes -= entry.weight_bytes;
        entry.weight_bytes = entry.item.weight_bytes();
        self.bytes += entry.weight_bytes;
        self.trim();
        true
    }

    pub fn change_call(&mut self, id: &CallId, change: impl FnOnce(&mut CallView)) -> bool {
        self.change(
            |item| match item {
                SessionItem::Call(view) if view.call.call_id == *id => Some(view.as_mut()),
                _ => None,
            },
            change,
        )
    }

    pub fn change_plan(&mut self, id: &PlanId, change: impl FnOnce(&mut PlanView)) -> bool {
        self.change(
            |item| match item {
                SessionItem::Plan(view) if view.id() == id => Some(view.as_mut()),
                _ => None,
            },
            change,
        )
    }

    pub fn put_message(&mut self, message: MessageView) {
        let id = message.message_id.clone();
        let mut new = Some(message);
        self.change(
            |item| match item {
                SessionItem::Message(message) if message.message_id == id => Some(message),
                _ => None,
            },
            |present| {
                if let Some(message) = new.take() {
                    *present = message;
                }
            },
        );
        if let Some(message) = new {
            self.push(SessionItem::Message(message));
        }
    }

    pub fn put_call(&mut self, call: CallView) {
        let id = call.call.call_id.clone();
        let mut new = Some(call);
        self.change_call(&id, |present| {
            if let Some(call) = new.take() {
                *present = call;
            }
        });
        if let Some(call) = new {
            self.push(SessionItem::Call(Box::new(call)));
        }
    }

    /// Adds a piece of an answer. Returns the first byte that differs, or `None` if nothing
    /// changed.
    pub fn stream(&mut self, delta: &MessageDelta) -> Option<usize> {
        let mut from_bytes = None;
        let is_known = self.change(
            |item| match item {
                SessionItem::Message(message) if message.message_id == delta.message_id => {
                    Some(message)
                }
                _ => None,
            },
            |message| from_bytes = message.stream(delta),
        );
        if !is_known {
            let mut message = MessageView::streamed(delta);
            message.text.clone_from(&delta.content);
            self.push(SessionItem::Message(message));
            from_bytes = Some(0);
        }
        from_bytes
    }

    /// Adds a piece of what the model thinks. Whether anything changed.
    pub fn think(&mut self, delta: &MessageDelta) -> bool {
        let mut changed = false;
        let is_known = self.change(
            |item| match item {
                SessionItem::Message(message) if message.message_id == delta.message_id => {
                    Some(message)
                }
                _ => None,
            },
            |message| changed = message.think(delta),
        );
        if !is_known {
            let mut message = MessageView::streamed(delta);
            message.reasoning.clone_from(&delta.content);
            self.push(SessionItem::Message(message));
            changed = true;
        }
        changed
    }

    /// What was streamed and never stored does not count.
    pub fn drop_streamed(&mut self) {
        self.remove(|item| {
            matches!(item, SessionItem::Message(message)
                if matches!(message.status, MessageStatus::Streaming { .. }))
        });
    }

    /// No event closes a call that was refused. It ends when its agent goes on or the turn ends.
    pub fn end_proposed(
        &mut self,
        is_over: impl Fn(&CallView) -> bool,
        changes: &mut Vec<SessionChange>,
    ) {
        for entry in &mut self.entries {
            if let SessionItem::Call(call) = &mut entry.item
                && call.status == ToolCallStatus::Proposed
                && is_over(call)
            {
                call.status = ToolCallStatus::NotRun;
                changes.push(SessionChange::Call(call.call.call_id.clone()));
            }
        }
    }

    pub fn remove(&mut self, is_removed: impl Fn(&SessionItem) -> bool) {
        self.entries.retain(|entry| !is_removed(&entry.item));
        self.bytes = self.entries.iter().map(|entry| entry.weight_bytes).sum();
    }

    /// Drops the oldest items that have ended. If all are open, the oldest of them.
    fn trim(&mut self) {
        while self.entries.len() > 1 && (self.entries.len() > MAX_ITEMS || self.bytes > MAX_BYTES) {
            let newest = self.entries.len() - 1;
            let ended = self
                .entries
                .iter()
                .take(newest)
                .position(|entry| !entry.item.is_open());
            if let Some(entry) = self.entries.remove(ended.unwrap_or(0)) {
                self.bytes -= entry.weight_bytes;
            }
        }
    }
}
