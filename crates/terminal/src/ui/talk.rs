//! The main loop of `codelab chat`: handles events, keys, the tool runner and finished requests one
//! by one, and draws the screen.

mod choose;
mod commands;
mod leaving;
mod log;
mod outcome;
mod own;
mod trust;

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use codelab_client::{Client, ClientError, ResumingEvents, StreamEvent};
use codelab_protocol::{
    ApproveMode, CallId, ProjectId, RememberedId, SessionEvent, SessionId, Timestamp, Usage,
};
use codelab_toolrunner::BroughtHandle;
use codelab_workspace::Workspace;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until};
use tokio_util::sync::CancellationToken;

use crate::{Language, Text, Translated};

use super::block::Block;
use super::decide::AskCard;
use super::edit::EditedDrafts;
use super::paste::PastedImages;
use super::prompt::{Action, Key, Prompt};
use super::render::{self, ConnectionState, Live};
use super::requests::{self, OutgoingMessage, QueueFate, RequestOutcome};
use super::rewind::SaidMessage;
use super::state::{CompactRequest, PendingAsk, ViewState};
use super::surface::{PersonEvent, Surface};
use super::text::TextLine;
use super::{ChatEnd, StartWith, UiError, UiOptions, WorkPlace, history, keys};

/// Tokens arrive faster than anybody reads.
const MIN_DRAW_PAUSE: Duration = Duration::from_millis(33);
const TICK: Duration = Duration::from_millis(120);
/// How often the file is read that an approval is about, while that is shown.
const REREAD: Duration = Duration::from_secs(1);
/// Calls that are known to have been on the screen.
const MAX_SEEN: usize = 4096;
/// How long the last requests may take when the person leaves.
const LEAVE_TIMEOUT: Duration = Duration::from_secs(3);

