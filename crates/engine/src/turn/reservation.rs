//! Room in a budget. A model call sets aside what it may take before it is made: the prompt, by the
//! estimate, and the answer. One that does not fit gets a shorter answer or waits for the calls
//! under way; only when none is under way and the least answer does not fit is a person asked.

use codelab_protocol::{AgentName, Message, SessionKind, TaskOrigin, TurnId};

use super::{Thread, ThreadPhase, Turn};
use crate::plan::WorkflowPhase;
use crate::prompt::{ORCHESTRATOR_MAX_TOKENS, estimated_size, tokens_of_bytes, tokens_of_text};
use crate::session::{MessageSize, Transition};
use crate::turn::budget::{BudgetQuestion, BudgetWhy};
use crate::{BudgetScope, BudgetState, Lane, Spending, orchestrator};

/// A shorter answer is worth no call.
const MIN_ANSWER_TOKENS: u64 = 256;
/// An answer of an agent that sets no bound itself.
const DEFAULT_ANSWER_TOKENS: u64 = 8_192;
/// A call gives up this part of its answer at most to run beside others; else it waits for them.
const LEAST_PART: u64 = 2;
/// What the orchestrator is told besides agents, request, history and results.
const ORCHESTRATOR_PROMPT_TOKENS: u64 = 400;

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
    Taken(Reserved),
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
enum Verdict {
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

    fn verdict(&self, standing: &BudgetState) -> Verdict {
        let others = standing.reserved != Spending::default();
        match self.longest_answer(standing) {
            Some(answer) if !others || answer >= self.answer_tokens / LEAST_PART => {
                Verdict::Fits(answer)
            }
            None if !others => Verdict::Asks,
            Some(_) | None => Verdict::Waits,
        }
    }

