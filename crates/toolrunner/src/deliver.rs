//! Sends results until the server has accepted or refused them. A result that could not be sent
//! stays in the journal for the next start.

use codelab_client::{Backoff, ClientError};
use codelab_protocol::CallResult;
use codelab_workspace::CallKey;
use serde_json::Value;
use tokio::time::sleep;

use super::RunnerState;
use super::call::failure;

/// Whether a result must still be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ResultDelivery {
    Done,
    /// The call has ended, belongs to another client, or does not exist.
    Unwanted,
    Open,
}

impl RunnerState {
    /// Sends the result, and forgets the call once the server has it.
    pub(super) async fn deliver(&self, key: &CallKey, result: Value) {
        let sent = self.send(key, result).await;
        self.failpoint.pass("result_sent");
        match sent {
            ResultDelivery::Done | ResultDelivery::Unwanted => self.acknowledge(key).await,
            ResultDelivery::Open => {}
        }
    }

    pub(super) async fn acknowledge(&self, key: &CallKey) {
        let sent = key.clone();
        if let Err(error) = self
            .on_disk(move |journal| journal.acknowledge(&sent))
            .await
        {
            tracing::warn!(%error, call = %key.call_id, "writing the acknowledgement to the journal failed, the result is sent again");
        }
    }

    /// Retries while the tool runner lives. Once it is stopped, tries one last time.
    pub(super) async fn send(&self, key: &CallKey, result: Value) -> ResultDelivery {
        let mut attempt = 0;
        let mut body = CallResult {
            client_id: self.client_id.clone(),
            result: Some(result),
            error: None,
        };
        loop {
            let last = self.stop.is_cancelled();
            let sent = self
                .client
                .send_result(&key.session_id, &key.call_id, &body)
                .await;
            match sent.map_err(|error| refusal(&error)) {
                Ok(_) => return ResultDelivery::Done,
                Err(Refusal::Unwanted) => return ResultDelivery::Unwanted,
                Err(Refusal::TooLarge) => {
                    body.result = Some(failure("the result is larger than the server accepts"))
                }
                Err(Refusal::Refused) => return ResultDelivery::Open,
                Err(Refusal::Later) if last => return ResultDelivery::Open,
                Err(Refusal::Later) => {
                    let pause = sleep(Backoff::default().delay(attempt));
                    self.stop.run_until_cancelled(pause).await;
                }
            }
            attempt += 1;
        }
    }
}

enum Refusal {
    /// The call has ended, belongs to another client, or does not exist.
    Unwanted,
    TooLarge,
    /// The server refuses this client, for example because its token has expired.
    Refused,
    Later,
}

fn refusal(error: &ClientError) -> Refusal {
    match error.status() {
        Some(404 | 409 | 422) => Refusal::Unwanted,
        Some(413) => Refusal::TooLarge,
        _ if error.is_passing() => Refusal::Later,
        _ => Refusal::Refused,
    }
}