pub(super) struct Talk {
    pub(super) client: Client,
    pub(super) project: ProjectId,
    pub(super) preview: Workspace,
    /// Where agents' commands run as well.
    sandboxed: Workspace,
    pub(super) session: Option<SessionId>,
    events: Option<ResumingEvents<SessionEvent>>,
    pub(super) state: ViewState,
    pub(super) prompt: Prompt,
    pub(super) surface: Surface,
    pub(super) requests: JoinSet<RequestOutcome>,
    /// Who waits for an answer of this machine's person.
    pub(super) replies: HashMap<CallId, oneshot::Sender<bool>>,
    pub(super) card: Option<AskCard>,
    /// What was shown when the file that it is about was read.
    pub(super) read_for: Option<PendingAsk>,
    /// What waited and was on the screen for long enough to be read, in this session.
    seen: HashSet<CallId>,
    /// What waits first, and since when that is drawn.
    first_drawn: Option<(CallId, Instant)>,
    /// What was written in an editor and is not used yet.
    pub(super) drafts: EditedDrafts,
    target: Option<String>,
    /// What passes in sessions that are begun here, where the person said so.
    wanted_approve: Option<ApproveMode>,
    /// The session's own model, else the one that answered last; that one itself, and how many tokens
    /// it had before it.
    model: Option<String>,
    answered_model: Option<String>,
    context_tokens: Option<u64>,
    /// The windows of the models that the providers list; none until they were asked.
    windows: Option<HashMap<String, u64>>,
    /// What was listed last of what is allowed in this session.
    allowed: Vec<RememberedId>,
    /// The messages that were listed last, to go back to.
    rewindable: Vec<SaidMessage>,
    /// Images that were pasted as paths.
    pasted: PastedImages,
    /// What the folder brings, and what the person is asked about it.
    pub(super) brought: BroughtHandle,
    trusting: trust::Trusting,
    pub(super) place: WorkPlace,
    flags: String,
    folder_flag: String,
    /// The sessions that were listed last.
    listed: Vec<SessionId>,
    /// The person chooses from a list.
    picker: Option<choose::OpenPicker>,
    /// Stops the command of the person's that runs.
    running: Option<CancellationToken>,
    connection: ConnectionState,
    /// Messages that were sent and have no event yet.
    sending: usize,
    spent: Option<Usage>,
    frame: usize,
    finished: Vec<TextLine>,
    /// The server ends with this program.
    is_own_server: bool,
    /// Ctrl-C as a signal: without a terminal, or while another program uses it.
    pub(super) interrupts: Signal,
    drawn_at: Instant,
    /// When something came from the server, or was sent to it.
    heard_at: Instant,
    pub(super) is_dirty: bool,
    is_over: Leaving,
    end: ChatEnd,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Leaving {
    No,
    /// The input has ended. The turn that runs is still awaited.
    WhenIdle,
    /// The turn is being stopped. It is awaited until then.
    WhenStopped(Instant),
    Now,
}

impl Talk {
    pub(super) async fn run(options: UiOptions) -> Result<ChatEnd, UiError> {
        let UiOptions {
            client,
            mut tool_runner,
            mut questions,
            preview,
            start,
            place,
            flags,
            folder_flag,
            approve,
            is_own_server,
            welcome,
            language,
        } = options;
        let mut talk = Self {
            client,
            project: tool_runner.project(),
            preview,
            sandboxed: tool_runner.sandboxed_workspace(),
            session: None,
            events: None,
            state: ViewState::new(language),
            prompt: Prompt::new(history::load(&place.data_dir)),
            surface: Surface::open()?,
            requests: JoinSet::new(),
            replies: HashMap::new(),
            card: None,
            read_for: None,
            seen: HashSet::new(),
            first_drawn: None,
            drafts: EditedDrafts::default(),
            target: None,
            wanted_approve: approve,
            model: None,
            answered_model: None,
            context_tokens: None,
            windows: None,
            allowed: Vec::new(),
            rewindable: Vec::new(),
            pasted: PastedImages::default(),
            brought: tool_runner.brought_handle(),
            trusting: trust::Trusting::default(),
            place,
            flags,
            folder_flag,
            listed: Vec::new(),
            picker: None,
            running: None,
            connection: ConnectionState::default(),
            sending: 0,
            spent: None,
            frame: 0,
            finished: Vec::new(),
            is_own_server,
            interrupts: signal(SignalKind::interrupt())?,
            drawn_at: Instant::now(),
            heard_at: Instant::now(),
            is_dirty: true,
            is_over: Leaving::No,
            end: ChatEnd::Left,
        };
        talk.state.approve = approve.unwrap_or_default();
        let width = talk.surface.width();
        let welcome = welcome
            .iter()
            .map(|line| TextLine::styled(line, super::text::DIM));
        talk.finished
            .extend(welcome.flat_map(|line| super::text::fitting(&line, width)));
        match start {
            StartWith::New => {}
            StartWith::Choice => talk.begin_choice(),
            StartWith::Session(session) => {
                tool_runner.serve(&session);
                let mut interrupt = signal(SignalKind::interrupt())?;
                tokio::select! {
                    resumed = talk.resume(session) => resumed?,
                    _ = interrupt.recv() => talk.is_over = Leaving::Now,
                }
            }
        }
        let (mut terminate, mut hangup) = (
            signal(SignalKind::terminate())?,
            signal(SignalKind::hangup())?,
        );
        let mut tick = interval(TICK);
        let mut look = interval(REREAD);
        look.set_missed_tick_behavior(MissedTickBehavior::Delay);
        while talk.is_over != Leaving::Now {
            talk.draw_if_due().await?;
            let draw_at = talk.drawn_at + MIN_DRAW_PAUSE;
            tokio::select! {
                input = talk.surface.hear(), if talk.is_listening() => talk.hear(input).await?,
                event = next_event(&mut talk.events) => talk.event(event).await,
                event = tool_runner.next() => talk.tool_runner(event),
                Some(question) = questions.recv() => talk.question(question),
                Some(done) = talk.requests.join_next() => {
                    if let Ok(outcome) = done {
                        talk.outcome(outcome).await?;
                    }
                }
                () = sleep_until(draw_at), if talk.is_dirty => {}
                _ = tick.tick() => {
                    talk.tick();
                    let due = talk.prompt.due(&talk.state, Instant::now().into_std());
                    talk.act(due).await?;
                }
                _ = look.tick(), if !talk.state.asks.is_empty() => talk.reread().await,
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
        if let Err(error) = history::save(&talk.place.data_dir, talk.prompt.editor.history()) {
            tracing::warn!(%error, "saving the input history failed");
        }
        let end = talk.end;
        talk.close().await?;
        tool_runner.stop().await;
        Ok(end)
    }

    async fn close(mut self) -> Result<(), UiError> {
        self.stop_command();
        // Requests that were just made are still sent.
        let sent = async { while self.requests.join_next().await.is_some() {} };
        let _ = tokio::time::timeout(LEAVE_TIMEOUT, sent).await;
        // What still waits stays readable.
        if self.surface.is_terminal() {
            self.update_card();
            let card = self.card.take().map(|card| card.blocks).unwrap_or_default();
            card.iter().for_each(|block| self.print(block));
        }
        self.keep_drafts();
        if let Some(notice) = self.left_waiting() {
            self.notice(notice);
        }
        if let Some(session) = &self.session {
            let flags = format!("{}{}", self.flags, self.folder_flag);
            let hint = self
                .state
                .language
                .with(Text::ContinueWith, &[session.as_str(), &flags]);
            let line = format!("  {hint}");
            self.finished
                .extend([TextLine::new(), TextLine::styled(&line, super::text::DIM)]);
        }
        self.surface.close(&self.finished)?;
        Ok(())
    }

    pub(super) fn print(&mut self, block: &Block) {
        self.finished
            .extend(render::block(block, self.surface.width(), self.language()));
        self.is_dirty = true;
    }

    pub(super) fn print_lines(&mut self, lines: Vec<TextLine>) {
        self.finished.extend(lines);
        self.is_dirty = true;
    }

    pub(super) fn notice(&mut self, text: impl Into<String>) {
        self.print(&Block::Notice(text.into()));
    }

    /// A notice in the person's language.
    pub(super) fn say(&mut self, text: impl Translated, values: &[&str]) {
        self.notice(self.language().with(text, values));
    }

    pub(super) fn language(&self) -> Language {
        self.state.language
    }

    fn show_error(&mut self, error: &ClientError) {
        self.print(&Block::Error {
            message: error.to_string(),
            code: error.error_code(),
            status: Language::status(error),
        });
    }

    async fn draw_if_due(&mut self) -> Result<(), UiError> {
        if self.is_dirty && self.drawn_at.elapsed() >= MIN_DRAW_PAUSE {
            self.draw().await?;
        }
        Ok(())
    }

    async fn draw(&mut self) -> Result<(), UiError> {
        self.read_first().await;
        self.update_card();
        let live = Live {
            picker: self.picker.as_ref().map(|open| &open.picker),
            state: &self.state,
            prompt: &self.prompt,
            card: self.card.as_ref().map(|card| &card.rows),
            target: self.target.as_deref(),
            connection: self.connection,
            is_sending: self.sending > 0,
            is_running: self.running.is_some(),
            is_deciding: self
                .prompt
                .is_deciding(&self.state, Instant::now().into_std()),
            model: self.model.as_deref(),
            context_tokens: self.context_tokens,
            window: self.window(),
            images: self.pasted.named_in(self.prompt.editor.text()),
            spent: self.spent.clone(),
            frame: self.frame,
            quiet: self.heard_at.elapsed(),
            now: now(),
        };
        let shown = self.surface.show(&self.finished, &live)?;
        if let Some(ask) = self.state.asks.first().filter(|_| shown.is_told) {
            let call = ask.call_id().clone();
            self.state.told(&call);
        }
        if self.picker.is_none() {
            self.note_seen();
        }
        self.finished.clear();
        self.drawn_at = Instant::now();
        match shown.is_readable {
            true => self.prompt.drawn(&self.state, self.drawn_at.into_std()),
            false => self.prompt.not_drawn(),
        }
        self.is_dirty = false;
        Ok(())
    }

    fn tick(&mut self) {
        // The answer for a closed call is no longer needed.
        let closed: Vec<CallId> = self
            .replies
            .iter()
            .filter(|(_, reply)| reply.is_closed())
            .map(|(call, _)| call.clone())
            .collect();
        for call in closed {
            self.replies.remove(&call);
            self.state.closed_here(&call);
            self.is_dirty = true;
        }
        let is_moving = self.is_at_work()
            || self.sending > 0
            || self.running.is_some()
            || !self.state.asks.is_empty();
        if is_moving && self.surface.is_terminal() {
            self.frame = self.frame.wrapping_add(1);
            self.is_dirty = true;
        }
    }

    /// Whether there is something to stop.
    fn is_at_work(&self) -> bool {
        self.state.is_working() || self.state.is_compacting()
    }

    fn is_idle(&self) -> bool {
        !self.is_at_work() && self.sending == 0 && self.requests.is_empty()
    }

    /// Keys are read at any time. Lines of a script are read one by one, each when the turn before it
    /// has ended or when something waits.
    fn is_listening(&self) -> bool {
        self.surface.is_terminal()
            || match self.state.asks.is_empty() {
                true => self.is_idle(),
                false => self.requests.is_empty() && self.prompt.is_shown(&self.state),
            }
    }

    async fn hear(&mut self, input: PersonEvent) -> Result<(), UiError> {
        let is_stopping = matches!(self.is_over, Leaving::WhenStopped(_));
        let action = match input {
            PersonEvent::Input(keys::TerminalInput::Key(key)) if is_stopping => match key {
                Key::Interrupt | Key::End => Action::Leave,
                _ => Action::Nothing,
            },
            PersonEvent::Input(keys::TerminalInput::Key(key)) if self.picker.is_some() => {
                self.choose(&key);
                Action::Nothing
            }
            PersonEvent::Input(keys::TerminalInput::Key(Key::Interrupt)) if self.stop_command() => {
                Action::Nothing
            }
            PersonEvent::Input(keys::TerminalInput::Key(key)) => {
                let key = self.with_image(key).await;
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
        self.draw().await
    }

    /// Same as the key. Without a status row, a line tells what the next Ctrl-C does.
    async fn interrupt(&mut self) -> Result<(), UiError> {
        self.hear(PersonEvent::Input(keys::TerminalInput::Key(Key::Interrupt)))
            .await?;
        if self.prompt.is_leaving && self.is_over != Leaving::Now && !self.surface.is_terminal() {
            self.say(Text::LeaveHint, &[]);
        }
        Ok(())
    }

    async fn act(&mut self, action: Action) -> Result<(), UiError> {
        match action {
            Action::Nothing | Action::Redraw => {}
            Action::Send(text) => {
                if !self.answered_trust(&text).await {
                    self.say_with_files(text.clone(), text).await;
                }
            }
            Action::Steer(text) => self.steer_with_files(text.clone(), text).await,
            Action::Run(command) => self.run_own(command),
            Action::Complete => self.complete().await,
            Action::Answer { call, text } => self.answer(&call, text).await,
            Action::Decide { call, choice } => self.decide(&call, choice).await,
            Action::Command(command) => {
                self.echo(&command);
                self.command(command).await;
            }
            Action::NextAsk => self.state.turn_to_next(),
            Action::CancelTurn => self.cancel(),
            Action::Leave => self.leave(),
        }
        Ok(())
    }

    fn send(&mut self, message: OutgoingMessage) {
        self.send_to(self.target.clone(), message);
    }

    /// `target`: the agent; none: the message is planned, or answers a question.
    pub(super) fn send_to(&mut self, target: Option<String>, message: OutgoingMessage) {
        self.sending += 1;
        self.heard_at = Instant::now();
        match &self.session {
            Some(session) => {
                let sent = requests::send(self.client.clone(), session.clone(), message, target);
                self.requests.spawn(sent);
            }
            None => {
                self.requests.spawn(requests::create(
                    self.client.clone(),
                    self.project,
                    message,
                    (target, self.state.approve),
                ));
            }
        }
    }

    fn cancel(&mut self) {
        // A stop that overtakes what it stops would be lost.
        if self.state.compact_request != CompactRequest::None {
            self.state.compact_request = CompactRequest::Withdrawn;
            return;
        }
        if let Some(session) = &self.session {
            self.requests.spawn(requests::cancel(
                self.client.clone(),
                session.clone(),
                QueueFate::Kept,
            ));
        }
    }

    fn forget(&mut self) {
        self.session = None;
        self.read_for = None;
        self.seen.clear();
        self.events = None;
        self.spent = None;
        (self.model, self.answered_model, self.context_tokens) = (None, None, None);
        self.allowed.clear();
        self.rewindable.clear();
        self.picker = None;
        self.state.become_session(ViewState::default());
        self.state.approve = self.wanted_approve.unwrap_or_default();
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

pub(super) fn now() -> Timestamp {
    std::time::SystemTime::now().into()
}
