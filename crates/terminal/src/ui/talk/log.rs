//! Input from the server and from the tool runner. The log of a session is read once from its start
//! and then followed.

use std::collections::{HashMap, VecDeque};

use codelab_client::{
    Backoff, ClientError, EventData, FollowUntil, PlanView, ResumingEvents, StreamEvent,
};
use codelab_protocol::{
    ApprovalOutcome, Role, SessionEvent, SessionEventBody, SessionId, Usage, UsageTotal,
};
use codelab_toolrunner::{RunnerQuestion, ToolRunnerEvent};
use tokio::time::Instant;

use crate::texts::CommandText;
use crate::{McpText, Text};

use super::{MAX_SEEN, Talk};
use crate::ui::UiError;
use crate::ui::block::Block;
use crate::ui::diff::Before;
use crate::ui::files::ShownFile;
use crate::ui::plan::short;
use crate::ui::prompt::READING_TIME;
use crate::ui::render::ConnectionState;
use crate::ui::state::{CompactRequest, LocalAsk, ViewState};
use crate::ui::{approve, requests};

/// Of a session that is resumed.
const MAX_REPLAYED_BLOCKS: usize = 30;
/// A reader that comes back for as long as the chat lives.
const BACKOFF: Backoff = Backoff {
    first_delay_ms: 50,
    max_delay_ms: 2_000,
    attempts: u32::MAX,
    max_retry_after_ms: 10_000,
};

impl Talk {
    pub(super) fn follow(&mut self, session: SessionId, after: Option<u64>) {
        let events = ResumingEvents::new(
            self.client.clone(),
            session.clone(),
            after,
            FollowUntil::Dropped,
        );
        self.events = Some(events.with_backoff(BACKOFF));
        if let Err(error) = self.place.remember(&session) {
            tracing::warn!(%session, %error, "remembering the folder of a session failed");
        }
        self.session = Some(session);
    }

    /// Reads what happened in the session, shows the end of it, and goes on from there.
    pub(super) async fn resume(&mut self, session: SessionId) -> Result<(), UiError> {
        let detail = self.client.project_session(&session).await?;
        let mut log = self
            .client
            .project_session_events(&session, None, false)
            .await?;
        let mut state = ViewState::new(self.language());
        let mut shown: VecDeque<Block> = VecDeque::new();
        let (mut last, mut answered) = (None, None);
        while let Some(event) = log.next().await {
            let event = event?;
            last = event.id.or(last);
            let blocks = match event.data {
                EventData::Chunk(event) => {
                    answered = usage_of(&event.body, &state).or(answered);
                    state.apply(&event, &Before::Missing.into())
                }
                EventData::Done(done) => state.done(done.status),
                EventData::Other(_) => {
                    event.id.iter().for_each(|seq| state.skip(*seq));
                    Vec::new()
                }
            };
            shown.extend(blocks.into_iter().filter(is_history));
            let extra = shown.len().saturating_sub(MAX_REPLAYED_BLOCKS);
            shown.drain(..extra);
        }
        self.forget();
        self.state.become_session(state);
        self.state.approve = detail.session.approve.unwrap_or_default();
        if let Some(mode) = self
            .wanted_approve
            .filter(|mode| *mode != self.state.approve)
        {
            approve::set(&self.client, &session, mode).await?;
            self.state.approve = mode;
        }
        self.spent = Some(usage(&detail.usage));
        let agent = detail.session.agent.as_ref();
        self.target = agent.map(|agent| short(agent).to_owned());
        if let Some(answered) = &answered {
            self.answered_with(answered);
        }
        self.model = detail.session.model.or(self.model.take());
        let title = detail
            .session
            .title
            .unwrap_or_else(|| self.language().text(Text::Untitled).to_owned());
        let count = detail.session.message_count.to_string();
        self.say(Text::MessageCount, &[&title, &count]);
        shown.iter().for_each(|block| self.print(block));
        let project = detail.session.project_id;
        if project != self.project {
            let flags = self.flags.clone();
            self.say(CommandText::OtherProject, &[&project.to_string(), &flags]);
        }
        self.follow(session, last);
        self.reread_all().await;
        Ok(())
    }

