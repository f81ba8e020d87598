//! What people and their clients do: requests, decisions, answers, claims, results, also about
//! things long past.

use codelab_engine::{
    ClientStanding, Decision, Ids as _, Input, RetriedRequest, ThreadPhase, ToolEnd, UserMessage,
    WaitingWish,
};
use codelab_protocol::{
    AgentName, ApproveMode, CallId, CallerContext, ClientId, Delivery, FileBase, FilePreview,
    TurnStatus, WaitingKind,
};
use serde_json::json;

use super::Life;

impl Life {
    pub(super) fn user_message(&mut self) -> Input {
        let agent = match self.rng.below(5) {
            0 | 1 => Some(self.agent()),
            2 if self.rng.one_in(4) => Some("nobody".parse().unwrap()),
            _ => None,
        };
        self.message(agent)
    }

    pub(super) fn planned_message(&mut self) -> Input {
        self.message(None)
    }

    pub(super) fn approved(call_id: CallId) -> Input {
        let decision = Decision::Approve { remember: false };
        Input::Decision {
            call_id,
            decision,
            digest: None,
            base: None,
            decided_by: "person".to_owned(),
            known: false,
        }
    }

    fn message(&mut self, agent: Option<AgentName>) -> Input {
        self.messages += 1;
        let text = format!("message {}", self.messages);
        Input::UserMessage(UserMessage {
            text,
            agent,
            client_message_id: None,
            caller: CallerContext::default(),
            attachments: Vec::new(),
            delivery: match self.rng.one_in(3) {
                true => Delivery::Steer,
                false => Delivery::Queue,
            },
        })
    }

    /// What a thread that waits needs most.
    pub(super) fn helped(&mut self, phase: ThreadPhase) -> Input {
        match phase {
            ThreadPhase::AwaitingResult { .. } | ThreadPhase::Calling { .. }
                if phase.suspended() == Some(TurnStatus::AwaitingAnswer) =>
            {
                self.reply()
            }
            ThreadPhase::Calling { call, .. } if self.rng.one_in(4) => {
                self.elicit(call.call_id, None)
            }
            ThreadPhase::Calling { call, .. } => self.tool_ended(call.call_id),
            ThreadPhase::AwaitingResult {
                call,
                claim: Some(claim),
                ..
            } if call.tool.mcp().is_some() && self.rng.one_in(4) => {
                self.elicit(call.call_id, Some(claim.client_id))
            }
            ThreadPhase::AwaitingResult {
                call,
                claim: Some(claim),
                ..
            } => match self.rng.below(8) {
                7 | 6 => self.ask_again(call.call_id, claim.client_id),
                0 => {
                    self.stage.now = self.stage.now.plus_seconds(31);
                    Input::Tick
                }
                1 => self.claim(call.call_id, claim.client_id),
                _ => self.result(call.call_id, claim.client_id),
            },
            ThreadPhase::AwaitingResult {
                call, claim: None, ..
            } => {
                let client = self
                    .session
                    .bound_client()
                    .cloned()
                    .unwrap_or_else(|| self.client());
                self.claim(call.call_id, client)
            }
            ThreadPhase::AwaitingAnswer { call_id, .. } if self.rng.one_in(2) => {
                self.answer(call_id)
            }
            ThreadPhase::AwaitingAnswer { .. } => self.message(None),
            ThreadPhase::AwaitingApproval { approval, .. } if self.rng.one_in(3) => {
                self.preview(approval.call_id)
            }
            ThreadPhase::AwaitingApproval { approval, .. }
            | ThreadPhase::AwaitingBudget { approval, .. } => self.decision(approval.call_id),
            ThreadPhase::Routing { .. }
            | ThreadPhase::Queued
            | ThreadPhase::Thinking { .. }
            | ThreadPhase::AwaitingRoom => Input::Tick,
        }
    }

    fn elicit(&mut self, call_id: CallId, client: Option<ClientId>) -> Input {
        let schema = json!({"properties": {"n": {"type": "integer"}}});
        Input::Elicit {
            call_id,
            question_id: self.stage.ids.call_id(),
            client,
            message: "How many?".to_owned(),
            requested_schema: serde_json::from_value(schema).unwrap(),
        }
    }

    fn tool_ended(&mut self, call_id: CallId) -> Input {
        let end = match self.rng.one_in(4) {
            true => ToolEnd::Unknown("lost".to_owned()),
            false => ToolEnd::Result {
                result: json!({"success": self.rng.one_in(2)}),
                images: Vec::new(),
            },
        };
        Input::ToolEnded { call_id, end }
    }

