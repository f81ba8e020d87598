//! The stream of all of a user's sessions. Its ids are cursors, which any server goes on from.

use std::sync::Arc;

use axum::response::Response;
use codelab_protocol::SessionEventBody;
use codelab_runtime::{StreamSlot, UserItem, UserReader};

use super::{
    FRAME_END, HEARTBEAT_EVERY, MAX_WRITE_BYTES, Source, Wrote, begin_frame, event_stream, frames,
    session_event, write_frame, write_json,
};
use crate::cluster::user_events::JoinedPeers;
use crate::error::log_refusal;

/// Streams until the reader falls behind or goes away. The events of other servers come while
/// `joined` is held.
pub(crate) fn user_response(
    reader: UserReader,
    joined: Option<Arc<JoinedPeers>>,
    slot: StreamSlot,
) -> Response {
    let source = UserSource {
        reader,
        has_begun: false,
        _joined: joined,
    };
    event_stream(frames(source, HEARTBEAT_EVERY, Some(slot)))
}

struct UserSource {
    reader: UserReader,
    has_begun: bool,
    _joined: Option<Arc<JoinedPeers>>,
}

impl Source for UserSource {
    async fn write_next(&mut self, frames: &mut String) -> Wrote {
        if !self.has_begun {
            self.has_begun = true;
            // A frame without data is no event, but a reader keeps its id. So one that is cut
            // before the first event does not miss it.
            frames.push_str(&format!("id: {}{FRAME_END}", self.reader.cursor()));
            return Wrote::Frames;
        }
        match self.reader.next().await {
            Ok(Some(item)) => {
                let wrote = write_item(frames, item);
                while matches!(wrote, Wrote::Frames) && frames.len() < MAX_WRITE_BYTES {
                    let Some(item) = self.reader.ready() else {
                        break;
                    };
                    write_item(frames, item);
                }
                wrote
            }
            Ok(None) => Wrote::Nothing,
            Err(error) => {
                log_refusal(&error);
                Wrote::Nothing
            }
        }
    }
}

fn write_item(frames: &mut String, item: UserItem) -> Wrote {
    match item {
        UserItem::Event { event, cursor } => {
            write_frame(frames, Some(cursor), &event.kind, &event.body);
        }
        UserItem::Gap {
            session,
            gap,
            cursor,
        } => {
            let body = SessionEventBody::Gap(gap);
            let name = body.kind();
            let event = session_event(&session, Some(gap.to), body);
            write_json(frames, Some(cursor), name, &event);
        }
        UserItem::LargeBegins { kind, cursor } => {
            begin_frame(frames, Some(cursor), &kind);
            return Wrote::Part;
        }
        UserItem::LargePiece(piece) => {
            frames.push_str(&piece);
            return Wrote::Part;
        }
        UserItem::LargeEnds => frames.push_str(FRAME_END),
    }
    Wrote::Frames
}
