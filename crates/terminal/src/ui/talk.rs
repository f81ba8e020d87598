//! The loop of a chat: events, keys, the hands and requests come in, one after the other; the
//! screen is drawn.

mod log;

use std::collections::HashMap;
use std::time::Duration;

use codelab_client::{Client, ClientError, ResumingEvents, StreamEvent};
use codelab_protocol::{CallId, ProjectId, SessionEvent, SessionId, Timestamp, Usage};
use codelab_workspace::Workspace;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tokio::time::{Instant, interval, sleep_until};

use super::block::Block;
use super::command::{HELP, SlashCommand};
use super::prompt::{Action, Key, Prompt};
use super::render::{self, ConnectionState, Live};
use super::requests::{self, RequestOutcome};
use super::state::ViewState;
use super::surface::{PersonEvent, Surface};
use super::text::TextLine;
use super::{UiError, UiOptions, history, keys};

/// Tokens come faster than anybody reads.
const MIN_DRAW_PAUSE: Duration = Duration::from_millis(33);
const TICK: Duration = Duration::from_millis(120);
/// How long the last requests may take when the person leaves.
const PARTING: Duration = Duration::from_secs(3);

pub(super) struct Talk {
    pub(super) client: Client,
    pub(super) project: ProjectId,
    pub(super) preview: Workspace,
    pub(super) session: Option<SessionId>,
    events: Option<ResumingEvents<SessionEvent>>,
    pub(super) state: ViewState,
    pub(super) prompt: Prompt,
    pub(super) surface: Surface,
    pub(super) requests: JoinSet<RequestOutcome>,
    /// Who waits for an answer of this machine's person.
    pub(super) replies: HashMap<CallId, oneshot::Sender<bool>>,
    /// Texts that a person changed and the server did not take.
    pub(super) drafts: HashMap<CallId, String>,
    target: Option<String>,
    connection: ConnectionState,
    /// Messages on their way, until they are seen among the events.
    sending: usize,
    spent: Option<Usage>,
    frame: usize,
    finished: Vec<TextLine>,
    /// Ctrl-C where it is no key: without a terminal of our own, or while another program has it.
    pub(super) interrupts: Signal,
    drawn_at: Instant,
    is_dirty: bool,
    is_over: Leaving,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Leaving {
    No,
    /// No more input comes; what was asked for is still awaited.
    WhenIdle,
    Now,
}

impl Talk {
    pub(super) async fn run(options: UiOptions) -> Result<(), UiError> {
        let UiOptions {
            client,
            mut tool_runner,
            mut questions,
            preview,
            session,
            data_dir,
            welcome,
        } = options;
        let mut talk = Self {
            client,
            project: tool_runner.project(),
            preview,
            session: None,
            events: None,
            state: ViewState::default(),
            prompt: Prompt::new(history::load(&data_dir)),
            surface: Surface::open()?,
            requests: JoinSet::new(),
            replies: HashMap::new(),
            drafts: HashMap::new(),
            target: None,
            connection: ConnectionState::default(),
            sending: 0,
            spent: None,
            frame: 0,
            finished: Vec::new(),
            interrupts: signal(SignalKind::interrupt())?,
            drawn_at: Instant::now(),
            is_dirty: true,
            is_over: Leaving::No,
        };
        talk.finished.extend(
            welcome
                .iter()
                .map(|line| TextLine::styled(line, super::text::DIM)),
        );
        if let Some(session) = session {
            tool_runner.serve(&session);
            let mut interrupt = signal(SignalKind::interrupt())?;
            tokio::select! {
                resumed = talk.resume(session) => resumed?,
                _ = interrupt.recv() => talk.is_over = Leaving::Now,
            }
        }
        let (mut terminate, mut hangup) = (
            signal(SignalKind::terminate())?,
            signal(SignalKind::hangup())?,
        );
        let mut tick = interval(TICK);
        while talk.is_over != Leaving::Now {
            talk.draw_if_due()?;
            let draw_at = talk.drawn_at + MIN_DRAW_PAUSE;
            tokio::select! {
                heard = talk.surface.hear(), if talk.is_listening() => talk.hear(heard).await?,
                event = next_event(&mut talk.events) => talk.event(event).await,
                event = tool_runner.next() => talk.tool_runner(event),
                Some(question) = questions.recv() => talk.question(question),
                Some(done) = talk.requests.join_next() => {
                    if let Ok(outcome) = done {
                        talk.outcome(outcome).await?;
                    }
                }
                () = sleep_until(draw_at), if talk.is_dirty => {}
                _ = tick.tick() => talk.tick(),
                _ = talk.interrupts.recv() => talk.interrupt().await?,
                _ = terminate.recv() => talk.is_over = Leaving::Now,
                _ = hangup.recv() => talk.is_over = Leaving::Now,
            }
            if let Some(session) = &talk.session {
                tool_runner.serve(session);
            }
            talk.prompt.settle(&talk.state);
            talk.leave_when_idle();
        }
        if let Err(error) = history::save(&data_dir, talk.prompt.editor.history()) {
            tracing::warn!(%error, "what was written is not remembered");
        }
        talk.close().await?;
        tool_runner.stop().await;
        Ok(())
    }

