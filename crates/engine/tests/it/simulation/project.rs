//! Lives of a project's session: direct calls and plans side by side with busy agents, two clients,
//! leases, approvals, budgets and crashes, also between a step and its commit.

mod beside;
mod model;
mod people;
mod record;
mod rewinds;
mod workflows;

use std::sync::Arc;

use codelab_engine::{
    AgentClosed, Budget, Downtime, Input, Lane, MAX_TASKS, ModelCallId, MultipleToolCalls, Session,
    Thread, ThreadPhase,
};
use codelab_protocol::{AgentName, ErrorCode};

use self::record::Record;
use super::rng::Rng;
use super::{lives, snapshot};
use crate::it::kit::{Stage, project_session, restored};
use crate::it::named::named_tools;

const INPUTS_PER_LIFE: usize = 60;
const INPUTS_PER_BIG_LIFE: usize = 30;
/// A life that does not come to rest within this many inputs never will.
const MAX_DRAIN: usize = 5_000;
/// One in so many inputs is compared with what was before, should it be refused.
const WATCHED: usize = 4;
/// One in so many inputs comes to a fork of the session.
const FORKS: usize = 80;
/// The state of a session whose texts are short, with a plan of fifty tasks.
const MAX_STATE_BYTES: usize = 150_000;

#[test]
fn a_project_keeps_its_promises_in_every_life() {
    lives(live);
}

#[test]
fn a_plan_of_fifty_tasks_keeps_its_promises_in_every_life() {
    lives(live_with_fifty_tasks);
}

struct Life {
    rng: Rng,
    stage: Stage,
    session: Session,
    record: Record,
    /// Model calls that were made once; their outcomes may still arrive.
    past_models: Vec<ModelCallId>,
    /// One in so many inputs meets a crash.
    crash_rate: usize,
    messages: usize,
    /// The largest plan of this life.
    max_tasks: usize,
}

fn live(seed: u64) {
    let mut life = Life::new(seed);
    for _ in 0..INPUTS_PER_LIFE {
        if life.rng.one_in(FORKS) {
            life.goes_on_in_a_fork();
        }
        let input = life.any_input();
        life.take(input);
    }
    life.come_to_rest();
}

/// The first request becomes a random graph of as many tasks as a plan can have, and it runs.
fn live_with_fifty_tasks(seed: u64) {
    let mut life = Life::new(seed);
    (life.stage.space.budget, life.max_tasks) = (Budget::default(), 2);
    life.session = project_session(Budget::default());
    let input = life.planned_message();
    life.commit(input);
    let tasks = life.graph_of(MAX_TASKS);
    let call = life.session.turn().unwrap().model_calls()[0].0;
    life.commit(Life::planned(call, &tasks));
    let asked = life
        .session
        .pending_approvals()
        .next()
        .unwrap()
        .call_id
        .clone();
    life.commit(Life::approved(asked));
    assert_eq!(life.record.plans()[0].tasks.len(), MAX_TASKS);
    for _ in 0..INPUTS_PER_BIG_LIFE {
        let input = life.any_input();
        life.take(input);
    }
    life.come_to_rest();
}

impl Life {
    fn new(seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        let mut stage = Stage::project();
        stage.limits.steps = 2 + rng.below(6) as u32;
        stage.limits.switches = rng.below(3) as u32;
        stage.limits.queue_length = rng.below(4);
        stage.limits.plan_approval_tasks = 1 + rng.below(4);
        stage.limits.direct_timeout_seconds = 5 + rng.below(60) as u64;
        stage.limits.task_timeout_seconds = 5 + rng.below(600) as u64;
        stage.limits.tool_result_timeout_seconds = 5 + rng.below(300) as u64;
        stage.limits.approval_timeout_seconds = *rng.pick(&[0, 20, 300]).unwrap();
        stage.space.default_limit = 1 + rng.below(4);
        stage.space.prompt_tokens = rng.below(300) as u64;
        stage.space.budget.tokens = rng.one_in(3).then(|| rng.below(9000) as u64);
        if rng.one_in(2) {
            let tools = "near/tool@client far/tool@server near/free=allow far/free@server=allow";
            stage.space.named_tools = Arc::new(named_tools(tools));
        }
        if rng.one_in(2) {
            stage.limits.multiple_tool_calls = Some(MultipleToolCalls::Reject);
        }
        let budget = Budget {
            usd: None,
            tokens: rng.one_in(3).then(|| rng.below(9000) as u64),
        };
        let crash_rate = *rng.pick(&[12, 40, 200, usize::MAX]).unwrap();
        let max_tasks = *rng.pick(&[2, 4, 8, 16]).unwrap();
        let (session, record) = (project_session(budget), Record::default());
        Self {
            rng,
            stage,
            session,
            record,
            past_models: Vec::new(),
            crash_rate,
            messages: 0,
            max_tasks,
        }
    }

