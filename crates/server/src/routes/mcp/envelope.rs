//! JSON-RPC: one message in, one message out.

use axum::Json;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use rmcp::model::{CallToolResult, ErrorData, JsonObject, RequestId, RequestMetaObject};
use serde_json::{Map, Value, json};

use super::headers::{self, Lifecycle};

const VERSION: &str = "2.0";
/// How much of a parser error, which quotes the input, is shown to the caller.
const MAX_SHOWN_CHARS: usize = 200;

/// What a client sends.
pub(super) enum Incoming {
    Request(McpRequest),
    Notification,
}

/// A request whose headers agree with it.
pub(super) struct McpRequest {
    pub id: RequestId,
    pub method: String,
    pub params: JsonObject,
    pub meta: RequestMetaObject,
    pub lifecycle: Lifecycle,
}

/// A JSON-RPC error as an HTTP answer.
pub(super) struct ProtocolError {
    pub status: StatusCode,
    /// Nothing where the message has none that could be read.
    pub id: Option<RequestId>,
    pub error: Box<ErrorData>,
}

impl ProtocolError {
    pub fn bad_request(id: Option<RequestId>, error: ErrorData) -> Self {
        Self {
            status: StatusCode::BAD_REQUEST,
            id,
            error: Box::new(error),
        }
    }
}

impl IntoResponse for ProtocolError {
    fn into_response(self) -> Response {
        let body = json!({ "jsonrpc": VERSION, "id": self.id, "error": self.error });
        (self.status, Json(body)).into_response()
    }
}

/// The message of a body.
pub(super) fn read(headers: &HeaderMap, bytes: &[u8]) -> Result<Incoming, ProtocolError> {
    let invalid = |id: &Option<RequestId>, why: &'static str| {
        ProtocolError::bad_request(id.clone(), ErrorData::invalid_request(why, None))
    };
    let mut message = match serde_json::from_slice(bytes) {
        Ok(Value::Object(message)) => message,
        Ok(Value::Array(_)) => {
            let why = "Batches are not supported; send one message in each request";
            return Err(invalid(&None, why));
        }
        Ok(_) => return Err(invalid(&None, "A message must be a JSON object")),
        Err(error) => {
            let why: String = error.to_string().chars().take(MAX_SHOWN_CHARS).collect();
            let error = ErrorData::parse_error(format!("The body is not valid JSON: {why}"), None);
            return Err(ProtocolError::bad_request(None, error));
        }
    };
    let id = match message.remove("id") {
        None => None,
        Some(id) => match serde_json::from_value::<RequestId>(id) {
            Ok(id) => Some(id),
            Err(_) => return Err(invalid(&None, "id must be a text or a whole number")),
        },
    };
    if message.get("jsonrpc").and_then(Value::as_str) != Some(VERSION) {
        return Err(invalid(&id, "jsonrpc must be \"2.0\""));
    }
    let method = match message.remove("method") {
        Some(Value::String(method)) => method,
        Some(_) => return Err(invalid(&id, "method must be a text")),
        None if message.contains_key("result") || message.contains_key("error") => {
            let why = "This server sends no requests, so there is nothing to respond to";
            return Err(invalid(&id, why));
        }
        None => return Err(invalid(&id, "method is missing")),
    };
    let params = match message.remove("params") {
        None => Map::new(),
        Some(Value::Object(params)) => params,
        Some(_) => {
            let error = ErrorData::invalid_params("params must be an object", None);
            return Err(ProtocolError::bad_request(id, error));
        }
    };
    let meta = match params.get("_meta") {
        Some(Value::Object(meta)) => RequestMetaObject::from(meta.clone()),
        _ => RequestMetaObject::default(),
    };
    let checked = headers::check(headers, &method, &params, &meta, id.is_some());
    let lifecycle = checked.map_err(|error| ProtocolError::bad_request(id.clone(), error))?;
    Ok(match id {
        Some(id) => Incoming::Request(McpRequest {
            id,
            method,
            params,
            meta,
            lifecycle,
        }),
        None => Incoming::Notification,
    })
}

pub(super) fn response(id: &RequestId, result: Value) -> Value {
    json!({ "jsonrpc": VERSION, "id": id, "result": result })
}

pub(super) fn notification(method: &str, params: Value) -> Value {
    json!({ "jsonrpc": VERSION, "method": method, "params": params })
}

/// Versions before 2026-07-28 do not know the type of a result.
pub(super) fn call_result(
    id: &RequestId,
    mut result: CallToolResult,
    lifecycle: Lifecycle,
) -> Value {
    if lifecycle == Lifecycle::Handshake {
        result.result_type = None;
    }
    response(id, super::shown(result))
}
