//! One call of a server's tool: passes it on, tells how far it is, asks the person what the server
//! wants to know, and makes a result of however it ends.

use std::sync::Arc;
use std::time::Duration;

use codelab_client::Client;
use codelab_mcp::{CallEvent, CallOptions, McpCallEnd};
use codelab_protocol::{CalledTool, ClientId, McpCall, ReportProgress, ToolCallChunk, check_named};
use codelab_workspace::CallKey;
use serde_json::{Map, Value};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::elicit::ElicitedQuestion;
use super::servers::RunningServer;
use crate::call::failure;
use crate::{CallInfo, RunnerState, ToolRunnerEvent};

/// What a server says faster than it is heard: progress is dropped, questions wait.
const MAX_CALL_EVENTS: usize = 64;
/// How often progress is told at most.
const PROGRESS_EVERY: Duration = Duration::from_millis(500);

impl RunnerState {
    /// Checks that the call is for this user, that a person allowed it, and that its arguments have
    /// the approved digest.
    pub(crate) fn check_named(&self, mcp: &McpCall, call: &ToolCallChunk) -> Result<(), String> {
        self.check_user(call)?;
        let arguments = &call.tool_call.arguments;
        if CalledTool::Named(Box::new(mcp.clone())).digest(arguments) != call.digest {
            return Err("the arguments do not match their digest; nothing was run".to_owned());
        }
        check_named(arguments)
            .map_err(|error| format!("Invalid arguments for {}: {}", mcp.id.tool, error.0))?;
        // What a server says about itself is not believed, so every call needs somebody's word.
        if !call.approved {
            return Err(format!(
                "nobody allowed this call of {} at the MCP server {}; nothing was run",
                mcp.id.tool, mcp.id.server
            ));
        }
        let server = &mcp.id.server;
        if let Some(reason) = self.mcp.refusal(server) {
            return Err(format!(
                "the MCP server {server} cannot be started: {reason}"
            ));
        }
        if self.mcp.get(server).is_none() {
            return Err(format!(
                "the MCP server {server} does not run at this client; nothing was run"
            ));
        }
        Ok(())
    }

    /// The result for the model. A server that fails is data for the model, not an error.
    pub(crate) async fn call_named(
        &self,
        info: &CallInfo,
        mcp: &McpCall,
        arguments: &Map<String, Value>,
        stop: &CancellationToken,
    ) -> Value {
        let Some(server) = self.mcp.get(&mcp.id.server) else {
            return failure("the MCP server does not run at this client; nothing was run");
        };
        let (asks, events) = mpsc::channel(MAX_CALL_EVENTS);
        let options = CallOptions {
            stop: stop.clone(),
            asks,
        };
        let (tool, definition) = (&mcp.id.tool, &mcp.id.definition);
        let call = server
            .handle
            .call(tool, definition, arguments.clone(), options);
        let end = tokio::select! {
            end = call => end,
            never = self.hear(info, &server, events) => match never {},
        };
        let name = &mcp.id.server;
        match end {
            McpCallEnd::Result(result) => result,
            McpCallEnd::Refused(reason) => failure(&format!(
                "the MCP server {name} was not asked, nothing was run: {}",
                server.clean(&reason)
            )),
            McpCallEnd::Unknown(reason) => failure(&format!(
                "no result came from the MCP server {name}: the call may or may not have had an \
                 effect, and it is not repeated: {}",
                server.clean(&reason)
            )),
            McpCallEnd::Failed(reason) => failure(&format!(
                "the MCP server {name} failed: {}",
                server.clean(&reason)
            )),
        }
    }

    /// Passes on what the server says, until the call ends. Dropping it ends everything.
    async fn hear(
        &self,
        info: &CallInfo,
        server: &RunningServer,
        mut events: mpsc::Receiver<CallEvent>,
    ) -> std::convert::Infallible {
        let (progress, told) = watch::channel(None);
        // A call has one open question at a time.
        let alone = Arc::new(tokio::sync::Mutex::new(()));
        let mut questions = 0;
        let mut tasks = JoinSet::new();
        tasks.spawn(tell_progress(
            self.client.clone(),
            info.key(),
            self.events.clone(),
            info.clone(),
            told,
        ));
        while let Some(event) = events.recv().await {
            match event {
                CallEvent::Progress {
                    progress: done,
                    total,
                    message,
                } => {
                    let client_id: ClientId = self.client_id.clone();
                    let message = message.map(|message| server.clean(&message));
                    progress.send_replace(Some(ReportProgress {
                        client_id,
                        progress: done,
                        total,
                        message,
                    }));
                }
                CallEvent::Elicit {
                    message,
                    requested_schema,
                    reply,
                } => {
                    questions += 1;
                    let question = ElicitedQuestion {
                        client: self.client.clone(),
                        client_id: self.client_id.clone(),
                        call: info.key(),
                        question_key: questions,
                        message: server.clean(&message),
                        requested_schema,
                    };
                    let (answers, alone) = (Arc::clone(&self.answers), Arc::clone(&alone));
                    tasks.spawn(async move {
                        let _alone = alone.lock().await;
                        // The server may not wait for the answer any more.
                        let _ = reply.send(question.ask(answers).await);
                    });
                }
            }
        }
        std::future::pending().await
    }
}

/// The newest progress, not each of them. One that cannot be sent is lost: the next says more.
async fn tell_progress(
    client: Client,
    key: CallKey,
    events: mpsc::Sender<ToolRunnerEvent>,
    info: CallInfo,
    mut progress: watch::Receiver<Option<ReportProgress>>,
) {
    while progress.changed().await.is_ok() {
        let Some(body) = progress.borrow_and_update().clone() else {
            continue;
        };
        // For display only.
        let _ = events.try_send(ToolRunnerEvent::Progress {
            call: info.clone(),
            progress: body.progress,
            total: body.total,
            message: body.message.clone(),
        });
        if let Err(error) = client
            .report_progress(&key.session_id, &key.call_id, &body)
            .await
        {
            tracing::debug!(%error, call = %key.call_id, "progress of a tool call not sent");
        }
        sleep(PROGRESS_EVERY).await;
    }
}
