//! What the handle and the task behind it share.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use codelab_protocol::{Digest, McpStatus};
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;

use super::ServerState;
use crate::connection::LiveServer;
use crate::limits::McpLimits;

/// Beyond the server's own limits, for the pause before a start.
const PATIENCE: Duration = Duration::from_secs(2);

pub struct Shared {
    pub state: watch::Sender<ServerState>,
    /// The present connection.
    pub live: watch::Sender<Option<Arc<LiveServer>>>,
    pub limits: McpLimits,
    pub stop: CancellationToken,
    /// Somebody needs the server.
    pub wake: Notify,
    /// How often the server was started.
    attempts: AtomicU64,
    pub challenge: watch::Sender<Option<String>>,
    calls: AtomicUsize,
    last_used: Mutex<Instant>,
    is_proven: AtomicBool,
}

/// A call under way. The server is not idle meanwhile.
pub struct Used<'a>(&'a Shared);

impl Drop for Used<'_> {
    fn drop(&mut self) {
        self.0.touch();
        self.0.calls.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Shared {
    pub fn new(state: watch::Sender<ServerState>, limits: McpLimits) -> Self {
        Self {
            state,
            live: watch::Sender::new(None),
            limits,
            stop: CancellationToken::new(),
            wake: Notify::new(),
            attempts: AtomicU64::new(0),
            challenge: watch::Sender::new(None),
            calls: AtomicUsize::new(0),
            last_used: Mutex::new(Instant::now()),
            is_proven: AtomicBool::new(false),
        }
    }

    pub fn begin_use(&self) -> Option<Used<'_>> {
        let used = Used(self);
        let before = self.calls.fetch_add(1, Ordering::AcqRel);
        self.touch();
        (before < self.limits.max_calls).then_some(used)
    }

    pub fn touch(&self) {
        // Nothing panics while it is held.
        let mut last_used = self
            .last_used
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        *last_used = Instant::now();
    }

    /// When the server counts as idle, if no call comes; `None` while one is under way.
    pub fn idle_at(&self) -> Option<Instant> {
        if self.calls.load(Ordering::Acquire) > 0 {
            return None;
        }
        let last_used = *self
            .last_used
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        Some(last_used + self.limits.idle_timeout)
    }

    pub fn note_challenge(&self, challenge: Option<String>) {
        if challenge.is_some() {
            self.challenge.send_replace(challenge);
        }
    }

    pub fn begin_attempt(&self) {
        self.attempts.fetch_add(1, Ordering::AcqRel);
    }

    /// A call succeeded, so the server is worth starting again.
    pub fn prove_useful(&self) {
        self.is_proven.store(true, Ordering::Relaxed);
    }

    pub fn take_proof(&self) -> bool {
        self.is_proven.swap(false, Ordering::Relaxed)
    }

    /// The connection, started if need be; else why there is none.
    pub async fn connected(&self) -> Result<Arc<LiveServer>, String> {
        let is_usable =
            |live: &Option<Arc<LiveServer>>| live.as_ref().is_some_and(|live| !live.is_over());
        if let Some(live) = self.live.borrow().clone()
            && !live.is_over()
        {
            return Ok(live);
        }
        let mut live = self.live.subscribe();
        let mut state = self.state.subscribe();
        // A failure that is already known says nothing about the start that is asked for here.
        let known = self.attempts.load(Ordering::Acquire);
        let is_starting = state.borrow_and_update().status == McpStatus::Starting;
        self.wake.notify_one();
        let limits = &self.limits;
        let limit = limits.handshake_timeout + limits.list_timeout + PATIENCE;
        let arrived = async {
            loop {
                tokio::select! {
                    found = live.wait_for(is_usable) => {
                        if let Ok(found) = found && let Some(found) = found.clone() {
                            return Ok(found);
                        }
                        return Err("the server was stopped".to_owned());
                    }
                    changed = state.changed() => {
                        let state = state.borrow_and_update();
                        let is_over = matches!(
                            state.status,
                            McpStatus::Failed | McpStatus::Unauthorized
                        );
                        let attempts = self.attempts.load(Ordering::Acquire);
                        let is_news = is_starting || attempts > known;
                        if changed.is_err() || (is_over && is_news) {
                            return Err(Self::why(&state));
                        }
                    }
                    () = self.stop.cancelled() => return Err("the server was stopped".to_owned()),
                }
            }
        };
        match timeout(limit, arrived).await {
            Ok(found) => found,
            Err(_) => Err(Self::why(&self.state.borrow())),
        }
    }

    fn why(state: &ServerState) -> String {
        let reason = state.error.as_deref().unwrap_or("it does not answer");
        format!("the server is not usable now: {reason}")
    }

    /// Whether the tool is what people and models saw.
    pub fn check(&self, tool: &str, definition: &Digest) -> Result<(), String> {
        let state = self.state.borrow();
        match state.tools.iter().find(|offered| offered.name == tool) {
            Some(offered) if offered.digest() == *definition => Ok(()),
            Some(_) => Err(
                "the server has changed the definition of the tool since it was offered".to_owned(),
            ),
            None => Err("the server no longer has the tool".to_owned()),
        }
    }
}
