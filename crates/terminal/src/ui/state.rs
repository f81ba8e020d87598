//! What the terminal shows of a session: the projection of its events, the answer that is being
//! printed, and the questions of this machine. Pure: it knows no terminal and no clock.

mod print;

use std::collections::{HashMap, HashSet};

use codelab_client::{MessageStatus, PlanView, SessionItem, SessionView, WaitingItem};
use codelab_protocol::{
    AgentName, AgentQuestion, ApprovalInfo, ApprovalKind, ApprovalRequest, ApproveMode, CallId,
    CalledTool, CommandPart, FileBase, FilePreview, McpCall, MessageId, PlanRequest, SessionEvent,
    SessionId, TaskId, TaskOrigin, Timestamp, Tool, ToolArguments, TurnStatus, Usage,
};
use serde_json::{Map, Value};

use crate::Language;

use super::block::{ApprovalCardKind, ApprovalShown, Block};
use super::diff::Before;
use super::files::ShownFile;
use super::markdown::Stream;
use super::preview::of_write;

/// Things that wait for the person at once. A server that asks for more is not believed.
const MAX_OPEN: usize = 256;
/// The policy's reason for a write that is like any other.
const WRITE_REASON: &str = "File modification requires approval";
/// How the policy's reason for a command ends that names a protected path.
const PROTECTED_REASON: &str = "(names a protected path)";

#[derive(Debug, Default)]
pub struct ViewState {
    pub language: Language,
    pub view: SessionView,
    pub answer: Option<Writing>,
    pub compact_request: CompactRequest,
    /// What passes without a question.
    pub approve: ApproveMode,
    /// What waits for the person, oldest first.
    pub asks: Vec<PendingAsk>,
    /// What was decided here. The server has not confirmed that yet.
    decided: HashMap<CallId, PendingAsk>,
    /// What was allowed here for the rest of the session, until its decision is printed.
    granted: HashMap<CallId, Grant>,
    /// The files that approvals would write, as they are now.
    befores: HashMap<CallId, ShownFile>,
    /// What was printed while it waited, because there are no live rows. It is not printed again.
    told: HashSet<CallId>,
    /// When the event happened that is being printed.
    event_at: Option<Timestamp>,
    /// The last answer that was printed, so that its copy is not printed again.
    last_answer: Option<String>,
    /// What the tasks of the plan that runs had used before it was run again.
    used_before: Option<Usage>,
    /// An answer that reports a failure. If an error follows, that is printed instead.
    failure: Option<String>,
}

/// A summary that was asked for here, until an event tells of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CompactRequest {
    #[default]
    None,
    Asked,
    /// The person does not want it any more. It is stopped as soon as it begins.
    Withdrawn,
}

/// An answer that is being written.
#[derive(Debug, Clone)]
pub struct Writing {
    message_id: MessageId,
    pub agent: AgentName,
    pub stream: Stream,
    /// How much of the message's text is in `stream`.
    bytes: usize,
    /// What was thought stands above the first part that was printed.
    has_thoughts: bool,
}

/// What "always" allows for the rest of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Grant {
    FileWrites,
    SameCommand,
    /// A tool of an MCP server, with any arguments.
    SameTool,
}

impl Grant {
    /// `None` where the server asks each time, whatever a person allowed: protected paths, paths
    /// outside the workspace, commands that it cannot analyse, and other tools.
    pub fn of(approval: &ApprovalInfo) -> Option<Self> {
        if approval.mcp.is_some() {
            return Some(Self::SameTool);
        }
        let reason = approval.reason.as_str();
        match Tool::parse(&approval.tool_name)? {
            Tool::WriteFile => (reason == WRITE_REASON).then_some(Self::FileWrites),
            Tool::ExecuteCommand => {
                let mut parts = approval.parts.iter();
                // What was not analysed is one part, with the reason of the whole.
                let is_whole = parts.any(|part| part.reason.as_deref() == Some(reason));
                let is_protected = reason.ends_with(PROTECTED_REASON);
                (!is_whole && !is_protected).then_some(Self::SameCommand)
            }
            _ => None,
        }
    }
}

