//! Who approves during `codelab exec`: nobody, the person at the terminal, or everything in advance.

use std::io::IsTerminal;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use codelab_policy::visible;
use codelab_protocol::{
    AgentQuestion, ApprovalInfo, ApprovalKind, DECLINE, DecisionChoice, FileBase, FilePreview,
    HitlDecision, McpCall, elicited_content,
};
use codelab_terminal::ui::{self, WriteShown};
use codelab_terminal::{CommandText, Language, McpText, Text};
use codelab_toolrunner::RunnerQuestion;
use codelab_workspace::Workspace;
use serde_json::{Map, Value};
use tokio::sync::mpsc;

use super::super::note;
use super::super::tool_runner::{AskedCall, PersonAnswer, ask, in_one_line};
use super::Approve;

/// Approvals of this machine that wait. Each of them blocks one call.
const MAX_QUESTIONS: usize = 64;
const NOBODY_APPROVES: &str = "Nobody is there to approve this";
const NOBODY_ANSWERS: &str =
    "Nobody is there to answer. Decide yourself, or finish with what you have.";

#[derive(Clone)]
pub(super) struct Approver {
    approve: Approve,
    language: Language,
    /// The folder, for what a write would change. Reading through it does not count as read by the
    /// model.
    preview: Workspace,
    /// Whether anything was refused.
    refused: Arc<AtomicBool>,
    /// One question at a time at the terminal.
    terminal: Arc<tokio::sync::Mutex<()>>,
}

/// What came of something that needs an approval.
enum Verdict {
    Granted,
    /// A person said no, perhaps with a reason.
    Rejected(Option<String>),
    Nobody,
}

/// The call that is to be approved.
#[derive(Clone, Copy)]
struct AskedTool<'a> {
    reason: &'a str,
    tool: &'a str,
    mcp: Option<&'a McpCall>,
    arguments: &'a Map<String, Value>,
    /// What a write would do, as the client says that would run it.
    preview: Option<&'a FilePreview>,
}

/// Whether the one who asks can be told a reason.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reasons {
    Told,
    NotTold,
}

impl Approver {
    pub fn new(approve: Approve, language: Language, preview: Workspace) -> Self {
        // Without a terminal nobody can answer, so everything is refused.
        let approve = match approve {
            Approve::Ask | Approve::Edits if !std::io::stdin().is_terminal() => Approve::None,
            // The server lets writes pass. What it asks about goes to the person.
            Approve::Edits => Approve::Ask,
            approve => approve,
        };
        Self {
            approve,
            language,
            preview,
            refused: Arc::default(),
            terminal: Arc::default(),
        }
    }

    pub fn has_refused(&self) -> bool {
        self.refused.load(Ordering::Relaxed)
    }

    /// Whether a person at this terminal decides.
    pub fn asks(&self) -> bool {
        self.approve == Approve::Ask
    }

    /// Receives the tool runner's own approvals, for example for commands without a sandbox.
    pub fn questions(&self) -> mpsc::Sender<RunnerQuestion> {
        let (sender, mut questions) = mpsc::channel::<RunnerQuestion>(MAX_QUESTIONS);
        let approver = self.clone();
        tokio::spawn(async move {
            while let Some(question) = questions.recv().await {
                let tool = question.call.tool.name();
                let asked = AskedTool {
                    reason: &question.reason,
                    tool: &tool,
                    mcp: question.call.tool.mcp(),
                    arguments: &question.arguments,
                    preview: None,
                };
                let (verdict, _) = approver.ask(asked, Reasons::NotTold).await;
                let is_granted = matches!(verdict, Verdict::Granted);
                let _ = question.reply.send(is_granted);
            }
        });
        sender
    }

