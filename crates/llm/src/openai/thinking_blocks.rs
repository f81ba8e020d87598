//! Claude's reasoning behind LiteLLM. The proxy streams the thinking blocks in pieces beside the
//! text of the reasoning, and wants them back whole: they hold the signatures without which Claude
//! refuses a conversation with tool calls.

use serde_json::Value;

use crate::answer::Defect;

/// The name of the field, in answers and in requests.
pub const FIELD: &str = "thinking_blocks";
/// An answer with more blocks than this is refused.
const MAX_BLOCKS: usize = 1024;

/// The blocks so far.
#[derive(Debug, Default)]
pub struct ThinkingBlocks {
    blocks: Vec<Value>,
    /// The last block continues: its signature has not arrived.
    is_open: bool,
}

impl ThinkingBlocks {
    pub fn push(&mut self, piece: Value) -> Result<(), Defect> {
        let text = |name: &str| piece.get(name).and_then(Value::as_str);
        let is_signed = text("signature").is_some_and(|signature| !signature.is_empty());
        let goes_on = text("type") == Some("thinking");
        let open = self.blocks.last_mut().filter(|_| self.is_open && goes_on);
        if let Some(last) = open {
            let so_far = last["thinking"].as_str().unwrap_or_default();
            let whole = format!("{so_far}{}", text("thinking").unwrap_or_default());
            last["thinking"] = whole.into();
            if let Some(signature) = text("signature") {
                last["signature"] = signature.into();
            }
        } else if self.blocks.len() == MAX_BLOCKS {
            return Err(Defect::TooLarge);
        } else {
            self.blocks.push(piece);
        }
        self.is_open = goes_on && !is_signed;
        Ok(())
    }

    pub fn is_empty(&self) -> bool {
        self.blocks.is_empty()
    }

    pub fn finish(self) -> Value {
        Value::Array(self.blocks)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn pieces_become_whole_blocks() {
        let mut blocks = ThinkingBlocks::default();
        for piece in [
            json!({"type": "thinking", "thinking": "is "}),
            json!({"type": "thinking", "thinking": "it"}),
            json!({"type": "thinking", "thinking": "", "signature": "s1"}),
            json!({"type": "redacted_thinking", "data": "d"}),
            json!({"type": "thinking", "thinking": "yes", "signature": "s2"}),
        ] {
            blocks.push(piece).unwrap();
        }
        assert_eq!(
            blocks.finish(),
            json!([
                {"type": "thinking", "thinking": "is it", "signature": "s1"},
                {"type": "redacted_thinking", "data": "d"},
                {"type": "thinking", "thinking": "yes", "signature": "s2"},
            ])
        );
    }
}
