//! What the headers of a request say about its message, and which version of the protocol it
//! speaks. A proxy may route by these headers, so what contradicts the message is refused.

use axum::http::{HeaderMap, StatusCode};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rmcp::model::{ErrorCode, ErrorData, JsonObject, ProtocolVersion, RequestMetaObject};
use serde_json::Value;

use super::VERSIONS;

const PROTOCOL_VERSION: &str = "mcp-protocol-version";
const METHOD: &str = "mcp-method";
const NAME: &str = "mcp-name";
/// Around a value that is not plain ASCII.
const ENCODED: (&str, &str) = ("=?base64?", "?=");

/// How client and server agree on a version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Lifecycle {
    /// Once, with `initialize`: before 2026-07-28. Later requests of a client say nothing about
    /// it but the header.
    Handshake,
    /// Each request says which version it speaks.
    PerRequest,
}

impl Lifecycle {
    /// The status of an answer that is a JSON-RPC error with this code.
    pub fn status(self, code: ErrorCode) -> StatusCode {
        match self {
            Self::PerRequest if code == ErrorCode::METHOD_NOT_FOUND => StatusCode::NOT_FOUND,
            Self::Handshake | Self::PerRequest => StatusCode::OK,
        }
    }
}

/// Compares the headers with the message.
pub(super) fn check(
    headers: &HeaderMap,
    method: &str,
    params: &JsonObject,
    meta: &RequestMetaObject,
    is_request: bool,
) -> Result<Lifecycle, ErrorData> {
    let version = single(headers, PROTOCOL_VERSION)?;
    // A client that says its version in each request has no handshake to make.
    let is_handshake = method == "initialize" && meta.protocol_version().is_none();
    let lifecycle = match (is_handshake, is_request) {
        (true, _) => {
            let asked = params.get("protocolVersion").and_then(Value::as_str);
            if version.is_some() && version != asked {
                let why = "The MCP-Protocol-Version header is not the version that is asked for";
                return Err(ErrorData::invalid_request(why, None));
            }
            Lifecycle::Handshake
        }
        (false, true) => of_request(version, method, meta)?,
        (false, false) => of_notification(version)?,
    };
    let is_required = lifecycle == Lifecycle::PerRequest;
    matches(headers, METHOD, Some(method), is_required)?;
    let name = match method {
        "tools/call" | "prompts/get" => params.get("name"),
        "resources/read" => params.get("uri"),
        _ => None,
    };
    matches(headers, NAME, name.and_then(Value::as_str), is_required)?;
    Ok(lifecycle)
}

fn of_request(
    header: Option<&str>,
    method: &str,
    meta: &RequestMetaObject,
) -> Result<Lifecycle, ErrorData> {
    let said = meta.protocol_version();
    let version = match (header, &said) {
        (Some(header), Some(said)) if header == said.as_str() => Some(header),
        (Some(_), Some(_)) => {
            let why = "The MCP-Protocol-Version header is not the version in _meta";
            return Err(ErrorData::header_mismatch(why, None));
        }
        (None, Some(_)) => {
            let why = "The MCP-Protocol-Version header is missing, and _meta has a version";
            return Err(ErrorData::header_mismatch(why, None));
        }
        (header, None) => header,
    };
    let version = version.map(spoken).transpose()?;
    let is_per_request = match version {
        Some(version) => !version.has_initialize(),
        // A client that has not agreed on a version yet, or one older than the header.
        None => method == "server/discover",
    };
    if !is_per_request {
        return Ok(Lifecycle::Handshake);
    }
    let missing = meta.missing_required_keys(&ProtocolVersion::V_2026_07_28);
    if !missing.is_empty() {
        let why = format!("_meta lacks or has malformed: {}", missing.join(", "));
        return Err(ErrorData::invalid_params(why, None));
    }
    Ok(Lifecycle::PerRequest)
}

fn of_notification(header: Option<&str>) -> Result<Lifecycle, ErrorData> {
    let version = header.map(spoken).transpose()?;
    Ok(match version {
        Some(version) if !version.has_initialize() => Lifecycle::PerRequest,
        Some(_) | None => Lifecycle::Handshake,
    })
}

/// A version of the protocol that this server speaks.
fn spoken(version: &str) -> Result<ProtocolVersion, ErrorData> {
    let known = VERSIONS.into_iter().find(|known| known.as_str() == version);
    known.ok_or_else(|| {
        let data = serde_json::json!({ "requested": version, "supported": VERSIONS });
        ErrorData::new(
            ErrorCode::UNSUPPORTED_PROTOCOL_VERSION,
            "This server does not speak this version of the protocol",
            Some(data),
        )
    })
}

/// Whether a header says what the message says, or may be absent.
fn matches(
    headers: &HeaderMap,
    header: &str,
    said: Option<&str>,
    is_required: bool,
) -> Result<(), ErrorData> {
    let given = single(headers, header)?;
    let is_right = match (given, said) {
        (Some(given), Some(said)) => decoded(given).is_some_and(|given| given == said),
        (None, Some(_)) => !is_required,
        (_, None) => true,
    };
    if is_right {
        return Ok(());
    }
    let why = format!("The {header} header is missing, or is not what the message says");
    Err(ErrorData::header_mismatch(why, None))
}

fn decoded(value: &str) -> Option<String> {
    let (begin, end) = ENCODED;
    let encoded = value
        .strip_prefix(begin)
        .and_then(|rest| rest.strip_suffix(end));
    match encoded {
        Some(encoded) => String::from_utf8(STANDARD.decode(encoded).ok()?).ok(),
        None => Some(value.to_owned()),
    }
}

/// The value of a header that must not come twice.
fn single<'a>(headers: &'a HeaderMap, name: &str) -> Result<Option<&'a str>, ErrorData> {
    let mut values = headers.get_all(name).iter();
    let (first, second) = (values.next(), values.next());
    match (first.map(|value| value.to_str()), second) {
        (None, _) => Ok(None),
        (Some(Ok(value)), None) => Ok(Some(value)),
        (Some(_), _) => {
            let why = format!("The {name} header comes twice, or is not plain text");
            Err(ErrorData::header_mismatch(why, None))
        }
    }
}
