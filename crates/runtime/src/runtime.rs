//! The way in: what the server asks of the runtime.

use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use codelab_engine::{
    CallerAnswer, ChatLimits, Decision, PromptLimits, Region, Session, SessionLimits, Team,
    TeamFacts, UserMessage,
};
use codelab_llm::{Model, ModelDescription};
use codelab_memory::Memory;
use codelab_policy::Policy;
use codelab_protocol::{
    AgentName, CallId, Digest, FileBase, ModelList, SessionId, SessionKind, TurnStatus,
};
use codelab_store::{Schedule, SessionKey, SessionKeys, SessionRow, Store, StoreError};
use serde_json::Value;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::bus::BusLimits;
use crate::cache::{AgentCache, CacheHealth};
use crate::chat::{GlobalChat, adaptive_agent, keep_ids, reserve_ids};
use crate::cluster::{self, Cluster, ClusterOptions, JoinError, ServerRun};
use crate::feed::Feed;
use crate::forks::ForkSlots;
use crate::memories::Memories;
use crate::metrics::{Metrics, OpenGauge};
use crate::owner::{Accepted, Command, Mail, NewSession, ReplyTo};
use crate::reader::{Reader, ReaderParts, ReaderScope};
use crate::registry::{Registry, SessionName};
use crate::shares::{ShareLimits, Shares};
use crate::space::{McpOptions, SharedParts, Spaces};
use crate::timers;
use crate::user_events::UserEvents;
use crate::vitals::Trials;
use crate::{Failpoint, RuntimeError};

mod limits;

pub use limits::{LiveLimits, Retention};

/// How long a reader waits until this server owns the session.
const CLAIM_WITHIN: Duration = Duration::from_secs(3);

/// What a runtime is made of; built in one place and passed down.
pub struct RuntimeParts {
    pub store: Store,
    pub model: Arc<dyn Model>,
    pub team: Team,
    pub limits: SessionLimits,
    pub prompt: PromptLimits,
    /// Where callers say nothing of theirs.
    pub region: Region,
    /// Whether the log shows whole prompts, and with them what people said.
    pub log_prompts: bool,
    pub policy: Policy,
    pub default_model: String,
    pub metrics: Arc<Metrics>,
    pub live: LiveLimits,
    /// Names this run of this server.
    pub server_id: String,
    pub cluster: ClusterOptions,
    pub failpoint: Failpoint,
    pub retention: Retention,
    pub cache: AgentCache,
    pub memory: Memory,
    pub bus: BusLimits,
    /// A worker space that nobody used for this long is cleaned up.
    pub space_idle_seconds: u64,
    pub chat: ChatLimits,
    pub shares: ShareLimits,
    /// How MCP servers of projects are called.
    pub mcp: McpOptions,
}

#[derive(Clone)]
pub struct Runtime {
    pub(crate) inner: Arc<Inner>,
    tasks: TaskTracker,
}

/// The parts, and what lives only while the server runs.
pub(crate) struct Inner {
    parts: RuntimeParts,
    /// Of the agents of sessions that belong to no project. Nobody asks what those cost.
    pub facts: Arc<TeamFacts>,
    pub registry: Registry,
    pub spaces: Spaces,
    pub memories: Arc<Memories>,
    pub user_events: Arc<UserEvents>,
    /// What each user may have; the parts hold the limits only.
    pub user_shares: Arc<Shares>,
    pub chat: Arc<GlobalChat>,
    pub cluster: Arc<Cluster>,
    pub trials: Arc<Trials>,
    pub fork_slots: ForkSlots,
    pub session_keys: SessionKeys,
    /// No new work; owners finish the model call they are in.
    pub stopping: CancellationToken,
    /// Nothing more, at once.
    pub halted: CancellationToken,
}

impl Deref for Inner {
    type Target = RuntimeParts;

    fn deref(&self) -> &RuntimeParts {
        &self.parts
    }
}

/// What callers see of a session's state.
#[derive(Debug, Clone)]
pub struct SessionSummary {
    pub current_agent: AgentName,
    pub turn: Option<TurnStatus>,
    pub queued: u64,
}

