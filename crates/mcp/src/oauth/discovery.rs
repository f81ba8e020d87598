//! Finds out where a person can authorize CodeLab for an MCP server: the server names its provider
//! (RFC 9728), the provider describes itself (RFC 8414), and CodeLab registers there (RFC 7591).

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE, WWW_AUTHENTICATE};
use http::{HeaderMap, HeaderValue, Method, Uri};
use serde_json::{Value, json};

use super::exchange::{Exchange, refusal};
use super::metadata::{ClientAuth, OAuthProvider, texts};
use super::{OAuthError, RegisteredClient};

const RESOURCE: &str = "/.well-known/oauth-protected-resource";
const OAUTH: &str = "/.well-known/oauth-authorization-server";
const OPENID: &str = "/.well-known/openid-configuration";
const MAX_SCOPE_BYTES: usize = 4 * 1024;
const MAX_CLIENT_BYTES: usize = 8 * 1024;

/// Everything that is needed to ask a person.
pub struct Found {
    pub resource: String,
    pub scope: Option<String>,
    pub provider: OAuthProvider,
}

/// The client as the provider knows it.
pub struct KnownClient {
    pub id: String,
    pub secret: Option<String>,
    pub auth: ClientAuth,
}

pub async fn find(
    exchange: &Exchange,
    url: &str,
    known: Option<&str>,
) -> Result<Found, OAuthError> {
    let place = ServerPlace::of(url)?;
    let challenge = match known {
        Some(known) => known.to_owned(),
        None => challenge(exchange, url).await?,
    };
    let metadata = resource_metadata(exchange, &place, &challenge).await?;
    let (issuer, resource, offered) = match &metadata {
        Some(document) => {
            let resource = document["resource"].as_str().unwrap_or(&place.canonical);
            if !place.is_covered_by(resource) {
                return Err(OAuthError::Unusable(
                    "the server's metadata is about another server".to_owned(),
                ));
            }
            let issuers = texts(&document["authorization_servers"]);
            let issuer = issuers.first().map(|issuer| (*issuer).to_owned());
            let scopes = texts(&document["scopes_supported"]).join(" ");
            (issuer, resource.to_owned(), scopes)
        }
        None => (None, place.canonical.clone(), String::new()),
    };
    let is_named = issuer.is_some();
    let issuer = issuer.unwrap_or_else(|| place.origin.clone());
    let provider = match provider(exchange, &issuer).await? {
        Some(provider) => provider,
        None if !is_named => OAuthProvider::at_fixed_paths(&place.origin),
        None => {
            return Err(OAuthError::Unusable(
                "the server's provider does not describe itself".to_owned(),
            ));
        }
    };
    let scope = parameter(&challenge, "scope").unwrap_or(offered);
    let scope = match provider.offers_offline && !scope.is_empty() {
        true if !scope.split(' ').any(|one| one == "offline_access") => {
            format!("{scope} offline_access")
        }
        _ => scope,
    };
    Ok(Found {
        resource,
        scope: Some(scope).filter(|scope| !scope.is_empty() && scope.len() <= MAX_SCOPE_BYTES),
        provider,
    })
}

/// An MCP server's address in parts.
struct ServerPlace {
    origin: String,
    path: String,
    canonical: String,
}

impl ServerPlace {
    fn of(url: &str) -> Result<Self, OAuthError> {
        let uri: Uri = url
            .trim()
            .parse()
            .map_err(|_| OAuthError::Unusable("the server's address is malformed".to_owned()))?;
        let (Some(scheme), Some(authority)) = (uri.scheme_str(), uri.authority()) else {
            return Err(OAuthError::Unusable(
                "the server's address names no host".to_owned(),
            ));
        };
        let origin = format!("{scheme}://{}", authority.as_str().to_ascii_lowercase());
        let path = uri.path().trim_end_matches('/').to_owned();
        Ok(Self {
            canonical: format!("{origin}{path}"),
            origin,
            path,
        })
    }

    /// A resource covers the addresses at and below its path.
    fn is_covered_by(&self, resource: &str) -> bool {
        let Ok(other) = Self::of(resource) else {
            return false;
        };
        let below = self.path.strip_prefix(&other.path);
        other.origin == self.origin
            && below.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }
}

/// What the server says to somebody without a token.
async fn challenge(exchange: &Exchange, url: &str) -> Result<String, OAuthError> {
    let mut headers = HeaderMap::new();
    let accepted = HeaderValue::from_static("application/json, text/event-stream");
    headers.insert(ACCEPT, accepted);
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    let body = json!({"jsonrpc": "2.0", "id": 0, "method": "ping"}).to_string();
    let answer = exchange
        .send(Method::POST, url, headers, body.into())
        .await?;
    let header = answer.headers.get(WWW_AUTHENTICATE);
    Ok(header.map_or(String::new(), |value| {
        String::from_utf8_lossy(value.as_bytes()).into_owned()
    }))
}

async fn resource_metadata(
    exchange: &Exchange,
    place: &ServerPlace,
    challenge: &str,
) -> Result<Option<Value>, OAuthError> {
    if let Some(address) = parameter(challenge, "resource_metadata") {
        return exchange.document(&address).await;
    }
    let below = format!("{}{RESOURCE}{}", place.origin, place.path);
    if let Some(document) = exchange.document(&below).await? {
        return Ok(Some(document));
    }
    exchange
        .document(&format!("{}{RESOURCE}", place.origin))
        .await
}

