//! The client under test of the protocol's conformance program, which `tests/mcp_conformance` runs.
//!
//! It is started with the address of a server. It lists the tools, calls each of them, agrees to
//! every question with the values that the server suggests, and authorizes itself as a person would
//! in a browser.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use codelab_mcp::oauth::{Authorization, OAuthClient, OAuthTokens, RegisteredClient};
use codelab_mcp::{
    CallEvent, CallOptions, ElicitReply, HttpConfig, McpCallEnd, McpLimits, Place, ServerConfig,
    ServerHandle, ServerState,
};
use codelab_protocol::{McpServerName, McpStatus, ToolDefinition};
use codelab_transport::{HttpClient, HttpLimits, NetworkOptions};
use http::{Request, Uri};
use serde_json::{Map, Value, json};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

const REDIRECT_URI: &str = "http://127.0.0.1:9/callback";
const CLIENT_DOCUMENT: &str = "https://conformance-test.local/client-metadata.json";
/// A server that asks for another authorization again and again is given up.
const MAX_AUTHORIZATIONS: usize = 2;
const PATIENCE: Duration = Duration::from_secs(20);

#[tokio::main]
async fn main() -> ExitCode {
    match run().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            say(&format!("{error:#}"));
            ExitCode::FAILURE
        }
    }
}

/// The conformance program shows what its client says.
fn say(text: &str) {
    use std::io::Write as _;
    let _ = writeln!(std::io::stderr(), "{text}");
}

async fn run() -> Result<()> {
    let url = std::env::args().nth(1).context("the address is missing")?;
    let mut tokens: Option<OAuthTokens> = None;
    let mut challenge = None;
    for _ in 0..=MAX_AUTHORIZATIONS {
        let handle = start(&url, tokens.clone())?;
        let state = settled(&handle).await?;
        let refused = match state.status {
            McpStatus::Ready => call_all(&handle, &state).await?,
            McpStatus::Unauthorized => true,
            _ => bail!("{}", state.error.unwrap_or_default()),
        };
        let heard = handle.challenge().or(challenge.take());
        handle.stop().await;
        if !refused {
            return Ok(());
        }
        tokens = Some(authorized(&url, heard.clone(), tokens.as_ref()).await?);
        challenge = heard;
    }
    bail!("the server wants one authorization after the other")
}

fn start(url: &str, tokens: Option<OAuthTokens>) -> Result<ServerHandle> {
    let config = HttpConfig::checked(url, Default::default()).map_err(anyhow::Error::msg)?;
    let place = Place::Network {
        network: NetworkOptions::default(),
        allow_private: true,
        authorization: tokens.map(|tokens| Authorization::new(tokens).0),
    };
    let limits = McpLimits {
        max_restarts: 0,
        handshake_timeout: PATIENCE,
        call_timeout: PATIENCE,
        ..McpLimits::default()
    };
    let name = McpServerName::parse("conformance")?;
    Ok(ServerHandle::start(
        name,
        ServerConfig::Http(config),
        place,
        limits,
    ))
}

async fn settled(handle: &ServerHandle) -> Result<ServerState> {
    let mut state = handle.watch();
    let settled = state.wait_for(|state| state.status != McpStatus::Starting);
    Ok(tokio::time::timeout(PATIENCE, settled).await??.clone())
}

