//! What the events of a server that speaks Anthropic's Messages mean.

use codelab_protocol::RawToolCall;
use codelab_transport::SseFields;

use super::event::{Piece, TokenCounts, WireBlock, WireEvent};
use super::thoughts;
use crate::answer::{AnswerDraft, AnswerFormat, Defect, Finish, ModelAnswer};
use crate::openai::WireText;
use crate::provider_error::ProviderError;

/// An answer with more blocks than this is refused.
const MAX_BLOCKS: usize = 1024;
/// Shown when the model refuses and says nothing.
const REFUSED: &str = "The model declined to answer this request.";

/// Reads one answer.
#[derive(Debug)]
pub struct AnthropicFormat {
    /// The model that was asked.
    model: String,
    /// With the indexes that the server gave them.
    blocks: Vec<(u64, Block)>,
    usage: Option<TokenCounts>,
}

/// A block of the answer. Its text is in the [`AnswerDraft`].
#[derive(Debug)]
enum Block {
    Text {
        bytes: usize,
    },
    Thinking {
        thinking: String,
        signature: String,
    },
    RedactedThinking {
        data: String,
    },
    ToolUse {
        name: String,
        /// Streamed in pieces.
        arguments: String,
        /// The whole arguments at once. Where pieces follow, this is an empty object.
        input: String,
    },
    Unknown,
}

impl AnthropicFormat {
    pub fn new(model: &str) -> Self {
        Self {
            model: model.to_owned(),
            blocks: Vec::new(),
            usage: None,
        }
    }
}

impl AnswerFormat for AnthropicFormat {
    fn read_event(
        &mut self,
        fields: SseFields<'_>,
        answer: &mut AnswerDraft,
    ) -> Result<(), Defect> {
        let data = fields.data.trim_ascii();
        if data.is_empty() {
            return Ok(());
        }
        let event: WireEvent<'_> = serde_json::from_slice(data).map_err(|_| Defect::NotAnAnswer)?;
        if let Some(error) = event.error {
            return Err(Defect::Reported(Box::new(ProviderError::of(error))));
        }
        if let Some(start) = event.message {
            self.count(start.usage, answer);
        }
        self.count(event.usage, answer);
        if let Some(block) = &event.content_block {
            self.begin(event.index, block, answer)?;
        }
        if let Some(delta) = &event.delta {
            for piece in delta.pieces() {
                self.add(event.index, piece, answer)?;
            }
            let explanation = delta.stop_details.as_ref().map(|why| &why.explanation);
            let explanation = explanation.map_or("", WireText::of);
            self.stop(WireText::of(&delta.stop_reason), explanation, answer)?;
        }
        if WireText::of(&event.r#type) == "message_stop" {
            answer.done = true;
        }
        Ok(())
    }

    fn read_whole(&mut self, body: &[u8], answer: &mut AnswerDraft) -> Result<(), Defect> {
        let message: WireEvent<'_> =
            serde_json::from_slice(body).map_err(|error| match error.is_eof() {
                true => Defect::Cut,
                false => Defect::NotAnAnswer,
            })?;
        if let Some(error) = message.error {
            return Err(Defect::Reported(Box::new(ProviderError::of(error))));
        }
        let blocks = message.content.as_ref().ok_or(Defect::NotAnAnswer)?;
        for (index, block) in (0..).zip(blocks) {
            self.begin(index, block, answer)?;
        }
        self.count(message.usage, answer);
        let explanation = message.stop_details.as_ref().map(|why| &why.explanation);
        let explanation = explanation.map_or("", WireText::of);
        self.stop(WireText::of(&message.stop_reason), explanation, answer)
    }

    fn complete(self: Box<Self>, answer: &mut ModelAnswer) {
        let mut places = Vec::new();
        let mut has_thoughts = false;
        for (_, block) in self.blocks {
            match block {
                Block::Text { bytes: 0 } | Block::Unknown => {}
                Block::Text { bytes } => places.push(thoughts::text(bytes)),
                Block::Thinking {
                    thinking,
                    signature,
                } => {
                    has_thoughts = true;
                    places.push(thoughts::thinking(&thinking, &signature));
                }
                Block::RedactedThinking { data } => {
                    has_thoughts = true;
                    places.push(thoughts::redacted(&data));
                }
                Block::ToolUse {
                    name,
                    arguments,
                    input,
                } => {
                    places.push(thoughts::tool_call());
                    let arguments = if arguments.is_empty() {
                        input
                    } else {
                        arguments
                    };
                    answer.tool_calls.push(RawToolCall { name, arguments });
                }
            }
        }
        if has_thoughts {
            answer.opaque_reasoning = thoughts::keep(&self.model, places);
        }
    }
}

