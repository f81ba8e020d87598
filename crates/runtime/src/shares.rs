//! How much of this server one user may have, so that the others get theirs: requests, sessions,
//! turns, model calls and streams of a user id. Whoever holds the internal key is no user and is
//! not counted.
//!
//! What is refused is said with the setting that bounds it. A model call is not refused: it waits
//! for its turn.

mod bucket;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use codelab_engine::Refusal;
use codelab_protocol::{ErrorCode, SessionId, UserId};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

use self::bucket::Bucket;
use crate::metrics::{Metrics, OpenGauge};

/// Each for one user at one server; 0 = as much as there is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ShareLimits {
    pub sessions_per_minute: u32,
    /// Turns that work at the same time. One that waits for somebody costs nothing and does not
    /// count.
    pub turns: usize,
    pub model_calls: usize,
    pub streams: usize,
    pub requests_per_second: u32,
}

impl Default for ShareLimits {
    fn default() -> Self {
        Self {
            sessions_per_minute: 600,
            turns: 200,
            model_calls: 200,
            streams: 500,
            requests_per_second: 200,
        }
    }
}

/// Reading requests of one user that are answered at the same time. The others wait for them, so that
/// large lists of one user leave the database and the processors to everybody else.
const MAX_READS: usize = 8;
/// Those that are answered, and those that wait.
const MAX_OPEN_READS: usize = 72;

const MODEL_TRIALS_PER_MINUTE: u32 = 10;

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);
/// What a user has too many of ends by itself, nobody knows when.
const ASK_AGAIN_SECONDS: u64 = 1;

pub struct Shares {
    limits: ShareLimits,
    metrics: Arc<Metrics>,
    users: Mutex<HashMap<UserId, Share>>,
}

/// What one user has at this moment.
struct Share {
    requests: Bucket,
    sessions: Bucket,
    model_trials: Bucket,
    streams: usize,
    turns: HashMap<SessionId, Turns>,
    model_calls: Option<Arc<Semaphore>>,
    reads: Arc<Semaphore>,
    open_reads: Arc<Semaphore>,
}

/// Why a session counts as one that works.
#[derive(Default)]
struct Turns {
    /// Messages that are on their way to its owner.
    coming: usize,
    works: bool,
}

impl Shares {
    pub fn new(limits: ShareLimits, metrics: Arc<Metrics>) -> Arc<Self> {
        Arc::new(Self {
            limits,
            metrics,
            users: Mutex::default(),
        })
    }

    /// Counts a request.
    pub fn request(&self, user: UserId) -> Result<(), Refusal> {
        let limit = self.limits.requests_per_second;
        let taken = limit == 0
            || self.with(user, |share| {
                share.requests.take(limit, SECOND, Instant::now())
            });
        self.allowed(
            taken,
            "requests",
            "limits.user_requests_per_second",
            limit.into(),
            ASK_AGAIN_SECONDS,
        )
    }

    /// Counts a session that is about to be made.
    pub fn session(&self, user: UserId) -> Result<(), Refusal> {
        let limit = self.limits.sessions_per_minute;
        let taken = limit == 0
            || self.with(user, |share| {
                share.sessions.take(limit, MINUTE, Instant::now())
            });
        let wait_seconds = MINUTE.as_secs().div_ceil(u64::from(limit.max(1)));
        self.allowed(
            taken,
            "sessions",
            "limits.user_sessions_per_minute",
            limit.into(),
            wait_seconds,
        )
    }

    /// Counts a model that a person is about to try. Each costs a call, and no budget bounds it.
    pub(crate) fn model_trial(&self, user: UserId) -> Result<(), Refusal> {
        let taken = self.with(user, |share| {
            share
                .model_trials
                .take(MODEL_TRIALS_PER_MINUTE, MINUTE, Instant::now())
        });
        if taken {
            return Ok(());
        }
        Metrics::count(&self.metrics.user_refusals, "model trials");
        let message =
            format!("Too many models are tried: at most {MODEL_TRIALS_PER_MINUTE} in a minute");
        let wait_seconds = MINUTE.as_secs() / u64::from(MODEL_TRIALS_PER_MINUTE);
        let refusal = Refusal::new(ErrorCode::RateLimited, message);
        Err(refusal.with("retry_after_seconds", wait_seconds))
    }

