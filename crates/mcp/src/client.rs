//! Our side of a connection: what we offer a server, and what it may ask and tell us.

use std::collections::{HashMap, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rmcp::ClientHandler;
use rmcp::model::{
    ClientCapabilities, ClientConfig, CustomRequest, CustomResult, ElicitRequestParams,
    ElicitResult, ElicitationAction, ElicitationCapability, ErrorCode, ErrorData,
    FormElicitationCapability, Implementation, ProgressNotificationParam, ProgressToken,
    ProtocolVersion, RequestId,
};
use rmcp::service::{InboundStreamOrigin, NotificationContext, RequestContext, RoleClient};
use serde_json::{Map, Value};
use tokio::sync::{Notify, mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use crate::call::{CallEvent, ElicitReply};
use crate::failure::visible;

const MAX_MESSAGE_CHARS: usize = 4_000;
const MAX_EARLY: usize = 16;
const MAX_PROGRESS_CHARS: usize = 2_000;
/// The fields of a question as JSON.
const MAX_SCHEMA_BYTES: usize = 64 * 1024;

/// What a server can reach of us.
pub struct McpClient {
    pub calls: Arc<OpenCalls>,
    /// Rings when the server's tools may have changed.
    pub tools_changed: Arc<Notify>,
    /// The folder that a program on this machine works on.
    pub workspace: Option<PathBuf>,
    /// Ends questions that wait for a person.
    pub closing: CancellationToken,
}

/// The calls that a server works on now.
#[derive(Default)]
pub struct OpenCalls {
    calls: Mutex<Calls>,
}

#[derive(Default)]
struct Calls {
    by_request: HashMap<RequestId, Arc<McpOpenCall>>,
    by_progress: HashMap<ProgressToken, Arc<McpOpenCall>>,
    /// The newest comes last.
    order: Vec<RequestId>,
    /// What a fast server said about calls that were sent and are not open here yet.
    early: VecDeque<ProgressNotificationParam>,
}

/// One call, for whatever the server says about it.
pub struct McpOpenCall {
    asks: mpsc::Sender<CallEvent>,
    /// Questions that may still be asked.
    questions: AtomicUsize,
}

impl McpOpenCall {
    pub fn new(asks: mpsc::Sender<CallEvent>, max_elicitations: usize) -> Arc<Self> {
        Arc::new(Self {
            asks,
            questions: AtomicUsize::new(max_elicitations),
        })
    }

    /// Whatever cannot be asked is declined.
    pub async fn ask(&self, message: &str, requested_schema: Map<String, Value>) -> ElicitReply {
        let is_left = |left: usize| left.checked_sub(1);
        let left = self
            .questions
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, is_left);
        let size = serde_json::to_vec(&requested_schema).map_or(usize::MAX, |text| text.len());
        if left.is_err() || size > MAX_SCHEMA_BYTES {
            return ElicitReply::Decline;
        }
        let (reply, answer) = oneshot::channel();
        let properties = requested_schema.get("properties").cloned();
        let properties = properties.unwrap_or_default();
        let question = CallEvent::Elicit {
            message: visible(message, MAX_MESSAGE_CHARS),
            requested_schema,
            reply,
        };
        let reply = match self.asks.send(question).await {
            Ok(()) => answer.await.unwrap_or(ElicitReply::Decline),
            Err(_) => ElicitReply::Decline,
        };
        match reply {
            ElicitReply::Accept(fields) => ElicitReply::Accept(with_defaults(fields, &properties)),
            other => other,
        }
    }

    fn progress(&self, progress: ProgressNotificationParam) {
        // A number that is none cannot be written as JSON.
        if !progress.progress.is_finite() {
            return;
        }
        let message = progress.message;
        // Whoever does not listen fast enough hears the next one.
        let _ = self.asks.try_send(CallEvent::Progress {
            progress: progress.progress,
            total: progress.total.filter(|total| total.is_finite()),
            message: message.map(|text| visible(&text, MAX_PROGRESS_CHARS)),
        });
    }
}

/// What the person left out has the value that the server suggested.
fn with_defaults(mut fields: Map<String, Value>, properties: &Value) -> Map<String, Value> {
    for (name, property) in properties.as_object().into_iter().flatten() {
        if let (None, Some(default)) = (fields.get(name), property.get("default")) {
            fields.insert(name.clone(), default.clone());
        }
    }
    fields
}

impl OpenCalls {
    fn calls(&self) -> MutexGuard<'_, Calls> {
        // Nothing panics while it is held.
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Until the guard is dropped, the server can speak about this call.
    pub fn open(
        self: &Arc<Self>,
        id: RequestId,
        progress: ProgressToken,
        call: Arc<McpOpenCall>,
    ) -> OpenGuard {
        let mut calls = self.calls();
        calls.by_request.insert(id.clone(), call.clone());
        let early = std::mem::take(&mut calls.early).into_iter();
        let (own, others): (VecDeque<_>, VecDeque<_>) =
            early.partition(|said| said.progress_token == progress);
        calls.early = others;
        own.into_iter().for_each(|said| call.progress(said));
        calls.by_progress.insert(progress.clone(), call);
        calls.order.push(id.clone());
        OpenGuard {
            calls: self.clone(),
            id,
            progress,
        }
    }

    /// The call that a question belongs to. On pipes nothing says which one; then it is the newest.
    fn asked_by(&self, origin: Option<&InboundStreamOrigin>) -> Option<Arc<McpOpenCall>> {
        let calls = self.calls();
        let origin = match origin {
            Some(InboundStreamOrigin::OutboundRequest(id)) => calls.by_request.get(id),
            Some(InboundStreamOrigin::Unassociated) | None => None,
        };
        let newest = || calls.order.last().and_then(|id| calls.by_request.get(id));
        origin.or_else(newest).cloned()
    }
}

pub struct OpenGuard {
    calls: Arc<OpenCalls>,
    id: RequestId,
    progress: ProgressToken,
}

impl Drop for OpenGuard {
    fn drop(&mut self) {
        let mut calls = self.calls.calls();
        calls.by_request.remove(&self.id);
        calls.by_progress.remove(&self.progress);
        calls.order.retain(|id| *id != self.id);
    }
}

impl McpClient {
    async fn elicit(
        &self,
        message: &str,
        schema: Map<String, Value>,
        context: &RequestContext<RoleClient>,
    ) -> ElicitResult {
        let origin = context.extensions.get::<InboundStreamOrigin>();
        let Some(call) = self.calls.asked_by(origin) else {
            return ElicitResult::new(ElicitationAction::Decline);
        };
        let reply = tokio::select! {
            reply = call.ask(message, schema) => reply,
            () = self.closing.cancelled() => ElicitReply::Cancel,
            () = context.ct.cancelled() => ElicitReply::Cancel,
        };
        elicit_result(reply)
    }
}

pub fn elicit_result(reply: ElicitReply) -> ElicitResult {
    match reply {
        ElicitReply::Accept(fields) => {
            ElicitResult::new(ElicitationAction::Accept).with_content(Value::Object(fields))
        }
        ElicitReply::Decline => ElicitResult::new(ElicitationAction::Decline),
        ElicitReply::Cancel => ElicitResult::new(ElicitationAction::Cancel),
    }
}

/// The message and the fields of a question. A question that sends the person to a web address is
/// not asked.
pub fn question(params: ElicitRequestParams) -> Option<(String, Map<String, Value>)> {
    match params {
        ElicitRequestParams::FormElicitationParams {
            message,
            requested_schema,
            ..
        } => match serde_json::to_value(requested_schema) {
            Ok(Value::Object(schema)) => Some((message, schema)),
            Ok(_) | Err(_) => None,
        },
        _ => None,
    }
}

#[expect(deprecated, reason = "servers of 2025-11-25 ask for roots")]
mod roots {
    use super::Path;
    use rmcp::model::{ListRootsResult, Root, RootsCapabilities};

    pub fn capability() -> RootsCapabilities {
        RootsCapabilities::default()
    }

    pub fn result(workspace: Option<&Path>) -> ListRootsResult {
        let uri = workspace.map(|folder| format!("file://{}", percent_encoded(folder)));
        ListRootsResult::new(uri.into_iter().map(Root::new).collect())
    }

    fn percent_encoded(folder: &Path) -> String {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/-._~".contains(&byte);
        let bytes = folder.as_os_str().as_encoded_bytes();
        let encoded = bytes.iter().map(|byte| match plain(*byte) {
            true => char::from(*byte).to_string(),
            false => format!("%{byte:02X}"),
        });
        encoded.collect()
    }
}

impl ClientHandler for McpClient {
    fn get_info(&self) -> ClientConfig {
        let mut capabilities = ClientCapabilities::default();
        let form = FormElicitationCapability::default();
        capabilities.elicitation = Some(ElicitationCapability::default().with_form(form));
        if self.workspace.is_some() {
            capabilities.roots = Some(roots::capability());
        }
        let version = env!("CARGO_PKG_VERSION");
        ClientConfig::new(capabilities, Implementation::new("codelab", version))
            .with_protocol_version(ProtocolVersion::LATEST_WITH_INITIALIZE)
    }

    #[expect(deprecated, reason = "servers of 2025-11-25 ask for roots")]
    async fn list_roots(
        &self,
        _: RequestContext<RoleClient>,
    ) -> Result<rmcp::model::ListRootsResult, ErrorData> {
        Ok(roots::result(self.workspace.as_deref()))
    }

    async fn create_elicitation(
        &self,
        request: ElicitRequestParams,
        context: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        match question(request) {
            Some((message, schema)) => Ok(self.elicit(&message, schema, &context).await),
            None => Ok(ElicitResult::new(ElicitationAction::Decline)),
        }
    }

    /// A question whose fields are described more freely than the protocol allows is asked too.
    async fn on_custom_request(
        &self,
        request: CustomRequest,
        context: RequestContext<RoleClient>,
    ) -> Result<CustomResult, ErrorData> {
        let asked = || {
            let params = request.params.as_ref()?;
            let message = params.get("message")?.as_str()?;
            let schema = params.get("requestedSchema")?.as_object()?;
            Some((message, schema.clone()))
        };
        match asked().filter(|_| request.method == "elicitation/create") {
            Some((message, schema)) => {
                let result = self.elicit(message, schema, &context).await;
                let result = serde_json::to_value(result)
                    .map_err(|error| ErrorData::internal_error(error.to_string(), None))?;
                Ok(CustomResult::new(result))
            }
            None => Err(ErrorData::new(
                ErrorCode::METHOD_NOT_FOUND,
                request.method,
                None,
            )),
        }
    }

    async fn on_progress(
        &self,
        params: ProgressNotificationParam,
        _: NotificationContext<RoleClient>,
    ) {
        let mut calls = self.calls.calls();
        match calls.by_progress.get(&params.progress_token) {
            Some(call) => call.progress(params),
            None => {
                if calls.early.len() >= MAX_EARLY {
                    calls.early.pop_front();
                }
                let mut params = params;
                params.message = params
                    .message
                    .map(|text| visible(&text, MAX_PROGRESS_CHARS));
                calls.early.push_back(params);
            }
        }
    }

    async fn on_tool_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.tools_changed.notify_one();
    }
}
