//! The decisions of CodeLab.
//!
//! `Session::apply(Input) -> Effects` is a deterministic state machine: no I/O, no clock, no randomness, no tokio. The
//! time, new ids, agent definitions, limits and policy arrive with each input; what should happen leaves as effects
//! that the runtime commits and performs. The state is bounded and serialisable at any point between two inputs.

mod agents;
mod calculator;
mod effect;
mod input;
mod keywords;
mod placeholders;
mod prompt;
mod routing;
mod session;
mod turn;
mod world;

pub use agents::{Agent, AgentError, DEFAULT_CONCURRENCY_LIMIT, FilePattern, Mode, Team, orchestrator, starter_pack};
pub use effect::{
    Answer, Applied, Approval, ApprovalStatus, AuditRecord, CallStatus, Decided, Effect, EventRecord, MessageRecord,
    ModelCall, ModelCallId, Purpose, Span, SwitchRecord,
};
pub use input::{Decision, Input, KnownApproval, KnownCall, Refusal, UserMessage};
pub use placeholders::{PLACEHOLDERS, unknown_placeholders};
pub use prompt::{History, PromptLimits, classification_request, for_prompts, step_request};
pub use routing::{Route, keyword_route, parse_classification};
pub use session::Session;
pub use turn::{OpenCall, Phase, Turn};
pub use world::{Ids, Limits, MultipleToolCalls, World};
