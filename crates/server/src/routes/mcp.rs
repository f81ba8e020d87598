//! `POST /mcp`: CodeLab as a server of the Model Context Protocol, over streamable HTTP.
//!
//! Every request stands alone. There is no MCP session, and nothing is kept between two requests,
//! so that any server of an installation can answer each of them. The tools do what the routes
//! under `/my` do, for the user of the token. What must never be here: a decision of their own.

mod ask;
mod calls;
mod envelope;
mod headers;
mod outcome;
mod progress;
mod schemas;
mod tools;

use std::sync::Arc;

use axum::Json;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use rmcp::model::{
    CacheScope, DiscoverResult, ErrorCode, ErrorData, Implementation, InitializeResult, JsonObject,
    ListToolsResult, ProtocolVersion, ServerCapabilities, ToolsCapability,
};
use serde_json::{Value, json};

pub(crate) use self::tools::OwnTool;

use self::calls::{OwnToolCall, ToolAnswer};
use self::envelope::{Incoming, McpRequest, ProtocolError};
use self::headers::Lifecycle;
use crate::app::App;
use crate::body;
use crate::error::{ApiError, ApiResult};
use crate::users::User;

/// The newest one that begins with `initialize` is offered to clients that ask for another.
const VERSIONS: [ProtocolVersion; 3] = [
    ProtocolVersion::V_2025_06_18,
    ProtocolVersion::V_2025_11_25,
    ProtocolVersion::V_2026_07_28,
];

/// How long clients may keep the list of tools, which changes only with the program.
const TOOLS_TTL_MS: u64 = 60 * 60 * 1000;

const INSTRUCTIONS: &str = "CodeLab runs a team of AI agents on the user's projects. \
    list_agents shows whom you can ask. ask_agent sends a message to one agent and waits for its \
    answer; start_plan has a request planned and split among agents, and answers at once. \
    What an agent wants to do may need a person's approval: list_approvals shows what waits, and \
    decide_approval decides. Decide only what the user told you to decide. get_session shows what \
    has become of a session.";

/// CodeLab's tools for MCP clients
///
/// One JSON-RPC message of the Model Context Protocol, version 2025-06-18, 2025-11-25 or
/// 2026-07-28. The tools are `list_agents`, `ask_agent`, `start_plan`, `get_session`,
/// `list_approvals` and `decide_approval`. The answer is JSON, or server-sent events where the
/// caller of `ask_agent` gave a progress token.
#[utoipa::path(
    post, path = "/mcp", request_body = Object,
    responses(
        (status = 200, description = "A JSON-RPC response", content((Object = "application/json"), (String = "text/event-stream"))),
        (status = 202, description = "A notification was accepted"),
        (status = 400, description = "Not a message of the protocol, or its headers contradict it: a JSON-RPC error", body = Object),
        (status = 404, description = "Unknown method: a JSON-RPC error", body = Object),
        (status = 406, description = "`Accept` must name both application/json and text/event-stream"),
    ),
)]
pub(super) async fn post(State(app): State<App>, user: User, request: Request) -> Response {
    match answered(app, user, request).await {
        Ok(response) => response,
        Err(refusal) => refusal.into_response(),
    }
}

async fn answered(app: App, user: User, request: Request) -> ApiResult<Response> {
    check_accept(request.headers())?;
    body::check_head(request.headers(), app.body_bytes)?;
    let (parts, arriving) = request.into_parts();
    let mut held = app.buffers.hold(Some(user.id()));
    let bytes = body::whole(arriving, app.body_bytes, &mut held).await?;
    let message = match envelope::read(&parts.headers, &bytes) {
        Ok(message) => message,
        Err(error) => return Ok(error.into_response()),
    };
    drop((bytes, held));
    Ok(match message {
        // Nothing that a client tells is kept. A call ends when its request is closed.
        Incoming::Notification => StatusCode::ACCEPTED.into_response(),
        Incoming::Request(request) => dispatch(app, user, request).await,
    })
}

/// The protocol demands both. An answer is sent as one or the other.
fn check_accept(headers: &HeaderMap) -> ApiResult<()> {
    let accepts = |wanted: &str| {
        let given = headers.get_all(axum::http::header::ACCEPT).iter();
        let given = given.filter_map(|value| value.to_str().ok());
        given.flat_map(|value| value.split(',')).any(|part| {
            let essence = part.split(';').next().unwrap_or_default();
            essence.trim().eq_ignore_ascii_case(wanted)
        })
    };
    if accepts("application/json") && accepts("text/event-stream") {
        return Ok(());
    }
    let why = "The Accept header must name both application/json and text/event-stream";
    Err(ApiError::invalid(why).at(StatusCode::NOT_ACCEPTABLE))
}