impl Runtime {
    /// Registers the server and starts its timers; sessions come back when they are touched or due.
    pub async fn start(parts: RuntimeParts) -> Result<Self, JoinError> {
        let run = ServerRun::new(&parts.server_id);
        let asked_at = cluster::joined(&parts.store, &parts.cluster, &run.server_id).await?;
        parts.store.write_as(&run.server_id);
        let is_shared = parts.store.is_shared();
        let options = parts.cluster.clone();
        let cluster = Arc::new(Cluster::new(options, run, asked_at, is_shared));
        let memories = Arc::new(Memories::new(
            parts.memory.clone(),
            parts.store.clone(),
            Arc::clone(&parts.metrics),
            Some(Arc::clone(&cluster)),
        ));
        let shared = SharedParts {
            memories: Arc::clone(&memories),
            store: parts.store.clone(),
            cache: parts.cache.clone(),
            model: Arc::clone(&parts.model),
            default_model: parts.default_model.clone(),
            metrics: Arc::clone(&parts.metrics),
            limits: parts.bus,
            mcp: parts.mcp.clone(),
        };
        let lease = Arc::clone(&cluster.lease);
        let chat = GlobalChat::new(parts.chat, Arc::clone(&parts.metrics), lease);
        // Among several servers, the first one that is asked claims the Chat.
        if !cluster.is_among() {
            chat.begin(reserve_ids(&parts.store).await?, None);
        }
        let window = |model: &str| parts.model.window(model);
        let inner = Arc::new(Inner {
            facts: Arc::new(TeamFacts::new(
                &parts.team,
                &parts.default_model,
                |_| None,
                window,
            )),
            user_events: Arc::new(UserEvents::new(&parts.metrics)),
            user_shares: Shares::new(parts.shares, Arc::clone(&parts.metrics)),
            chat,
            cluster,
            trials: Arc::default(),
            fork_slots: ForkSlots::default(),
            session_keys: SessionKeys::default(),
            spaces: Spaces::new(shared),
            memories,
            parts,
            registry: Registry::default(),
            stopping: CancellationToken::new(),
            halted: CancellationToken::new(),
        });
        let tasks = TaskTracker::new();
        tasks.spawn(timers::deadlines(Arc::clone(&inner)));
        // Not among those that end when the server begins to stop.
        tokio::spawn(cluster::keep_lease(Arc::clone(&inner)));
        tasks.spawn(cluster::watch_servers(Arc::clone(&inner)));
        tasks.spawn(cluster::balance(Arc::clone(&inner)));
        tasks.spawn(timers::dead_servers(Arc::clone(&inner)));
        tasks.spawn(timers::retention(Arc::clone(&inner)));
        tasks.spawn(timers::spaces(Arc::clone(&inner)));
        tasks.spawn(keep_ids(Arc::clone(&inner)));
        tasks.spawn(adaptive_agent(Arc::clone(&inner)));
        tasks.spawn({
            let inner = Arc::clone(&inner);
            async move { inner.memories.run(&inner.stopping).await }
        });
        Ok(Self { inner, tasks })
    }

