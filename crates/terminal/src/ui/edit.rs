//! `e`: the person changes what waits in their editor, and it is approved so. Nothing that was
//! written there is lost: what was not used is kept in a file.

use std::collections::HashMap;
use std::time::Duration;

use codelab_client::Client;
use codelab_protocol::{
    ApprovalInfo, ApprovalOutcome, CallId, DecisionChoice, HitlDecision, PlanDecision,
    SessionEventBody, SessionId, Tool, ToolArguments,
};
use futures_util::FutureExt as _;
use serde_json::{Map, Value};
use tokio::time::{sleep, timeout};

use crate::Text;
use crate::texts::EditText;

use super::diff::Before;
use super::kept;
use super::requests::DecisionRequest;
use super::state::PendingAsk;
use super::talk::Talk;

/// For so long an open editor keeps what it is about from expiring.
const MAX_EDITING: Duration = Duration::from_secs(60 * 60);
/// A renewal that failed is not repeated faster.
const MIN_RENEWAL_PAUSE: Duration = Duration::from_millis(500);
/// Texts of questions that are still open.
const MAX_DRAFTS: usize = 256;

/// What a person wrote in their editor about something that waits.
#[derive(Debug)]
pub(super) struct EditedDraft {
    text: String,
    /// The name of the file that it was written in.
    name: String,
    stage: DraftStage,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum DraftStage {
    Open,
    /// The server has it and has not said yet what became of it.
    Sent,
    /// It is in a file as well.
    Kept,
}

/// What was written in the editor and is not used yet.
#[derive(Debug, Default)]
pub(super) struct EditedDrafts(HashMap<CallId, EditedDraft>);

/// A text to change, and what makes arguments of it again.
struct Editable {
    text: String,
    /// Gives the text its kind.
    name: String,
    becomes: Becomes,
}

enum Becomes {
    /// The text is the arguments, as JSON.
    Arguments,
    /// The text is the whole content of the file.
    Content(Map<String, Value>),
    /// The text is the list of tasks, as JSON.
    Tasks,
}

impl EditedDrafts {
    fn put(&mut self, call: &CallId, name: &str, text: String) {
        if self.0.len() < MAX_DRAFTS || self.0.contains_key(call) {
            let (name, stage) = (name.to_owned(), DraftStage::Open);
            self.0
                .insert(call.clone(), EditedDraft { text, name, stage });
        }
    }

    fn sent(&mut self, call: &CallId) {
        if let Some(draft) = self.0.get_mut(call) {
            draft.stage = DraftStage::Sent;
        }
    }

    /// The server did not take it, so `e` goes on with it.
    pub(super) fn refused(&mut self, call: &CallId) {
        if let Some(draft) = self.0.get_mut(call) {
            draft.stage = DraftStage::Open;
        }
    }
}

impl EditedDraft {
    /// Whether these arguments were made of it.
    fn became(&self, arguments: &Map<String, Value>) -> bool {
        let is_content = arguments.get("content").and_then(Value::as_str) == Some(&self.text);
        let parsed = || serde_json::from_str::<Map<String, Value>>(&self.text).ok();
        is_content || parsed().as_ref() == Some(arguments)
    }
}

impl Talk {
    pub(super) async fn edit(&mut self, ask: PendingAsk) {
        // What the person edits replaces the file as it is now, and nothing that comes meanwhile.
        self.reread_of(&ask).await;
        let base = match &ask {
            PendingAsk::Approval(request) => self.state.shown_base(&request.approval),
            PendingAsk::Plan(_) | PendingAsk::Question(_) | PendingAsk::Local(_) => None,
        };
        let Some(Editable {
            text,
            name,
            becomes,
        }) = self.editable(&ask).await
        else {
            return;
        };
        let call = ask.call_id().clone();
        let draft = self.drafts.0.get(&call).map(|draft| draft.text.clone());
        let start = draft.unwrap_or_else(|| text.clone());
        let renewal = renewal(self.client.clone(), self.session.clone(), approval_of(&ask));
        let edited = tokio::select! {
            edited = self.surface.edit(&start, &name) => edited,
            never = renewal => match never {},
        };
        // Ctrl-C was for the editor then.
        let _ = self.interrupts.recv().now_or_never();
        let edited = match edited {
            Ok(edited) => edited,
            Err(error) => {
                self.notice(error.told(self.language()));
                if let Some(left) = error.left() {
                    self.keep_text(&name, left, EditText::KeptUnused);
                }
                return;
            }
        };
        // An editor that is left without saving decides nothing. Neither does an emptied file.
        if edited == start || edited == text || edited.trim().is_empty() {
            return self.say(Text::NothingChanged, &[]);
        }
        self.drafts.put(&call, &name, edited.clone());
        let changed = match becomes {
            Becomes::Content(mut arguments) => {
                arguments.remove("edits");
                arguments.insert("content".to_owned(), Value::String(edited));
                Ok(Value::Object(arguments))
            }
            Becomes::Arguments | Becomes::Tasks => serde_json::from_str(&edited),
        };
        let changed: Value = match changed {
            Ok(changed) => changed,
            Err(error) => return self.say(Text::NotJson, &[&error.to_string()]),
        };
        let decision = Some(DecisionChoice::Edit.into());
        let decision = match &ask {
            PendingAsk::Plan(request) => {
                let digest = Some(request.approval.digest.as_str().to_owned());
                let body = PlanDecision {
                    decision,
                    tasks: Some(changed),
                    feedback: None,
                    digest,
                };
                DecisionRequest::Plan(request.plan_id.clone(), body)
            }
            PendingAsk::Approval(request) => {
                let digest = Some(request.approval.digest.as_str().to_owned());
                let body = HitlDecision {
                    decision,
                    modified_args: Some(changed),
                    digest,
                    base,
                    ..HitlDecision::default()
                };
                DecisionRequest::Approval(call.clone(), body)
            }
            PendingAsk::Question(_) | PendingAsk::Local(_) => return,
        };
        self.drafts.sent(&call);
        self.submit(ask, decision);
    }

