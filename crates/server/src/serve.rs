//! Starts the server: builds its parts, serves requests, and stops in order.

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use codelab_engine::{Team, starter_pack};
use codelab_llm::{CallLimits, DemoModel, Model, ModelAuth, Models, ModelsConfig, ProviderKind};
use codelab_memory::{EmbeddedOptions, Embedder, EmbedderOptions, Memory, QdrantOptions};
use codelab_protocol::UserId;
use codelab_runtime::{
    AgentCache, BusLimits, CacheLimits, ClusterOptions, JoinError, LiveLimits, McpOptions, Metrics,
    Runtime, RuntimeParts, random_hex,
};
use codelab_store::{DatabaseUrl, Store, StoreError, StoreOptions};
use codelab_transport::is_private_address;
use tokio_util::sync::CancellationToken;

use crate::access::ServerNames;
use crate::address::{self, KeptAddress};
use crate::app::{App, router};
use crate::buffers::Buffers;
use crate::cluster::user_events::PeerEvents;
use crate::cluster::{ForwardLimits, Forwarder};
use crate::config::{
    ConfigError, DEFAULT_DATABASE, HttpOrigin, ModelHint, Settings, SpaceSettings, wrong,
    wrong_database,
};
use crate::docs::docs_html;
use crate::listen;
use crate::master_key::{MasterKey, seal_audit};
use crate::models::KnownModels;
use crate::openapi::{document, openapi_json};
use crate::page::WebPage;
use crate::private::{private_data_folder, write_private};
use crate::routes::Attempts;
use crate::secrets::{Secrets, SecretsError};
use crate::users::{LOGIN_HOUSEKEEPING, LoginTicket, Logins, Verifier};

/// Why the server did not start: one line.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error(transparent)]
    Secrets(#[from] SecretsError),
    #[error(transparent)]
    Model(#[from] codelab_llm::ModelConfigError),
    #[error("the built-in team: {0}")]
    Team(#[from] codelab_engine::AgentError),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Join(#[from] JoinError),
    #[error(
        "the audit log has decisions without the seal of the master key, though this installation has sealed all of them: \
         somebody changed the database, or a backup from before the key was put back; in that case delete {} and start \
         again", .0.display()
    )]
    Unsealed(PathBuf),
    #[error(
        "CODELAB_MASTER_KEY must be set to the key of the other server that uses this database"
    )]
    OtherMasterKey,
    #[error("data folder {}: another server uses it", .0.display())]
    InUse(PathBuf),
    #[error("{what}: {error}")]
    Io { what: String, error: std::io::Error },
}

/// Of the data folder: what the embedded memory engine keeps.
const MEMORY_FOLDER: &str = "memory";

/// How long running model calls may take to finish when the server stops.
pub const STOP_GRACE: Duration = Duration::from_secs(10);

/// A server that listens.
pub struct Server {
    pub addr: SocketAddr,
    /// What answers as the model, and whether it is the demonstration.
    pub model: String,
    pub demo: bool,
    /// What is missing where the demonstration answers and somebody set a part of a model.
    pub model_hint: Option<ModelHint>,
    pub secrets: Arc<Secrets>,
    public_url: Option<String>,
    /// Tells other commands on this machine where the server is.
    kept: Option<KeptAddress>,
    runtime: Runtime,
    stop: CancellationToken,
    listening: tokio::task::JoinHandle<()>,
}