    /// The longest answer that what is left has room for, beside the prompt.
    fn longest_answer(&self, standing: &BudgetState) -> Option<u64> {
        let used = standing.spent.plus(standing.reserved);
        let by_tokens = match standing.budget.tokens {
            None => self.answer_tokens,
            Some(limit) => limit
                .checked_sub(used.tokens)?
                .checked_sub(self.prompt_tokens)?,
        };
        let by_usd = match standing.budget.usd {
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

impl Transition<'_, '_> {
    /// Sets aside what the thread's next call may take.
    pub(crate) fn set_aside_step(&mut self, thread: &mut Thread) -> Reservation {
        let room = self.set_aside(thread.lane, &thread.agent, self.step_size(thread));
        if let (Reservation::Taken(taken), SessionKind::Project) = (&room, self.session.kind) {
            thread.reserved = Some(taken.spending);
        }
        room
    }

    pub(crate) fn set_aside(
        &mut self,
        lane: Lane,
        agent: &AgentName,
        size: CallSize,
    ) -> Reservation {
        if self.session.kind == SessionKind::Runtime {
            return Reservation::Taken(Reserved {
                spending: Spending::default(),
                max_tokens: None,
            });
        }
        if let Some(question) = self.unpriced(agent, &size) {
            return Reservation::Asks(question);
        }
        let own = self.standing(BudgetScope::Session);
        let asks = |scope, standing| {
            Reservation::Asks(BudgetQuestion {
                scope,
                standing,
                why: BudgetWhy::Used,
                model: None,
            })
        };
        let answer_tokens = match size.verdict(&own) {
            Verdict::Fits(answer) => answer,
            Verdict::Waits => return Reservation::Waits,
            Verdict::Asks => return asks(BudgetScope::Session, own),
        };
        let size = CallSize {
            answer_tokens,
            ..size
        };
        let (mut shared, mut verdict) = (BudgetState::default(), Verdict::Waits);
        self.world.space.reserve(lane, &mut |standing| {
            (shared, verdict) = (*standing, size.verdict(standing));
            match verdict {
                Verdict::Fits(answer) => Some(size.with_answer(answer)),
                Verdict::Waits | Verdict::Asks => None,
            }
        });
        match verdict {
            Verdict::Fits(answer) => {
                let is_bounded = own.budget.is_set() || shared.budget.is_set();
                let max_tokens = is_bounded.then(|| u32::try_from(answer).unwrap_or(u32::MAX));
                Reservation::Taken(Reserved {
                    spending: size.with_answer(answer),
                    max_tokens,
                })
            }
            Verdict::Waits => Reservation::Waits,
            Verdict::Asks => asks(BudgetScope::Project, shared),
        }
    }

    /// Dollars cannot be counted where the price is not known: a person says once whether that is
    /// fine.
    fn unpriced(&self, agent: &AgentName, size: &CallSize) -> Option<BudgetQuestion> {
        if size.is_priced || self.session.unpriced_allowed {
            return None;
        }
        let bounded = |scope: &BudgetScope| self.standing(*scope).budget.usd.is_some();
        let scope = [BudgetScope::Session, BudgetScope::Project]
            .into_iter()
            .find(bounded)?;
        let (standing, model) = (self.standing(scope), Some(self.world.space.model_of(agent)));
        Some(BudgetQuestion {
            scope,
            standing,
            why: BudgetWhy::Unpriced,
            model,
        })
    }

    /// Whether a call would only wait for others now.
    fn would_wait(&self, agent: &AgentName, size: CallSize) -> bool {
        if self.unpriced(agent, &size).is_some() {
            return false;
        }
        match size.verdict(&self.standing(BudgetScope::Session)) {
            Verdict::Waits => true,
            Verdict::Asks => false,
            Verdict::Fits(answer_tokens) => {
                let size = CallSize {
                    answer_tokens,
                    ..size
                };
                size.verdict(&self.world.space.standing()) == Verdict::Waits
            }
        }
    }

    /// Lets the thread wait for the calls under way. It goes on by itself, and needs no place
    /// meanwhile.
    pub(crate) fn await_room(&mut self, mut thread: Thread) {
        self.leave(&mut thread, None);
        thread.phase = ThreadPhase::AwaitingRoom;
        self.put(thread);
    }

    /// Whoever waited for room and has it now goes on. Called once after every input.
    pub(crate) fn give_room(&mut self) {
        self.give_workflow_room();
        let waits = |thread: &&Thread| matches!(thread.phase, ThreadPhase::AwaitingRoom);
        let threads = self.session.turn.iter().flat_map(Turn::threads);
        let waiting: Vec<Lane> = threads.filter(waits).map(Thread::lane).collect();
        for lane in waiting {
            let Some(thread) = self.take_thread(lane) else {
                continue;
            };
            match self.would_wait(&thread.agent, self.step_size(&thread)) {
                true => self.put(thread),
                false => self.work(thread),
            }
        }
    }

    fn give_workflow_room(&mut self) {
        let Some(WorkflowPhase::AwaitingRoom { next }) = self.workflow_phase() else {
            return;
        };
        if !self.would_wait(&orchestrator(), self.own_size(&next)) {
            self.own_call(*next);
        }
    }

    /// What the thread's next call takes: as its last one, and what was said since; the first one
    /// by the estimate alone.
    pub(crate) fn step_size(&self, thread: &Thread) -> CallSize {
        let said = self.said_in(thread);
        let prompt_tokens = match thread.prompt_tokens {
            Some(before) => before.saturating_add(said),
            None => {
                let fixed = self.world.space.prompt_tokens(&thread.agent, thread.lane);
                // A task is shown what was said in the session, its own request included.
                let earlier =
                    self.earlier_tokens((thread.lane == Lane::OWN).then_some(thread.turn));
                fixed.saturating_add(earlier).saturating_add(said)
            }
        };
        let own = self
            .world
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
    pub(crate) fn own_size(&self, next: &WorkflowPhase) -> CallSize {
        let request = self
            .session
            .turn
            .as_ref()
            .map_or(0, |turn| tokens_of_text(&turn.request));
        let told = match next {
            WorkflowPhase::Joining { .. } => self.workflow_result_tokens(),
            WorkflowPhase::Planning { repair, .. } => {
                let repair = repair
                    .as_ref()
                    .map_or(0, |repair| tokens_of_text(&repair.answer));
                let agents = self.world.team.specialists();
                let agents: u64 = agents.map(|agent| tokens_of_text(&agent.description)).sum();
                let before = self.session.turn.as_ref().map(|turn| turn.id);
                agents
                    .saturating_add(repair)
                    .saturating_add(self.earlier_tokens(before))
            }
            _ => 0,
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

    pub(crate) fn size(
        &self,
        agent: &AgentName,
        prompt_tokens: u64,
        answer_tokens: u64,
    ) -> CallSize {
        let space = &*self.world.space;
        let prompt_usd = space.call_cost_usd(agent, prompt_tokens, 0);
        const MANY: u64 = 1_000_000;
        let answer_token_usd = space
            .call_cost_usd(agent, 0, MANY)
            .map(|usd| usd / MANY as f64);
        CallSize {
            prompt_tokens,
            answer_tokens,
            prompt_usd: prompt_usd.unwrap_or_default(),
            answer_token_usd: answer_token_usd.unwrap_or_default(),
            is_priced: prompt_usd.is_some(),
        }
    }

    /// What prompts show of earlier turns, or of all with no turn named.
    fn earlier_tokens(&self, before: Option<TurnId>) -> u64 {
        let limits = &self.world.limits.prompt;
        let shown = self
            .session
            .said
            .iter()
            .rev()
            .filter(|said| before.is_none_or(|turn| said.turn < turn));
        let tokens: u64 = shown.take(limits.messages).map(|said| said.tokens).sum();
        tokens.min(limits.tokens as u64)
    }

    /// What was said in the thread since its last call.
    fn said_in(&self, thread: &Thread) -> u64 {
        let task = self.origin(thread).task_id;
        let said = self
            .session
            .turn
            .as_ref()
            .and_then(|turn| turn.said.iter().find(|said| said.task == task));
        said.map_or(0, |said| said.tokens)
    }

    /// The call ended: what it read is known now, and counts again only with what comes next.
    pub(crate) fn prompt_was(&mut self, thread: &mut Thread, prompt_tokens: u64) {
        if prompt_tokens == 0 {
            return;
        }
        thread.prompt_tokens = Some(prompt_tokens);
        let task = self.origin(thread).task_id;
        if let Some(turn) = &mut self.session.turn {
            turn.said.retain(|said| said.task != task);
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
        let tokens =
            (estimated_size(message) as u64).min(tokens_of_bytes(limits.tool_result_bytes));
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
