//! `/my/projects/{project_id}/mcp`: the MCP servers of a project, what is accepted of them, and
//! what a tool runner reports about its own.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::{FromRequest, Request, State};
use axum::http::{HeaderMap, StatusCode, Uri};
use codelab_mcp::HttpConfig;
use codelab_protocol::{
    AcceptMcpTools, ChangeMcpServer, ClientId, CreateMcpServer, ErrorCode, McpAuthorization,
    McpReport, McpServer, McpServerList, McpServerName, PermitMcpTool,
};
use codelab_runtime::{McpChange, ReportRefused, SpaceKey};
use codelab_store::{NewMcpServer, SecretHeaders};
use codelab_transport::is_private_address;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::paging::{Page, PageQuery};
use super::projects::MyProject;
use crate::access::host_header;
use crate::app::App;
use crate::body::{JsonBody, OptionalJsonBody};
use crate::error::{ApiError, ApiResult, OrMissing};
use crate::fields;
use crate::path::{NamedInPath as _, PathId};

/// All headers of a server together, names and values.
const MAX_HEADER_BYTES: usize = 64 * 1024;

/// For headers that are checked without the address they are for.
const ANY_ADDRESS: &str = "https://codelab.invalid";

/// The MCP servers of a project
///
/// First the project's own, by name, then those that attached tool runners run.
#[utoipa::path(
    get, path = "/my/projects/{project_id}/mcp", params(PageQuery),
    responses((status = 200, description = "A page of servers", body = McpServerList)),
)]
pub(super) async fn list(
    State(app): State<App>,
    MyProject(project): MyProject,
    page: Page,
) -> ApiResult<Json<McpServerList>> {
    let space = app.runtime.space(SpaceKey::of(&project));
    let servers = space.mcp_servers().await?;
    let total = servers.len() as u64;
    let window = servers
        .into_iter()
        .skip(usize::try_from(page.offset).unwrap_or(usize::MAX))
        .take(usize::try_from(page.limit).unwrap_or(usize::MAX));
    Ok(Json(McpServerList {
        servers: window.collect(),
        total,
        limit: page.limit,
        offset: page.offset,
    }))
}

/// Add an MCP server that CodeLab's server calls
///
/// It is saved even if it cannot be reached; `error` says what is wrong. The values of headers are
/// stored encrypted and never shown.
#[utoipa::path(
    post, path = "/my/projects/{project_id}/mcp", request_body = CreateMcpServer,
    responses(
        (status = 201, description = "Added; it is being connected", body = McpServer),
        (status = 409, description = "The name is in use, or the project is full"),
    ),
)]
pub(super) async fn create(
    State(app): State<App>,
    MyProject(project): MyProject,
    SecretBody(body): SecretBody<CreateMcpServer>,
) -> ApiResult<(StatusCode, Json<McpServer>)> {
    checked_url(&app, &body.url)?;
    let config = checked(&body.url, body.headers)?;
    let new = NewMcpServer {
        name: body.name,
        url: config.url,
        headers: SecretHeaders::new(config.headers),
    };
    let created = app.runtime.create_mcp_server(project, new).await;
    let server = created.or_missing(codelab_protocol::ProjectId::not_found)?;
    Ok((StatusCode::CREATED, Json(server)))
}

/// One MCP server
///
/// The project's own server of this name, else the one of the newest tool runner that has it.
#[utoipa::path(
    get, path = "/my/projects/{project_id}/mcp/{name}",
    responses((status = 200, description = "The server", body = McpServer)),
)]
pub(super) async fn get(
    State(app): State<App>,
    MyProject(project): MyProject,
    PathId(name): PathId<McpServerName>,
) -> ApiResult<Json<McpServer>> {
    let space = app.runtime.space(SpaceKey::of(&project));
    let server = space.mcp_server(&name).await?;
    server.map(Json).ok_or_else(McpServerName::not_found)
}

/// Change the address or the headers of an MCP server
///
/// Another address ends an authorization. If it is of another host, the headers must be sent again.
#[utoipa::path(
    patch, path = "/my/projects/{project_id}/mcp/{name}", request_body = ChangeMcpServer,
    responses((status = 200, description = "As it is now", body = McpServer)),
)]
pub(super) async fn change(
    State(app): State<App>,
    MyProject(project): MyProject,
    PathId(name): PathId<McpServerName>,
    SecretBody(body): SecretBody<ChangeMcpServer>,
) -> ApiResult<Json<McpServer>> {
    let url = fields::not_null("url", body.url)?;
    let url = match url {
        Some(url) => {
            checked_url(&app, &url)?;
            Some(checked(&url, BTreeMap::new())?.url)
        }
        None => None,
    };
    let headers = fields::patch(body.headers, |headers| {
        let config = checked(ANY_ADDRESS, headers)?;
        Ok(SecretHeaders::new(config.headers))
    })?;
    let change = McpChange { url, headers };
    let changed = app.runtime.change_mcp_server(project, name, change).await;
    Ok(Json(changed.or_missing(McpServerName::not_found)?))
}