    fn come_to_rest(mut self) {
        for _ in 0..MAX_DRAIN {
            if self.session.is_idle() && self.session.model_calls().is_empty() {
                break;
            }
            self.others_go();
            let input = self.helpful_input();
            self.take(input);
        }
        self.record.at_rest(&self.session, &self.stage.space);
    }

    /// An input that is taken, without a crash around it.
    fn commit(&mut self, input: Input) {
        let applied = self.stage.apply(&mut self.session, input.clone()).unwrap();
        self.record
            .commit(&input, &applied, &self.session, &self.stage);
        self.past_models.extend(self.record.made());
    }

    fn take(&mut self, mut input: Input) {
        if self.rng.one_in(self.crash_rate) {
            self.crash();
            // What the server had heard of slots is lost with it.
            if matches!(input, Input::SlotGranted { .. } | Input::SlotLost { .. }) {
                return;
            }
            self.looks_again(&mut input);
        }
        let is_lost = self.rng.one_in(self.crash_rate.saturating_mul(2));
        let is_watched = is_lost || self.rng.one_in(WATCHED);
        let before = is_watched.then(|| (self.session.clone(), self.stage.space.clone()));
        let outcome = self.stage.apply(&mut self.session, input.clone());
        let applied = match (outcome, before) {
            (Err(_), None) => return,
            (Err(_), Some((before, space))) => {
                assert_eq!(
                    snapshot(&before),
                    snapshot(&self.session),
                    "a refused input changed the session: {input:?}"
                );
                assert_eq!(
                    format!("{space:?}"),
                    format!("{:?}", self.stage.space),
                    "a refused input took slots"
                );
                return;
            }
            (Ok(_), Some((before, space))) if is_lost => {
                // The commit never happened: what the step took is given back and the old state is
                // read again.
                (self.session, self.stage.space) = (before, space);
                return self.crash();
            }
            (Ok(applied), _) => applied,
        };
        self.record
            .commit(&input, &applied, &self.session, &self.stage);
        self.past_models.extend(self.record.made());
    }

    fn crash(&mut self) {
        assert!(
            snapshot(&self.session).len() < MAX_STATE_BYTES,
            "the state grows without bounds"
        );
        if self.rng.one_in(3) {
            self.stop();
        }
        self.session = restored(&self.session);
        let down_ms = self.rng.below(100_000) as i64;
        self.stage.now = self.stage.now.plus_millis(down_ms);
        self.stage.space.lose_slots();
        self.stage.streamed.0 = None;
        let input = Input::Recovered {
            down: Downtime {
                ms: down_ms,
                back_at: self.stage.now,
            },
            epoch: self.session.epoch() + 1,
        };
        self.commit(input);
    }

    /// A server that was asked to stop hears of a few more outcomes, and makes no call any more.
    fn stop(&mut self) {
        self.stage.stopping = true;
        for _ in 0..self.rng.below(5) {
            let input = self.helpful_input();
            if let Ok(applied) = self.stage.apply(&mut self.session, input.clone()) {
                self.record
                    .commit(&input, &applied, &self.session, &self.stage);
                self.past_models.extend(self.record.made());
            }
        }
        self.stage.stopping = false;
    }

    fn any_input(&mut self) -> Input {
        self.others();
        match self.rng.below(34) {
            0..=2 => self.user_message(),
            3..=13 => self.helpful_input(),
            14 => match self.rng.pick(&self.past_models).copied() {
                Some(call) => self.model_finished(call),
                None => self.user_message(),
            },
            15 => self.result_for_any_call(),
            16 => self.claim_of_any_call(),
            17 => self.decision_about_anything(),
            18 => self.answer_to_anything(),
            19 if self.rng.one_in(2) => Input::Cancel {
                drop_queue: self.rng.one_in(3),
            },
            20 => self.retry(),
            21 if self.rng.one_in(3) => Input::ClientGone {
                client_id: self.client(),
            },
            22 if self.rng.one_in(2) => Input::RoomChanged,
            23 => self.retry_turn(),
            24 => self.renewal(),
            25 => Input::Compact,
            26 if self.rng.one_in(2) => self.revocation(),
            26 => self.change_of_waiting(),
            27 | 28 => self.found_in_any_file(),
            29 | 30 => self.rewind(),
            31 => self.undo(),
            _ => {
                self.stage.now = self.stage.now.plus_seconds(self.rng.below(120) as u64);
                Input::Tick
            }
        }
    }

