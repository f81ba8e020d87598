//! What servers and providers say about themselves, and how the client is known to a provider.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::OAuthError;

/// How the client proves who it is at the token endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ClientAuth {
    /// A public client: PKCE is the proof.
    None,
    Basic,
    Post,
}

/// An authorization server.
#[derive(Debug, Clone)]
pub struct OAuthProvider {
    pub issuer: Option<String>,
    pub authorization_endpoint: String,
    pub token_endpoint: String,
    pub registration_endpoint: Option<String>,
    pub client_auth: ClientAuth,
    pub takes_document: bool,
    /// It names itself when it sends the person back (RFC 9207).
    pub names_itself: bool,
    pub offers_offline: bool,
}

impl OAuthProvider {
    /// From its metadata (RFC 8414, OpenID Connect).
    pub fn read(document: &Value, expected_issuer: &str) -> Result<Self, OAuthError> {
        let unusable = |text: &str| OAuthError::Unusable(text.to_owned());
        let text = |key: &str| document[key].as_str().map(str::to_owned);
        let issuer = text("issuer").ok_or_else(|| unusable("the provider does not name itself"))?;
        // A provider that speaks for another one could collect its codes.
        if issuer.trim_end_matches('/') != expected_issuer.trim_end_matches('/') {
            return Err(unusable(
                "the provider names itself otherwise than the server does",
            ));
        }
        let methods = texts(&document["code_challenge_methods_supported"]);
        if !methods.contains(&"S256") {
            return Err(unusable(
                "the provider does not offer PKCE with S256, without which codes can be stolen",
            ));
        }
        let endpoint = |key: &str| {
            text(key).ok_or_else(|| OAuthError::Unusable(format!("the provider has no {key}")))
        };
        let is_true = |key: &str| document[key] == Value::Bool(true);
        let auth = document
            .get("token_endpoint_auth_methods_supported")
            .map(texts);
        Ok(Self {
            authorization_endpoint: endpoint("authorization_endpoint")?,
            token_endpoint: endpoint("token_endpoint")?,
            registration_endpoint: text("registration_endpoint"),
            client_auth: client_auth(auth.as_deref()),
            takes_document: is_true("client_id_metadata_document_supported"),
            names_itself: is_true("authorization_response_iss_parameter_supported"),
            offers_offline: texts(&document["scopes_supported"]).contains(&"offline_access"),
            issuer: Some(issuer),
        })
    }

    /// Servers of 2025-03-26 without metadata have their endpoints at fixed paths.
    pub fn at_fixed_paths(origin: &str) -> Self {
        Self {
            issuer: None,
            authorization_endpoint: format!("{origin}/authorize"),
            token_endpoint: format!("{origin}/token"),
            registration_endpoint: Some(format!("{origin}/register")),
            client_auth: ClientAuth::None,
            takes_document: false,
            names_itself: false,
            offers_offline: false,
        }
    }
}

/// Public clients are preferred: there is no secret to keep. Nothing said means Basic.
fn client_auth(offered: Option<&[&str]>) -> ClientAuth {
    let Some(offered) = offered else {
        return ClientAuth::Basic;
    };
    let known = [
        ("none", ClientAuth::None),
        ("client_secret_basic", ClientAuth::Basic),
        ("client_secret_post", ClientAuth::Post),
    ];
    let found = known.iter().find(|(name, _)| offered.contains(name));
    found.map_or(ClientAuth::None, |(_, auth)| *auth)
}

impl ClientAuth {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Basic => "client_secret_basic",
            Self::Post => "client_secret_post",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        [Self::None, Self::Basic, Self::Post]
            .into_iter()
            .find(|auth| auth.as_str() == text)
    }
}

pub fn texts(value: &Value) -> Vec<&str> {
    let items = value.as_array().into_iter().flatten();
    items.filter_map(Value::as_str).collect()
}
