//! The person's decisions: built here, sent to the server or to the tool runner.

use codelab_protocol::{
    ApprovalOutcome, CallId, DecisionChoice, HitlDecision, PlanDecision, SessionId, Tool,
};
use serde_json::{Map, Value};

use crate::Text;
use crate::texts::CommandText;

use super::block::Block;
use super::diff::Before;
use super::files::{self, ShownFile};
use super::prompt::MenuChoice;
use super::render::{self, CardRows, time_left};
use super::requests::{self, DecisionRequest, OutgoingMessage};
use super::state::{Grant, PendingAsk};
use super::talk::{Talk, now};

/// What waits first, as it is drawn, and what that was made of.
pub(super) struct AskCard {
    ask: PendingAsk,
    before: ShownFile,
    session: Option<SessionId>,
    width: usize,
    pub(super) rows: CardRows,
    /// With whatever else a person must know about it.
    pub(super) blocks: Vec<Block>,
}

impl Talk {
    pub(super) async fn decide(&mut self, call: &CallId, choice: MenuChoice) {
        let Some(ask) = self
            .state
            .asks
            .iter()
            .find(|ask| ask.call_id() == call)
            .cloned()
        else {
            return;
        };
        match choice {
            MenuChoice::ViewAll => self.view(&ask).await,
            MenuChoice::Edit => self.edit(ask).await,
            MenuChoice::Approve | MenuChoice::Always | MenuChoice::Reject(_) => {
                self.word(ask, choice)
            }
        }
    }

    pub(super) async fn answer(&mut self, call: &CallId, text: String) {
        // An option is the agent's text: it names no files, and it never comes into the line.
        let is_option = self.state.asks.iter().any(|ask| {
            matches!(ask, PendingAsk::Question(question)
                if question.call_id == *call && question.options.contains(&text))
        });
        let text = match is_option {
            true => text,
            false => match self.with_files(&text, text.clone()).await {
                Some((expanded, images)) if images.is_empty() => expanded,
                Some((expanded, images)) => {
                    let message = OutgoingMessage {
                        written: text,
                        text: expanded,
                        images,
                        delivery: Default::default(),
                    };
                    return self.answer_with_images(call, message);
                }
                None => return,
            },
        };
        if let Some(ask) = self
            .state
            .asks
            .iter()
            .find(|ask| ask.call_id() == call)
            .cloned()
        {
            self.submit(ask, DecisionRequest::Answer(call.clone(), text));
        }
    }

    /// An answer by its id has no files, but a message that names nobody answers what was asked first.
    fn answer_with_images(&mut self, call: &CallId, message: OutgoingMessage) {
        let mut asks = self.state.asks.iter();
        let first = asks.find(|ask| matches!(ask, PendingAsk::Question(_)));
        if first.is_some_and(|first| first.call_id() == call) {
            return self.send_to(None, message);
        }
        self.say(CommandText::ImageInAnswer, &[]);
        self.give_back(message.written);
    }

    /// Makes the card of what waits first. It is kept until something of it changes, because it is
    /// drawn many times a second.
    pub(super) fn update_card(&mut self) {
        let Some(ask) = self.prompt.subject(&self.state) else {
            self.card = None;
            return;
        };
        let width = self.surface.width();
        let before = self.state.before(ask.call_id());
        let is_same = |card: &AskCard| {
            card.ask == *ask
                && card.before == *before
                && card.session == self.session
                && card.width == width
        };
        // The tasks of a plan change with its events.
        let is_plan = matches!(ask, PendingAsk::Plan(_));
        if !is_plan && self.card.as_ref().is_some_and(is_same) {
            return;
        }
        let mut blocks = Vec::new();
        if let PendingAsk::Local(local) = ask
            && self.session.as_ref() != Some(&local.session_id)
        {
            let session = local.session_id.as_str();
            let notice = self.language().with(Text::MachineAsksFor, &[session]);
            blocks.push(Block::Notice(notice));
        }
        blocks.extend(self.state.card(ask));
        self.card = Some(AskCard {
            ask: ask.clone(),
            before: before.clone(),
            session: self.session.clone(),
            width,
            rows: CardRows::of(&blocks, width, self.language()),
            blocks,
        });
    }

    /// What a person who leaves must know about what waits: for how long, and that it can still be
    /// decided.
    pub(super) fn left_waiting(&self) -> Option<String> {
        let ask = self.state.asks.first()?;
        let language = self.language();
        match ask {
            // Nobody else can answer it, so it is refused.
            PendingAsk::Local(_) => Some(language.text(Text::LeftLocal).to_owned()),
            PendingAsk::Approval(_) | PendingAsk::Plan(_) | PendingAsk::Question(_) => {
                let left = ask.expires_at().map(|at| time_left(at, now()));
                Some(match left {
                    Some(left) => language.with(Text::LeftWaiting, &[&left]),
                    None => language.text(Text::LeftOpen).to_owned(),
                })
            }
        }
    }

    /// Reads the file again that is shown. Another task or person may change it meanwhile.
    pub(super) async fn reread(&mut self) {
        if let Some(ask) = self.prompt.subject(&self.state).cloned() {
            self.reread_of(&ask).await;
        }
    }

