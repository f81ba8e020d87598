//! The wire format of requests. It borrows from the request and is serialized directly into the
//! body.

use std::borrow::Cow;

use codelab_protocol::{ModelMessage, ModelRequest, ModelToolCall, Reasoning, ToolSpec};
use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::thoughts::{self, Part};
use crate::config::Thinking;
use crate::files::{Image, images, text_with_files};
use crate::shape::Shape;

/// The limit of an answer when the request has none, because this wire demands one. Every model
/// that is offered today allows it; a server with a lower limit names it, and gets that.
const DEFAULT_MAX_TOKENS: u32 = 32_000;
/// What a conversation begins with when its first message is not the user's, and ends with when its
/// last one is not: servers refuse other conversations.
const CONTINUE: &str = "Continue.";

#[derive(Serialize)]
pub struct MessagesRequest<'a> {
    model: &'a str,
    max_tokens: u32,
    stream: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<f32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    thinking: Option<WireThinking>,
    #[serde(skip_serializing_if = "Option::is_none")]
    output_config: Option<OutputConfig<'a>>,
    // A server's cache goes from here to the end, in this order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<WireTool<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_choice: Option<ToolChoice>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    system: Vec<Block<'a>>,
    messages: Vec<WireMessage<'a>>,
}

#[derive(Serialize)]
struct WireTool<'a> {
    name: &'a str,
    description: &'a str,
    input_schema: &'a RawValue,
    #[serde(skip_serializing_if = "Option::is_none")]
    cache_control: Option<CacheControl>,
}

#[derive(Serialize)]
struct ToolChoice {
    r#type: &'static str,
    disable_parallel_tool_use: bool,
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum WireThinking {
    /// Newer models send no text of their thoughts unless they are asked for it.
    Adaptive {
        display: &'static str,
    },
    Enabled {
        budget_tokens: u32,
    },
}

#[derive(Serialize)]
struct OutputConfig<'a> {
    format: OutputFormat<'a>,
}

#[derive(Serialize)]
struct OutputFormat<'a> {
    r#type: &'static str,
    schema: &'a Value,
}

#[derive(Serialize)]
struct WireMessage<'a> {
    role: Role,
    content: Vec<Block<'a>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Role {
    User,
    Assistant,
}

#[derive(Serialize)]
struct Block<'a> {
    #[serde(flatten)]
    content: BlockContent<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cache_control: Option<CacheControl>,
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum BlockContent<'a> {
    Text {
        text: Cow<'a, str>,
    },
    ToolUse {
        id: Cow<'a, str>,
        name: &'a str,
        input: &'a Map<String, Value>,
    },
    ToolResult {
        tool_use_id: Cow<'a, str>,
        content: ResultContent<'a>,
    },
    Image {
        source: ImageSource<'a>,
    },
    /// Reasoning, exactly as the server sent it.
    #[serde(untagged)]
    Thinking(&'a Value),
}

#[derive(Serialize)]
#[serde(untagged)]
enum ResultContent<'a> {
    Text(Cow<'a, str>),
    Blocks(Vec<Block<'a>>),
}

#[derive(Serialize)]
struct ImageSource<'a> {
    r#type: &'static str,
    media_type: &'a str,
    data: &'a str,
}

/// Marks the end of a part that later requests begin with too, so that the server keeps it.
#[derive(Clone, Copy, Serialize)]
struct CacheControl {
    r#type: &'static str,
}

const CACHED: CacheControl = CacheControl {
    r#type: "ephemeral",
};

