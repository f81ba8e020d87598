//! What the model answers to one request: the content, and the ways in which it fails.

use std::time::Duration;

use bytes::Bytes;
use serde_json::Value;

use crate::fault::Fault;
use crate::gate::Gate;

/// One scripted answer. Start with a content (`text`, `tool_call`, `raw`, `status`, `fault`,
/// `hang`), then change it with the `with_…` and `hold…` methods. All but `raw` and `status` come in
/// the format of the wire on which they are asked for.
#[derive(Debug, Clone)]
pub struct Reply {
    pub(crate) content: ReplyContent,
    pub(crate) streamed: bool,
    pub(crate) hold: Option<Gate>,
    pub(crate) delay_per_delta: Option<Duration>,
    pub(crate) interruption: Option<(After, Interruption)>,
}

#[derive(Debug, Clone)]
pub(crate) enum ReplyContent {
    Completion(ScriptedCompletion),
    /// A 200 event stream whose body is exactly these pieces.
    Raw(Vec<Bytes>),
    /// An error answer in the words of the wire.
    Fault {
        fault: Fault,
        headers: Vec<(String, String)>,
    },
    Status {
        code: u16,
        headers: Vec<(String, String)>,
        body: String,
    },
    /// The request is accepted and never answered.
    Hang,
    /// Headers, then one byte of a comment at a time, without end.
    Dribble {
        every: Duration,
    },
}

#[derive(Debug, Clone, Default)]
pub(crate) struct ScriptedCompletion {
    pub reasoning: String,
    pub text: String,
    pub refusal: String,
    pub calls: Vec<(String, String)>,
    pub argument_pieces: usize,
    pub usage: Option<ScriptedUsage>,
    pub finish_reason: Option<String>,
}

#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ScriptedUsage {
    /// With those that were read from a cache or written to it.
    pub prompt_tokens: u64,
    pub cached_tokens: u64,
    pub cache_write_tokens: u64,
    /// With those of the reasoning.
    pub completion_tokens: u64,
    pub reasoning_tokens: u64,
}

impl ScriptedUsage {
    fn of(prompt_tokens: u64, completion_tokens: u64) -> Self {
        Self {
            prompt_tokens,
            completion_tokens,
            ..Self::default()
        }
    }
}

/// The position in the stream at which something happens.
#[derive(Debug, Clone, Copy)]
pub(crate) enum After {
    Deltas(usize),
    Bytes(usize),
}

#[derive(Debug, Clone)]
pub(crate) enum Interruption {
    /// The connection is closed before the end of the body.
    Cut,
    /// The connection stays open and nothing more comes.
    Silence,
    /// The server reports an error, and ends the body.
    Fault(Fault),
    /// The rest comes when the test opens the gate.
    Hold(Gate),
}

impl Reply {
    /// Text, streamed word by word, with usage counted in words.
    pub fn text(text: impl Into<String>) -> Self {
        let text = text.into();
        let words = text.split_whitespace().count() as u64;
        Self::completion(ScriptedCompletion {
            text,
            usage: Some(ScriptedUsage::of(10, words)),
            ..ScriptedCompletion::default()
        })
    }

    pub fn text_with_usage(
        text: impl Into<String>,
        prompt_tokens: u64,
        completion_tokens: u64,
    ) -> Self {
        Self::text(text).with_usage(prompt_tokens, completion_tokens)
    }

    pub fn tool_call(name: &str, arguments: Value) -> Self {
        Self::tool_calls(vec![(name, arguments)])
    }

    /// Several calls in one answer, as a model does that ignores `parallel_tool_calls: false`.
    pub fn tool_calls(calls: Vec<(&str, Value)>) -> Self {
        let calls = calls
            .into_iter()
            .map(|(name, arguments)| (name.to_owned(), arguments.to_string()))
            .collect();
        Self::completion(ScriptedCompletion {
            calls,
            usage: Some(ScriptedUsage::of(10, 5)),
            ..ScriptedCompletion::default()
        })
    }

    /// A call with exactly this text as its arguments, valid JSON or not.
    pub fn tool_call_raw(name: &str, arguments: &str) -> Self {
        let calls = vec![(name.to_owned(), arguments.to_owned())];
        Self::completion(ScriptedCompletion {
            calls,
            usage: Some(ScriptedUsage::of(10, 5)),
            ..ScriptedCompletion::default()
        })
    }

    /// A 200 event stream with exactly these bytes, piece by piece, and a clean end.
    pub fn raw<P: Into<Bytes>>(pieces: impl IntoIterator<Item = P>) -> Self {
        Self::with_content(ReplyContent::Raw(
            pieces.into_iter().map(Into::into).collect(),
        ))
    }

    pub fn status(code: u16, body: impl Into<String>) -> Self {
        Self::status_with_headers(code, &[], body)
    }

    pub fn status_with_headers(
        code: u16,
        headers: &[(&str, &str)],
        body: impl Into<String>,
    ) -> Self {
        Self::with_content(ReplyContent::Status {
            code,
            headers: owned(headers),
            body: body.into(),
        })
    }

    /// The answer of a server that does not serve the requested model.
    pub fn unknown_model(model: &str) -> Self {
        Self::fault(Fault::UnknownModel(model.to_owned()))
    }

