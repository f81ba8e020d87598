//! `/compact`: the history of the session is summed up now.

use codelab_client::{Client, RESTART_BACKOFF, repeated};
use codelab_protocol::SessionId;

use crate::Language;
use crate::texts::CommandText;

use super::block::Block;
use super::requests::RequestOutcome;

/// The end comes as an event of the session.
pub async fn compact(client: Client, session: SessionId, language: Language) -> RequestOutcome {
    let asked = repeated(RESTART_BACKOFF, || client.compact_session(&session)).await;
    let error = match asked {
        // The event may have come already.
        Ok(session) if session.compacting => return RequestOutcome::Accepted,
        Ok(_) => return RequestOutcome::NotCompacting(None),
        Err(error) => error,
    };
    let told = match error.detail("reason") {
        Some("nothing_to_compact") => CommandText::NothingToCompact,
        Some("busy") => CommandText::CompactLater,
        Some("budget") => CommandText::NoBudgetToCompact,
        Some(_) | None => {
            let told = Box::new(Block::Error {
                message: error.to_string(),
                code: error.error_code(),
                status: Language::status(&error),
            });
            return RequestOutcome::NotCompacting(Some(told));
        }
    };
    let notice = language.text(told).to_owned();
    RequestOutcome::NotCompacting(Some(Box::new(Block::Notice(notice))))
}
