//! Who approves during `codelab exec`: nobody, the person at the terminal, or everything in advance.

use std::io::IsTerminal;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use codelab_policy::visible;
use codelab_protocol::{AgentQuestion, ApprovalInfo, DecisionChoice, HitlDecision};
use codelab_terminal::{Language, Text, ui};
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
            Approve::Ask if !std::io::stdin().is_terminal() => Approve::None,
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

    /// Receives the tool runner's own approvals, for example for commands without a sandbox.
    pub fn questions(&self) -> mpsc::Sender<RunnerQuestion> {
        let (sender, mut questions) = mpsc::channel::<RunnerQuestion>(MAX_QUESTIONS);
        let approver = self.clone();
        tokio::spawn(async move {
            while let Some(question) = questions.recv().await {
                let tool = question.call.tool.as_str();
                let (reason, arguments) = (&question.reason, &question.arguments);
                let verdict = approver.ask(reason, tool, arguments, Reasons::NotTold);
                let is_granted = matches!(verdict.await, Verdict::Granted);
                let _ = question.reply.send(is_granted);
            }
        });
        sender
    }

    /// The digest binds the decision to what was shown.
    pub async fn decide(&self, approval: &ApprovalInfo) -> HitlDecision {
        let (tool, arguments) = (&approval.tool_name, &approval.arguments);
        let verdict = self.ask(&approval.reason, tool, arguments, Reasons::Told);
        let (decision, feedback) = match verdict.await {
            Verdict::Granted => (DecisionChoice::Approve, None),
            Verdict::Rejected(reason) => (DecisionChoice::Reject, reason),
            Verdict::Nobody => (DecisionChoice::Reject, Some(NOBODY_APPROVES.to_owned())),
        };
        HitlDecision {
            decision: Some(decision.into()),
            feedback,
            digest: Some(approval.digest.as_str().to_owned()),
            ..HitlDecision::default()
        }
    }

    pub async fn answer(&self, question: &AgentQuestion) -> String {
        if self.approve != Approve::Ask {
            return NOBODY_ANSWERS.to_owned();
        }
        let _alone = self.terminal.lock().await;
        note(
            &self
                .language
                .with(Text::ExecAsks, &[question.agent.as_str(), ""]),
        );
        for line in question.question.lines() {
            note(&format!("  | {}", visible(line)));
        }
        for option in &question.options {
            note(&format!("  - {}", in_one_line(option)));
        }
        let answer = ask("> ").await.unwrap_or_default();
        if answer.trim().is_empty() {
            NOBODY_ANSWERS.to_owned()
        } else {
            answer.trim().to_owned()
        }
    }

    async fn ask(
        &self,
        reason: &str,
        tool: &str,
        arguments: &Map<String, Value>,
        reasons: Reasons,
    ) -> Verdict {
        let verdict = match self.approve {
            Approve::None => Verdict::Nobody,
            Approve::All => Verdict::Granted,
            Approve::Ask => self.ask_person(reason, tool, arguments, reasons).await,
        };
        if !matches!(verdict, Verdict::Granted) {
            self.refused.store(true, Ordering::Relaxed);
        }
        verdict
    }

    async fn ask_person(
        &self,
        reason: &str,
        tool: &str,
        arguments: &Map<String, Value>,
        reasons: Reasons,
    ) -> Verdict {
        let _alone = self.terminal.lock().await;
        let language = self.language;
        let call = AskedCall {
            reason,
            tool,
            arguments,
            diff: ui::write_preview(&self.preview, tool, arguments, language).await,
        };
        match call.ask(language.text(Text::ExecApprove), language).await {
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
        }
    }
}
