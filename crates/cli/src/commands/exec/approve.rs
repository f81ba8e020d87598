//! Who approves during `codelab exec`: nobody, the person at the terminal, or everything in advance.

use std::io::IsTerminal;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use codelab_policy::visible;
use codelab_protocol::{AgentQuestion, ApprovalInfo, DecisionChoice, HitlDecision};
use codelab_terminal::{Language, Text};
use codelab_toolrunner::RunnerQuestion;
use serde_json::{Map, Value};
use tokio::sync::mpsc;

use super::super::note;
use super::super::tool_runner::{allows, ask, in_one_line};
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
    /// Whether anything was refused.
    refused: Arc<AtomicBool>,
    /// One question at a time at the terminal.
    terminal: Arc<tokio::sync::Mutex<()>>,
}

impl Approver {
    pub fn new(approve: Approve, language: Language) -> Self {
        // Without a terminal nobody can answer, so everything is refused.
        let approve = match approve {
            Approve::Ask if !std::io::stdin().is_terminal() => Approve::None,
            approve => approve,
        };
        Self {
            approve,
            language,
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
                let granted = approver
                    .grants(&question.reason, tool, &question.arguments)
                    .await;
                let _ = question.reply.send(granted);
            }
        });
        sender
    }

    /// The digest binds the decision to what was shown.
    pub async fn decide(&self, approval: &ApprovalInfo) -> HitlDecision {
        let is_granted = self
            .grants(&approval.reason, &approval.tool_name, &approval.arguments)
            .await;
        let decision = if is_granted {
            DecisionChoice::Approve
        } else {
            DecisionChoice::Reject
        };
        HitlDecision {
            decision: Some(decision.into()),
            feedback: (!is_granted).then(|| NOBODY_APPROVES.to_owned()),
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

    async fn grants(&self, reason: &str, tool: &str, arguments: &Map<String, Value>) -> bool {
        let is_granted = match self.approve {
            Approve::None => false,
            Approve::All => true,
            Approve::Ask => {
                let _alone = self.terminal.lock().await;
                let question = self.language.text(Text::ExecApprove);
                allows(question, self.language, reason, tool, arguments).await
            }
        };
        if !is_granted {
            self.refused.store(true, Ordering::Relaxed);
        }
        is_granted
    }
}