/// Delete an MCP server
///
/// Its tokens, the accepted definitions of its tools and what was decided about them are forgotten.
/// Of a server that a tool runner runs, only what was accepted and decided is forgotten.
#[utoipa::path(
    delete, path = "/my/projects/{project_id}/mcp/{name}",
    responses((status = 204, description = "Deleted")),
)]
pub(super) async fn delete(
    State(app): State<App>,
    MyProject(project): MyProject,
    PathId(name): PathId<McpServerName>,
) -> ApiResult<StatusCode> {
    let deleted = app.runtime.delete_mcp_server(project, name).await;
    deleted.or_missing(McpServerName::not_found)?;
    Ok(StatusCode::NO_CONTENT)
}

/// Accept the present definitions of tools
///
/// A tool whose definition changed is off until somebody accepts the new one.
#[utoipa::path(
    post, path = "/my/projects/{project_id}/mcp/{name}/accept", request_body = AcceptMcpTools,
    responses(
        (status = 200, description = "The server as it is now", body = McpServer),
        (status = 409, description = "The definition is not the one that was shown"),
    ),
)]
pub(super) async fn accept(
    State(app): State<App>,
    MyProject(project): MyProject,
    PathId(name): PathId<McpServerName>,
    OptionalJsonBody(body): OptionalJsonBody<AcceptMcpTools>,
) -> ApiResult<Json<McpServer>> {
    if body.digest.is_some() && body.tool.is_none() {
        return Err(fields::wrong("digest", "needs tool"));
    }
    let accepted = app.runtime.accept_mcp_tools(project, name, body).await;
    Ok(Json(accepted.or_missing(McpServerName::not_found)?))
}

/// Decide about a tool for all sessions of the project
#[utoipa::path(
    post, path = "/my/projects/{project_id}/mcp/{name}/permission", request_body = PermitMcpTool,
    responses((status = 200, description = "The server as it is now", body = McpServer)),
)]
pub(super) async fn permit(
    State(app): State<App>,
    MyProject(project): MyProject,
    PathId(name): PathId<McpServerName>,
    JsonBody(body): JsonBody<PermitMcpTool>,
) -> ApiResult<Json<McpServer>> {
    let permitted = app.runtime.permit_mcp_tool(project, name, body).await;
    Ok(Json(permitted.or_missing(McpServerName::not_found)?))
}

/// Connect to an MCP server now
///
/// Waits for the outcome. A server that a tool runner runs is shown as it was reported.
#[utoipa::path(
    post, path = "/my/projects/{project_id}/mcp/{name}/test",
    responses((status = 200, description = "`status` and `error` say what came of it", body = McpServer)),
)]
pub(super) async fn test(
    State(app): State<App>,
    MyProject(project): MyProject,
    PathId(name): PathId<McpServerName>,
) -> ApiResult<Json<McpServer>> {
    let tested = app.runtime.test_mcp_server(project, name).await;
    Ok(Json(tested.or_missing(McpServerName::not_found)?))
}

/// Begin to authorize CodeLab at an MCP server
///
/// A person agrees at the address in the answer, within ten minutes.
#[utoipa::path(
    post, path = "/my/projects/{project_id}/mcp/{name}/authorize",
    responses(
        (status = 200, description = "Where a person agrees", body = McpAuthorization),
        (status = 409, description = "The server offers no authorization that can be used"),
    ),
)]
pub(super) async fn authorize(
    State(app): State<App>,
    MyProject(project): MyProject,
    PathId(name): PathId<McpServerName>,
    uri: Uri,
    headers: HeaderMap,
) -> ApiResult<Json<McpAuthorization>> {
    let origin = match (&app.public_url, host_header(&headers, &uri)) {
        (Some(url), _) => url.to_string(),
        (None, Some(host)) => format!("http://{host}"),
        (None, None) => return Err(ApiError::invalid("The request names no host")),
    };
    let redirect_uri = format!("{origin}{}", super::oauth::CALLBACK);
    let begun = app
        .runtime
        .begin_mcp_authorization(project, name, redirect_uri)
        .await;
    let url = begun.or_missing(McpServerName::not_found)?;
    Ok(Json(McpAuthorization { url }))
}

