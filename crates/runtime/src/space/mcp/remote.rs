//! The MCP servers of a project that this server calls: one handle each, from the first use of the
//! project's tools until its worker space goes.

use std::sync::{Arc, Weak};
use std::time::Duration;

use codelab_mcp::oauth::{Authorization, OAuthTokens};
use codelab_mcp::{HttpConfig, Place, ServerConfig, ServerHandle, ServerState};
use codelab_protocol::{McpPlace, McpServerName, McpStatus};
use codelab_store::{McpServerRow, Opened, SecretText, StoreError};
use tokio::sync::watch;
use tokio::time::sleep;

use super::SpaceMcp;
use super::trust::{SeenServer, SeenTool};

/// Renewed tokens that could not be stored are tried again so often.
const STORE_ATTEMPTS: u32 = 10;
const STORE_PAUSE: Duration = Duration::from_secs(3);

const OTHER_KEY: &str = "Its headers were encrypted with another CODELAB_MASTER_KEY and cannot be \
     read; set them again";
const OTHER_KEY_OF_TOKENS: &str = "Its tokens were encrypted with another CODELAB_MASTER_KEY and \
     cannot be read; authorize it again";

/// One server of the project.
pub(super) struct RemoteServer {
    pub row: McpServerRow,
    /// `None` where it cannot be called at all.
    pub handle: Option<Arc<ServerHandle>>,
    pub view: RemoteView,
    /// Tells this run of the server from earlier ones.
    generation: u64,
}

/// What can be seen of a server without waiting.
#[derive(Clone)]
pub(super) struct RemoteView {
    pub name: McpServerName,
    run: Run,
}

#[derive(Clone)]
enum Run {
    Running(watch::Receiver<ServerState>),
    /// It cannot be called at all.
    Unusable {
        status: McpStatus,
        why: &'static str,
    },
}

impl RemoteServer {
    pub fn start(row: McpServerRow, generation: u64, mcp: &Arc<SpaceMcp>) -> Self {
        let unusable = |status, why| (None, Run::Unusable { status, why });
        let (handle, run) = match (&row.headers, tokens(&row)) {
            (Opened::Unreadable, _) => unusable(McpStatus::Failed, OTHER_KEY),
            (_, Err(why)) => unusable(McpStatus::Unauthorized, why),
            (Opened::Nothing | Opened::Value(_), Ok(tokens)) => {
                let handle = started(&row, tokens, generation, mcp);
                let state = handle.watch();
                tokio::spawn(follow(state.clone(), Arc::downgrade(mcp)));
                (Some(Arc::new(handle)), Run::Running(state))
            }
        };
        let name = row.name.clone();
        Self {
            row,
            handle,
            view: RemoteView { name, run },
            generation,
        }
    }

    pub async fn stop(self) {
        if let Some(handle) = self.handle {
            handle.stop().await;
        }
    }
}

impl RemoteView {
    pub fn watch(&self) -> Option<watch::Receiver<ServerState>> {
        match &self.run {
            Run::Running(state) => Some(state.clone()),
            Run::Unusable { .. } => None,
        }
    }

    pub fn is_starting(&self) -> bool {
        match &self.run {
            Run::Running(state) => state.borrow().status == McpStatus::Starting,
            Run::Unusable { .. } => false,
        }
    }

    pub fn seen(&self) -> SeenServer {
        let (status, error, tools, left_out) = match &self.run {
            Run::Unusable { status, why } => (*status, Some((*why).to_owned()), Arc::from([]), 0),
            Run::Running(state) => {
                let state = state.borrow();
                let (tools, left_out) = SeenTool::all(&self.name, &state.tools);
                (state.status, state.error.clone(), tools, left_out)
            }
        };
        SeenServer {
            name: self.name.clone(),
            runs_at: McpPlace::Server,
            client: None,
            status,
            error: error.or_else(|| too_long(left_out)),
            tools,
            is_shadowed: false,
        }
    }
}

pub(super) fn too_long(left_out: usize) -> Option<String> {
    (left_out > 0).then(|| format!("{left_out} of its tools have names that are too long"))
}