    /// Whatever is shown for the first time is shown as it is now.
    pub(super) async fn read_first(&mut self) {
        let ask = self.prompt.subject(&self.state);
        if ask != self.read_for.as_ref() {
            self.read_for = ask.cloned();
            self.reread().await;
        }
    }

    /// Everything that waits. What is decided elsewhere is printed without having been shown.
    pub(super) async fn reread_all(&mut self) {
        for ask in self.state.asks.clone() {
            self.reread_of(&ask).await;
        }
    }

    pub(super) async fn reread_of(&mut self, ask: &PendingAsk) {
        let before = self.before_of(ask).await;
        if self.state.reread(ask.call_id(), before) {
            self.is_dirty = true;
        }
    }

    fn word(&mut self, ask: PendingAsk, choice: MenuChoice) {
        let remember = (choice == MenuChoice::Always).then_some(true);
        let (word, feedback) = match choice {
            MenuChoice::Reject(reason) => (DecisionChoice::Reject, reason),
            MenuChoice::Approve | MenuChoice::Always | MenuChoice::Edit | MenuChoice::ViewAll => {
                (DecisionChoice::Approve, None)
            }
        };
        let decision = match &ask {
            PendingAsk::Approval(request) => {
                if let Some(grant) = Grant::of(&request.approval).filter(|_| remember.is_some()) {
                    self.state.grant(ask.call_id(), grant);
                }
                let digest = Some(request.approval.digest.as_str().to_owned());
                let decision = Some(word.into());
                let body = HitlDecision {
                    decision,
                    feedback,
                    remember,
                    digest,
                    modified_args: None,
                    base: self.state.shown_base(&request.approval),
                };
                DecisionRequest::Approval(ask.call_id().clone(), body)
            }
            PendingAsk::Plan(request) => {
                let digest = Some(request.approval.digest.as_str().to_owned());
                let body = PlanDecision {
                    decision: Some(word.into()),
                    feedback,
                    digest,
                    tasks: None,
                };
                DecisionRequest::Plan(request.plan_id.clone(), body)
            }
            PendingAsk::Local(local) => {
                let card = self.state.card(&ask);
                self.state.closed_here(&local.call_id);
                if let Some(card) = card.filter(|_| self.surface.is_terminal()) {
                    self.print(&card);
                }
                let is_approved = word == DecisionChoice::Approve;
                let reply = self.replies.remove(&local.call_id);
                // Nobody waits any more when the call was closed meanwhile.
                if reply.is_none_or(|reply| reply.send(is_approved).is_err()) {
                    return self.say(CommandText::CallClosed, &[]);
                }
                self.print(&Block::Decided {
                    decision: match word {
                        DecisionChoice::Approve => ApprovalOutcome::Approved,
                        DecisionChoice::Edit | DecisionChoice::Reject => ApprovalOutcome::Rejected,
                    },
                    granted: None,
                    by: String::new(),
                    reason: None,
                });
                return;
            }
            PendingAsk::Question(_) => return,
        };
        self.submit(ask, decision);
    }

    /// What was decided no longer waits. If the server refuses the decision, it waits again.
    pub(super) fn submit(&mut self, ask: PendingAsk, decision: DecisionRequest) {
        let Some(session) = self.session.clone() else {
            return;
        };
        let call = ask.call_id().clone();
        self.state.answered(&call);
        self.requests.spawn(requests::decide(
            self.client.clone(),
            session,
            decision,
            call,
        ));
    }

    async fn view(&mut self, ask: &PendingAsk) {
        let (width, language) = (self.surface.width(), self.state.language);
        let lines = match ask {
            PendingAsk::Approval(request) => {
                let before = self.before_of(ask).await;
                Some(render::everything(
                    &self.state.shown(request, &before).kind,
                    width,
                    language,
                ))
            }
            PendingAsk::Plan(request) => self
                .state
                .view
                .plan(&request.plan_id)
                .map(|plan| render::whole_plan(plan, width, language)),
            PendingAsk::Local(local) => {
                let before = self.before_of(ask).await;
                let kind = local.shown(&before, language).kind;
                Some(render::everything(&kind, width, language))
            }
            PendingAsk::Question(_) => None,
        };
        self.print_lines(lines.unwrap_or_default());
    }

    pub(super) async fn before_of(&self, ask: &PendingAsk) -> ShownFile {
        match ask {
            PendingAsk::Approval(request) => {
                let approval = &request.approval;
                self.file_before(&approval.tool_name, &approval.arguments)
                    .await
            }
            PendingAsk::Local(local) => {
                self.file_before(&local.tool.name(), &local.arguments).await
            }
            PendingAsk::Plan(_) | PendingAsk::Question(_) => Before::Missing.into(),
        }
    }

    /// The file that a call would write, as it is now.
    pub(super) async fn file_before(
        &self,
        tool: &str,
        arguments: &Map<String, Value>,
    ) -> ShownFile {
        if tool != Tool::WriteFile.as_str() {
            return Before::Missing.into();
        }
        let path = arguments.get("path");
        let path = path.and_then(Value::as_str).unwrap_or_default();
        files::before(&self.preview, path, self.language()).await
    }
}
