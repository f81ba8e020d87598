//! Each file in `tests/scripts` is a conversation; its transcript of effects is the snapshot beside it.
//!
//! Lines: `user: text`, `user @agent: text`, `switch: agent`, `model: text`, `model: call tool {json}` (several calls on
//! one line are separated by ` && `), `model: text | call …`, `model fails: CODE`, `result: text`, `approve`,
//! `approve remember`, `edit: {json}`, `reject: reason`, `cancel`, `cancel drop`, `reset`, `wait: seconds`,
//! `crash: seconds`, `single` (first line: single-agent mode), `sequence`, `limits: steps=2 switches=1 repeats=3 queue=1`.

use std::fmt::Write as _;

use codelab_engine::{Answer, Decision, Effect, Input, Mode, MultipleToolCalls, Phase, Purpose, Session, UserMessage};
use codelab_protocol::{CallId, CallerContext, ChunkBody, ErrorCode, ModelFailure, ModelOutput, RawToolCall, Role};
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
    transcript: String,
}

fn play(script: &str) -> String {
    let mut play =
        Play { stage: Stage::new(Mode::Multi), session: session(), last_call: None, transcript: String::new() };
    for line in script.lines().filter(|line| !line.trim().is_empty() && !line.starts_with('#')) {
        writeln!(play.transcript, "{line}").unwrap();
        play.line(line);
    }
    play.transcript
}

impl Play {
    fn line(&mut self, line: &str) {
        let (head, rest) = line.split_once(": ").unwrap_or((line, ""));
        match head {
            "single" => self.stage = Stage::new(Mode::Single),
            "sequence" => self.stage.limits.multiple_tool_calls = MultipleToolCalls::Sequence,
            "limits" => self.limits(rest),
            "wait" => {
                self.stage.now = self.stage.now.plus_seconds(rest.parse().unwrap());
                self.apply(Input::Tick);
            }
            "crash" => {
                let seconds: i64 = rest.parse().unwrap();
                self.stage.now = self.stage.now.plus_millis(seconds * 1000);
                self.session = restored(&self.session);
                let epoch = self.session.epoch() + 1;
                self.apply(Input::Recovered { down_ms: seconds * 1000, epoch });
            }
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
                other => panic!("no limit {other}"),
            }
        }
    }

    fn input(&mut self, head: &str, rest: &str) -> Input {
        match head {
            "user" => user(rest, None),
            _ if head.starts_with("user @") => user(rest, head.strip_prefix("user @")),
            "switch" => Input::SwitchAgent { agent: rest.parse().unwrap() },
            "model" => self.model(Ok(output(rest))),
            "model fails" => {
                let code = ErrorCode::ALL.iter().copied().find(|code| code.as_str() == rest).unwrap();
                self.model(Err(ModelFailure { code, message: "no answer".to_owned(), details: Default::default() }))
            }
            "result" => {
                let result = serde_json::from_str(rest).unwrap_or_else(|_| Value::from(rest));
                Input::ToolResult { call_id: self.call(), result, known: None }
            }
            "approve" => self.decide(Decision::Approve { remember: false }),
            "approve remember" => self.decide(Decision::Approve { remember: true }),
            "edit" => self.decide(Decision::Edit { arguments: serde_json::from_str(rest).unwrap() }),
            "reject" => self.decide(Decision::Reject { feedback: (!rest.is_empty()).then(|| rest.to_owned()) }),
            "cancel" => Input::Cancel { drop_queue: false },
            "cancel drop" => Input::Cancel { drop_queue: true },
            "reset" => Input::Reset,
            other => panic!("no such line: {other}"),
        }
    }

    fn model(&self, outcome: Result<ModelOutput, ModelFailure>) -> Input {
        let call = self.session.turn().and_then(|turn| turn.model_call()).expect("no model call is under way");
        Input::ModelFinished { call, outcome }
    }

    fn decide(&self, decision: Decision) -> Input {
        Input::Decision { call_id: self.call(), decision, digest: None, decided_by: "user 1".to_owned(), known: None }
    }

    fn call(&self) -> CallId {
        match self.session.turn().map(|turn| &turn.phase) {
            Some(Phase::AwaitingResult { call, .. } | Phase::AwaitingApproval { call, .. }) => call.call_id.clone(),
            _ => self.last_call.clone().unwrap_or_else(|| CallId::parse("call-unknown").unwrap()),
        }
    }

    fn apply(&mut self, input: Input) {
        match self.session.apply(input, &mut self.stage.world()) {
            Ok(applied) => {
                for effect in &applied.effects {
                    self.show(effect);
                }
                if let Answer::Now(status) = applied.answer {
                    writeln!(self.transcript, "    = {}", status.as_str()).unwrap();
                }
            }
            Err(refusal) => writeln!(self.transcript, "    refused {}: {refusal}", refusal.code.as_str()).unwrap(),
        }
    }

    fn show(&mut self, effect: &Effect) {
        if let Effect::CallOpened { call_id, .. } = effect {
            self.last_call = Some(call_id.clone());
        }
        let line = match effect {
            Effect::Event(event) => {
                let settled = event.settled.map(|status| format!(" = {}", status.as_str())).unwrap_or_default();
                format!("{} {}{settled}", event.seq, shown(&event.body))
            }
            Effect::Message(record) => {
                let calls: Vec<String> =
                    record.message.tool_calls.iter().map(|call| format!(" +{}", call.name)).collect();
                let role = match record.message.role {
                    Role::Assistant => record.message.name.clone().unwrap(),
                    role => role.as_str().to_owned(),
                };
                format!("history {role}: {}{}", record.message.content, calls.concat())
            }
            Effect::ApprovalOpened(approval) => format!("approval opened: {} ({})", approval.tool, approval.reason),
            Effect::ApprovalClosed { status, .. } => format!("approval closed: {status:?}"),
            Effect::ApprovalMoved { expires_at, .. } => format!("approval now expires at {expires_at}"),
            Effect::CallClosed { status, .. } => format!("call closed: {status:?}"),
            Effect::Audit(row) => {
                let modified = row.modified.as_ref().map(|args| format!(" → {}", Value::from(args.clone())));
                let original = Value::from(row.original.clone());
                let modified = modified.unwrap_or_default();
                format!("audit {} by {}: {original}{modified}", row.decision.as_str(), row.decided_by)
            }
            Effect::Title(title) => format!("title {title}"),
            Effect::CallModel(call) => match &call.purpose {
                Purpose::Classify { .. } => format!("classify, attempt {}", call.id.attempt),
                Purpose::Step { .. } => {
                    format!("call model for {}, step {}, attempt {}", call.agent, call.id.step, call.id.attempt)
                }
            },
            Effect::AbortModel => "abort the model call".to_owned(),
            Effect::CallOpened { .. } | Effect::Switched(_) | Effect::InputTaken { .. } => return,
        };
        writeln!(self.transcript, "    {line}").unwrap();
    }
}

