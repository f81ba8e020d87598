//! Access checks: the Host and Origin of a request, then its key.

use axum::extract::{Request, State};
use axum::http::{HeaderMap, Uri, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use codelab_llm::Secret;
use codelab_protocol::ErrorCode;
use subtle::ConstantTimeEq;

use crate::app::App;
use crate::cluster::Forwarded;
use crate::config::{HttpOrigin, Settings};
use crate::error::{ApiError, bad_internal_key};
use crate::listen::ReservedConnection;

/// Paths that need no access; everything else, known or not, does.
const PUBLIC: [&str; 7] = [
    "/",
    "/oauth/callback",
    "/openapi.json",
    "/docs",
    "/assets/status.css",
    "/assets/docs.css",
    "/assets/docs-icon.svg",
];

/// Monitoring uses these paths, under any host name.
const HEALTH: [&str; 3] = ["/health", "/health/ready", "/health/live"];

/// The ends of paths whose answers can stay open without a limit: streams, and questions to the
/// user.
const LONG_ENDS: [&str; 3] = ["events", "stream", "ask_user"];

pub(crate) fn is_health(path: &str) -> bool {
    HEALTH.contains(&path)
}

/// The names this server answers to.
#[derive(Debug, Clone)]
pub(crate) struct ServerNames {
    hosts: Vec<String>,
    origins: Vec<String>,
    /// The schemes that browsers use to reach this server. Without a public address both are
    /// possible: a proxy may add TLS.
    schemes: &'static [&'static str],
}

impl ServerNames {
    pub fn new(settings: &Settings) -> Self {
        let mut hosts = vec![
            "localhost".to_owned(),
            "127.0.0.1".to_owned(),
            "[::1]".to_owned(),
        ];
        let ip = settings.addr.ip();
        if !ip.is_unspecified() {
            hosts.push(if ip.is_ipv6() {
                format!("[{ip}]")
            } else {
                ip.to_string()
            });
        }
        hosts.extend(
            settings
                .http
                .allowed_hosts
                .iter()
                .map(|host| host.to_lowercase()),
        );
        let mut origins: Vec<String> = settings
            .http
            .allowed_origins
            .iter()
            .map(HttpOrigin::text)
            .collect();
        if let Some(public) = &settings.http.public_url {
            origins.push(public.text());
            hosts.push(public.host().to_owned());
        }
        let schemes: &[&str] = match settings.http.public_url.as_ref().map(HttpOrigin::is_https) {
            Some(true) => &["https://"],
            Some(false) => &["http://"],
            None => &["http://", "https://"],
        };
        Self {
            hosts,
            origins,
            schemes,
        }
    }

    fn knows_host(&self, host: &str) -> bool {
        let whole = host.to_lowercase();
        let Some(name) = host_of(&whole) else {
            return false;
        };
        self.hosts
            .iter()
            .any(|known| *known == name || *known == whole)
    }

    /// Same origin as the host that was asked, or a configured one. The scheme counts where it is
    /// known: whoever is in the way of a plain connection can say anything in the name of its host.
    fn knows_origin(&self, origin: &str, host: &str) -> bool {
        let origin = origin.to_lowercase();
        let mut rests = self
            .schemes
            .iter()
            .filter_map(|scheme| origin.strip_prefix(scheme));
        let is_own = rests.any(|rest| rest.eq_ignore_ascii_case(host));
        is_own || self.origins.contains(&origin)
    }
}

/// Refuses foreign names before anything else happens (DNS rebinding, cross-site requests).
pub(crate) async fn check_names(State(app): State<App>, request: Request, next: Next) -> Response {
    let path = request.uri().path();
    // The server that forwarded a request has checked them.
    let is_checked = request.extensions().get::<Forwarded>().is_some();
    if !is_checked && !is_health(path) {
        let headers = request.headers();
        let host = host_header(headers, request.uri());
        let Some(host) = host.filter(|host| app.names.knows_host(host)) else {
            return forbidden("This host name is not allowed");
        };
        let origins: Vec<_> = headers.get_all(header::ORIGIN).iter().collect();
        let foreign = origins.iter().any(|origin| {
            !origin
                .to_str()
                .is_ok_and(|origin| app.names.knows_origin(origin, host))
        });
        if foreign && !PUBLIC.contains(&path) && !app.page.has(path) {
            return forbidden("This origin is not allowed");
        }
    }
    next.run(request).await
}

/// When all ordinary connections are in use, only health checks and operators are answered.
pub(crate) async fn check_room(State(app): State<App>, request: Request, next: Next) -> Response {
    if let Some(ReservedConnection(connection)) = request.extensions().get::<ReservedConnection>()
        && !is_health(request.uri().path())
        && !(is_short_of_operator(&app, &request) && connection.serves_operator())
    {
        let full = ApiError::new(
            ErrorCode::RateLimited,
            "The server has too many connections; try again later",
        );
        return full.into_response();
    }
    next.run(request).await
}

/// Whether a request has the internal key, and its answer cannot stay open without a limit.
fn is_short_of_operator(app: &App, request: &Request) -> bool {
    let path = request.uri().path().trim_end_matches('/');
    let is_long = LONG_ENDS.contains(&path.rsplit('/').next().unwrap_or_default());
    let (headers, key) = (request.headers(), &app.internal_api_key);
    !is_long && (has_internal_key(headers, key) || has_bearer_key(headers, key))
}

/// Lets a request with the internal key pass.
pub(crate) async fn internal_key(State(app): State<App>, request: Request, next: Next) -> Response {
    if has_internal_key(request.headers(), &app.internal_api_key) {
        return next.run(request).await;
    }
    bad_internal_key()
}

/// The internal key, also as a bearer token: what Prometheus can send.
pub(crate) async fn internal_key_or_bearer(
    State(app): State<App>,
    request: Request,
    next: Next,
) -> Response {
    if has_internal_key(request.headers(), &app.internal_api_key)
        || has_bearer_key(request.headers(), &app.internal_api_key)
    {
        return next.run(request).await;
    }
    bad_internal_key()
}

fn has_bearer_key(headers: &HeaderMap, key: &Secret) -> bool {
    let bearer = headers
        .get(header::AUTHORIZATION)
        .and_then(|value| value.to_str().ok());
    let bearer = bearer.and_then(|value| value.strip_prefix("Bearer "));
    bearer.is_some_and(|given| same(given.as_bytes(), key))
}

pub(crate) fn has_internal_key(headers: &HeaderMap, key: &Secret) -> bool {
    headers
        .get("x-internal-auth")
        .is_some_and(|given| same(given.as_bytes(), key))
}

/// Takes the same time wherever the first difference is.
fn same(given: &[u8], key: &Secret) -> bool {
    given.ct_eq(key.expose().as_bytes()).into()
}

pub(crate) fn host_header<'a>(headers: &'a HeaderMap, uri: &'a Uri) -> Option<&'a str> {
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
    let port = rest
        .strip_prefix(':')
        .is_some_and(|port| port.bytes().all(|byte| byte.is_ascii_digit()));
    (rest.is_empty() || port).then_some(host)
}

fn forbidden(message: &str) -> Response {
    ApiError::new(ErrorCode::Forbidden, message).into_response()
}