    /// An answer to any question that is open; some do not fit.
    fn reply(&mut self) -> Input {
        let text = *self.rng.pick(&["7", "seven", "/decline"]).unwrap();
        let asked = self.session.waiting();
        let asked = asked
            .into_iter()
            .filter(|asked| asked.kind == WaitingKind::Question);
        let asked: Vec<CallId> = asked.map(|asked| asked.call_id).collect();
        let call_id = self.rng.pick(&asked).unwrap().clone();
        Input::Answer {
            call_id,
            text: text.to_owned(),
            known: None,
        }
    }

    pub(super) fn client(&mut self) -> ClientId {
        self.rng.pick(&["A", "B"]).unwrap().parse().unwrap()
    }

    pub(super) fn claim(&mut self, call_id: CallId, client_id: ClientId) -> Input {
        let known = self.record.known_call(&call_id);
        Input::Claim {
            call_id,
            client_id,
            bound_is_gone: self.rng.one_in(4),
            version: None,
            known,
        }
    }

    fn base(&mut self) -> FileBase {
        match self.rng.below(3) {
            0 => FileBase::Missing,
            other => FileBase::of_bytes(&[other as u8]),
        }
    }

    fn shown(&mut self) -> FilePreview {
        FilePreview {
            base: self.base(),
            diff: "-a\n+b\n".to_owned(),
            is_unread: self.rng.one_in(2),
            is_outdated: false,
            truncated: false,
            note: None,
        }
    }

    fn preview(&mut self, call_id: CallId) -> Input {
        Input::Preview {
            client_id: self.client(),
            preview: self.shown(),
            certain: (self.rng.one_in(4)).then(|| json!({ "success": false, "error": "certain" })),
            standing: ClientStanding {
                bound_is_gone: self.rng.one_in(4),
                other_is_gone: self.rng.one_in(4),
            },
            known: self.record.known_approval(&call_id),
            call_id,
        }
    }

    fn ask_again(&mut self, call_id: CallId, client_id: ClientId) -> Input {
        Input::AskAgain {
            known: self.record.known_call(&call_id),
            call_id,
            client_id,
            reason: "the file changed".to_owned(),
            preview: self.shown(),
        }
    }

    /// A client finds something about any file, also one long written.
    pub(super) fn found_in_any_file(&mut self) -> Input {
        let (call_id, client) = (self.any_call(), self.client());
        match self.rng.below(3) {
            0 => self.ask_again(call_id, client),
            1 => Input::ChooseApprove {
                mode: *self.rng.pick(&ApproveMode::ALL).unwrap(),
            },
            _ => self.preview(call_id),
        }
    }

    fn result(&mut self, call_id: CallId, client: ClientId) -> Input {
        let result = json!({ "success": true, "n": self.rng.below(2) });
        let known = self.record.known_call(&call_id);
        Input::ToolResult {
            call_id,
            result,
            client: Some(client),
            known,
            images: Vec::new(),
        }
    }

    fn answer(&mut self, call_id: CallId) -> Input {
        let known = self.record.known_call(&call_id);
        Input::Answer {
            call_id,
            text: "this".to_owned(),
            known,
        }
    }

    pub(super) fn decision(&mut self, call_id: CallId) -> Input {
        let known = self.record.known_approval(&call_id);
        let decision = match self.rng.below(8) {
            0 => Decision::Reject { feedback: None },
            1 => Decision::Edit {
                arguments: self.edit(&call_id),
            },
            2 => Decision::Approve { remember: true },
            _ => Decision::Approve { remember: false },
        };
        Input::Decision {
            call_id,
            decision,
            digest: None,
            base: self.rng.one_in(3).then(|| self.base()),
            decided_by: "person".to_owned(),
            known,
        }
    }

    fn edit(&mut self, call_id: &CallId) -> serde_json::Map<String, serde_json::Value> {
        let edited = match self.record.asked_about(call_id) {
            Some("plan") if self.rng.one_in(3) => json!({ "tasks": [] }),
            Some("plan") => json!({ "tasks": self.graph() }),
            Some("budget") => json!({ "budget_tokens": self.rng.below(20_000) }),
            _ => json!({ "path": "e", "content": "y" }),
        };
        serde_json::from_value(edited).unwrap()
    }

