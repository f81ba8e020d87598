//! The OpenAPI 3.1 document, generated from the types and routes themselves.

use codelab_protocol::ErrorBody;
use utoipa::openapi::security::{ApiKey, ApiKeyValue, HttpAuthScheme, HttpBuilder, SecurityScheme};
use utoipa::openapi::{Components, Info, License, OpenApi, OpenApiBuilder, RefOr, Required};

use crate::routes;

pub(crate) fn document() -> OpenApi {
    let mut components = Components::new();
    let header = ApiKey::Header(ApiKeyValue::new("X-Internal-Auth"));
    components.add_security_scheme("internal_key", SecurityScheme::ApiKey(header));
    let bearer = HttpBuilder::new().scheme(HttpAuthScheme::Bearer).build();
    components.add_security_scheme("internal_bearer", SecurityScheme::Http(bearer));
    let token = HttpBuilder::new()
        .scheme(HttpAuthScheme::Bearer)
        .bearer_format("JWT")
        .build();
    components.add_security_scheme("user_token", SecurityScheme::Http(token));
    let cookie = ApiKey::Cookie(ApiKeyValue::new("codelab_session"));
    components.add_security_scheme("login_cookie", SecurityScheme::ApiKey(cookie));
    let mut info = Info::new("CodeLab", env!("CARGO_PKG_VERSION"));
    info.description =
        Some("A self-hosted runtime where a team of AI agents works on a user's code.".to_owned());
    let mut license = License::new("Apache-2.0");
    license.identifier = Some("Apache-2.0".to_owned());
    info.license = Some(license);
    let mut schemas = Vec::new();
    routes::add_schema::<ErrorBody>(&mut schemas);
    components.schemas.extend(schemas);
    let mut document = OpenApiBuilder::new()
        .info(info)
        .components(Some(components))
        .build();
    let all = [
        routes::public(),
        routes::oauth(),
        routes::internal(),
        routes::metrics(),
        routes::my(),
        routes::mcp(),
        routes::global_chat(),
        routes::global_chat_agents(),
    ];
    for routes in all {
        document.merge(routes.into_openapi());
    }
    name_operations(&mut document);
    allow_no_body(&mut document);
    document
}

/// Gives every operation its own id. Handlers of different resources have the same name, but
/// generated clients need unique ones.
fn name_operations(document: &mut OpenApi) {
    for (path, item) in &mut document.paths.paths {
        let words: Vec<&str> = path
            .split(|c: char| !c.is_ascii_alphanumeric())
            .filter(|word| !word.is_empty())
            .collect();
        for (method, operation) in routes::operations(item) {
            if let Some(operation) = operation {
                operation.operation_id = Some(format!("{method}_{}", words.join("_")));
            }
        }
    }
}

/// The one route that takes a request without a body; the attribute of the handler cannot say so.
fn allow_no_body(document: &mut OpenApi) {
    let create = document
        .paths
        .paths
        .get_mut("/my/chat/sessions")
        .and_then(|item| item.post.as_mut());
    if let Some(RefOr::T(body)) = create.and_then(|operation| operation.request_body.as_mut()) {
        body.required = Some(Required::False);
    }
}

/// The document as it is served and kept in the repository.
pub fn openapi_json() -> String {
    let mut text = document().to_pretty_json().unwrap_or_default();
    text.push('\n');
    text
}