/// Something that waits for the person.
#[derive(Debug, Clone, PartialEq)]
pub enum PendingAsk {
    Approval(Box<ApprovalRequest>),
    Plan(Box<PlanRequest>),
    Question(AgentQuestion),
    /// This machine itself asks before it runs a call.
    Local(LocalAsk),
}

#[derive(Debug, Clone, PartialEq)]
pub struct LocalAsk {
    pub session_id: SessionId,
    pub call_id: CallId,
    pub tool: CalledTool,
    pub arguments: Map<String, Value>,
    pub reason: String,
    pub parts: Vec<CommandPart>,
}

impl PendingAsk {
    /// A plan has its own id as the id of its call.
    pub fn call_id(&self) -> &CallId {
        match self {
            Self::Approval(request) => &request.approval.call_id,
            Self::Plan(request) => &request.approval.call_id,
            Self::Question(question) => &question.call_id,
            Self::Local(local) => &local.call_id,
        }
    }

    /// When nobody can decide it any more.
    pub fn expires_at(&self) -> Option<Timestamp> {
        match self {
            Self::Approval(request) => request.approval.expires_at,
            Self::Plan(request) => request.approval.expires_at,
            Self::Question(_) | Self::Local(_) => None,
        }
    }

    fn is_local(&self) -> bool {
        matches!(self, Self::Local(_))
    }

    /// A call can wait twice: for the server's person, and for this machine's.
    fn is_of_server(&self, call: &CallId) -> bool {
        !self.is_local() && self.call_id() == call
    }

    /// The arguments do not match their digest.
    pub fn is_forged(&self) -> bool {
        match self {
            Self::Approval(request) => is_forged(request),
            Self::Plan(_) | Self::Question(_) | Self::Local(_) => false,
        }
    }
}

impl PendingAsk {
    /// Whether the view still has exactly this.
    fn is(&self, waiting: WaitingItem<'_>) -> bool {
        match (self, waiting) {
            (Self::Approval(known), WaitingItem::Approval(request)) => known.as_ref() == request,
            (Self::Plan(known), WaitingItem::Plan(request)) => known.as_ref() == request,
            (Self::Question(known), WaitingItem::Question(question)) => known == question,
            (Self::Approval(_) | Self::Plan(_) | Self::Question(_) | Self::Local(_), _) => false,
        }
    }

    /// Whether the view has the same question, perhaps with more time.
    fn is_renewed(&self, waiting: WaitingItem<'_>) -> bool {
        let (known, now) = match (self, waiting) {
            (Self::Approval(known), WaitingItem::Approval(now)) => (&known.approval, &now.approval),
            (Self::Plan(known), WaitingItem::Plan(now)) => (&known.approval, &now.approval),
            (Self::Approval(_) | Self::Plan(_) | Self::Question(_) | Self::Local(_), _) => {
                return false;
            }
        };
        known.created_at == now.created_at && known.digest == now.digest
    }
}

impl LocalAsk {
    /// What a person sees of it; `file` is the file it is about.
    pub fn shown(&self, file: &ShownFile, language: Language) -> ApprovalShown {
        ApprovalShown {
            agent: None,
            task: None,
            kind: approval_kind(
                &self.tool.name(),
                self.tool.mcp(),
                &self.arguments,
                &self.parts,
                (file, None),
                language,
            ),
            reason: self.reason.clone(),
            is_forged: false,
        }
    }
}

impl From<WaitingItem<'_>> for PendingAsk {
    fn from(waiting: WaitingItem<'_>) -> Self {
        match waiting {
            WaitingItem::Approval(request) => Self::Approval(Box::new(request.clone())),
            WaitingItem::Plan(request) => Self::Plan(Box::new(request.clone())),
            WaitingItem::Question(question) => Self::Question(question.clone()),
        }
    }
}

