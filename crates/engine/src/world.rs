//! What the engine is told about the world with each input, instead of looking for itself.

use codelab_policy::Policy;
use codelab_protocol::{CallId, MessageId, PlanId, RewindId, SessionKind, Timestamp, WorkflowId};

use crate::prompt::CUT_MARK_BYTES;
use crate::{PromptLimits, SpaceSnapshot, Team};

pub struct World<'a> {
    pub now: Timestamp,
    pub ids: &'a mut dyn Ids,
    pub team: &'a Team,
    pub limits: &'a SessionLimits,
    pub policy: &'a Policy,
    /// The worker space of the session's project; the default for a session of no project. A step
    /// takes it: the next one needs a new snapshot.
    pub space: SpaceSnapshot,
    /// The server stops: the model calls of this step are not made before it is back.
    pub stopping: bool,
    pub streamed: &'a dyn StreamedAnswers,
}

/// Where new ids come from: random in the server, counted in tests.
pub trait Ids {
    fn call_id(&mut self) -> CallId;
    fn message_id(&mut self) -> MessageId;
    fn plan_id(&mut self) -> PlanId;
    fn workflow_id(&mut self) -> WorkflowId;
    fn rewind_id(&mut self) -> RewindId;
}

/// The answers that models are writing, as far as people have seen them. A crash forgets them.
pub trait StreamedAnswers {
    fn text(&self, message_id: &MessageId, attempt: u32) -> Option<String>;
}

/// Nothing was streamed.
impl StreamedAnswers for () {
    fn text(&self, _: &MessageId, _: u32) -> Option<String> {
        None
    }
}

/// The limits of one turn and one session.
#[derive(Debug, Clone)]
pub struct SessionLimits {
    /// Model steps of a turn.
    pub steps: u32,
    /// Agent switches of a turn.
    pub switches: u32,
    /// Identical tool calls in a row.
    pub repeats: u32,
    /// Messages that wait while a turn runs.
    pub queue_length: usize,
    /// 0 = approvals never expire.
    pub approval_timeout_seconds: u64,
    pub tool_result_timeout_seconds: u64,
    /// How long an agent that is called directly may be silent.
    pub direct_timeout_seconds: u64,
    /// Working time of a direct call, and of one task of a plan.
    pub task_timeout_seconds: u64,
    /// Absent: by the kind of the session.
    pub multiple_tool_calls: Option<MultipleToolCalls>,
    /// A plan of this many tasks waits for a person.
    pub plan_approval_tasks: usize,
    /// A plan that may cost more than this waits for a person.
    pub plan_approval_usd: f64,
    /// A history past this size is summed up at a turn's end. Absent: by the model's window where
    /// that decides about prompts, else never.
    pub compact_tokens: Option<u64>,
    /// What prompts show of the past: budgets are kept by what a call will read.
    pub prompt: PromptLimits,
}

/// What to do when a model makes several tool calls at once although it was asked not to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Deserialize, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum MultipleToolCalls {
    Reject,
    Sequence,
}

impl SessionLimits {
    /// What to do with several tool calls at once in a session of this kind. The runtime API
    /// documents the refusal. In a project it would only look like an error of the person's.
    pub(crate) fn several_calls(&self, kind: SessionKind) -> MultipleToolCalls {
        self.multiple_tool_calls.unwrap_or(match kind {
            SessionKind::Runtime => MultipleToolCalls::Reject,
            SessionKind::Project => MultipleToolCalls::Sequence,
        })
    }
}

impl Default for SessionLimits {
    fn default() -> Self {
        Self {
            steps: 50,
            switches: 10,
            repeats: 3,
            queue_length: 10,
            approval_timeout_seconds: 300,
            tool_result_timeout_seconds: 600,
            direct_timeout_seconds: 30,
            task_timeout_seconds: 600,
            multiple_tool_calls: None,
            plan_approval_tasks: 3,
            plan_approval_usd: 0.10,
            compact_tokens: None,
            prompt: PromptLimits::default(),
        }
    }
}

