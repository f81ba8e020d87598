//! Turns what a tool returned into what models and people get:
//! `{success, content, structured?, images?, error?}`. Everything is bounded.

use serde_json::{Map, Value, json};

use crate::failure::LastWords;
use crate::limits::McpLimits;

/// A tool's answer of whatever form. What it says of a failure is shown without the secrets that
/// `words` know.
pub fn outcome(answer: Value, limits: &McpLimits, words: &LastWords) -> Value {
    let mut answer = match answer {
        Value::Object(answer) => answer,
        other => Map::from_iter([("structuredContent".to_owned(), other)]),
    };
    let is_error = answer.get("isError") == Some(&Value::Bool(true));
    let mut collected = Collected {
        limits,
        text: String::new(),
        images: Vec::new(),
        image_bytes: 0,
    };
    if let Some(Value::Array(blocks)) = answer.remove("content") {
        for block in blocks {
            collected.block(block);
        }
    }
    let structured = answer
        .remove("structuredContent")
        .filter(|value| !value.is_null());
    let text = match is_error {
        true => words.hide(&collected.text),
        false => collected.text,
    };
    let text = cut(text, limits.max_result_bytes);
    let mut result = Map::new();
    result.insert("success".to_owned(), Value::Bool(!is_error));
    if is_error {
        let error = match text.is_empty() {
            true => "the tool failed without saying why".to_owned(),
            false => text,
        };
        result.insert("content".to_owned(), Value::from(""));
        result.insert("error".to_owned(), Value::from(error));
    } else {
        result.insert("content".to_owned(), Value::from(text));
    }
    if let Some(structured) = structured {
        let size = structured.to_string().len();
        let kept = match size > limits.max_result_bytes {
            false => structured,
            true => Value::from(format!("left out, because it has {size} bytes")),
        };
        result.insert("structured".to_owned(), kept);
    }
    if !collected.images.is_empty() {
        result.insert("images".to_owned(), Value::Array(collected.images));
    }
    Value::Object(result)
}

struct Collected<'a> {
    limits: &'a McpLimits,
    text: String,
    images: Vec<Value>,
    image_bytes: usize,
}

impl Collected<'_> {
    fn block(&mut self, block: Value) {
        let Value::Object(mut block) = block else {
            return;
        };
        let kind = taken(&mut block, "type");
        match kind.as_str() {
            "text" => {
                let text = taken(&mut block, "text");
                self.line(&text);
            }
            "image" => self.image(&mut block),
            "audio" => {
                let media_type = taken(&mut block, "mimeType");
                let size = taken(&mut block, "data").len() / 4 * 3;
                self.line(&format!("[audio, {media_type}, {size} bytes: not kept]"));
            }
            "resource_link" => {
                let (name, uri) = (taken(&mut block, "name"), taken(&mut block, "uri"));
                let about = taken(&mut block, "description");
                let about = if about.is_empty() {
                    about
                } else {
                    format!(": {about}")
                };
                self.line(&format!("[resource {name} {uri}{about}]"));
            }
            "resource" => match block.remove("resource") {
                Some(Value::Object(resource)) => self.resource(resource),
                _ => self.line("[resource without content]"),
            },
            other => self.line(&format!(
                "[content of the unknown kind {other:?}: not kept]"
            )),
        }
    }

    fn image(&mut self, block: &mut Map<String, Value>) {
        let media_type = taken(block, "mimeType");
        let data = taken(block, "data");
        let number = self.images.len() + 1;
        let fits = self.images.len() < self.limits.max_images
            && self.image_bytes + data.len() <= self.limits.max_image_bytes;
        if !fits || !media_type.starts_with("image/") {
            let size = data.len() / 4 * 3;
            self.line(&format!("[image, {media_type}, {size} bytes: not kept]"));
            return;
        }
        self.image_bytes += data.len();
        let name = format!("image-{number}");
        self.line(&format!("[{name}]"));
        self.images
            .push(json!({"name": name, "media_type": media_type, "data": data}));
    }

    fn resource(&mut self, mut resource: Map<String, Value>) {
        let uri = taken(&mut resource, "uri");
        let media_type = taken(&mut resource, "mimeType");
        match resource.remove("text") {
            Some(Value::String(text)) => self.line(&format!("[resource {uri}]\n{text}")),
            _ => {
                let size = taken(&mut resource, "blob").len() / 4 * 3;
                let line = format!("[resource {uri}, {media_type}, {size} bytes: not kept]");
                self.line(&line);
            }
        }
    }

    fn line(&mut self, text: &str) {
        // What is beyond the limit is cut at the end; it need not be collected.
        if self.text.len() > self.limits.max_result_bytes {
            return;
        }
        if !self.text.is_empty() {
            self.text.push('\n');
        }
        self.text.push_str(text);
    }
}

