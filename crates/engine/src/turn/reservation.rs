//! Room in a budget. A model call sets aside what it may take before it is made: the prompt, by the
//! estimate, and the answer. One that does not fit gets a shorter answer or waits for the calls
//! under way; only when none is under way and the least answer does not fit is a person asked.

use codelab_protocol::{AgentName, CallId, Message, SessionKind, TaskOrigin, TurnId};

use super::{Thread, ThreadPhase, Turn};
use crate::output::Output;
use crate::plan::WorkflowPhase;
use crate::prompt::{
    ORCHESTRATOR_MAX_TOKENS, estimated_file_size, estimated_size, tokens_of_bytes, tokens_of_text,
};
use crate::session::{MessageSize, Transition};
use crate::space::WorkingSpace;
use crate::turn::budget::{BudgetQuestion, BudgetWhy};
use crate::world::MAX_REQUEST_BYTES;
use crate::{
    BudgetScope, BudgetState, Effect, Lane, PromptLimits, Session, Spending, Team, orchestrator,
};

/// A shorter answer is worth no call.
const MIN_ANSWER_TOKENS: u64 = 256;
/// An answer of an agent that sets no bound itself.
const DEFAULT_ANSWER_TOKENS: u64 = 8_192;
/// A call gives up this part of its answer at most to run beside others; else it waits for them.
const LEAST_PART: u64 = 2;
/// What the orchestrator is told besides agents, request, history and results.
const ORCHESTRATOR_PROMPT_TOKENS: u64 = 400;

/// What a model call may take of the budgets of its session and its project. It reads the session;
/// all it changes is what is set aside in the worker space.
pub(crate) struct Funds<'a> {
    pub session: &'a Session,
    pub team: &'a Team,
    pub limits: &'a PromptLimits,
    pub space: &'a mut WorkingSpace,
    pub output: &'a mut Output,
}

/// What a model call is expected to take.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CallSize {
    prompt_tokens: u64,
    /// The longest answer that is wanted.
    answer_tokens: u64,
    /// 0 where the price is not known.
    prompt_usd: f64,
    answer_token_usd: f64,
    is_priced: bool,
}

/// What becomes of a call that asks for room.
#[derive(Debug)]
pub(crate) enum Reservation {
    Granted(Reserved),
    /// Calls under way may leave enough.
    Waits,
    Asks(BudgetQuestion),
}

/// What was set aside for a call.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reserved {
    pub spending: Spending,
    /// The longest answer that it covers; absent where no budget bounds it.
    pub max_tokens: Option<u32>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum RoomVerdict {
    /// With an answer of this length.
    Fits(u64),
    Waits,
    Asks,
}

impl CallSize {
    fn with_answer(&self, answer_tokens: u64) -> Spending {
        Spending {
            tokens: self.prompt_tokens.saturating_add(answer_tokens),
            usd: self.prompt_usd + self.answer_token_usd * answer_tokens as f64,
        }
    }

    /// What it needs at least.
    pub fn least(&self) -> Spending {
        self.with_answer(self.least_answer())
    }

    fn least_answer(&self) -> u64 {
        MIN_ANSWER_TOKENS.min(self.answer_tokens)
    }

    fn verdict(&self, state: &BudgetState) -> RoomVerdict {
        let others = state.reserved != Spending::default();
        match self.longest_answer(state) {
            Some(answer) if !others || answer >= self.answer_tokens / LEAST_PART => {
                RoomVerdict::Fits(answer)
            }
            None if !others => RoomVerdict::Asks,
            Some(_) | None => RoomVerdict::Waits,
        }
    }

    /// The longest answer that what is left has room for, beside the prompt.
    fn longest_answer(&self, state: &BudgetState) -> Option<u64> {
        let used = state.spent.plus(state.reserved);
        let by_tokens = match state.budget.tokens {
            None => self.answer_tokens,
            Some(limit) => limit
                .checked_sub(used.tokens)?
                .checked_sub(self.prompt_tokens)?,
        };
        let by_usd = match state.budget.usd {
            None => self.answer_tokens,
            Some(limit) => self.affordable(limit - used.usd - self.prompt_usd)?,
        };
        let answer = self.answer_tokens.min(by_tokens).min(by_usd);
        (answer >= self.least_answer()).then_some(answer)
    }

