//! The wire format of answers. It is loose, because servers differ. Fields that CodeLab does not
//! use are left out. Events and blocks of unknown kinds are skipped, because the format may get new
//! ones at any time.

use codelab_protocol::Usage;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::openai::WireText;

/// An event of a stream, or a whole answer. `type` says which fields to expect.
#[derive(Deserialize)]
pub struct WireEvent<'a> {
    #[serde(borrow, default)]
    pub r#type: Option<WireText<'a>>,
    #[serde(default)]
    pub index: u64,
    /// In `message_start`.
    #[serde(default)]
    pub message: Option<WireStart>,
    #[serde(borrow, default)]
    pub content_block: Option<WireBlock<'a>>,
    #[serde(borrow, default)]
    pub delta: Option<BlockDelta<'a>>,
    #[serde(default)]
    pub usage: Option<TokenCounts>,
    #[serde(default)]
    pub error: Option<Value>,
    /// In a whole answer, as are the next two.
    #[serde(borrow, default)]
    pub content: Option<Vec<WireBlock<'a>>>,
    #[serde(borrow, default)]
    pub stop_reason: Option<WireText<'a>>,
    #[serde(borrow, default)]
    pub stop_details: Option<StopDetails<'a>>,
}

#[derive(Deserialize)]
pub struct WireStart {
    #[serde(default)]
    pub usage: Option<TokenCounts>,
}

#[derive(Deserialize)]
pub struct WireBlock<'a> {
    #[serde(borrow, default)]
    pub r#type: Option<WireText<'a>>,
    #[serde(borrow, default)]
    pub text: Option<WireText<'a>>,
    #[serde(borrow, default)]
    pub thinking: Option<WireText<'a>>,
    #[serde(borrow, default)]
    pub signature: Option<WireText<'a>>,
    /// Reasoning that only the server can read.
    #[serde(borrow, default)]
    pub data: Option<WireText<'a>>,
    #[serde(borrow, default)]
    pub name: Option<WireText<'a>>,
    #[serde(borrow, default)]
    pub input: Option<&'a RawValue>,
}

#[derive(Deserialize)]
pub struct BlockDelta<'a> {
    #[serde(borrow, default)]
    pub text: Option<WireText<'a>>,
    #[serde(borrow, default)]
    pub thinking: Option<WireText<'a>>,
    #[serde(borrow, default)]
    pub signature: Option<WireText<'a>>,
    #[serde(borrow, default)]
    pub partial_json: Option<WireText<'a>>,
    /// In `message_delta`.
    #[serde(borrow, default)]
    pub stop_reason: Option<WireText<'a>>,
    #[serde(borrow, default)]
    pub stop_details: Option<StopDetails<'a>>,
}

/// Something that belongs to a block.
#[derive(Debug, Clone, Copy)]
pub enum Piece<'a> {
    Text(&'a str),
    Thinking(&'a str),
    Signature(&'a str),
    Arguments(&'a str),
}

impl Piece<'_> {
    pub fn is_empty(&self) -> bool {
        match self {
            Self::Text(text)
            | Self::Thinking(text)
            | Self::Signature(text)
            | Self::Arguments(text) => text.is_empty(),
        }
    }
}

impl WireBlock<'_> {
    pub fn pieces(&self) -> [Piece<'_>; 3] {
        [
            Piece::Text(WireText::of(&self.text)),
            Piece::Thinking(WireText::of(&self.thinking)),
            Piece::Signature(WireText::of(&self.signature)),
        ]
    }
}

impl BlockDelta<'_> {
    pub fn pieces(&self) -> [Piece<'_>; 4] {
        [
            Piece::Text(WireText::of(&self.text)),
            Piece::Thinking(WireText::of(&self.thinking)),
            Piece::Signature(WireText::of(&self.signature)),
            Piece::Arguments(WireText::of(&self.partial_json)),
        ]
    }
}

/// Why the model refused.
#[derive(Deserialize)]
pub struct StopDetails<'a> {
    #[serde(borrow, default)]
    pub explanation: Option<WireText<'a>>,
}

/// Tokens so far. Events repeat the counts, but not all of them.
#[derive(Debug, Default, Clone, Copy, Deserialize)]
pub struct TokenCounts {
    /// Without those that were read from the cache or written to it.
    #[serde(default)]
    input_tokens: Option<u64>,
    #[serde(default)]
    cache_read_input_tokens: Option<u64>,
    #[serde(default)]
    cache_creation_input_tokens: Option<u64>,
    #[serde(default)]
    output_tokens: Option<u64>,
    #[serde(default)]
    output_tokens_details: Option<OutputDetails>,
}

#[derive(Debug, Default, Clone, Copy, Deserialize)]
struct OutputDetails {
    #[serde(default)]
    thinking_tokens: Option<u64>,
}

impl TokenCounts {
    /// Counts only grow, so that the larger one is the newer one. Some servers send the input with
    /// the first event only, others with the last one only.
    pub fn and(self, newer: Self) -> Self {
        let thinking = |usage: Self| {
            usage
                .output_tokens_details
                .and_then(|details| details.thinking_tokens)
        };
        Self {
            input_tokens: self.input_tokens.max(newer.input_tokens),
            cache_read_input_tokens: self
                .cache_read_input_tokens
                .max(newer.cache_read_input_tokens),
            cache_creation_input_tokens: self
                .cache_creation_input_tokens
                .max(newer.cache_creation_input_tokens),
            output_tokens: self.output_tokens.max(newer.output_tokens),
            output_tokens_details: Some(OutputDetails {
                thinking_tokens: thinking(self).max(thinking(newer)),
            }),
        }
    }

    pub fn to_usage(self) -> Usage {
        let cached_tokens = self.cache_read_input_tokens.unwrap_or_default();
        let cache_write_tokens = self.cache_creation_input_tokens.unwrap_or_default();
        let prompt_tokens = self
            .input_tokens
            .unwrap_or_default()
            .saturating_add(cached_tokens)
            .saturating_add(cache_write_tokens);
        let completion_tokens = self.output_tokens.unwrap_or_default();
        let reasoning_tokens = self
            .output_tokens_details
            .and_then(|details| details.thinking_tokens)
            .unwrap_or_default();
        Usage {
            prompt_tokens,
            completion_tokens,
            total_tokens: prompt_tokens.saturating_add(completion_tokens),
            cached_tokens,
            cache_write_tokens,
            reasoning_tokens: reasoning_tokens.min(completion_tokens),
            ..Usage::default()
        }
    }
}
