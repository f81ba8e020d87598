//! Each file in `tests/scripts` is a conversation; its transcript of effects is the snapshot beside
//! it.
//!
//! Lines: `user: text`, `user @agent: text`, `steer: text`, `steer @agent: text`, `switch: agent`, `model: text`, `model: call tool
//! {json}` (several calls on one line are separated by ` && `), `model: text | call …`, `model
//! fails: CODE`, `result: text`, `approve`, `approve remember`, `edit: {json}`, `reject: reason`,
//! `cancel`, `cancel drop`, `reset`, `wait: seconds`, `crash: seconds` (`crash: 10 seen 290`:
//! looked at so much later), `stopping` (until the crash), `single` (first line: single-agent
//! mode), `sequence`, `limits: steps=2 switches=1 repeats=3 queue=1`, `limits: compact=100
//! task=60`,
//! `summary: text`, `summary fails`, `compact`, `fork: 3` (goes on in a session with the first three messages).
//!
//! After a first line `project` (`project: tokens=100` bounds the session's budget) also: `plan:
//! a=coder b=writer<a,c` as the planner's answer, and, with a task's id after the first word,
//! `model a: …`, `model a fails: …`, `approve a`, `edit a: …`, `reject a: …`, `granted a`, `claim A
//! a`, `result A a: …`, `answer a: text` (without one: the thread that waits for it; `claim` and
//! `result` of a call that ended mean the last one). `claim A after B is gone`, `gone A`, `deleted:
//! agent`, `retry` (the plan), `again` (the last turn; `again msg-1`: that one), `renew`, `renew a` (the approval), `revoke` (the oldest of what is remembered), `revoke x` (nothing), `waiting steer: text` (the message that waits steers; `queue`: it waits; `back`: it is taken back), `no agents`, `used: tokens` (by each later model call), `slots: coder=1`,
//! `others enter: agent`, `others leave: agent`, `close: agent`, `open: agent`, `deregister:
//! agent`, `brings: AGENTS.md=text skill!description`, `nobody attached`, `price: usd`, `project budget: tokens=50`, `prompt: tokens` (of each
//! agent), `preview A: x` (a client tells that the file holds x, `none`: that there is none), `certain A: why` (a client tells that the write fails, whoever approves it), `ask again
//! A: x`, `approve seen x`, `claim A of x` (of the version that may replace x), `mode: edits`, `others call: tokens` (set aside by other sessions), `announced: seconds` (the model's
//! server makes the call wait), `heard` (the model says something), `fell back: a b` (b is asked
//! instead of a), `streams: text` (each model call under way, until a crash; nothing: none), `cut at: tokens` (the next answer ends at this limit), `model fails: CODE kind`.

mod project;
mod shown;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use codelab_engine::{
    AgentMode, CallerAnswer, Decision, Downtime, Effect, EventBody, EventRecord, Input, KnownCall,
    Lane, MessageRecord, MultipleToolCalls, Session, ThreadPhase, UserMessage,
};
use codelab_protocol::{
    AnswerCut, CallId, CallerContext, Delivery, ErrorCode, Message, MessageId, ModelFailure,
    ModelFailureKind, ModelOutput, Plan, RawToolCall, Role, SessionEventBody, Usage,
};
use serde_json::Value;

use super::kit::{Stage, restored, session};

#[test]
fn scripts_have_their_transcripts() {
    insta::with_settings!({ snapshot_path => "../snapshots", prepend_module_to_snapshot => false, omit_expression => true }, {
        insta::glob!("../scripts", "*.txt", |path| {
            let script = std::fs::read_to_string(path).unwrap();
            insta::assert_snapshot!(play(&script));
        });
    });
}

struct Play {
    stage: Stage,
    session: Session,
    last_call: Option<CallId>,
    /// What the store would know of the calls of a project.
    calls: BTreeMap<CallId, KnownCall>,
    plan: Option<Plan>,
    /// What users said.
    said: BTreeMap<MessageId, Message>,
    /// Messages that waited, by their text.
    waited: BTreeMap<String, MessageId>,
    /// The session's own history.
    history: Vec<MessageRecord>,
    /// Every approval that there was.
    asked: BTreeSet<CallId>,
    used: Option<Usage>,
    /// Of the next answer.
    cut: Option<AnswerCut>,
    /// The last question of an MCP server.
    question: Option<CallId>,
    transcript: String,
}

