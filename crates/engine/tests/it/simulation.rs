//! Thousands of seeded lives of a session: random requests and answers, crashes at any point,
//! inputs that come twice, late or out of order, cancels. After every input the invariants hold; at
//! the end every accepted message has ended once.
//!
//! `CODELAB_SEED=n` replays one seed, `CODELAB_SEEDS=n` sets how many run.

mod checks;
mod project;
pub(super) mod rng;

use codelab_engine::{
    AgentMode, Decision, Downtime, Effect, Input, ModelCallId, MultipleToolCalls, Session,
    ThreadPhase, UserMessage,
};
use codelab_protocol::{
    AgentName, CallId, CallerContext, ErrorCode, ModelFailure, ModelOutput, RawToolCall,
};
use serde_json::{Value, json};

use self::checks::Record;
use self::rng::Rng;
use super::kit::{Stage, restored, session};

const SEEDS: u64 = 10_000;
const INPUTS_PER_LIFE: usize = 60;
/// A life that does not come to rest within this many inputs never will.
const MAX_DRAIN: usize = 2_000;

#[test]
fn a_session_keeps_its_promises_in_every_life() {
    lives(live);
}

fn lives(live: fn(u64)) {
    let number = |name: &str| {
        std::env::var(name)
            .ok()
            .and_then(|text| text.parse::<u64>().ok())
    };
    if let Some(seed) = number("CODELAB_SEED") {
        return live(seed);
    }
    let seeds = number("CODELAB_SEEDS").unwrap_or(SEEDS);
    let threads = std::thread::available_parallelism().map_or(1, |n| n.get() as u64);
    std::thread::scope(|scope| {
        for first in 0..threads {
            let lives = move || {
                (first..seeds)
                    .step_by(threads as usize)
                    .for_each(|seed| replayable(live, seed))
            };
            scope.spawn(lives);
        }
    });
}

fn replayable(live: fn(u64), seed: u64) {
    if let Err(panic) = std::panic::catch_unwind(|| live(seed)) {
        eprintln!("replay with CODELAB_SEED={seed}");
        std::panic::resume_unwind(panic);
    }
}

struct Life {
    rng: Rng,
    stage: Stage,
    session: Session,
    record: Record,
    /// Model calls that were made once; their outcomes may still arrive.
    past_models: Vec<ModelCallId>,
}

fn live(seed: u64) {
    let mut rng = Rng::new(seed);
    let mut stage = Stage::new(if rng.one_in(5) {
        AgentMode::Single
    } else {
        AgentMode::Multi
    });
    stage.limits.steps = 2 + rng.below(8) as u32;
    stage.limits.switches = rng.below(3) as u32;
    stage.limits.queue_length = rng.below(4);
    if rng.one_in(2) {
        stage.limits.multiple_tool_calls = Some(MultipleToolCalls::Sequence);
    }
    let mut life = Life {
        rng,
        stage,
        session: session(),
        record: Record::default(),
        past_models: Vec::new(),
    };
    for _ in 0..INPUTS_PER_LIFE {
        let input = life.any_input();
        life.take(input);
    }
    for _ in 0..MAX_DRAIN {
        if life.session.turn().is_none() {
            break;
        }
        let input = life.helpful_input();
        life.take(input);
    }
    life.record.at_rest(&life.session);
}

impl Life {
    fn take(&mut self, input: Input) {
        if self.rng.one_in(12) {
            self.crash();
        }
        let before = self.session.clone();
        let outcome = self.session.apply(input.clone(), &mut self.stage.world());
        let Ok(applied) = outcome else {
            assert_eq!(
                snapshot(&before),
                snapshot(&self.session),
                "a refused input changed the session: {input:?}"
            );
            return;
        };
        if self.rng.one_in(20) {
            // The commit never happened: the sender was not answered and the old state comes back.
            self.session = before;
            return self.crash();
        }
        self.record
            .commit(&input, &applied.effects, &self.session, &self.stage.limits);
        for effect in &applied.effects {
            if let Effect::CallModel(call) = effect {
                self.past_models.push(call.id);
            }
        }
    }

    fn crash(&mut self) {
        self.session = restored(&self.session);
        let down_ms = self.rng.below(100_000) as i64;
        self.stage.now = self.stage.now.plus_millis(down_ms);
        self.record.model_lost();
        let input = Input::Recovered {
            down: Downtime {
                ms: down_ms,
                back_at: self.stage.now,
            },
            epoch: self.session.epoch() + 1,
        };
        let applied = self
            .session
            .apply(input.clone(), &mut self.stage.world())
            .unwrap();
        self.record
            .commit(&input, &applied.effects, &self.session, &self.stage.limits);
        let grace = self.stage.now.plus_seconds(30);
        assert!(
            self.session
                .next_deadline()
                .is_none_or(|deadline| deadline >= grace),
            "too little time after a crash"
        );
        for effect in &applied.effects {
            if let Effect::CallModel(call) = effect {
                self.past_models.push(call.id);
            }
        }
    }

    fn any_input(&mut self) -> Input {
        match self.rng.below(20) {
            0..=3 => self.user_message(),
            4..=9 => self.helpful_input(),
            10 => {
                let stale = self.rng.pick(&self.past_models).copied();
                match stale {
                    Some(call) => Input::ModelFinished {
                        call,
                        outcome: self.model_outcome(),
                        recalled: Vec::new(),
                    },
                    None => self.user_message(),
                }
            }
            11 | 12 => self.result_for_any_call(),
            13 | 14 => self.decision_for_any_call(),
            15 => Input::SwitchAgent {
                agent: self.agent(),
            },
            16 => Input::Cancel {
                drop_queue: self.rng.one_in(2),
            },
            17 if self.rng.one_in(4) => Input::Reset,
            _ => {
                self.stage.now = self.stage.now.plus_seconds(self.rng.below(400) as u64);
                Input::Tick
            }
        }
    }

