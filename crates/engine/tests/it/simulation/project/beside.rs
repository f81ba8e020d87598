//! What happens beside the turns of a session: summaries, and what people take back.

use codelab_engine::{ModelCallId, Session};
use codelab_protocol::SessionEventBody;

/// Whether the event belongs to the last turn although that may have ended.
pub fn is_aside(body: &SessionEventBody) -> bool {
    match body {
        // What became of files that a client took back while nobody heard of it.
        SessionEventBody::Rewound(rewound) => rewound.messages == 0,
        SessionEventBody::HistoryCompacting(_)
        | SessionEventBody::HistoryCompacted(_)
        | SessionEventBody::CompactionFailed(_)
        | SessionEventBody::RememberedRevoked(_)
        | SessionEventBody::ApproveChanged(_) => true,
        _ => false,
    }
}

/// The model calls that must be under way, that of a summary among them.
pub fn wanted(session: &Session) -> Vec<ModelCallId> {
    let calls = session.model_calls().into_iter();
    calls.map(|(call, _)| call).collect()
}