    /// Room for one more stream, until it is dropped.
    pub fn stream(self: &Arc<Self>, user: UserId) -> Result<StreamSlot, Refusal> {
        let limit = self.limits.streams;
        let taken = self.with(user, |share| {
            let is_room = limit == 0 || share.streams < limit;
            share.streams += usize::from(is_room);
            is_room
        });
        self.allowed(
            taken,
            "streams",
            "limits.user_streams",
            limit as u64,
            ASK_AGAIN_SECONDS,
        )?;
        Ok(StreamSlot {
            shares: Arc::clone(self),
            user,
        })
    }

    /// Room for a turn of this session. One that works already has it: its message queues there.
    pub(crate) fn turn(
        self: &Arc<Self>,
        user: UserId,
        session: &SessionId,
    ) -> Result<TurnSlot, Refusal> {
        let limit = self.limits.turns;
        let taken = self.with(user, |share| {
            let is_room =
                limit == 0 || share.turns.len() < limit || share.turns.contains_key(session);
            if is_room {
                share.turns.entry(session.clone()).or_default().coming += 1;
            }
            is_room
        });
        self.allowed(
            taken,
            "turns",
            "limits.user_turns",
            limit as u64,
            ASK_AGAIN_SECONDS,
        )?;
        Ok(TurnSlot {
            shares: Arc::clone(self),
            user,
            session: session.clone(),
        })
    }

    /// Whether the session has a turn that works; its owner says so after every step.
    pub(crate) fn works(&self, user: UserId, session: &SessionId, works: bool) {
        let mut users = self.lock();
        if !works && !users.contains_key(&user) {
            return;
        }
        let share = users
            .entry(user)
            .or_insert_with(|| Share::new(&self.limits));
        share.change_turns(session, |turns| turns.works = works);
    }

    /// Room for a model call at once; `None` where it must wait.
    pub(crate) fn model_call_now(&self, user: UserId) -> Option<ModelSlot> {
        let Some(calls) = self.model_calls(user) else {
            return Some(ModelSlot(None));
        };
        calls
            .try_acquire_owned()
            .ok()
            .map(|permit| ModelSlot(Some(permit)))
    }

    /// Waits for room for a model call; calls get it in the order in which they asked.
    pub(crate) async fn model_call(&self, user: UserId) -> ModelSlot {
        let _waits = OpenGauge::waiting_model_call(&self.metrics);
        match self.model_calls(user) {
            // It is never closed.
            Some(calls) => ModelSlot(calls.acquire_owned().await.ok()),
            None => ModelSlot(None),
        }
    }

    /// Waits until a request that only reads may be answered; they are answered in order.
    pub async fn read(&self, user: UserId) -> Result<ReadSlot, Refusal> {
        let (reads, open) = self.with(user, |share| {
            (Arc::clone(&share.reads), Arc::clone(&share.open_reads))
        });
        let Ok(open) = open.try_acquire_owned() else {
            Metrics::count(&self.metrics.user_refusals, "reads");
            let message = format!(
                "Too many requests of this user wait for an answer: at most {MAX_OPEN_READS} do"
            );
            let refusal = Refusal::new(ErrorCode::RateLimited, message);
            return Err(refusal.with("retry_after_seconds", ASK_AGAIN_SECONDS));
        };
        // It is never closed.
        let answered = reads.acquire_owned().await.ok();
        Ok(ReadSlot(answered, open))
    }

    /// Forgets users who have nothing here.
    pub(crate) fn sweep(&self) {
        let now = Instant::now();
        let limits = &self.limits;
        self.lock().retain(|_, share| !share.is_idle(limits, now));
    }

    fn model_calls(&self, user: UserId) -> Option<Arc<Semaphore>> {
        self.with(user, |share| share.model_calls.clone())
    }

    fn allowed(
        &self,
        is_allowed: bool,
        what: &str,
        setting: &str,
        limit: u64,
        wait_seconds: u64,
    ) -> Result<(), Refusal> {
        if is_allowed {
            return Ok(());
        }
        Metrics::count(&self.metrics.user_refusals, what);
        let message = format!("Too many {what} of this user: {setting} is {limit}");
        let refusal = Refusal::new(ErrorCode::RateLimited, message)
            .with("setting", setting)
            .with("limit", limit);
        Err(refusal.with("retry_after_seconds", wait_seconds))
    }