impl<'a> MessagesRequest<'a> {
    /// `provider` is the name of the provider that gets this request.
    pub fn new(
        request: &'a ModelRequest,
        shape: &'a Shape,
        provider: &str,
        thinking: Option<Thinking>,
    ) -> Self {
        let thinking = thinking.filter(|_| shape.thinking);
        let has_tools = !request.tools.is_empty();
        let mut conversation = Conversation {
            system: Vec::new(),
            messages: Vec::new(),
            has_tools,
            provider: shape.reasoning.then_some(provider),
            model: &shape.model,
            images: shape.images,
        };
        let marks = marks(&request.messages);
        for (index, message) in request.messages.iter().enumerate() {
            if marks.contains(&index) {
                conversation.mark();
            }
            conversation.add(message);
        }
        if marks.contains(&request.messages.len()) {
            conversation.mark();
        }
        if let Some(first) = conversation.system.first_mut() {
            first.cache_control = Some(CACHED);
        }
        conversation.complete();
        let mut asked = request.max_tokens.unwrap_or(DEFAULT_MAX_TOKENS);
        if let Some(Thinking::Tokens(budget)) = thinking {
            // The limit of an agent is about its answer, and thoughts count too.
            asked = asked.saturating_add(budget);
        }
        let mut tools: Vec<WireTool<'a>> =
            request.tools.iter().map(|tool| wire_tool(tool)).collect();
        if let Some(last) = tools.last_mut() {
            last.cache_control = Some(CACHED);
        }
        Self {
            model: &shape.model,
            max_tokens: shape.max_tokens.map_or(asked, |limit| asked.min(limit)),
            stream: true,
            // A model that thinks refuses it.
            temperature: request
                .temperature
                .filter(|_| shape.temperature && thinking.is_none()),
            thinking: thinking.map(wire_thinking),
            output_config: request
                .schema
                .as_ref()
                .filter(|_| shape.schema)
                .map(|schema| output_config(&schema.schema)),
            tools,
            tool_choice: (has_tools && shape.single_calls).then_some(ToolChoice {
                r#type: "auto",
                disable_parallel_tool_use: true,
            }),
            system: conversation.system,
            messages: conversation.messages,
        }
    }
}

/// Before which messages a mark stands. What changes from turn to turn, such as facts and memory, is
/// a system message after the history. So one mark ends the history, for the next turn, and one ends
/// all that was said, for the next step of this turn. With those of the tools and of the system
/// prompt these are four marks, as many as a server allows.
fn marks(messages: &[ModelMessage]) -> [usize; 2] {
    let is_said = |message: &ModelMessage| !matches!(message, ModelMessage::System { .. });
    let said = messages
        .iter()
        .rposition(is_said)
        .map_or(messages.len(), |last| last + 1);
    let begin = messages.iter().position(is_said).unwrap_or(said);
    let history = messages[begin..said]
        .iter()
        .rposition(|message| !is_said(message))
        .map_or(said, |changing| begin + changing);
    [history, said]
}

/// The messages so far. Neighbours with the same role are one message here.
struct Conversation<'a, 'b> {
    system: Vec<Block<'a>>,
    messages: Vec<WireMessage<'a>>,
    /// Without tools a server refuses their calls, so that these become text.
    has_tools: bool,
    /// Whose reasoning goes back, if any does.
    provider: Option<&'b str>,
    model: &'b str,
    /// Whether the model takes images.
    images: bool,
}