    pub(super) async fn event(
        &mut self,
        event: Option<Result<StreamEvent<SessionEvent>, ClientError>>,
    ) {
        let mut decided = None;
        let blocks = match event {
            Some(Ok(StreamEvent {
                data: EventData::Chunk(event),
                ..
            })) => {
                if let SessionEventBody::MessageCreated(created) = &event.body
                    && created.message.role == Role::User
                {
                    self.sending = self.sending.saturating_sub(1);
                    // Another turn begins: what Ctrl-C would have done now is over.
                    self.prompt.is_leaving = false;
                }
                if let Some(answered) = usage_of(&event.body, &self.state) {
                    self.answered_with(&answered);
                }
                self.note_compaction(&event.body);
                if let SessionEventBody::ApproveChanged(changed) = &event.body {
                    self.state.approve = changed.approve;
                }
                let before = self.before(&event.body).await;
                let blocks = self.state.apply(&event, &before);
                let is_gone = self.is_unseen_and_gone(&event.body);
                decided = Some(event.body);
                match is_gone {
                    true => Vec::new(),
                    false => blocks,
                }
            }
            Some(Ok(StreamEvent {
                data: EventData::Done(done),
                ..
            })) => {
                let was_working = self.state.is_working();
                let blocks = self.state.done(done.status);
                if was_working && !self.state.is_working() {
                    self.count();
                }
                blocks
            }
            Some(Ok(StreamEvent {
                data: EventData::Other(_),
                id,
                ..
            })) => {
                id.iter().for_each(|seq| self.state.skip(*seq));
                Vec::new()
            }
            Some(Err(error)) => {
                self.show_error(&error);
                self.events = None;
                Vec::new()
            }
            None => {
                self.events = None;
                Vec::new()
            }
        };
        blocks.iter().for_each(|block| self.print(block));
        if let Some(body) = decided {
            self.settle_draft(&body);
        }
        self.heard_at = Instant::now();
        self.is_dirty = true;
    }

    /// What was drawn for long enough has been seen. Lines that are printed stay.
    pub(super) fn note_seen(&mut self) {
        let first = self.state.asks.first().map(|ask| ask.call_id().clone());
        let drawn = self.first_drawn.take();
        let same = drawn.filter(|(call, _)| Some(call) == first.as_ref());
        self.first_drawn = same.or(first.map(|call| (call, Instant::now())));
        if let Some((call, since)) = &self.first_drawn
            && (since.elapsed() >= READING_TIME || !self.surface.is_terminal())
            && self.seen.len() < MAX_SEEN
        {
            self.seen.insert(call.clone());
        }
    }

    /// What nobody saw and nobody needs to decide any more is not worth a line.
    fn is_unseen_and_gone(&self, body: &SessionEventBody) -> bool {
        match body {
            SessionEventBody::ApprovalResolved(resolved) => {
                resolved.decision == ApprovalOutcome::Cancelled
                    && !self.seen.contains(&resolved.call_id)
            }
            _ => false,
        }
    }

    /// What was said before a summary is no part of the context any more; how much is left, the next
    /// answer tells.
    fn note_compaction(&mut self, body: &SessionEventBody) {
        let is_begun = match body {
            SessionEventBody::HistoryCompacted(_) => {
                self.context_tokens = None;
                // The summary was paid for as well.
                self.count();
                false
            }
            SessionEventBody::HistoryCompacting(_) => true,
            SessionEventBody::CompactionFailed(_) => false,
            _ => return,
        };
        let request = std::mem::take(&mut self.state.compact_request);
        if is_begun && request == CompactRequest::Withdrawn {
            self.cancel();
        }
    }

    /// What the status line says about the last model call.
    fn answered_with(&mut self, usage: &Usage) {
        self.answered_model = usage.model.clone().or(self.answered_model.take());
        self.model = usage.model.clone().or(self.model.take());
        let tokens = usage.prompt_tokens.saturating_add(usage.completion_tokens);
        self.context_tokens = Some(tokens);
        if self.windows.is_none() {
            // Asked once: a model that is added later is shown without its window.
            self.windows = Some(HashMap::new());
            self.requests.spawn(requests::windows(self.client.clone()));
        }
    }