fn play(script: &str) -> String {
    let mut play = Play {
        stage: Stage::new(AgentMode::Multi),
        session: session(),
        last_call: None,
        calls: BTreeMap::new(),
        plan: None,
        said: BTreeMap::new(),
        waited: BTreeMap::new(),
        history: Vec::new(),
        asked: BTreeSet::new(),
        used: None,
        cut: None,
        question: None,
        transcript: String::new(),
    };
    for line in script
        .lines()
        .filter(|line| !line.trim().is_empty() && !line.starts_with('#'))
    {
        writeln!(play.transcript, "{line}").unwrap();
        play.line(line);
    }
    play.transcript
}

impl Play {
    fn line(&mut self, line: &str) {
        let (head, rest) = line
            .split_once(": ")
            .unwrap_or((line.trim_end_matches(':'), ""));
        match head {
            "stopping" => self.stage.stopping = true,
            "single" => self.stage = Stage::new(AgentMode::Single),
            "sequence" => self.stage.limits.multiple_tool_calls = Some(MultipleToolCalls::Sequence),
            "limits" => self.limits(rest),
            "wait" => {
                self.stage.now = self.stage.now.plus_seconds(rest.parse().unwrap());
                self.apply(Input::Tick);
            }
            "crash" => {
                let (down, unseen) = rest.split_once(" seen ").unwrap_or((rest, "0"));
                let ms = down.parse::<i64>().unwrap() * 1000;
                let back_at = self.stage.now.plus_millis(ms);
                self.stage.now = back_at.plus_seconds(unseen.parse().unwrap());
                self.session = restored(&self.session);
                self.stage.space.lose_slots();
                self.stage.stopping = false;
                self.stage.streamed.0 = None;
                let epoch = self.session.epoch() + 1;
                self.apply(Input::Recovered {
                    down: Downtime { ms, back_at },
                    epoch,
                });
            }
            _ if self.prepare(head, rest) => {}
            _ => {
                let input = self.input(head, rest);
                self.apply(input);
            }
        }
    }

    fn limits(&mut self, rest: &str) {
        for pair in rest.split_whitespace() {
            let (name, value) = pair.split_once('=').unwrap();
            let value: u32 = value.parse().unwrap();
            match name {
                "steps" => self.stage.limits.steps = value,
                "switches" => self.stage.limits.switches = value,
                "repeats" => self.stage.limits.repeats = value,
                "queue" => self.stage.limits.queue_length = value as usize,
                "task" => self.stage.limits.task_timeout_seconds = value.into(),
                "compact" => self.stage.limits.compact_tokens = Some(value.into()),
                other => panic!("no limit {other}"),
            }
        }
    }

