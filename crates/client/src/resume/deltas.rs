//! What was already shown of answers that are still being written. After a lost connection the server repeats the text
//! so far at offset 0; the reader sees only what is new in it.

use std::collections::VecDeque;

use codelab_protocol::{AssistantDelta, ChunkBody, MessageId};

/// How many answers are remembered. Deltas of older ones no longer come.
const REMEMBERED_MESSAGES: usize = 32;

#[derive(Debug, Default)]
pub(crate) struct ShownDeltas {
    /// Newest last.
    messages: VecDeque<(MessageId, Shown)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shown {
    Part {
        attempt: u32,
        end_bytes: u64,
    },
    /// The stored message came; its deltas have nothing to add.
    Whole,
}

impl ShownDeltas {
    /// Cuts a delta to what was not shown yet; false when nothing is left. Other chunks always pass.
    pub(crate) fn admit(&mut self, chunk: &mut ChunkBody) -> bool {
        match chunk {
            ChunkBody::AssistantDelta(delta) => self.cut(delta),
            ChunkBody::AssistantMessage(message) => {
                self.finish(&message.message_id);
                true
            }
            _ => true,
        }
    }

    fn cut(&mut self, delta: &mut AssistantDelta) -> bool {
        let end_bytes = delta.offset.saturating_add(delta.content.len() as u64);
        let now = Shown::Part { attempt: delta.attempt, end_bytes };
        let Some(shown) = self.of(&delta.message_id) else {
            self.remember(delta.message_id.clone(), now);
            return true;
        };
        match *shown {
            Shown::Whole => return false,
            Shown::Part { attempt, .. } if delta.attempt < attempt => return false,
            Shown::Part { attempt, end_bytes: shown_bytes } if delta.attempt == attempt => {
                if end_bytes <= shown_bytes {
                    return false;
                }
                let known = usize::try_from(shown_bytes.saturating_sub(delta.offset)).unwrap_or(usize::MAX);
                // An end inside a character cannot be of the same text: then the delta is shown whole.
                if let Some(new) = delta.content.get(known..) {
                    delta.content = new.to_owned();
                    delta.offset += known as u64;
                }
            }
            Shown::Part { .. } => {}
        }
        *shown = now;
        true
    }

    fn finish(&mut self, message: &MessageId) {
        match self.of(message) {
            Some(shown) => *shown = Shown::Whole,
            None => self.remember(message.clone(), Shown::Whole),
        }
    }

    fn of(&mut self, message: &MessageId) -> Option<&mut Shown> {
        self.messages.iter_mut().rev().find(|(id, _)| id == message).map(|(_, shown)| shown)
    }

    fn remember(&mut self, message: MessageId, shown: Shown) {
        if self.messages.len() == REMEMBERED_MESSAGES {
            self.messages.pop_front();
        }
        self.messages.push_back((message, shown));
    }
}

#[cfg(test)]
mod tests {
    use codelab_protocol::AgentName;

    use super::*;

    fn delta(message: &str, attempt: u32, offset: u64, content: &str) -> AssistantDelta {
        AssistantDelta {
            content: content.to_owned(),
            agent: AgentName::parse("coder").unwrap(),
            message_id: MessageId::parse(message).unwrap(),
            attempt,
            offset,
        }
    }

    #[test]
    fn only_new_text_is_shown() {
        let mut shown = ShownDeltas::default();
        type Step = (&'static str, u32, u64, &'static str, Option<(u64, &'static str)>);
        let steps: &[Step] = &[
            ("a", 1, 0, "При", Some((0, "При"))),
            ("a", 1, 6, "вет", Some((6, "вет"))),
            ("a", 1, 0, "При", None),
            ("a", 1, 0, "Привет", None),
            ("a", 1, 0, "Привет!", Some((12, "!"))),
            ("b", 1, 0, "x", Some((0, "x"))),
            ("a", 1, 13, " ok", Some((13, " ok"))),
            ("a", 2, 0, "", Some((0, ""))),
            ("a", 1, 16, "late", None),
            ("a", 2, 0, "Да", Some((0, "Да"))),
            ("a", 2, 9, "hole", Some((9, "hole"))),
        ];
        for &(message, attempt, offset, content, expected) in steps {
            let mut delta = delta(message, attempt, offset, content);
            let seen = shown.cut(&mut delta).then_some((delta.offset, delta.content.as_str()));
            assert_eq!(seen, expected, "{message} {attempt} {offset} {content:?}");
        }
        shown.finish(&MessageId::parse("a").unwrap());
        assert!(!shown.cut(&mut delta("a", 3, 0, "after the end")));
        assert!(shown.cut(&mut delta("b", 1, 1, "y")));
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let mut shown = ShownDeltas::default();
        for number in 0..10 * REMEMBERED_MESSAGES {
            assert!(shown.cut(&mut delta(&format!("m{number}"), 1, 0, "text")));
            assert!(!shown.cut(&mut delta(&format!("m{number}"), 1, 0, "text")));
        }
        assert_eq!(shown.messages.len(), REMEMBERED_MESSAGES);
    }
}
