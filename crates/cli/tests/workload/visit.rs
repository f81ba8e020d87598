//! The clients of one session during one run of the server: one that speaks, one that follows the
//! events and answers what they ask for, and any number that wait for an answer.

mod answer;
mod idle;
mod speak;

use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use codelab_client::{Client, ClientError, EventData, EventStream};
use codelab_fakemodel::FakeModel;
use codelab_protocol::{AgentStreamRequest, ChunkBody, ErrorCode, SessionId};
use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;

use crate::workload::ledger::{Answered, Ledger};
use crate::workload::plan::{Pace, Plan};
use crate::workload::rng::Rng;

/// How long a reader waits before it looks again for a session that nobody has made yet.
const MISSING_SESSION_PAUSE: Duration = Duration::from_millis(3);
/// How long a client waits before it sends again what a server could not answer.
const RETRY_PAUSE: Duration = Duration::from_millis(100);

/// How many of a hundred answers come so slowly that a fault finds them under way. Only where
/// there are several servers: of one server alone, some answers stall.
const SLOW: u64 = 35;

/// One session and its ledger, which outlives the server's runs.
pub struct Watched {
    pub id: SessionId,
    ledger: Mutex<Ledger>,
    /// Something was shown.
    pub changed: Notify,
    /// The newest request that was answered.
    served: Mutex<Option<Served>>,
}

/// When a request that was answered was sent, and when its answer came.
#[derive(Debug, Clone, Copy)]
pub struct Served {
    pub sent: Instant,
    pub answered: Instant,
}

impl Watched {
    pub fn new(id: SessionId) -> Self {
        Self {
            ledger: Mutex::new(Ledger::new(id.clone())),
            id,
            changed: Notify::new(),
            served: Mutex::default(),
        }
    }

    pub fn served(&self) -> Option<Served> {
        *self.served.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note_served(&self, sent: Instant) {
        let mut newest = self.served.lock().unwrap_or_else(PoisonError::into_inner);
        if newest.is_none_or(|newest| newest.sent < sent) {
            *newest = Some(Served {
                sent,
                answered: Instant::now(),
            });
        }
    }

    pub fn ledger(&self) -> MutexGuard<'_, Ledger> {
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Manner {
    /// New messages, cancels, switches and repeats; some questions are left open.
    Busy,
    /// Whatever is open is brought to its end, and nothing else is begun.
    Settling,
}

/// What stands between the clients and the session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// One server. When it is gone, the visit is over.
    OneServer,
    /// Several servers behind a load balancer. What one could not answer is sent again, and a
    /// stream that was cut is opened again after the last event seen.
    Balanced,
}

/// Clones are the same visit.
#[derive(Clone)]
pub struct Visit {
    pub watched: Arc<Watched>,
    pub client: Client,
    pub model: Arc<FakeModel>,
    pub manner: Manner,
    pub reach: Reach,
    over: Arc<watch::Sender<bool>>,
    /// Answers under way.
    answering: Arc<AtomicUsize>,
}

impl Visit {
    pub fn new(
        watched: Arc<Watched>,
        client: Client,
        model: Arc<FakeModel>,
        manner: Manner,
        reach: Reach,
    ) -> Self {
        let over = Arc::new(watch::Sender::new(false));
        Self {
            watched,
            client,
            model,
            manner,
            reach,
            over,
            answering: Arc::default(),
        }
    }

    /// All clients of the session, until the server is gone or the visit is ended.
    pub async fn run(self, mut rng: Rng) {
        let mut tasks = JoinSet::new();
        if self.settles() {
            // Before anything is answered, so that a session without open answers is one to which
            // nothing more comes.
            self.send_again(&mut rng).await;
        }
        let open = self.watched.ledger().open();
        if let Some(open) = open {
            self.answer(open, &mut rng, &mut tasks);
        }
        let (follower, mut following) = (self.clone(), Rng::of(&[rng.next()]));
        tasks.spawn(async move { follower.follow(&mut following).await });
        match self.manner {
            Manner::Busy => self.speak(&mut rng, &mut tasks).await,
            Manner::Settling => self.wait_until_idle().await,
        }
        self.ended().await;
        self.join(tasks).await;
    }

    async fn join(&self, mut tasks: JoinSet<()>) {
        while let Some(ended) = tasks.join_next().await {
            if let Err(error) = ended {
                self.watched
                    .ledger()
                    .violate(format!("a client broke: {error}"));
            }
        }
    }