    fn with<T>(&self, user: UserId, change: impl FnOnce(&mut Share) -> T) -> T {
        change(
            self.lock()
                .entry(user)
                .or_insert_with(|| Share::new(&self.limits)),
        )
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<UserId, Share>> {
        // No code that holds this lock can leave a share half-changed.
        self.users.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Share {
    fn new(limits: &ShareLimits) -> Self {
        Self {
            requests: Bucket::default(),
            sessions: Bucket::default(),
            model_trials: Bucket::default(),
            streams: 0,
            turns: HashMap::new(),
            model_calls: (limits.model_calls > 0)
                .then(|| Arc::new(Semaphore::new(limits.model_calls))),
            reads: Arc::new(Semaphore::new(MAX_READS)),
            open_reads: Arc::new(Semaphore::new(MAX_OPEN_READS)),
        }
    }

    fn change_turns(&mut self, session: &SessionId, change: impl FnOnce(&mut Turns)) {
        let turns = self.turns.entry(session.clone()).or_default();
        change(turns);
        if turns.coming == 0 && !turns.works {
            self.turns.remove(session);
        }
    }

    fn is_idle(&self, limits: &ShareLimits, now: Instant) -> bool {
        // Whoever calls a model, or waits for it, shares the semaphore.
        let calls = self.model_calls.as_ref().is_some_and(|calls| {
            Arc::strong_count(calls) > 1 || calls.available_permits() < limits.model_calls
        });
        let reads = Arc::strong_count(&self.open_reads) > 1
            || self.open_reads.available_permits() < MAX_OPEN_READS;
        let is_full = |bucket: &Bucket, time| bucket.is_full(time, now);
        !calls
            && !reads
            && self.streams == 0
            && self.turns.is_empty()
            && is_full(&self.requests, SECOND)
            && is_full(&self.sessions, MINUTE)
    }
}

/// One of a user's streams, for as long as this lives.
pub struct StreamSlot {
    shares: Arc<Shares>,
    user: UserId,
}

impl Drop for StreamSlot {
    fn drop(&mut self) {
        self.shares.with(self.user, |share| {
            share.streams = share.streams.saturating_sub(1)
        });
    }
}

/// A message on its way to a session; from then on the session's owner says whether it works.
pub(crate) struct TurnSlot {
    shares: Arc<Shares>,
    user: UserId,
    session: SessionId,
}

impl Drop for TurnSlot {
    fn drop(&mut self) {
        let leave = |turns: &mut Turns| turns.coming = turns.coming.saturating_sub(1);
        self.shares
            .with(self.user, |share| share.change_turns(&self.session, leave));
    }
}

/// A reading request that is being answered, for as long as this lives.
pub struct ReadSlot(
    #[expect(dead_code, reason = "dropping it makes room")] Option<OwnedSemaphorePermit>,
    #[expect(dead_code, reason = "dropping it makes room")] OwnedSemaphorePermit,
);

/// One of a user's model calls, for as long as this lives.
pub(crate) struct ModelSlot(
    #[expect(dead_code, reason = "dropping it makes room")] Option<OwnedSemaphorePermit>,
);

impl ModelSlot {
    /// For calls that are nobody's.
    pub fn of_nobody() -> Self {
        Self(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shares(limits: ShareLimits) -> Arc<Shares> {
        Shares::new(limits, Metrics::new())
    }

    fn user(number: i64) -> UserId {
        UserId::new(number).expect("a user")
    }

    fn session(name: &str) -> SessionId {
        SessionId::parse(name).expect("a session")
    }

    #[tokio::test(start_paused = true)]
    async fn requests_come_back_with_time_and_each_user_has_their_own() {
        let shares = shares(ShareLimits {
            requests_per_second: 3,
            sessions_per_minute: 2,
            ..ShareLimits::default()
        });
        for _ in 0..3 {
            assert!(shares.request(user(1)).is_ok());
        }
        let refused = shares
            .request(user(1))
            .expect_err("a fourth one is too many");
        assert_eq!(refused.code, ErrorCode::RateLimited);
        assert_eq!(
            refused.details["setting"],
            "limits.user_requests_per_second"
        );
        assert_eq!(refused.details["retry_after_seconds"], 1);
        assert!(
            shares.request(user(2)).is_ok(),
            "another user is not touched"
        );
        tokio::time::advance(Duration::from_millis(350)).await;
        assert!(shares.request(user(1)).is_ok() && shares.request(user(1)).is_err());

        assert!(shares.session(user(1)).is_ok() && shares.session(user(1)).is_ok());
        let refused = shares
            .session(user(1))
            .expect_err("a third one is too many");
        assert_eq!(refused.details["retry_after_seconds"], 30);
        tokio::time::advance(Duration::from_secs(31)).await;
        assert!(shares.session(user(1)).is_ok());
        tokio::time::advance(Duration::from_secs(61)).await;
        shares.sweep();
        assert!(
            shares.lock().is_empty(),
            "users who have nothing here are forgotten"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn one_users_reading_leaves_room_for_others() {
        let shares = shares(ShareLimits::default());
        let mut reads = Vec::new();
        for _ in 0..MAX_READS {
            reads.push(shares.read(user(1)).await.expect("room"));
        }
        let soon = Duration::from_secs(1);
        let read = |number| tokio::time::timeout(soon, shares.read(user(number)));
        assert!(read(1).await.is_err(), "one more waits");
        assert!(read(2).await.is_ok(), "another user does not");
        reads.pop();
        reads.push(shares.read(user(1)).await.expect("room again"));

        let mut waiting = tokio::task::JoinSet::new();
        for _ in MAX_READS..MAX_OPEN_READS {
            let shares = Arc::clone(&shares);
            waiting.spawn(async move { shares.read(user(1)).await.is_ok() });
        }
        while shares.with(user(1), |share| share.open_reads.available_permits()) > 0 {
            tokio::task::yield_now().await;
        }
        let refused = read(1).await.expect("at once").err();
        let refused = refused.expect("too many wait");
        assert_eq!(refused.code, ErrorCode::RateLimited);
        drop(reads);
        assert!(waiting.join_all().await.into_iter().all(|is_ok| is_ok));
        shares.sweep();
        assert!(shares.lock().is_empty());
    }

    #[tokio::test]
    async fn a_session_counts_once_while_it_works_or_a_message_is_on_its_way() {
        let shares = shares(ShareLimits {
            turns: 2,
            ..ShareLimits::default()
        });
        let (a, b, c) = (session("a"), session("b"), session("c"));
        let coming = shares.turn(user(1), &a).expect("room");
        shares.works(user(1), &a, true);
        drop(coming);
        let refused = shares.turn(user(1), &b).expect("room");
        assert!(
            shares.turn(user(1), &a).is_ok(),
            "what works already may get another message"
        );
        assert!(shares.turn(user(1), &c).is_err());
        // The message was not accepted.
        drop(refused);
        assert!(shares.turn(user(1), &c).is_ok());
        shares.works(user(1), &a, false);
        shares.works(user(2), &a, false);
        shares.sweep();
        assert!(shares.lock().values().all(|share| share.turns.is_empty()));
    }

    #[tokio::test]
    async fn a_model_call_beyond_the_share_waits_for_one_to_end() {
        let shares = shares(ShareLimits {
            model_calls: 1,
            ..ShareLimits::default()
        });
        let first = shares.model_call_now(user(1)).expect("room");
        assert!(shares.model_call_now(user(1)).is_none());
        assert!(
            shares.model_call_now(user(2)).is_some(),
            "another user is not touched"
        );
        let waiting = tokio::spawn({
            let shares = Arc::clone(&shares);
            async move { drop(shares.model_call(user(1)).await) }
        });
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished());
        shares.sweep();
        drop(first);
        waiting.await.expect("it gets its turn");
        let endless = Shares::new(
            ShareLimits {
                model_calls: 0,
                ..ShareLimits::default()
            },
            Metrics::new(),
        );
        assert!((0..1000).all(|_| endless.model_call_now(user(1)).is_some()));
    }
}