impl ViewState {
    pub fn new(language: Language) -> Self {
        Self {
            language,
            ..Self::default()
        }
    }

    pub fn is_working(&self) -> bool {
        self.view.is_busy()
    }

    pub fn is_compacting(&self) -> bool {
        self.compact_request != CompactRequest::None || self.view.is_compacting()
    }

    /// The last message of the session itself that is stored.
    pub fn last_message(&self) -> Option<MessageId> {
        let stored = |item: &SessionItem| match item {
            SessionItem::Message(message)
                if message.origin == TaskOrigin::default()
                    && !matches!(message.status, MessageStatus::Streaming { .. }) =>
            {
                Some(message.message_id.clone())
            }
            _ => None,
        };
        self.view.items().rev().find_map(stored)
    }

    /// What can get its full time again: what waits longest, else the latest plan.
    pub fn renewable(&self) -> Option<CallId> {
        let mut waiting = self.view.waiting().filter_map(|waiting| match waiting {
            WaitingItem::Approval(_) | WaitingItem::Plan(_) => Some(waiting.call_id().clone()),
            WaitingItem::Question(_) => None,
        });
        waiting
            .next()
            .or_else(|| CallId::parse(self.plan()?.id().as_str()).ok())
    }

    pub fn plan(&self) -> Option<&PlanView> {
        self.view.latest_plan()
    }

    /// Applies the next event and returns what is printed for it. `before` is the present content
    /// of the file that an approval is about.
    pub fn apply(&mut self, event: &SessionEvent, before: &ShownFile) -> Vec<Block> {
        self.event_at = Some(event.timestamp);
        let changes = self.view.apply(event);
        let blocks = changes
            .iter()
            .flat_map(|change| self.printed(change, before))
            .collect();
        self.update_asks();
        blocks
    }

    /// The stream paused with this status.
    pub fn done(&mut self, status: TurnStatus) -> Vec<Block> {
        let was_working = self.is_working();
        self.view.done(status);
        let blocks = match status.is_end() {
            true => self.ended(status, was_working),
            false => Vec::new(),
        };
        self.update_asks();
        blocks
    }

    /// Moves past an event of a newer server.
    pub fn skip(&mut self, seq: u64) {
        self.view.skip(seq);
    }

    /// A question of this machine; `false` if too much waits already, or another call with this id.
    /// An answer belongs to one call, and only a hostile server gives two calls one id.
    pub fn ask_locally(&mut self, ask: LocalAsk) -> bool {
        let is_known = |known: &PendingAsk| known.is_local() && *known.call_id() == ask.call_id;
        let is_new = self.asks.len() < MAX_OPEN && !self.asks.iter().any(is_known);
        if is_new {
            self.asks.push(PendingAsk::Local(ask));
        }
        is_new
    }

    /// The next of what waits comes first, and the first one last.
    pub fn turn_to_next(&mut self) {
        if !self.asks.is_empty() {
            self.asks.rotate_left(1);
        }
    }

    /// What a person sees of something that waits.
    pub fn card(&self, ask: &PendingAsk) -> Option<Block> {
        Some(match ask {
            PendingAsk::Approval(request) => {
                Block::Approval(self.shown(request, self.before(ask.call_id())))
            }
            PendingAsk::Plan(request) => Block::PlanProposed {
                plan: self.view.plan(&request.plan_id)?.clone(),
                reason: request.approval.reason.clone(),
            },
            PendingAsk::Question(question) => Block::Question {
                agent: question.agent.clone(),
                task: self.shown_task(&question.origin),
                server: question.server.clone(),
                fields: fields(question),
                question: question.question.clone(),
                options: question.options.clone(),
            },
            PendingAsk::Local(local) => {
                Block::Approval(local.shown(self.before(ask.call_id()), self.language))
            }
        })
    }

