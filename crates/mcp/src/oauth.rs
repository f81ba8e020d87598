//! Authorization at an HTTP server: OAuth 2.1 with PKCE, as the protocol describes it.
//!
//! A person agrees in a browser. [`OAuthClient::begin`] says where to send them,
//! [`OAuthClient::finish`] takes what the provider returned, [`OAuthClient::refresh`] renews. All
//! requests pass the same check of addresses as calls do. No token is in an error, a log or `Debug`.

use std::fmt;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use codelab_transport::NetworkOptions;
use serde::{Deserialize, Serialize};
use sha2::Digest as _;
use tokio::sync::{Mutex, watch};

mod discovery;
mod exchange;
mod metadata;

use exchange::{Exchange, form};
use metadata::ClientAuth;

/// A token that ends so soon is renewed before it is used.
const RENEWED_BEFORE_SECONDS: u64 = 30;
const VERIFIER_BYTES: usize = 32;

/// What a server's tokens are, and what is needed to renew them. Serialised only to be stored
/// encrypted.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OAuthTokens {
    pub access_token: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refresh_token: Option<String>,
    /// Seconds since 1970. Absent where the provider did not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<u64>,
    grant: Grant,
}

/// Where tokens come from and for whom.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Grant {
    token_endpoint: String,
    client_id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    client_secret: Option<String>,
    client_auth: ClientAuth,
    /// The MCP server that the tokens are for.
    resource: String,
    /// What was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    scope: Option<String>,
}

/// An authorization under way. Serialised only to be stored encrypted.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PendingAuthorization {
    grant: Grant,
    code_verifier: String,
    redirect_uri: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    issuer: Option<String>,
    /// The provider promised to name itself when it sends the person back.
    issuer_required: bool,
}

/// Where a person agrees, and what is needed afterwards.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BegunAuthorization {
    pub authorize_url: String,
    pub pending: PendingAuthorization,
}

/// Why there is no token. Holds neither tokens nor codes.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OAuthError {
    /// The provider or the person refused.
    #[error("{0}")]
    Refused(String),
    /// The server or its provider cannot be reached or cannot be used.
    #[error("{0}")]
    Unusable(String),
}

/// Asks a server's authorization server for tokens.
#[derive(Debug, Clone)]
pub struct OAuthClient {
    exchange: Exchange,
    /// The address of a document about CodeLab, for providers that take one as the client's id.
    client_document: Option<String>,
    challenge: Option<String>,
    /// What was asked for before. A new authorization does not give it up.
    earlier_scope: Option<String>,
    registered: Option<RegisteredClient>,
}

/// A client that a person registered at the provider by hand.
#[derive(Clone, PartialEq, Eq)]
pub struct RegisteredClient {
    pub id: String,
    pub secret: Option<String>,
}

impl fmt::Debug for RegisteredClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RegisteredClient")
            .field("id", &self.id)
            .finish_non_exhaustive()
    }
}

/// The tokens with which a server is called. A handle renews them by itself.
#[derive(Clone)]
pub struct Authorization {
    tokens: watch::Sender<OAuthTokens>,
    /// Only one renewal at a time: many providers take a refresh token only once.
    renewing: Arc<Mutex<()>>,
}

impl Authorization {
    /// The receiver sees renewed tokens. Whoever stores tokens must store those: many providers
    /// take a refresh token only once.
    pub fn new(tokens: OAuthTokens) -> (Self, watch::Receiver<OAuthTokens>) {
        let (tokens, renewed) = watch::channel(tokens);
        let authorization = Self {
            tokens,
            renewing: Arc::default(),
        };
        (authorization, renewed)
    }

    /// The present access token, renewed if it ends soon.
    pub(crate) async fn current(&self, client: &OAuthClient) -> String {
        let (token, expires_at) = {
            let tokens = self.tokens.borrow();
            (tokens.access_token.clone(), tokens.expires_at)
        };
        let is_ending = expires_at.is_some_and(|at| at <= now() + RENEWED_BEFORE_SECONDS);
        match is_ending {
            true => self.renewed(client, &token).await.unwrap_or(token),
            false => token,
        }
    }

    /// Another token than the one that was refused, if there can be one.
    pub(crate) async fn renewed(&self, client: &OAuthClient, refused: &str) -> Option<String> {
        let _renewing = self.renewing.lock().await;
        let tokens = self.tokens.borrow().clone();
        if tokens.access_token != refused {
            return Some(tokens.access_token);
        }
        match client.refresh(&tokens).await {
            Ok(renewed) => {
                let token = renewed.access_token.clone();
                self.tokens.send_replace(renewed);
                Some(token)
            }
            Err(error) => {
                tracing::warn!(%error, "the authorization of an MCP server could not be renewed");
                None
            }
        }
    }
}

impl OAuthClient {
    pub fn new(network: NetworkOptions, allow_private: bool) -> Self {
        Self {
            exchange: Exchange {
                network,
                allow_private,
            },
            client_document: None,
            challenge: None,
            earlier_scope: None,
            registered: None,
        }
    }

