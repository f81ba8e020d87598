//! A real server on a free port with a scripted model, and ways to talk to it in a test.
//!
//! It panics where a test would fail: everything here is for tests only.
#![allow(clippy::unwrap_used, reason = "a test kit fails by panicking")]

mod asked;
mod database;
mod haproxy;
mod process;
mod seen;
mod server;
mod through_another;
mod waiting;

pub use asked::Asked;
pub use codelab_client::{
    Client, ClientError, Credentials, EventData, EventStream, Method, RawResponse, SseDecoder,
    SseEvent, StreamEvent,
};
pub use codelab_fakemodel::{
    FakeModel, Fault, Gate, ModelWire, RecordedRequest, Reply, is_classification,
};
pub use database::OwnDatabase;
pub use haproxy::{HttpsProxy, LoadBalancer};
pub use process::announced_url;
pub use seen::SeenEvents;
pub use server::{
    INTERNAL_KEY, TestServer, hitl_decision, id, message, message_to, refusal, request, tool_result,
};
pub use through_another::skipped_through_another;
pub use waiting::eventually;
