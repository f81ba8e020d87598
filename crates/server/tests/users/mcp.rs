//! `POST /mcp`: CodeLab's tools for MCP clients.

mod access;
mod messages;
mod protocol;
mod tools;

use codelab_testkit::TestServer;
use serde_json::{Value, json};

use crate::kit::{Answer, Person};

pub const OLD: &str = "2025-11-25";
pub const NEW: &str = "2026-07-28";
const ACCEPT: (&str, &str) = ("accept", "application/json, text/event-stream");

/// An MCP client of one user, which speaks one version of the protocol.
#[derive(Clone)]
pub struct Mcp {
    pub person: Person,
    version: &'static str,
}

impl Mcp {
    pub fn new(server: &TestServer, user: i64, version: &'static str) -> Self {
        let person = Person::user(server, user);
        Self { person, version }
    }

    /// The body of a request as a client of this version sends it.
    pub fn body(&self, method: &str, mut params: Value) -> Value {
        if self.version == NEW {
            params["_meta"]["io.modelcontextprotocol/protocolVersion"] = json!(NEW);
            params["_meta"]["io.modelcontextprotocol/clientCapabilities"] = json!({});
        }
        json!({ "jsonrpc": "2.0", "id": 7, "method": method, "params": params })
    }

    pub async fn request(&self, method: &str, params: Value) -> Answer {
        let name = params["name"].as_str().unwrap_or_default().to_owned();
        let mut headers = vec![("mcp-protocol-version", self.version)];
        if self.version == NEW {
            headers.push(("mcp-method", method));
            if !name.is_empty() {
                headers.push(("mcp-name", &name));
            }
        }
        self.send(self.body(method, params), &headers).await
    }

    pub async fn send(&self, body: Value, headers: &[(&str, &str)]) -> Answer {
        let mut all = vec![ACCEPT];
        all.extend(headers);
        self.person.ask_with("POST", "/mcp", Some(body), &all).await
    }

    /// The result of a request that succeeds.
    pub async fn result(&self, method: &str, params: Value) -> Value {
        let answer = self.request(method, params).await;
        let body = answer.expect(200);
        assert_eq!((&body["jsonrpc"], &body["id"]), (&json!("2.0"), &json!(7)));
        assert!(body["result"].is_object(), "{body:#}");
        body["result"].clone()
    }

    pub async fn call(&self, tool: &str, arguments: Value) -> Value {
        let params = json!({ "name": tool, "arguments": arguments });
        self.result("tools/call", params).await
    }

    /// The data of a call that succeeds.
    pub async fn data(&self, tool: &str, arguments: Value) -> Value {
        let result = self.call(tool, arguments).await;
        assert_eq!(result["isError"], false, "{result:#}");
        result["structuredContent"].clone()
    }

    /// A call that fails, with this code of the API. What is said has it as well.
    pub async fn fails(&self, tool: &str, arguments: Value, code: &str) -> Value {
        let result = self.call(tool, arguments).await;
        assert_eq!(result["isError"], true, "{result:#}");
        let error = &result["_meta"]["codelab/error"];
        assert_eq!(error["error_code"], code, "{result:#}");
        let said = result["content"][0]["text"].as_str().unwrap();
        let detail = error["detail"].as_str().unwrap();
        assert!(said.contains(detail) && said.contains(code), "{said}");
        result
    }
}

/// Status, code and message of a JSON-RPC error.
pub fn protocol_error(answer: &Answer) -> (u16, i64, String) {
    let error = &answer.body["error"];
    let message = error["message"].as_str().unwrap_or_default().to_owned();
    (answer.status, error["code"].as_i64().unwrap_or(0), message)
}
