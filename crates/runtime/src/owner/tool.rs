//! The calls of MCP servers' tools that this server makes: started after their commit, their
//! outcomes inputs again.

use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;

use codelab_engine::{Ids as _, Input, Refusal, ToolEnd};
use codelab_mcp::{CallEvent, CallOptions, ElicitReply, McpCallEnd};
use codelab_protocol::{CallId, ClientId, ErrorCode, McpToolId, ToolProgress};
use serde_json::{Map, Value, json};
use tokio::sync::{mpsc, oneshot};
use tokio::task::{JoinError, JoinHandle};
use tokio_util::sync::CancellationToken;

use super::Owner;
use crate::RuntimeError;
use crate::files::without_images;
use crate::ids::RandomIds;
use crate::space::Space;

/// What a call tells before it ends. A server that tells more has to wait.
const MAX_CALL_EVENTS: usize = 16;

/// A call that the engine decided on.
pub(crate) struct NamedToolCall {
    pub call_id: CallId,
    pub tool: McpToolId,
    pub arguments: Map<String, Value>,
}

/// A person's answer to the question of a server; absent: declined.
pub(crate) struct ElicitedAnswer {
    pub call_id: CallId,
    pub content: Option<Map<String, Value>>,
}

/// The calls under way; dropping one cancels it.
#[derive(Default)]
pub(crate) struct ToolTasks(Vec<ToolTask>);

struct ToolTask {
    call_id: CallId,
    events: mpsc::Receiver<CallEvent>,
    task: JoinHandle<McpCallEnd>,
    stop: CancellationToken,
    /// Who waits for the person's answer.
    asked: Option<oneshot::Sender<ElicitReply>>,
}

/// What comes next of the calls.
pub(crate) enum ToolNews {
    Input(Input),
    Progress(ToolProgress),
    Nothing,
}

impl Drop for ToolTask {
    fn drop(&mut self) {
        // The task goes on until the MCP server was told.
        self.stop.cancel();
    }
}

impl ToolTasks {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn begin(&mut self, call: NamedToolCall, space: Arc<Space>) {
        let (asks, events) = mpsc::channel(MAX_CALL_EVENTS);
        let stop = CancellationToken::new();
        let options = CallOptions {
            stop: stop.clone(),
            asks,
        };
        let NamedToolCall {
            call_id,
            tool,
            arguments,
        } = call;
        let task = tokio::spawn(async move { space.call_named(&tool, arguments, options).await });
        self.0.push(ToolTask {
            call_id,
            events,
            task,
            stop,
            asked: None,
        });
    }

    /// Waits for the next thing to do; for ever when no call is under way.
    pub async fn next(&mut self) -> ToolNews {
        let (place, heard) = std::future::poll_fn(|context| {
            for (place, ToolTask { task, events, .. }) in self.0.iter_mut().enumerate() {
                if let Poll::Ready(Some(event)) = events.poll_recv(context) {
                    return Poll::Ready((place, Ok(event)));
                }
                if let Poll::Ready(ended) = Pin::new(task).poll(context) {
                    return Poll::Ready((place, Err(ended)));
                }
            }
            Poll::Pending
        })
        .await;
        match heard {
            Ok(event) => self.0[place].told(event),
            Err(ended) => {
                let call_id = self.0.swap_remove(place).call_id.clone();
                let end = end_of(ended);
                ToolNews::Input(Input::ToolEnded { call_id, end })
            }
        }
    }

    pub fn answer(&mut self, answer: ElicitedAnswer) {
        let asked = self
            .0
            .iter_mut()
            .find(|task| task.call_id == answer.call_id);
        if let Some(reply) = asked.and_then(|task| task.asked.take()) {
            let content = answer.content;
            // A server that has given up does not hear it.
            let _ = reply.send(content.map_or(ElicitReply::Decline, ElicitReply::Accept));
        }
    }

    /// Cancels the calls that are not wanted any more.
    pub fn keep_only(&mut self, wanted: &[&CallId]) {
        self.0.retain(|task| wanted.contains(&&task.call_id));
    }

    /// The engine did not take the question that came last in this call.
    pub fn not_asked(&mut self, call_id: &CallId) {
        if let Some(task) = self.0.iter_mut().find(|task| task.call_id == *call_id) {
            task.asked = None;
        }
    }
}

