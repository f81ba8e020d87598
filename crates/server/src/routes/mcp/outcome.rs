//! What a tool answers: text for a model, and the same as data for a program.

use codelab_protocol::{
    AcceptedStatus, DirectAnswer, MessageAccepted, PendingData, ProjectSessionAck, SessionId,
    TurnStatus,
};
use rmcp::model::{CallToolResult, ContentBlock, MetaObject};
use serde_json::{Map, Value, json};

use super::super::project_sessions::answer::MessageOutcome;
use super::shown;
use crate::error::{ApiError, ApiResult};

/// Where the error of a result is found as data. The schema of a result has no place for it.
const ERROR_META: &str = "codelab/error";

/// Rows that were read: the text is the same JSON.
pub(super) fn data(found: Value) -> CallToolResult {
    let text = found.to_string();
    result(vec![text], found, false)
}

/// The tool could not do it. The sentence and the code are those of the API.
pub(super) fn refused(error: ApiError) -> CallToolResult {
    let error = error.into_body();
    let code = error.error_code.map(|code| code.as_str());
    let text = match code {
        Some(code) => format!("{} ({code})", error.detail),
        None => error.detail.clone(),
    };
    let mut result = CallToolResult::error(vec![ContentBlock::text(text)]);
    let mut meta = MetaObject::new();
    meta.insert(ERROR_META.to_owned(), shown(error));
    result.meta = Some(meta);
    result
}

/// What became of a message to an agent.
pub(super) fn answered(session: &SessionId, found: ApiResult<MessageOutcome>) -> CallToolResult {
    match found {
        Ok(MessageOutcome::Answered(call)) => of_call(session, call.answer),
        Ok(MessageOutcome::Accepted(accepted)) => of_queue(session, accepted),
        Err(error) => {
            let mut result = refused(error);
            result
                .content
                .push(ContentBlock::text(where_it_is(session)));
            result
        }
    }
}

fn of_call(session: &SessionId, answer: DirectAnswer) -> CallToolResult {
    let next = next_step(session, &answer);
    let mut texts: Vec<String> = answer.response.iter().cloned().collect();
    texts.extend(answer.error.as_ref().map(|error| match answer.error_code {
        Some(code) => format!("{error} ({})", code.as_str()),
        None => error.clone(),
    }));
    texts.extend(next.clone());
    texts.push(format!(
        "session_id: {session}, status: {}",
        answer.status.as_str()
    ));
    let is_error = matches!(answer.status, TurnStatus::Failed | TurnStatus::Cancelled);
    let mut fields = Map::new();
    fields.insert("session_id".to_owned(), shown(session));
    fields.insert("message_id".to_owned(), shown(&answer.message_id));
    fields.insert("status".to_owned(), shown(answer.status));
    fields.insert("agent".to_owned(), shown(&answer.agent));
    let optional = [
        ("response", answer.response.map(shown)),
        ("pending", answer.pending.map(shown)),
        ("next", next.map(shown)),
        ("error", answer.error.map(shown)),
        ("error_code", answer.error_code.map(shown)),
    ];
    for (name, value) in optional {
        if let Some(value) = value {
            fields.insert(name.to_owned(), value);
        }
    }
    if !answer.warnings.is_empty() {
        texts.extend(
            answer
                .warnings
                .iter()
                .map(|text| format!("Warning: {text}")),
        );
        fields.insert("warnings".to_owned(), shown(answer.warnings));
    }
    result(texts, Value::Object(fields), is_error)
}