    fn affordable(&self, usd: f64) -> Option<u64> {
        if usd < 0.0 {
            return None;
        }
        // A cast of a float stops at the bounds of the type.
        Some(if self.answer_token_usd > 0.0 {
            (usd / self.answer_token_usd) as u64
        } else {
            u64::MAX
        })
    }
}

impl Funds<'_> {
    /// A budget and what is used of it now.
    pub fn budget_state(&self, scope: BudgetScope) -> BudgetState {
        if scope == BudgetScope::Project {
            return self.space.budget_state();
        }
        let turn = self.session.turn.as_ref();
        let threads = turn
            .into_iter()
            .flat_map(|turn| turn.threads())
            .filter_map(|other| other.reserved);
        let planner = turn.and_then(|turn| turn.workflow()?.reserved);
        let reserved = threads
            .chain(planner)
            .fold(Spending::default(), Spending::plus);
        BudgetState {
            budget: self.session.budget,
            granted: self.session.granted,
            spent: self.session.spent,
            reserved,
        }
    }

    pub fn set_aside(&mut self, lane: Lane, agent: &AgentName, size: CallSize) -> Reservation {
        if self.session.kind == SessionKind::Runtime {
            return Reservation::Granted(Reserved {
                spending: Spending::default(),
                max_tokens: None,
            });
        }
        if let Some(question) = self.unpriced(agent, &size) {
            return Reservation::Asks(question);
        }
        let own = self.budget_state(BudgetScope::Session);
        let asks = |scope, state| {
            Reservation::Asks(BudgetQuestion {
                scope,
                state,
                why: BudgetWhy::Used,
                model: None,
            })
        };
        let answer_tokens = match size.verdict(&own) {
            RoomVerdict::Fits(answer) => answer,
            RoomVerdict::Waits => return Reservation::Waits,
            RoomVerdict::Asks => return asks(BudgetScope::Session, own),
        };
        let size = CallSize {
            answer_tokens,
            ..size
        };
        let shared = self.space.budget_state_without(lane);
        match size.verdict(&shared) {
            RoomVerdict::Fits(answer) => {
                let spending = size.with_answer(answer);
                self.space.reserve(lane, spending);
                self.output.push(Effect::ReserveBudget { lane, spending });
                let is_bounded = own.budget.is_set() || shared.budget.is_set();
                let max_tokens = is_bounded.then(|| u32::try_from(answer).unwrap_or(u32::MAX));
                Reservation::Granted(Reserved {
                    spending,
                    max_tokens,
                })
            }
            RoomVerdict::Waits => Reservation::Waits,
            RoomVerdict::Asks => asks(BudgetScope::Project, shared),
        }
    }

    /// Dollars cannot be counted where the price is not known: a person says once whether that is
    /// fine.
    fn unpriced(&self, agent: &AgentName, size: &CallSize) -> Option<BudgetQuestion> {
        if size.is_priced || self.session.unpriced_allowed {
            return None;
        }
        let bounded = |scope: &BudgetScope| self.budget_state(*scope).budget.usd.is_some();
        let scope = [BudgetScope::Session, BudgetScope::Project]
            .into_iter()
            .find(bounded)?;
        let model = self.space.model_of(agent).to_owned();
        let (state, model) = (self.budget_state(scope), Some(model));
        Some(BudgetQuestion {
            scope,
            state,
            why: BudgetWhy::Unpriced,
            model,
        })
    }

    /// Whether a call would only wait for others now.
    pub fn would_wait(&self, agent: &AgentName, size: CallSize) -> bool {
        if self.unpriced(agent, &size).is_some() {
            return false;
        }
        match size.verdict(&self.budget_state(BudgetScope::Session)) {
            RoomVerdict::Waits => true,
            RoomVerdict::Asks => false,
            RoomVerdict::Fits(answer_tokens) => {
                let size = CallSize {
                    answer_tokens,
                    ..size
                };
                size.verdict(&self.space.budget_state()) == RoomVerdict::Waits
            }
        }
    }

    /// What the tools of MCP servers and what the workspace brings take in the thread's next call.
    fn named_tokens(&self, thread: &Thread) -> u64 {
        let window = self.space.window_of(&thread.agent);
        let found = thread.found_tools();
        let tokens = |agent| self.space.named_tools.tokens(agent, window, found);
        let touched = &self.session.touched;
        let brought = |agent: &crate::Agent| {
            let brought = &self.space.instructions;
            let with_skills = agent.uses_skills(brought, thread.lane);
            brought.tokens(touched, window, with_skills)
        };
        let agent = self.team.get(&thread.agent);
        agent.map_or(0, |agent| tokens(agent).saturating_add(brought(agent)))
    }

    /// What the thread's next call takes: as its last one, and what was said since; the first one
    /// by the estimate alone.
    pub fn step_size(&self, thread: &Thread) -> CallSize {
        let said = self.said_in(thread);
        let prompt_tokens = match thread.prompt_tokens {
            Some(before) => before.saturating_add(said),
            None => {
                let fixed = self.space.prompt_tokens(&thread.agent, thread.lane);
                let fixed = fixed.saturating_add(self.named_tokens(thread));
                // A task is shown what was said in the session, its own request included.
                let before = (thread.lane == Lane::OWN).then_some(thread.turn);
                let earlier = self.earlier_tokens(before, &thread.agent);
                fixed.saturating_add(earlier).saturating_add(said)
            }
        };
        let own = self
            .team
            .get(&thread.agent)
            .and_then(|agent| agent.max_tokens);
        self.size(
            &thread.agent,
            prompt_tokens,
            own.map_or(DEFAULT_ANSWER_TOKENS, u64::from),
        )
    }

    /// What a call of the workflow itself takes.
    pub fn own_size(&self, next: &WorkflowPhase) -> CallSize {
        let request = self
            .session
            .turn
            .as_ref()
            .map_or(0, |turn| tokens_of_text(&turn.request));
        let told = match next {
            WorkflowPhase::Joining { .. } => {
                let steered: u64 = self.session.steered_by().map(tokens_of_text).sum();
                let results = self.session.workflow_result_tokens();
                results.saturating_add(steered.min(tokens_of_bytes(MAX_REQUEST_BYTES)))
            }
            WorkflowPhase::Planning { repair, .. } => {
                let repair = repair
                    .as_ref()
                    .map_or(0, |repair| tokens_of_text(&repair.answer));
                let agents = self.team.specialists();
                let agents: u64 = agents.map(|agent| tokens_of_text(&agent.description)).sum();
                let before = self.session.turn.as_ref().map(|turn| turn.id);
                agents
                    .saturating_add(self.space.instructions.planner_tokens())
                    .saturating_add(repair)
                    .saturating_add(self.earlier_tokens(before, &orchestrator()))
            }
            WorkflowPhase::AwaitingBudget { .. }
            | WorkflowPhase::AwaitingRoom { .. }
            | WorkflowPhase::AwaitingApproval { .. }
            | WorkflowPhase::Running => {
                never!("a workflow makes no model call in this phase");
                0
            }
        };
        let prompt_tokens = ORCHESTRATOR_PROMPT_TOKENS
            .saturating_add(request)
            .saturating_add(told);
        self.size(
            &orchestrator(),
            prompt_tokens,
            ORCHESTRATOR_MAX_TOKENS.into(),
        )
    }

    pub fn size(&self, agent: &AgentName, prompt_tokens: u64, answer_tokens: u64) -> CallSize {
        let prompt_usd = self.space.call_usd(agent, prompt_tokens, 0);
        let answer_token_usd = self.space.answer_token_usd(agent);
        CallSize {
            prompt_tokens,
            answer_tokens,
            prompt_usd: prompt_usd.unwrap_or_default(),
            answer_token_usd: answer_token_usd.unwrap_or_default(),
            is_priced: prompt_usd.is_some(),
        }
    }

    /// What the agent's prompts show of earlier turns, or of all with no turn named.
    fn earlier_tokens(&self, before: Option<TurnId>, agent: &AgentName) -> u64 {
        let limits = self.limits;
        let shown = self
            .session
            .said
            .iter()
            .rev()
            .filter(|said| before.is_none_or(|turn| said.turn < turn));
        let tokens: u64 = shown.take(limits.messages).map(|said| said.tokens).sum();
        tokens.min(limits.most_tokens(self.space.window_of(agent)))
    }

    /// What was said in the thread since its last call.
    fn said_in(&self, thread: &Thread) -> u64 {
        let turn = self.session.turn.as_ref();
        let task = turn
            .and_then(|turn| turn.task_of(thread))
            .and_then(|origin| origin.task_id);
        let said = turn.and_then(|turn| turn.said.iter().find(|said| said.task == task));
        said.map_or(0, |said| said.tokens)
    }

    /// What the calls need at least that wait for the answer to this question.
    pub fn awaited(&self, call_id: &CallId) -> Spending {
        let threads = self.session.turn.iter().flat_map(|turn| turn.threads());
        let waiting = threads.filter(|thread| thread.phase.call_id() == Some(call_id));
        let planning = WorkflowPhase::Planning {
            attempt: 0,
            repair: None,
        };
        let planner = self
            .session
            .planning_budget()
            .map(|_| self.own_size(&planning));
        let sizes = waiting.map(|thread| self.step_size(thread)).chain(planner);
        sizes
            .map(|size| size.least())
            .fold(Spending::default(), Spending::plus)
    }
}

