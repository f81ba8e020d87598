//! `/fork`: the talk goes on in a new session with the same history.

use codelab_client::Client;
use codelab_protocol::{MessageId, SessionId};

use super::requests::RequestOutcome;

/// Not repeated when the connection breaks: each request makes a session.
pub async fn fork(client: Client, session: SessionId, at: MessageId) -> RequestOutcome {
    match client.fork_session(&session, &at).await {
        Ok(forked) => RequestOutcome::Open(forked.session_id),
        Err(error) => RequestOutcome::Failed(error),
    }
}