impl Server {
    pub async fn start(settings: Settings) -> Result<Self, StartError> {
        let io = |what: &str| {
            let what = what.to_owned();
            move |error| StartError::Io { what, error }
        };
        Secrets::check(&settings)?;
        let folder = settings.data_dir.clone();
        let private = tokio::task::spawn_blocking(move || private_data_folder(&folder)).await;
        let private = private.unwrap_or_else(|panic| Err(std::io::Error::other(panic)));
        private.map_err(io(&format!("data folder {}", settings.data_dir.display())))?;
        let secrets = Secrets::load(&settings)?;
        let master_key = MasterKey::load_or_make(&settings)?;
        Secrets::warn_of_short(&settings);
        let model = model(&settings)?;
        warn_of_withheld_key(&settings);
        let team = Team::built_in(settings.mode)?;
        let embedded = !matches!(settings.database, DatabaseUrl::Postgres(_));
        let verifier = Verifier::new(&settings, &secrets.jwt_secret)?;
        let starter_pack = starter_pack()?;
        let store = open_store(&settings, &master_key).await?;
        let names = Arc::new(ServerNames::new(&settings));
        // First the port and the data folder: if either is in use, a running server must not be
        // disturbed.
        let listener =
            listen::bind(settings.addr).map_err(io(&format!("addr {}", settings.addr)))?;
        let addr = listener.local_addr().map_err(io("addr"))?;
        let kept = keep_address(&settings.data_dir, addr).await?;
        seal_audit(&store, &settings.data_dir, embedded).await?;
        let server_id = begin_run(&store, embedded, &settings.data_dir).await?;
        let description = model.describe();
        let cache = cache(&settings.spaces).await?;
        // Among several servers, others may have owned the projects since: what is needed is rebuilt.
        if settings.cluster_address.is_some() || settings.spaces.qdrant_url.is_some() {
            remove_embedded_memory(settings.data_dir.join(MEMORY_FOLDER)).await;
        }
        let memory = memory(&settings)?;
        let cluster = ClusterOptions {
            address: settings.cluster_address.as_ref().map(HttpOrigin::text),
            fingerprint: settings
                .cluster_address
                .is_some()
                .then(|| master_key.fingerprint(&secrets)),
        };
        let logins = Logins::new(store.clone(), &settings.data_dir);
        let models = KnownModels::new(&settings.llm);
        let shown_model = models.shown(description.clone());
        let runtime = Runtime::start(RuntimeParts {
            store,
            model,
            team,
            limits: settings.limits,
            prompt: settings.prompt,
            region: settings.region,
            log_prompts: settings.log_prompts,
            policy: settings.policy,
            default_model: models.default_model().to_owned(),
            metrics: Metrics::new(),
            live: LiveLimits::default(),
            server_id,
            cluster,
            failpoint: settings.failpoint,
            retention: settings.retention,
            cache,
            memory,
            bus: BusLimits::default(),
            space_idle_seconds: settings.spaces.idle_timeout_seconds,
            chat: settings.chat.limits,
            shares: settings.shares,
            mcp: McpOptions {
                network: settings.network.clone(),
                allow_private: settings.mcp.allow_private,
                ..McpOptions::default()
            },
        })
        .await?;
        let stop = CancellationToken::new();
        let buffers = Buffers::new(settings.body_bytes);
        let forwarder = Forwarder::new(
            &secrets.internal_api_key,
            &settings.network,
            (Arc::clone(&buffers), settings.body_bytes),
            Arc::clone(runtime.metrics()),
            ForwardLimits::default(),
            stop.clone(),
        );
        let app = App {
            peer_events: PeerEvents::of(
                &runtime,
                settings.network.ca_file.clone(),
                (!runtime.is_alone()).then(|| forwarder.key()),
            ),
            runtime: runtime.clone(),
            names,
            internal_api_key: secrets.internal_api_key.clone(),
            body_bytes: settings.body_bytes,
            buffers,
            openapi: openapi_json().into(),
            docs: docs_html(&document()).into(),
            page: Arc::new(WebPage::embedded(settings.page_locale)),
            verifier: Arc::new(verifier),
            logins: logins.clone(),
            login_attempts: Arc::new(Attempts::default()),
            oauth_attempts: Arc::new(Attempts::default()),
            public_url: (settings.http.public_url.as_ref()).map(|origin| origin.text().into()),
            mcp_allow_private: settings.mcp.allow_private,
            is_secure: settings
                .http
                .public_url
                .as_ref()
                .is_some_and(HttpOrigin::is_https),
            models: Arc::new(models),
            starter_pack: starter_pack.into(),
            chat_access: settings.chat.access,
            forwarder,
        };
        tokio::spawn(
            stop.clone()
                .run_until_cancelled_owned(keep_logins_tidy(logins)),
        );
        let write_timeout = Duration::from_secs(settings.http.write_timeout_seconds);
        let deadline = listen::ConnectionDeadlines {
            write_timeout,
            grace: STOP_GRACE,
        };
        let stopped = stop.clone().cancelled_owned();
        let metrics = Arc::clone(runtime.metrics());
        let listening = tokio::spawn(listen::serve(
            listener,
            router(app),
            deadline,
            metrics,
            stopped,
        ));
        Ok(Self {
            addr,
            model: shown_model,
            demo: description.demo,
            model_hint: settings.llm.hint,
            secrets: Arc::new(secrets),
            public_url: settings.http.public_url.map(|origin| origin.text()),
            kept,
            runtime,
            stop,
            listening,
        })
    }

