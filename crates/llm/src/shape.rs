//! Optional parts of a request, and how a request degrades when the server refuses one of them.

use codelab_protocol::{ModelFailureKind, ModelMessage, ModelRequest};

use crate::files::has_images;
use crate::provider_error::ProviderError;

/// The parts of a request that a server may refuse. Each part degrades at most once, so the number
/// of attempts is limited.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shape {
    /// The name that the provider knows.
    pub model: String,
    pub schema: bool,
    pub temperature: bool,
    /// Use the name of the token limit that newer OpenAI models demand.
    pub completion_tokens: bool,
    /// Ask for one tool call at a time.
    pub single_calls: bool,
    /// Send the reasoning of earlier messages back.
    pub reasoning: bool,
    /// Ask for reasoning, where a setting says so.
    pub thinking: bool,
    /// The longest answer that the model allows, once the provider has named it.
    pub max_tokens: Option<u32>,
    /// Send system messages where they stand. Some chat templates take only one, at the beginning.
    pub late_system: bool,
    /// Send images. A model that takes none is told their names.
    pub images: bool,
}

impl Shape {
    pub fn new(model: &str) -> Self {
        Self {
            model: model.to_owned(),
            schema: true,
            temperature: true,
            completion_tokens: false,
            single_calls: true,
            reasoning: true,
            thinking: true,
            max_tokens: None,
            late_system: true,
            images: true,
        }
    }

    /// The shape to try after this refusal, if there is one.
    pub fn after(&self, error: &ProviderError, request: &ModelRequest) -> Option<Self> {
        // Such a complaint says nothing about the other parts, so it is not blamed on them.
        if self.images && has_images(request) && is_about_images(error, &self.model) {
            let images = false;
            return Some(Self {
                images,
                ..self.clone()
            });
        }
        let is_complaint = matches!(error.status, Some(400 | 422));
        if !is_complaint || error.kind() != ModelFailureKind::Nonsense {
            return None;
        }
        let complaint = error.text();
        let mut next = self.clone();
        if request.max_tokens.is_some()
            && !self.completion_tokens
            && complaint.contains("max_completion_tokens")
        {
            next.completion_tokens = true;
        } else if let Some(limit) = allowed_tokens(&complaint).filter(|_| self.max_tokens.is_none())
        {
            next.max_tokens = Some(limit);
        } else if request.temperature.is_some()
            && self.temperature
            && complaint.contains("temperature")
        {
            next.temperature = false;
        } else if !request.tools.is_empty()
            && self.single_calls
            && complaint.contains("parallel_tool_calls")
        {
            next.single_calls = false;
        } else if self.reasoning && has_reasoning(request) && is_about_reasoning(&complaint) {
            next.reasoning = false;
        } else if self.thinking && complaint.contains("thinking") {
            next.thinking = false;
        } else if self.late_system && has_late_system(request) && is_about_roles(&complaint) {
            next.late_system = false;
        } else if request.schema.is_some() && self.schema {
            next.schema = false;
        } else {
            return None;
        }
        Some(next)
    }
}

/// Whether the server refuses an image: this one, or every one. Local servers answer 500 then, and
/// routers of models 404.
fn is_about_images(error: &ProviderError, model: &str) -> bool {
    // The name of a model can contain these words.
    let complaint = error.text().replace(&model.to_ascii_lowercase(), "");
    match (error.status, error.kind()) {
        (None | Some(400 | 415 | 422 | 500), ModelFailureKind::Nonsense)
        | (None | Some(500), ModelFailureKind::ServerError) => complaint
            .split(|c: char| !c.is_ascii_alphanumeric())
            .any(|word| matches!(word, "image" | "images" | "vision" | "multimodal")),
        (Some(404), ModelFailureKind::UnknownModel) => complaint.contains("image input"),
        _ => false,
    }
}

/// Anthropic calls it thinking.
fn is_about_reasoning(complaint: &str) -> bool {
    ["reasoning", "thinking"]
        .iter()
        .any(|word| complaint.contains(word))
}

/// The limit in Anthropic's words: `max_tokens: 32000 > 8192, which is the maximum allowed number`.
fn allowed_tokens(complaint: &str) -> Option<u32> {
    let (_, rest) = complaint.split_once("max_tokens: ")?;
    let (_, limit) = rest.split_once("> ")?;
    let digits = limit.find(|c: char| !c.is_ascii_digit());
    limit[..digits.unwrap_or(limit.len())].parse().ok()
}

fn has_late_system(request: &ModelRequest) -> bool {
    let is_system = |message: &ModelMessage| matches!(message, ModelMessage::System { .. });
    request.messages.iter().skip(1).any(is_system)
}

/// The words of vLLM, llama.cpp and Mistral about a system message that is not the first.
fn is_about_roles(complaint: &str) -> bool {
    let complaint = complaint.to_lowercase();
    complaint.contains("system") || complaint.contains("alternate")
}

