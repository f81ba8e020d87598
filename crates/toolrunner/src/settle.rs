//! Calls that an earlier process left in the journal. They are reported to the server before new
//! calls are accepted.

use codelab_client::ClientError;
use codelab_protocol::Tool;
use codelab_workspace::UnfinishedCall;

use super::call::failure;
use super::deliver::ResultDelivery;
use super::{CallInfo, RunnerState, ToolRunnerEvent};

impl RunnerState {
    /// Sends finished results, reports calls that never started, and reports calls that may have
    /// run: those are never run again. Returns whether the client had to detach for it.
    pub(super) async fn settle(&self) -> Result<bool, ClientError> {
        for (key, result) in self.journal.unsent() {
            self.deliver(&key, result).await;
        }
        for call in self.journal.unstarted() {
            let reason =
                "the client ended before it started this call; nothing of it was run".to_owned();
            // A call that asked a person again, or that others decided about, is not this client's any
            // more. It never started here, so it can be offered again.
            match self.send(&call.key, failure(&reason)).await {
                ResultDelivery::Done => self.acknowledge(&call.key).await,
                ResultDelivery::Unwanted => {
                    self.release(&call.key).await;
                    continue;
                }
                ResultDelivery::Open => {}
            }
            self.emit(ToolRunnerEvent::Refused {
                call: CallInfo::of(&call.key, call.claim.tool.clone()),
                reason,
            });
        }
        let (rewinds, unknown): (Vec<_>, Vec<_>) = self
            .journal
            .unknown()
            .into_iter()
            .partition(|call| call.claim.tool.is(Tool::RewindFiles));
        for call in rewinds {
            self.resume_rewind(call).await;
        }
        self.report_unknown(unknown).await
    }

    /// A rewind looks at each file before it changes it, so it can be gone through again. It ends
    /// with a result that says which files are which.
    async fn resume_rewind(&self, call: UnfinishedCall) {
        let (workspace, key) = (self.workspace.clone(), call.key.clone());
        let resumed = tokio::task::spawn_blocking(move || workspace.resume_rewind(&key)).await;
        let result = resumed
            .unwrap_or_else(|error| failure(&format!("the rewind could not be resumed: {error}")));
        let (key, stored) = (call.key.clone(), result.clone());
        let finished = self
            .on_disk(move |journal| journal.finish_resumed(&key, stored))
            .await;
        if let Err(error) = finished {
            tracing::error!(%error, call = %call.key.call_id, "writing the result of a rewind to the journal failed, it is sent anyway");
        }
        self.deliver(&call.key, result).await;
    }

    /// Detaching closes the calls that this client still holds with an unknown outcome, without
    /// waiting for their leases to end.
    async fn report_unknown(&self, calls: Vec<UnfinishedCall>) -> Result<bool, ClientError> {
        let mut is_held = false;
        for call in &calls {
            match self
                .client
                .claim_call(&call.key.session_id, &call.key.call_id, &self.client_id)
                .await
            {
                Ok(_) => is_held = true,
                Err(error) if error.is_passing() => return Err(error),
                // Already closed: the server has told the person and the model.
                Err(_) => {}
            }
        }
        if is_held {
            self.client
                .detach_client(self.project, &self.client_id)
                .await?;
        }
        for call in calls {
            self.acknowledge(&call.key).await;
            self.emit(ToolRunnerEvent::Unknown {
                call: CallInfo::of(&call.key, call.claim.tool.clone()),
            });
        }
        Ok(is_held)
    }
}
