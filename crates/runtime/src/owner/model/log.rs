//! What the log says of a prompt: sizes and what was missing. What people said is logged at no
//! level, unless the operator asked for the system message (`context.log_prompts`).

use codelab_engine::{ModelCall, PromptReport};
use codelab_protocol::{ModelMessage, ModelRequest, SessionId};

pub(super) fn history(
    session: &SessionId,
    call: &ModelCall,
    session_messages: u64,
    report: &PromptReport,
) {
    let PromptReport {
        messages_found,
        messages_sent,
        messages_shortened,
        tokens_found,
        tokens_sent,
        ..
    } = report;
    let (turn, step, agent) = (call.id.turn, call.id.step, &call.agent);
    if report.is_trimmed() {
        tracing::info!(
            %session, %turn, step, %agent, session_messages, messages_found, messages_sent, messages_shortened,
            tokens_found, tokens_sent, "the history was trimmed for the prompt"
        );
    } else {
        tracing::debug!(
            %session, %turn, step, %agent, session_messages, messages_sent, tokens_sent, "the history in the prompt"
        );
    }
}

/// Placeholders without a value.
pub(super) fn gaps(session: &SessionId, call: &ModelCall, report: &PromptReport) {
    let PromptReport {
        missing,
        unknown,
        unusable_timezone,
        ..
    } = report;
    let (turn, agent) = (call.id.turn, &call.agent);
    if !missing.is_empty() || !unknown.is_empty() {
        tracing::warn!(%session, %turn, %agent, ?missing, ?unknown, "placeholders without a value were left empty in the prompt");
    }
    if let Some(timezone) = unusable_timezone {
        tracing::warn!(%session, %turn, ?timezone, "the caller's time zone is unknown; the server's is used");
    }
}

/// For debugging templates (`context.log_prompts`).
pub(super) fn whole_prompt(session: &SessionId, call: &ModelCall, request: &ModelRequest) {
    let (turn, step, agent) = (call.id.turn, call.id.step, &call.agent);
    if let Some(ModelMessage::System { content }) = request.messages.first() {
        tracing::info!(%session, %turn, step, %agent, prompt = ?content, "system message of the prompt");
    }
}
