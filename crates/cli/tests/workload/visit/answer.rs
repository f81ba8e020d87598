//! Answers to what the server asks for: decisions, results, and a word to a question.

use codelab_protocol::{AgentStreamRequest, CallId, CallerContext, HitlDecision, UserId};
use serde_json::{Map, Value, json};
use tokio::task::JoinSet;

use super::{Visit, blank};
use crate::workload::ledger::{Answered, Choice, Open, Outcome, result_of};
use crate::workload::rng::Rng;

/// How many of a hundred questions a busy visit leaves open, for the server to die with.
const LEFT_OPEN: u64 = 25;
/// How many of a hundred approvals two people decide at once.
const DECIDED_TWICE: u64 = 15;
const REMEMBERED: u64 = 10;

impl Visit {
    /// Does what is asked for, or deliberately nothing; the request itself is another task's.
    pub(super) fn answer(&self, open: Open, rng: &mut Rng, tasks: &mut JoinSet<()>) {
        // Chosen whether it is used or not, so that the choices after it stay the same.
        let (leaves, twice) = (
            rng.percent(LEFT_OPEN) && !self.settles(),
            rng.percent(DECIDED_TWICE),
        );
        let first = rng.next();
        if leaves {
            return;
        }
        match open {
            Open::Approval(call_id) => {
                if self.call_outcomes(&call_id).0.is_taken() {
                    return;
                }
                for number in 0..=u64::from(twice) {
                    let (visit, call_id) = (self.clone(), call_id.clone());
                    let (mut rng, answering) = (Rng::of(&[first, number]), self.begin_answer());
                    tasks.spawn(async move {
                        let _until_it_is_done = answering;
                        let choice = visit.choice(&call_id, &mut rng);
                        visit.decide(&call_id, choice).await;
                    });
                }
            }
            Open::Result(call_id) => {
                if self.call_outcomes(&call_id).1.is_taken() {
                    return;
                }
                let (visit, answering) = (self.clone(), self.begin_answer());
                tasks.spawn(async move {
                    let _until_it_is_done = answering;
                    visit.give_result(&call_id, true).await;
                });
            }
            Open::Question => {
                let (visit, mut rng, answering) =
                    (self.clone(), Rng::of(&[first]), self.begin_answer());
                tasks.spawn(async move {
                    let _until_it_is_done = answering;
                    let number = visit.new_message(&mut rng);
                    visit.say(number, false).await;
                });
            }
        }
    }

    fn call_outcomes(&self, call_id: &CallId) -> (Outcome, Outcome) {
        let ledger = self.watched.ledger();
        ledger
            .calls
            .get(call_id)
            .map_or((Outcome::Refused, Outcome::Refused), |call| {
                (call.decided(), call.answered())
            })
    }

    fn choice(&self, call_id: &CallId, rng: &mut Rng) -> Choice {
        let ledger = self.watched.ledger();
        let (tool, arguments) = ledger
            .calls
            .get(call_id)
            .map_or((String::new(), Map::new()), |call| {
                (call.tool.clone(), call.arguments.clone())
            });
        match rng.below(100) {
            0..20 => Choice::Reject,
            20..45 => Choice::Edit(edited(&tool, arguments)),
            _ => Choice::Approve {
                remember: tool == "write_file" && rng.percent(REMEMBERED),
            },
        }
    }

    pub(super) async fn decide(&self, call_id: &CallId, choice: Choice) {
        while {
            let answered = self.decide_once(call_id, &choice).await;
            self.tries_again(answered).await
        } {}
    }

    async fn decide_once(&self, call_id: &CallId, choice: &Choice) -> Answered {
        let (number, person, digest) = {
            let mut ledger = self.watched.ledger();
            let (number, person) = ledger.begin_decision(call_id, choice.clone());
            let digest = ledger
                .calls
                .get(call_id)
                .and_then(|call| call.digest.clone());
            (number, person, digest)
        };
        let decision = match choice {
            Choice::Approve { .. } => "approve",
            Choice::Edit(_) => "EDIT",
            Choice::Reject => "REJECT",
        };
        let request = AgentStreamRequest {
            message_type: Some(codelab_protocol::MessageType::HitlDecision.into()),
            tool_call_id: Some(call_id.clone()),
            hitl_decision: Some(HitlDecision {
                decision: Some(codelab_protocol::MaybeKnown::of(decision)),
                remember: matches!(choice, Choice::Approve { remember: true }).then_some(true),
                modified_args: match choice {
                    Choice::Edit(arguments) => Some(Value::Object(arguments.clone())),
                    _ => None,
                },
                digest: digest.map(|digest| digest.as_str().to_owned()),
                feedback: None,
                base: None,
            }),
            context: Some(CallerContext {
                user_id: UserId::new(person),
                ..CallerContext::default()
            }),
            ..blank(&self.watched.id)
        };
        let (answered, stream) = self.send(&request).await;
        self.watched
            .ledger()
            .end_decision(call_id, number, answered);
        if let Some(stream) = stream {
            self.read(stream).await;
        }
        answered
    }

    /// The true result may be given again and again; another one must be refused once there is one.
    pub(super) async fn give_result(&self, call_id: &CallId, is_true: bool) {
        while {
            let answered = self.give_result_once(call_id, is_true).await;
            self.tries_again(answered).await
        } {}
    }

    async fn give_result_once(&self, call_id: &CallId, is_true: bool) -> Answered {
        let number = self.watched.ledger().begin_result(call_id, is_true);
        let result = if is_true {
            result_of(call_id)
        } else {
            format!("not the {}", result_of(call_id))
        };
        let request = AgentStreamRequest {
            message_type: Some(codelab_protocol::MessageType::ToolResult.into()),
            tool_call_id: Some(call_id.clone()),
            tool_result: Some(Value::String(result)),
            ..blank(&self.watched.id)
        };
        let (answered, stream) = self.send(&request).await;
        self.watched.ledger().end_result(call_id, number, answered);
        if let Some(stream) = stream {
            self.read(stream).await;
        }
        answered
    }
}

/// What a person makes of a call.
fn edited(tool: &str, mut arguments: Map<String, Value>) -> Map<String, Value> {
    let (key, value) = match tool {
        "write_file" => ("content", json!("written by a person")),
        _ => ("command", json!("rm -rf chosen-by-a-person")),
    };
    arguments.insert(key.to_owned(), value);
    arguments
}