    /// Its address for programs on this machine.
    pub fn url(&self) -> String {
        url_of(self.addr)
    }

    /// A link that logs a user in on the web page, once.
    pub async fn login_link(&self, user: UserId) -> Result<String, StoreError> {
        let expires_at = codelab_runtime::now().plus_seconds(LoginTicket::LIFETIME_SECONDS);
        let ticket = LoginTicket::keep_in(self.runtime.store(), user, expires_at).await?;
        Ok(ticket.link(self.public_url.as_deref().unwrap_or(&self.url())))
    }

    /// Finishes or suspends what runs, then closes the store.
    pub async fn stop(self) {
        // While this server still has the port.
        if let Some(kept) = &self.kept {
            kept.withdraw();
        }
        self.stop.cancel();
        // Readers end here, so that their connections can.
        self.runtime.stop(STOP_GRACE).await;
        let _ = self.listening.await;
        // Only now may another server have the data folder.
        drop(self.kept);
    }
}

/// Where the server that uses this data folder listens, if one lives. Whatever else has that port
/// later is not it.
pub fn living_url(data_dir: &Path) -> Option<String> {
    address::living(data_dir).map(url_of)
}

/// The server runs even if this fails; then other commands cannot find it.
async fn keep_address(
    data_dir: &Path,
    addr: SocketAddr,
) -> Result<Option<KeptAddress>, StartError> {
    match KeptAddress::write(data_dir, addr).await {
        Ok(kept) => Ok(Some(kept)),
        Err(error) if error.kind() == ErrorKind::WouldBlock => {
            Err(StartError::InUse(data_dir.to_owned()))
        }
        Err(error) => {
            tracing::warn!(%error, "writing the server's address failed, other commands will not find this server");
            Ok(None)
        }
    }
}

fn url_of(addr: SocketAddr) -> String {
    if addr.ip().is_unspecified() {
        return format!("http://127.0.0.1:{}", addr.port());
    }
    format!("http://{addr}")
}

async fn keep_logins_tidy(logins: Logins) {
    let mut times = tokio::time::interval(LOGIN_HOUSEKEEPING);
    loop {
        times.tick().await;
        logins.remove_expired(codelab_runtime::now()).await;
    }
}

/// A database that was configured and cannot be used is a wrong setting.
async fn open_store(settings: &Settings, master_key: &MasterKey) -> Result<Store, StartError> {
    let database = &settings.database;
    let is_default = *database == DatabaseUrl::SqliteFile(settings.data_dir.join(DEFAULT_DATABASE));
    let options = StoreOptions {
        audit_key: Some(master_key.audit_key()),
        sealing_key: Some(master_key.sealing_key()),
        ..StoreOptions::new(database.clone())
    };
    Store::open(options)
        .await
        .map_err(|error| match is_default {
            true => StartError::Store(error),
            false => wrong_database(&format!("{database} cannot be used: {error}")).into(),
        })
}

/// Names this run of the server, and ends the leases of those that are gone: all others of an
/// embedded database, and the run that used this data folder before.
async fn begin_run(store: &Store, embedded: bool, data_dir: &Path) -> Result<String, StartError> {
    let path = data_dir.join("server-run");
    let before = std::fs::read_to_string(&path).unwrap_or_default();
    if embedded {
        store.end_every_server(None).await?;
    } else if !before.trim().is_empty() {
        store.end_server(before.trim(), None).await?;
    }
    let id = random_hex(8);
    write_private(&path, &id).map_err(|error| StartError::Io {
        what: path.display().to_string(),
        error,
    })?;
    Ok(id)
}