impl<'a> Conversation<'a, '_> {
    fn add(&mut self, message: &'a ModelMessage) {
        match message {
            // Servers refuse blank text.
            ModelMessage::System { content } if content.trim().is_empty() => {}
            ModelMessage::System { content } if self.messages.is_empty() => {
                self.system.push(text(content));
            }
            // Only the user and the assistant speak after the beginning.
            ModelMessage::System { content } => {
                self.say(Role::User, text(format!("<system>\n{content}\n</system>")));
            }
            ModelMessage::User { content, files } => {
                let told = text_with_files(content, files, self.images);
                if !told.trim().is_empty() {
                    self.say(Role::User, text(told));
                }
                for shown in images(files, self.images) {
                    self.say(Role::User, image(shown));
                }
            }
            ModelMessage::Assistant {
                content,
                tool_calls,
                reasoning,
            } => self.add_answer(content, tool_calls, reasoning.as_deref()),
            ModelMessage::Tool {
                call_id,
                content,
                files,
            } => {
                let told = text_with_files(content, files, self.images);
                let mut shown: Vec<Block<'a>> = images(files, self.images).map(image).collect();
                if !self.has_tools {
                    self.say(Role::User, text(format!("Result of the tool:\n{told}")));
                    shown
                        .into_iter()
                        .for_each(|shown| self.say(Role::User, shown));
                    return;
                }
                let content = if shown.is_empty() {
                    ResultContent::Text(told)
                } else {
                    shown.insert(0, text(told));
                    ResultContent::Blocks(shown)
                };
                let tool_use_id = wire_id(call_id.as_str());
                let result = BlockContent::ToolResult {
                    tool_use_id,
                    content,
                };
                self.say(Role::User, block(result));
            }
        }
    }

    fn add_answer(
        &mut self,
        content: &'a str,
        calls: &'a [ModelToolCall],
        reasoning: Option<&'a Reasoning>,
    ) {
        let kept = reasoning
            .filter(|reasoning| {
                let provider = self.provider;
                provider.is_some_and(|provider| reasoning.is_by(provider, self.model))
            })
            .map(|reasoning| &reasoning.opaque);
        for part in thoughts::parts(kept, self.model, content, calls.len()) {
            let block = match part {
                Part::Thinking(value) => block(BlockContent::Thinking(value)),
                Part::Text(said) => text(said),
                Part::ToolCall(index) => self.call(&calls[index]),
            };
            self.say(Role::Assistant, block);
        }
    }

    fn call(&self, call: &'a ModelToolCall) -> Block<'a> {
        if self.has_tools {
            return block(BlockContent::ToolUse {
                id: wire_id(call.call_id.as_str()),
                name: &call.name,
                input: &call.arguments,
            });
        }
        let arguments = Value::Object(call.arguments.clone());
        text(format!("Call of the tool {}: {arguments}", call.name))
    }

    fn say(&mut self, role: Role, block: Block<'a>) {
        if self.messages.is_empty() && role == Role::Assistant {
            self.say(Role::User, text(CONTINUE));
        }
        match self.messages.last_mut() {
            Some(last) if last.role == role => last.content.push(block),
            _ => self.messages.push(WireMessage {
                role,
                content: vec![block],
            }),
        }
    }

    /// Marks the end of what was said so far.
    fn mark(&mut self) {
        let said = self
            .messages
            .iter_mut()
            .rev()
            .flat_map(|message| message.content.iter_mut().rev());
        // Reasoning cannot be marked.
        let markable = |block: &&mut Block<'_>| !matches!(block.content, BlockContent::Thinking(_));
        if let Some(last) = said.into_iter().find(markable) {
            last.cache_control = Some(CACHED);
        }
    }

    fn complete(&mut self) {
        if self
            .messages
            .last()
            .is_none_or(|last| last.role == Role::Assistant)
        {
            self.say(Role::User, text(CONTINUE));
        }
    }
}

fn block(content: BlockContent<'_>) -> Block<'_> {
    Block {
        content,
        cache_control: None,
    }
}

fn text<'a>(text: impl Into<Cow<'a, str>>) -> Block<'a> {
    block(BlockContent::Text { text: text.into() })
}

fn image(image: Image<'_>) -> Block<'_> {
    let source = ImageSource {
        r#type: "base64",
        media_type: image.media_type,
        data: image.base64,
    };
    block(BlockContent::Image { source })
}

fn wire_tool(tool: &ToolSpec) -> WireTool<'_> {
    WireTool {
        name: &tool.name,
        description: &tool.description,
        input_schema: &tool.parameters,
        cache_control: None,
    }
}

fn wire_thinking(thinking: Thinking) -> WireThinking {
    match thinking {
        Thinking::Adaptive => WireThinking::Adaptive {
            display: "summarized",
        },
        Thinking::Tokens(budget_tokens) => WireThinking::Enabled { budget_tokens },
    }
}

fn output_config(schema: &Value) -> OutputConfig<'_> {
    OutputConfig {
        format: OutputFormat {
            r#type: "json_schema",
            schema,
        },
    }
}

/// Ids of this wire have letters, digits, `_` and `-` only.
fn wire_id(id: &str) -> Cow<'_, str> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    if id.chars().all(allowed) {
        return Cow::Borrowed(id);
    }
    Cow::Owned(
        id.chars()
            .map(|c| if allowed(c) { c } else { '_' })
            .collect(),
    )
}