    /// Stops taking requests, lets model calls finish within `grace`, and leaves the rest to be
    /// resumed.
    pub async fn stop(&self, grace: Duration) {
        self.inner.registry.stop();
        self.inner.user_events.stop();
        self.inner.stopping.cancel();
        self.inner.leave().await;
        self.inner.chat.stop();
        self.tasks.close();
        let quiet = async {
            self.tasks.wait().await;
            while self.inner.registry.owners() > 0 {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        if tokio::time::timeout(grace, quiet).await.is_err() {
            let left = self.inner.registry.owners();
            tracing::warn!(
                left,
                "some sessions did not finish before the stop, they go on at the next start"
            );
        }
        self.inner.halted.cancel();
        // The row stays, so that the next run knows since when nobody was there.
        if let Err(error) = self
            .inner
            .store
            .end_server(&self.inner.cluster.server_id(), None)
            .await
        {
            tracing::warn!(%error, "the server's lease could not be ended");
        }
        self.inner.memories.close().await;
        self.inner.store.close().await;
    }

    pub fn store(&self) -> &Store {
        &self.inner.store
    }

    pub fn team(&self) -> &Team {
        &self.inner.team
    }

    pub fn metrics(&self) -> &Arc<Metrics> {
        &self.inner.metrics
    }

    /// How much of this server each user has.
    pub fn shares(&self) -> &Arc<Shares> {
        &self.inner.user_shares
    }

    /// The one global Chat.
    pub fn global_chat(&self) -> &Arc<GlobalChat> {
        &self.inner.chat
    }

    /// What is wrong with the memory engine, if anything.
    pub fn memory_problem(&self) -> Option<String> {
        self.inner.memories.problem()
    }

    pub fn cache_health(&self) -> CacheHealth {
        self.inner.cache.health()
    }

    pub fn model(&self) -> ModelDescription {
        self.inner.model.describe()
    }

    /// What the providers offer. Takes a few seconds at most.
    pub async fn models(&self) -> ModelList {
        self.inner.model.models().await
    }

    pub async fn user_message(
        &self,
        id: &SessionId,
        message: UserMessage,
    ) -> Result<Reader, RuntimeError> {
        self.submit(&name(id), Command::UserMessage(message)).await
    }

    pub async fn switch_agent(
        &self,
        id: &SessionId,
        agent: AgentName,
    ) -> Result<Reader, RuntimeError> {
        self.submit(&name(id), Command::SwitchAgent(agent)).await
    }

    pub async fn tool_result(
        &self,
        id: &SessionId,
        call_id: CallId,
        result: Value,
    ) -> Result<Reader, RuntimeError> {
        let (result, images) = crate::files::without_images(result);
        let result = Command::ToolResult {
            call_id,
            result,
            client: None,
            images,
        };
        self.submit(&name(id), result).await
    }

    pub async fn decide(
        &self,
        id: &SessionId,
        call_id: CallId,
        decision: Decision,
        digest: Option<Digest>,
        decided_by: String,
    ) -> Result<Reader, RuntimeError> {
        self.decide_in(&name(id), call_id, decision, (digest, None), decided_by)
            .await
    }

    /// Ends the current turn. The flag says whether there was one.
    pub async fn cancel(
        &self,
        id: &SessionId,
        drop_queue: bool,
    ) -> Result<(SessionSummary, bool), RuntimeError> {
        self.cancel_in(&name(id), drop_queue).await
    }

    pub async fn reset(&self, id: &SessionId) -> Result<SessionSummary, RuntimeError> {
        Ok(self.input(&name(id), Command::Reset).await?.view)
    }

    pub async fn create(
        &self,
        id: &SessionId,
        system_prompt: Option<String>,
    ) -> Result<SessionSummary, RuntimeError> {
        let new = NewSession {
            system_prompt,
            ..NewSession::default()
        };
        self.ask(&name(id), |reply| Mail::Create { new, reply })
            .await
    }

    pub async fn delete(&self, id: &SessionId, hard: bool) -> Result<(), RuntimeError> {
        self.ask(&name(id), |reply| Mail::Delete { hard, reply })
            .await
    }

    /// Brings a soft-deleted session back.
    pub async fn restore(&self, id: &SessionId) -> Result<SessionSummary, RuntimeError> {
        let row = self
            .inner
            .store
            .session(SessionKind::Runtime, id)
            .await?
            .ok_or(RuntimeError::SessionNotFound)?;
        self.inner
            .store
            .restore(row.key)
            .await
            .map_err(|error| match error {
                StoreError::NotFound => RuntimeError::SessionNotFound,
                other => other.into(),
            })?;
        let session = crate::state_of(&row)?;
        Ok(SessionSummary::of(&session))
    }

    /// A session that exists and is not deleted.
    pub async fn session(&self, id: &SessionId) -> Result<SessionRow, RuntimeError> {
        let row = self.inner.store.session(SessionKind::Runtime, id).await?;
        row.filter(|row| row.deleted_at.is_none())
            .ok_or(RuntimeError::SessionNotFound)
    }

    /// The same, after what an earlier server left behind has been recovered.
    pub async fn recovered_session(&self, id: &SessionId) -> Result<SessionRow, RuntimeError> {
        let row = self.session(id).await?;
        if self.recover(&name(id), &row).await? {
            self.session(id).await
        } else {
            Ok(row)
        }
    }

    /// The session's events after a number.
    pub async fn events(
        &self,
        id: &SessionId,
        after: u64,
        follow: bool,
    ) -> Result<Reader, RuntimeError> {
        let row = match follow && self.inner.cluster.is_among() {
            true => self.owned_session(id).await?,
            false => self.session(id).await?,
        };
        Ok(self.log_of(&name(id), &row, after, follow))
    }

    /// A session that this server owns. A reader of one that nobody owns would hear nothing of what
    /// another server does with it.
    async fn owned_session(&self, id: &SessionId) -> Result<SessionRow, RuntimeError> {
        let row = self.session(id).await?;
        if row.owner.as_deref() == Some(&*self.inner.cluster.server_id()) {
            return Ok(row);
        }
        let name = name(id);
        let touched = self.ask(&name, |reply| Mail::Touch { reply: Some(reply) });
        match tokio::time::timeout(CLAIM_WITHIN, touched).await {
            Ok(touched) => touched?,
            Err(_) => return Err(RuntimeError::Elsewhere),
        }
        self.session(id).await
    }

    pub(crate) async fn decide_in(
        &self,
        name: &SessionName,
        call_id: CallId,
        decision: Decision,
        (digest, base): (Option<Digest>, Option<FileBase>),
        decided_by: String,
    ) -> Result<Reader, RuntimeError> {
        let decided = match &decision {
            Decision::Approve { .. } => "approve",
            Decision::Edit { .. } => "edit",
            Decision::Reject { .. } => "reject",
        };
        let reader = self
            .submit(
                name,
                Command::Decision {
                    call_id,
                    decision,
                    digest,
                    base,
                    decided_by,
                },
            )
            .await?;
        Metrics::count(&self.inner.metrics.approvals, decided);
        Ok(reader)
    }

    pub(crate) async fn cancel_in(
        &self,
        name: &SessionName,
        drop_queue: bool,
    ) -> Result<(SessionSummary, bool), RuntimeError> {
        let accepted = self.input(name, Command::Cancel { drop_queue }).await?;
        Ok((accepted.view, accepted.answer != CallerAnswer::Nothing))
    }

    /// Recovers what an earlier server left of the session; says whether there was anything.
    pub(crate) async fn recover(
        &self,
        name: &SessionName,
        row: &SessionRow,
    ) -> Result<bool, RuntimeError> {
        let mine = row.owner.as_deref() == Some(&*self.inner.cluster.server_id());
        if mine || row.schedule == Schedule::default() {
            return Ok(false);
        }
        self.ask(name, |reply| Mail::Touch { reply: Some(reply) })
            .await?;
        Ok(true)
    }

    pub(crate) fn log_of(
        &self,
        name: &SessionName,
        row: &SessionRow,
        after: u64,
        follow: bool,
    ) -> Reader {
        let feed = self.inner.registry.feed(name);
        feed.found(row.key, row.last_seq, row.schedule == Schedule::default());
        feed.belongs_to(row.project_id);
        let open = OpenGauge::stream(&self.inner.metrics);
        Reader::of_log(self.reader_parts(open), feed, row, follow, after)
    }

    pub(crate) async fn submit(
        &self,
        name: &SessionName,
        input: Command,
    ) -> Result<Reader, RuntimeError> {
        // Taken before the input, so that the owner publishes into the same feed.
        let feed = self.inner.registry.feed(name);
        let accepted = self.input(name, input).await?;
        Ok(self.reader(feed, accepted.key, accepted.answer))
    }

    pub(crate) fn reader(&self, feed: Arc<Feed>, key: SessionKey, answer: CallerAnswer) -> Reader {
        let (scope, after) = match answer {
            CallerAnswer::Span(span)
            | CallerAnswer::Repeat(span)
            | CallerAnswer::Answered(span)
            | CallerAnswer::Steers(span) => (ReaderScope::Turn(span), span.after_seq),
            CallerAnswer::Now(status) => (ReaderScope::Status(status), 0),
            CallerAnswer::Nothing | CallerAnswer::Claimed => {
                (ReaderScope::Status(TurnStatus::Completed), 0)
            }
        };
        let open = OpenGauge::stream(&self.inner.metrics);
        Reader::new(self.reader_parts(open), feed, key, scope, after)
    }

    fn reader_parts(&self, open: OpenGauge) -> ReaderParts {
        ReaderParts {
            store: self.inner.store.clone(),
            lease: Arc::clone(&self.inner.cluster.lease),
            _open: open,
        }
    }

    pub(crate) async fn input(
        &self,
        name: &SessionName,
        input: Command,
    ) -> Result<Accepted, RuntimeError> {
        self.ask(name, |reply| Mail::Input { input, reply }).await
    }

    pub(crate) async fn ask<T>(
        &self,
        name: &SessionName,
        mail: impl FnOnce(ReplyTo<T>) -> Mail,
    ) -> Result<T, RuntimeError> {
        let (reply, answer) = oneshot::channel();
        self.inner.registry.send(&self.inner, name, mail(reply))?;
        // The owner answers everything it takes. It disappears without an answer only when the
        // server stops, or because of a bug.
        answer.await.unwrap_or(Err(RuntimeError::Stopping))
    }
}

impl Inner {
    pub fn count_input(&self, accepted: &Result<Accepted, RuntimeError>) {
        let outcome = match accepted {
            Ok(_) => "taken",
            Err(RuntimeError::Refused(refusal)) => refusal.code.as_str(),
            Err(RuntimeError::SessionNotFound) => "SESSION_NOT_FOUND",
            Err(_) => "error",
        };
        Metrics::count(&self.metrics.inputs, outcome);
    }
}

impl SessionSummary {
    pub(crate) fn of(session: &Session) -> Self {
        Self {
            current_agent: session.current_agent().clone(),
            turn: session.suspended(),
            queued: session.queued() as u64,
        }
    }
}

fn name(id: &SessionId) -> SessionName {
    SessionName {
        kind: SessionKind::Runtime,
        id: id.clone(),
    }
}

/// Runs to its end even if whoever asked hangs up.
pub(crate) async fn whole<T: Send + 'static>(
    task: impl Future<Output = T> + Send + 'static,
) -> Result<T, RuntimeError> {
    tokio::spawn(task).await.map_err(|_| RuntimeError::Stopping)
}
