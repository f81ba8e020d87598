//! Assembles an answer from the bytes of a response body. It uses no I/O and no clock, so tests can
//! cut and damage streams as data.
//!
//! What is the same for all providers lives here: event stream or plain JSON, limits, what was
//! already shown. What one event means is told by an [`AnswerFormat`].

#[cfg(test)]
pub mod heard;

use codelab_protocol::{RawToolCall, Usage};
use codelab_transport::{EventTooLong, SseFields, SseParser};
use serde_json::Value;

use crate::provider_error::ProviderError;
use crate::{StreamListener, StreamedPart};

/// Room for what surrounds the output in a body: JSON names, escapes, usage.
pub(crate) const ENVELOPE_BYTES: usize = 256 * 1024;

/// Why the bytes are not an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Defect {
    /// The body ended before the answer was complete.
    Cut,
    NotAnAnswer,
    TooLarge,
    /// The server reported an error after it had begun to answer.
    Reported(Box<ProviderError>),
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
    /// The server paused a long answer. It goes on when it is asked again.
    Paused,
}

#[derive(Debug, Clone, PartialEq, Default)]
pub struct ModelAnswer {
    pub text: String,
    /// What people may read of the model's thoughts.
    pub reasoning: String,
    /// The thoughts as the provider wants them back. `Null` if it does not.
    pub opaque_reasoning: Value,
    pub tool_calls: Vec<RawToolCall>,
    pub usage: Option<Usage>,
    pub finish: Finish,
}

/// What a provider's events and bodies mean. One object reads one answer.
pub trait AnswerFormat: Send {
    fn read_event(&mut self, event: SseFields<'_>, answer: &mut AnswerDraft) -> Result<(), Defect>;

    /// Reads a body that holds the whole answer as JSON.
    fn read_whole(&mut self, body: &[u8], answer: &mut AnswerDraft) -> Result<(), Defect>;

    /// Adds what is known only when all events were read, e.g. assembled tool calls.
    fn complete(self: Box<Self>, answer: &mut ModelAnswer);
}

/// The part of an answer that has arrived.
#[derive(Debug)]
pub struct AnswerDraft {
    text: String,
    reasoning: String,
    /// How much of the text and of the reasoning was passed on.
    shown_bytes: usize,
    shown_reasoning_bytes: usize,
    /// How much output besides text and reasoning was told of.
    told_call_bytes: usize,
    pub usage: Option<Usage>,
    /// Set when the model has finished; usage may still follow.
    pub finish: Option<Finish>,
    /// Set by the end mark of a stream.
    pub done: bool,
    output_bytes: usize,
    max_output_bytes: usize,
}

impl AnswerDraft {
    pub fn push_text(&mut self, text: &str) -> Result<(), Defect> {
        self.grow(text.len())?;
        self.text.push_str(text);
        Ok(())
    }

    pub fn push_reasoning(&mut self, text: &str) -> Result<(), Defect> {
        self.grow(text.len())?;
        self.reasoning.push_str(text);
        Ok(())
    }

    /// Counts output that the format keeps itself, e.g. the arguments of a tool call.
    pub fn grow(&mut self, bytes: usize) -> Result<(), Defect> {
        self.output_bytes = self.output_bytes.saturating_add(bytes);
        if self.output_bytes > self.max_output_bytes {
            Err(Defect::TooLarge)
        } else {
            Ok(())
        }
    }

    fn progress(&self) -> Progress {
        match (self.done, self.finish) {
            (true, _) => Progress::Done,
            (false, Some(_)) => Progress::Finished,
            (false, None) => Progress::Going,
        }
    }
}

/// Reads one response body: an event stream or plain JSON. The first byte tells which, because
/// servers send wrong content types.
pub struct AnswerReader {
    body: Body,
    format: Box<dyn AnswerFormat>,
    answer: AnswerDraft,
    max_body_bytes: usize,
}

enum Body {
    Unknown,
    Events(SseParser),
    Json(Vec<u8>),
}

impl AnswerReader {
    pub fn new(format: Box<dyn AnswerFormat>, max_output_bytes: usize) -> Self {
        let answer = AnswerDraft {
            text: String::new(),
            reasoning: String::new(),
            shown_bytes: 0,
            shown_reasoning_bytes: 0,
            told_call_bytes: 0,
            usage: None,
            finish: None,
            done: false,
            output_bytes: 0,
            max_output_bytes,
        };
        Self {
            body: Body::Unknown,
            format,
            answer,
            max_body_bytes: max_output_bytes.saturating_add(ENVELOPE_BYTES),
        }
    }