    async fn close(mut self) -> Result<(), UiError> {
        // What was just sent or decided still gets there.
        let sent = async { while self.requests.join_next().await.is_some() {} };
        let _ = tokio::time::timeout(PARTING, sent).await;
        if let Some(session) = &self.session {
            let line = format!("  go on with: codelab chat --session {session}");
            self.finished
                .extend([TextLine::new(), TextLine::styled(&line, super::text::DIM)]);
        }
        self.surface.close(&self.finished)?;
        Ok(())
    }

    pub(super) fn print(&mut self, block: &Block) {
        self.finished
            .extend(render::block(block, self.surface.width()));
        self.is_dirty = true;
    }

    pub(super) fn print_lines(&mut self, lines: Vec<TextLine>) {
        self.finished.extend(lines);
        self.is_dirty = true;
    }

    pub(super) fn notice(&mut self, text: impl Into<String>) {
        self.print(&Block::Notice(text.into()));
    }

    fn complain(&mut self, error: &ClientError) {
        self.print(&Block::Error {
            message: error.to_string(),
            code: error.error_code(),
        });
    }

    fn draw_if_due(&mut self) -> Result<(), UiError> {
        if self.is_dirty && self.drawn_at.elapsed() >= MIN_DRAW_PAUSE {
            self.draw()?;
        }
        Ok(())
    }

    fn draw(&mut self) -> Result<(), UiError> {
        let live = Live {
            state: &self.state,
            prompt: &self.prompt,
            target: self.target.as_deref(),
            connection: self.connection,
            is_sending: self.sending > 0,
            is_deciding: self
                .prompt
                .is_deciding(&self.state, Instant::now().into_std()),
            spent: self.spent,
            frame: self.frame,
            now: now(),
        };
        self.surface.show(&self.finished, &live)?;
        self.finished.clear();
        self.drawn_at = Instant::now();
        self.prompt.drawn(&self.state, self.drawn_at.into_std());
        self.is_dirty = false;
        Ok(())
    }

    fn tick(&mut self) {
        // A call that was closed does not wait for its answer any more.
        let closed: Vec<CallId> = self
            .replies
            .iter()
            .filter(|(_, reply)| reply.is_closed())
            .map(|(call, _)| call.clone())
            .collect();
        for call in closed {
            self.replies.remove(&call);
            self.state.answered(&call);
            self.is_dirty = true;
        }
        let is_moving = self.state.is_working() || self.sending > 0 || !self.state.asks.is_empty();
        if is_moving && self.surface.is_terminal() {
            self.frame = self.frame.wrapping_add(1);
            self.is_dirty = true;
        }
    }

    fn is_idle(&self) -> bool {
        !self.state.is_working() && self.sending == 0 && self.requests.is_empty()
    }

    /// Keys can come at any time. Lines of a script are read one by one, each when what it follows
    /// is done.
    fn is_listening(&self) -> bool {
        self.surface.is_terminal()
            || self.is_idle()
            || (!self.state.asks.is_empty() && self.requests.is_empty())
    }

    fn leave_when_idle(&mut self) {
        let is_idle = self.is_idle();
        if self.is_over == Leaving::WhenIdle && (is_idle || !self.state.asks.is_empty()) {
            if let Some(ask) = self.state.asks.first() {
                let notice = format!(
                    "{} waits for a decision, and no more input comes",
                    ask.call_id()
                );
                self.notice(notice);
            }
            self.is_over = Leaving::Now;
        }
    }

    async fn hear(&mut self, heard: PersonEvent) -> Result<(), UiError> {
        let action = match heard {
            PersonEvent::Input(keys::TerminalInput::Key(key)) => {
                self.prompt
                    .press(key, &self.state, Instant::now().into_std())
            }
            PersonEvent::Input(keys::TerminalInput::Resized) => Action::Redraw,
            PersonEvent::Line(line) => self.prompt.line(&line, &self.state),
            PersonEvent::End => {
                self.is_over = if self.surface.is_terminal() {
                    Leaving::Now
                } else {
                    Leaving::WhenIdle
                };
                Action::Nothing
            }
        };
        self.is_dirty = true;
        self.act(action).await?;
        // A key is answered at once.
        self.draw()
    }

    /// As the key. Where no status row tells what the next one does, a line does.
    async fn interrupt(&mut self) -> Result<(), UiError> {
        self.hear(PersonEvent::Input(keys::TerminalInput::Key(Key::Interrupt)))
            .await?;
        if self.prompt.is_leaving && self.is_over != Leaving::Now && !self.surface.is_terminal() {
            self.notice("Ctrl-C again leaves; the session is kept");
        }
        Ok(())
    }

    async fn act(&mut self, action: Action) -> Result<(), UiError> {
        match action {
            Action::Nothing | Action::Redraw => {}
            Action::Send(text) => self.send(text),
            Action::Answer { call, text } => self.answer(&call, text),
            Action::Decide { call, choice } => self.decide(&call, choice).await,
            Action::Command(command) => self.command(command).await,
            Action::CancelTurn => self.cancel(),
            Action::Leave => self.is_over = Leaving::Now,
        }
        Ok(())
    }

