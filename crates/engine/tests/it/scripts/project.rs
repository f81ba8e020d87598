//! The lines of a script that only a project's session has.

use std::sync::Arc;

use codelab_engine::{
    AgentClosed, Budget, CallVersion, ClientStanding, Fork, Ids as _, Input, RanCall,
    RetriedRequest, RewindInput, RewindWish, RewoundPart, Spending, Team, ThreadPhase, ToolEnd,
    WaitingWish,
};
use codelab_protocol::{
    AgentName, AnswerCut, ApproveMode, CallId, CallerContext, ClientId, Delivery, ErrorCode,
    FileBase, FilePreview, ForkedFrom, MessageId, ModelFailureKind, ModelOutput, Plan, RewindScope,
    Role, TurnId, Usage, WaitingKind,
};
use serde_json::{Value, json};

use super::{Play, json_or_text};
use crate::it::brought::brought;
use crate::it::kit::{Stage, project_session};
use crate::it::named::named_tools;

impl Play {
    /// Lines that set the stage.
    pub(super) fn prepare(&mut self, head: &str, rest: &str) -> bool {
        match head {
            "project" => {
                self.stage = Stage::project();
                self.session = project_session(budget(rest));
            }
            "fork" => {
                let mut messages = std::mem::take(&mut self.history);
                messages.truncate(rest.parse().unwrap());
                let from = ForkedFrom {
                    session_id: self.session.id().clone(),
                    message_id: messages.last().unwrap().message.message_id.clone(),
                };
                let fresh = project_session(self.session.budget_as_set());
                let original = Box::new(std::mem::replace(&mut self.session, fresh));
                self.stage.space = crate::it::space::TestSpace::new();
                self.apply(Input::Fork(Box::new(Fork {
                    from,
                    original,
                    messages,
                })));
            }
            "used" => {
                let total_tokens = rest.parse().unwrap();
                let cost_usd = Some(total_tokens as f64 / 1000.0);
                self.used = Some(Usage {
                    total_tokens,
                    cost_usd,
                    ..Usage::default()
                });
            }
            "slots" => {
                for pair in rest.split_whitespace() {
                    let (agent, limit) = pair.split_once('=').unwrap();
                    self.stage
                        .space
                        .agents
                        .entry(name(agent))
                        .or_default()
                        .limit = limit.parse().ok();
                }
            }
            "streams" => {
                self.stage.streamed.0 = Some(rest.to_owned()).filter(|text| !text.is_empty());
            }
            "others enter" => self.stage.space.others_enter(&name(rest)),
            "others leave" => self.stage.space.others_leave(&name(rest)),
            "open" => {
                self.stage
                    .space
                    .agents
                    .entry(name(rest))
                    .or_default()
                    .closed = false
            }
            "close" => {
                self.stage.space.close(&name(rest));
                while let Some(lane) = self.stage.space.losses.pop_front() {
                    let closed = AgentClosed {
                        code: ErrorCode::AgentUnavailable,
                        why: format!("{rest} was taken out"),
                        retry_after_seconds: 30,
                    };
                    self.apply(Input::SlotLost { lane, closed });
                }
            }
            "deregister" => {
                self.stage
                    .space
                    .agents
                    .entry(name(rest))
                    .or_default()
                    .retired = true
            }
            "no agents" => self.stage.team = Team::of_project(Vec::new()),
            "tools" => self.stage.space.named_tools = Arc::new(named_tools(rest)),
            "brings" => self.stage.space.instructions = Arc::new(brought(rest)),
            "nobody attached" => self.stage.space.client_attached = false,
            "somebody attached" => self.stage.space.client_attached = true,
            "announced" => {
                let call = self.session.model_calls()[0].0;
                self.apply(Input::ModelWaits {
                    call,
                    ms: rest.parse::<u64>().unwrap() * 1000,
                    kind: ModelFailureKind::RateLimit,
                });
            }
            "fell back" => {
                let call = self.session.model_calls()[0].0;
                let (from, to) = rest.split_once(' ').unwrap();
                self.apply(Input::ModelFellBack {
                    call,
                    from: from.to_owned(),
                    to: to.to_owned(),
                    kind: ModelFailureKind::Overloaded,
                });
            }
            "cut at" => {
                self.cut = Some(AnswerCut {
                    max_tokens: rest.parse().ok(),
                })
            }
            "heard" => {
                let (call, at) = (self.session.model_calls()[0].0, self.stage.now);
                self.apply(Input::ModelHeard { call, at });
            }
            "price" => self.stage.space.price_usd = rest.parse().ok(),
            "usual" => self.stage.space.usual_tokens = rest.parse().ok(),
            "project budget" => {
                (self.stage.space.budget, self.stage.space.granted) =
                    (budget(rest), Spending::default())
            }
            "prompt" => self.stage.space.prompt_tokens = rest.parse().unwrap(),
            "others call" => {
                self.stage.space.others_reserved.tokens = rest.parse().unwrap();
                self.apply(Input::RoomChanged);
            }
            _ => return false,
        }
        true
    }

