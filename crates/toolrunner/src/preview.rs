//! Writes that a person decides about: what they would do to the file as it is now is told to the
//! server, again and again while it changes. A write that nobody was shown is given back.

use std::sync::Arc;
use std::time::Duration;

use codelab_client::Backoff;
use codelab_protocol::{
    ApprovalKind, ApprovalRequest, AskAgain, CallId, FilePreview, SendPreview, SessionId, Tool,
    ToolArguments, WriteFile,
};
use codelab_workspace::{CallKey, ReadingAgent, WriteQuestion};
use serde_json::Value;
use tokio::time::sleep;

use super::call::{WorkEnd, YIELD_TO_NAMED};
use super::{CallInfo, RunnerState, ToolRunnerEvent, lock};

/// Approvals whose files are watched at once. A further one is judged when it runs.
const MAX_WATCHED: usize = 64;
/// How often a watched file is looked at.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// A preview that could not be sent is tried again after this.
const SEND_AGAIN: Duration = Duration::from_secs(1);

impl RunnerState {
    /// Tells what the call would write for as long as it waits for a person.
    pub(super) fn watch(self: &Arc<Self>, session: &SessionId, request: ApprovalRequest) {
        let approval = &request.approval;
        let is_write = approval.kind == ApprovalKind::Tool
            && approval.mcp.is_none()
            && approval.tool_name == Tool::WriteFile.as_str();
        let (true, Some(agent)) = (is_write, &request.agent) else {
            return;
        };
        let Ok(ToolArguments::WriteFile(write)) = Tool::WriteFile.check(&approval.arguments) else {
            return;
        };
        let key = CallKey {
            session_id: session.clone(),
            call_id: approval.call_id.clone(),
        };
        let end = self.stop.child_token();
        {
            let mut watched = lock(&self.watched);
            // What asks again can be another version of the call.
            if let Some(before) = watched.remove(&key) {
                before.cancel();
            }
            if watched.len() >= MAX_WATCHED {
                return tracing::debug!(call = %key.call_id, "file of an approval not watched, too many are");
            }
            watched.insert(key.clone(), end.clone());
        }
        let reader = ReadingAgent::new(session, &request.origin, agent);
        let sent = approval.preview.as_deref().cloned();
        let shared = Arc::clone(self);
        self.tasks.spawn(async move {
            let watching = shared.show_changes(&key, &write, &reader, sent);
            end.run_until_cancelled(watching).await;
            let mut watched = lock(&shared.watched);
            // Another version of the call may be watched by now.
            if !end.is_cancelled() {
                watched.remove(&key);
            }
        });
    }

    pub(super) fn unwatch(&self, session: &SessionId, call: &CallId) {
        let key = CallKey {
            session_id: session.clone(),
            call_id: call.clone(),
        };
        if let Some(end) = lock(&self.watched).remove(&key) {
            end.cancel();
        }
    }

    /// Returns when the server wants no more of it.
    async fn show_changes(
        &self,
        key: &CallKey,
        write: &WriteFile,
        reader: &ReadingAgent,
        mut sent: Option<FilePreview>,
    ) {
        // A tool runner that serves this session shows its own folder.
        if !lock(&self.served).contains(&key.session_id) {
            sleep(YIELD_TO_NAMED).await;
        }
        loop {
            let Some(preview) = self.workspace.preview(write, Some(reader)).await else {
                return;
            };
            if sent.as_ref() != Some(&preview) {
                // Once it is shown, a person may be about to decide.
                let certain = match &sent {
                    None => self.workspace.certain_result(write, Some(reader)).await,
                    Some(_) => None,
                };
                let body = SendPreview {
                    client_id: self.client_id.clone(),
                    preview: preview.clone(),
                    certain_result: match certain {
                        Some(Value::Object(result)) => Some(result),
                        _ => None,
                    },
                };
                match self
                    .client
                    .send_preview(&key.session_id, &key.call_id, &body)
                    .await
                {
                    Ok(()) => sent = Some(preview),
                    Err(error) if error.is_passing() => sleep(SEND_AGAIN).await,
                    Err(error) => {
                        return tracing::debug!(call = %key.call_id, %error, "preview of a write not wanted");
                    }
                }
            }
            sleep(LOOK_EVERY).await;
        }
    }

    /// Gives a claimed write back, so that a person sees it. Nothing of it was written.
    pub(super) async fn ask_again(&self, info: CallInfo, question: WriteQuestion) -> WorkEnd {
        let key = info.key();
        let WriteQuestion { reason, preview } = question;
        let body = AskAgain {
            client_id: self.client_id.clone(),
            reason: reason.clone(),
            preview,
        };
        let mut attempt = 0;
        loop {
            let is_last = self.stop.is_cancelled();
            let asked = self
                .client
                .ask_again(&key.session_id, &key.call_id, &body)
                .await;
            match asked {
                Ok(_) => break,
                // The journal still has the call as claimed: the next start settles it.
                Err(error) if error.is_passing() && is_last => return WorkEnd::Over,
                Err(error) if error.is_passing() => {
                    let pause = sleep(Backoff::default().delay(attempt));
                    self.stop.run_until_cancelled(pause).await;
                    attempt += 1;
                }
                // It has ended, or it asks already and somebody approved it: it is not held here.
                Err(error) => {
                    tracing::debug!(call = %key.call_id, %error, "call that asks again is not held any more");
                    break;
                }
            }
        }
        self.release(&key).await;
        self.emit(ToolRunnerEvent::AskedAgain { call: info, reason });
        WorkEnd::GaveBack
    }

    pub(super) async fn release(&self, key: &CallKey) {
        let released = key.clone();
        if let Err(error) = self
            .on_disk(move |journal| journal.release(&released))
            .await
        {
            tracing::warn!(%error, call = %key.call_id, "writing to the journal failed, the call is not run again");
        }
    }
}
