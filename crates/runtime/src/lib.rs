//! Performs what the engine decides: one owner per session takes its inputs in order, commits what
//! they cause through the store, shows it to readers, then starts or stops model calls.
//!
//! Nothing is shown or acknowledged before it is committed. No decision is made here.

mod bus;
mod cache;
mod chat;
mod client_calls;
mod clock;
mod cluster;
mod commit;
mod context;
mod error;
mod failpoint;
mod feed;
mod files;
mod forks;
mod history;
mod ids;
mod memories;
mod metrics;
mod model_trial;
mod owner;
mod pieces;
mod project_messages;
mod project_sessions;
mod reader;
mod registry;
mod rewinds;
mod runtime;
mod shares;
mod space;
mod state;
mod timers;
mod user_events;
mod vitals;

pub use bus::{
    Bus, BusEntry, BusLimits, Draining, Load, Permit, Reason, TaskOutcome, Unavailable, WaitingTask,
};
pub use cache::{
    AgentCache, CacheCounts, CacheHealth, CacheKey, CacheLimits, Cached, Fill, InvalidRedisUrl,
    RedisUnusable, UserPrefix, ping_redis,
};
pub use chat::{ChatNews, ChatReader, GlobalChat, NoAnswer, OpenQuestion};
pub use clock::now;
pub use cluster::{
    Claim, ClusterOptions, ClusterView, Destination, JoinError, OwnedThing, Peer, RouteError,
};
pub use error::RuntimeError;
pub use failpoint::Failpoint;
pub use ids::{random_hex, random_u32};
pub use memories::{RebuildError, rebuild_memories};
pub use metrics::{Metrics, OpenGauge, TurnOutcome};
pub use project_messages::{AcceptedMessage, ProjectMessage};
pub use project_sessions::ResultAccepted;
pub use reader::{AnswerDelta, AnswerPart, Reader, ReaderItem};
pub use runtime::{LiveLimits, Retention, Runtime, RuntimeParts, SessionSummary};
pub use shares::{ReadSlot, ShareLimits, Shares, StreamSlot};
pub use space::{
    BroughtRefused, CLIENT_GONE_SECONDS, ClientsFull, MAX_AGENTS, MAX_MCP_SERVERS, McpChange,
    McpOptions, NotAuthorized, ProviderAnswer, ReportRefused, Space, SpaceKey, project_agent,
    state_hash,
};
pub use state::state_of;
pub use user_events::{
    EventReference, InvalidCursor, UserCursor, UserEvents, UserItem, UserReader, UserReferences,
};
pub use vitals::DatabaseTrouble;