    pub(super) fn result_for_any_call(&mut self) -> Input {
        let (call_id, client) = (self.any_call(), self.client());
        self.result(call_id, client)
    }

    pub(super) fn claim_of_any_call(&mut self) -> Input {
        let (call_id, client) = (self.any_call(), self.client());
        self.claim(call_id, client)
    }

    pub(super) fn answer_to_anything(&mut self) -> Input {
        let call_id = self.any_call();
        self.answer(call_id)
    }

    pub(super) fn decision_about_anything(&mut self) -> Input {
        let asked = self.record.approval_ids();
        let call_id = self
            .rng
            .pick(&asked)
            .cloned()
            .unwrap_or_else(|| "unknown".parse().unwrap());
        self.decision(call_id)
    }

    pub(super) fn retry(&mut self) -> Input {
        let plans = self.record.plans();
        match self.rng.pick(&plans).cloned() {
            Some(plan) => Input::RetryPlan {
                plan: Box::new(plan),
                request: "retried".to_owned(),
                message_id: None,
                is_rewound: false,
            },
            None => self.user_message(),
        }
    }

    /// A message that waits, or that never did.
    pub(super) fn change_of_waiting(&mut self) -> Input {
        let waiting = self.record.waiting_messages();
        let known = self.rng.pick(&waiting).cloned();
        let wish = match self.rng.below(3) {
            0 => WaitingWish::Deliver(Delivery::Queue),
            1 => WaitingWish::Deliver(Delivery::Steer),
            _ => WaitingWish::TakeBack,
        };
        Input::ChangeWaiting {
            message_id: known.unwrap_or_else(|| "unknown".parse().unwrap()),
            wish,
        }
    }

    /// Something that is remembered, or that never was.
    pub(super) fn revocation(&mut self) -> Input {
        let remembered = self.session.remembered_calls();
        let known = self.rng.pick(&remembered).map(|rule| rule.id.clone());
        Input::Revoke {
            id: known.unwrap_or_else(|| "unknown".parse().unwrap()),
            revoked_by: "1".to_owned(),
        }
    }

    /// The last turn once more, or one long past.
    pub(super) fn retry_turn(&mut self) -> Input {
        let ended = self.session.ended_turn().cloned();
        let message = ended
            .as_ref()
            .and_then(|ended| self.record.request(&ended.message_id));
        let plans = self.record.plans().into_iter();
        let mut plans = plans.filter(|plan| {
            ended.as_ref().and_then(|ended| ended.plan.as_ref()) == Some(&plan.plan_id)
        });
        let said = self.record.message_ids();
        let message_id = match self.rng.below(4) {
            0 => self.rng.pick(&said).cloned(),
            1 => ended.as_ref().map(|ended| ended.message_id.clone()),
            _ => None,
        };
        Input::Retry {
            message_id,
            request: ended.as_ref().map(|ended| {
                Box::new(RetriedRequest {
                    turn: ended.turn,
                    message,
                    plan: plans.next(),
                })
            }),
            caller: CallerContext::default(),
        }
    }

    /// What waits, or what has not waited for long.
    pub(super) fn renewal(&mut self) -> Input {
        let asked = self.record.approval_ids();
        let open = self.session.pending_approvals().next();
        let open = open.map(|approval| approval.call_id.clone());
        let last = self
            .session
            .ended_turn()
            .and_then(|ended| ended.plan.clone());
        let last = last.map(|plan| plan.as_str().parse().unwrap());
        let call_id: CallId = match self.rng.below(3) {
            0 => self.rng.pick(&asked).cloned(),
            _ => open.or(last),
        }
        .unwrap_or_else(|| "unknown".parse().unwrap());
        let plans = self.record.plans().into_iter();
        let mut plans =
            plans.filter(|plan| self.session.expired_plan(&call_id) == Some(&plan.plan_id));
        Input::Renew {
            known: self.record.known_approval(&call_id),
            expired: plans
                .next()
                .map(|plan| Box::new((plan, "renewed".to_owned()))),
            call_id,
        }
    }

    /// The newer, the likelier.
    fn any_call(&mut self) -> CallId {
        let calls = self.record.call_ids();
        let newest = calls.len().saturating_sub(5);
        let among = if self.rng.one_in(2) {
            &calls[newest..]
        } else {
            &calls[..]
        };
        self.rng
            .pick(among)
            .cloned()
            .unwrap_or_else(|| "unknown".parse().unwrap())
    }
}
