//! What a provider says about a failed call, and the kind of failure that it means.
//!
//! Providers and gateways differ in every detail, so the kind comes from the most precise source
//! that says anything: the error's code and type, then known phrases, then the HTTP status.

mod kinds;
pub mod words;

use codelab_protocol::ModelFailureKind;
use serde_json::Value;

use crate::secret::Secret;

/// Some gateways nest the error of the provider in their own.
const MAX_NESTING: usize = 4;

/// An error as a provider reports it. Its text is not safe to show before [`ProviderError::shown`].
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ProviderError {
    /// The HTTP status, or the one that the body names inside a successful answer.
    pub status: Option<u16>,
    code: String,
    category: String,
    message: String,
}

impl ProviderError {
    /// Reads the answer to a refused request.
    pub fn of_body(status: u16, body: &str) -> Self {
        let mut error = match serde_json::from_str(body) {
            Ok(body) => Self::of(body),
            Err(_) => Self {
                message: words::of_plain_text(body),
                ..Self::default()
            },
        };
        error.status = Some(status);
        error
    }

    /// Reads an error object, or a body that holds one.
    pub fn of(value: Value) -> Self {
        let mut error = Self::default();
        error.read(&value, MAX_NESTING);
        error.status = error
            .code
            .parse()
            .ok()
            .filter(|status| (400..600).contains(status));
        error
    }

    pub fn kind(&self) -> ModelFailureKind {
        kinds::of(self.status, &[&self.code, &self.category], &self.message)
    }

    /// The provider's message for people: bounded, on one line, without keys.
    pub fn shown(&self, secret: Option<&Secret>) -> Option<String> {
        words::shown(&self.message, secret)
    }

    /// All of the text, to search for the name of a parameter that the provider refuses.
    pub fn text(&self) -> String {
        format!("{} {} {}", self.code, self.category, self.message).to_ascii_lowercase()
    }

    fn read(&mut self, value: &Value, nesting: usize) {
        match value {
            Value::String(text) if self.message.is_empty() => self.message.clone_from(text),
            Value::Array(items) if nesting > 0 => {
                if let Some(first) = items.first() {
                    self.read(first, nesting - 1);
                }
            }
            Value::Object(fields) => {
                let text = |name: &str| match fields.get(name) {
                    Some(Value::String(text)) => Some(text.clone()),
                    Some(Value::Number(number)) => Some(number.to_string()),
                    _ => None,
                };
                let first = |names: &[&str]| names.iter().find_map(|name| text(name));
                if let Some(code) = first(&["code"]).filter(|code| code != "None") {
                    self.code = code;
                }
                if let Some(category) = first(&["type", "status"]) {
                    self.category = category;
                }
                if let Some(message) = first(&["message", "msg", "error_description"]) {
                    self.message = message;
                }
                if nesting > 0 {
                    for name in ["error", "detail", "metadata", "raw"] {
                        if let Some(inner) = fields.get(name) {
                            self.read(inner, nesting - 1);
                        }
                    }
                }
            }
            _ => {}
        }
    }
}

#[cfg(test)]
#[path = "provider_error/tests.rs"]
mod tests;
