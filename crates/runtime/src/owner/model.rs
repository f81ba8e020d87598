//! The model calls of a session: started after their commit, their outcomes inputs again.

mod log;
mod news;
mod summary;

use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Instant;

use codelab_engine::{
    Briefing, Input, ModelCall, ModelCallId, Purpose, Repair, classification_request,
    joining_request, planning_request, step_request, tell_planner,
};
use codelab_llm::{StreamListener, StreamedPart};
use codelab_protocol::{
    ClientId, ErrorCode, MessageId, ModelFailure, ModelOutput, ModelRequest, TaskOrigin, UserId,
};
use codelab_store::StoreError;
use futures_util::FutureExt as _;
use tokio::sync::mpsc;
use tokio::task::{JoinError, JoinHandle};

use self::news::{CallNews, Heard, MAX_NEWS};
use super::recall::history;
use super::{Owner, RETRY_DELAY};
use crate::clock::now;
use crate::feed::{Feed, PartialAnswer};
use crate::files::load_files;
use crate::metrics::Metrics;
use crate::runtime::Inner;
use crate::shares::{ModelSlot, Shares};
use crate::space::{Space, TeamSnapshot};
use crate::timers::log_failure;

/// The model calls under way, and those whose agents are still being reminded; dropping one aborts
/// it.
#[derive(Default)]
pub(crate) struct ModelTasks(Vec<ModelTask>);

struct ModelTask {
    id: ModelCallId,
    /// Where a call tells of what happens before its answer; before the call, its agent is reminded.
    news: Option<mpsc::Receiver<CallNews>>,
    heard: Heard,
    task: JoinHandle<Ended>,
}

enum Ended {
    Prepared(ModelCall, Option<Vec<String>>),
    Admitted(ModelCall, Option<Vec<String>>, ModelSlot),
    Finished(Result<ModelOutput, ModelFailure>, Vec<String>),
}

/// What comes next of the calls.
pub(crate) enum Next {
    /// The call can be made: this is what its agent is reminded of, where it begins with this call.
    Prepared(ModelCall, Option<Vec<String>>),
    /// The call waited for its user's share and can be made now.
    Admitted(ModelCall, Option<Vec<String>>, ModelSlot),
    Outcome(Input),
}

impl ModelTasks {
    /// Waits for the next thing to do; for ever when no call is under way.
    pub async fn next(&mut self) -> Next {
        let (slot, heard) = std::future::poll_fn(|context| {
            for (slot, ModelTask { task, news, .. }) in self.0.iter_mut().enumerate() {
                if let Some(Poll::Ready(Some(told))) =
                    news.as_mut().map(|news| news.poll_recv(context))
                {
                    return Poll::Ready((slot, Err(told)));
                }
                if let Poll::Ready(ended) = Pin::new(task).poll(context) {
                    return Poll::Ready((slot, Ok(ended)));
                }
            }
            Poll::Pending
        })
        .await;
        match heard {
            Ok(ended) => outcome_of(self.0.swap_remove(slot).id, ended),
            Err(told) => Next::Outcome(told.input(self.0[slot].id)),
        }
    }

    /// This outcome, and those of other calls that end at the same time: they are stored together.
    pub async fn with_others(&mut self, outcome: Input) -> Vec<Input> {
        let mut outcomes = vec![outcome];
        if !self.0.is_empty() {
            tokio::task::yield_now().await;
        }
        while let Some(slot) = self
            .0
            .iter()
            .position(|task| task.news.is_some() && task.task.is_finished())
        {
            let ModelTask { id, task, news, .. } = &mut self.0[slot];
            let (call, Some(ended)) = (*id, task.now_or_never()) else {
                break;
            };
            while let Some(told) = news.as_mut().and_then(|news| news.try_recv().ok()) {
                outcomes.push(told.input(call));
            }
            self.0.swap_remove(slot);
            outcomes.extend(match outcome_of(call, ended) {
                Next::Outcome(outcome) => Some(outcome),
                Next::Prepared(..) | Next::Admitted(..) => None,
            });
        }
        outcomes
    }

    /// The call waits until its agent is reminded of what it was asked, if that is given, and until
    /// the tools of MCP servers and the instructions of the workspace are known.
    pub fn prepare(
        &mut self,
        call: ModelCall,
        space: Arc<Space>,
        bound: Option<ClientId>,
        asked: Option<String>,
    ) {
        let id = call.id;
        let task = tokio::spawn(async move {
            let recall = async {
                match &asked {
                    Some(asked) => Some(space.recall(&call.agent, asked).await),
                    None => None,
                }
            };
            let instructions = space.instructions_ready(bound.as_ref());
            let (recalled, (), ()) = tokio::join!(recall, space.tools_ready(), instructions);
            Ended::Prepared(call, recalled)
        });
        self.0.push(ModelTask {
            id,
            news: None,
            heard: Heard::default(),
            task,
        });
    }

