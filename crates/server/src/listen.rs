//! Accepts connections and keeps each within its bounds.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Router;
use axum::http::{HeaderValue, header};
use codelab_protocol::Reminder;
use codelab_runtime::Metrics;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use rustix::process::{Resource, getrlimit};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio_io_timeout::TimeoutStream;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::cluster::FORWARD_HEADERS;
use crate::connections::{Connections, OpenConnection, max_connections};
use crate::guarded::Guarded;
use crate::unread;

/// Connections that wait to be accepted. A client that finds no room tries again only after a
/// second.
const BACKLOG: u32 = 4096;
/// Headers of a request, and those that another server adds when it forwards one.
const MAX_HEADERS: usize = 128 + FORWARD_HEADERS;
/// Buffered bytes of a request's head, and of an answer that its reader does not take.
const MAX_BUFFER_BYTES: usize = 64 * 1024;
const HEADER_TIMEOUT: Duration = Duration::from_secs(15);
/// After a failed accept (no file descriptors, usually).
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// How long open connections may take to finish when the server stops. It starts after the grace
/// for model calls, so that readers still see how those turns end.
const GOODBYE: Duration = Duration::from_secs(5);
/// How long a connection that lost its slot may take to close. It has no request, unless one
/// arrived at that very moment; the rest of a refused body is not worth an open file.
const LEAVE_WITHIN: Duration = Duration::from_secs(1);

/// Listens with room for a burst of connections.
pub(crate) fn bind(addr: SocketAddr) -> io::Result<TcpListener> {
    let socket = if addr.is_ipv4() {
        TcpSocket::new_v4()
    } else {
        TcpSocket::new_v6()
    }?;
    socket.set_reuseaddr(true)?;
    socket.bind(addr)?;
    socket.listen(BACKLOG)
}

/// The request came over a connection in a slot that is reserved for health and operators.
#[derive(Clone)]
pub(crate) struct ReservedConnection(pub Arc<OpenConnection>);

/// Where a request came from.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CallerAddress(pub IpAddr);

/// How long things may take.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ConnectionDeadlines {
    /// A reader that takes nothing for so long is cut; it can resume.
    pub write_timeout: Duration,
    /// What runs when the server stops has so long to finish.
    pub grace: Duration,
}

/// Serves until `stop` is done, then lets open requests finish.
pub(crate) async fn serve(
    listener: TcpListener,
    router: Router,
    deadline: ConnectionDeadlines,
    metrics: Arc<Metrics>,
    stop: impl Future<Output = ()>,
) {
    let bound = max_connections(getrlimit(Resource::Nofile).current);
    tracing::debug!(max_connections = bound, "listening for connections");
    let connections = Connections::new(bound, metrics);
    let (tasks, closing) = (TaskTracker::new(), CancellationToken::new());
    let mut stop = pin!(stop);
    let mut reminder = Reminder::default();
    'accepting: loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = &mut stop => break,
        };
        let (stream, caller) = match accepted {
            Ok((stream, addr)) => (stream, CallerAddress(addr.ip().to_canonical())),
            Err(error) => {
                // It goes on for as long as there are no open files left.
                if reminder.is_due(Instant::now()) {
                    tracing::warn!(%error, "accepting a connection failed, trying again");
                }
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let connection = loop {
            match connections.admit() {
                Some(connection) => break connection,
                None => tokio::select! {
                    () = connections.freed() => {}
                    () = &mut stop => break 'accepting,
                },
            }
        };
        tasks.spawn(converse(
            (stream, caller),
            router.clone(),
            deadline.write_timeout,
            connection,
            closing.clone(),
        ));
    }
    drop(listener);
    closing.cancel();
    tasks.close();
    if tokio::time::timeout(deadline.grace + GOODBYE, tasks.wait())
        .await
        .is_err()
    {
        tracing::warn!("some connections were still open at the shutdown deadline");
    }
}

/// Serves one connection until it ends, loses its slot, or the server stops.
async fn converse(
    (stream, caller): (TcpStream, CallerAddress),
    router: Router,
    write_timeout: Duration,
    connection: Arc<OpenConnection>,
    closing: CancellationToken,
) {
    // Tokens are small and should not wait for each other.
    let _ = stream.set_nodelay(true);
    let mut stream = TimeoutStream::new(stream);
    stream.set_write_timeout(Some(write_timeout));
    let close = Arc::clone(&connection.close);
    let asked = Arc::clone(&connection);
    let service = hyper::service::service_fn(move |mut request: hyper::Request<Incoming>| {
        let (router, connection) = (router.clone(), Arc::clone(&asked));
        let busy = connection.request();
        async move {
            request.extensions_mut().insert(caller);
            if connection.is_reserved() {
                request
                    .extensions_mut()
                    .insert(ReservedConnection(Arc::clone(&connection)));
            }
            let mut response = unread::answer(router, request, &connection).await?;
            if connection.is_reserved() {
                response
                    .headers_mut()
                    .insert(header::CONNECTION, HeaderValue::from_static("close"));
            }
            // The connection is busy until the last of the answer was handed over.
            Ok::<_, std::convert::Infallible>(response.map(|body| Guarded::body(body, busy)))
        }
    });
    let serving = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_TIMEOUT)
        .max_headers(MAX_HEADERS)
        .max_buf_size(MAX_BUFFER_BYTES)
        .serve_connection(TokioIo::new(Box::pin(stream)), service);
    let mut serving = pin!(serving);
    let mut is_closing = false;
    let mut leave_at = None;
    loop {
        tokio::select! {
            ended = serving.as_mut() => {
                if let Err(error) = ended {
                    tracing::trace!(%error, "a connection ended before its answer was sent");
                }
                return;
            }
            () = close.notified(), if leave_at.is_none() => {
                if !connection.has_spoken() {
                    return;
                }
                leave_at = Some(tokio::time::Instant::now() + LEAVE_WITHIN);
            }
            () = at(leave_at) => return,
            () = closing.cancelled(), if !is_closing => {}
        }
        is_closing = true;
        serving.as_mut().graceful_shutdown();
    }
}

/// For ever where there is no such time.
async fn at(time: Option<tokio::time::Instant>) {
    match time {
        Some(time) => tokio::time::sleep_until(time).await,
        None => std::future::pending().await,
    }
}