    pub(super) fn project_input(&mut self, words: &[&str], rest: &str) -> Input {
        match words {
            ["plan"] => self.model(
                None,
                Ok(ModelOutput {
                    text: plan(rest),
                    ..ModelOutput::default()
                }),
            ),
            ["granted", task @ ..] => {
                let lane = task.first().map(|task| self.lane(task));
                let grants = &mut self.stage.space.grants;
                let at = grants
                    .iter()
                    .position(|(granted, _)| lane.is_none_or(|lane| lane == *granted));
                let (lane, agent) = grants.remove(at.expect("no slot was granted")).unwrap();
                Input::SlotGranted {
                    lane,
                    status: self.stage.space.status(&agent),
                }
            }
            ["claim", client, "of", version] => match self.claim(client, None, false) {
                Input::Claim {
                    call_id,
                    client_id,
                    bound_is_gone,
                    known,
                    ..
                } => Input::Claim {
                    version: self.version(&call_id, version),
                    call_id,
                    client_id,
                    bound_is_gone,
                    known,
                },
                other => panic!("{other:?}"),
            },
            ["preview", client] => Input::Preview {
                call_id: self.call(None),
                client_id: client_id(client),
                preview: preview(rest),
                certain: None,
                standing: ClientStanding {
                    bound_is_gone: false,
                    other_is_gone: false,
                },
                known: self.asked.contains(&self.call(None)),
            },
            ["certain", client] => Input::Preview {
                call_id: self.call(None),
                client_id: client_id(client),
                preview: preview("x"),
                certain: Some(serde_json::json!({ "success": false, "error": rest })),
                standing: ClientStanding {
                    bound_is_gone: false,
                    other_is_gone: false,
                },
                known: self.asked.contains(&self.call(None)),
            },
            ["ask", "again", client] => {
                let call_id = self.call(None);
                Input::AskAgain {
                    known: self.calls.get(&call_id).cloned(),
                    call_id,
                    client_id: client_id(client),
                    reason: format!("it holds {rest} now"),
                    preview: preview(rest),
                }
            }
            ["mode"] => Input::ChooseApprove {
                mode: ApproveMode::parse(rest).unwrap(),
            },
            ["claim", client, "after", _, "is", "gone"] => self.claim(client, None, true),
            ["claim", client, task @ ..] => self.claim(client, task.first(), false),
            ["deleted"] => Input::AgentGone { agent: name(rest) },
            ["gone", client] => Input::ClientGone {
                client_id: client_id(client),
            },
            ["result", client, task @ ..] => {
                let call_id = self.call(task.first());
                let known = self.calls.get(&call_id).cloned();
                Input::ToolResult {
                    call_id,
                    result: json_or_text(rest),
                    client: Some(client_id(client)),
                    known,
                    images: Vec::new(),
                }
            }
            ["answer", task @ ..] => {
                let call_id = self.call(task.first());
                let known = self.calls.get(&call_id).cloned();
                Input::Answer {
                    call_id,
                    text: rest.to_owned(),
                    known,
                }
            }
            ["ended", task @ ..] => Input::ToolEnded {
                call_id: self.call(task.first()),
                end: match rest.strip_prefix("unknown ") {
                    Some(why) => ToolEnd::Unknown(why.to_owned()),
                    None => ToolEnd::Result {
                        result: json_or_text(rest),
                        images: Vec::new(),
                    },
                },
            },
            ["asks", who, again @ ..] => Input::Elicit {
                call_id: self.call(None),
                question_id: match again {
                    [] => self.stage.ids.call_id(),
                    _ => self.open_question(),
                },
                client: (*who != "server").then(|| client_id(who)),
                message: rest.to_owned(),
                requested_schema: serde_json::from_str(
                    r#"{"type": "object", "properties": {"n": {"type": "integer"}}}"#,
                )
                .unwrap(),
            },
            ["reply"] => Input::Answer {
                call_id: self.open_question(),
                text: rest.to_owned(),
                known: None,
            },
            ["retry"] => Input::RetryPlan {
                plan: Box::new(self.plan.clone().expect("no plan")),
                request: "retried".to_owned(),
                message_id: None,
                is_rewound: false,
            },
            ["rewind", scope, turn] => self.rewind_to(scope, turn.parse().unwrap()),
            ["undo", id] => Input::Rewind(Box::new(RewindInput {
                wish: RewindWish::Undo(id.parse().unwrap()),
                decided_by: "7".to_owned(),
                bound_is_gone: false,
            })),
            ["compact"] => Input::Compact,
            ["waiting", wish] => Input::ChangeWaiting {
                message_id: self.waited[rest].clone(),
                wish: match *wish {
                    "steer" => WaitingWish::Deliver(Delivery::Steer),
                    "queue" => WaitingWish::Deliver(Delivery::Queue),
                    "back" => WaitingWish::TakeBack,
                    other => panic!("no such wish: {other}"),
                },
            },
            ["revoke", id @ ..] => {
                let oldest = self.session.remembered_calls().into_iter().next();
                let id = match id {
                    [id, ..] => id.parse().unwrap(),
                    [] => oldest.expect("nothing is remembered").id,
                };
                Input::Revoke {
                    id,
                    revoked_by: "7".to_owned(),
                }
            }
            ["again"] => self.again(None),
            ["again", message] => self.again(Some(message.parse().unwrap())),
            ["renew", task @ ..] => self.renew(task.first()),
            other => panic!("no such line: {other:?}"),
        }
    }

