//! A user with a session of a project: one who speaks and decides, and the tool runner of the same
//! user. Nothing is cancelled, so that every message that was acknowledged must be worked on to
//! its end.

mod found;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use codelab_client::{Client, ClientError, EventData, FollowUntil, ResumingEvents};
use codelab_fakemodel::FakeModel;
use codelab_protocol::{
    AttachClient, CallId, CallResult, ClientId, ClientMessageId, CreateProjectSession, ErrorCode,
    HitlDecision, ProjectId, SandboxKind, SendMessage, SessionEvent, SessionEventBody, SessionId,
};
use serde_json::Value;
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::workload::ledger::{Answered, Ledger, Outcome, result_of};
use crate::workload::plan::{Pace, Plan, Step};
use crate::workload::rng::Rng;
use crate::workload::visit::may_be_retried;

const MAX_NEW_MESSAGES: u64 = 3;
const MAX_PAUSE_MS: u64 = 400;
const RETRY_PAUSE: Duration = Duration::from_millis(100);
const LOOK_AGAIN: Duration = Duration::from_millis(200);
const SLOW: u64 = 35;

pub struct Person {
    pub user: i64,
    pub session: SessionId,
    client: Client,
    project: ProjectId,
    runner: ClientId,
    model: Arc<FakeModel>,
    book: Mutex<Book>,
    over: watch::Sender<bool>,
}

/// What is sent about a tool call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Answer {
    Claim,
    Result,
    Approval,
}

impl Answer {
    fn name(self) -> &'static str {
        match self {
            Self::Claim => "a claim",
            Self::Result => "a result",
            Self::Approval => "a decision",
        }
    }
}

/// What was sent, and what was seen of it.
struct Book {
    ledger: Ledger,
    events: BTreeMap<u64, SessionEvent>,
    /// Calls without an acknowledged result.
    open_calls: BTreeSet<CallId>,
    open_approvals: BTreeSet<CallId>,
    /// Calls with an acknowledged result.
    answered: BTreeSet<CallId>,
}

impl Person {
    pub async fn new(user: i64, client: Client, model: Arc<FakeModel>) -> Result<Self, String> {
        let made = client
            .create_project_session(&CreateProjectSession::default())
            .await
            .map_err(|error| format!("user {user} has no session: {error}"))?;
        let person = Self {
            user,
            session: made.session_id.clone(),
            client,
            project: made.project_id,
            runner: ClientId::parse(&format!("runner-{user}")).unwrap(),
            model,
            book: Mutex::new(Book {
                ledger: Ledger::new(made.session_id),
                events: BTreeMap::new(),
                open_calls: BTreeSet::new(),
                open_approvals: BTreeSet::new(),
                answered: BTreeSet::new(),
            }),
            over: watch::Sender::new(false),
        };
        let attached = person.attach().await;
        attached.map_err(|error| format!("user {user} cannot attach: {error}"))?;
        Ok(person)
    }

    fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn violations(&self) -> Vec<String> {
        self.book().ledger.violations.clone()
    }

    pub fn plans(&self) -> Vec<Plan> {
        let book = self.book();
        let plans = book.ledger.messages.iter().map(|sent| sent.plan.clone());
        plans.collect()
    }

    pub fn trouble(&self) -> BTreeMap<String, u64> {
        self.book().ledger.trouble.clone()
    }

    /// The tool runner says that it is there.
    pub async fn attach(&self) -> Result<(), ClientError> {
        let body = AttachClient {
            client_id: self.runner.clone(),
            workspace: "/srv/shop".to_owned(),
            sandbox: SandboxKind::None,
            mcp: None,
            instructions: None,
        };
        self.client.attach_client(self.project, &body).await?;
        Ok(())
    }

    /// New messages and repeats, until `end`.
    pub async fn busy(self: Arc<Self>, mut rng: Rng) {
        self.over.send_replace(false);
        let mut tasks = self.begin();
        self.send_again().await;
        let mut left = MAX_NEW_MESSAGES;
        while !self.is_over() {
            let pause = Duration::from_millis(rng.below(MAX_PAUSE_MS));
            let choice = rng.below(100);
            self.wait(pause).await;
            match choice {
                0..60 if left > 0 => {
                    left -= 1;
                    let number = self.new_message(&mut rng);
                    self.say(number).await;
                }
                60..85 => {
                    let count = self.book().ledger.messages.len() as u64;
                    if count > 0 {
                        self.say(rng.below(count) as usize).await;
                    }
                }
                _ => {}
            }
        }
        self.join(&mut tasks).await;
    }

