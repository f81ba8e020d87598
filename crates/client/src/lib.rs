//! The typed HTTP and SSE client of CodeLab: the whole runtime API and the whole of a user's own,
//! for programs that are written against them; the terminal client, the benchmark and the tests use
//! a part of it.
//!
//! It sends and receives the types of `codelab-protocol`. [`SessionView`] tells what a session's
//! events mean for a person. The client never repeats a request on its own, with one exception:
//! [`ResumingEvents`], which only reads.

mod client;
mod error;
mod http;
mod instructions;
mod limits;
mod logged;
mod mcp;
mod plans;
mod project_sessions;
mod projection;
mod projects;
mod repeat;
mod resume;
mod sse;
mod stream;
mod tools;

pub use ::http::{HeaderMap, Method};
pub use codelab_transport::{NetworkOptions, ProxySettings};

pub use client::Client;
pub use error::ClientError;
pub use http::{Credentials, LiveAddress, RawResponse};
pub use limits::{Backoff, ClientLimits};
pub use logged::{DeltaPiece, LoggedEvent};
pub use project_sessions::{SendOutcome, SessionExport};
pub use projection::{
    BudgetView, CallView, DecisionView, MessageStatus, MessageView, PlanView, QuestionStatus,
    QuestionView, QueuedView, SessionChange, SessionItem, SessionNote, SessionView, TaskNote,
    ToolCallStatus, TurnResult, TurnState, WaitingItem,
};
pub use repeat::{RESTART_BACKOFF, repeated};
pub use resume::{FollowUntil, ResumingEvents};
pub use sse::{SseDecoder, SseError, SseEvent};
pub use stream::{EventData, EventStream, StreamEvent};