fn has_reasoning(request: &ModelRequest) -> bool {
    let is_there = |message: &ModelMessage| {
        matches!(
            message,
            ModelMessage::Assistant {
                reasoning: Some(_),
                ..
            }
        )
    };
    request.messages.iter().any(is_there)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use codelab_protocol::{
        Attachment, Digest, FileContent, ModelFile, OutputSchema, Reasoning, Tool,
    };
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn each_complaint_changes_one_thing_once() {
        let request = ModelRequest {
            agent: "coder".to_owned(),
            model: "a".to_owned(),
            fallback_models: Vec::new(),
            messages: vec![
                ModelMessage::Assistant {
                    content: String::new(),
                    tool_calls: Vec::new(),
                    reasoning: Some(Box::new(Reasoning {
                        text: "hm".to_owned(),
                        provider: "default".to_owned(),
                        model: None,
                        opaque: Value::Null,
                    })),
                },
                ModelMessage::System {
                    content: "facts".to_owned(),
                },
            ],
            tools: vec![Tool::ReadFile.spec()],
            temperature: Some(0.3),
            max_tokens: Some(10),
            schema: Some(OutputSchema {
                name: "plan",
                schema: json!({}),
            }),
        };
        let shape = Shape::new("a");
        let changed = |change: fn(&mut Shape)| {
            let mut shape = shape.clone();
            change(&mut shape);
            Some(shape)
        };
        for (status, body, wanted) in [
            (404, "404 page not found", None),
            (400, "The model `a` does not exist", None),
            (400, "the maximum context length is 10 tokens", None),
            (
                400,
                "'max_tokens' is not supported with this model. Use 'max_completion_tokens'",
                changed(|shape| shape.completion_tokens = true),
            ),
            (
                400,
                "Unsupported value: 'temperature'",
                changed(|shape| shape.temperature = false),
            ),
            (
                400,
                "max_tokens: 32000 > 8192, which is the maximum allowed number of output tokens",
                changed(|shape| shape.max_tokens = Some(8192)),
            ),
            (
                400,
                "invalid `signature` in `thinking` block",
                changed(|shape| shape.reasoning = false),
            ),
            (
                400,
                "'parallel_tool_calls' is not supported with this model",
                changed(|shape| shape.single_calls = false),
            ),
            (
                400,
                "reasoning_content is not a field of messages",
                changed(|shape| shape.reasoning = false),
            ),
            (
                400,
                "System message must be at the beginning.",
                changed(|shape| shape.late_system = false),
            ),
            (
                400,
                "Conversation roles must alternate user/assistant/user/assistant/...",
                changed(|shape| shape.late_system = false),
            ),
            (
                400,
                "response_format json_schema is not supported by this model",
                changed(|shape| shape.schema = false),
            ),
            (
                422,
                "response_format: extra fields",
                changed(|shape| shape.schema = false),
            ),
            (400, "no idea", changed(|shape| shape.schema = false)),
            (401, "temperature", None),
            (500, "temperature", None),
        ] {
            let error = ProviderError::of_body(status, body);
            assert_eq!(shape.after(&error, &request), wanted, "{body}");
        }
        let all = "max_completion_tokens temperature parallel_tool_calls reasoning system response_format";
        let error = ProviderError::of_body(400, all);
        let (mut current, mut steps) = (shape.clone(), 0);
        while let Some(next) = current.after(&error, &request) {
            current = next;
            steps += 1;
        }
        assert_eq!(steps, 6);
    }

    #[test]
    fn a_complaint_about_images_changes_only_them() {
        let about = Attachment {
            name: "a.png".to_owned(),
            media_type: "image/png".to_owned(),
            size: 3,
            digest: Digest::of_bytes(b"abc"),
        };
        let content = FileContent::Image(Arc::from("YWJj"));
        let mut request = ModelRequest {
            agent: "coder".to_owned(),
            model: "vision-1".to_owned(),
            fallback_models: Vec::new(),
            messages: vec![ModelMessage::User {
                content: "Look".to_owned(),
                files: vec![ModelFile { about, content }],
            }],
            tools: Vec::new(),
            temperature: None,
            max_tokens: None,
            schema: Some(OutputSchema {
                name: "plan",
                schema: json!({}),
            }),
        };
        let shape = Shape::new("vision-1");
        let is_without_images = |status, body: &str, request: &ModelRequest| {
            let next = shape.after(&ProviderError::of_body(status, body), request);
            next.is_some_and(|next| !next.images && next.schema)
        };
        let refusals = [
            (400, "Could not process image"),
            (
                400,
                r#"{"error": {"code": "invalid_image_format", "message": "no"}}"#,
            ),
            (422, "unknown variant `image_url`, expected `text`"),
            (404, "No endpoints found that support image input"),
            (500, "image input is not supported, provide the mmproj"),
            (400, "vision-1 is not a multimodal model"),
        ];
        for (status, body) in refusals {
            assert!(is_without_images(status, body, &request), "{body}");
        }
        for (status, body) in [
            (400, "no idea"),
            (400, "vision-1: wrong revision"),
            (401, "no images for you"),
            (404, "The model `vision-1` does not exist"),
            (429, "too many images"),
            (500, "vision-1 broke"),
        ] {
            assert!(!is_without_images(status, body, &request), "{body}");
        }
        request.messages = vec![ModelMessage::user("Look")];
        for (status, body) in refusals {
            assert!(!is_without_images(status, body, &request), "{body}");
        }
    }
}