fn user(text: &str, agent: Option<&str>) -> Input {
    Input::UserMessage(UserMessage {
        text: text.to_owned(),
        agent: agent.map(|name| name.parse().unwrap()),
        client_message_id: None,
        caller: CallerContext::default(),
    })
}

fn output(line: &str) -> ModelOutput {
    let (text, calls) = match line.split_once("call ") {
        Some((text, calls)) => (text.trim_end_matches("| ").trim(), calls),
        None => (line, ""),
    };
    let tool_calls = calls.split(" && ").filter(|call| !call.is_empty()).map(|call| {
        let call = call.trim_start_matches("call ");
        let (name, arguments) = call.split_once(' ').unwrap_or((call, ""));
        RawToolCall { name: name.to_owned(), arguments: arguments.to_owned() }
    });
    ModelOutput { text: text.to_owned(), tool_calls: tool_calls.collect(), ..ModelOutput::default() }
}

fn shown(body: &ChunkBody) -> String {
    match body {
        ChunkBody::AssistantMessage(message) => format!("{} says: {}", message.agent, message.content),
        ChunkBody::AssistantDelta(_) | ChunkBody::Gap(_) => "never an event of the engine".to_owned(),
        ChunkBody::ToolCall(call) => {
            let state = match (call.requires_approval, call.approved) {
                (true, _) => " needs approval",
                (false, true) => " approved",
                (false, false) => "",
            };
            format!("tool_call {} {}{state}", call.tool_call.name, Value::from(call.tool_call.arguments.clone()))
        }
        ChunkBody::ToolResult(result) => format!("tool_result {}: {}", result.tool_name, result.result),
        ChunkBody::SwitchAgent(switch) => {
            format!("switch {} → {} ({})", switch.from_agent, switch.to_agent, switch.reason)
        }
        ChunkBody::Question(question) => format!("question: {} {:?}", question.question, question.options),
        ChunkBody::Error(error) => format!("error {}: {}", error.error_code.as_str(), error.message),
        ChunkBody::Completion(completion) => format!("completion by {}: {}", completion.agent, completion.message),
    }
}