/// Forget the tokens of an MCP server
#[utoipa::path(
    delete, path = "/my/projects/{project_id}/mcp/{name}/authorize",
    responses((status = 204, description = "Forgotten, if there were any")),
)]
pub(super) async fn forget(
    State(app): State<App>,
    MyProject(project): MyProject,
    PathId(name): PathId<McpServerName>,
) -> ApiResult<StatusCode> {
    let forgotten = app.runtime.forget_mcp_tokens(project, name).await;
    forgotten.or_missing(McpServerName::not_found)?;
    Ok(StatusCode::NO_CONTENT)
}

/// Say which MCP servers a client runs
///
/// For tool runners. It replaces what the client reported before, and counts while the client is
/// attached.
#[utoipa::path(
    put, path = "/my/projects/{project_id}/clients/{client_id}/mcp", request_body = McpReport,
    responses(
        (status = 204, description = "Known"),
        (status = 409, description = "The clients of the project report more than it can hold"),
    ),
)]
pub(super) async fn report(
    State(app): State<App>,
    MyProject(project): MyProject,
    PathId(client_id): PathId<ClientId>,
    JsonBody(body): JsonBody<McpReport>,
) -> ApiResult<StatusCode> {
    let space = app.runtime.space(SpaceKey::of(&project));
    match space.report_mcp(&client_id, body).await {
        Ok(()) => Ok(StatusCode::NO_CONTENT),
        Err(refused) => {
            let why = refused.to_string();
            Err(match refused {
                ReportRefused::Unknown => ClientId::not_found(),
                ReportRefused::TooLarge => ApiError::new(ErrorCode::PayloadTooLarge, why),
                ReportRefused::Twice(_) => ApiError::invalid(why).with("field", "servers"),
                ReportRefused::Full => ApiError::new(ErrorCode::Conflict, why),
                ReportRefused::Store(error) => error.into(),
            })
        }
    }
}

/// A JSON body with secrets in it: an error does not quote any of it.
pub(super) struct SecretBody<T>(T);

impl<T: DeserializeOwned> FromRequest<App> for SecretBody<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, app: &App) -> Result<Self, ApiError> {
        let JsonBody(body) = JsonBody::<Value>::from_request(request, app).await?;
        serde_json::from_value(body).map(Self).map_err(|error| {
            let text = error.to_string();
            let missing = text.strip_prefix("missing field `");
            match missing.and_then(|rest| rest.split('`').next()) {
                Some(field) => ApiError::missing(field),
                None if text.contains("the name of an MCP server") => {
                    fields::wrong("name", "must be 1 to 64 characters of A-Z a-z 0-9 _ -")
                }
                None => ApiError::invalid(
                    "The body must be an object with the texts name and url, and headers, an \
                     object whose values are texts",
                ),
            }
        })
    }
}

fn checked(url: &str, headers: BTreeMap<String, String>) -> ApiResult<HttpConfig> {
    let bytes: usize = headers
        .iter()
        .map(|(name, value)| name.len() + value.len())
        .sum();
    if bytes > MAX_HEADER_BYTES {
        let why = format!("must be at most {MAX_HEADER_BYTES} bytes together");
        return Err(fields::wrong("headers", &why));
    }
    let config = HttpConfig::checked(url, headers)
        .map_err(|why| ApiError::invalid(format!("The server cannot be saved: {why}")))?;
    let mut names: Vec<String> = config.headers.keys().map(|n| n.to_lowercase()).collect();
    names.sort();
    if names.windows(2).any(|pair| pair[0] == pair[1]) {
        return Err(fields::wrong("headers", "must name each header once"));
    }
    Ok(config)
}

/// A literal address is refused at once; a name is checked whenever it is resolved.
fn checked_url(app: &App, url: &str) -> ApiResult<()> {
    if app.mcp_allow_private {
        return Ok(());
    }
    if is_private_address(url) {
        return Err(fields::wrong(
            "url",
            "must not be an address of this machine or a private network, unless the server's \
             setting mcp.allow_private is true",
        ));
    }
    if !url.trim_start().to_lowercase().starts_with("https://") {
        return Err(fields::wrong(
            "url",
            "must start with https://, unless the server's setting mcp.allow_private is true",
        ));
    }
    Ok(())
}
