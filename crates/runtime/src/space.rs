//! Worker spaces: the live resources of one project. Its agents as they are now, their bus, who
//! could run tools, what may be spent. Everything here can be rebuilt from the store.

mod clients;
mod health;
mod instructions;
mod ledger;
mod life;
mod mcp;
mod slots;
mod spaces;
mod team;
mod upkeep;
mod work;

use std::collections::HashSet;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use codelab_llm::Model;
use codelab_protocol::{AgentName, ProjectId, SessionId, UserId};
use codelab_store::{ProjectStore, Store, StoreError};
use tokio::sync::watch;
use tokio::time::Instant;

pub use clients::{CLIENT_GONE_SECONDS, ClientsFull};
pub use instructions::BroughtRefused;
pub use mcp::{
    MAX_MCP_SERVERS, McpChange, McpOptions, NotAuthorized, ProviderAnswer, ReportRefused,
    state_hash,
};
pub(crate) use slots::{HeldSlots, SlotChanges};
pub use spaces::SpaceKey;
pub(crate) use spaces::Spaces;
pub(crate) use team::{AGENTS_PAGE, TeamSnapshot};
pub use team::{MAX_AGENTS, project_agent};
pub(crate) use work::CallMode;

use self::clients::Clients;
use self::ledger::Ledger;
use self::life::SpacePhase;
use self::mcp::SpaceMcp;
use self::team::CachedTeam;
use self::work::Calls;
use crate::bus::{Bus, BusLimits};
use crate::cache::{AgentCache, UserPrefix};
use crate::memories::Memories;
use crate::metrics::Metrics;

/// The live resources of one project. One object for as long as anybody holds it, cleaned up or
/// not, so that all its users meet at the same bus.
pub struct Space {
    key: SpaceKey,
    prefix: UserPrefix,
    store: Store,
    cache: AgentCache,
    model: Arc<dyn Model>,
    /// Of agents that name none, and of the orchestrator.
    default_model: String,
    memories: Arc<Memories>,
    metrics: Arc<Metrics>,
    bus: Bus,
    /// Taken before any other lock of the space.
    phase: Mutex<SpacePhase>,
    /// Clients that nobody heard of since then may still be there: the server before knew them.
    made_at: Instant,
    last_used: Mutex<Instant>,
    memo: Mutex<CachedTeam>,
    /// Agents that are being deleted or taken out of service.
    leaving: Mutex<HashSet<AgentName>>,
    clients: Mutex<Clients>,
    ledger: Mutex<Ledger>,
    /// Told whenever more may be left of the budget for those who wait for room.
    room: watch::Sender<()>,
    /// Which sessions work right now.
    working: Mutex<HashSet<SessionId>>,
    calls: Mutex<Calls>,
    /// Tasks that met a full queue and were not told of yet.
    refusals: AtomicU64,
    mcp: Arc<SpaceMcp>,
    /// Grows with every change of what the workspaces of clients bring.
    brought: watch::Sender<u64>,
}

/// What all spaces of a server share.
#[derive(Clone)]
pub(crate) struct SharedParts {
    pub store: Store,
    pub cache: AgentCache,
    pub model: Arc<dyn Model>,
    pub default_model: String,
    pub memories: Arc<Memories>,
    pub metrics: Arc<Metrics>,
    pub limits: BusLimits,
    pub mcp: McpOptions,
}

impl Space {
    fn new(key: SpaceKey, shared: SharedParts) -> Self {
        let SharedParts {
            store,
            cache,
            model,
            default_model,
            memories,
            metrics,
            limits,
            mcp,
        } = shared;
        let space_mcp = SpaceMcp::new(store.clone(), key, mcp);
        Self {
            key,
            prefix: UserPrefix::new(key.user, key.project),
            store,
            cache,
            model,
            default_model,
            memories,
            metrics,
            bus: Bus::new(limits),
            phase: Mutex::default(),
            made_at: Instant::now(),
            last_used: Mutex::new(Instant::now()),
            memo: Mutex::default(),
            leaving: Mutex::default(),
            clients: Mutex::default(),
            ledger: Mutex::default(),
            room: watch::Sender::new(()),
            working: Mutex::default(),
            calls: Mutex::default(),
            refusals: AtomicU64::default(),
            mcp: space_mcp,
            brought: watch::Sender::new(0),
        }
    }

    pub fn user(&self) -> UserId {
        self.key.user
    }

    pub fn project(&self) -> ProjectId {
        self.key.project
    }

    pub fn bus(&self) -> &Bus {
        &self.bus
    }

    /// The project's rows; `None` when it was deleted.
    pub(crate) async fn rows(&self) -> Result<Option<ProjectStore>, StoreError> {
        self.store.of(self.key.user).project(self.key.project).await
    }

    /// What an agent should be reminded of when it begins to work on this.
    pub(crate) async fn recall(&self, agent: &AgentName, about: &str) -> Vec<String> {
        self.memories.recall(self.key, agent, about).await
    }

    /// A session tells whether an agent works for it now.
    pub(crate) fn session_works(&self, session: &SessionId, works: bool) {
        let mut working = lock(&self.working);
        if works {
            working.insert(session.clone());
        } else {
            working.remove(session);
        }
        drop(working);
        self.used();
    }

    /// The sessions that work on this server, and wait for nobody outside.
    fn working_sessions(&self) -> Vec<SessionId> {
        lock(&self.working).iter().cloned().collect()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // No code that holds one of these locks can leave its value half-changed.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