/// Memory, in front of Redis where that is configured.
async fn cache(settings: &SpaceSettings) -> Result<AgentCache, ConfigError> {
    let limits = CacheLimits {
        ttl: Duration::from_secs(settings.cache_ttl_seconds),
        ..CacheLimits::default()
    };
    match &settings.redis_url {
        None => Ok(AgentCache::memory(limits)),
        Some(url) => {
            let opened = AgentCache::with_redis(url.expose(), limits).await;
            opened.map_err(|error| wrong("redis.url", &error.to_string()))
        }
    }
}

/// The memory engine inside the process, or a Qdrant server where one is configured.
pub fn memory(settings: &Settings) -> Result<Memory, ConfigError> {
    let spaces = &settings.spaces;
    match &spaces.qdrant_url {
        None => embedded_memory(settings, &settings.data_dir.join(MEMORY_FOLDER)),
        Some(url) => {
            let api_key = spaces
                .qdrant_api_key
                .as_ref()
                .map(|key| key.expose().to_owned());
            let options = QdrantOptions {
                url: url.clone(),
                api_key,
                network: settings.network.clone(),
            };
            Memory::server(options, embedder(settings)?)
                .map_err(|error| wrong("qdrant.url", &error.to_string()))
        }
    }
}

/// The memory engine inside the process, on a folder of the caller's choice.
pub fn embedded_memory(settings: &Settings, folder: &Path) -> Result<Memory, ConfigError> {
    Ok(Memory::embedded(
        EmbeddedOptions::new(folder),
        embedder(settings)?,
    ))
}

fn embedder(settings: &Settings) -> Result<Option<Embedder>, ConfigError> {
    let (spaces, llm) = (&settings.spaces, &settings.llm);
    let Some(model) = &spaces.embedding_model else {
        return Ok(None);
    };
    let named = model
        .split_once('/')
        .and_then(|(name, model)| Some((llm.providers.get(name)?, model)));
    let found = match (named, &llm.proxy_url) {
        (Some((provider, _)), _) if provider.kind == ProviderKind::Anthropic => {
            let why = "names a provider of the kind anthropic, which has no embedding models";
            return Err(wrong("embedding.model", why));
        }
        (Some((provider, model)), _) => {
            Some((&provider.url, provider.auth.clone(), model.to_owned()))
        }
        (None, Some(url)) => Some((url, auth(settings, url), model.clone())),
        (None, None) => None,
    };
    match found {
        Some((url, auth, model)) => {
            let auth_header = match auth {
                ModelAuth::Key(key) => Some((
                    "authorization".to_owned(),
                    format!("Bearer {}", key.expose()),
                )),
                ModelAuth::InternalHeader(key) => {
                    Some(("x-internal-auth".to_owned(), key.expose().to_owned()))
                }
                ModelAuth::None => None,
            };
            let options = EmbedderOptions {
                auth_header,
                network: settings.network.clone(),
                ..EmbedderOptions::new(url.clone(), model)
            };
            Ok(Some(Embedder::new(options).map_err(|error| {
                wrong("embedding.model", &error.to_string())
            })?))
        }
        None => Err(wrong(
            "embedding.model",
            "needs llm.proxy_url, where it is asked for, or the name of a provider",
        )),
    }
}

/// Removes the files of the embedded memory. With memories on a Qdrant server nothing would ever
/// delete from them. Among several servers they may be out of date. The database has everything.
async fn remove_embedded_memory(folder: PathBuf) {
    let removed = tokio::task::spawn_blocking(move || std::fs::remove_dir_all(folder)).await;
    match removed.unwrap_or_else(|panic| Err(std::io::Error::other(panic))) {
        Ok(()) => {
            tracing::info!(
                "the files of the embedded memory were removed, memories are rebuilt as needed"
            )
        }
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        Err(error) => {
            tracing::warn!(%error, "removing the files of the embedded memory failed")
        }
    }
}

