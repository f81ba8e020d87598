//! Optional parts of a request, and how a request degrades when the server refuses one of them.

use codelab_protocol::ModelRequest;
use http::StatusCode;

/// The parts of a request that a server may refuse. Each part degrades at most once, so the number
/// of attempts is limited.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shape {
    pub model: String,
    pub schema: bool,
    pub temperature: bool,
    /// Use the name of the token limit that newer OpenAI models demand.
    pub completion_tokens: bool,
}

impl Shape {
    pub fn new(model: &str) -> Self {
        Self {
            model: model.to_owned(),
            schema: true,
            temperature: true,
            completion_tokens: false,
        }
    }

    /// The shape to try after this refusal, if there is one.
    pub fn after(
        &self,
        status: StatusCode,
        body: &str,
        request: &ModelRequest,
        fallback_model: Option<&str>,
    ) -> Option<Self> {
        let complaint = body.to_ascii_lowercase();
        if let Some(model) = fallback_model.filter(|_| is_unknown_model(status, &complaint)) {
            return Some(Self {
                model: model.to_owned(),
                ..self.clone()
            });
        }
        if !matches!(
            status,
            StatusCode::BAD_REQUEST | StatusCode::UNPROCESSABLE_ENTITY
        ) {
            return None;
        }
        if request.max_tokens.is_some()
            && !self.completion_tokens
            && complaint.contains("max_completion_tokens")
        {
            return Some(Self {
                completion_tokens: true,
                ..self.clone()
            });
        }
        if request.temperature.is_some() && self.temperature && complaint.contains("temperature") {
            return Some(Self {
                temperature: false,
                ..self.clone()
            });
        }
        (request.schema.is_some() && self.schema).then(|| Self {
            schema: false,
            ..self.clone()
        })
    }
}

/// On this route a 404 means an unknown model. Other refusals must say so in their text.
fn is_unknown_model(status: StatusCode, complaint: &str) -> bool {
    const PHRASES: &[&str] = &[
        "model_not_found",
        "not found",
        "not exist",
        "unknown model",
        "no such model",
        "invalid model",
        "not a valid model",
    ];
    match status {
        StatusCode::NOT_FOUND => true,
        StatusCode::BAD_REQUEST | StatusCode::FORBIDDEN | StatusCode::UNPROCESSABLE_ENTITY => {
            complaint.contains("model") && PHRASES.iter().any(|phrase| complaint.contains(phrase))
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use codelab_protocol::OutputSchema;
    use serde_json::json;

    use super::*;

    #[test]
    fn each_complaint_changes_one_thing_once() {
        let request = ModelRequest {
            agent: "coder".to_owned(),
            model: "a".to_owned(),
            messages: Vec::new(),
            tools: Vec::new(),
            temperature: Some(0.3),
            max_tokens: Some(10),
            schema: Some(OutputSchema {
                name: "plan",
                schema: json!({}),
            }),
        };
        let shape = Shape::new("a");
        let model = Shape {
            model: "b".to_owned(),
            ..shape.clone()
        };
        let tokens = Shape {
            completion_tokens: true,
            ..shape.clone()
        };
        let temperature = Shape {
            temperature: false,
            ..shape.clone()
        };
        let schema = Shape {
            schema: false,
            ..shape.clone()
        };
        for (status, body, wanted) in [
            (404, "404 page not found", Some(&model)),
            (400, r#"{"error":{"code":"model_not_found"}}"#, Some(&model)),
            (400, "Invalid model name passed in model=a", Some(&model)),
            (400, "The model `a` does not exist", Some(&model)),
            (
                400,
                "'max_tokens' is not supported with this model. Use 'max_completion_tokens'",
                Some(&tokens),
            ),
            (400, "Unsupported value: 'temperature'", Some(&temperature)),
            (403, "no access to model a (model_not_found)", Some(&model)),
            (
                400,
                "response_format json_schema is not supported by this model",
                Some(&schema),
            ),
            (422, "response_format: extra fields", Some(&schema)),
            (400, "no idea", Some(&schema)),
            (401, "model_not_found", None),
            (500, "temperature", None),
        ] {
            let status = StatusCode::from_u16(status).unwrap();
            assert_eq!(
                shape.after(status, body, &request, Some("b")).as_ref(),
                wanted,
                "{body}"
            );
        }
        for (status, body) in [
            (404, ""),
            (
                400,
                "max_completion_tokens temperature response_format model_not_found",
            ),
        ] {
            let status = StatusCode::from_u16(status).unwrap();
            let mut current = shape.clone();
            let mut steps = 0;
            while let Some(next) = current.after(status, body, &request, None) {
                current = next;
                steps += 1;
            }
            assert!(steps <= 3, "{body}: {steps}");
        }
    }
}