    fn send(&mut self, text: String) {
        self.sending += 1;
        match &self.session {
            Some(session) => {
                let sent = requests::send(
                    self.client.clone(),
                    session.clone(),
                    text,
                    self.target.clone(),
                );
                self.requests.spawn(sent);
            }
            None => {
                self.requests
                    .spawn(requests::create(self.client.clone(), self.project, text));
            }
        }
    }

    fn cancel(&mut self) {
        if let Some(session) = &self.session {
            self.requests
                .spawn(requests::cancel(self.client.clone(), session.clone()));
        }
    }

    async fn command(&mut self, command: SlashCommand) {
        let (client, project) = (self.client.clone(), self.project);
        let session = self.session.clone();
        match (command, session) {
            (SlashCommand::Help, _) => {
                let rows = HELP.map(|(name, what)| format!("{name:16}  {what}"));
                self.print(&Block::Listing(rows.to_vec()));
            }
            (SlashCommand::Agents, _) => _ = self.requests.spawn(requests::agents(client, project)),
            (SlashCommand::Switch(None), _) => self.aim(None),
            (SlashCommand::Switch(Some(agent)), _) => {
                _ = self
                    .requests
                    .spawn(requests::switch(client, project, agent))
            }
            (SlashCommand::Sessions(None), _) => {
                _ = self.requests.spawn(requests::sessions(client, project))
            }
            (SlashCommand::Sessions(Some(id)), _) => match SessionId::parse(&id) {
                Ok(id) => _ = self.requests.spawn(async { RequestOutcome::Open(id) }),
                Err(_) => self.notice(format!("{id} is not the id of a session")),
            },
            (SlashCommand::Plan(task), Some(session)) => {
                _ = self.requests.spawn(requests::plan(client, session, task))
            }
            (SlashCommand::Retry, Some(session)) => {
                match self.state.plan.as_ref().map(|plan| plan.id().clone()) {
                    Some(plan) => _ = self.requests.spawn(requests::retry(client, session, plan)),
                    None => self.notice("there is no plan to run again"),
                }
            }
            (SlashCommand::Cost, session) => {
                _ = self
                    .requests
                    .spawn(requests::cost(client, session, project))
            }
            (SlashCommand::Cancel, Some(_)) if self.state.is_working() => self.cancel(),
            (SlashCommand::Plan(_) | SlashCommand::Retry | SlashCommand::Cancel, _) => {
                self.notice("nothing is going on")
            }
            (SlashCommand::New, _) => {
                self.forget();
                self.notice("a new session begins with your next message");
                for block in self.open_asks().await {
                    self.print(&block);
                }
            }
            (SlashCommand::Quit, _) => self.is_over = Leaving::Now,
            (SlashCommand::Unknown(name), _) => {
                self.notice(format!("there is no /{name}; /help lists what there is"))
            }
        }
    }

    fn aim(&mut self, target: Option<String>) {
        self.notice(match &target {
            Some(agent) => format!("messages go to {agent}; /switch plans them again"),
            None => "messages are planned and go to whoever fits".to_owned(),
        });
        self.target = target;
    }

    fn forget(&mut self) {
        self.session = None;
        self.events = None;
        self.spent = None;
        self.state.become_session(ViewState::default());
    }

    async fn outcome(&mut self, outcome: RequestOutcome) -> Result<(), UiError> {
        self.is_dirty = true;
        match outcome {
            RequestOutcome::Created(session, text) => {
                self.sending = self.sending.saturating_sub(1);
                self.follow(session, None);
                self.send(text);
            }
            // It counts as sent once it is seen among the events.
            RequestOutcome::Sent => {}
            RequestOutcome::NotSent { text, error } => {
                self.sending = self.sending.saturating_sub(1);
                self.complain(&error);
                if self.prompt.editor.is_empty() {
                    self.prompt.editor.set(text);
                }
            }
            RequestOutcome::Accepted => {}
            RequestOutcome::NotAccepted { ask, error } => {
                self.complain(&error);
                self.state.asks.insert(0, *ask);
            }
            RequestOutcome::Shown(blocks) => blocks.iter().for_each(|block| self.print(block)),
            RequestOutcome::Target(target) => self.aim(target),
            RequestOutcome::Open(session) => match self.resume(session).await {
                Ok(()) => {}
                Err(UiError::Client(error)) => self.complain(&error),
                Err(error) => return Err(error),
            },
            RequestOutcome::Usage(total) => self.spent = Some(log::usage(&total)),
            RequestOutcome::Failed(error) => self.complain(&error),
        }
        Ok(())
    }
}

async fn next_event(
    events: &mut Option<ResumingEvents<SessionEvent>>,
) -> Option<Result<StreamEvent<SessionEvent>, ClientError>> {
    match events {
        Some(events) => events.next().await,
        None => std::future::pending().await,
    }
}

fn now() -> Timestamp {
    std::time::SystemTime::now().into()
}