async fn provider(exchange: &Exchange, issuer: &str) -> Result<Option<OAuthProvider>, OAuthError> {
    let place = ServerPlace::of(issuer)?;
    let (origin, path) = (&place.origin, &place.path);
    let mut addresses = vec![
        format!("{origin}{OAUTH}{path}"),
        format!("{origin}{OPENID}{path}"),
    ];
    if !path.is_empty() {
        addresses.push(format!("{origin}{path}{OPENID}"));
    }
    for address in addresses {
        if let Some(document) = exchange.document(&address).await? {
            return OAuthProvider::read(&document, issuer).map(Some);
        }
    }
    Ok(None)
}

impl Found {
    /// Asks for what was asked for before, too.
    pub fn add_scope(&mut self, earlier: &str) {
        let present = self.scope.clone().unwrap_or_default();
        let mut all: Vec<&str> = present.split_whitespace().collect();
        for one in earlier.split_whitespace() {
            if !all.contains(&one) {
                all.push(one);
            }
        }
        let joined = all.join(" ");
        self.scope =
            Some(joined).filter(|scope| !scope.is_empty() && scope.len() <= MAX_SCOPE_BYTES);
    }

    /// A client that somebody registered before.
    pub fn known(&self, client: &RegisteredClient) -> KnownClient {
        let auth = match client.secret {
            Some(_) if self.provider.client_auth == ClientAuth::None => ClientAuth::Basic,
            Some(_) => self.provider.client_auth,
            None => ClientAuth::None,
        };
        KnownClient {
            id: client.id.clone(),
            secret: client.secret.clone(),
            auth,
        }
    }

    pub async fn register(
        &self,
        exchange: &Exchange,
        document: Option<&str>,
        redirect_uri: &str,
    ) -> Result<KnownClient, OAuthError> {
        if let (true, Some(document)) = (self.provider.takes_document, document) {
            return Ok(KnownClient {
                id: document.to_owned(),
                secret: None,
                auth: ClientAuth::None,
            });
        }
        let Some(endpoint) = &self.provider.registration_endpoint else {
            return Err(OAuthError::Unusable(
                "the server's provider does not let programs register; make a key there, and send \
                 it as a header"
                    .to_owned(),
            ));
        };
        let mut client = json!({
            "client_name": "CodeLab",
            "redirect_uris": [redirect_uri],
            "grant_types": ["authorization_code", "refresh_token"],
            "response_types": ["code"],
            "token_endpoint_auth_method": self.provider.client_auth.as_str(),
            "application_type": application_type(redirect_uri),
        });
        if let Some(scope) = &self.scope {
            client["scope"] = Value::from(scope.as_str());
        }
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        let body = Bytes::from(client.to_string());
        let answer = exchange.send(Method::POST, endpoint, headers, body).await?;
        if !answer.status.is_success() {
            return Err(refusal(&answer, "the provider did not register CodeLab"));
        }
        let registered: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
        let text = |key: &str| registered[key].as_str().map(str::to_owned);
        let id = text("client_id").filter(|id| !id.is_empty() && id.len() <= MAX_CLIENT_BYTES);
        let id = id.ok_or_else(|| {
            OAuthError::Unusable("the provider registered CodeLab without an id".to_owned())
        })?;
        let auth = text("token_endpoint_auth_method");
        let auth = auth.and_then(|text| ClientAuth::parse(&text));
        let secret = text("client_secret").filter(|secret| secret.len() <= MAX_CLIENT_BYTES);
        let auth = match secret {
            Some(_) => auth.unwrap_or(self.provider.client_auth),
            None => ClientAuth::None,
        };
        Ok(KnownClient { id, secret, auth })
    }
}

/// A page on this machine is a native application's.
fn application_type(redirect_uri: &str) -> &'static str {
    match codelab_transport::is_private_address(redirect_uri) {
        true => "native",
        false => "web",
    }
}

/// A parameter of `WWW-Authenticate: Bearer name="value", …`.
fn parameter(challenge: &str, name: &str) -> Option<String> {
    let mut rest = challenge;
    while let Some(at) = rest.find(name) {
        let before = rest[..at].chars().next_back();
        let after = &rest[at + name.len()..];
        let is_whole = before.is_none_or(|c| c == ' ' || c == ',' || c == '\t');
        if let (true, Some(value)) = (is_whole, after.trim_start().strip_prefix('=')) {
            let value = value.trim_start();
            return Some(match value.strip_prefix('"') {
                Some(quoted) => quoted.split('"').next()?.to_owned(),
                None => value.split([',', ' ', '\t']).next()?.to_owned(),
            });
        }
        rest = after;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_found_whatever_stands_around_them() {
        let challenge = r#"Bearer error="invalid_token", resource_metadata="https://a.test/x",scope="a b", x_scope=c"#;
        assert_eq!(
            parameter(challenge, "resource_metadata").as_deref(),
            Some("https://a.test/x")
        );
        assert_eq!(parameter(challenge, "scope").as_deref(), Some("a b"));
        assert_eq!(
            parameter("Bearer x_scope=c, scope=d", "scope").as_deref(),
            Some("d")
        );
        assert_eq!(parameter("Bearer", "scope"), None);
    }

    #[test]
    fn metadata_is_for_the_server_or_its_parents() {
        let place = ServerPlace::of("https://A.test/mcp/one?x=1").unwrap();
        for (resource, is_covered) in [
            ("https://a.test/mcp/one", true),
            ("https://a.test/mcp/", true),
            ("https://a.test", true),
            ("https://a.test/mc", false),
            ("https://a.test/mcp/one/two", false),
            ("https://b.test/mcp", false),
            ("http://a.test/mcp", false),
            ("nonsense", false),
        ] {
            assert_eq!(place.is_covered_by(resource), is_covered, "{resource}");
        }
    }
}