    fn input(&mut self, head: &str, rest: &str) -> Input {
        let words: Vec<&str> = head.split(' ').collect();
        match words.as_slice() {
            ["user"] => user(rest, None),
            ["user", agent] => user(rest, agent.strip_prefix('@')),
            ["steer"] => steer(user(rest, None)),
            ["steer", agent] => steer(user(rest, agent.strip_prefix('@'))),
            ["switch"] => Input::SwitchAgent {
                agent: rest.parse().unwrap(),
            },
            ["model", task @ .., "fails"] => {
                let (code, kind) = rest.split_once(' ').unwrap_or((rest, ""));
                let code = ErrorCode::ALL
                    .iter()
                    .copied()
                    .find(|known| known.as_str() == code)
                    .unwrap();
                let kind: Option<ModelFailureKind> = serde_json::from_value(kind.into()).ok();
                let failure = ModelFailure {
                    kind,
                    ..ModelFailure::not_called(code, "no answer")
                };
                self.model(task.first(), Err(failure))
            }
            ["summary"] => self.summary(Ok(output(rest))),
            ["summary", "fails"] => {
                let (code, message) = (ErrorCode::LlmError, "no answer".to_owned());
                self.summary(Err(ModelFailure::not_called(code, message)))
            }
            ["model", task @ ..] => self.model(task.first(), Ok(output(rest))),
            ["result"] => {
                let result = json_or_text(rest);
                Input::ToolResult {
                    call_id: self.call(None),
                    result,
                    client: None,
                    known: None,
                    images: Vec::new(),
                }
            }
            ["approve", "seen", base] => {
                match self.decide(None, Decision::Approve { remember: false }) {
                    Input::Decision {
                        call_id,
                        decision,
                        decided_by,
                        ..
                    } => Input::Decision {
                        call_id,
                        decision,
                        digest: None,
                        base: Some(project::base(base)),
                        decided_by,
                        known: false,
                    },
                    other => panic!("{other:?}"),
                }
            }
            ["approve", "remember"] => self.decide(None, Decision::Approve { remember: true }),
            ["approve", task @ ..] => {
                self.decide(task.first(), Decision::Approve { remember: false })
            }
            ["edit", task @ ..] => self.decide(
                task.first(),
                Decision::Edit {
                    arguments: serde_json::from_str(rest).unwrap(),
                },
            ),
            ["reject", task @ ..] => {
                let feedback = (!rest.is_empty()).then(|| rest.to_owned());
                self.decide(task.first(), Decision::Reject { feedback })
            }
            ["cancel"] => Input::Cancel { drop_queue: false },
            ["cancel", "drop"] => Input::Cancel { drop_queue: true },
            ["reset"] => Input::Reset,
            words => self.project_input(words, rest),
        }
    }

    fn model(&mut self, task: Option<&&str>, outcome: Result<ModelOutput, ModelFailure>) -> Input {
        let calls = self.session.model_calls();
        let lane = task.map(|task| self.lane(task));
        let call = calls
            .iter()
            .map(|(call, _)| *call)
            .find(|call| lane.is_none_or(|lane| call.lane == lane));
        let cut = self.cut.take();
        let outcome = outcome.map(|output| ModelOutput {
            usage: self.used.clone(),
            cut,
            ..output
        });
        let call =
            call.unwrap_or_else(|| panic!("no model call is under way after\n{}", self.transcript));
        Input::ModelFinished {
            call,
            outcome,
            recalled: Vec::new(),
        }
    }

    fn summary(&self, outcome: Result<ModelOutput, ModelFailure>) -> Input {
        let calls = self.session.model_calls();
        let call = calls
            .iter()
            .map(|(call, _)| *call)
            .find(|call| call.lane == Lane::ASIDE);
        let outcome = outcome.map(|output| ModelOutput {
            usage: self.used.clone(),
            ..output
        });
        Input::ModelFinished {
            call: call.expect("no summary is awaited"),
            outcome,
            recalled: Vec::new(),
        }
    }

    fn decide(&self, task: Option<&&str>, decision: Decision) -> Input {
        let asked = match task {
            None => self
                .session
                .pending_approvals()
                .next()
                .map(|approval| approval.call_id.clone()),
            Some(_) => None,
        };
        let call_id = asked.unwrap_or_else(|| self.call(task));
        Input::Decision {
            call_id,
            decision,
            digest: None,
            base: None,
            decided_by: "user 1".to_owned(),
            known: false,
        }
    }

    /// The call that a thread has open, else the last one that there was.
    fn call(&self, task: Option<&&str>) -> CallId {
        let lane = task.map(|task| self.lane(task));
        let mut threads = self
            .session
            .turn()
            .into_iter()
            .flat_map(|turn| turn.threads());
        let open = |phase: &ThreadPhase| match phase {
            ThreadPhase::AwaitingAnswer { call_id, .. } if lane.is_some() => Some(call_id.clone()),
            ThreadPhase::AwaitingBudget { approval, .. } if lane.is_some() => {
                Some(approval.call_id.clone())
            }
            ThreadPhase::AwaitingResult { call, .. }
            | ThreadPhase::Calling { call, .. }
            | ThreadPhase::AwaitingApproval { call, .. } => Some(call.call_id.clone()),
            _ => None,
        };
        threads
            .find_map(|thread| {
                lane.is_none_or(|lane| thread.lane() == lane)
                    .then(|| open(&thread.phase))
                    .flatten()
            })
            .or_else(|| self.last_call.clone())
            .unwrap_or_else(|| CallId::parse("call-unknown").unwrap())
    }