    /// The file that an approval is about, as it was read last.
    pub fn before(&self, call: &CallId) -> &ShownFile {
        const NOTHING: &ShownFile = &ShownFile {
            before: Before::Missing,
            base: None,
        };
        self.befores.get(call).unwrap_or(NOTHING)
    }

    /// Whether this file is not what was read last; then it is what is shown from now on.
    pub fn reread(&mut self, call: &CallId, file: impl Into<ShownFile>) -> bool {
        let file = file.into();
        let is_new = *self.before(call) != file;
        if is_new && (self.befores.len() < MAX_OPEN || self.befores.contains_key(call)) {
            self.befores.insert(call.clone(), file);
        }
        is_new
    }

    /// What the write would replace, as it is shown.
    pub fn shown_base(&self, approval: &ApprovalInfo) -> Option<FileBase> {
        let tool = Tool::parse(&approval.tool_name).filter(|_| approval.mcp.is_none())?;
        let Ok(ToolArguments::WriteFile(write)) = tool.check(&approval.arguments) else {
            return None;
        };
        let here = self.before(&approval.call_id);
        of_write(&write, here, approval.preview.as_deref(), self.language).1
    }

    /// The person allows this for the rest of the session.
    pub fn grant(&mut self, call: &CallId, grant: Grant) {
        if self.granted.len() < MAX_OPEN {
            self.granted.insert(call.clone(), grant);
        }
    }

    /// This was printed while it waits.
    pub fn told(&mut self, call: &CallId) {
        if self.told.len() < MAX_OPEN {
            self.told.insert(call.clone());
        }
    }

    /// Goes over to another session. The questions of this machine stay: their calls wait for this
    /// person, and nobody else can answer.
    pub fn become_session(&mut self, next: Self) {
        let before = std::mem::replace(self, next);
        self.language = before.language;
        let local = before
            .asks
            .into_iter()
            .filter(|ask| matches!(ask, PendingAsk::Local(_)));
        self.asks.splice(0..0, local);
    }

    /// The answer to a question of this machine was given, or nobody waits for it any more.
    pub fn closed_here(&mut self, call: &CallId) {
        self.asks
            .retain(|ask| !(ask.is_local() && ask.call_id() == call));
    }

    /// The person has decided what the server asked.
    pub fn answered(&mut self, call: &CallId) {
        let Some(position) = self.asks.iter().position(|ask| ask.is_of_server(call)) else {
            return;
        };
        let ask = self.asks.remove(position);
        if self.decided.len() < MAX_OPEN && self.view.waits(call).is_some() {
            self.decided.insert(call.clone(), ask);
        }
    }

    /// The server did not accept the decision, so this waits again, as the server has it now. It
    /// stands behind what the person looks at.
    pub fn ask_again(&mut self, call: &CallId) {
        self.decided.remove(call);
        self.granted.remove(call);
        self.update_asks();
        let position = self.asks.iter().position(|ask| ask.is_of_server(call));
        if let Some(position) = position.filter(|position| *position > 1) {
            self.asks[1..=position].rotate_right(1);
        }
    }

    /// Takes over what waits now. The questions of this machine end by themselves.
    fn update_asks(&mut self) {
        let view = &self.view;
        let is_busy = view.is_busy();
        self.decided.retain(|call, _| view.waits(call).is_some());
        self.asks.retain(|ask| match ask {
            PendingAsk::Local(_) => true,
            PendingAsk::Approval(_) | PendingAsk::Plan(_) | PendingAsk::Question(_) => {
                is_busy && view.waits(ask.call_id()).is_some()
            }
        });
        let (asks, decided) = (&self.asks, &self.decided);
        let is_open = |call: &CallId| {
            decided.contains_key(call) || asks.iter().any(|ask| ask.call_id() == call)
        };
        self.befores
            .retain(|call, _| is_open(call) || view.waits(call).is_some());
        self.told.retain(|call| is_open(call));
        if !is_busy {
            return;
        }
        for waiting in view.waiting() {
            let call = waiting.call_id();
            let has_room = self.asks.len() < MAX_OPEN && !self.decided.contains_key(call);
            match self.asks.iter_mut().find(|ask| ask.is_of_server(call)) {
                // A person decides about what the server has now.
                Some(known) if !known.is(waiting) => *known = waiting.into(),
                Some(_) => {}
                None if has_room => self.asks.push(waiting.into()),
                None => {}
            }
        }
    }

