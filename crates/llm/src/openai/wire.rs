//! The wire format of requests. It borrows from the request and is serialized directly into the
//! body.

use std::borrow::Cow;

use codelab_protocol::{ModelMessage, ModelRequest, ModelToolCall, OutputSchema, ToolSpec};
use serde::{Serialize, Serializer};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

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
        content: &'a str,
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
        content: &'a str,
    },
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
            tools: request.tools.iter().copied().map(wire_tool).collect(),
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
    let wired = messages.map(|(position, message)| {
        let is_wanted = shape.reasoning && position > begun;
        wire_message(message, is_wanted.then_some((provider, &shape.model)))
    });
    match shape.late_system {
        true => wired.collect(),
        false => with_system_first(wired),
    }
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
fn wire_message<'a>(message: &'a ModelMessage, thinker: Option<(&str, &str)>) -> WireMessage<'a> {
    match message {
        ModelMessage::System { content } => WireMessage::System {
            content: content.into(),
        },
        ModelMessage::User { content } => WireMessage::User { content },
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
        ModelMessage::Tool { call_id, content } => WireMessage::Tool {
            tool_call_id: call_id.as_str(),
            content,
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
        name: tool.name,
        description: tool.description,
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

fn as_json_text<S: Serializer>(
    arguments: &Map<String, Value>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    let text = serde_json::to_string(arguments).map_err(serde::ser::Error::custom)?;
    serializer.serialize_str(&text)
}
