//! Sends results until the server has them, or knows that it does not want them. What could not be
//! sent stays in the journal for the next start.

use codelab_client::{Backoff, ClientError};
use codelab_protocol::CallResult;
use codelab_workspace::CallKey;
use serde_json::Value;
use tokio::time::sleep;

use super::RunnerState;
use super::call::failure;

/// Whether the server still has to hear of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Delivery {
    Done,
    Open,
}

impl RunnerState {
    /// Sends, and forgets the call once the server need not be told again.
    pub(super) async fn deliver(&self, key: &CallKey, result: Value) {
        if self.send(key, result).await == Delivery::Done {
            self.acknowledge(key).await;
        }
    }

    pub(super) async fn acknowledge(&self, key: &CallKey) {
        let noted = key.clone();
        if let Err(error) = self
            .on_disk(move |journal| journal.acknowledge(&noted))
            .await
        {
            tracing::warn!(%error, call = %key.call_id, "an acknowledgement could not be noted; the result is sent again");
        }
    }

    /// Tries again for as long as the hands live; when they stop, once more and no longer.
    pub(super) async fn send(&self, key: &CallKey, result: Value) -> Delivery {
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
            match sent.map_err(|error| verdict(&error)) {
                Ok(_) | Err(Verdict::Unwanted) => return Delivery::Done,
                Err(Verdict::TooLarge) => {
                    body.result = Some(failure("the result is larger than the server takes"))
                }
                Err(Verdict::Refused) => return Delivery::Open,
                Err(Verdict::Later) if last => return Delivery::Open,
                Err(Verdict::Later) => {
                    let pause = sleep(Backoff::default().delay(attempt));
                    self.stop.run_until_cancelled(pause).await;
                }
            }
            attempt += 1;
        }
    }
}

enum Verdict {
    /// The call has ended, is another client's, or never was.
    Unwanted,
    TooLarge,
    /// Not from this client as it is now, such as with a token that has expired.
    Refused,
    Later,
}

fn verdict(error: &ClientError) -> Verdict {
    match error.status() {
        Some(404 | 409 | 422) => Verdict::Unwanted,
        Some(413) => Verdict::TooLarge,
        _ if error.is_passing() => Verdict::Later,
        _ => Verdict::Refused,
    }
}