fn tokens(row: &McpServerRow) -> Result<Option<OAuthTokens>, &'static str> {
    match &row.tokens {
        Opened::Nothing => Ok(None),
        Opened::Unreadable => Err(OTHER_KEY_OF_TOKENS),
        Opened::Value(text) => serde_json::from_str(text.expose())
            .map(Some)
            .map_err(|_| OTHER_KEY_OF_TOKENS),
    }
}

fn started(
    row: &McpServerRow,
    tokens: Option<OAuthTokens>,
    generation: u64,
    mcp: &Arc<SpaceMcp>,
) -> ServerHandle {
    let headers = row.headers.clone().value();
    let config = HttpConfig {
        url: row.url.clone(),
        headers: headers.map_or_else(Default::default, |headers| headers.expose().clone()),
    };
    let authorization = tokens.map(|tokens| {
        let (authorization, renewed) = Authorization::new(tokens);
        let of = (row.name.clone(), generation);
        tokio::spawn(keep_tokens(renewed, of, Arc::downgrade(mcp)));
        authorization
    });
    let place = Place::Network {
        network: mcp.options.network.clone(),
        allow_private: mcp.options.allow_private,
        authorization,
    };
    let limits = mcp.options.limits;
    ServerHandle::start(row.name.clone(), ServerConfig::Http(config), place, limits)
}

/// Notes what is different at a server, until it ends.
async fn follow(mut state: watch::Receiver<ServerState>, mcp: Weak<SpaceMcp>) {
    loop {
        let goes_on = state.changed().await.is_ok();
        let Some(mcp) = mcp.upgrade() else { return };
        mcp.touch();
        if let Err(error) = accept_new(&mcp).await {
            // A turn that begins tries again.
            tracing::debug!(%error, "new tools of an MCP server could not be stored");
        }
        if !goes_on {
            return;
        }
    }
}

async fn accept_new(mcp: &SpaceMcp) -> Result<(), StoreError> {
    let mut loaded = mcp.if_loaded().await;
    let Some(loaded) = loaded.as_mut() else {
        return Ok(());
    };
    let servers: Vec<SeenServer> = loaded.views().iter().map(RemoteView::seen).collect();
    mcp.settle(loaded, &servers).await
}

/// Stores renewed tokens: many providers take a refresh token only once.
async fn keep_tokens(
    mut renewed: watch::Receiver<OAuthTokens>,
    (name, generation): (McpServerName, u64),
    mcp: Weak<SpaceMcp>,
) {
    while renewed.changed().await.is_ok() {
        for attempt in 1..=STORE_ATTEMPTS {
            let Some(mcp) = mcp.upgrade() else { return };
            let tokens = renewed.borrow_and_update().clone();
            match stored(&mcp, &name, generation, &tokens).await {
                Ok(true) => break,
                // The server was changed or deleted, or has other tokens.
                Ok(false) => return,
                Err(error) if attempt == STORE_ATTEMPTS => {
                    tracing::warn!(server = %name, %error, "renewed tokens of an MCP server were not stored, it may have to be authorized again");
                }
                Err(_) => sleep(STORE_PAUSE).await,
            }
        }
    }
}

async fn stored(
    mcp: &SpaceMcp,
    name: &McpServerName,
    generation: u64,
    tokens: &OAuthTokens,
) -> Result<bool, StoreError> {
    // Nobody changes the server meanwhile.
    let mut loaded = mcp.if_loaded().await;
    let Some(loaded) = loaded.as_mut() else {
        return Ok(false);
    };
    let remote = loaded.remotes.get_mut(name);
    let Some(remote) = remote.filter(|remote| remote.generation == generation) else {
        return Ok(false);
    };
    let secret = secret(tokens)?;
    loaded.rows.set_mcp_tokens(name, Some(&secret)).await?;
    remote.row.tokens = Opened::Value(secret);
    Ok(true)
}

/// As they are stored, encrypted.
pub(super) fn secret(tokens: &OAuthTokens) -> Result<SecretText, StoreError> {
    serde_json::to_string(tokens)
        .map(SecretText::new)
        .map_err(|_| StoreError::Invalid("the tokens cannot be stored".to_owned()))
}
