//! Rewinds of project sessions, as the server asks for them.

use codelab_protocol::{MessageId, RewindId, RewindScope};
use codelab_store::OwnedSession;

use crate::owner::{Command, RewindAsked};
use crate::project_sessions::name;
use crate::runtime::Runtime;
use crate::{Reader, RuntimeError};

impl Runtime {
    /// Takes back what was done since a message of the user. The events end with `rewound`.
    pub async fn rewind(
        &self,
        session: &OwnedSession,
        message_id: MessageId,
        scope: RewindScope,
        decided_by: String,
    ) -> Result<Reader, RuntimeError> {
        let wish = RewindAsked::To { message_id, scope };
        self.submit(&name(session.id()), Command::Rewind { wish, decided_by })
            .await
    }

    /// Gives back what a rewind took.
    pub async fn undo_rewind(
        &self,
        session: &OwnedSession,
        rewind_id: RewindId,
        decided_by: String,
    ) -> Result<Reader, RuntimeError> {
        let wish = RewindAsked::Undo(rewind_id);
        self.submit(&name(session.id()), Command::Rewind { wish, decided_by })
            .await
    }
}
