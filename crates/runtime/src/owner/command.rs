//! Commands: what comes from outside, with what the store knows about it.

use codelab_engine::{
    CallVersion, ClientStanding, Decision, EventRange, Input, KnownCall, Refusal, RetriedRequest,
    UserMessage, WaitingWish,
};
use codelab_protocol::{
    AgentName, ApproveMode, AttachedFile, CallId, CallerContext, ClientId, Digest, ErrorCode,
    FileBase, FilePreview, Message, MessageId, Plan, PlanId, RememberedId,
};
use codelab_store::ApprovalStatus;
use serde_json::{Map, Value};

use super::rewind::RewindAsked;
use super::{LoadedSession, Owner};
use crate::RuntimeError;
use crate::space::Space;

/// An input from outside; the owner adds what the store knows.
#[derive(Clone)]
pub(crate) enum Command {
    UserMessage(UserMessage),
    SwitchAgent(AgentName),
    ToolResult {
        call_id: CallId,
        result: Value,
        client: Option<ClientId>,
        images: Vec<AttachedFile>,
    },
    /// An MCP server asks the person something while a client runs its call.
    Elicit {
        call_id: CallId,
        question_id: CallId,
        client_id: ClientId,
        message: String,
        requested_schema: Map<String, Value>,
    },
    Answer {
        call_id: CallId,
        text: String,
    },
    Claim {
        call_id: CallId,
        client_id: ClientId,
        version: Option<CallVersion>,
    },
    Preview {
        call_id: CallId,
        client_id: ClientId,
        preview: FilePreview,
        certain: Option<Value>,
    },
    AskAgain {
        call_id: CallId,
        client_id: ClientId,
        reason: String,
        preview: FilePreview,
    },
    ClientGone {
        client_id: ClientId,
    },
    AgentGone {
        agent: AgentName,
    },
    RetryPlan {
        plan_id: PlanId,
    },
    Retry {
        message_id: Option<MessageId>,
        caller: CallerContext,
    },
    Renew {
        call_id: CallId,
    },
    Decision {
        call_id: CallId,
        decision: Decision,
        digest: Option<Digest>,
        base: Option<FileBase>,
        decided_by: String,
    },
    Cancel {
        drop_queue: bool,
    },
    Reset,
    Compact,
    Rewind {
        wish: RewindAsked,
        decided_by: String,
    },
    ChangeWaiting {
        message_id: MessageId,
        wish: WaitingWish,
    },
    Revoke {
        id: RememberedId,
        revoked_by: String,
    },
    ChooseModel {
        model: Option<String>,
    },
    ChooseAgent {
        agent: Option<AgentName>,
    },
    ChooseApprove {
        mode: ApproveMode,
    },
}

impl Owner {
    /// The span of an earlier message with the same `client_message_id`.
    pub(super) async fn repeated(
        &self,
        input: &Command,
    ) -> Result<Option<EventRange>, RuntimeError> {
        let (Command::UserMessage(message), Some(loaded)) = (input, &self.loaded) else {
            return Ok(None);
        };
        let Some(id) = message.client_message_id.as_ref().filter(|_| !loaded.new) else {
            return Ok(None);
        };
        let known = self.runtime.store.input(loaded.key, id).await?;
        Ok(known.map(|input| EventRange {
            turn: input.turn,
            after_seq: input.after_seq,
        }))
    }