fn taken(block: &mut Map<String, Value>, key: &str) -> String {
    match block.remove(key) {
        Some(Value::String(text)) => text,
        _ => String::new(),
    }
}

fn cut(mut text: String, max_bytes: usize) -> String {
    if text.len() <= max_bytes {
        return text;
    }
    let left = text.len();
    text.truncate(text.floor_char_boundary(max_bytes));
    text.push_str(&format!(
        "\n[cut: the tool returned more than {} of {left} bytes]",
        text.len()
    ));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(answer: Value) -> Value {
        outcome(answer, &McpLimits::default(), &LastWords::default())
    }

    #[test]
    fn all_kinds_of_content_are_kept_or_named() {
        let result = of(json!({"content": [
            {"type": "text", "text": "one"},
            {"type": "text", "text": "two"},
            {"type": "image", "data": "aGk=", "mimeType": "image/png"},
            {"type": "image", "data": "aGk=", "mimeType": "text/html"},
            {"type": "audio", "data": "aGk=", "mimeType": "audio/wav"},
            {"type": "resource_link", "uri": "file:///a", "name": "a", "description": "b"},
            {"type": "resource", "resource": {"uri": "x://y", "text": "body"}},
            {"type": "resource", "resource": {"uri": "x://z", "blob": "aGk=", "mimeType": "b/c"}},
            {"type": "hologram", "data": "canary"},
            "nonsense",
        ], "structuredContent": {"a": 1}}));
        assert_eq!(
            result,
            json!({
                "success": true,
                "content": "one\ntwo\n[image-1]\n[image, text/html, 3 bytes: not kept]\n\
                    [audio, audio/wav, 3 bytes: not kept]\n[resource a file:///a: b]\n\
                    [resource x://y]\nbody\n[resource x://z, b/c, 3 bytes: not kept]\n\
                    [content of the unknown kind \"hologram\": not kept]",
                "structured": {"a": 1},
                "images": [{"name": "image-1", "media_type": "image/png", "data": "aGk="}],
            })
        );
    }

    #[test]
    fn a_failure_says_why() {
        let text = json!([{"type": "text", "text": "no such file"}]);
        assert_eq!(
            of(json!({"content": text, "isError": true})),
            json!({"success": false, "content": "", "error": "no such file"})
        );
        assert_eq!(
            of(json!({"content": [], "isError": true}))["error"],
            "the tool failed without saying why"
        );
    }

    #[test]
    fn a_result_is_bounded() {
        let limits = McpLimits {
            max_result_bytes: 10,
            max_image_bytes: 10,
            max_images: 2,
            ..McpLimits::default()
        };
        let image = json!({"type": "image", "data": "aaaa", "mimeType": "image/png"});
        let large = json!({"type": "image", "data": "a".repeat(40), "mimeType": "image/png"});
        let result = outcome(
            json!({
                "content": [large, image, image, image, {"type": "text", "text": "é".repeat(100)}],
                "structuredContent": {"a": "x".repeat(100)},
            }),
            &limits,
            &LastWords::default(),
        );
        let content = result["content"].as_str().unwrap();
        assert!(content.starts_with("[image, im\n[cut: "), "{content}");
        assert_eq!(result["images"].as_array().unwrap().len(), 2);
        assert_eq!(result["structured"], "left out, because it has 108 bytes");
    }
}