/// How to go on with a call that waits for somebody.
fn next_step(session: &SessionId, answer: &DirectAnswer) -> Option<String> {
    match (answer.status, &answer.pending) {
        (TurnStatus::AwaitingApproval, Some(PendingData::Approval(request))) => {
            let approval = &request.approval;
            Some(format!(
                "A person must decide about {} with these arguments: {}. To decide for them, call \
                 decide_approval with session_id {session}, call_id {} and digest {}. get_session \
                 then shows the answer.",
                approval.tool_name,
                Value::Object(approval.arguments.clone()),
                approval.call_id,
                approval.digest,
            ))
        }
        (TurnStatus::AwaitingAnswer, Some(PendingData::Question(question))) => {
            let options = match question.options.is_empty() {
                true => String::new(),
                false => format!(" The options are: {}.", question.options.join("; ")),
            };
            Some(format!(
                "The agent asks: {}{options} Call ask_agent again with session_id {session} and \
                 the answer as message.",
                question.question
            ))
        }
        (TurnStatus::AwaitingToolResult, Some(PendingData::ToolCall(call))) => {
            let runner = match call.event.client_attached {
                true => "One is attached.",
                false => "None is attached; `codelab chat` in the workspace attaches one.",
            };
            Some(format!(
                "A tool runner must run {} first. {runner} get_session shows the answer later.",
                call.event.call.tool_call.name
            ))
        }
        (
            TurnStatus::AwaitingApproval
            | TurnStatus::AwaitingAnswer
            | TurnStatus::AwaitingToolResult,
            _,
        ) => Some("The turn waits for somebody; get_session shows for what.".to_owned()),
        (TurnStatus::Completed | TurnStatus::Failed | TurnStatus::Cancelled, _) => None,
    }
}

/// The message was accepted, and its turn has not begun.
fn of_queue(session: &SessionId, accepted: MessageAccepted) -> CallToolResult {
    let next = match accepted.status {
        AcceptedStatus::Queued => {
            "The message waits for an earlier one, or for its agent to be \
             free. get_session shows the answer later."
        }
        AcceptedStatus::Accepted | AcceptedStatus::Answered | AcceptedStatus::Steering => {
            "The work goes on; get_session shows the answer later."
        }
    };
    waiting(session, accepted, next, &["mode"])
}

/// A message was accepted to be planned.
pub(super) fn planned(session: &SessionId, accepted: MessageAccepted) -> CallToolResult {
    let next = "get_session shows the answer when the plan has ended, and what waits for a person \
         before. A plan that needs approval is decided with decide_approval.";
    waiting(session, accepted, next, &[])
}

fn waiting(
    session: &SessionId,
    accepted: MessageAccepted,
    next: &str,
    left_out: &[&str],
) -> CallToolResult {
    let mut fields = json!({ "session_id": session });
    if let (Value::Object(fields), Value::Object(accepted)) = (&mut fields, shown(accepted)) {
        let kept = accepted
            .into_iter()
            .filter(|(name, _)| !left_out.contains(&name.as_str()));
        fields.extend(kept);
        fields.insert("next".to_owned(), next.into());
    }
    let text = format!("{next} {}", where_it_is(session));
    result(vec![text], fields, false)
}

/// A decision counts.
pub(super) fn decided(ack: ProjectSessionAck) -> CallToolResult {
    let next = match ack.status {
        Some(TurnStatus::AwaitingApproval) => "Something else waits for a decision now.",
        Some(TurnStatus::AwaitingAnswer) => "The agent asks a question now.",
        Some(TurnStatus::AwaitingToolResult) => "A tool runner must run the call now.",
        Some(TurnStatus::Completed | TurnStatus::Failed | TurnStatus::Cancelled) | None => {
            "The turn goes on, or has ended."
        }
    };
    let next = format!("{next} get_session shows what comes of it.");
    let text = format!("Decided. {next} {}", where_it_is(&ack.session_id));
    let mut fields = shown(ack);
    fields["next"] = next.into();
    result(vec![text], fields, false)
}

fn where_it_is(session: &SessionId) -> String {
    format!("session_id: {session}")
}

fn result(texts: Vec<String>, fields: Value, is_error: bool) -> CallToolResult {
    let content = texts.into_iter().map(ContentBlock::text).collect();
    let mut result = match is_error {
        true => CallToolResult::error(content),
        false => CallToolResult::success(content),
    };
    result.structured_content = Some(fields);
    result
}
