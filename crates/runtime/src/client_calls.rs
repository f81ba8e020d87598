//! What a tool runner tells of a call while it runs it: how far it is, and what its MCP server asks
//! the person.

use codelab_engine::Ids as _;
use codelab_protocol::{CallId, ClientId, ToolProgress};
use codelab_store::OwnedSession;
use serde_json::{Map, Value};

use crate::RuntimeError;
use crate::ids::RandomIds;
use crate::owner::{Command, Mail};
use crate::project_sessions::name;
use crate::runtime::Runtime;

impl Runtime {
    /// Asks the person what an MCP server wants to know. Returns the id of the question.
    pub async fn elicit(
        &self,
        session: &OwnedSession,
        call_id: CallId,
        client_id: ClientId,
        (message, requested_schema): (String, Map<String, Value>),
    ) -> Result<CallId, RuntimeError> {
        let question_id = RandomIds.call_id();
        let asked = Command::Elicit {
            call_id,
            question_id: question_id.clone(),
            client_id: client_id.clone(),
            message,
            requested_schema,
        };
        self.by_client(session, &client_id, asked).await?;
        Ok(question_id)
    }

    /// Shows how far a call is. It is not stored.
    pub async fn call_progress(
        &self,
        session: &OwnedSession,
        client_id: ClientId,
        progress: ToolProgress,
    ) -> Result<(), RuntimeError> {
        let mail = |reply| Mail::Progress {
            client_id,
            progress,
            reply,
        };
        self.ask(&name(session.id()), mail).await
    }
}