    /// The digest binds the decision to what was shown.
    pub async fn decide(&self, approval: &ApprovalInfo) -> HitlDecision {
        // The tasks of a plan were printed, one in a line.
        let nothing = Map::new();
        let asked = AskedTool {
            reason: &approval.reason,
            tool: &approval.tool_name,
            mcp: approval.mcp.as_deref(),
            arguments: match approval.kind {
                ApprovalKind::Plan => &nothing,
                ApprovalKind::Tool | ApprovalKind::Budget => &approval.arguments,
            },
            preview: approval.preview.as_deref(),
        };
        let (verdict, base) = self.ask(asked, Reasons::Told).await;
        let (decision, feedback) = match verdict {
            Verdict::Granted => (DecisionChoice::Approve, None),
            Verdict::Rejected(reason) => (DecisionChoice::Reject, reason),
            Verdict::Nobody => (DecisionChoice::Reject, Some(NOBODY_APPROVES.to_owned())),
        };
        HitlDecision {
            decision: Some(decision.into()),
            feedback,
            digest: Some(approval.digest.as_str().to_owned()),
            base,
            ..HitlDecision::default()
        }
    }

    pub async fn answer(&self, question: &AgentQuestion) -> String {
        if self.approve != Approve::Ask {
            return nobody_answers(question);
        }
        let _alone = self.terminal.lock().await;
        note(&match &question.server {
            Some(server) => self.language.with(McpText::Asks, &[server.as_str()]),
            None => self
                .language
                .with(Text::ExecAsks, &[question.agent.as_str(), ""]),
        });
        for line in question.question.lines() {
            note(&format!("  | {}", visible(line)));
        }
        for (index, option) in question.options.iter().enumerate() {
            note(&format!("  | {}. {}", index + 1, in_one_line(option)));
        }
        if question.server.is_some() {
            note(self.language.text(McpText::MayDecline));
        }
        loop {
            let answer = ask("> ").await.unwrap_or_default();
            if answer.trim().is_empty() {
                return nobody_answers(question);
            }
            let answer = question.chosen(answer.trim());
            let fits = match &question.requested_schema {
                Some(schema) => elicited_content(schema, answer).map(|_| ()),
                None => Ok(()),
            };
            match fits {
                Ok(()) => return answer.to_owned(),
                Err(why) => note(&visible(&why)),
            }
        }
    }

    /// With what a write would replace, as it was shown.
    async fn ask(&self, asked: AskedTool<'_>, reasons: Reasons) -> (Verdict, Option<FileBase>) {
        let (verdict, base) = match self.approve {
            Approve::None => (Verdict::Nobody, None),
            Approve::All => (Verdict::Granted, None),
            Approve::Ask | Approve::Edits => self.ask_person(asked, reasons).await,
        };
        if !matches!(verdict, Verdict::Granted) {
            let is_first = !self.refused.swap(true, Ordering::Relaxed);
            if is_first && self.approve == Approve::None {
                note(self.language.text(CommandText::ExecApproveHint));
            }
        }
        (verdict, base)
    }

    async fn ask_person(
        &self,
        asked: AskedTool<'_>,
        reasons: Reasons,
    ) -> (Verdict, Option<FileBase>) {
        let AskedTool {
            reason,
            tool,
            mcp,
            arguments,
            preview,
        } = asked;
        let _alone = self.terminal.lock().await;
        let language = self.language;
        let shown = ui::write_preview(&self.preview, tool, arguments, preview, language).await;
        let (diff, base) = match shown {
            Some(WriteShown { lines, base }) => (Some(lines), base),
            None => (None, None),
        };
        let call = AskedCall {
            reason,
            tool,
            mcp,
            arguments,
            diff,
        };
        let verdict = match call.ask(language.text(Text::ExecApprove), language).await {
            PersonAnswer::Yes => Verdict::Granted,
            PersonAnswer::Nobody => Verdict::Nobody,
            PersonAnswer::No if reasons == Reasons::NotTold => Verdict::Rejected(None),
            PersonAnswer::No => {
                let why = ask(language.text(Text::ExecWhyNot))
                    .await
                    .unwrap_or_default();
                let why = why.trim();
                Verdict::Rejected((!why.is_empty()).then(|| why.to_owned()))
            }
        };
        (verdict, base)
    }
}

/// A server is told that it gets no answer; an agent is told to go on without one.
fn nobody_answers(question: &AgentQuestion) -> String {
    match question.server {
        Some(_) => DECLINE.to_owned(),
        None => NOBODY_ANSWERS.to_owned(),
    }
}
