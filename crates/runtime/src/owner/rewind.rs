//! What the store knows of the part of a session that a person wants to take back.

use codelab_engine::{RanCall, RewindInput, RewindWish, RewoundPart};
use codelab_protocol::{MessageId, RewindId, RewindScope, TurnId};

use super::{LoadedSession, Owner};
use crate::RuntimeError;
use crate::space::Space;

/// Calls that are read. The engine refuses a rewind of more writes than it can hold.
const MAX_CALLS: u64 = 20_000;
/// The estimate of the engine: four characters are a token.
const BYTES_PER_TOKEN: u64 = 4;

/// What a person wants to take back.
#[derive(Debug, Clone)]
pub(crate) enum RewindAsked {
    To {
        message_id: MessageId,
        scope: RewindScope,
    },
    Undo(RewindId),
}

impl Owner {
    pub(super) async fn rewind_input(
        &self,
        loaded: &LoadedSession,
        asked: RewindAsked,
        decided_by: String,
    ) -> Result<RewindInput, RuntimeError> {
        let bound = loaded.session.bound_client();
        let gone = |space: &Space| bound.is_some_and(|bound| space.client_is_gone(bound));
        let bound_is_gone = loaded.space.as_deref().is_none_or(gone);
        let wish = match asked {
            RewindAsked::Undo(id) => RewindWish::Undo(id),
            RewindAsked::To { message_id, scope } => RewindWish::To {
                found: self.rewound_part(loaded, &message_id).await?,
                message_id,
                scope,
            },
        };
        Ok(RewindInput {
            wish,
            decided_by,
            bound_is_gone,
        })
    }

    async fn rewound_part(
        &self,
        loaded: &LoadedSession,
        id: &MessageId,
    ) -> Result<Option<RewoundPart>, RuntimeError> {
        let (store, key) = (&self.runtime.store, loaded.key);
        let Some(stored) = store.message(key, id).await? else {
            return Ok(None);
        };
        let turn = stored.turn;
        let taken = store.history_size(key, turn, TurnId(u64::MAX)).await?;
        let kept = store.history_size(key, TurnId(0), turn).await?;
        let calls = store.ran_calls(key, turn, MAX_CALLS).await?;
        let calls = calls.into_iter().map(|call| RanCall {
            call_id: call.call_id,
            tool: call.tool_name,
            did: call.did,
        });
        Ok(Some(RewoundPart {
            turn,
            // The engine counts from 0.
            ord: stored.ord.saturating_sub(1),
            role: stored.message.role,
            is_answer: stored.message.answers.is_some() || stored.message.steered,
            is_rewound: stored.message.rewound.is_some(),
            messages: taken.messages,
            tokens: taken.bytes / BYTES_PER_TOKEN,
            kept_tokens: kept.bytes / BYTES_PER_TOKEN,
            calls: calls.collect(),
        }))
    }
}
