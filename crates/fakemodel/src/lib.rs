//! A scripted model server over real HTTP, for tests and load runs. It speaks the OpenAI chat format
//! and Anthropic's Messages, both from the same scripts.
//!
//! A test says what the model will answer, runs the code under test against [`FakeModel::url`], and
//! then checks what that code asked. Misbehaviour (silence, cut connections, slow bytes, error
//! answers) is part of the script. Nothing here uses CodeLab's own model client, so that an error
//! in one cannot hide an error in the other. [`TlsFront`] and [`ForwardProxy`] stand between a client
//! and this server, or any other.

mod fault;
mod gate;
mod network;
mod reply;
mod script;
mod server;
mod wire;

pub use fault::Fault;
pub use gate::Gate;
pub use network::{ForwardProxy, TestAuthority, TestCertificate, TlsFront};
pub use reply::Reply;
pub use server::{FakeModel, RecordedRequest};
pub use wire::Wire;

use serde_json::Value;

/// Whether a request asks which agent should get a message: no tools, at most 200 tokens,
/// temperature 0.3.
pub fn is_classification(body: &Value) -> bool {
    let no_tools = body
        .get("tools")
        .is_none_or(|tools| tools.as_array().is_some_and(Vec::is_empty));
    let temperature = body
        .get("temperature")
        .and_then(Value::as_f64)
        .unwrap_or_default();
    no_tools
        && body.get("max_tokens").and_then(Value::as_u64) == Some(200)
        && (temperature - 0.3).abs() < 1e-6
}