impl AnthropicFormat {
    fn count(&mut self, usage: Option<TokenCounts>, answer: &mut AnswerDraft) {
        if let Some(newer) = usage {
            let usage = self.usage.unwrap_or_default().and(newer);
            self.usage = Some(usage);
            answer.usage = Some(usage.to_usage());
        }
    }

    fn begin(
        &mut self,
        index: u64,
        block: &WireBlock<'_>,
        answer: &mut AnswerDraft,
    ) -> Result<(), Defect> {
        let kind = WireText::of(&block.r#type);
        let begun = match kind {
            "text" => Block::Text { bytes: 0 },
            "thinking" => Block::Thinking {
                thinking: String::new(),
                signature: String::new(),
            },
            "redacted_thinking" => Block::RedactedThinking {
                data: WireText::of(&block.data).to_owned(),
            },
            "tool_use" => Block::ToolUse {
                name: WireText::of(&block.name).to_owned(),
                arguments: String::new(),
                input: block.input.map_or("{}", |input| input.get()).to_owned(),
            },
            _ => Block::Unknown,
        };
        answer.grow(match &begun {
            Block::RedactedThinking { data } => data.len(),
            Block::ToolUse { name, input, .. } => name.len() + input.len(),
            Block::Text { .. } | Block::Thinking { .. } | Block::Unknown => 0,
        })?;
        if self.blocks.len() == MAX_BLOCKS {
            return Err(Defect::TooLarge);
        }
        let follows_thoughts = self.blocks.iter().any(
            |(_, block)| matches!(block, Block::Thinking { thinking, .. } if !thinking.is_empty()),
        );
        self.blocks.push((index, begun));
        if kind == "thinking" && follows_thoughts {
            answer.push_reasoning("\n\n")?;
        }
        // Streams begin with an empty block. Whole answers have everything in it.
        for piece in block.pieces() {
            self.add(index, piece, answer)?;
        }
        Ok(())
    }

    fn add(
        &mut self,
        index: u64,
        piece: Piece<'_>,
        answer: &mut AnswerDraft,
    ) -> Result<(), Defect> {
        if piece.is_empty() {
            return Ok(());
        }
        let found = self.blocks.iter_mut().rfind(|(known, _)| *known == index);
        let (_, block) = found.ok_or(Defect::NotAnAnswer)?;
        match (block, piece) {
            (Block::Text { bytes }, Piece::Text(text)) => {
                *bytes += text.len();
                answer.push_text(text)?;
            }
            (Block::Thinking { thinking, .. }, Piece::Thinking(text)) => {
                thinking.push_str(text);
                answer.push_reasoning(text)?;
            }
            (Block::Thinking { signature, .. }, Piece::Signature(text)) => {
                answer.grow(text.len())?;
                text.clone_into(signature);
            }
            (Block::ToolUse { arguments, .. }, Piece::Arguments(text)) => {
                answer.grow(text.len())?;
                arguments.push_str(text);
            }
            _ => {}
        }
        Ok(())
    }

    fn stop(
        &self,
        reason: &str,
        explanation: &str,
        answer: &mut AnswerDraft,
    ) -> Result<(), Defect> {
        let finish = match reason {
            "" => return Ok(()),
            "max_tokens" | "model_context_window_exceeded" => Finish::TokenLimit,
            "pause_turn" => Finish::Paused,
            "refusal" => {
                let is_text = |(_, block): &(u64, Block)| matches!(block, Block::Text { bytes } if *bytes > 0);
                match explanation {
                    _ if self.blocks.iter().any(is_text) => {}
                    "" => answer.push_text(REFUSED)?,
                    why => answer.push_text(why)?,
                }
                Finish::Complete
            }
            _ => Finish::Complete,
        };
        answer.finish = Some(finish);
        Ok(())
    }
}

#[cfg(test)]
#[path = "answer_tests.rs"]
mod tests;
