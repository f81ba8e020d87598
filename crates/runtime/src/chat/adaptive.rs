//! AdaptiveAgent: the built-in team, speaking in the Chat as one.
//!
//! Each message that wakes it is one turn of a session that is never stored. The engine decides;
//! here its model calls are made, its questions are asked in the Chat, and what it says is said
//! there.

use std::sync::Arc;
use std::time::Duration;

use codelab_engine::{
    ADAPTIVE_AGENT, Briefing, Budget, CHAT_PROMPT, Effect, EventBody, History, Input, Instructions,
    Lane, MAX_CHAT_TEXT_BYTES, ModelCall, NamedTools, Purpose, Session, SessionLimits,
    SpaceSnapshot, Team, UserMessage, World, chat_history, chat_request, classification_request,
    cut, for_prompts, is_known_as_result, step_request,
};
use codelab_llm::StreamedPart;
use codelab_protocol::{
    AgentName, CallerContext, ChunkBody, Delivery, ErrorCode, ErrorData, GlobalMessage, GlobalMeta,
    Message, ModelFailure, ModelRequest, Question, Role, SessionId, SessionKind, TurnStatus,
};
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;

use super::NoAnswer;
use crate::clock::now;
use crate::ids::RandomIds;
use crate::metrics::Metrics;
use crate::owner::{measured_call, window_of};
use crate::runtime::Inner;

const CUT_MARK: &str = "\n[…]";

/// Works on one message after the other while this server owns the Chat, until the server stops.
pub(crate) async fn run(runtime: Arc<Inner>) {
    let team = Arc::new(runtime.team.with_server_tools_only());
    loop {
        let assignment = tokio::select! {
            assignment = runtime.chat.next_assignment() => assignment,
            () = runtime.stopping.cancelled() => return,
        };
        let message = &assignment.message;
        // A task of its own: a bug there must not silence AdaptiveAgent for good.
        let mut work = AbortOnDropHandle::new(tokio::spawn({
            let (runtime, team, message) =
                (Arc::clone(&runtime), Arc::clone(&team), Arc::clone(message));
            let tenure = assignment.tenure;
            async move { Work::new(&runtime, &team, &message, tenure).run().await }
        }));
        let ended = tokio::select! {
            biased;
            // The next owner begins again with this message.
            () = assignment.ended.cancelled() => {
                work.abort();
                let _ = work.await;
                continue;
            }
            () = assignment.stop.cancelled() => {
                work.abort();
                match work.await {
                    Err(error) if error.is_cancelled() => {
                        Metrics::count(&runtime.metrics.adaptive_turns, "cancelled");
                        runtime.chat.stopped(assignment.tenure);
                        continue;
                    }
                    // The stop came too late.
                    ended => ended,
                }
            }
            ended = &mut work => ended,
            // Nothing of it is stored or promised.
            () = runtime.stopping.cancelled() => return,
        };
        let ended = ended.unwrap_or_else(|error| {
            tracing::error!(%error, "AdaptiveAgent ended abnormally");
            Err("Something went wrong inside the server".to_owned())
        });
        Metrics::count(
            &runtime.metrics.adaptive_turns,
            if ended.is_ok() { "completed" } else { "failed" },
        );
        if let Err(why) = ended {
            let text = shortened(&format!("{ADAPTIVE_AGENT} could not finish: {why}"));
            let meta = GlobalMeta {
                reply_to: Some(message.id),
                tags: vec!["error".to_owned()],
                user_id: None,
            };
            runtime.chat.say(text, meta);
        }
        runtime.chat.rested(assignment.tenure);
    }
}

/// One turn.
struct Work<'a> {
    runtime: &'a Inner,
    team: &'a Team,
    woken_by: &'a GlobalMessage,
    /// During which this server owns the Chat.
    tenure: u64,
    limits: SessionLimits,
    session: Session,
    /// The Chat before the message.
    earlier: Vec<Message>,
    current: Vec<Message>,
    /// Working time that is left; it stands still while a person is awaited.
    time_left: Duration,
}

enum Next {
    Call(ModelCall),
    Ask(Question),
    End(Result<(), String>),
}

