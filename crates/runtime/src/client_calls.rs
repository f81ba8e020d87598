//! What a tool runner tells of a call while it runs it: how far it is, and what its MCP server asks
//! the person.

use codelab_engine::Ids as _;
use codelab_protocol::{CallId, ClientId, ToolProgress, arguments_digest};
use codelab_store::OwnedSession;
use serde_json::{Map, Value};

use crate::RuntimeError;
use crate::ids::RandomIds;
use crate::owner::{Command, Mail};
use crate::project_sessions::name;
use crate::runtime::Runtime;

impl Runtime {
    /// Asks the person what an MCP server wants to know. Returns the id of the question, which is
    /// the same for the same `key`.
    pub async fn elicit(
        &self,
        session: &OwnedSession,
        call_id: CallId,
        client_id: ClientId,
        key: Option<u32>,
        (message, requested_schema): (String, Map<String, Value>),
    ) -> Result<CallId, RuntimeError> {
        let question_id = match key {
            Some(key) => question_id(&call_id, key),
            None => RandomIds.call_id(),
        };
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

/// A digest, so that it is no other call's id.
fn question_id(call: &CallId, key: u32) -> CallId {
    let named = Map::from_iter([
        ("call_id".to_owned(), Value::from(call.as_str())),
        ("key".to_owned(), Value::from(key)),
    ]);
    let digest = arguments_digest("elicitation", &named).to_string();
    let id = CallId::parse(&format!("call_{digest}"));
    id.unwrap_or_else(|_| RandomIds.call_id())
}