    /// What moves the current turn on.
    fn helpful_input(&mut self) -> Input {
        let Some(turn) = self.session.turn() else {
            if let Some(call_id) = self.record.history.open_rewind() {
                return self.rewind_goes_on(call_id);
            }
            let calls = self.session.model_calls();
            return match calls.first().map(|(call, _)| *call) {
                Some(summary) => self.model_finished(summary),
                None if self.rng.one_in(6) => self.undo(),
                None if self.rng.one_in(3) => self.rewind(),
                None => self.user_message(),
            };
        };
        // A call can wait for the room that a summary has set aside.
        let models: Vec<ModelCallId> = beside::wanted(&self.session);
        let waits = |thread: &&Thread| {
            thread.phase.suspended().is_some()
                || matches!(thread.phase, ThreadPhase::Calling { .. })
        };
        let waiting: Vec<Lane> = turn.threads().filter(waits).map(Thread::lane).collect();
        let told = self.stage.space.grants.len() + self.stage.space.losses.len();
        let at = self.rng.below(models.len() + waiting.len() + told);
        if let Some(call) = models.get(at) {
            return self.model_finished(*call);
        }
        if let Some(lane) = waiting.get(at - models.len()) {
            let phase = turn
                .threads()
                .find(|thread| thread.lane() == *lane)
                .map(|thread| thread.phase.clone());
            return self.helped(phase.unwrap());
        }
        if told > 0 {
            return self.heard_of_slot();
        }
        // The plan itself waits, or everything waits for other people's work.
        let asked = self
            .session
            .pending_approvals()
            .next()
            .map(|approval| approval.call_id.clone());
        match asked {
            Some(asked) => self.decision(asked),
            // What waits for room hears of it.
            None => Input::RoomChanged,
        }
    }

    fn heard_of_slot(&mut self) -> Input {
        let space = &mut self.stage.space;
        if let Some((lane, agent)) = space.grants.pop_front() {
            return Input::SlotGranted {
                lane,
                status: space.status(&agent),
            };
        }
        match space.losses.pop_front() {
            Some(lane) => Input::SlotLost {
                lane,
                closed: AgentClosed {
                    code: ErrorCode::AgentUnavailable,
                    why: "taken out".to_owned(),
                    retry_after_seconds: 1,
                },
            },
            None => Input::Tick,
        }
    }

    /// Other sessions come and go, agents close and open.
    fn others(&mut self) {
        // Models say something, or nothing yet.
        self.stage.streamed.0 = match self.rng.below(3) {
            0 => Some(format!("part {}", self.rng.below(100))),
            1 => Some(" ".to_owned()),
            _ => None,
        };
        let agent = self.agent();
        let space = &mut self.stage.space;
        match self.rng.below(12) {
            0 => space.others_enter(&agent),
            1 | 2 => space.others_leave(&agent),
            3 if self.rng.one_in(4) => space.close(&agent),
            3 if self.rng.one_in(4) => space.agents.entry(agent).or_default().retired = true,
            4 => {
                let slots = space.agents.entry(agent).or_default();
                (slots.closed, slots.retired) = (false, false);
            }
            5 => space.others_reserved.tokens = self.rng.below(3000) as u64,
            6 => space.others_reserved.tokens = 0,
            _ => {}
        }
    }

    fn others_go(&mut self) {
        self.stage.space.others_reserved.tokens = 0;
        for agent in AGENTS {
            self.stage.space.others_leave(&agent.parse().unwrap());
        }
    }

    fn agent(&mut self) -> AgentName {
        self.rng.pick(&AGENTS).unwrap().parse().unwrap()
    }
}

const AGENTS: [&str; 4] = [
    "agent_coder",
    "agent_analyzer",
    "agent_writer",
    "agent_researcher",
];