impl<'a> Work<'a> {
    fn new(runtime: &'a Inner, team: &'a Team, woken_by: &'a GlobalMessage, tenure: u64) -> Self {
        // A name that is valid by its letters.
        let id = SessionId::parse(ADAPTIVE_AGENT).expect("letters are a valid session id");
        let before = runtime.chat.known_to(woken_by.id, runtime.prompt.messages);
        Self {
            runtime,
            team,
            woken_by,
            tenure,
            // A session of one turn needs no summary.
            limits: SessionLimits {
                compact_tokens: None,
                ..runtime.limits.clone()
            },
            session: Session::new(id, SessionKind::Runtime, Budget::default(), 1),
            earlier: chat_history(before.iter().map(Arc::as_ref)),
            current: Vec::new(),
            time_left: Duration::from_secs(runtime.limits.task_timeout_seconds),
        }
    }

    /// Why it did not come to an end, in words for the Chat.
    async fn run(mut self) -> Result<(), String> {
        let user_id = self.woken_by.meta.as_ref().and_then(|meta| meta.user_id);
        let mut input = Input::UserMessage(UserMessage {
            text: chat_request(self.woken_by),
            agent: None,
            client_message_id: None,
            caller: CallerContext {
                user_id,
                ..CallerContext::default()
            },
            attachments: Vec::new(),
            delivery: Delivery::Queue,
        });
        loop {
            input = match self.step(input) {
                Next::Call(call) => {
                    // A server without its lease calls no model.
                    self.runtime.cluster.lease.resumed().await;
                    self.call(call).await
                }
                Next::Ask(question) => self.ask(question).await?,
                Next::End(ended) => return ended,
            };
        }
    }

    fn step(&mut self, input: Input) -> Next {
        let (policy, space) = (&self.runtime.policy, SpaceSnapshot::default());
        let (team, limits, stopping) = (self.team, &self.limits, false);
        let mut world = World {
            now: now(),
            ids: &mut RandomIds,
            team,
            limits,
            policy,
            space,
            stopping,
            // A session of the runtime kind keeps no partial answers.
            streamed: &(),
        };
        let applied = match self.session.apply(input, &mut world) {
            Ok(applied) => applied,
            Err(refusal) => return Next::End(Err(refusal.message)),
        };
        let mut next = Next::End(Err("The turn went on to nothing".to_owned()));
        let mut error = None;
        for effect in applied.effects {
            match effect {
                Effect::Message(record) => {
                    let message = record.message;
                    if message.role == Role::Assistant && !message.content.trim().is_empty() {
                        self.say(message.agent_id.as_ref(), &message.content);
                    }
                    if !is_known_as_result(&message, None) {
                        self.current
                            .push(for_prompts(&message, &self.runtime.prompt));
                    }
                }
                Effect::CallModel(call) => next = Next::Call(call),
                Effect::Event(event) => {
                    match event.body {
                        EventBody::Chunk(ChunkBody::Question(question)) => {
                            next = Next::Ask(question)
                        }
                        EventBody::Chunk(ChunkBody::Error(data)) => error = Some(data),
                        EventBody::Chunk(_) | EventBody::Project(_) => {}
                    }
                    match event.settled {
                        Some(TurnStatus::Completed) => next = Next::End(Ok(())),
                        Some(TurnStatus::Failed | TurnStatus::Cancelled) => {
                            next = Next::End(Err(reason(error.take())))
                        }
                        Some(
                            TurnStatus::AwaitingApproval
                            | TurnStatus::AwaitingAnswer
                            | TurnStatus::AwaitingToolResult,
                        )
                        | None => {}
                    }
                }
                // The session is not stored, and without a tool runner it asks for no approval.
                Effect::Attached(_)
                | Effect::ForgetReasoning { .. }
                | Effect::Switched(_)
                | Effect::ApprovalOpened(_)
                | Effect::ApprovalClosed { .. }
                | Effect::ApprovalMoved { .. }
                | Effect::ApprovalPreviewed { .. }
                | Effect::CallOpened { .. }
                | Effect::CallClosed { .. }
                | Effect::HistoryHidden { .. }
                | Effect::HistoryShown { .. }
                | Effect::InputAccepted { .. }
                | Effect::Audit(_)
                | Effect::Title(_)
                | Effect::PlanSaved { .. }
                | Effect::Spent(_)
                | Effect::Remember(_) => {}
                // It belongs to no project.
                Effect::TakeSlot { .. }
                | Effect::QueueForSlot { .. }
                | Effect::LeaveSlot { .. }
                | Effect::AgentQueueFull { .. }
                | Effect::ReserveBudget { .. }
                | Effect::SpendBudget { .. }
                | Effect::ProjectBudget { .. }
                | Effect::CallTool { .. }
                | Effect::Elicited { .. } => {}
            }
        }
        next
    }