    /// The window of the model that answered last.
    pub(super) fn window(&self) -> Option<u64> {
        self.windows.as_ref()?.get(self.model.as_ref()?).copied()
    }

    fn count(&mut self) {
        if let Some(session) = &self.session {
            self.requests
                .spawn(requests::usage(self.client.clone(), session.clone()));
        }
    }

    async fn before(&self, body: &SessionEventBody) -> ShownFile {
        match body {
            SessionEventBody::ApprovalRequest(request) => {
                let approval = &request.approval;
                self.file_before(&approval.tool_name, &approval.arguments)
                    .await
            }
            _ => Before::Missing.into(),
        }
    }

    pub(super) fn tool_runner(&mut self, event: ToolRunnerEvent) {
        self.is_dirty = true;
        match event {
            ToolRunnerEvent::Disconnected { .. } => self.connection = ConnectionState::Reconnecting,
            ToolRunnerEvent::Reconnected => self.connection = ConnectionState::Live,
            ToolRunnerEvent::Closed { call } => self.state.closed_here(&call.call_id),
            // The question itself is shown.
            ToolRunnerEvent::AskedAgain { .. } => {}
            ToolRunnerEvent::Unknown { call } => {
                self.say(Text::CallUnknown, &[&call.label()]);
            }
            ToolRunnerEvent::Refused { call, reason } => {
                self.say(Text::CallNotRun, &[&call.label(), &reason])
            }
            ToolRunnerEvent::Ended { reason } => {
                self.print(&Block::Error {
                    message: self.language().with(Text::RunnerEnded, &[&reason]),
                    code: None,
                    status: None,
                });
            }
            ToolRunnerEvent::McpServer { name, error, .. } => {
                if let Some(error) = error {
                    self.say(McpText::Failed, &[name.as_str(), &error]);
                }
            }
            ToolRunnerEvent::Brought { waiting, counted } => {
                self.brought_changed(&waiting, &counted);
            }
            ToolRunnerEvent::Started { .. }
            | ToolRunnerEvent::Finished { .. }
            | ToolRunnerEvent::Progress { .. } => {}
        }
    }

    pub(super) fn question(&mut self, question: RunnerQuestion) {
        let RunnerQuestion {
            call,
            arguments,
            reason,
            parts,
            reply,
        } = question;
        let (session_id, call_id) = (call.session_id, call.call_id);
        let ask = LocalAsk {
            session_id,
            call_id: call_id.clone(),
            tool: call.tool,
            arguments,
            reason,
            parts,
        };
        // A question that is not shown is refused, because its reply is dropped.
        if self.state.ask_locally(ask) {
            self.replies.insert(call_id, reply);
            self.is_dirty = true;
        }
    }
}

/// What the model call of an answer used. The answer of a whole plan is no call: it has the sum of
/// all of them.
fn usage_of(body: &SessionEventBody, state: &ViewState) -> Option<Usage> {
    let SessionEventBody::MessageCreated(created) = body else {
        return None;
    };
    let is_planned = state.plan().is_some_and(PlanView::is_open);
    let is_sum = is_planned && created.origin.task_id.is_none();
    created.message.usage.clone().filter(|_| !is_sum)
}

/// Whether a block is printed for the past of a session. Decisions that were made are not.
fn is_history(block: &Block) -> bool {
    !matches!(
        block,
        Block::Approval(_)
            | Block::PlanProposed { .. }
            | Block::Decided { .. }
            | Block::Queued { .. }
            | Block::Dequeued(_)
            | Block::Spent(_)
    )
}

pub(super) fn usage(total: &UsageTotal) -> Usage {
    Usage {
        prompt_tokens: total.prompt_tokens,
        completion_tokens: total.completion_tokens,
        total_tokens: total.total_tokens,
        cost_usd: Some(total.cost_usd).filter(|_| total.cost_known),
        ..Usage::default()
    }
}
