//! An MCP server over HTTP that does what a test says, and the authorization server before it.

use std::sync::{Arc, Mutex, MutexGuard};

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use serde_json::{Value, json};
use tokio::net::TcpListener;

/// What the server offers, and what it was asked.
#[derive(Default)]
pub struct Script {
    pub tools: Vec<Value>,
    /// Without it nobody is refused.
    pub access_token: Option<String>,
    /// Values of this header, in the order of the requests.
    pub keys: Vec<String>,
    /// Codes and refresh tokens that can be used once.
    pub grants: Vec<String>,
    /// Where people would log in, if not at this server.
    pub authorization_endpoint: Option<String>,
    /// Calls fail, and the error repeats the key.
    pub refuses: bool,
    /// What the token endpoint was asked with.
    pub used: Vec<String>,
    issued: usize,
    /// Tool calls that were made.
    called: usize,
}

#[derive(Clone)]
pub struct McpScript {
    pub base: String,
    script: Arc<Mutex<Script>>,
}

pub fn tool(name: &str, description: &str) -> Value {
    json!({"name": name, "description": description, "inputSchema": {"type": "object"},
        "annotations": {"readOnlyHint": true}})
}

impl McpScript {
    pub async fn start(tools: Vec<Value>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let base = format!("http://{}", listener.local_addr().unwrap());
        let script = Script {
            tools,
            ..Script::default()
        };
        let scripted = Self {
            base,
            script: Arc::new(Mutex::new(script)),
        };
        let routes = Router::new()
            .route("/mcp", post(answer).get(StatusCode::METHOD_NOT_ALLOWED))
            .route("/register", post(register))
            .route("/token", post(token))
            .fallback(get(metadata))
            .with_state(scripted.clone());
        tokio::spawn(async move { axum::serve(listener, routes).await });
        scripted
    }

    pub fn url(&self) -> String {
        format!("{}/mcp", self.base)
    }

    pub fn script(&self) -> MutexGuard<'_, Script> {
        self.script.lock().unwrap()
    }

    pub fn called(&self) -> usize {
        self.script().called
    }

    pub fn offer(&self, tools: Vec<Value>) {
        self.script().tools = tools;
    }
}

async fn answer(State(mcp): State<McpScript>, headers: HeaderMap, body: Bytes) -> Response {
    let text = |name: &str| {
        let value = headers.get(name).and_then(|value| value.to_str().ok());
        value.unwrap_or_default().to_owned()
    };
    let mut script = mcp.script();
    script.keys.push(text("x-key"));
    let wanted = script.access_token.as_ref();
    if wanted.is_some_and(|token| text("authorization") != format!("Bearer {token}")) {
        let metadata = format!("{}/.well-known/oauth-protected-resource/mcp", mcp.base);
        let challenge = format!("Bearer resource_metadata=\"{metadata}\"");
        let headers = [(header::WWW_AUTHENTICATE, challenge)];
        return (StatusCode::UNAUTHORIZED, headers).into_response();
    }
    let request: Value = serde_json::from_slice(&body).unwrap();
    let Some(id) = request.get("id") else {
        return StatusCode::ACCEPTED.into_response();
    };
    let result = match request["method"].as_str().unwrap() {
        "initialize" => json!({"protocolVersion": "2025-11-25",
            "capabilities": {"tools": {"listChanged": true}},
            "serverInfo": {"name": "script", "version": "1"}}),
        "tools/list" => json!({"tools": script.tools}),
        "tools/call" if script.refuses => {
            let message = format!("not with {}", text("x-key"));
            let error = json!({"code": -32000, "message": message});
            return json_of(&json!({"jsonrpc": "2.0", "id": id, "error": error}));
        }
        "tools/call" => {
            script.called += 1;
            json!({"content": [{"type": "text", "text": "done"}]})
        }
        "ping" => json!({}),
        _ => {
            let error = json!({"code": -32601, "message": "Method not found"});
            return json_of(&json!({"jsonrpc": "2.0", "id": id, "error": error}));
        }
    };
    json_of(&json!({"jsonrpc": "2.0", "id": id, "result": result}))
}

async fn metadata(State(mcp): State<McpScript>, uri: Uri) -> Response {
    let base = &mcp.base;
    match uri.path() {
        "/.well-known/oauth-protected-resource/mcp" => {
            json_of(&json!({"resource": mcp.url(), "authorization_servers": [base]}))
        }
        "/.well-known/oauth-authorization-server" => json_of(&json!({
            "issuer": base,
            "authorization_endpoint": mcp.script().authorization_endpoint.clone()
                .unwrap_or_else(|| format!("{base}/authorize")),
            "token_endpoint": format!("{base}/token"),
            "registration_endpoint": format!("{base}/register"),
            "response_types_supported": ["code"],
            "grant_types_supported": ["authorization_code", "refresh_token"],
            "code_challenge_methods_supported": ["S256"],
            "token_endpoint_auth_methods_supported": ["none"],
        })),
        _ => StatusCode::NOT_FOUND.into_response(),
    }
}

async fn register() -> Response {
    json_of(&json!({"client_id": "codelab-1"}))
}

/// Every code and refresh token works once.
async fn token(State(mcp): State<McpScript>, body: String) -> Response {
    let field = |name: &str| {
        let mut fields = body.split('&');
        fields.find_map(|field| field.strip_prefix(&format!("{name}=")).map(str::to_owned))
    };
    let grant = field("code").or_else(|| field("refresh_token")).unwrap();
    let mut script = mcp.script();
    let Some(at) = script.grants.iter().position(|known| *known == grant) else {
        let error = json!({"error": "invalid_grant"});
        return (StatusCode::BAD_REQUEST, error.to_string()).into_response();
    };
    script.grants.remove(at);
    script.used.push(grant);
    script.issued += 1;
    let number = script.issued;
    let refresh_token = format!("canary-refresh-{number}");
    script.grants.push(refresh_token.clone());
    let access_token = format!("canary-access-{number}");
    script.access_token = Some(access_token.clone());
    json_of(
        &json!({"access_token": access_token, "token_type": "Bearer",
        "expires_in": 3600, "refresh_token": refresh_token}),
    )
}

fn json_of(value: &Value) -> Response {
    let headers = [(header::CONTENT_TYPE, "application/json")];
    (headers, value.to_string()).into_response()
}