    /// The question that is open, else the last one.
    fn open_question(&mut self) -> CallId {
        let mut asked = self.session.waiting().into_iter();
        let asked = asked.find(|asked| asked.kind == WaitingKind::Question);
        self.question = asked
            .map(|asked| asked.call_id)
            .or_else(|| self.question.take());
        self.question.clone().expect("nothing was asked")
    }

    /// To the message of this turn, with what the store would know of it: one write and one command.
    fn rewind_to(&self, scope: &str, turn: u64) -> Input {
        let scope = match scope {
            "files" => RewindScope::Files,
            "conversation" => RewindScope::Conversation,
            _ => RewindScope::Both,
        };
        let call = |id: &str, tool: &str, did: &str| RanCall {
            call_id: id.parse().unwrap(),
            tool: tool.to_owned(),
            did: Some(did.to_owned()),
        };
        Input::Rewind(Box::new(RewindInput {
            wish: RewindWish::To {
                message_id: format!("msg-of-{turn}").parse().unwrap(),
                scope,
                found: Some(RewoundPart {
                    turn: TurnId(turn),
                    ord: 2 * (turn - 1),
                    role: Role::User,
                    is_within_turn: false,
                    is_rewound: false,
                    messages: 2,
                    tokens: 10,
                    kept_tokens: 10,
                    calls: vec![
                        call("call-w", "write_file", "a.txt"),
                        call("call-c", "execute_command", "make all"),
                    ],
                }),
            },
            decided_by: "7".to_owned(),
            bound_is_gone: false,
        }))
    }

