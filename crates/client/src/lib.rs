//! The typed HTTP and SSE client of CodeLab: the whole runtime API and the whole of a user's own,
//! for programs that are written against them; the terminal client, the benchmark and the tests use
//! a part of it.
//!
//! It speaks the words of `codelab-protocol` and decides nothing: what an event means is its
//! caller's business. It never repeats a request on its own, except [`ResumingEvents`], which only
//! reads.

mod chats;
mod client;
mod error;
mod http;
mod limits;
mod logged;
mod plans;
mod projects;
mod resume;
mod sse;
mod stream;
mod tools;

pub use ::http::{HeaderMap, Method};

pub use chats::Sent;
pub use client::Client;
pub use error::ClientError;
pub use http::{Access, Presence, RawResponse};
pub use limits::{Backoff, ClientLimits};
pub use logged::{Logged, Piece};
pub use resume::{ResumingEvents, Until};
pub use sse::{SseDecoder, SseError, SseEvent};
pub use stream::{EventData, EventStream, StreamEvent};
