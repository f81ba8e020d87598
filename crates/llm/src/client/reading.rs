//! Reads the body of an answer while it arrives.

use std::time::{Duration, Instant};

use bytes::Bytes;
use codelab_transport::recycle;
use futures_util::FutureExt;
use http_body_util::BodyExt;
use hyper::body::{Frame, Incoming};

use super::{AttemptError, CallState, Provider, final_error};
use crate::answer::{AnswerReader, ModelAnswer, Progress};
use crate::shape::Shape;

/// How long a server may take to send usage and the end mark after the model has finished.
const FINISH_GRACE: Duration = Duration::from_secs(2);
/// Limits for pieces of an answer that arrive without a pause and are passed on together.
const MAX_HELD_FRAMES: usize = 64;
const MAX_HELD_TIME: Duration = Duration::from_millis(2);

impl Provider {
    pub(super) async fn read(
        &self,
        mut body: Incoming,
        shape: &Shape,
        wait: Option<Duration>,
        state: &mut CallState<'_, '_>,
    ) -> Result<ModelAnswer, AttemptError> {
        let model = &shape.model;
        let mut reader = AnswerReader::new(self.wire.format(), self.limits.max_output_bytes);
        let mut in_grace = false;
        let mut holds = Holds::default();
        let expire = |expired, reader: &AnswerReader| {
            final_error(self.timed_out(expired, model), !reader.was_heard())
        };
        loop {
            let at_hand = if holds.may_hold() {
                at_hand(&mut body, state.deadline.is_burst()).await
            } else {
                None
            };
            let frame = match at_hand {
                Some(frame) => {
                    holds.one_more();
                    Ok(frame)
                }
                None => {
                    holds = Holds::default();
                    reader.show(state.hear);
                    state.deadline.bound(body.frame()).await
                }
            };
            let frame = match frame {
                Ok(Some(Ok(frame))) => frame,
                Ok(None | Some(Err(_))) => break,
                Err(_) if reader.is_finished() => break,
                Err(expired) => return Err(expire(expired, &reader)),
            };
            let Some(bytes) = frame.data_ref() else {
                continue;
            };
            let pushed = reader.push(bytes);
            if pushed.is_err() {
                reader.show(state.hear);
            }
            let progress = pushed
                .map_err(|defect| self.defective(defect, model, !reader.was_heard(), wait))?;
            match progress {
                Progress::Going => {
                    let heard = state.deadline.heard();
                    heard.map_err(|expired| expire(expired, &reader))?;
                }
                Progress::Finished if in_grace => {
                    if state.deadline.heard().is_err() {
                        break;
                    }
                }
                Progress::Finished => {
                    in_grace = true;
                    state.deadline.shorten(FINISH_GRACE);
                }
                Progress::Done => {
                    recycle(body);
                    break;
                }
            }
        }
        reader.show(state.hear);
        let ended = reader.end();
        reader.show(state.hear);
        ended.map_err(|defect| self.defective(defect, model, !reader.was_heard(), wait))?;
        Ok(reader.into_answer())
    }
}

/// Counts pieces of an answer that were read but not passed on yet, because more had arrived.
#[derive(Default)]
struct Holds {
    frames: usize,
    since: Option<Instant>,
}

impl Holds {
    fn may_hold(&self) -> bool {
        self.frames < MAX_HELD_FRAMES
            && self
                .since
                .is_none_or(|since| since.elapsed() < MAX_HELD_TIME)
    }

    fn one_more(&mut self) {
        self.frames += 1;
        self.since.get_or_insert_with(Instant::now);
    }
}

/// The next piece of an answer, if it has arrived. In a burst this yields to the scheduler once, so
/// that the connection hands over all it has read and the pieces are passed on together. A single
/// piece is passed on at once.
async fn at_hand(
    body: &mut Incoming,
    is_burst: bool,
) -> Option<Option<Result<Frame<Bytes>, hyper::Error>>> {
    if let Some(frame) = body.frame().now_or_never() {
        return Some(frame);
    }
    if !is_burst {
        return None;
    }
    tokio::task::yield_now().await;
    body.frame().now_or_never()
}
