//! Authorizations at MCP servers: a person agrees in a browser, and the provider's answer finds its
//! way back by a state that is used once.

use std::time::Duration;

use codelab_mcp::oauth::{OAuthClient, OAuthError, PendingAuthorization};
use codelab_protocol::{Digest, McpServerName};
use codelab_store::{ProjectStore, SecretText, StoreError};
use serde::{Deserialize, Serialize};
use tokio::time::timeout;

use super::changes::{conflict, not_found};
use crate::RuntimeError;
use crate::clock::now;
use crate::ids::random_hex;
use crate::runtime::{Runtime, whole};
use crate::space::SpaceKey;

/// How long a person has to agree.
const LIFETIME_SECONDS: u64 = 600;
/// 256 bits.
const STATE_BYTES: usize = 32;
/// All requests to the provider for one step.
const PROVIDER_TIMEOUT: Duration = Duration::from_secs(30);
/// Longer addresses do not fit a browser.
const MAX_AUTHORIZE_URL_BYTES: usize = 8192;

/// What must be known when the provider answers.
#[derive(Serialize, Deserialize)]
struct Begun {
    /// The address of the server that the tokens are for.
    url: String,
    pending: PendingAuthorization,
}

/// What the provider sent back with the person.
pub struct ProviderAnswer {
    /// Absent where the provider or the person refused.
    pub code: Option<String>,
    pub iss: Option<String>,
}

/// Why there are no tokens.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum NotAuthorized {
    #[error("This authorization is unknown, used already or older than ten minutes")]
    Unknown,
    #[error("CodeLab was not authorized at the server {server}: {why}")]
    Refused { server: McpServerName, why: String },
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Runtime {
    /// Where a person agrees that CodeLab calls this server for them.
    pub async fn begin_mcp_authorization(
        &self,
        project: ProjectStore,
        name: McpServerName,
        redirect_uri: String,
    ) -> Result<String, RuntimeError> {
        let runtime = self.clone();
        whole(async move {
            let space = runtime.space(SpaceKey::of(&project));
            let row = space.own_mcp_server(&name).await?;
            let state = random_hex(STATE_BYTES);
            let client = runtime.oauth_client();
            let begin = client.begin(&row.url, &redirect_uri, &state);
            let begun = within(begin).await.map_err(|why| {
                conflict(format!("The server {name} cannot be authorized: {why}"))
            })?;
            let url = runtime.checked_address(&name, begun.authorize_url)?;
            let stored = serde_json::to_string(&Begun {
                url: row.url,
                pending: begun.pending,
            });
            let stored = stored.map_err(|_| not_found())?;
            let hash = Digest::of_bytes(state.as_bytes());
            let expires_at = now().plus_seconds(LIFETIME_SECONDS);
            let pending = SecretText::new(stored);
            let added = project.add_mcp_authorization(&hash, &name, &pending, expires_at);
            added.await.map_err(RuntimeError::NotStored)?;
            Ok(url)
        })
        .await?
    }

    /// Takes what the provider sent back, and gives the server that CodeLab is authorized at now.
    pub async fn finish_mcp_authorization(
        &self,
        state: &str,
        answer: ProviderAnswer,
    ) -> Result<McpServerName, NotAuthorized> {
        let Some(hash) = state_hash(state) else {
            return Err(NotAuthorized::Unknown);
        };
        let runtime = self.clone();
        let finished = whole(async move { runtime.finish(&hash, answer).await });
        finished.await.unwrap_or(Err(StoreError::Unknown.into()))
    }

    async fn finish(
        &self,
        hash: &Digest,
        answer: ProviderAnswer,
    ) -> Result<McpServerName, NotAuthorized> {
        let store = self.store();
        let taken = store.take_mcp_authorization(hash, now()).await?;
        let begun = taken.ok_or(NotAuthorized::Unknown)?;
        let server = begun.server;
        let refused = |why: String| NotAuthorized::Refused {
            server: server.clone(),
            why,
        };
        let Some(code) = answer.code else {
            return Err(refused("the provider or the person refused".to_owned()));
        };
        let project = store.of(begun.user_id).project(begun.project_id).await?;
        let project = project.ok_or(NotAuthorized::Unknown)?;
        let stored = begun
            .pending
            .value()
            .and_then(|text| serde_json::from_str::<Begun>(text.expose()).ok());
        let Some(stored) = stored else {
            return Err(refused(
                "what was begun cannot be read; begin again".to_owned(),
            ));
        };
        let client = self.oauth_client();
        let finish = client.finish(&stored.pending, &code, answer.iss.as_deref());
        let tokens = within(finish).await.map_err(refused)?;
        let space = self.space(SpaceKey::of(&project));
        let kept = space.keep_mcp_tokens(&server, &stored.url, &tokens).await;
        match kept {
            Ok(()) => Ok(server),
            Err(RuntimeError::Store(StoreError::NotFound)) => {
                Err(refused("the server was deleted meanwhile".to_owned()))
            }
            Err(RuntimeError::Store(error) | RuntimeError::NotStored(error)) => Err(error.into()),
            Err(other) => Err(refused(other.to_string())),
        }
    }

    fn oauth_client(&self) -> OAuthClient {
        let options = &self.inner.mcp;
        OAuthClient::new(options.network.clone(), options.allow_private)
    }

    /// A person's browser opens it, so it must be an address of the web.
    fn checked_address(&self, name: &McpServerName, url: String) -> Result<String, RuntimeError> {
        let is_web = url.starts_with("https://")
            || (self.inner.mcp.allow_private && url.starts_with("http://"));
        let is_clean = url.bytes().all(|byte| byte.is_ascii_graphic());
        if is_web && is_clean && url.len() <= MAX_AUTHORIZE_URL_BYTES {
            return Ok(url);
        }
        let why = format!("The server {name} names an authorization address that cannot be used");
        Err(conflict(why).into())
    }
}

/// `None` for a text that no authorization has as its state.
pub fn state_hash(state: &str) -> Option<Digest> {
    let fits = state.len() == STATE_BYTES * 2 && state.bytes().all(|b| b.is_ascii_hexdigit());
    fits.then(|| Digest::of_bytes(state.as_bytes()))
}

async fn within<T>(request: impl Future<Output = Result<T, OAuthError>>) -> Result<T, String> {
    match timeout(PROVIDER_TIMEOUT, request).await {
        Ok(answer) => answer.map_err(|error| error.to_string()),
        Err(_) => Err(format!(
            "there was no answer within {} seconds",
            PROVIDER_TIMEOUT.as_secs()
        )),
    }
}
