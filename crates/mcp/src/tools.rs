//! Reads what a server offers. Definitions that are too large or make no sense are left out, and the
//! person is told.

use std::collections::BTreeSet;

use codelab_protocol::ToolDefinition;
use rmcp::model::{ClientRequest, ListToolsRequest, PaginatedRequestParams, ServerResult};
use rmcp::service::{Peer, RoleClient, ServiceError};
use serde_json::{Map, Value};

use crate::limits::McpLimits;

const MAX_NAME_CHARS: usize = 128;

/// What a server offers, and what is wrong with the rest.
#[derive(Debug, Default)]
pub struct Offer {
    pub tools: Vec<ToolDefinition>,
    pub problems: Vec<String>,
}

/// Asks for all pages. Never answers from a cache: a change must be seen.
pub async fn list(peer: &Peer<RoleClient>, limits: &McpLimits) -> Result<Offer, ServiceError> {
    let mut reading = Reading {
        limits,
        offer: Offer::default(),
        names: BTreeSet::new(),
        bytes: 0,
        is_full: false,
    };
    let mut cursor: Option<String> = None;
    for page in 0..limits.max_tool_pages {
        // The first page is asked for without parameters, as the oldest servers expect.
        let mut request = ListToolsRequest::default();
        if page > 0 {
            let mut params = PaginatedRequestParams::default();
            params.cursor = cursor.take();
            request.params = Some(params);
        }
        let request = ClientRequest::ListToolsRequest(request);
        let result = peer.send_request(request).await?;
        cursor = reading.page(result)?;
        if reading.is_full || cursor.is_none() {
            return Ok(reading.offer);
        }
    }
    reading.problem("it has more pages of tools than are read");
    Ok(reading.offer)
}

struct Reading<'a> {
    limits: &'a McpLimits,
    offer: Offer,
    names: BTreeSet<String>,
    bytes: usize,
    is_full: bool,
}

impl Reading<'_> {
    /// The cursor of the next page.
    fn page(&mut self, result: ServerResult) -> Result<Option<String>, ServiceError> {
        // One tool that makes no sense turns the whole page into something that rmcp does not know.
        let page = serde_json::to_value(result).map_err(|_| ServiceError::UnexpectedResponse)?;
        let Value::Object(mut page) = page else {
            return Err(ServiceError::UnexpectedResponse);
        };
        let Some(Value::Array(tools)) = page.remove("tools") else {
            return Err(ServiceError::UnexpectedResponse);
        };
        for tool in tools {
            self.tool(tool);
        }
        let cursor = match page.remove("nextCursor") {
            Some(Value::String(cursor)) if !cursor.is_empty() => Some(cursor),
            _ => None,
        };
        Ok(cursor)
    }

    fn tool(&mut self, tool: Value) {
        if self.is_full {
            return;
        }
        let size = tool.to_string().len();
        let Some(definition) = definition(tool) else {
            self.problem("a tool has no usable name or schema and is left out");
            return;
        };
        let name = crate::failure::visible(&definition.name, MAX_NAME_CHARS);
        let limits = self.limits;
        if size > limits.max_definition_bytes {
            let max = limits.max_definition_bytes;
            self.problem(&format!(
                "the definition of {name} is larger than {max} bytes"
            ));
        } else if self.names.contains(&definition.name) {
            self.problem(&format!("it names two tools {name}; the first counts"));
        } else if self.offer.tools.len() >= limits.max_tools
            || self.bytes + size > limits.max_definitions_bytes
        {
            self.is_full = true;
            self.problem("it has more tools than are read; the first ones count");
        } else {
            self.bytes += size;
            self.names.insert(definition.name.clone());
            self.offer.tools.push(definition);
        }
    }

    fn problem(&mut self, text: &str) {
        const MAX_PROBLEMS: usize = 5;
        if self.offer.problems.len() < MAX_PROBLEMS {
            self.offer.problems.push(text.to_owned());
        }
    }
}

fn definition(tool: Value) -> Option<ToolDefinition> {
    let Value::Object(mut tool) = tool else {
        return None;
    };
    let name = match tool.remove("name") {
        Some(Value::String(name)) => name,
        _ => return None,
    };
    if name.is_empty() || name.chars().count() > MAX_NAME_CHARS {
        return None;
    }
    let input_schema = match tool.remove("inputSchema") {
        Some(Value::Object(schema)) => schema,
        None => Map::from_iter([("type".to_owned(), Value::from("object"))]),
        Some(_) => return None,
    };
    let text = |value: Option<Value>| match value {
        Some(Value::String(text)) => Some(text),
        _ => None,
    };
    Some(ToolDefinition {
        name,
        title: text(tool.remove("title")),
        description: text(tool.remove("description")).unwrap_or_default(),
        input_schema,
        annotations: match tool.remove("annotations") {
            Some(Value::Object(annotations)) => Some(annotations),
            _ => None,
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn read(pages: &[Value], limits: &McpLimits) -> Offer {
        let mut reading = Reading {
            limits,
            offer: Offer::default(),
            names: BTreeSet::new(),
            bytes: 0,
            is_full: false,
        };
        for page in pages {
            let result: ServerResult = serde_json::from_value(page.clone()).unwrap();
            reading.page(result).unwrap();
        }
        reading.offer
    }

    fn tool(name: &str) -> Value {
        json!({"name": name, "inputSchema": {"type": "object"}})
    }

    #[test]
    fn one_bad_tool_does_not_take_the_others_along() {
        let long = "x".repeat(200);
        let page = json!({"tools": [
            tool("a"), 1, {"inputSchema": {}}, {"name": "b", "inputSchema": 1}, tool(&long),
            tool("a"), {"name": "c"}, tool("d\u{1b}[2J"),
        ]});
        let offer = read(&[page], &McpLimits::default());
        let names: Vec<&str> = offer.tools.iter().map(|tool| tool.name.as_str()).collect();
        assert_eq!(names, ["a", "c", "d\u{1b}[2J"]);
        assert_eq!(offer.problems.len(), 5);
    }

    #[test]
    fn an_offer_is_bounded() {
        let limits = McpLimits {
            max_tools: 3,
            max_definition_bytes: 1_000,
            max_definitions_bytes: 2_000,
            ..McpLimits::default()
        };
        let many: Vec<Value> = (0..10).map(|number| tool(&number.to_string())).collect();
        assert_eq!(read(&[json!({"tools": many})], &limits).tools.len(), 3);

        let big = |name: &str, bytes| json!({"name": name, "description": "x".repeat(bytes), "inputSchema": {}});
        let page = json!({"tools": [big("a", 2_000), big("b", 800), big("c", 800), big("d", 800)]});
        let offer = read(&[page], &limits);
        let names: Vec<&str> = offer.tools.iter().map(|tool| tool.name.as_str()).collect();
        assert_eq!(names, ["b", "c"]);
        assert!(
            offer.problems[0].contains("definition of a is larger"),
            "{offer:?}"
        );
    }
}