    /// What moves the current turn on.
    fn helpful_input(&mut self) -> Input {
        let Some(turn) = self.session.turn() else {
            return self.user_message();
        };
        if let Some(&(call, _)) = turn.model_calls().first() {
            return Input::ModelFinished {
                call,
                outcome: self.model_outcome(),
                recalled: Vec::new(),
            };
        }
        let phase = turn.threads().next().map(|thread| thread.phase.clone());
        match phase {
            Some(ThreadPhase::AwaitingResult { call, .. }) => self.result(call.call_id),
            Some(ThreadPhase::AwaitingApproval { call, .. }) => self.decision(call.call_id),
            _ => self.plain_message(),
        }
    }

    fn user_message(&mut self) -> Input {
        let Input::UserMessage(mut message) = self.plain_message() else {
            unreachable!()
        };
        message.agent = self.rng.one_in(3).then(|| self.agent());
        Input::UserMessage(message)
    }

    fn plain_message(&mut self) -> Input {
        let text = format!("message {}", self.record.next_text());
        Input::UserMessage(UserMessage {
            text,
            agent: None,
            client_message_id: None,
            caller: CallerContext::default(),
            attachments: Vec::new(),
            delivery: codelab_protocol::Delivery::Queue,
        })
    }

    fn agent(&mut self) -> AgentName {
        let names = [
            "orchestrator",
            "coder",
            "architect",
            "debug",
            "ask",
            "universal",
            "nobody",
        ];
        self.rng.pick(&names).unwrap().parse().unwrap()
    }

    fn model_outcome(&mut self) -> Result<ModelOutput, ModelFailure> {
        let call = |name: &str, arguments: Value| RawToolCall {
            name: name.to_owned(),
            arguments: arguments.to_string(),
        };
        let calls = |tool_calls| {
            Ok(ModelOutput {
                text: String::new(),
                tool_calls,
                ..ModelOutput::default()
            })
        };
        let text = |text: &str| {
            Ok(ModelOutput {
                text: text.to_owned(),
                ..ModelOutput::default()
            })
        };
        let file = format!("f{}", self.rng.below(3));
        let read = call("read_file", json!({ "path": file }));
        let write = call("write_file", json!({ "path": file, "content": "x" }));
        match self.rng.below(16) {
            0 => text("an answer"),
            1 => text(""),
            2 => {
                let (message, details) = ("down".to_owned(), Default::default());
                Err(ModelFailure {
                    details,
                    ..ModelFailure::not_called(ErrorCode::LlmError, message)
                })
            }
            3 => text(r#"{"agent": "debug", "confidence": "high", "reason": "r"}"#),
            4 => calls(vec![read]),
            5 | 6 => calls(vec![write]),
            7 => calls(vec![call(
                "write_file",
                json!({ "path": ".git/hooks/x", "content": "" }),
            )]),
            8 => calls(vec![call(
                "execute_command",
                json!({ "command": "rm -rf x" }),
            )]),
            9 => calls(vec![call(
                "ask_followup_question",
                json!({ "question": "Which?" }),
            )]),
            10 => calls(vec![call(
                "attempt_completion",
                json!({ "result": "done" }),
            )]),
            11 => calls(vec![call(
                "switch_mode",
                json!({ "agent": self.agent(), "reason": "r" }),
            )]),
            12 => calls(vec![call("echo", json!({ "text": "e" })), read, write]),
            13 => calls(vec![RawToolCall {
                name: "read_file".to_owned(),
                arguments: "{".to_owned(),
            }]),
            14 => calls(vec![call("fly", json!({}))]),
            _ => calls(vec![
                read,
                call("ask_followup_question", json!({ "question": "?" })),
                write,
            ]),
        }
    }

    fn result_for_any_call(&mut self) -> Input {
        let call_id = self.any_call();
        self.result(call_id)
    }

    fn result(&mut self, call_id: CallId) -> Input {
        let result = json!({ "success": true, "n": self.rng.below(2) });
        let known = self.record.known_call(&call_id);
        Input::ToolResult {
            call_id,
            result,
            client: None,
            known,
            images: Vec::new(),
        }
    }

    fn decision_for_any_call(&mut self) -> Input {
        let call_id = self.any_call();
        self.decision(call_id)
    }

    fn decision(&mut self, call_id: CallId) -> Input {
        let decision = match self.rng.below(5) {
            0 => Decision::Reject { feedback: None },
            1 => Decision::Edit {
                arguments: serde_json::from_value(json!({ "path": "e", "content": "y" })).unwrap(),
            },
            2 => Decision::Approve { remember: true },
            _ => Decision::Approve { remember: false },
        };
        let known = self.record.known_approval(&call_id);
        Input::Decision {
            call_id,
            decision,
            digest: None,
            base: None,
            decided_by: "person".to_owned(),
            known,
        }
    }

    fn any_call(&mut self) -> CallId {
        let calls = self.record.call_ids();
        self.rng
            .pick(&calls)
            .cloned()
            .unwrap_or_else(|| "unknown".parse().unwrap())
    }
}

fn snapshot(session: &Session) -> String {
    serde_json::to_string(session).unwrap()
}