/// The headers for the model server. Unless a setting says otherwise, the internal key goes only to
/// a private address, and not where an HTTP proxy could read it.
fn auth(settings: &Settings, url: &str) -> ModelAuth {
    let llm = &settings.llm;
    let internal = || {
        settings
            .internal_api_key
            .clone()
            .filter(|_| llm.send_internal_key || settings.network.keeps_private(url))
    };
    match (&llm.api_key, internal()) {
        (Some(key), _) => ModelAuth::Key(key.clone()),
        (None, Some(key)) => ModelAuth::InternalHeader(key),
        (None, None) => ModelAuth::None,
    }
}

/// Whether the model server does not get the internal key only because of a proxy.
fn is_key_withheld(settings: &Settings) -> bool {
    let Some(url) = &settings.llm.proxy_url else {
        return false;
    };
    settings.internal_api_key.is_some()
        && is_private_address(url)
        && auth(settings, url) == ModelAuth::None
}

fn warn_of_withheld_key(settings: &Settings) {
    if is_key_withheld(settings) {
        tracing::warn!(
            "the internal key is not sent to the model server, because the proxy in HTTP_PROXY \
             could read it; add the host of LLM_PROXY_URL to NO_PROXY, or use an https:// address"
        );
    }
}

/// The configured model, or the demonstration when there is none.
fn model(settings: &Settings) -> Result<Arc<dyn Model>, StartError> {
    match model_config(settings) {
        Some(config) => Ok(Arc::new(Models::new(config)?)),
        None => Ok(Arc::new(DemoModel::default())),
    }
}

/// How the configured model is called; none where the demonstration answers.
pub fn model_config(settings: &Settings) -> Option<ModelsConfig> {
    let llm = &settings.llm;
    let mut config = match &llm.proxy_url {
        Some(url) => ModelsConfig::new(url, auth(settings, url)),
        None if llm.providers.is_empty() => return None,
        None => ModelsConfig::default(),
    };
    config.providers.extend(llm.providers.clone());
    let limits = CallLimits {
        timeout: Duration::from_secs(llm.timeout_seconds),
        idle_timeout: Duration::from_secs(llm.idle_timeout_seconds),
        rate_limit_wait: Duration::from_secs(llm.rate_limit_wait_seconds),
        ..CallLimits::default()
    };
    Some(ModelsConfig {
        default_model: llm.model.clone(),
        model_override: llm.model_override.clone(),
        model_map: llm.model_map.clone(),
        fallback_models: llm.fallback_models.clone(),
        limits,
        prices: llm.prices.clone(),
        facts: llm.facts.clone(),
        network: settings.network.clone(),
        ..config
    })
}

/// The model of agents that name none.
pub fn default_model(settings: &Settings) -> String {
    KnownModels::new(&settings.llm).default_model().to_owned()
}

#[cfg(test)]
mod tests {
    use codelab_llm::DEFAULT_PROVIDER;

    use super::*;
    use crate::config::Flags;

    #[test]
    fn the_internal_key_is_not_shown_to_a_proxy() {
        const PROXY: (&str, &str) = ("HTTP_PROXY", "http://proxy.test:3128");
        const SEND: (&str, &str) = ("CODELAB_LLM__SEND_INTERNAL_KEY", "true");
        let folder = tempfile::tempdir().unwrap();
        let key = "k".repeat(32);
        let cases: [(&[(&str, &str)], bool, bool); 4] = [
            (&[], true, false),
            (&[PROXY], false, true),
            (&[PROXY, ("NO_PROXY", "10.0.0.5")], true, false),
            (&[PROXY, SEND], true, false),
        ];
        for (variables, is_sent, is_withheld) in cases {
            let flags = Flags {
                data_dir: Some(folder.path().to_owned()),
                ..Flags::default()
            };
            let fixed = [
                ("INTERNAL_API_KEY", key.as_str()),
                ("LLM_PROXY_URL", "http://10.0.0.5:4000"),
            ];
            let environment = fixed.iter().chain(variables);
            let environment =
                environment.map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
            let settings = Settings::load(flags, environment).unwrap();
            let config = model_config(&settings).unwrap();
            let sent = config.providers[DEFAULT_PROVIDER].auth.clone();
            assert_eq!(sent != ModelAuth::None, is_sent, "{variables:?}");
            assert_eq!(is_key_withheld(&settings), is_withheld, "{variables:?}");
        }
    }
}