    /// An error answer.
    pub fn fault(fault: Fault) -> Self {
        Self::fault_with_headers(fault, &[])
    }

    pub fn fault_with_headers(fault: Fault, headers: &[(&str, &str)]) -> Self {
        let headers = owned(headers);
        Self::with_content(ReplyContent::Fault { fault, headers })
    }

    /// The model refuses to answer, in these words.
    pub fn refusal(text: impl Into<String>) -> Self {
        Self::completion(ScriptedCompletion {
            refusal: text.into(),
            usage: Some(ScriptedUsage::of(10, 5)),
            ..ScriptedCompletion::default()
        })
    }

    /// Accepts the request and never answers, until the caller disconnects or the server is
    /// dropped.
    pub fn hang() -> Self {
        Self::with_content(ReplyContent::Hang)
    }

    /// Answers with headers, then one byte of a comment at a time, without end.
    pub fn dribble(every: Duration) -> Self {
        Self::with_content(ReplyContent::Dribble { every })
    }

    /// Text that comes before the tool calls.
    pub fn with_text(self, text: impl Into<String>) -> Self {
        let text = text.into();
        self.map_completion(|completion| completion.text = text)
    }

    pub fn with_usage(self, prompt_tokens: u64, completion_tokens: u64) -> Self {
        self.map_completion(|completion| {
            let usage = completion.usage.get_or_insert_default();
            usage.prompt_tokens = prompt_tokens;
            usage.completion_tokens = completion_tokens;
        })
    }

    /// How many of the prompt's tokens came from a cache, and how many went into one. OpenAI does
    /// not tell the second number.
    pub fn with_cached(self, cached_tokens: u64, cache_write_tokens: u64) -> Self {
        self.map_completion(|completion| {
            let usage = completion.usage.get_or_insert_default();
            usage.cached_tokens = cached_tokens;
            usage.cache_write_tokens = cache_write_tokens;
        })
    }

    /// Reasoning that comes before everything else. Anthropic does not tell the tokens.
    pub fn with_reasoning(self, reasoning: impl Into<String>, reasoning_tokens: u64) -> Self {
        let reasoning = reasoning.into();
        self.map_completion(|completion| {
            completion.reasoning = reasoning;
            let usage = completion.usage.get_or_insert_default();
            usage.reasoning_tokens = reasoning_tokens;
        })
    }

    pub fn without_usage(self) -> Self {
        self.map_completion(|completion| completion.usage = None)
    }

    /// The finish reason instead of `stop` or `tool_calls`.
    pub fn with_finish_reason(self, reason: &str) -> Self {
        self.map_completion(|completion| completion.finish_reason = Some(reason.to_owned()))
    }

    /// Streams each call's arguments in this many pieces.
    pub fn split_arguments(self, pieces: usize) -> Self {
        self.map_completion(|completion| completion.argument_pieces = pieces.max(1))
    }

    /// One JSON body, even if a stream was requested.
    pub fn not_streamed_json(mut self) -> Self {
        self.streamed = false;
        self
    }

    pub fn with_delay_per_delta(mut self, delay: Duration) -> Self {
        self.delay_per_delta = Some(delay);
        self
    }

    /// Sends nothing, not even headers, before the gate opens.
    pub fn hold(mut self, gate: &Gate) -> Self {
        self.hold = Some(gate.clone());
        self
    }

    pub fn hold_after_deltas(self, deltas: usize, gate: &Gate) -> Self {
        self.interrupt(After::Deltas(deltas), Interruption::Hold(gate.clone()))
    }

    /// The connection stays open and nothing more comes: a half-open peer.
    pub fn hang_after_deltas(self, deltas: usize) -> Self {
        self.interrupt(After::Deltas(deltas), Interruption::Silence)
    }

    pub fn cut_after_deltas(self, deltas: usize) -> Self {
        self.interrupt(After::Deltas(deltas), Interruption::Cut)
    }

    /// The server reports an error after it has begun to answer.
    pub fn fault_after_deltas(self, deltas: usize, fault: Fault) -> Self {
        self.interrupt(After::Deltas(deltas), Interruption::Fault(fault))
    }

    pub fn cut_after_bytes(self, bytes: usize) -> Self {
        self.interrupt(After::Bytes(bytes), Interruption::Cut)
    }

    fn interrupt(mut self, after: After, interruption: Interruption) -> Self {
        self.interruption = Some((after, interruption));
        self
    }

    fn map_completion(mut self, change: impl FnOnce(&mut ScriptedCompletion)) -> Self {
        match &mut self.content {
            ReplyContent::Completion(completion) => change(completion),
            other => panic!("only text and tool calls can be changed like this, not {other:?}"),
        }
        self
    }

    fn completion(completion: ScriptedCompletion) -> Self {
        Self::with_content(ReplyContent::Completion(completion))
    }

    fn with_content(content: ReplyContent) -> Self {
        Self {
            content,
            streamed: true,
            hold: None,
            delay_per_delta: None,
            interruption: None,
        }
    }
}

fn owned(headers: &[(&str, &str)]) -> Vec<(String, String)> {
    headers
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
        .collect()
}
