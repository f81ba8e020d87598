//! `/fork`: the talk goes on in a new session with the same history, or with what was said before one
//! of the person's messages.

use codelab_client::{Client, ClientError};
use codelab_protocol::{Message, MessageId, Role, SessionId};

use super::requests::RequestOutcome;
use super::rewind::SaidMessage;

/// Messages that are read at once.
const PAGE: u64 = 200;

/// Not repeated when the connection breaks: each request makes a session.
pub async fn fork(client: Client, session: SessionId, at: MessageId) -> RequestOutcome {
    match client.fork_session(&session, &at).await {
        Ok(forked) => RequestOutcome::Forked(Some(forked.session_id), None),
        Err(error) => RequestOutcome::Failed(error),
    }
}

/// A session that ends before this message, which can be changed and sent there.
pub async fn fork_before(client: Client, session: SessionId, said: SaidMessage) -> RequestOutcome {
    let made = async {
        match message_before(&client, &session, &said.id).await? {
            Some(at) => client.fork_session(&session, &at).await.map(Some),
            None => Ok(None),
        }
    };
    match made.await {
        Ok(forked) => {
            let forked = forked.map(|forked| forked.session_id);
            RequestOutcome::Forked(forked, Some(said.text))
        }
        Err(error) => RequestOutcome::Failed(error),
    }
}

/// The last message of the person or an agent before this one that counts.
async fn message_before(
    client: &Client,
    session: &SessionId,
    before: &MessageId,
) -> Result<Option<MessageId>, ClientError> {
    let list = |limit, offset| client.project_session_messages(session, None, Some(limit), offset);
    let mut end = list(1, None).await?.total;
    let mut is_passed = false;
    while end > 0 {
        let start = end.saturating_sub(PAGE);
        let page = list(end - start, Some(start)).await?;
        for message in page.messages.iter().rev() {
            if is_passed && can_end(message) {
                return Ok(Some(message.message_id.clone()));
            }
            is_passed |= message.message_id == *before;
        }
        end = start;
    }
    Ok(None)
}

fn can_end(message: &Message) -> bool {
    matches!(message.role, Role::User | Role::Assistant) && message.rewound.is_none()
}