/// After a restart every open deadline lies at least this far ahead.
pub(crate) const RECOVERY_GRACE_SECONDS: u64 = 30;
/// How often a model call is made again after a crash; an answer that crashes the server must not
/// do so for ever.
pub(crate) const MAX_ATTEMPTS: u32 = 5;
/// Nesting of a tool call's arguments. JSON readers give up at 128, and the state wraps them a few
/// times.
pub(crate) const MAX_ARGUMENT_DEPTH: usize = 64;
/// Characters of a hand-over's reason; it is repeated in every prompt.
pub(crate) const MAX_REASON_CHARS: usize = 300;
/// Bytes that are kept of what a call did: a path or a command.
pub(crate) const MAX_ABOUT_BYTES: usize = 4096;
/// How long a rewind waits for a client to take its call. Whoever asked waits a little longer, and so
/// hears of it.
pub(crate) const MAX_UNCLAIMED_REWIND_SECONDS: u64 = 50;
/// Writes that one rewind takes back.
pub(crate) const MAX_REWOUND_CALLS: usize = 5000;
/// Rewinds that a session remembers; the oldest cannot be undone any more.
pub(crate) const MAX_REWINDS: usize = 10;
/// Entries of each list that tells what a rewind did.
pub(crate) const MAX_LISTED_CHANGES: usize = 1000;
/// Bytes of a command that a rewind names as not covered.
pub(crate) const MAX_SHOWN_COMMAND_BYTES: usize = 200;
/// Characters of a path that is kept as session metadata.
pub(crate) const MAX_PATH_CHARS: usize = 300;
/// Tool calls taken from one model answer; more than this is refused as a whole.
pub(crate) const MAX_CALLS_PER_ANSWER: usize = 16;
/// Remembered approvals of a session; the oldest is forgotten first.
pub(crate) const MAX_REMEMBERED: usize = 100;
/// Modified files kept as session metadata; the oldest is forgotten first.
pub(crate) const MAX_MODIFIED_FILES: usize = 20;
/// Bytes of the last error kept as session metadata.
pub(crate) const MAX_LAST_ERROR_BYTES: usize = 500;
/// Of a person's reason against a plan, as the planner reads it.
pub(crate) const MAX_REJECTION_BYTES: usize = 4000;
/// Characters of a session's title, taken from the first line said.
pub(crate) const MAX_TITLE_CHARS: usize = 80;
/// Bytes of a request that a turn keeps: the description of the task where there is no usable plan.
pub(crate) const MAX_REQUEST_BYTES: usize = MAX_DESCRIPTION_BYTES - CUT_MARK_BYTES;
/// Bytes of the messages that wait in a session, where there are several.
pub(crate) const MAX_WAITING_BYTES: usize = 1024 * 1024;
/// Messages that steer one turn: those that wait, and in a plan those that were told.
pub(crate) const MAX_STEERS: usize = 20;
/// Bytes of a request that an agent remembers.
pub(crate) const MAX_REMEMBERED_REQUEST_BYTES: usize = 4 * 1024;
/// How long a claimed call is held for its client; a claim renews it.
pub const LEASE_SECONDS: u64 = 30;
/// Calls of unknown outcome whose late result is still awaited; the oldest is forgotten first.
pub(crate) const MAX_LATE_CALLS: usize = 20;
/// Previews of one approval: a file that changes all the time is not shown each time.
pub(crate) const MAX_PREVIEWS: u32 = 100;
/// How often the client of a call can want a person to see it again.
pub(crate) const MAX_ASKED_AGAIN: u32 = 20;
pub const MAX_BUDGET_USD: f64 = 1_000_000_000.0;
/// The largest whole number that every reader of JSON keeps exactly.
pub const MAX_BUDGET_TOKENS: u64 = (1 << 53) - 1;
/// A plan whose cost is not known waits for a person past this many tokens, by its own estimate.
pub(crate) const UNPRICED_PLAN_TOKENS: u64 = 20_000;
/// Tasks of a plan.
pub const MAX_TASKS: usize = 50;
/// Bytes of a task's description.
pub(crate) const MAX_DESCRIPTION_BYTES: usize = 16 * 1024;
/// Bytes that are kept of an answer whose turn ended before it did.
pub(crate) const MAX_PARTIAL_BYTES: usize = 1024 * 1024;
/// Bytes of a task's result that are kept in the plan.
pub(crate) const MAX_RESULT_BYTES: usize = 16 * 1024;
/// Bytes of a model's reasoning that people can read later.
pub(crate) const MAX_SHOWN_REASONING_BYTES: usize = 64 * 1024;
/// Bytes of a model's reasoning that its provider gets back, as JSON. A part of it would be refused,
/// so longer reasoning is not kept. The longest that a model may write is about half of this.
pub(crate) const MAX_OPAQUE_REASONING_BYTES: usize = 512 * 1024;
/// Bytes of results that one prompt is given, of all tasks together.
pub(crate) const MAX_HANDED_ON_BYTES: usize = 64 * 1024;
/// A summary of a session's older part, and its last plan, in the state.
pub(crate) const MAX_SUMMARY_BYTES: usize = 8 * 1024;
pub(crate) const MAX_PLAN_STATE_BYTES: usize = 4 * 1024;