    pub fn end(&self) {
        self.over.send_replace(true);
    }

    pub fn is_over(&self) -> bool {
        *self.over.borrow()
    }

    async fn ended(&self) {
        let mut over = self.over.subscribe();
        let _kept_alive_by_self = over.wait_for(|over| *over).await;
    }

    fn settles(&self) -> bool {
        self.manner == Manner::Settling
    }

    /// A new message with its script, taught to the model before anybody can ask for it.
    fn new_message(&self, rng: &mut Rng) -> usize {
        let mut ledger = self.watched.ledger();
        let label = format!("{}-m{}", ledger.session, ledger.messages.len());
        let plan = match self.settles() {
            true => Plan {
                label,
                steps: vec![crate::workload::plan::Step::Say],
            },
            false => Plan::random(label, rng),
        };
        let is_slow = self.reach == Reach::Balanced && rng.percent(SLOW);
        let pace = if is_slow { Pace::Slow } else { Pace::Quick };
        plan.teach(&self.model, pace);
        ledger.add_message(plan)
    }

    /// Sends a request and says what became of it. The stream is there when it was taken.
    async fn send(&self, request: &AgentStreamRequest) -> (Answered, Option<EventStream>) {
        let sent = Instant::now();
        let (answered, stream) = match self.client.send(request).await {
            Ok(stream) => (Answered::Taken, Some(stream)),
            Err(error) => (self.refused(&error), None),
        };
        if answered != Answered::Lost {
            self.watched.note_served(sent);
        }
        (answered, stream)
    }

    fn refused(&self, error: &ClientError) -> Answered {
        match error {
            ClientError::Status { status, .. } if *status < 500 => {
                Answered::Refused(*status, error.error_code())
            }
            ClientError::Connect(_) | ClientError::Cut(_) if self.reach == Reach::OneServer => {
                self.end();
                Answered::Lost
            }
            _ if self.reach == Reach::Balanced && may_be_retried(error) => {
                self.watched.ledger().note_trouble(error);
                Answered::Lost
            }
            _ => {
                self.watched
                    .ledger()
                    .violate(format!("a request failed: {error}"));
                self.end();
                Answered::Lost
            }
        }
    }

    /// Whether a request without an answer is to be sent again; waits a moment before it is.
    async fn tries_again(&self, answered: Answered) -> bool {
        if answered != Answered::Lost || self.reach == Reach::OneServer {
            return false;
        }
        tokio::select! {
            () = tokio::time::sleep(RETRY_PAUSE) => {}
            () = self.ended() => {}
        }
        !self.is_over()
    }

    /// Reads the stream of a request to its end, if the visit lasts that long.
    async fn read(&self, mut stream: EventStream) {
        let mut last = 0;
        loop {
            let event = tokio::select! {
                event = stream.next() => event,
                () = self.ended() => return,
            };
            match event {
                None => return,
                Some(Ok(event)) => {
                    if let Some(id) = self.record(event.id, &event.data) {
                        if id <= last {
                            self.watched
                                .ledger()
                                .violate(format!("a stream showed event {id} after {last}"));
                        }
                        last = id;
                    }
                }
                Some(Err(error)) => {
                    self.refused(&error);
                    return;
                }
            }
        }
    }

    /// Takes down one event; the number of a stored one is given back.
    fn record(&self, id: Option<u64>, data: &EventData) -> Option<u64> {
        let mut ledger = self.watched.ledger();
        match (id, data) {
            (Some(id), EventData::Chunk(chunk)) if !matches!(chunk.body, ChunkBody::Gap(_)) => {
                ledger.saw(id, chunk);
                drop(ledger);
                self.watched.changed.notify_waiters();
                return Some(id);
            }
            (None, EventData::Chunk(chunk))
                if matches!(
                    chunk.body,
                    ChunkBody::AssistantDelta(_) | ChunkBody::ReasoningDelta(_)
                ) => {}
            (None, EventData::Done(_)) => {}
            (None, EventData::Chunk(chunk))
                if self.reach == Reach::Balanced && is_outage(&chunk.body) =>
            {
                *ledger
                    .trouble
                    .entry("a stream told of an outage".to_owned())
                    .or_default() += 1;
            }
            (id, other) => {
                ledger.violate(format!("a stream showed {other:?} with the number {id:?}"))
            }
        }
        None
    }