    /// The call waits until its user has fewer of them.
    fn hold(
        &mut self,
        call: ModelCall,
        recalled: Option<Vec<String>>,
        shares: Arc<Shares>,
        user: UserId,
    ) {
        let id = call.id;
        let task = tokio::spawn(async move {
            let slot = shares.model_call(user).await;
            Ended::Admitted(call, recalled, slot)
        });
        self.0.push(ModelTask {
            id,
            news: None,
            heard: Heard::default(),
            task,
        });
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// When each call was last heard.
    pub fn heard(&self) -> Vec<Input> {
        let heard = self.0.iter().filter_map(|task| {
            let at = task.heard.last()?;
            Some(Input::ModelHeard { call: task.id, at })
        });
        heard.collect()
    }

    /// Stops the calls that are not wanted any more.
    pub fn keep_only(&mut self, wanted: impl Fn(ModelCallId) -> bool) {
        self.0.retain(|task| wanted(task.id));
    }
}

fn outcome_of(call: ModelCallId, ended: Result<Ended, JoinError>) -> Next {
    let (outcome, recalled) = match ended {
        Ok(Ended::Prepared(call, recalled)) => return Next::Prepared(call, recalled),
        Ok(Ended::Admitted(call, recalled, slot)) => return Next::Admitted(call, recalled, slot),
        Ok(Ended::Finished(outcome, recalled)) => (outcome, recalled),
        Err(error) => {
            tracing::error!(%error, "model call task ended abnormally");
            (
                Err(failure(
                    ErrorCode::LlmError,
                    "The model call ended abnormally",
                )),
                Vec::new(),
            )
        }
    };
    Next::Outcome(Input::ModelFinished {
        call,
        outcome,
        recalled,
    })
}

impl Drop for ModelTask {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Owner {
    /// Calls the model, or waits for its user's share. `recalled`: what the agent is reminded of
    /// where it begins with this call.
    pub(super) async fn call_model(&mut self, call: ModelCall, recalled: Option<Vec<String>>) {
        let user = self
            .loaded
            .as_ref()
            .and_then(|loaded| loaded.space.as_ref())
            .map(|space| space.user());
        let shares = &self.runtime.user_shares;
        match user.map(|user| (user, shares.model_call_now(user))) {
            None => self.make_call(call, recalled, ModelSlot::of_nobody()).await,
            Some((_, Some(slot))) => self.make_call(call, recalled, slot).await,
            Some((user, None)) => {
                self.held.push(call.id);
                self.models.hold(call, recalled, Arc::clone(shares), user);
            }
        }
    }

    /// Whether the turn still waits for this call.
    pub(super) fn wants(&self, id: ModelCallId) -> bool {
        let wanted = self
            .loaded
            .as_ref()
            .map(|loaded| loaded.session.model_calls());
        wanted.is_some_and(|wanted| wanted.iter().any(|(call, _)| *call == id))
    }

    pub(super) async fn make_call(
        &mut self,
        call: ModelCall,
        recalled: Option<Vec<String>>,
        slot: ModelSlot,
    ) {
        // A server without its lease calls no model. One whose run has ended is about to stop this.
        if !self.runtime.cluster.lease.held(&self.run).await {
            return;
        }
        let request = self
            .prepared(&call, recalled)
            .await
            .map(|(mut request, recalled)| {
                // What the budget has room for, where that is less than the agent may write.
                request.max_tokens = [request.max_tokens, call.max_tokens]
                    .into_iter()
                    .flatten()
                    .min();
                (request, recalled)
            });
        let runtime = Arc::clone(&self.runtime);
        let feed = Arc::clone(&self.feed);
        let id = call.id;
        if let Some((message_id, origin)) = answer_of(&call.purpose) {
            feed.begin_answer(PartialAnswer {
                turn: id.turn,
                message_id: message_id.clone(),
                agent: call.agent.clone(),
                attempt: id.attempt,
                origin,
                text: String::new(),
                reasoning: String::new(),
            });
        }
        tracing::debug!(session = %self.name.id, turn = %id.turn, step = id.step, agent = %call.agent, "calling the model");
        let (tells, news) = mpsc::channel(MAX_NEWS);
        let heard = Heard::default();
        let hears = heard.clone();
        let task = tokio::spawn(async move {
            let _slot = slot;
            match request {
                Ok((request, recalled)) => Ended::Finished(
                    perform(&runtime, &feed, &call, request, (tells, hears)).await,
                    recalled,
                ),
                Err(failure) => Ended::Finished(Err(failure), Vec::new()),
            }
        });
        self.models.0.push(ModelTask {
            id,
            news: Some(news),
            heard,
            task,
        });
    }