impl Session {
    /// The call ended: what it read is known now, and counts again only with what comes next.
    pub(crate) fn prompt_was(&mut self, thread: &mut Thread, prompt_tokens: u64) {
        if prompt_tokens == 0 {
            return;
        }
        thread.prompt_tokens = Some(prompt_tokens);
        let task = self.origin(thread).task_id;
        if let Some(turn) = &mut self.turn {
            turn.said.retain(|said| said.task != task);
        }
    }
}

impl Transition<'_, '_> {
    /// Sets aside what the thread's next call may take.
    pub(crate) fn set_aside_step(&mut self, thread: &mut Thread) -> Reservation {
        let mut funds = self.funds();
        let size = funds.step_size(thread);
        let room = funds.set_aside(thread.lane, &thread.agent, size);
        if let (Reservation::Granted(granted), SessionKind::Project) = (&room, self.session.kind) {
            thread.reserved = Some(granted.spending);
        }
        room
    }

    /// Lets the thread wait for the calls under way. It goes on by itself, and needs no slot
    /// meanwhile.
    pub(crate) fn await_room(&mut self, mut thread: Thread) {
        self.leave(&mut thread, None);
        thread.phase = ThreadPhase::AwaitingRoom;
        self.session.put(thread);
    }

    /// Threads that waited for room in a budget go on where there is some. Called once after every input.
    pub(crate) fn give_room(&mut self) {
        self.give_workflow_room();
        let waits = |thread: &&Thread| matches!(thread.phase, ThreadPhase::AwaitingRoom);
        let threads = self.session.turn.iter().flat_map(Turn::threads);
        let waiting: Vec<Lane> = threads.filter(waits).map(Thread::lane).collect();
        for lane in waiting {
            let Some(thread) = self.session.take_thread(lane) else {
                never!("a thread that waits for room is not in its turn");
                continue;
            };
            let funds = self.funds();
            match funds.would_wait(&thread.agent, funds.step_size(&thread)) {
                true => self.session.put(thread),
                false => self.work(thread),
            }
        }
    }

