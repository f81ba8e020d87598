//! What the events of an OpenAI-compatible server mean.

use codelab_transport::SseFields;
use serde_json::{Map, Value};

use super::chunk::{WireChoice, WireChunk, WireDelta, WireText};
use super::inline_thoughts::{InlineThoughts, SplitText};
use super::thinking_blocks::{FIELD, ThinkingBlocks};
use super::tool_calls::{TooManyCalls, ToolCalls};
use crate::answer::{AnswerDraft, AnswerFormat, Defect, Finish, ModelAnswer};
use crate::provider_error::ProviderError;

const DONE: &[u8] = b"[DONE]";
/// A single answer may carry this many pieces of opaque reasoning.
const MAX_REASONING_DETAILS: usize = 4096;

/// Reads one answer.
#[derive(Debug, Default)]
pub struct OpenAiFormat {
    tool_calls: ToolCalls,
    inline_thoughts: InlineThoughts,
    /// The field in which the server sends its reasoning. It gets it back in the same one.
    reasoning_field: Option<&'static str>,
    /// OpenRouter's form of reasoning, which may hold signatures.
    reasoning_details: Vec<Value>,
    /// LiteLLM's form of Claude's reasoning.
    thinking_blocks: ThinkingBlocks,
}

impl AnswerFormat for OpenAiFormat {
    fn read_event(&mut self, event: SseFields<'_>, answer: &mut AnswerDraft) -> Result<(), Defect> {
        match event.data.trim_ascii() {
            [] => Ok(()),
            DONE => {
                answer.done = true;
                self.add_split(InlineThoughts::finish, answer)
            }
            data => {
                let chunk = serde_json::from_slice(data).map_err(|_| Defect::NotAnAnswer)?;
                self.add_chunk(chunk, answer)
            }
        }
    }

    /// A plain JSON body must hold a whole answer. Other valid JSON is an error.
    fn read_whole(&mut self, body: &[u8], answer: &mut AnswerDraft) -> Result<(), Defect> {
        let chunk: WireChunk<'_> =
            serde_json::from_slice(body).map_err(|error| match error.is_eof() {
                true => Defect::Cut,
                false => Defect::NotAnAnswer,
            })?;
        let answered = chunk
            .choices
            .as_ref()
            .is_some_and(|choices| choices.iter().any(|choice| choice.content().is_some()));
        let reported = chunk.error.is_some();
        self.add_chunk(chunk, answer)?;
        self.add_split(InlineThoughts::finish, answer)?;
        if answered || reported {
            Ok(())
        } else {
            Err(Defect::NotAnAnswer)
        }
    }

    fn complete(self: Box<Self>, answer: &mut ModelAnswer) {
        let Self {
            tool_calls,
            reasoning_field,
            reasoning_details,
            thinking_blocks,
            ..
        } = *self;
        answer.tool_calls = tool_calls.finish();
        let (field, value) = match reasoning_field {
            _ if !thinking_blocks.is_empty() => (FIELD, thinking_blocks.finish()),
            _ if !reasoning_details.is_empty() => {
                ("reasoning_details", Value::Array(reasoning_details))
            }
            Some(field) => (field, answer.reasoning.clone().into()),
            None => return,
        };
        answer.opaque_reasoning = Value::Object(Map::from_iter([(field.to_owned(), value)]));
    }
}

impl OpenAiFormat {
    fn add_chunk(&mut self, chunk: WireChunk<'_>, answer: &mut AnswerDraft) -> Result<(), Defect> {
        if let Some(error) = chunk.error {
            return Err(Defect::Reported(Box::new(ProviderError::of(error))));
        }
        if let Some(usage) = &chunk.usage {
            answer.usage = Some(usage.to_usage());
        }
        // One answer was requested, so further ones are ignored.
        let first = |choice: &&WireChoice<'_>| choice.index.is_none_or(|index| index == 0);
        let Some(choice) = chunk
            .choices
            .as_ref()
            .and_then(|choices| choices.iter().find(first))
        else {
            return Ok(());
        };
        if let Some(delta) = choice.content() {
            self.add_delta(delta, answer)?;
        }
        match WireText::of(&choice.finish_reason) {
            "" => {}
            "error" => {
                let error = choice.error.clone().unwrap_or_default();
                return Err(Defect::Reported(Box::new(ProviderError::of(error))));
            }
            "length" | "max_tokens" => answer.finish = Some(Finish::TokenLimit),
            "content_filter" | "safety" => answer.finish = Some(Finish::Filtered),
            _ => answer.finish = Some(Finish::Complete),
        }
        match answer.finish {
            Some(_) => self.add_split(InlineThoughts::finish, answer),
            None => Ok(()),
        }
    }

