//! The owner's answer on its way to the caller: its head, then its body as it comes. An owner that
//! falls silent and is no longer among the living servers is given up.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::{Body, HttpBody};
use axum::http::{HeaderMap, Method, StatusCode, header};
use axum::response::Response;
use bytes::{Bytes, BytesMut};
use codelab_runtime::Metrics;
use codelab_transport::recycle;
use hyper::body::{Frame, Incoming};
use tokio::time::{Instant, Sleep};
use tokio_util::sync::WaitForCancellationFutureOwned;

use super::Forwarder;
use super::wire::{Beginning, take_head};

/// A silent owner is given up when it was missing so many times in a row. One time can be a server
/// that this one does not know yet.
const MAX_MISSING: u32 = 2;

/// Why the rest of an answer does not come.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum OwnerLost {
    #[error("the connection to the owner broke: {0}")]
    Cut(String),
    #[error("the owner is no longer among the living servers")]
    Gone,
    #[error("the owner's answer has no valid head")]
    Wrong,
}

/// Notices that the owner is gone although its connection is open.
pub(super) struct OwnerWatch {
    every: Duration,
    timer: Pin<Box<Sleep>>,
    has_spoken: bool,
    missing: u32,
    is_living: Box<dyn Fn() -> bool + Send>,
}

impl OwnerWatch {
    pub fn new(every: Duration, is_living: impl Fn() -> bool + Send + 'static) -> Self {
        Self {
            every,
            timer: Box::pin(tokio::time::sleep(every)),
            has_spoken: false,
            missing: 0,
            is_living: Box::new(is_living),
        }
    }

    /// Ready when the owner is gone. The timer is not reset for each token, only when it fires.
    fn poll_gone(&mut self, context: &mut Context<'_>) -> Poll<()> {
        loop {
            ready!(self.timer.as_mut().poll(context));
            self.timer.as_mut().reset(Instant::now() + self.every);
            let has_spoken = std::mem::take(&mut self.has_spoken);
            if has_spoken || (self.is_living)() {
                self.missing = 0;
                continue;
            }
            self.missing += 1;
            if self.missing >= MAX_MISSING {
                return Poll::Ready(());
            }
        }
    }
}

/// What comes from the owner after its acknowledgement.
pub(super) struct OwnerStream {
    pub body: Incoming,
    pub watch: OwnerWatch,
}

impl OwnerStream {
    /// The next piece; nothing at the end.
    fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Bytes, OwnerLost>>> {
        loop {
            match Pin::new(&mut self.body).poll_frame(context) {
                Poll::Ready(Some(Ok(frame))) => {
                    self.watch.has_spoken = true;
                    if let Ok(data) = frame.into_data() {
                        return Poll::Ready(Some(Ok(data)));
                    }
                }
                Poll::Ready(Some(Err(error))) => {
                    return Poll::Ready(Some(Err(OwnerLost::Cut(error.to_string()))));
                }
                Poll::Ready(None) => return Poll::Ready(None),
                Poll::Pending => {
                    ready!(self.watch.poll_gone(context));
                    return Poll::Ready(Some(Err(OwnerLost::Gone)));
                }
            }
        }
    }

    async fn next(&mut self) -> Option<Result<Bytes, OwnerLost>> {
        std::future::poll_fn(|context| self.poll_next(context)).await
    }

    /// Waits for the head of the answer, however long the owner works on it.
    pub async fn answer(
        mut self,
        method: &Method,
        forwarder: &Forwarder,
    ) -> Result<Response, OwnerLost> {
        let mut arrived = BytesMut::new();
        let (status, headers) = loop {
            match take_head(&mut arrived) {
                Beginning::Head(status, headers) => break (status, headers),
                Beginning::Wrong => return Err(OwnerLost::Wrong),
                Beginning::Short => match self.next().await {
                    Some(piece) => arrived.extend_from_slice(&piece?),
                    None => return Err(OwnerLost::Cut("it ended before the head".to_owned())),
                },
            }
        };
        Ok(self.response(method, (status, headers), arrived.freeze(), forwarder))
    }

    fn response(
        self,
        method: &Method,
        (status, headers): (StatusCode, HeaderMap),
        first: Bytes,
        forwarder: &Forwarder,
    ) -> Response {
        let has_no_body = *method == Method::HEAD
            || matches!(status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED);
        let body = if has_no_body {
            recycle(self.body);
            Body::empty()
        } else {
            let stop = forwarder.stop.clone();
            Body::new(AnswerBody {
                first: Some(first).filter(|first| !first.is_empty()),
                stream: Some(self),
                stopped: is_event_stream(&headers).then(|| Box::pin(stop.cancelled_owned())),
                metrics: Arc::clone(&forwarder.metrics),
            })
        };
        let mut response = Response::new(body);
        *response.status_mut() = status;
        *response.headers_mut() = headers;
        response
    }
}

/// The body of the answer. It breaks off where the owner's does.
struct AnswerBody {
    /// What came together with the head.
    first: Option<Bytes>,
    /// Nothing after its end.
    stream: Option<OwnerStream>,
    /// Of event streams only: they end when this server stops.
    stopped: Option<Pin<Box<WaitForCancellationFutureOwned>>>,
    metrics: Arc<Metrics>,
}

fn is_event_stream(headers: &HeaderMap) -> bool {
    let kind = headers.get(header::CONTENT_TYPE);
    kind.is_some_and(|kind| kind.as_bytes().starts_with(b"text/event-stream"))
}

impl AnswerBody {
    fn poll_piece(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Bytes, OwnerLost>>> {
        let Some(stream) = &mut self.stream else {
            return Poll::Ready(None);
        };
        let next = stream.poll_next(context);
        match &mut self.stopped {
            Some(stopped) if next.is_pending() => stopped.as_mut().poll(context).map(|()| None),
            _ => next,
        }
    }
}

impl HttpBody for AnswerBody {
    type Data = Bytes;
    type Error = OwnerLost;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, OwnerLost>>> {
        if let Some(first) = self.first.take() {
            return Poll::Ready(Some(Ok(Frame::data(first))));
        }
        let next = ready!(self.poll_piece(context));
        match &next {
            Some(Ok(_)) => {}
            Some(Err(error)) => {
                tracing::debug!(%error, "a forwarded answer broke off");
                self.metrics.count_forward("cut");
                self.stream = None;
            }
            None => self.stream = None,
        }
        Poll::Ready(next.map(|piece| piece.map(Frame::data)))
    }
}