    /// The last turn is run again, with what the store would know of it.
    fn again(&self, message_id: Option<MessageId>) -> Input {
        let ended = self.session.ended_turn();
        let message = ended.and_then(|ended| self.said.get(&ended.message_id).cloned());
        let is_it =
            |plan: &&Plan| ended.and_then(|ended| ended.plan.as_ref()) == Some(&plan.plan_id);
        let plan = self.plan.as_ref().filter(is_it).cloned();
        Input::Retry {
            message_id,
            request: ended.map(|ended| {
                Box::new(RetriedRequest {
                    turn: ended.turn,
                    message,
                    plan,
                })
            }),
            caller: CallerContext::default(),
        }
    }

    fn renew(&self, task: Option<&&str>) -> Input {
        let open = self.session.pending_approvals().next();
        let asked = open.map(|approval| approval.call_id.clone());
        let plan = self.plan.as_ref().map(|plan| plan.plan_id.as_str());
        let last = || plan.map(|plan| plan.parse().unwrap());
        let call_id = match task {
            Some(_) => self.call(task),
            None => asked.or_else(last).unwrap_or_else(|| self.call(None)),
        };
        let expired = self.session.expired_plan(&call_id);
        let expired = expired.and_then(|_| self.plan.clone());
        Input::Renew {
            known: self.asked.contains(&call_id),
            call_id,
            expired: expired.map(|plan| Box::new((plan, "renewed".to_owned()))),
        }
    }

    fn claim(&self, client: &str, task: Option<&&str>, bound_is_gone: bool) -> Input {
        let call_id = self.call(task);
        let known = self.calls.get(&call_id).cloned();
        Input::Claim {
            call_id,
            client_id: client_id(client),
            bound_is_gone,
            version: None,
            known,
        }
    }

    /// The version of a call whose approval may replace this; `-`: one that names nothing.
    fn version(&self, call_id: &CallId, replaces: &str) -> Option<CallVersion> {
        let turn = self.session.turn()?;
        let call = turn.threads().find_map(|thread| match &thread.phase {
            ThreadPhase::AwaitingResult { call, .. } if call.call_id == *call_id => Some(call),
            _ => None,
        })?;
        Some(CallVersion {
            digest: call.tool.digest(&call.arguments),
            base: (replaces != "-").then(|| base(replaces)),
        })
    }
}

pub(super) fn base(content: &str) -> FileBase {
    match content {
        "none" => FileBase::Missing,
        content => FileBase::of_bytes(content.as_bytes()),
    }
}

fn preview(content: &str) -> FilePreview {
    FilePreview {
        base: base(content),
        diff: format!("-{content}"),
        is_unread: true,
        is_outdated: false,
        truncated: false,
        note: None,
    }
}

fn name(agent: &str) -> AgentName {
    format!("agent_{agent}").parse().unwrap()
}

fn client_id(name: &str) -> ClientId {
    name.parse().unwrap()
}

fn budget(text: &str) -> Budget {
    let tokens = text
        .strip_prefix("tokens=")
        .map(|tokens| tokens.parse().unwrap());
    let usd = text.strip_prefix("usd=").map(|usd| usd.parse().unwrap());
    Budget { usd, tokens }
}

/// `a=coder b=writer<a@src,docs` (`@`: the paths) as the planner would write it; anything else as it is.
fn plan(text: &str) -> String {
    if !text.split_whitespace().all(|task| task.contains('=')) || text.contains('{') {
        return text.to_owned();
    }
    let tasks: Vec<Value> = text
        .split_whitespace()
        .map(|task| {
            let (task, paths) = task.split_once('@').unwrap_or((task, ""));
            let paths: Vec<&str> = paths.split(',').filter(|path| !path.is_empty()).collect();
            let (id, rest) = task.split_once('=').unwrap();
            let (agent, needs) = rest.split_once('<').unwrap_or((rest, ""));
            let needs: Vec<&str> = needs.split(',').filter(|id| !id.is_empty()).collect();
            json!({ "id": id, "agent": agent, "description": format!("do {id}"), "depends_on": needs,
                    "paths": paths })
        })
        .collect();
    json!({ "tasks": tasks }).to_string()
}