    fn add_text(&mut self, text: &str, answer: &mut AnswerDraft) -> Result<(), Defect> {
        match self.inline_thoughts.is_over() {
            true => answer.push_text(text),
            false => self.add_split(|thoughts| thoughts.push(text), answer),
        }
    }

    fn add_split(
        &mut self,
        split: impl FnOnce(&mut InlineThoughts) -> SplitText,
        answer: &mut AnswerDraft,
    ) -> Result<(), Defect> {
        let SplitText {
            thoughts,
            answer: text,
        } = split(&mut self.inline_thoughts);
        answer.push_reasoning(&thoughts)?;
        answer.push_text(&text)
    }

    fn add_delta(&mut self, delta: &WireDelta<'_>, answer: &mut AnswerDraft) -> Result<(), Defect> {
        self.add_reasoning(delta, answer)?;
        self.add_text(WireText::of(&delta.content), answer)?;
        // A refusal is shown as the answer. No server sends both in one piece.
        answer.push_text(WireText::of(&delta.refusal))?;
        for piece in delta.tool_calls.iter().flatten() {
            let added = self.tool_calls.push(piece)?;
            answer.grow(added)?;
        }
        Ok(())
    }

    /// DeepSeek, vLLM and LiteLLM say `reasoning_content`; OpenRouter, Ollama and newer vLLM say
    /// `reasoning`. Servers that send both send the same text twice.
    fn add_reasoning(
        &mut self,
        delta: &WireDelta<'_>,
        answer: &mut AnswerDraft,
    ) -> Result<(), Defect> {
        let texts = [
            ("reasoning_content", delta.reasoning_content.as_ref()),
            ("reasoning", delta.reasoning.as_ref()),
        ];
        let said = texts
            .into_iter()
            .filter_map(|(field, text)| Some((field, text?.text()?)))
            .find(|(_, text)| !text.is_empty());
        if let Some((field, text)) = said {
            self.reasoning_field.get_or_insert(field);
            answer.push_reasoning(text)?;
        }
        for detail in delta.reasoning_details.iter().flatten() {
            if self.reasoning_details.len() == MAX_REASONING_DETAILS {
                return Err(Defect::TooLarge);
            }
            answer.grow(detail.get().len())?;
            let detail = serde_json::from_str(detail.get()).map_err(|_| Defect::NotAnAnswer)?;
            join_detail(&mut self.reasoning_details, detail);
        }
        for piece in delta.thinking_blocks.iter().flatten() {
            answer.grow(piece.get().len())?;
            let piece = serde_json::from_str(piece.get()).map_err(|_| Defect::NotAnAnswer)?;
            self.thinking_blocks.push(piece)?;
        }
        Ok(())
    }
}

/// Adds a piece of `reasoning_details`. Pieces with the same type and index are one detail: their
/// texts are joined, and the other fields come from whichever piece has them.
fn join_detail(details: &mut Vec<Value>, piece: Value) {
    let same = |detail: &Value| {
        piece["index"].is_number()
            && detail["index"] == piece["index"]
            && detail["type"] == piece["type"]
    };
    let Some(Value::Object(detail)) = details.last_mut().filter(|last| same(last)) else {
        return details.push(piece);
    };
    let Value::Object(piece) = piece else { return };
    for (name, value) in piece {
        let is_text = matches!(name.as_str(), "text" | "summary" | "data");
        match (detail.get_mut(&name), value) {
            (Some(Value::String(text)), Value::String(more)) if is_text => text.push_str(&more),
            (_, Value::Null) => {}
            (_, value) => {
                detail.insert(name, value);
            }
        }
    }
}

impl From<TooManyCalls> for Defect {
    fn from(_: TooManyCalls) -> Self {
        Self::TooLarge
    }
}

#[cfg(test)]
#[path = "answer_tests.rs"]
mod tests;
