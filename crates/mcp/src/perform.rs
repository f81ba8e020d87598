//! Performs one call on a connection: sends it, passes on what the server says meanwhile, answers
//! its questions, and tells what became of it.

use std::sync::Arc;
use std::time::Duration;

use rmcp::model::{
    CallToolRequest, CallToolRequestParams, ClientRequest, ElicitResult, ElicitationAction,
    InputRequest, InputRequiredResult, InputResponses, ServerResult,
};
use rmcp::service::{PeerRequestOptions, RequestHandle, RoleClient, ServiceError};
use serde_json::{Map, Value};
use tokio::time::{Instant, sleep_until, timeout};

use crate::call::{CallOptions, McpCallEnd};
use crate::client::{McpOpenCall, elicit_result, question};
use crate::connection::{LiveServer, had_no_effect, transport_text};
use crate::failure::visible;
use crate::limits::McpLimits;
use crate::result;

const MAX_ERROR_CHARS: usize = 4_000;
/// Rounds in which a server asks for more input before it answers.
const MAX_ROUNDS: usize = 32;
/// A round without a question is a server that wants to be asked again later.
const ROUND_PAUSE: Duration = Duration::from_millis(200);
const CANCEL_TIMEOUT: Duration = Duration::from_secs(2);

/// The definition was checked before.
pub async fn perform(
    live: &LiveServer,
    tool: &str,
    arguments: Map<String, Value>,
    options: &CallOptions,
    limits: &McpLimits,
) -> McpCallEnd {
    let mut params = CallToolRequestParams::new(tool.to_owned()).with_arguments(arguments);
    let call = McpOpenCall::new(options.asks.clone(), limits.max_elicitations);
    let deadline = Instant::now() + limits.call_timeout;
    for round in 0..MAX_ROUNDS {
        let is_first = round == 0;
        let limit = (deadline, limits.call_timeout);
        let answered = round_trip(live, &call, params.clone(), options, limit, is_first).await;
        let answer = match answered {
            Ok(answer) => answer,
            Err(end) => return end,
        };
        let required = match answer {
            ServerResult::InputRequiredResult(required) => required,
            ServerResult::CreateTaskResult(_) => {
                let text = "the server wants to work on it later, which CodeLab cannot wait for";
                return McpCallEnd::Unknown(text.to_owned());
            }
            answer => {
                return match serde_json::to_value(answer) {
                    Ok(answer) => {
                        let result = result::outcome(answer, limits, &live.last_words);
                        McpCallEnd::Result(result)
                    }
                    Err(error) => McpCallEnd::Failed(format!("its answer is nonsense: {error}")),
                };
            }
        };
        let inputs = tokio::select! {
            inputs = inputs(&call, required) => inputs,
            () = options.stop.cancelled() => return stopped(),
            () = sleep_until(deadline) => return too_late(limits.call_timeout),
        };
        (params.input_responses, params.request_state) = inputs;
    }
    McpCallEnd::Failed("the server asked for more and more input".to_owned())
}

fn stopped() -> McpCallEnd {
    McpCallEnd::Unknown("the call was cancelled while the server worked on it".to_owned())
}

fn too_late(after: Duration) -> McpCallEnd {
    let seconds = after.as_secs_f64();
    McpCallEnd::Unknown(format!("the server did not answer within {seconds} s"))
}

/// One request and its answer.
async fn round_trip(
    live: &LiveServer,
    call: &Arc<McpOpenCall>,
    params: CallToolRequestParams,
    options: &CallOptions,
    (deadline, after): (Instant, Duration),
    is_first: bool,
) -> Result<ServerResult, McpCallEnd> {
    let request = ClientRequest::CallToolRequest(CallToolRequest::new(params));
    let sending = live
        .peer
        .send_request_with_option(request, PeerRequestOptions::no_options());
    let sent = tokio::select! {
        sent = sending => sent,
        () = options.stop.cancelled() => return Err(stopped()),
    };
    let handle = sent.map_err(|_| {
        let text = live.last_words.explain("the server has just ended");
        match is_first {
            true => McpCallEnd::Refused(text),
            false => McpCallEnd::Unknown(text),
        }
    })?;
    let id = handle.id.clone();
    let _open = live
        .calls
        .open(id, handle.progress_token.clone(), call.clone());
    let mut waiting = CancelOnDrop(Some(handle));
    let Some(handle) = waiting.0.as_mut() else {
        return Err(stopped());
    };
    let answer = tokio::select! {
        answer = &mut handle.rx => answer.unwrap_or(Err(ServiceError::TransportClosed)),
        () = options.stop.cancelled() => {
            waiting.cancel("cancelled by the user", live).await;
            return Err(stopped());
        }
        () = sleep_until(deadline) => {
            waiting.cancel("no answer in time", live).await;
            return Err(too_late(after));
        }
        () = live.last_words.broken.cancelled() => Err(ServiceError::TransportClosed),
    };
    waiting.0 = None;
    answer.map_err(|error| end_of(&error, live))
}

/// Tells the server when nobody waits for its answer any more.
struct CancelOnDrop(Option<RequestHandle<RoleClient>>);

impl CancelOnDrop {
    async fn cancel(&mut self, reason: &str, live: &LiveServer) {
        if let Some(handle) = self.0.take() {
            let told = timeout(CANCEL_TIMEOUT, handle.cancel(Some(reason.to_owned()))).await;
            if told.is_err() {
                let text = "it does not read what it is sent";
                live.last_words.blame(text.to_owned());
            }
        }
    }
}

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        if let Some(handle) = self.0.take()
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            let reason = Some("nobody waits for the answer".to_owned());
            runtime.spawn(async move { timeout(CANCEL_TIMEOUT, handle.cancel(reason)).await });
        }
    }
}

fn end_of(error: &ServiceError, live: &LiveServer) -> McpCallEnd {
    match error {
        ServiceError::McpError(error) => {
            let said = live.last_words.hide(&error.message);
            let said = visible(&said, MAX_ERROR_CHARS);
            McpCallEnd::Failed(format!("the server refused the call: {said}"))
        }
        ServiceError::TransportSend(error) => {
            let error = error.error.as_ref();
            let (text, _) = transport_text(error);
            match had_no_effect(error) {
                true => McpCallEnd::Refused(text),
                false => McpCallEnd::Unknown(text),
            }
        }
        ServiceError::TransportClosed | ServiceError::Cancelled { .. } => McpCallEnd::Unknown(
            live.last_words
                .explain("the server ended while it worked on the call"),
        ),
        other => {
            let said = live.last_words.hide(&other.to_string());
            McpCallEnd::Failed(visible(&said, MAX_ERROR_CHARS))
        }
    }
}

/// The answers to what a server wants to know before it goes on.
async fn inputs(
    call: &McpOpenCall,
    required: InputRequiredResult,
) -> (Option<InputResponses>, Option<String>) {
    let mut responses = InputResponses::new();
    for (key, request) in required.input_requests.unwrap_or_default() {
        let response = match request {
            InputRequest::Elicitation(request) => match question(request.params) {
                Some((message, schema)) => elicit_result(call.ask(&message, schema).await),
                None => ElicitResult::new(ElicitationAction::Decline),
            },
            // Not offered, so a server must not ask.
            _ => ElicitResult::new(ElicitationAction::Decline),
        };
        if let Ok(response) = serde_json::to_value(response) {
            responses.insert(key, response);
        }
    }
    if responses.is_empty() {
        tokio::time::sleep(ROUND_PAUSE).await;
    }
    let responses = (!responses.is_empty()).then_some(responses);
    (responses, required.request_state)
}
