//! The decisions of CodeLab.
//!
//! `Session::apply(Input) -> Effects` is a deterministic state machine: no I/O, no clock, no
//! randomness, no tokio. The time, new ids, agent definitions, limits and policy arrive with each
//! input; what should happen leaves as effects that the runtime commits and performs. The state is
//! bounded and serialisable at any point between two inputs.

#[macro_use]
mod never;

mod agents;
mod calculator;
mod chat;
mod compaction;
mod effect;
mod input;
mod instructions;
mod keywords;
mod named;
mod output;
mod placeholders;
mod plan;
mod prompt;
mod routing;
mod session;
mod space;
mod turn;
mod world;

pub use agents::{
    Agent, AgentError, AgentMode, DEFAULT_CONCURRENCY_LIMIT, FilePattern, Team, orchestrator,
    starter_pack,
};
pub use chat::{
    ADAPTIVE_AGENT, AskerId, CHAT_PROMPT, Chat, ChatApplied, ChatEffect, ChatHandover, ChatInput,
    ChatLimits, DEFAULT_ANSWER_SECONDS, IdBlock, MAX_CHAT_TEXT_BYTES, chat_history, chat_request,
};
pub use codelab_protocol::{ApprovalKind, ApprovalOutcome, AuditDecision};
pub use compaction::Summary;
pub use effect::{
    AgentSpending, Applied, Approval, CallStatus, CallerAnswer, DecisionRecord, Effect, EventBody,
    EventRange, EventRecord, Interaction, MessageRecord, ModelCall, ModelCallId, Purpose,
    RecallAbout, ShownPreview, SwitchRecord,
};
pub use input::{
    CallVersion, ClientStanding, Decision, Downtime, Input, KnownCall, Refusal, ToolEnd,
    UserMessage, WaitingWish,
};
pub use instructions::{InstructionFile, Instructions, Skill, tell_planner};
pub use named::{NamedTool, NamedTools};
pub use placeholders::{PLACEHOLDERS, unknown_placeholders};
pub use plan::{Repair, Workflow, parse_plan};
pub use prompt::{
    Briefing, History, Locale, MAX_FILE_TEXT_BYTES, MAX_SUMMARIZED_MESSAGES, PromptLimits,
    PromptReport, Region, Zone, classification_request, fair_bound, for_prompts,
    is_known_as_result, joining_request, planning_request, step_request, summary_request,
    without_files, without_middle,
};
pub use routing::{Route, keyword_route, parse_classification};
pub use session::{
    EndedTurn, Fork, RanCall, RetriedRequest, RewindInput, RewindWish, RewoundPart, Session,
};
pub use space::{
    AgentClosed, AgentFacts, AgentGate, AgentSlots, Budget, BudgetState, Lane, SessionModel,
    SpaceSnapshot, Spending, TeamFacts, ThreadEnd, TokenPrice, WorkOutcome,
};
pub use turn::{BudgetScope, BudgetWhy, CallClaim, OpenCall, Thread, ThreadPhase, Turn, cut};
pub use world::{
    Ids, LEASE_SECONDS, MAX_BUDGET_TOKENS, MAX_BUDGET_USD, MAX_TASKS, MultipleToolCalls,
    SessionLimits, StreamedAnswers, World,
};
