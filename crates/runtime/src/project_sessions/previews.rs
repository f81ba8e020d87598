//! Approvals of a session: their time, what writes would replace, as clients tell, and what passes
//! without a question.

use codelab_protocol::{ApproveMode, CallId, ClientId, FilePreview};
use codelab_store::OwnedSession;
use serde_json::Value;

use crate::owner::Command;
use crate::{Runtime, RuntimeError};

impl Runtime {
    /// A client tells what a write that waits for a person would do to the file as it is now, and the
    /// result where that is certain without writing.
    pub async fn preview_write(
        &self,
        session: &OwnedSession,
        call_id: CallId,
        client_id: ClientId,
        (preview, certain): (FilePreview, Option<Value>),
    ) -> Result<(), RuntimeError> {
        let shown = Command::Preview {
            call_id,
            client_id: client_id.clone(),
            preview,
            certain,
        };
        self.by_client(session, &client_id, shown).await.map(drop)
    }

    /// The client that claimed a write found that a person must see it again; it let go of the call.
    pub async fn ask_again(
        &self,
        session: &OwnedSession,
        call_id: CallId,
        client_id: ClientId,
        (reason, preview): (String, FilePreview),
    ) -> Result<(), RuntimeError> {
        let again = Command::AskAgain {
            call_id,
            client_id: client_id.clone(),
            reason,
            preview,
        };
        self.by_client(session, &client_id, again).await.map(drop)
    }

    /// What passes without a question in this session.
    pub async fn choose_approve(
        &self,
        session: &OwnedSession,
        mode: ApproveMode,
    ) -> Result<(), RuntimeError> {
        self.tell_project_session(session.id(), Command::ChooseApprove { mode })
            .await
    }

    /// Gives an approval its full time again.
    pub async fn renew_approval(
        &self,
        session: &OwnedSession,
        call_id: CallId,
    ) -> Result<(), RuntimeError> {
        self.tell_project_session(session.id(), Command::Renew { call_id })
            .await
    }
}