    /// For providers that do not let programs register themselves.
    pub fn with_registered_client(mut self, client: Option<RegisteredClient>) -> Self {
        self.registered = client;
        self
    }

    /// What these tokens were for is asked for again, besides what the server wants now.
    pub fn with_earlier(mut self, tokens: Option<&OAuthTokens>) -> Self {
        self.earlier_scope = tokens.and_then(|tokens| tokens.grant.scope.clone());
        self
    }

    /// What the server said when it refused a call, from [`ServerHandle::challenge`]. It can ask
    /// for more than the server asks of somebody unknown.
    ///
    /// [`ServerHandle::challenge`]: crate::ServerHandle::challenge
    pub fn with_challenge(mut self, challenge: Option<String>) -> Self {
        self.challenge = challenge;
        self
    }

    /// For providers that take the address of a document as the client's id instead of a
    /// registration.
    pub fn with_client_document(mut self, address: String) -> Self {
        self.client_document = Some(address);
        self
    }

    /// Finds the authorization server of the MCP server at `url` and registers there. `state`
    /// comes back with the code; whoever calls must be able to recognise it.
    pub async fn begin(
        &self,
        url: &str,
        redirect_uri: &str,
        state: &str,
    ) -> Result<BegunAuthorization, OAuthError> {
        let mut found = discovery::find(&self.exchange, url, self.challenge.as_deref()).await?;
        if let Some(earlier) = &self.earlier_scope {
            found.add_scope(earlier);
        }
        let client = match &self.registered {
            Some(registered) => found.known(registered),
            None => {
                let document = self.client_document.as_deref();
                found
                    .register(&self.exchange, document, redirect_uri)
                    .await?
            }
        };
        let mut verifier = [0; VERIFIER_BYTES];
        getrandom::fill(&mut verifier)
            .map_err(|error| OAuthError::Unusable(format!("there is no randomness: {error}")))?;
        let code_verifier = URL_SAFE_NO_PAD.encode(verifier);
        let challenge = URL_SAFE_NO_PAD.encode(sha2::Sha256::digest(code_verifier.as_bytes()));
        let mut query = vec![
            ("response_type", "code"),
            ("client_id", &client.id),
            ("redirect_uri", redirect_uri),
            ("code_challenge", &challenge),
            ("code_challenge_method", "S256"),
            ("state", state),
            ("resource", &found.resource),
        ];
        if let Some(scope) = &found.scope {
            query.push(("scope", scope));
        }
        let endpoint = self
            .exchange
            .for_a_person(&found.provider.authorization_endpoint)?;
        let joint = if endpoint.contains('?') { '&' } else { '?' };
        Ok(BegunAuthorization {
            authorize_url: format!("{endpoint}{joint}{}", form(&query)),
            pending: PendingAuthorization {
                grant: Grant {
                    token_endpoint: found.provider.token_endpoint.clone(),
                    client_id: client.id,
                    client_secret: client.secret,
                    client_auth: client.auth,
                    resource: found.resource,
                    scope: found.scope,
                },
                code_verifier,
                redirect_uri: redirect_uri.to_owned(),
                issuer: found.provider.issuer,
                issuer_required: found.provider.names_itself,
            },
        })
    }

    /// `code` and `iss` are the parameters with which the provider sent the person back.
    pub async fn finish(
        &self,
        pending: &PendingAuthorization,
        code: &str,
        iss: Option<&str>,
    ) -> Result<OAuthTokens, OAuthError> {
        let is_other = iss.is_some() && iss != pending.issuer.as_deref();
        if is_other || (pending.issuer_required && iss.is_none()) {
            return Err(OAuthError::Refused(
                "the answer does not come from the provider that was asked; begin again".to_owned(),
            ));
        }
        let fields = [
            ("grant_type", "authorization_code"),
            ("code", code),
            ("redirect_uri", &pending.redirect_uri),
            ("code_verifier", &pending.code_verifier),
        ];
        self.exchange.tokens(&pending.grant, &fields, None).await
    }

    pub async fn refresh(&self, tokens: &OAuthTokens) -> Result<OAuthTokens, OAuthError> {
        let Some(refresh_token) = &tokens.refresh_token else {
            return Err(OAuthError::Refused(
                "the authorization has ended; authorize again".to_owned(),
            ));
        };
        let fields = [
            ("grant_type", "refresh_token"),
            ("refresh_token", refresh_token.as_str()),
        ];
        let kept = Some(refresh_token.clone());
        self.exchange.tokens(&tokens.grant, &fields, kept).await
    }
}

fn now() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_secs())
}

impl fmt::Debug for OAuthTokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OAuthTokens")
            .field("expires_at", &self.expires_at)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for PendingAuthorization {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PendingAuthorization")
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Authorization {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Authorization").finish_non_exhaustive()
    }
}