    /// Until everything that was begun has come to its end, or `end`.
    pub async fn settle(self: Arc<Self>) {
        self.over.send_replace(false);
        let mut tasks = self.begin();
        while !self.is_over() {
            // Again and again: the queue may have been full.
            self.send_again().await;
            let is_whole = self.found().await.is_ok_and(|problems| problems.is_empty());
            if is_whole && self.unknown().is_empty() {
                self.end();
            }
            self.wait(LOOK_AGAIN).await;
        }
        self.join(&mut tasks).await;
    }

    pub fn end(&self) {
        self.over.send_replace(true);
    }

    fn is_over(&self) -> bool {
        *self.over.borrow()
    }

    async fn ended(&self) {
        let mut over = self.over.subscribe();
        let _kept_alive_by_self = over.wait_for(|over| *over).await;
    }

    async fn wait(&self, time: Duration) {
        tokio::select! {
            () = tokio::time::sleep(time) => {}
            () = self.ended() => {}
        }
    }

    async fn join(&self, tasks: &mut JoinSet<()>) {
        while let Some(ended) = tasks.join_next().await {
            if let Err(error) = ended {
                self.violate(format!("a client broke: {error}"));
            }
        }
    }

    fn violate(&self, what: String) {
        self.book().ledger.violate(what);
    }

    /// Starts the reader, and takes up what an earlier visit left open.
    fn begin(self: &Arc<Self>) -> JoinSet<()> {
        let mut tasks = JoinSet::new();
        let (calls, approvals) = {
            let book = self.book();
            (book.open_calls.clone(), book.open_approvals.clone())
        };
        for call in calls {
            tasks.spawn(Arc::clone(self).run_call(call));
        }
        for call in approvals {
            tasks.spawn(Arc::clone(self).approve(call));
        }
        tasks.spawn(Arc::clone(self).follow());
        tasks
    }

    /// What a request came to. Nothing is said of an error after which it is sent again.
    fn refused(&self, what: &str, error: &ClientError) -> Answered {
        match error {
            ClientError::Status { status, .. } if *status < 500 => {
                Answered::Refused(*status, error.error_code())
            }
            _ if may_be_retried(error) => {
                self.book().ledger.note_trouble(error);
                Answered::Lost
            }
            _ => {
                self.violate(format!("{what} failed: {error}"));
                self.end();
                Answered::Lost
            }
        }
    }

    async fn send_again(&self) {
        for number in self.unknown() {
            self.say(number).await;
        }
    }

    /// Messages of which nobody knows whether they were taken.
    pub fn unknown(&self) -> Vec<usize> {
        let book = self.book();
        let sent = book.ledger.messages.iter().enumerate();
        sent.filter(|(_, sent)| sent.outcome() == Outcome::Unknown)
            .map(|(number, _)| number)
            .collect()
    }

    fn new_message(&self, rng: &mut Rng) -> usize {
        let mut book = self.book();
        let label = format!("{}-m{}", self.session, book.ledger.messages.len());
        let work = rng.below(3);
        let mut steps: Vec<Step> = (0..work)
            .map(|_| rng.pick(&[Step::Read, Step::Write]))
            .collect();
        steps.push(Step::Say);
        let plan = Plan { label, steps };
        let pace = if rng.percent(SLOW) {
            Pace::Slow
        } else {
            Pace::Quick
        };
        plan.teach(&self.model, pace);
        book.ledger.add_message(plan)
    }

    async fn say(&self, number: usize) {
        loop {
            let (attempt, message) = {
                let mut book = self.book();
                let attempt = book.ledger.begin_message(number);
                let plan = &book.ledger.messages[number].plan;
                let message = SendMessage {
                    content: Some(plan.text()),
                    target_agent: Some("coder".to_owned()),
                    client_message_id: ClientMessageId::parse(&plan.label).ok(),
                    attachments: Vec::new(),
                    delivery: Default::default(),
                };
                (attempt, message)
            };
            let sent = self.client.stream_project_message(&self.session, &message);
            let answered = match sent.await {
                Ok(_stream) => Answered::Taken,
                Err(error) => self.refused("a message", &error),
            };
            self.book().ledger.end_message(number, attempt, answered);
            if answered != Answered::Lost || self.is_over() {
                return;
            }
            self.wait(RETRY_PAUSE).await;
        }
    }

