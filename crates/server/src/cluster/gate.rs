//! The body of a forwarded request. It waits at a gate until the owner acknowledges the request, so
//! that the same body can still go to another owner.

use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};

use axum::body::{Body, HttpBody};
use bytes::Bytes;
use hyper::body::Frame;
use tokio::sync::oneshot;

/// The caller's body, until one attempt takes it.
#[derive(Clone)]
pub(super) struct HeldBody(Arc<Mutex<CallerBody>>);

struct CallerBody {
    body: Option<Body>,
    is_broken: bool,
}

impl HeldBody {
    pub fn new(body: Body) -> Self {
        Self(Arc::new(Mutex::new(CallerBody {
            body: Some(body),
            is_broken: false,
        })))
    }

    /// Whether the caller's body could not be read to its end.
    pub fn is_broken(&self) -> bool {
        self.lock().is_broken
    }

    fn lock(&self) -> MutexGuard<'_, CallerBody> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Nothing if it was taken already.
    pub fn take(&self) -> Option<Body> {
        self.lock().body.take()
    }

    fn is_empty(&self) -> bool {
        self.lock()
            .body
            .as_ref()
            .is_none_or(HttpBody::is_end_stream)
    }
}

/// Opens the gate. Dropping it ends the body without a byte.
pub(super) struct BodyGate(oneshot::Sender<()>);

impl BodyGate {
    pub fn open(self) {
        // Nobody waits where the body is empty or the connection is gone.
        let _ = self.0.send(());
    }
}

pub(super) enum GatedBody {
    Waiting {
        opened: oneshot::Receiver<()>,
        held: HeldBody,
    },
    Open {
        body: Body,
        held: HeldBody,
    },
    Ended,
}

impl GatedBody {
    pub fn new(held: &HeldBody) -> (BodyGate, Self) {
        let (open, opened) = oneshot::channel();
        // A request without a body says so in its head, and nothing follows.
        let body = match held.is_empty() {
            true => Self::Ended,
            false => Self::Waiting {
                opened,
                held: held.clone(),
            },
        };
        (BodyGate(open), body)
    }
}

impl HttpBody for GatedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        loop {
            match &mut *self {
                Self::Waiting { opened, held } => {
                    let is_open = ready!(Pin::new(opened).poll(context)).is_ok();
                    let (held, body) = (held.clone(), is_open.then(|| held.take()).flatten());
                    *self = body.map_or(Self::Ended, |body| Self::Open { body, held });
                }
                Self::Open { body, held } => match ready!(Pin::new(body).poll_frame(context)) {
                    // Trailers are between the caller and the first server.
                    Some(Ok(frame)) if !frame.is_data() => {}
                    Some(frame) => {
                        held.lock().is_broken |= frame.is_err();
                        return Poll::Ready(Some(frame));
                    }
                    None => *self = Self::Ended,
                },
                Self::Ended => return Poll::Ready(None),
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Waiting { .. } => false,
            Self::Open { body, .. } => body.is_end_stream(),
            Self::Ended => true,
        }
    }
}