    /// The request, once the database can be read: a turn does not fail because it needed its
    /// history during an outage.
    async fn prepared(
        &mut self,
        call: &ModelCall,
        recalled: Option<Vec<String>>,
    ) -> Result<(ModelRequest, Vec<String>), ModelFailure> {
        loop {
            match self.request(call, recalled.clone()).await {
                Ok(request) => return Ok(request),
                Err(Unprepared::Failed(failure)) => return Err(failure),
                Err(Unprepared::Outage(failure)) => {
                    let runtime = Arc::clone(&self.runtime);
                    let goes_on = runtime.cluster.lease.held(&self.run).await;
                    if !goes_on || runtime.halted.is_cancelled() {
                        return Err(failure);
                    }
                    tokio::time::sleep(RETRY_DELAY).await;
                }
            }
        }
    }

    async fn request(
        &mut self,
        call: &ModelCall,
        recalled: Option<Vec<String>>,
    ) -> Result<(ModelRequest, Vec<String>), Unprepared> {
        let (team, model) = (&self.runtime.team, &self.runtime.default_model);
        match &call.purpose {
            Purpose::Classify { text } => {
                Ok((classification_request(team, model, text), Vec::new()))
            }
            Purpose::Join {
                request, results, ..
            } => Ok((joining_request(model, request, results), Vec::new())),
            Purpose::Summarize { from, before } => self.summary(*from, *before).await,
            Purpose::Plan { repair } => {
                Ok((self.planning(call, repair.as_ref()).await?, Vec::new()))
            }
            Purpose::Step { origin, .. } => self.step(call, origin, recalled).await,
        }
    }

    async fn planning(
        &mut self,
        call: &ModelCall,
        repair: Option<&Repair>,
    ) -> Result<ModelRequest, Unprepared> {
        let (runtime, team) = (Arc::clone(&self.runtime), self.current_team().await?);
        let loaded = self
            .loaded
            .as_mut()
            .ok_or_else(|| unreadable(&StoreError::NotFound))?;
        let (key, asked) = (loaded.key, loaded.asked());
        let recent = history(&runtime, (key, asked), &mut loaded.recent, call)
            .await
            .map_err(|error| unreadable(&error))?;
        let team = team.as_deref().map_or(&runtime.team, |team| &team.team);
        let mut request = planning_request(
            &loaded.session,
            team,
            default_model(&runtime),
            &recent.history(),
            repair,
            &runtime.prompt,
        );
        if let Some(space) = &loaded.space {
            let brought = space.instructions(loaded.session.bound_client());
            tell_planner(&mut request, &brought);
        }
        let window = runtime.model.window(&request.model);
        load_files(&runtime.store, loaded.key, &mut request, window)
            .await
            .map_err(|error| unreadable(&error))?;
        Ok(request)
    }

    async fn step(
        &mut self,
        call: &ModelCall,
        origin: &TaskOrigin,
        recalled: Option<Vec<String>>,
    ) -> Result<(ModelRequest, Vec<String>), Unprepared> {
        let (runtime, team) = (Arc::clone(&self.runtime), self.current_team().await?);
        let loaded = self
            .loaded
            .as_mut()
            .ok_or_else(|| unreadable(&StoreError::NotFound))?;
        let (key, asked) = (loaded.key, loaded.asked());
        let recent = history(&runtime, (key, asked), &mut loaded.recent, call)
            .await
            .map_err(|error| unreadable(&error))?;
        let team = team.as_deref().map_or(&runtime.team, |team| &team.team);
        let agent = team.get(&call.agent).ok_or_else(|| {
            Unprepared::Failed(failure(
                ErrorCode::AgentNotFound,
                &format!("Agent {} is not part of the team any more", call.agent),
            ))
        })?;
        let known = loaded
            .session
            .turn()
            .and_then(|turn| turn.threads().find(|thread| thread.lane() == call.id.lane));
        // An agent remembers once, when it begins.
        let recalled = recalled.unwrap_or_else(|| {
            known
                .map(|thread| thread.recalled().to_vec())
                .unwrap_or_default()
        });
        let named_tools = loaded
            .space
            .as_ref()
            .map(|space| space.named_tools(loaded.session.bound_client()))
            .unwrap_or_default();
        let instructions = loaded
            .space
            .as_ref()
            .map(|space| space.instructions(loaded.session.bound_client()))
            .unwrap_or_default();
        let (mut request, report) = step_request(&Briefing {
            session: &loaded.session,
            lane: call.id.lane,
            agent,
            team,
            default_model: &runtime.default_model,
            session_prompt: loaded.system_prompt.as_deref().unwrap_or_default(),
            history: recent.history_of(origin),
            recalled: &recalled,
            named_tools: &named_tools,
            instructions: &instructions,
            limits: &runtime.prompt,
            window: window_of(&runtime, loaded.session.model().or(agent.model.as_deref())),
            region: &runtime.region,
            now: now(),
        });
        log::history(&self.name.id, call, loaded.session.message_count(), &report);
        log::gaps(&self.name.id, call, &report);
        if runtime.log_prompts {
            log::whole_prompt(&self.name.id, call, &request);
        }
        let window = runtime.model.window(&request.model);
        load_files(&runtime.store, loaded.key, &mut request, window)
            .await
            .map_err(|error| unreadable(&error))?;
        Ok((request, recalled))
    }