    /// Reads all events, each once and in order, however often the stream is cut.
    async fn follow(self: Arc<Self>) {
        let mut tasks = JoinSet::new();
        let last = self.book().events.last_key_value().map_or(0, |(id, _)| *id);
        let mut next = last + 1;
        let mut events: ResumingEvents<SessionEvent> = ResumingEvents::new(
            self.client.clone(),
            self.session.clone(),
            Some(last),
            FollowUntil::Dropped,
        );
        loop {
            let event = tokio::select! {
                event = events.next() => event,
                () = self.ended() => break,
            };
            let event = match event {
                Some(Ok(event)) => event,
                Some(Err(error)) => {
                    self.violate(format!("the events of {} ended: {error}", self.session));
                    break;
                }
                None => break,
            };
            let (Some(id), EventData::Chunk(event)) = (event.id, event.data) else {
                continue;
            };
            if id != next {
                self.violate(format!("a reader was shown event {id} instead of {next}"));
            }
            next = id + 1;
            self.answer(&event, &mut tasks);
            self.book().events.insert(id, event);
        }
        self.ended().await;
        self.join(&mut tasks).await;
    }

    fn answer(self: &Arc<Self>, event: &SessionEvent, tasks: &mut JoinSet<()>) {
        match &event.body {
            SessionEventBody::ToolCall(call) if !call.call.requires_approval => {
                let call = call.call.tool_call.call_id.clone();
                self.book().open_calls.insert(call.clone());
                tasks.spawn(Arc::clone(self).run_call(call));
            }
            SessionEventBody::ApprovalRequest(asked) => {
                let call = asked.approval.call_id.clone();
                self.book().open_approvals.insert(call.clone());
                tasks.spawn(Arc::clone(self).approve(call));
            }
            _ => {}
        }
    }

    /// Claims a call, and sends its result.
    async fn run_call(self: Arc<Self>, call: CallId) {
        // A claim is refused once the result is there, whose acknowledgement may have been lost.
        let is_answered = self.until_answered(&call, Answer::Claim).await
            && self.until_answered(&call, Answer::Result).await;
        if is_answered {
            let mut book = self.book();
            book.open_calls.remove(&call);
            book.answered.insert(call);
        }
    }

    async fn approve(self: Arc<Self>, call: CallId) {
        if self.until_answered(&call, Answer::Approval).await {
            self.book().open_approvals.remove(&call);
        }
    }

    async fn send(&self, call: &CallId, answer: Answer) -> Result<(), ClientError> {
        let (client, session, runner) = (&self.client, &self.session, &self.runner);
        match answer {
            Answer::Claim => {
                client.claim_call(session, call, runner).await?;
            }
            Answer::Result => {
                let result = CallResult {
                    client_id: runner.clone(),
                    result: Some(Value::String(result_of(call))),
                    error: None,
                };
                client.send_result(session, call, &result).await?;
            }
            Answer::Approval => {
                let decision = HitlDecision {
                    decision: Some(codelab_protocol::DecisionChoice::Approve.into()),
                    ..HitlDecision::default()
                };
                client.decide(session, call, &decision).await?;
            }
        }
        Ok(())
    }

    /// Sends until there is an answer or the visit is over. A conflict after an attempt without an
    /// answer means that this attempt was taken.
    async fn until_answered(&self, call: &CallId, answer: Answer) -> bool {
        loop {
            let answered = match self.send(call, answer).await {
                Ok(()) => return true,
                Err(error) => self.refused(answer.name(), &error),
            };
            match answered {
                Answered::Refused(409, Some(ErrorCode::Conflict)) if self.lost_something() => {
                    return true;
                }
                Answered::Refused(status, code) => {
                    let what = answer.name();
                    self.violate(format!("{what} for {call} was refused: {status} {code:?}"));
                    return false;
                }
                Answered::Taken | Answered::Lost => {}
            }
            if self.is_over() {
                return false;
            }
            self.wait(RETRY_PAUSE).await;
        }
    }

    /// Whether any request of this person was left without an answer.
    fn lost_something(&self) -> bool {
        !self.book().ledger.trouble.is_empty()
    }
}
