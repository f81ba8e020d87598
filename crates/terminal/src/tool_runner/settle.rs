//! What an earlier process of these hands left behind, told to the server before anything new is
//! taken.

use codelab_client::ClientError;
use codelab_workspace::UnfinishedCall;

use super::call::failure;
use super::{CallInfo, RunnerState, ToolRunnerEvent};

impl RunnerState {
    /// Sends finished results, says what never started, and reports what may have run: that is
    /// never run again. Says whether the client had to be let go for it.
    pub(super) async fn settle(&self) -> Result<bool, ClientError> {
        for (key, result) in self.journal.unsent() {
            self.deliver(&key, result).await;
        }
        for call in self.journal.unstarted() {
            let reason =
                "the client ended before it began this call; nothing of it has run".to_owned();
            self.deliver(&call.key, failure(&reason)).await;
            self.tell(ToolRunnerEvent::Refused {
                call: CallInfo::of(&call.key, call.claim.tool),
                reason,
            });
        }
        self.report_unknown(self.journal.unknown()).await
    }

    /// Letting go of a call that is still held closes it at the server with an unknown outcome, at
    /// once and not only when its lease is over.
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
                // Closed already: the server said so to the person and the model.
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
            self.tell(ToolRunnerEvent::Unknown {
                call: CallInfo::of(&call.key, call.claim.tool),
            });
        }
        Ok(is_held)
    }
}