    /// Follows the session's events from where the ledger stands, and answers what they ask for.
    async fn follow(&self, rng: &mut Rng) {
        let mut tasks = JoinSet::new();
        while let Some(stream) = self.open_events().await {
            self.follow_stream(stream, rng, &mut tasks).await;
            if !self.tries_again(Answered::Lost).await {
                break;
            }
        }
        self.ended().await;
        self.join(tasks).await;
    }

    async fn open_events(&self) -> Option<EventStream> {
        while !self.is_over() {
            let (after, exists) = {
                let ledger = self.watched.ledger();
                (ledger.contiguous(), ledger.exists())
            };
            match self
                .client
                .events(&self.watched.id, Some(after), true)
                .await
            {
                Ok(stream) => return Some(stream),
                Err(ClientError::Status { status: 404, .. }) if !exists => {
                    tokio::time::sleep(MISSING_SESSION_PAUSE).await
                }
                Err(error) => match self.refused(&error) {
                    Answered::Refused(status, code) => {
                        self.watched
                            .ledger()
                            .violate(format!("the events were refused: {status} {code:?}"));
                        return None;
                    }
                    lost if self.tries_again(lost).await => {}
                    Answered::Taken | Answered::Lost => return None,
                },
            }
        }
        None
    }

    async fn follow_stream(&self, mut stream: EventStream, rng: &mut Rng, tasks: &mut JoinSet<()>) {
        let mut next = self.watched.ledger().contiguous() + 1;
        let mut first = true;
        loop {
            let event = tokio::select! {
                event = stream.next() => event,
                () = self.ended() => return,
            };
            let event = match event {
                None if self.reach == Reach::Balanced => {
                    return self.watched.ledger().note_cut("it ended");
                }
                None => {
                    return self
                        .watched
                        .ledger()
                        .violate("a stream that follows ended by itself");
                }
                Some(Err(error)) => {
                    self.watched.ledger().note_cut(&error);
                    self.refused(&error);
                    return;
                }
                Some(Ok(event)) => event,
            };
            let Some(id) = self.record(event.id, &event.data) else {
                continue;
            };
            // Other readers may have filled the ledger further since the stream was asked for.
            let is_next = if first { id <= next } else { id == next };
            if !is_next {
                self.watched.ledger().violate(format!(
                    "a reader of all events was shown {id} instead of {next}"
                ));
            }
            first = false;
            next = id + 1;
            let EventData::Chunk(chunk) = &event.data else {
                continue;
            };
            if let Some(open) = opened_by(&chunk.body) {
                self.answer(open, rng, tasks);
            }
        }
    }
}

/// Whether a client that talks to several servers sends this again: nobody could be reached, the
/// answer was cut (the load balancer then says 502), or the server says that it cannot answer now.
pub fn may_be_retried(error: &ClientError) -> bool {
    match error {
        ClientError::Connect(_) | ClientError::Cut(_) => true,
        ClientError::Status { status: 503, .. } => true,
        ClientError::Status { status, body, .. } => *status == 502 && body.is_none(),
        ClientError::Timeout { .. } | ClientError::Invalid(_) => false,
    }
}

/// A stream ends so when the outcome of a turn cannot be stored now, or events cannot be read. Its
/// reader resumes.
fn is_outage(body: &ChunkBody) -> bool {
    let codes = [ErrorCode::DbConnectionError, ErrorCode::DbReadError];
    matches!(body, ChunkBody::Error(error) if codes.contains(&error.error_code))
}

fn opened_by(body: &ChunkBody) -> Option<crate::workload::ledger::Open> {
    use crate::workload::ledger::Open;
    match body {
        ChunkBody::ToolCall(call) if call.requires_approval => {
            Some(Open::Approval(call.tool_call.call_id.clone()))
        }
        ChunkBody::ToolCall(call) => Some(Open::Result(call.tool_call.call_id.clone())),
        ChunkBody::Question(_) => Some(Open::Question),
        _ => None,
    }
}

fn blank(session: &SessionId) -> AgentStreamRequest {
    AgentStreamRequest {
        session_id: session.clone(),
        message_type: None,
        message: None,
        agent_type: None,
        tool_call_id: None,
        tool_result: None,
        hitl_decision: None,
        client_message_id: None,
        context: None,
    }
}