    fn lane(&self, task: &str) -> Lane {
        let tasks = &self.plan.as_ref().expect("no plan").tasks;
        Lane::of_task(
            tasks
                .iter()
                .position(|known| known.id.as_str() == task)
                .expect("no such task"),
        )
    }

    fn apply(&mut self, input: Input) {
        match self.stage.apply(&mut self.session, input) {
            Ok(applied) => {
                for effect in &applied.effects {
                    self.show(effect);
                }
                match applied.answer {
                    CallerAnswer::Now(status) => {
                        writeln!(self.transcript, "    = {}", status.as_str()).unwrap()
                    }
                    CallerAnswer::Claimed => writeln!(self.transcript, "    claimed").unwrap(),
                    CallerAnswer::Repeat(_) => {
                        writeln!(self.transcript, "    the same again").unwrap()
                    }
                    CallerAnswer::Steers(_) => writeln!(self.transcript, "    steers").unwrap(),
                    CallerAnswer::Nothing | CallerAnswer::Span(_) | CallerAnswer::Answered(_) => {}
                }
            }
            Err(refusal) => writeln!(
                self.transcript,
                "    refused {}: {refusal}",
                refusal.code.as_str()
            )
            .unwrap(),
        }
    }

    fn show(&mut self, effect: &Effect) {
        if let Effect::Message(record) = effect
            && record.task.is_none()
        {
            self.history.push(record.clone());
        }
        match effect {
            Effect::Event(EventRecord {
                body: EventBody::Project(SessionEventBody::MessageQueued(queued)),
                ..
            }) => {
                let (text, id) = (queued.content.clone(), queued.message_id.clone());
                self.waited.insert(text, id);
            }
            Effect::CallOpened { call_id, .. } => self.last_call = Some(call_id.clone()),
            Effect::CallClosed {
                call_id,
                result_digest,
                span,
                ..
            } => {
                let known = KnownCall {
                    result_digest: result_digest.clone(),
                    span: *span,
                };
                self.calls.insert(call_id.clone(), known);
            }
            Effect::PlanSaved { plan, .. } => self.plan = Some(Plan::clone(plan)),
            Effect::Message(record) if record.message.role == Role::User => {
                let message = record.message.clone();
                self.said.insert(message.message_id.clone(), message);
            }
            Effect::ApprovalOpened(approval) => {
                self.asked.insert(approval.call_id.clone());
            }
            _ => {}
        }
        if let Some(line) = shown::effect(effect) {
            writeln!(self.transcript, "    {line}").unwrap();
        }
    }
}

fn user(text: &str, agent: Option<&str>) -> Input {
    Input::UserMessage(UserMessage {
        text: text.to_owned(),
        agent: agent.map(|name| name.parse().unwrap()),
        client_message_id: None,
        caller: CallerContext::default(),
        attachments: Vec::new(),
        delivery: Delivery::Queue,
    })
}

fn steer(input: Input) -> Input {
    match input {
        Input::UserMessage(message) => Input::UserMessage(UserMessage {
            delivery: Delivery::Steer,
            ..message
        }),
        other => other,
    }
}

fn output(line: &str) -> ModelOutput {
    let (text, calls) = match line.split_once("call ") {
        Some((text, calls)) => (text.trim_end_matches("| ").trim(), calls),
        None => (line, ""),
    };
    let tool_calls = calls
        .split(" && ")
        .filter(|call| !call.is_empty())
        .map(|call| {
            let call = call.trim_start_matches("call ");
            let (name, arguments) = call.split_once(' ').unwrap_or((call, ""));
            RawToolCall {
                name: name.to_owned(),
                arguments: arguments.to_owned(),
            }
        });
    ModelOutput {
        text: text.to_owned(),
        tool_calls: tool_calls.collect(),
        ..ModelOutput::default()
    }
}

fn json_or_text(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|_| Value::from(text))
}
