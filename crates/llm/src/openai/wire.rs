//! The wire format of requests. It borrows from the request and is serialized directly into the
//! body.

use std::borrow::Cow;

use codelab_protocol::{ModelMessage, ModelRequest, ModelToolCall, OutputSchema, ToolSpec};
use serde::{Serialize, Serializer};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use crate::files::{Image, images, text_with_files};
use crate::shape::Shape;

#[derive(Serialize)]
pub struct WireRequest<'a> {
    model: &'a str,
    messages: Vec<WireMessage<'a>>,
    stream: bool,
    stream_options: StreamOptions,
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<f32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_tokens: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_completion_tokens: Option<u32>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<WireTool<'a>>,
    /// Only with tools: servers refuse it otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    parallel_tool_calls: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    response_format: Option<ResponseFormat<'a>>,
}

#[derive(Serialize)]
struct StreamOptions {
    include_usage: bool,
}

#[derive(Serialize)]
#[serde(tag = "role", rename_all = "lowercase")]
enum WireMessage<'a> {
    System {
        content: Cow<'a, str>,
    },
    User {
        content: WireContent<'a>,
    },
    Assistant {
        /// `null` if the model wrote no text beside its tool calls.
        content: Option<&'a str>,
        #[serde(skip_serializing_if = "Vec::is_empty")]
        tool_calls: Vec<WireCall<'a>>,
        /// The fields in which the server sent its reasoning.
        #[serde(flatten, skip_serializing_if = "Option::is_none")]
        reasoning: Option<&'a Map<String, Value>>,
    },
    Tool {
        tool_call_id: &'a str,
        content: Cow<'a, str>,
    },
}

/// Servers that know no images want a plain text.
#[derive(Serialize)]
#[serde(untagged)]
enum WireContent<'a> {
    Text(Cow<'a, str>),
    Parts(Vec<WirePart<'a>>),
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum WirePart<'a> {
    Text { text: Cow<'a, str> },
    ImageUrl { image_url: ImageUrl<'a> },
}

#[derive(Serialize)]
struct ImageUrl<'a> {
    #[serde(serialize_with = "as_data_url")]
    url: Image<'a>,
}

#[derive(Serialize)]
struct WireCall<'a> {
    id: &'a str,
    r#type: &'static str,
    function: WireFunctionCall<'a>,
}

#[derive(Serialize)]
struct WireFunctionCall<'a> {
    name: &'a str,
    #[serde(serialize_with = "as_json_text")]
    arguments: &'a Map<String, Value>,
}

#[derive(Serialize)]
struct WireTool<'a> {
    r#type: &'static str,
    function: WireFunction<'a>,
}

#[derive(Serialize)]
struct WireFunction<'a> {
    name: &'a str,
    description: &'a str,
    parameters: &'a RawValue,
}

#[derive(Serialize)]
struct ResponseFormat<'a> {
    r#type: &'static str,
    json_schema: WireSchema<'a>,
}

#[derive(Serialize)]
struct WireSchema<'a> {
    name: &'a str,
    strict: bool,
    schema: &'a Value,
}

impl<'a> WireRequest<'a> {
    pub fn new(request: &'a ModelRequest, shape: &'a Shape, provider: &str) -> Self {
        let limit = request
            .max_tokens
            .map(|asked| shape.max_tokens.map_or(asked, |most| asked.min(most)));
        let (max_tokens, max_completion_tokens) = match shape.completion_tokens {
            true => (None, limit),
            false => (limit, None),
        };
        Self {
            model: &shape.model,
            messages: wire_messages(request, shape, provider),
            stream: true,
            stream_options: StreamOptions {
                include_usage: true,
            },
            temperature: request.temperature.filter(|_| shape.temperature),
            max_tokens,
            max_completion_tokens,
            tools: request.tools.iter().map(|tool| wire_tool(tool)).collect(),
            parallel_tool_calls: (!request.tools.is_empty() && shape.single_calls).then_some(false),
            response_format: request
                .schema
                .as_ref()
                .filter(|_| shape.schema)
                .map(response_format),
        }
    }
}