impl ToolTask {
    fn told(&mut self, event: CallEvent) -> ToolNews {
        match event {
            CallEvent::Progress {
                progress,
                total,
                message,
            } => ToolNews::Progress(ToolProgress {
                call_id: self.call_id.clone(),
                progress,
                total,
                message,
            }),
            // Dropping the reply declines: a call has one open question at a time.
            CallEvent::Elicit { .. } if self.asked.is_some() => ToolNews::Nothing,
            CallEvent::Elicit {
                message,
                requested_schema,
                reply,
            } => {
                let question_id = RandomIds.call_id();
                self.asked = Some(reply);
                ToolNews::Input(Input::Elicit {
                    call_id: self.call_id.clone(),
                    question_id,
                    client: None,
                    message,
                    requested_schema,
                })
            }
        }
    }
}

fn end_of(ended: Result<McpCallEnd, JoinError>) -> ToolEnd {
    let failed = |error: String| ToolEnd::Result {
        result: json!({"success": false, "error": error}),
        images: Vec::new(),
    };
    match ended {
        Ok(McpCallEnd::Result(result)) => {
            let (result, images) = without_images(result);
            ToolEnd::Result { result, images }
        }
        Ok(McpCallEnd::Refused(why)) => failed(format!("{why}. Nothing was run")),
        Ok(McpCallEnd::Failed(why)) => failed(why),
        Ok(McpCallEnd::Unknown(why)) => ToolEnd::Unknown(why),
        Err(error) => {
            tracing::error!(%error, "MCP call task ended abnormally");
            ToolEnd::Unknown("The call ended abnormally".to_owned())
        }
    }
}

impl Owner {
    pub(super) fn begin_tool_calls(&mut self, calls: Vec<NamedToolCall>) {
        let Some(loaded) = &self.loaded else {
            return;
        };
        let Some(space) = &loaded.space else {
            return;
        };
        // What one input asked for, another that came with it may have made needless.
        let wanted = loaded.session.tool_calls();
        for call in calls {
            if wanted.contains(&&call.call_id) {
                self.tools.begin(call, Arc::clone(space));
            }
        }
    }

    /// Handles what a call of this server tells.
    pub(super) async fn tool_news(&mut self, news: ToolNews) {
        match news {
            ToolNews::Nothing => {}
            ToolNews::Progress(progress) => self.show_progress(progress),
            ToolNews::Input(input) => {
                let asked = match &input {
                    Input::Elicit {
                        call_id,
                        question_id,
                        ..
                    } => Some((call_id.clone(), question_id.clone())),
                    _ => None,
                };
                self.inside(vec![input]).await;
                if let Some((call_id, question_id)) = asked
                    && self.retry.is_none()
                    && !self.is_open_question(&question_id)
                {
                    self.tools.not_asked(&call_id);
                }
            }
        }
    }

    fn is_open_question(&self, question_id: &CallId) -> bool {
        let loaded = self.loaded.as_ref();
        loaded.is_some_and(|loaded| loaded.session.is_open_question(question_id))
    }

    /// Shows how far a call of the current turn is.
    pub(super) fn show_progress(&mut self, progress: ToolProgress) {
        let turn = self
            .loaded
            .as_ref()
            .and_then(|loaded| loaded.session.turn());
        if let Some(turn) = turn {
            self.feed.progress(turn.id, progress);
        }
    }

    /// A client tells how far its call is.
    pub(super) async fn client_progress(
        &mut self,
        client_id: &ClientId,
        progress: ToolProgress,
    ) -> Result<(), RuntimeError> {
        self.load(false).await?;
        let loaded = self.loaded.as_ref().ok_or(RuntimeError::SessionNotFound)?;
        if !loaded.holds(&progress.call_id) {
            let why = format!("Tool call not found: {}", progress.call_id);
            return Err(Refusal::new(ErrorCode::ToolCallNotFound, why).into());
        }
        if !loaded.session.is_run_by(&progress.call_id, client_id) {
            let why = "The call is not run by this client";
            return Err(Refusal::new(ErrorCode::ToolCallClaimed, why).into());
        }
        self.show_progress(progress);
        Ok(())
    }
}