/// Whether the server wants another authorization.
async fn call_all(handle: &ServerHandle, state: &ServerState) -> Result<bool> {
    let before = handle.challenge();
    for (tool, arguments) in planned(state) {
        let (asks, mut events) = mpsc::channel(8);
        let agreeing = tokio::spawn(async move {
            while let Some(event) = events.recv().await {
                if let CallEvent::Elicit {
                    reply,
                    requested_schema,
                    ..
                } = event
                {
                    let _ = reply.send(ElicitReply::Accept(answers(&requested_schema)));
                }
            }
        });
        let options = CallOptions {
            stop: CancellationToken::new(),
            asks,
        };
        let end = handle
            .call(&tool.name, &tool.digest(), arguments, options)
            .await;
        agreeing.await?;
        say(&format!("{}: {end:?}", tool.name));
        if handle.challenge() != before && matches!(end, McpCallEnd::Refused(_)) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// What a scenario tells its client.
fn context() -> Value {
    let context = std::env::var("MCP_CONFORMANCE_CONTEXT").unwrap_or_default();
    serde_json::from_str(&context).unwrap_or_default()
}

/// The calls that a scenario asks for, or each tool once.
fn planned(state: &ServerState) -> Vec<(&ToolDefinition, Map<String, Value>)> {
    let context = context();
    let Some(asked) = context["toolCalls"].as_array() else {
        return each(state);
    };
    let found = asked.iter().filter_map(|call| {
        let name = call["name"].as_str()?;
        let tool = state.tools.iter().find(|tool| tool.name == name)?;
        Some((
            tool,
            call["arguments"].as_object().cloned().unwrap_or_default(),
        ))
    });
    found.collect()
}

/// One tool wants to see the definition of another.
fn each(state: &ServerState) -> Vec<(&ToolDefinition, Map<String, Value>)> {
    let shown = state
        .tools
        .iter()
        .find(|tool| tool.name == "json_schema_2020_12_tool");
    let filled = state.tools.iter().map(|tool| {
        let mut arguments = arguments(&tool.input_schema);
        if let (Some(shown), "json_schema_echo") = (shown, tool.name.as_str()) {
            let schema = Value::Object(shown.input_schema.clone());
            arguments.insert("schema".to_owned(), schema);
        }
        (tool, arguments)
    });
    filled.collect()
}

fn arguments(schema: &Map<String, Value>) -> Map<String, Value> {
    let properties = schema.get("properties").and_then(Value::as_object);
    let filled = properties.into_iter().flatten().map(|(name, property)| {
        let value = match property["type"].as_str() {
            Some("number" | "integer") => json!(5),
            Some("boolean") => json!(true),
            Some("object") => json!({}),
            Some("array") => json!([]),
            _ => json!("text"),
        };
        (name.clone(), value)
    });
    filled.collect()
}

/// What has a suggested value is left to it.
fn answers(schema: &Map<String, Value>) -> Map<String, Value> {
    let mut filled = arguments(schema);
    let properties = schema.get("properties").and_then(Value::as_object);
    for (name, property) in properties.into_iter().flatten() {
        if property.get("default").is_some() {
            filled.remove(name);
        }
    }
    filled
}

/// What a person does in a browser: follows the link, and comes back with a code.
async fn authorized(
    url: &str,
    challenge: Option<String>,
    earlier: Option<&OAuthTokens>,
) -> Result<OAuthTokens> {
    let context = context();
    let text = |key: &str| context[key].as_str().map(str::to_owned);
    let registered = text("client_id").map(|id| RegisteredClient {
        id,
        secret: text("client_secret"),
    });
    let client = OAuthClient::new(NetworkOptions::default(), true)
        .with_client_document(CLIENT_DOCUMENT.to_owned())
        .with_registered_client(registered)
        .with_earlier(earlier)
        .with_challenge(challenge);
    let state = "state-of-the-conformance-client";
    let begun = client.begin(url, REDIRECT_URI, state).await?;
    let uri: Uri = begun.authorize_url.parse()?;
    let limits = HttpLimits {
        connect_timeout: PATIENCE,
        idle_connections: 1,
        idle_connection_timeout: PATIENCE,
    };
    let browser = HttpClient::new(&uri, &NetworkOptions::default(), limits)?;
    let request = Request::get(uri).body(Default::default())?;
    let answer = browser.fetch(request, PATIENCE, 64 * 1024).await?;
    let location = answer
        .headers()
        .get("location")
        .context("nobody sends us back")?;
    let (_, query) = location
        .to_str()?
        .split_once('?')
        .context("no code came back")?;
    let parameter = |name: &str| {
        let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
        let found = pairs.clone().find(|(found, _)| *found == name);
        found.map(|(_, value)| decoded(value))
    };
    if parameter("state").as_deref() != Some(state) {
        bail!("another state came back");
    }
    let code = parameter("code").context("no code came back")?;
    Ok(client
        .finish(&begun.pending, &code, parameter("iss").as_deref())
        .await?)
}

fn decoded(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let [first, after @ ..] = rest {
        let hex = after.get(..2).and_then(|hex| std::str::from_utf8(hex).ok());
        let escaped = hex.and_then(|hex| u8::from_str_radix(hex, 16).ok());
        rest = match (first, escaped) {
            (b'%', Some(byte)) => {
                bytes.push(byte);
                &after[2..]
            }
            (first, _) => {
                bytes.push(*first);
                after
            }
        };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}