/// Reasoning goes back while the model works on the last thing that a person said. That is as long
/// as servers want it; DeepSeek refuses older reasoning.
fn wire_messages<'a>(
    request: &'a ModelRequest,
    shape: &Shape,
    provider: &str,
) -> Vec<WireMessage<'a>> {
    let is_user = |message: &ModelMessage| matches!(message, ModelMessage::User { .. });
    let begun = request.messages.iter().rposition(is_user).unwrap_or(0);
    let messages = request.messages.iter().enumerate();
    let mut wired = Vec::with_capacity(request.messages.len());
    let mut read = Vec::new();
    for (position, message) in messages {
        let is_tool = matches!(message, ModelMessage::Tool { .. });
        if !is_tool {
            wired.extend(shown(std::mem::take(&mut read)));
        }
        let is_wanted = shape.reasoning && position > begun;
        let thinker = is_wanted.then_some((provider, shape.model.as_str()));
        wired.push(wire_message(message, thinker, shape.images));
        if is_tool {
            read.extend(images(message.files(), shape.images));
        }
    }
    wired.extend(shown(read));
    match shape.late_system {
        true => wired,
        false => with_system_first(wired.into_iter()),
    }
}

/// The images that tools read, after all results of one answer: on this wire a result is text only,
/// and nothing may stand between the results.
fn shown(read: Vec<Image<'_>>) -> Option<WireMessage<'_>> {
    let content = with_images("The images of the tool results above.".into(), read);
    matches!(content, WireContent::Parts(_)).then_some(WireMessage::User { content })
}

fn with_images<'a>(text: Cow<'a, str>, images: Vec<Image<'a>>) -> WireContent<'a> {
    if images.is_empty() {
        return WireContent::Text(text);
    }
    let images = images.into_iter().map(|url| WirePart::ImageUrl {
        image_url: ImageUrl { url },
    });
    let text = std::iter::once(WirePart::Text { text });
    WireContent::Parts(text.chain(images).collect())
}

/// All system messages as one, at the beginning.
fn with_system_first<'a>(messages: impl Iterator<Item = WireMessage<'a>>) -> Vec<WireMessage<'a>> {
    let (mut told, mut said) = (Vec::new(), Vec::new());
    for message in messages {
        match message {
            WireMessage::System { content } => told.push(content),
            other => said.push(other),
        }
    }
    if !told.is_empty() {
        let content = told.join("\n\n").into();
        said.insert(0, WireMessage::System { content });
    }
    said
}

/// `thinker`: the provider and the model whose reasoning is sent, if any is.
fn wire_message<'a>(
    message: &'a ModelMessage,
    thinker: Option<(&str, &str)>,
    takes_images: bool,
) -> WireMessage<'a> {
    match message {
        ModelMessage::System { content } => WireMessage::System {
            content: content.into(),
        },
        ModelMessage::User { content, files } => WireMessage::User {
            content: with_images(
                text_with_files(content, files, takes_images),
                images(files, takes_images).collect(),
            ),
        },
        ModelMessage::Assistant {
            content,
            tool_calls,
            reasoning,
        } => WireMessage::Assistant {
            content: (!content.is_empty() || tool_calls.is_empty()).then_some(content),
            tool_calls: tool_calls.iter().map(wire_call).collect(),
            reasoning: reasoning
                .as_ref()
                .zip(thinker)
                .filter(|(reasoning, (provider, model))| reasoning.is_by(provider, model))
                .and_then(|(reasoning, _)| reasoning.opaque.as_object()),
        },
        ModelMessage::Tool {
            call_id,
            content,
            files,
        } => WireMessage::Tool {
            tool_call_id: call_id.as_str(),
            content: text_with_files(content, files, takes_images),
        },
    }
}

fn wire_call(call: &ModelToolCall) -> WireCall<'_> {
    let function = WireFunctionCall {
        name: &call.name,
        arguments: &call.arguments,
    };
    WireCall {
        id: call.call_id.as_str(),
        r#type: "function",
        function,
    }
}

fn wire_tool(tool: &ToolSpec) -> WireTool<'_> {
    let function = WireFunction {
        name: &tool.name,
        description: &tool.description,
        parameters: &tool.parameters,
    };
    WireTool {
        r#type: "function",
        function,
    }
}

fn response_format(schema: &OutputSchema) -> ResponseFormat<'_> {
    let json_schema = WireSchema {
        name: schema.name,
        strict: true,
        schema: &schema.schema,
    };
    ResponseFormat {
        r#type: "json_schema",
        json_schema,
    }
}

fn as_data_url<S: Serializer>(image: &Image<'_>, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&format_args!(
        "data:{};base64,{}",
        image.media_type, image.base64
    ))
}

fn as_json_text<S: Serializer>(
    arguments: &Map<String, Value>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    let text = serde_json::to_string(arguments).map_err(serde::ser::Error::custom)?;
    serializer.serialize_str(&text)
}
