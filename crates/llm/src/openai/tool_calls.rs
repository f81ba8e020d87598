//! Assembles tool calls from their pieces.

use codelab_protocol::RawToolCall;

use super::chunk::{CallDelta, WireText};

/// An answer with more tool calls than this is refused.
const MAX_TOOL_CALLS: usize = 128;

/// Too many calls in one answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TooManyCalls;

#[derive(Debug, Default)]
pub struct ToolCalls {
    slots: Vec<Slot>,
}

#[derive(Debug)]
struct Slot {
    index: Option<u64>,
    id: String,
    call: RawToolCall,
}

impl ToolCalls {
    /// Adds one piece and returns how many bytes it added.
    pub fn push(&mut self, piece: &CallDelta<'_>) -> Result<usize, TooManyCalls> {
        let id = WireText::of(&piece.id);
        let name = piece
            .function
            .as_ref()
            .map_or("", |function| WireText::of(&function.name));
        let position = match self.position_of(piece.index, id, name) {
            Some(position) => position,
            None if self.slots.len() == MAX_TOOL_CALLS => return Err(TooManyCalls),
            None => {
                self.slots.push(Slot {
                    index: piece.index,
                    id: String::new(),
                    call: RawToolCall::default(),
                });
                self.slots.len() - 1
            }
        };
        let slot = &mut self.slots[position];
        if slot.id.is_empty() {
            slot.id.push_str(id);
        }
        let mut added = id.len();
        // Servers send a name once, repeat it, or send it in parts.
        if slot.call.name != name {
            slot.call.name.push_str(name);
            added += name.len();
        }
        if let Some(arguments) = piece
            .function
            .as_ref()
            .and_then(|function| function.arguments.as_ref())
        {
            slot.call.arguments.push_str(&arguments.0);
            added += arguments.0.len();
        }
        Ok(added)
    }

    pub fn finish(self) -> Vec<RawToolCall> {
        let calls = self.slots.into_iter().map(|slot| slot.call);
        calls
            .filter(|call| !call.name.is_empty() || !call.arguments.is_empty())
            .collect()
    }

    /// The call that a piece continues. If the index is missing or shared by several calls, a new
    /// id with a name begins a new call.
    fn position_of(&self, index: Option<u64>, id: &str, name: &str) -> Option<usize> {
        let position = match index {
            Some(_) => self.slots.iter().rposition(|slot| slot.index == index)?,
            None => match self
                .slots
                .iter()
                .rposition(|slot| !id.is_empty() && slot.id == id)
            {
                Some(position) => position,
                None => self.slots.len().checked_sub(1)?,
            },
        };
        let slot = &self.slots[position];
        let other_id = !id.is_empty() && !slot.id.is_empty() && slot.id != id;
        (!other_id || name.is_empty()).then_some(position)
    }
}
