//! The wire format of answers. It is loose, because servers differ. Fields that CodeLab does not
//! use are left out.

use std::borrow::Cow;
use std::fmt;

use codelab_protocol::Usage;
use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

/// A chunk of a stream, or a whole answer. They differ only in `delta` and `message`.
#[derive(Deserialize)]
pub struct WireChunk<'a> {
    #[serde(borrow, default)]
    pub choices: Option<Vec<WireChoice<'a>>>,
    #[serde(default)]
    pub usage: Option<WireUsage>,
    #[serde(default)]
    pub error: Option<Value>,
}

#[derive(Deserialize)]
pub struct WireChoice<'a> {
    #[serde(default)]
    pub index: Option<u64>,
    #[serde(borrow, default)]
    delta: Option<WireDelta<'a>>,
    #[serde(borrow, default)]
    message: Option<WireDelta<'a>>,
    #[serde(borrow, default)]
    pub finish_reason: Option<WireText<'a>>,
    /// OpenRouter reports an error beside `finish_reason: "error"`.
    #[serde(default)]
    pub error: Option<Value>,
}

impl<'a> WireChoice<'a> {
    /// The new part: a piece in a stream, everything in a whole answer.
    pub fn content(&self) -> Option<&WireDelta<'a>> {
        self.delta.as_ref().or(self.message.as_ref())
    }
}

#[derive(Deserialize)]
pub struct WireDelta<'a> {
    #[serde(borrow, default)]
    pub content: Option<WireText<'a>>,
    /// Why the model refuses to answer. Comes instead of `content`.
    #[serde(borrow, default)]
    pub refusal: Option<WireText<'a>>,
    #[serde(borrow, default)]
    pub reasoning_content: Option<LooseText<'a>>,
    #[serde(borrow, default)]
    pub reasoning: Option<LooseText<'a>>,
    #[serde(borrow, default)]
    pub reasoning_details: Option<Vec<&'a RawValue>>,
    #[serde(borrow, default)]
    pub tool_calls: Option<Vec<CallDelta<'a>>>,
}

#[derive(Deserialize)]
pub struct CallDelta<'a> {
    #[serde(default)]
    pub index: Option<u64>,
    #[serde(borrow, default)]
    pub id: Option<WireText<'a>>,
    #[serde(borrow, default)]
    pub function: Option<FunctionDelta<'a>>,
}

#[derive(Deserialize)]
pub struct FunctionDelta<'a> {
    #[serde(borrow, default)]
    pub name: Option<WireText<'a>>,
    #[serde(borrow, default)]
    pub arguments: Option<Arguments<'a>>,
}

/// A string that borrows from the input if it has no escapes. `Option<Cow>` alone would always
/// copy.
#[derive(Deserialize)]
#[serde(transparent)]
pub struct WireText<'a>(#[serde(borrow)] pub Cow<'a, str>);

/// Arguments as JSON text. Some servers send the object itself.
pub struct Arguments<'a>(pub Cow<'a, str>);

/// Text, or something else that servers send in its place and that is ignored.
pub struct LooseText<'a>(Option<Cow<'a, str>>);

#[derive(Deserialize)]
pub struct WireUsage {
    #[serde(default)]
    prompt_tokens: Option<u64>,
    #[serde(default)]
    completion_tokens: Option<u64>,
    #[serde(default)]
    total_tokens: Option<u64>,
    #[serde(default)]
    prompt_tokens_details: Option<PromptDetails>,
    #[serde(default)]
    completion_tokens_details: Option<CompletionDetails>,
    /// DeepSeek's name for cached tokens.
    #[serde(default)]
    prompt_cache_hit_tokens: Option<u64>,
    /// LiteLLM's names for what Anthropic reports.
    #[serde(default)]
    cache_read_input_tokens: Option<u64>,
    #[serde(default)]
    cache_creation_input_tokens: Option<u64>,
}

#[derive(Deserialize)]
struct PromptDetails {
    #[serde(default)]
    cached_tokens: Option<u64>,
    /// OpenRouter's name for tokens written to the cache.
    #[serde(default)]
    cache_write_tokens: Option<u64>,
}

#[derive(Deserialize)]
struct CompletionDetails {
    #[serde(default)]
    reasoning_tokens: Option<u64>,
}

impl WireUsage {
    /// Parts are never larger than the whole, whatever the server counts.
    pub fn to_usage(&self) -> Usage {
        let prompt_tokens = self.prompt_tokens.unwrap_or_default();
        let completion_tokens = self.completion_tokens.unwrap_or_default();
        let total_tokens = self
            .total_tokens
            .unwrap_or(prompt_tokens.saturating_add(completion_tokens));
        let prompt = self.prompt_tokens_details.as_ref();
        let cached_tokens = prompt
            .and_then(|details| details.cached_tokens)
            .or(self.prompt_cache_hit_tokens)
            .or(self.cache_read_input_tokens)
            .unwrap_or_default()
            .min(prompt_tokens);
        let cache_write_tokens = prompt
            .and_then(|details| details.cache_write_tokens)
            .or(self.cache_creation_input_tokens)
            .unwrap_or_default()
            .min(prompt_tokens - cached_tokens);
        let reasoning_tokens = self
            .completion_tokens_details
            .as_ref()
            .and_then(|details| details.reasoning_tokens)
            .unwrap_or_default()
            .min(completion_tokens);
        Usage {
            prompt_tokens,
            completion_tokens,
            total_tokens,
            cached_tokens,
            reasoning_tokens,
            cache_write_tokens,
            cost_usd: None,
            model: None,
        }
    }
}

impl LooseText<'_> {
    pub fn text(&self) -> Option<&str> {
        self.0.as_deref()
    }
}

impl<'a> WireText<'a> {
    /// The text of an optional field. Absent and empty mean the same.
    pub fn of<'b>(field: &'b Option<WireText<'a>>) -> &'b str {
        field.as_ref().map_or("", |text| &text.0)
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Arguments<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer
            .deserialize_any(ArgumentsVisitor)
            .map(Arguments)
    }
}

struct ArgumentsVisitor;

impl<'de> Visitor<'de> for ArgumentsVisitor {
    type Value = Cow<'de, str>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("arguments as text or as an object")
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
        Ok(Cow::Borrowed(text))
    }

    fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
        Ok(Cow::Owned(text.to_owned()))
    }

    fn visit_string<E>(self, text: String) -> Result<Self::Value, E> {
        Ok(Cow::Owned(text))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Self::Value, A::Error> {
        let mut object = Map::new();
        while let Some((key, value)) = entries.next_entry::<String, Value>()? {
            object.insert(key, value);
        }
        Ok(Cow::Owned(Value::Object(object).to_string()))
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for LooseText<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(LooseVisitor).map(LooseText)
    }
}

struct LooseVisitor;

impl<'de> Visitor<'de> for LooseVisitor {
    type Value = Option<Cow<'de, str>>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("text, or anything")
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
        Ok(Some(Cow::Borrowed(text)))
    }

    fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
        Ok(Some(Cow::Owned(text.to_owned())))
    }

    fn visit_bool<E>(self, _: bool) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Self::Value, A::Error> {
        while items.next_element::<IgnoredAny>()?.is_some() {}
        Ok(None)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Self::Value, A::Error> {
        while entries.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(None)
    }
}
