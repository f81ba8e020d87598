//! What was already shown of answers that are still being written. After a lost connection the
//! server repeats the text so far at offset 0; the reader sees only what is new in it.

use std::collections::VecDeque;

use codelab_protocol::MessageId;

use crate::logged::{DeltaPart, DeltaPiece, LoggedEvent};

/// How many texts of answers are remembered. Deltas of older ones no longer come.
const REMEMBERED_TEXTS: usize = 64;

#[derive(Debug, Default)]
pub(crate) struct ShownDeltas {
    /// Newest last.
    messages: VecDeque<(ShownText, Shown)>,
}

/// The text of an answer, or its reasoning.
type ShownText = (MessageId, DeltaPart);

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
    /// Cuts a delta to what was not shown yet; false when nothing is left. Other events always
    /// pass.
    pub(crate) fn admit<E: LoggedEvent>(&mut self, event: &mut E) -> bool {
        if let Some(piece) = event.piece() {
            return self.cut(piece);
        }
        if let Some(message) = event.finished() {
            self.finish(message);
        }
        true
    }

    fn cut(&mut self, delta: DeltaPiece<'_>) -> bool {
        let end_bytes = delta.offset.saturating_add(delta.content.len() as u64);
        let now = Shown::Part {
            attempt: delta.attempt,
            end_bytes,
        };
        let Some(shown) = self.of(delta.message_id, delta.part) else {
            self.remember((delta.message_id.clone(), delta.part), now);
            return true;
        };
        match *shown {
            Shown::Whole => return false,
            Shown::Part { attempt, .. } if delta.attempt < attempt => return false,
            Shown::Part {
                attempt,
                end_bytes: shown_bytes,
            } if delta.attempt == attempt => {
                if end_bytes <= shown_bytes {
                    return false;
                }
                let known = usize::try_from(shown_bytes.saturating_sub(*delta.offset))
                    .unwrap_or(usize::MAX);
                // An end inside a character cannot be of the same text: then the delta is shown
                // whole.
                if let Some(new) = delta.content.get(known..) {
                    *delta.content = new.to_owned();
                    *delta.offset += known as u64;
                }
            }
            Shown::Part { .. } => {}
        }
        *shown = now;
        true
    }

    fn finish(&mut self, message: &MessageId) {
        for part in [DeltaPart::Text, DeltaPart::Reasoning] {
            match self.of(message, part) {
                Some(shown) => *shown = Shown::Whole,
                None => self.remember((message.clone(), part), Shown::Whole),
            }
        }
    }

    fn of(&mut self, message: &MessageId, part: DeltaPart) -> Option<&mut Shown> {
        self.messages
            .iter_mut()
            .rev()
            .find(|((id, shown), _)| id == message && *shown == part)
            .map(|(_, shown)| shown)
    }

    fn remember(&mut self, text: ShownText, shown: Shown) {
        if self.messages.len() == REMEMBERED_TEXTS {
            self.messages.pop_front();
        }
        self.messages.push_back((text, shown));
    }
}

#[cfg(test)]
mod tests {
    use codelab_protocol::{
        AgentName, AssistantDelta, Chunk, ChunkBody, MessageDelta, SessionEvent, SessionEventBody,
        SessionId, TaskOrigin, Timestamp,
    };

    use super::*;

    fn chunk(message: &str, attempt: u32, offset: u64, content: &str) -> Chunk {
        let delta = AssistantDelta {
            content: content.to_owned(),
            agent: AgentName::parse("coder").unwrap(),
            message_id: MessageId::parse(message).unwrap(),
            attempt,
            offset,
        };
        Chunk {
            body: ChunkBody::AssistantDelta(delta),
            timestamp: Timestamp::from_millis(0),
        }
    }

    fn chat_event(message: &str, attempt: u32, offset: u64, content: &str) -> SessionEvent {
        let delta = MessageDelta {
            content: content.to_owned(),
            agent: AgentName::parse("coder").unwrap(),
            message_id: MessageId::parse(message).unwrap(),
            attempt,
            offset,
            origin: TaskOrigin::default(),
        };
        SessionEvent {
            body: SessionEventBody::MessageDelta(delta),
            session_id: SessionId::parse("s").unwrap(),
            seq: None,
            timestamp: Timestamp::from_millis(0),
        }
    }

    fn seen<E: LoggedEvent>(shown: &mut ShownDeltas, mut event: E) -> Option<(u64, String)> {
        let is_new = shown.admit(&mut event);
        let piece = event.piece().unwrap();
        is_new.then(|| (*piece.offset, piece.content.clone()))
    }

    #[test]
    fn only_new_text_is_shown() {
        let (mut chunks, mut events) = (ShownDeltas::default(), ShownDeltas::default());
        type Step = (
            &'static str,
            u32,
            u64,
            &'static str,
            Option<(u64, &'static str)>,
        );
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
            let expected = expected.map(|(offset, text)| (offset, text.to_owned()));
            let step = format!("{message} {attempt} {offset} {content:?}");
            assert_eq!(
                seen(&mut chunks, chunk(message, attempt, offset, content)),
                expected,
                "{step}"
            );
            assert_eq!(
                seen(&mut events, chat_event(message, attempt, offset, content)),
                expected,
                "{step}"
            );
        }
        chunks.finish(&MessageId::parse("a").unwrap());
        assert!(seen(&mut chunks, chunk("a", 3, 0, "after the end")).is_none());
        assert!(seen(&mut chunks, chunk("b", 1, 1, "y")).is_some());
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let mut shown = ShownDeltas::default();
        for number in 0..10 * REMEMBERED_TEXTS {
            let text = || chunk(&format!("m{number}"), 1, 0, "text");
            assert!(seen(&mut shown, text()).is_some());
            assert!(seen(&mut shown, text()).is_none());
        }
        assert_eq!(shown.messages.len(), REMEMBERED_TEXTS);
    }
}
