//! New ids are random, so that they say nothing and never collide.

use codelab_engine::Ids;
use codelab_protocol::{CallId, MessageId, PlanId, RewindId, SessionId, WorkflowId};

pub(crate) struct RandomIds;

impl Ids for RandomIds {
    fn call_id(&mut self) -> CallId {
        named(CallId::parse, "call")
    }

    fn message_id(&mut self) -> MessageId {
        named(MessageId::parse, "msg")
    }

    fn plan_id(&mut self) -> PlanId {
        named(PlanId::parse, "plan")
    }

    fn workflow_id(&mut self) -> WorkflowId {
        named(WorkflowId::parse, "workflow")
    }

    fn rewind_id(&mut self) -> RewindId {
        named(RewindId::parse, "rewind")
    }
}

/// The id of a project's session, which the server chooses.
pub(crate) fn session_id() -> SessionId {
    named(SessionId::parse, "chat")
}

/// `bytes` random bytes in hex.
pub fn random_hex(bytes: usize) -> String {
    let mut random = vec![0; bytes];
    fill(&mut random);
    hex::encode(random)
}

pub fn random_u32() -> u32 {
    let mut random = [0; 4];
    fill(&mut random);
    u32::from_le_bytes(random)
}

fn fill(bytes: &mut [u8]) {
    // A system without randomness cannot keep a secret either; there is nothing sensible to go on
    // with.
    getrandom::fill(bytes).expect("the system has no source of randomness");
}

fn named<T, E: std::fmt::Debug>(parse: fn(&str) -> Result<T, E>, kind: &str) -> T {
    // A kind, a dash and hex digits always make a valid id.
    parse(&format!("{kind}-{}", random_hex(12))).expect("an id of hex digits is valid")
}