    fn give_workflow_room(&mut self) {
        // Nothing of the workflow itself waits for room.
        let Some(WorkflowPhase::AwaitingRoom { next }) = self.session.workflow_phase() else {
            return;
        };
        let funds = self.funds();
        if !funds.would_wait(&orchestrator(), funds.own_size(&next)) {
            self.own_call(*next);
        }
    }

    /// Counts what a thread or the session has been told, so that the size of a prompt is known
    /// without its history.
    pub(crate) fn count_for_room(
        &mut self,
        turn: TurnId,
        task: Option<&TaskOrigin>,
        message: &Message,
    ) {
        if self.session.kind == SessionKind::Runtime {
            return;
        }
        let limits = &self.world.limits.prompt;
        let in_files = estimated_file_size(message);
        let told = estimated_size(message).saturating_sub(in_files) as u64;
        // Prompts cut what was told, and have a bound of their own for files.
        let tokens = told.min(tokens_of_bytes(limits.tool_result_bytes)) + in_files as u64;
        if task.is_none() {
            self.session.said.push_back(MessageSize { turn, tokens });
            // One more than prompts show of earlier turns: the newest is the current one's request.
            while self.session.said.len() > limits.messages.saturating_add(1) {
                self.session.said.pop_front();
            }
        }
        let task = task.and_then(|origin| origin.task_id.clone());
        if let Some(now) = self.session.turn.as_mut().filter(|now| now.id == turn) {
            now.say(task, tokens);
        }
    }
}
