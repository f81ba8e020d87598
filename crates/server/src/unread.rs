//! Handles the part of a request body that the handler did not read. A request that is refused
//! early still has a body, and the next request on the connection comes after it. So either the
//! rest is read, or the answer says that the connection closes. Otherwise the client's next request
//! would be lost silently.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::{HeaderValue, Request, header};
use axum::response::Response;
use bytes::Bytes;
use hyper::body::{Body as _, Frame, Incoming, SizeHint};
use tokio::runtime::Handle;
use tower::ServiceExt as _;

use crate::connections::OpenConnection;

/// Up to this size the rest is read, so that the connection stays usable.
const MAX_REST_BYTES: u64 = 1 << 20;
/// Of a larger rest this much is read, so that the client reads the answer before the connection
/// closes.
const MAX_LINGER_BYTES: u64 = 16 << 20;
/// How long either may take.
const REST_TIMEOUT: Duration = Duration::from_secs(10);

/// Answers the request, and deals with what is left of its body.
pub(crate) async fn answer(
    router: Router,
    request: Request<Incoming>,
    connection: &Arc<OpenConnection>,
) -> Result<Response, Infallible> {
    if request.body().is_end_stream() {
        connection.busy();
        return router.oneshot(request.map(Body::new)).await;
    }
    // A client that waits for `100 Continue` may or may not send the body after the answer.
    let is_announced = request.headers().contains_key(header::EXPECT);
    let left = Left::default();
    let connection = Arc::clone(connection);
    let request = request.map(|body| {
        Body::new(Watched {
            body: Some(body),
            left: left.clone(),
            connection,
        })
    });
    let mut response = router.oneshot(request).await?;
    if left.is_broken.load(Ordering::Relaxed) {
        // Nobody can tell where the next request would begin.
        response
            .headers_mut()
            .insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    if let Some(rest) = left.take_or_leave() {
        let is_short = rest
            .size_hint()
            .exact()
            .is_some_and(|bytes| bytes <= MAX_REST_BYTES);
        let goes_on = is_short && !is_announced;
        if !goes_on {
            response
                .headers_mut()
                .insert(header::CONNECTION, HeaderValue::from_static("close"));
        }
        // Beside the answer, which need not wait for it.
        tokio::spawn(read(
            rest,
            if goes_on {
                MAX_REST_BYTES
            } else {
                MAX_LINGER_BYTES
            },
        ));
    }
    Ok(response)
}

/// Reads the rest of a body and throws it away. If it is too long or takes too long, the connection
/// closes.
async fn read(mut rest: Incoming, max_bytes: u64) {
    let reading = async {
        let mut bytes = 0;
        while bytes <= max_bytes {
            match std::future::poll_fn(|context| Pin::new(&mut rest).poll_frame(context)).await {
                Some(Ok(frame)) => bytes += frame.data_ref().map_or(0, Bytes::len) as u64,
                Some(Err(_)) | None => break,
            }
        }
    };
    let _ = tokio::time::timeout(REST_TIMEOUT, reading).await;
}

/// Where a body goes that its handler dropped before the end.
#[derive(Clone, Default)]
struct Left {
    rest: Arc<Mutex<Rest>>,
    /// It was not valid HTTP, or the client disconnected.
    is_broken: Arc<AtomicBool>,
}

#[derive(Default)]
enum Rest {
    /// The handler has not dropped the body.
    #[default]
    Unknown,
    Dropped(Incoming),
    /// The answer began while the body was still being read, as with forwarded requests.
    Answered,
}

impl Left {
    /// What the handler dropped, at the time of its answer.
    fn take_or_leave(&self) -> Option<Incoming> {
        match std::mem::replace(&mut *self.lock(), Rest::Answered) {
            Rest::Dropped(rest) => Some(rest),
            Rest::Unknown | Rest::Answered => None,
        }
    }

    /// After the answer began, the rest is read here, so that the client reads the whole answer
    /// before the connection closes.
    fn put(&self, body: Incoming) {
        let mut rest = self.lock();
        match *rest {
            Rest::Unknown | Rest::Dropped(_) => *rest = Rest::Dropped(body),
            Rest::Answered => {
                if let Ok(runtime) = Handle::try_current() {
                    runtime.spawn(read(body, MAX_LINGER_BYTES));
                }
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Rest> {
        self.rest.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct Watched {
    /// Nothing once it was read to its end.
    body: Option<Incoming>,
    left: Left,
    connection: Arc<OpenConnection>,
}

impl hyper::body::Body for Watched {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<hyper::Result<Frame<Bytes>>>> {
        let Some(body) = &mut self.body else {
            return Poll::Ready(None);
        };
        let frame = std::task::ready!(Pin::new(body).poll_frame(context));
        if let Some(Err(_)) = &frame {
            self.left.is_broken.store(true, Ordering::Relaxed);
        }
        if !matches!(frame, Some(Ok(_))) {
            self.body = None;
        }
        if self.is_end_stream() {
            self.connection.busy();
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.as_ref().is_none_or(Incoming::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.body
            .as_ref()
            .map_or_else(|| SizeHint::with_exact(0), Incoming::size_hint)
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        if let Some(body) = self.body.take().filter(|body| !body.is_end_stream()) {
            self.left.put(body);
        }
    }
}