async fn dispatch(app: App, user: User, request: McpRequest) -> Response {
    let (id, lifecycle) = (request.id.clone(), request.lifecycle);
    let result = match request.method.as_str() {
        "initialize" if lifecycle == Lifecycle::Handshake => initialize(&request.params),
        "server/discover" if lifecycle == Lifecycle::PerRequest => Ok(shown(discover())),
        "ping" if lifecycle == Lifecycle::Handshake => Ok(json!({})),
        "tools/list" => list_tools(&request.params, lifecycle),
        "tools/call" => match tool_call(app, user, &request) {
            Ok(call) => return call_tool(call, request).await,
            Err(error) => Err(error),
        },
        _ => Err(ErrorData::new(
            ErrorCode::METHOD_NOT_FOUND,
            "This server does not have this method",
            None,
        )),
    };
    match result {
        Ok(result) => Json(envelope::response(&id, result)).into_response(),
        Err(error) => ProtocolError {
            status: lifecycle.status(error.code),
            id: Some(id),
            error: Box::new(error),
        }
        .into_response(),
    }
}

/// Agrees on a version. Clients that need no handshake do not ask.
fn initialize(params: &JsonObject) -> Result<Value, ErrorData> {
    let asked = params.get("protocolVersion").and_then(Value::as_str);
    let asked = asked.ok_or_else(|| {
        ErrorData::invalid_params("protocolVersion is missing or not a text", None)
    })?;
    let mut spoken = VERSIONS.into_iter().filter(ProtocolVersion::has_initialize);
    let agreed = spoken
        .clone()
        .find(|version| version.as_str() == asked)
        .or_else(|| spoken.next_back())
        .unwrap_or(ProtocolVersion::LATEST_WITH_INITIALIZE);
    let result = InitializeResult::new(capabilities())
        .with_protocol_version(agreed)
        .with_server_info(implementation())
        .with_instructions(INSTRUCTIONS);
    Ok(shown(result))
}

fn discover() -> DiscoverResult {
    let mut result =
        DiscoverResult::new(VERSIONS.to_vec(), capabilities()).with_server_info(implementation());
    result.instructions = Some(INSTRUCTIONS.to_owned());
    result.ttl_ms = TOOLS_TTL_MS;
    result
}

fn capabilities() -> ServerCapabilities {
    let mut capabilities = ServerCapabilities::default();
    capabilities.tools = Some(ToolsCapability::default());
    capabilities
}

fn implementation() -> Implementation {
    Implementation::new("codelab", env!("CARGO_PKG_VERSION")).with_title("CodeLab")
}

fn list_tools(params: &JsonObject, lifecycle: Lifecycle) -> Result<Value, ErrorData> {
    if params.get("cursor").is_some_and(|cursor| !cursor.is_null()) {
        let why = "The list of tools has one page; leave the cursor out";
        return Err(ErrorData::invalid_params(why, None));
    }
    let tools = OwnTool::ALL.map(OwnTool::definition).to_vec();
    let mut result = ListToolsResult::with_all_items(tools);
    match lifecycle {
        Lifecycle::Handshake => result.result_type = None,
        Lifecycle::PerRequest => {
            result.ttl_ms = Some(TOOLS_TTL_MS);
            result.cache_scope = Some(CacheScope::Private);
        }
    }
    Ok(shown(result))
}

/// The tool that a request calls.
fn tool_call(app: App, user: User, request: &McpRequest) -> Result<OwnToolCall, ErrorData> {
    let name = request.params.get("name").and_then(Value::as_str);
    let name = name.ok_or_else(|| ErrorData::invalid_params("name must be a tool's name", None))?;
    let tool = OwnTool::named(name)
        .ok_or_else(|| ErrorData::invalid_params("There is no tool of this name", None))?;
    let arguments = match request.params.get("arguments") {
        None | Some(Value::Null) => JsonObject::new(),
        Some(Value::Object(arguments)) => arguments.clone(),
        Some(_) => {
            return Err(ErrorData::invalid_params(
                "arguments must be an object",
                None,
            ));
        }
    };
    Ok(OwnToolCall {
        app,
        user,
        tool,
        arguments,
        tells: request.meta.get_progress_token().is_some(),
    })
}

/// What a tool cannot do is a result that says so. Only the protocol has errors.
async fn call_tool(call: OwnToolCall, request: McpRequest) -> Response {
    let McpRequest {
        id,
        meta,
        lifecycle,
        ..
    } = request;
    let (buffers, user, only_reads) = (
        Arc::clone(&call.app.buffers),
        call.user.id(),
        call.tool.only_reads(),
    );
    let result = match call.run().await {
        ToolAnswer::Now(result) => *result,
        ToolAnswer::Later(waiting) => match meta.get_progress_token() {
            Some(token) => return progress::stream(waiting, (id, lifecycle), token),
            None => waiting.work.await,
        },
    };
    let response = Json(envelope::call_result(&id, result, lifecycle)).into_response();
    // A call that changed something is never answered as refused.
    match only_reads {
        true => buffers.answer(user, response),
        false => response,
    }
}

/// The types of the protocol are all JSON.
fn shown(value: impl serde::Serialize) -> Value {
    serde_json::to_value(value).unwrap_or(Value::Null)
}