    async fn current_team(&self) -> Result<Option<Arc<TeamSnapshot>>, Unprepared> {
        self.team_snapshot().await.map_err(|error| {
            if !error.is_outage() {
                tracing::error!(%error, "agents of the project could not be read");
            }
            let failure = failure(
                ErrorCode::DbReadError,
                "The project's agents could not be read",
            );
            Unprepared::of(failure, error.is_outage())
        })
    }
}

/// Why there is no request to the model.
enum Unprepared {
    /// The database cannot be read now.
    Outage(ModelFailure),
    Failed(ModelFailure),
}

impl Unprepared {
    fn of(failure: ModelFailure, is_outage: bool) -> Self {
        match is_outage {
            true => Self::Outage(failure),
            false => Self::Failed(failure),
        }
    }
}

fn unreadable(error: &StoreError) -> Unprepared {
    log_failure(error, "the history could not be read");
    let failure = failure(
        ErrorCode::DbReadError,
        "The session's history could not be read",
    );
    Unprepared::of(failure, error.is_outage())
}

async fn perform(
    runtime: &Inner,
    feed: &Feed,
    call: &ModelCall,
    request: ModelRequest,
    (news, hears): (mpsc::Sender<CallNews>, Heard),
) -> Result<ModelOutput, ModelFailure> {
    let attempt = call.id.attempt;
    let mut hear = |heard: StreamedPart<'_>| {
        let shown = answer_of(&call.purpose).map(|(message_id, _)| message_id);
        let told = match heard {
            StreamedPart::Text(text) => {
                shown
                    .iter()
                    .for_each(|message_id| feed.push_text(message_id, attempt, text));
                None
            }
            StreamedPart::Reasoning(text) => {
                shown
                    .iter()
                    .for_each(|message_id| feed.push_reasoning(message_id, attempt, text));
                None
            }
            StreamedPart::ToolCall => None,
            StreamedPart::Waiting { kind, wait } => Some(CallNews::Waits { kind, wait }),
            StreamedPart::Fallback { from, to, kind } => Some(CallNews::FellBack {
                from: from.to_owned(),
                to: to.to_owned(),
                kind,
            }),
        };
        match told {
            // A wait that finds no room only counts as working time.
            Some(told) => drop(news.try_send(told)),
            None => hears.now(),
        }
    };
    measured_call(runtime, &request, &mut hear).await
}

/// Calls the model and counts what became of it.
pub(crate) async fn measured_call(
    runtime: &Inner,
    request: &ModelRequest,
    hear: &mut StreamListener<'_>,
) -> Result<ModelOutput, ModelFailure> {
    let started = Instant::now();
    let outcome = runtime.model.call(request, hear).await;
    let metrics = &runtime.metrics;
    metrics
        .model_call_duration
        .observe(started.elapsed().as_secs_f64());
    match &outcome {
        Ok(output) => {
            Metrics::count(&metrics.model_calls, "answered");
            metrics
                .tokens
                .inc_by(output.usage.as_ref().map_or(0, |usage| usage.total_tokens));
        }
        Err(failure) => Metrics::count(&metrics.model_calls, failure.code.as_str()),
    }
    outcome
}

/// The model that the orchestrator calls, with its window.
fn default_model(runtime: &Inner) -> (&str, Option<u64>) {
    (&runtime.default_model, window_of(runtime, None))
}

/// Asked only where it decides about the history.
pub(crate) fn window_of(runtime: &Inner, model: Option<&str>) -> Option<u64> {
    let model = model.unwrap_or(&runtime.default_model);
    match runtime.prompt.by_window {
        true => runtime.model.window(model),
        false => None,
    }
}

/// The message that people see growing, and the task it belongs to.
fn answer_of(purpose: &Purpose) -> Option<(&MessageId, TaskOrigin)> {
    match purpose {
        Purpose::Step { message_id, origin } => Some((message_id, origin.clone())),
        Purpose::Join { message_id, .. } => Some((message_id, TaskOrigin::default())),
        Purpose::Classify { .. } | Purpose::Plan { .. } | Purpose::Summarize { .. } => None,
    }
}

fn failure(code: ErrorCode, message: &str) -> ModelFailure {
    ModelFailure::not_called(code, message)
}
