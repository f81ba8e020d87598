//! Assembles an answer from the bytes of a response body. It uses no I/O and no clock, so tests can
//! cut and damage streams as data.

use codelab_protocol::{RawToolCall, Usage};
use codelab_transport::{EventTooLong, SseFields, SseParser};

use super::chunk::{WireChoice, WireChunk, WireText};
use super::tool_calls::{TooManyCalls, ToolCalls};

/// Room for what surrounds the output in a body: JSON names, escapes, usage.
const ENVELOPE_BYTES: usize = 256 * 1024;
const DONE: &[u8] = b"[DONE]";

/// Why the bytes are not an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Defect {
    /// The body ended before the answer was complete.
    Cut,
    NotAnAnswer,
    TooLarge,
    /// The server reported an error after it had begun to answer.
    Reported,
}

/// How much of the answer has arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    Going,
    /// The model has finished; usage may still follow.
    Finished,
    /// The answer is complete.
    Done,
}

/// Why the model stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Finish {
    #[default]
    Complete,
    TokenLimit,
    Filtered,
}

#[derive(Debug, Clone, PartialEq)]
pub struct ModelAnswer {
    pub text: String,
    pub tool_calls: Vec<RawToolCall>,
    pub usage: Option<Usage>,
    pub finish: Finish,
}

/// Reads one response body: an event stream or plain JSON. The first byte tells which, because
/// servers send wrong content types.
#[derive(Debug)]
pub struct AnswerReader {
    format: Format,
    content: Content,
    max_body_bytes: usize,
}

#[derive(Debug)]
enum Format {
    Unknown,
    Events(SseParser),
    Json(Vec<u8>),
}

#[derive(Debug)]
struct Content {
    text: String,
    /// How much of the text was returned by `fresh_text`.
    shown_bytes: usize,
    tool_calls: ToolCalls,
    usage: Option<Usage>,
    finish: Option<Finish>,
    done: bool,
    output_bytes: usize,
    max_output_bytes: usize,
}

impl AnswerReader {
    pub fn new(max_output_bytes: usize) -> Self {
        let content = Content {
            text: String::new(),
            shown_bytes: 0,
            tool_calls: ToolCalls::default(),
            usage: None,
            finish: None,
            done: false,
            output_bytes: 0,
            max_output_bytes,
        };
        let max_body_bytes = max_output_bytes.saturating_add(ENVELOPE_BYTES);
        Self {
            format: Format::Unknown,
            content,
            max_body_bytes,
        }
    }

    pub fn push(&mut self, bytes: &[u8]) -> Result<Progress, Defect> {
        let mut bytes = bytes;
        if matches!(self.format, Format::Unknown) {
            bytes = bytes.trim_ascii_start();
            self.format = match bytes.first() {
                None => return Ok(Progress::Going),
                Some(b'{') => Format::Json(Vec::new()),
                Some(_) => Format::Events(SseParser::new(self.max_body_bytes)),
            };
        }
        let content = &mut self.content;
        match &mut self.format {
            Format::Unknown => {}
            Format::Events(parser) => parser.push(bytes, |event| content.read_event(event))?,
            Format::Json(body) if body.len() + bytes.len() > self.max_body_bytes => {
                return Err(Defect::TooLarge);
            }
            Format::Json(body) => body.extend_from_slice(bytes),
        }
        Ok(content.progress())
    }

    /// The text that arrived since the last call.
    pub fn fresh_text(&mut self) -> &str {
        let from = std::mem::replace(&mut self.content.shown_bytes, self.content.text.len());
        &self.content.text[from..]
    }

    pub fn is_finished(&self) -> bool {
        self.content.progress() != Progress::Going
    }

    /// Ends the body. `fresh_text` may return more text after this.
    pub fn end(&mut self) -> Result<(), Defect> {
        let content = &mut self.content;
        match &mut self.format {
            Format::Unknown => {}
            Format::Events(parser) => {
                let ended = parser.finish(|event| content.read_event(event));
                // An incomplete event after the model has finished does not matter.
                if content.progress() == Progress::Going {
                    ended.map_err(|defect| {
                        if defect == Defect::NotAnAnswer {
                            Defect::Cut
                        } else {
                            defect
                        }
                    })?;
                }
            }
            Format::Json(body) => {
                let body = std::mem::take(body);
                content.take_json(&body)?;
                content.done = true;
            }
        }
        if content.progress() == Progress::Going {
            Err(Defect::Cut)
        } else {
            Ok(())
        }
    }

    pub fn into_answer(self) -> ModelAnswer {
        let Content {
            text,
            tool_calls,
            usage,
            finish,
            ..
        } = self.content;
        ModelAnswer {
            text,
            tool_calls: tool_calls.finish(),
            usage,
            finish: finish.unwrap_or_default(),
        }
    }
}

impl Content {
    fn progress(&self) -> Progress {
        match (self.done, self.finish) {
            (true, _) => Progress::Done,
            (false, Some(_)) => Progress::Finished,
            (false, None) => Progress::Going,
        }
    }

    fn read_event(&mut self, event: SseFields<'_>) -> Result<(), Defect> {
        match event.data.trim_ascii() {
            [] => Ok(()),
            DONE => {
                self.done = true;
                Ok(())
            }
            data => {
                let chunk = serde_json::from_slice(data).map_err(|_| Defect::NotAnAnswer)?;
                self.add_chunk(chunk)
            }
        }
    }

    /// A plain JSON body must hold a whole answer. Other valid JSON is an error.
    fn take_json(&mut self, body: &[u8]) -> Result<(), Defect> {
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
        self.add_chunk(chunk)?;
        if answered || reported {
            Ok(())
        } else {
            Err(Defect::NotAnAnswer)
        }
    }

    fn add_chunk(&mut self, chunk: WireChunk<'_>) -> Result<(), Defect> {
        if chunk.error.is_some() {
            return Err(Defect::Reported);
        }
        if let Some(usage) = &chunk.usage {
            self.usage = Some(usage.to_usage());
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
            // A refusal is shown as the answer. No server sends both in one piece.
            for text in [WireText::of(&delta.content), WireText::of(&delta.refusal)] {
                self.grow(text.len())?;
                self.text.push_str(text);
            }
            for piece in delta.tool_calls.iter().flatten() {
                let added = self.tool_calls.push(piece)?;
                self.grow(added)?;
            }
        }
        match WireText::of(&choice.finish_reason) {
            "" => {}
            "error" => return Err(Defect::Reported),
            "length" | "max_tokens" => self.finish = Some(Finish::TokenLimit),
            "content_filter" | "safety" => self.finish = Some(Finish::Filtered),
            _ => self.finish = Some(Finish::Complete),
        }
        Ok(())
    }

    fn grow(&mut self, bytes: usize) -> Result<(), Defect> {
        self.output_bytes = self.output_bytes.saturating_add(bytes);
        if self.output_bytes > self.max_output_bytes {
            Err(Defect::TooLarge)
        } else {
            Ok(())
        }
    }
}

impl From<EventTooLong> for Defect {
    fn from(_: EventTooLong) -> Self {
        Self::TooLarge
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