    async fn call(&mut self, call: ModelCall) -> Input {
        let started = Instant::now();
        let outcome = match self.request(&call) {
            Ok(request) => {
                let (chat, tenure) = (&self.runtime.chat, self.tenure);
                if matches!(call.purpose, Purpose::Step { .. }) {
                    chat.draft(tenure, &call.agent);
                }
                let mut show = |part: StreamedPart<'_>| {
                    if let StreamedPart::Text(piece) = part {
                        chat.write(tenure, piece);
                    }
                };
                let calling = measured_call(self.runtime, &request, &mut show);
                tokio::time::timeout(self.time_left, calling)
                    .await
                    .unwrap_or_else(|_| {
                        let seconds = self.limits.task_timeout_seconds;
                        Err(failure(
                            ErrorCode::TaskTimeout,
                            format!("It took longer than {seconds} seconds"),
                        ))
                    })
            }
            Err(failure) => Err(failure),
        };
        self.runtime.chat.drafted(self.tenure);
        self.time_left = self.time_left.saturating_sub(started.elapsed());
        Input::ModelFinished {
            call: call.id,
            outcome,
            recalled: Vec::new(),
        }
    }

    fn request(&self, call: &ModelCall) -> Result<ModelRequest, ModelFailure> {
        let model = &self.runtime.default_model;
        let missing = || {
            failure(
                ErrorCode::AgentNotFound,
                format!("Agent {} is not part of the team", call.agent),
            )
        };
        match &call.purpose {
            Purpose::Classify { text } => Ok(classification_request(self.team, model, text)),
            Purpose::Step { .. } => {
                let agent = self.team.get(&call.agent).ok_or_else(missing)?;
                let (request, _) = step_request(&Briefing {
                    named_tools: &NamedTools::default(),
                    instructions: &Instructions::default(),
                    session: &self.session,
                    lane: Lane::OWN,
                    agent,
                    team: self.team,
                    default_model: model,
                    session_prompt: CHAT_PROMPT,
                    history: History {
                        earlier: &self.earlier,
                        current: &self.current,
                    },
                    recalled: &[],
                    limits: &self.runtime.prompt,
                    window: window_of(self.runtime, agent.model.as_deref()),
                    region: &self.runtime.region,
                    now: now(),
                });
                Ok(request)
            }
            Purpose::Plan { .. } | Purpose::Join { .. } | Purpose::Summarize { .. } => {
                Err(missing())
            }
        }
    }

    /// Nothing goes on before the user has answered, however long that takes.
    async fn ask(&self, question: Question) -> Result<Input, String> {
        let Question {
            call_id,
            question,
            options,
            agent,
        } = question;
        let options: String = options
            .iter()
            .map(|option| format!("\n- {option}"))
            .collect();
        let text = shortened(&format!("{question}{options}"));
        let asked = self
            .runtime
            .chat
            .ask_user(ADAPTIVE_AGENT, &text, self.meta(Some(&agent)));
        let answer = asked
            .map_err(|error| error.to_string())?
            .wait_user(None)
            .await;
        let answer = answer.map_err(|error: NoAnswer| error.to_string())?;
        Ok(Input::Answer {
            call_id,
            text: answer.answer,
            known: None,
        })
    }

    fn say(&self, agent: Option<&AgentName>, text: &str) {
        if let Err(error) =
            self.runtime
                .chat
                .post_agent(ADAPTIVE_AGENT, &shortened(text), self.meta(agent))
        {
            tracing::warn!(%error, "message from AdaptiveAgent refused by the Chat");
        }
    }

    /// What it answers, and who of the team speaks.
    fn meta(&self, agent: Option<&AgentName>) -> GlobalMeta {
        let tags = agent
            .map(|agent| format!("agent:{agent}"))
            .into_iter()
            .collect();
        GlobalMeta {
            reply_to: Some(self.woken_by.id),
            tags,
            user_id: None,
        }
    }
}

fn reason(error: Option<ErrorData>) -> String {
    error.map_or_else(
        || "The turn ended without an answer".to_owned(),
        |error| error.message,
    )
}

fn failure(code: ErrorCode, message: String) -> ModelFailure {
    ModelFailure::not_called(code, message)
}

/// A text that the Chat takes.
fn shortened(text: &str) -> String {
    if text.len() <= MAX_CHAT_TEXT_BYTES {
        return text.to_owned();
    }
    format!(
        "{}{CUT_MARK}",
        cut(text, MAX_CHAT_TEXT_BYTES - CUT_MARK.len())
    )
}