    /// Something was decided: what the person wrote about it was used, or is kept in a file.
    pub(super) fn settle_draft(&mut self, body: &SessionEventBody) {
        let (call, outcome, arguments) = match body {
            SessionEventBody::ApprovalResolved(resolved) => (
                resolved.call_id.clone(),
                resolved.decision,
                resolved.modified_args.as_ref(),
            ),
            // A plan has its own id as the id of its call.
            SessionEventBody::PlanResolved(resolved) => {
                match CallId::parse(resolved.plan_id.as_str()) {
                    Ok(call) => (call, resolved.decision, None),
                    Err(_) => return,
                }
            }
            _ => return,
        };
        let Some(draft) = self.drafts.0.remove(&call) else {
            return;
        };
        let is_used = outcome == ApprovalOutcome::Edited
            && arguments.is_none_or(|arguments| draft.became(arguments));
        if is_used {
            return;
        }
        let is_plan = matches!(body, SessionEventBody::PlanResolved(_));
        let comes_back = is_plan && outcome == ApprovalOutcome::Expired;
        let told = match comes_back {
            true => EditText::KeptForRenewal,
            false => EditText::KeptUnused,
        };
        let EditedDraft { text, name, stage } = draft;
        if stage != DraftStage::Kept {
            self.keep_text(&name, text.as_bytes(), told);
        }
        if comes_back {
            let stage = DraftStage::Kept;
            self.drafts
                .0
                .insert(call, EditedDraft { text, name, stage });
        }
    }

    /// Whoever leaves finds in files what they wrote and did not use.
    pub(super) fn keep_drafts(&mut self) {
        for (_, draft) in std::mem::take(&mut self.drafts.0) {
            if draft.stage == DraftStage::Open {
                self.keep_text(&draft.name, draft.text.as_bytes(), EditText::KeptUnused);
            }
        }
    }

    /// Says where a text is kept.
    fn keep_text(&mut self, name: &str, text: &[u8], told: EditText) {
        match kept::keep(&self.place.data_dir, name, text) {
            Ok(path) => self.say(told, &[&path.display().to_string()]),
            Err(error) => {
                // The screen is the only place that is left.
                let text = String::from_utf8_lossy(text);
                self.say(EditText::NotKept, &[&error.to_string(), &text]);
            }
        }
    }

    async fn editable(&self, ask: &PendingAsk) -> Option<Editable> {
        let pretty = |value: &Value| serde_json::to_string_pretty(value).unwrap_or_default() + "\n";
        match ask {
            PendingAsk::Approval(request) => {
                let approval = &request.approval;
                if let Some((path, content)) = self.written(ask).await {
                    let becomes = Becomes::Content(approval.arguments.clone());
                    return Some(Editable {
                        text: content,
                        name: path,
                        becomes,
                    });
                }
                let text = pretty(&Value::Object(approval.arguments.clone()));
                Some(Editable {
                    text,
                    name: "arguments.json".to_owned(),
                    becomes: Becomes::Arguments,
                })
            }
            PendingAsk::Plan(request) => {
                let tasks = request.approval.arguments.get("tasks")?;
                Some(Editable {
                    text: pretty(tasks),
                    name: "tasks.json".to_owned(),
                    becomes: Becomes::Tasks,
                })
            }
            PendingAsk::Question(_) | PendingAsk::Local(_) => None,
        }
    }

    /// The path and the whole new content, where the call is a write whose outcome is known.
    async fn written(&self, ask: &PendingAsk) -> Option<(String, String)> {
        let PendingAsk::Approval(request) = ask else {
            return None;
        };
        let approval = &request.approval;
        let tool = Tool::parse(&approval.tool_name)?;
        let Ok(ToolArguments::WriteFile(write)) = tool.check(&approval.arguments) else {
            return None;
        };
        let content = match (&write.content, self.before_of(ask).await.before) {
            (Some(content), _) => content.clone(),
            (None, Before::Text(old)) => super::diff::apply(&old, write.edits.as_deref()?)?,
            (None, _) => return None,
        };
        Some((write.path, content))
    }
}

fn approval_of(ask: &PendingAsk) -> Option<&ApprovalInfo> {
    match ask {
        PendingAsk::Approval(request) => Some(&request.approval),
        PendingAsk::Plan(request) => Some(&request.approval),
        PendingAsk::Question(_) | PendingAsk::Local(_) => None,
    }
}

/// Gives what is being edited its full time again and again. It ends only by being dropped.
async fn renewal(
    client: Client,
    session: Option<SessionId>,
    approval: Option<&ApprovalInfo>,
) -> std::convert::Infallible {
    let expires = approval.filter(|approval| approval.expires_at.is_some());
    if let (Some(session), Some(approval)) = (session, expires) {
        let pause = Duration::from_secs(approval.timeout_seconds) / 2;
        let renewed = async {
            loop {
                match client.renew_approval(&session, &approval.call_id).await {
                    Err(error) if error.status().is_some() => break,
                    Ok(_) | Err(_) => sleep(pause.max(MIN_RENEWAL_PAUSE)).await,
                }
            }
        };
        let _ = timeout(MAX_EDITING, renewed).await;
    }
    std::future::pending().await
}
