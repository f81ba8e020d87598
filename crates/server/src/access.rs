//! Who may ask: the Host and Origin of a request, then its key.

use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode, Uri, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use codelab_llm::Secret;
use codelab_protocol::ErrorCode;
use subtle::ConstantTimeEq;

use crate::app::App;
use crate::config::{Origin, Settings};
use crate::error::{ApiError, bad_internal_key};
use crate::listen::Reserved;

/// Paths that need no access; everything else, known or not, does.
const PUBLIC: [&str; 5] = ["/", "/openapi.json", "/docs", "/assets/status.css", "/assets/docs.css"];

/// Whoever watches the server asks these, by whatever name it has for them.
const HEALTH: [&str; 3] = ["/health", "/health/ready", "/health/live"];

/// The names this server answers to.
#[derive(Debug, Clone)]
pub(crate) struct Names {
    hosts: Vec<String>,
    origins: Vec<String>,
    /// With which browsers reach this server: plain, unless its public address says otherwise.
    scheme: &'static str,
}

impl Names {
    pub fn new(settings: &Settings) -> Self {
        let mut hosts = vec!["localhost".to_owned(), "127.0.0.1".to_owned(), "[::1]".to_owned()];
        let ip = settings.addr.ip();
        if !ip.is_unspecified() {
            hosts.push(if ip.is_ipv6() { format!("[{ip}]") } else { ip.to_string() });
        }
        hosts.extend(settings.http.allowed_hosts.iter().map(|host| host.to_lowercase()));
        let mut origins: Vec<String> = settings.http.allowed_origins.iter().map(Origin::text).collect();
        if let Some(public) = &settings.http.public_url {
            origins.push(public.text());
            hosts.push(public.host().to_owned());
        }
        let is_https = settings.http.public_url.as_ref().is_some_and(Origin::is_https);
        Self { hosts, origins, scheme: if is_https { "https://" } else { "http://" } }
    }

    fn knows_host(&self, host: &str) -> bool {
        let whole = host.to_lowercase();
        let Some(name) = host_of(&whole) else { return false };
        self.hosts.iter().any(|known| *known == name || *known == whole)
    }

    /// Same origin as the host that was asked, or a configured one. The scheme counts: whoever is in the way of a plain
    /// connection can say anything in the name of its host.
    fn knows_origin(&self, origin: &str, host: &str) -> bool {
        let origin = origin.to_lowercase();
        let is_own = origin.strip_prefix(self.scheme).is_some_and(|rest| rest.eq_ignore_ascii_case(host));
        is_own || self.origins.contains(&origin)
    }
}

/// Refuses foreign names before anything else happens (DNS rebinding, cross-site requests).
pub(crate) async fn check_names(State(app): State<App>, request: Request, next: Next) -> Response {
    let path = request.uri().path();
    if !HEALTH.contains(&path) {
        let headers = request.headers();
        let host = host_header(headers, request.uri());
        let Some(host) = host.filter(|host| app.names.knows_host(host)) else {
            return forbidden("This host name is not allowed");
        };
        let origins: Vec<_> = headers.get_all(header::ORIGIN).iter().collect();
        let foreign =
            origins.iter().any(|origin| !origin.to_str().is_ok_and(|origin| app.names.knows_origin(origin, host)));
        if foreign && !PUBLIC.contains(&path) && !app.page.has(path) {
            return forbidden("This origin is not allowed");
        }
    }
    next.run(request).await
}

/// Where all ordinary places are busy, whoever watches and operates the server is answered and nobody else.
pub(crate) async fn check_room(State(app): State<App>, request: Request, next: Next) -> Response {
    if request.extensions().get::<Reserved>().is_some()
        && !HEALTH.contains(&request.uri().path())
        && !has_internal_key(request.headers(), &app.internal_api_key)
        && !has_bearer_key(request.headers(), &app.internal_api_key)
    {
        let full = ApiError::new(ErrorCode::RateLimited, "The server has too many connections; come back later");
        return full.at(StatusCode::SERVICE_UNAVAILABLE).into_response();
    }
    next.run(request).await
}

/// Lets a request with the internal key pass.
pub(crate) async fn internal_key(State(app): State<App>, request: Request, next: Next) -> Response {
    if has_internal_key(request.headers(), &app.internal_api_key) {
        return next.run(request).await;
    }
    bad_internal_key()
}

/// The internal key, also as a bearer token: what Prometheus can send.
pub(crate) async fn internal_key_or_bearer(State(app): State<App>, request: Request, next: Next) -> Response {
    if has_internal_key(request.headers(), &app.internal_api_key)
        || has_bearer_key(request.headers(), &app.internal_api_key)
    {
        return next.run(request).await;
    }
    bad_internal_key()
}

fn has_bearer_key(headers: &HeaderMap, key: &Secret) -> bool {
    let bearer = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    let bearer = bearer.and_then(|value| value.strip_prefix("Bearer "));
    bearer.is_some_and(|given| same(given.as_bytes(), key))
}

pub(crate) fn has_internal_key(headers: &HeaderMap, key: &Secret) -> bool {
    headers.get("x-internal-auth").is_some_and(|given| same(given.as_bytes(), key))
}

/// Takes the same time wherever the first difference is.
fn same(given: &[u8], key: &Secret) -> bool {
    given.ct_eq(key.expose().as_bytes()).into()
}

fn host_header<'a>(headers: &'a HeaderMap, uri: &'a Uri) -> Option<&'a str> {
    let mut hosts = headers.get_all(header::HOST).iter();
    match (hosts.next(), hosts.next()) {
        (Some(host), None) => host.to_str().ok(),
        (None, None) => uri.authority().map(|authority| authority.as_str()),
        // Two Host headers: nobody honest sends them.
        _ => None,
    }
}

/// A host without its port; nothing else may follow a known name.
fn host_of(authority: &str) -> Option<&str> {
    let end = match authority.find(']') {
        Some(end) if authority.starts_with('[') => end + 1,
        _ => authority.find(':').unwrap_or(authority.len()),
    };
    let (host, rest) = authority.split_at(end);
    let port = rest.strip_prefix(':').is_some_and(|port| port.bytes().all(|byte| byte.is_ascii_digit()));
    (rest.is_empty() || port).then_some(host)
}

fn forbidden(message: &str) -> Response {
    ApiError::new(ErrorCode::Forbidden, message).into_response()
}