    pub fn push(&mut self, bytes: &[u8]) -> Result<Progress, Defect> {
        let mut bytes = bytes;
        if matches!(self.body, Body::Unknown) {
            bytes = bytes.trim_ascii_start();
            self.body = match bytes.first() {
                None => return Ok(Progress::Going),
                Some(b'{') => Body::Json(Vec::new()),
                Some(_) => Body::Events(SseParser::new(self.max_body_bytes)),
            };
        }
        let (format, answer) = (&mut self.format, &mut self.answer);
        match &mut self.body {
            Body::Unknown => {}
            Body::Events(parser) => {
                parser.push(bytes, |event| format.read_event(event, answer))?;
            }
            Body::Json(body) if body.len() + bytes.len() > self.max_body_bytes => {
                return Err(Defect::TooLarge);
            }
            Body::Json(body) => body.extend_from_slice(bytes),
        }
        Ok(answer.progress())
    }

    /// Passes on what arrived since the last call.
    pub fn show(&mut self, hear: &mut StreamListener<'_>) {
        let answer = &mut self.answer;
        let from = std::mem::replace(&mut answer.shown_reasoning_bytes, answer.reasoning.len());
        if from < answer.reasoning.len() {
            hear(StreamedPart::Reasoning(&answer.reasoning[from..]));
        }
        let from = std::mem::replace(&mut answer.shown_bytes, answer.text.len());
        if from < answer.text.len() {
            hear(StreamedPart::Text(&answer.text[from..]));
        }
        let written = answer.text.len() + answer.reasoning.len();
        let calls = answer.output_bytes.saturating_sub(written);
        if std::mem::replace(&mut answer.told_call_bytes, calls) < calls {
            hear(StreamedPart::ToolCall);
        }
    }

    /// Whether `show` has passed on anything.
    pub fn was_heard(&self) -> bool {
        self.answer.shown_bytes + self.answer.shown_reasoning_bytes > 0
    }

    pub fn is_finished(&self) -> bool {
        self.answer.progress() != Progress::Going
    }

    /// Ends the body. `show` may pass on more after this.
    pub fn end(&mut self) -> Result<(), Defect> {
        let (format, answer) = (&mut self.format, &mut self.answer);
        match &mut self.body {
            Body::Unknown => {}
            Body::Events(parser) => {
                let ended = parser.finish(|event| format.read_event(event, answer));
                // An incomplete event after the model has finished does not matter.
                if answer.progress() == Progress::Going {
                    ended.map_err(|defect| match defect {
                        Defect::NotAnAnswer => Defect::Cut,
                        defect => defect,
                    })?;
                }
            }
            Body::Json(body) => {
                let body = std::mem::take(body);
                format.read_whole(&body, answer)?;
                answer.done = true;
            }
        }
        if answer.progress() == Progress::Going {
            Err(Defect::Cut)
        } else {
            Ok(())
        }
    }

    pub fn into_answer(self) -> ModelAnswer {
        let partial = self.answer;
        let mut answer = ModelAnswer {
            text: partial.text,
            reasoning: partial.reasoning,
            usage: partial.usage,
            finish: partial.finish.unwrap_or_default(),
            ..ModelAnswer::default()
        };
        self.format.complete(&mut answer);
        answer
    }
}

impl From<EventTooLong> for Defect {
    fn from(_: EventTooLong) -> Self {
        Self::TooLarge
    }
}