    /// Adds what the store knows of calls and approvals that are not open any more.
    pub(super) async fn informed(&self, input: Command) -> Result<Input, RuntimeError> {
        let Some(loaded) = &self.loaded else {
            return Err(RuntimeError::SessionNotFound);
        };
        Ok(match input {
            Command::UserMessage(message) => Input::UserMessage(message),
            Command::SwitchAgent(agent) => Input::SwitchAgent { agent },
            Command::ToolResult {
                call_id,
                result,
                client,
                images,
            } => {
                let known = self.known_call(loaded, &call_id).await?;
                Input::ToolResult {
                    call_id,
                    result,
                    client,
                    known,
                    images,
                }
            }
            Command::Elicit {
                call_id,
                question_id,
                client_id,
                message,
                requested_schema,
            } => Input::Elicit {
                call_id,
                question_id,
                client: Some(client_id),
                message,
                requested_schema,
            },
            Command::Answer { call_id, text } => {
                let known = self.known_call(loaded, &call_id).await?;
                Input::Answer {
                    call_id,
                    text,
                    known,
                }
            }
            Command::Claim {
                call_id,
                client_id,
                version,
            } => {
                let known = self.known_call(loaded, &call_id).await?;
                Input::Claim {
                    bound_is_gone: loaded.is_gone(loaded.session.bound_client()),
                    call_id,
                    client_id,
                    version,
                    known,
                }
            }
            Command::Preview {
                call_id,
                client_id,
                preview,
                certain,
            } => {
                let mut pending = loaded.session.pending_approvals();
                let open = pending.find(|open| open.call_id == call_id);
                let shows = open.and_then(|open| open.preview.as_ref());
                let standing = ClientStanding {
                    bound_is_gone: loaded.is_gone(loaded.session.bound_client()),
                    other_is_gone: loaded.is_gone(shows.map(|shown| &shown.client_id)),
                };
                let known = open.is_none() && self.was_decided(loaded, &call_id).await?;
                Input::Preview {
                    call_id,
                    client_id,
                    preview,
                    certain,
                    standing,
                    known,
                }
            }
            Command::AskAgain {
                call_id,
                client_id,
                reason,
                preview,
            } => {
                let known = self.known_call(loaded, &call_id).await?;
                Input::AskAgain {
                    call_id,
                    client_id,
                    reason,
                    preview,
                    known,
                }
            }
            Command::ClientGone { client_id } => Input::ClientGone { client_id },
            Command::AgentGone { agent } => Input::AgentGone { agent },
            Command::RetryPlan { plan_id } => {
                let unknown = || Refusal::new(ErrorCode::PlanNotFound, "Plan not found");
                let (plan, asked) = self
                    .stored_plan(loaded, &plan_id)
                    .await?
                    .ok_or_else(unknown)?;
                Input::RetryPlan {
                    plan: Box::new(plan),
                    message_id: asked.as_ref().map(|asked| asked.message_id.clone()),
                    is_rewound: asked.as_ref().is_some_and(|asked| asked.rewound.is_some()),
                    request: asked.map(|asked| asked.content).unwrap_or_default(),
                }
            }
            Command::Retry { message_id, caller } => Input::Retry {
                message_id,
                request: self.retried(loaded).await?.map(Box::new),
                caller,
            },
            Command::Renew { call_id } => {
                let expired = match loaded.session.expired_plan(&call_id) {
                    Some(plan) => self.stored_plan(loaded, plan).await?,
                    None => None,
                };
                let with_request = |(plan, asked): (Plan, Option<Message>)| {
                    let request = asked.map(|asked| asked.content).unwrap_or_default();
                    Box::new((plan, request))
                };
                Input::Renew {
                    known: self.was_decided(loaded, &call_id).await?,
                    expired: expired.map(with_request),
                    call_id,
                }
            }
            Command::Decision {
                call_id,
                decision,
                digest,
                base,
                decided_by,
            } => {
                let is_open = loaded
                    .session
                    .pending_approvals()
                    .any(|open| open.call_id == call_id);
                let known = !is_open && self.was_decided(loaded, &call_id).await?;
                Input::Decision {
                    call_id,
                    decision,
                    digest,
                    base,
                    decided_by,
                    known,
                }
            }
            Command::Cancel { drop_queue } => Input::Cancel { drop_queue },
            Command::Reset => Input::Reset,
            Command::Compact => Input::Compact,
            Command::Rewind { wish, decided_by } => {
                let rewind = self.rewind_input(loaded, wish, decided_by).await?;
                Input::Rewind(Box::new(rewind))
            }
            Command::ChangeWaiting { message_id, wish } => {
                Input::ChangeWaiting { message_id, wish }
            }
            Command::Revoke { id, revoked_by } => Input::Revoke { id, revoked_by },
            Command::ChooseModel { model } => Input::ChooseModel { model },
            Command::ChooseAgent { agent } => Input::ChooseAgent { agent },
            Command::ChooseApprove { mode } => Input::ChooseApprove { mode },
        })
    }

    /// The plan as it is now, and the message that it was made for: an earlier retry can have run it
    /// to its end.
    async fn stored_plan(
        &self,
        loaded: &LoadedSession,
        id: &PlanId,
    ) -> Result<Option<(Plan, Option<Message>)>, RuntimeError> {
        let Some(space) = &loaded.space else {
            return Ok(None);
        };
        let mine = self.runtime.store.of(space.user());
        let Some(row) = mine.plan(loaded.key, id).await? else {
            return Ok(None);
        };
        let asked = mine.request(loaded.key, row.turn).await?;
        Ok(Some((row.plan, asked.map(|asked| asked.message))))
    }

    /// What was asked in the last turn, and its plan, if it did not end well.
    async fn retried(
        &self,
        loaded: &LoadedSession,
    ) -> Result<Option<RetriedRequest>, RuntimeError> {
        let (Some(ended), Some(space)) = (loaded.session.ended_turn(), &loaded.space) else {
            return Ok(None);
        };
        let turn = ended.turn;
        if let Some(plan) = &ended.plan
            && let Some((plan, message)) = self.stored_plan(loaded, plan).await?
        {
            let plan = Some(plan);
            return Ok(Some(RetriedRequest {
                turn,
                message,
                plan,
            }));
        }
        let mine = self.runtime.store.of(space.user());
        let asked = mine.request(loaded.key, turn).await?;
        Ok(Some(RetriedRequest {
            turn,
            message: asked.map(|asked| asked.message),
            plan: None,
        }))
    }

    /// What the store knows of a call that no thread of the turn holds.
    async fn known_call(
        &self,
        loaded: &LoadedSession,
        call_id: &CallId,
    ) -> Result<Option<KnownCall>, RuntimeError> {
        if loaded.holds(call_id) {
            return Ok(None);
        }
        let row = self.runtime.store.tool_call(loaded.key, call_id).await?;
        Ok(row.map(|row| KnownCall {
            span: row.after_seq.map(|after_seq| EventRange {
                turn: row.turn,
                after_seq,
            }),
            result_digest: row.result_digest,
        }))
    }

    /// Whether the store knows an approval that nobody can decide any more.
    async fn was_decided(
        &self,
        loaded: &LoadedSession,
        call_id: &CallId,
    ) -> Result<bool, RuntimeError> {
        let row = self.runtime.store.approval(loaded.key, call_id).await?;
        Ok(row.is_some_and(|row| row.status != ApprovalStatus::Pending))
    }
}

impl LoadedSession {
    /// Whether this client has not been seen for a while.
    fn is_gone(&self, client: Option<&ClientId>) -> bool {
        let gone = |space: &Space| client.is_some_and(|client| space.client_is_gone(client));
        self.space.as_deref().is_none_or(gone)
    }
}