    /// Whether text of this origin is the session's own. A plan with a single task reads the same.
    fn is_main(&self, origin: &TaskOrigin) -> bool {
        origin.task_id.is_none() || self.plan().is_some_and(PlanView::is_single)
    }

    /// A task is named only if there are several.
    pub fn shown_task(&self, origin: &TaskOrigin) -> Option<TaskId> {
        origin.task_id.clone().filter(|_| !self.is_main(origin))
    }

    /// What a person sees of an approval; `file` is the file it is about.
    pub fn shown(&self, request: &ApprovalRequest, file: &ShownFile) -> ApprovalShown {
        let approval = &request.approval;
        let kind = match approval.kind {
            ApprovalKind::Budget => ApprovalCardKind::Budget(approval.arguments.clone()),
            ApprovalKind::Tool | ApprovalKind::Plan => approval_kind(
                &approval.tool_name,
                approval.mcp.as_deref(),
                &approval.arguments,
                &approval.parts,
                (file, approval.preview.as_deref()),
                self.language,
            ),
        };
        ApprovalShown {
            agent: request.agent.clone(),
            task: self.shown_task(&request.origin),
            kind,
            reason: approval.reason.clone(),
            is_forged: is_forged(request),
        }
    }
}

fn is_forged(request: &ApprovalRequest) -> bool {
    let approval = &request.approval;
    !approval.shows_what_runs()
}

pub fn approval_kind(
    tool: &str,
    mcp: Option<&McpCall>,
    arguments: &Map<String, Value>,
    parts: &[CommandPart],
    (file, told): (&ShownFile, Option<&FilePreview>),
    language: Language,
) -> ApprovalCardKind {
    let text = |name: &str| {
        arguments
            .get(name)
            .and_then(Value::as_str)
            .map(str::to_owned)
    };
    if let Some(mcp) = mcp {
        return ApprovalCardKind::Named {
            mcp: Box::new(mcp.clone()),
            arguments: arguments.clone(),
        };
    }
    match (Tool::parse(tool), text("command")) {
        (Some(Tool::ExecuteCommand), Some(command)) => ApprovalCardKind::Command {
            command,
            cwd: text("cwd"),
            parts: parts.to_vec(),
        },
        (Some(Tool::WriteFile), _) => ApprovalCardKind::Write {
            arguments: arguments.clone(),
            diff: match Tool::WriteFile.check(arguments) {
                Ok(ToolArguments::WriteFile(write)) => {
                    Some(of_write(&write, file, told, language).0)
                }
                Ok(_) | Err(_) => None,
            },
        },
        _ => ApprovalCardKind::Tool {
            name: tool.to_owned(),
            arguments: arguments.clone(),
        },
    }
}

/// The names of the fields that a server asks for.
fn fields(question: &AgentQuestion) -> Vec<String> {
    let schema = question.requested_schema.as_ref();
    let fields = schema.and_then(|schema| schema.get("properties"));
    let fields = fields.and_then(Value::as_object).into_iter().flatten();
    fields.map(|(name, field)| described(name, field)).collect()
}

/// A field with its type, and with the value that the server gets where it is left out.
fn described(name: &str, field: &Value) -> String {
    let kind = field.get("type").and_then(Value::as_str);
    let kind = kind.map(|kind| format!(": {kind}")).unwrap_or_default();
    let default = field.get("default").map(|value| format!(" = {value}"));
    codelab_policy::visible(&format!("{name}{kind}{}", default.unwrap_or_default()))
}

#[cfg(test)]
#[path = "state/tests.rs"]
mod tests;
