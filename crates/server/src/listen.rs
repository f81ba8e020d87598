//! Accepts connections and keeps each within its bounds.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use codelab_runtime::{Metrics, Open};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::Semaphore;
use tokio_io_timeout::TimeoutStream;
use tower::ServiceExt as _;

const MAX_CONNECTIONS: usize = 20_000;
/// Connections that wait to be accepted. A client that finds no room tries again only after a second.
const BACKLOG: u32 = 4096;
const MAX_HEADERS: usize = 128;
const HEADER_TIMEOUT: Duration = Duration::from_secs(15);
/// After a failed accept (no file descriptors, usually).
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// How long open connections may take to finish when the server stops: the grace of model calls, whose turns are shown to
/// their end, and a moment to write that.
const GOODBYE: Duration = Duration::from_secs(10 + 5);

/// Listens with room for a burst of connections.
pub(crate) fn bind(addr: SocketAddr) -> io::Result<TcpListener> {
    let socket = if addr.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    socket.set_reuseaddr(true)?;
    socket.bind(addr)?;
    socket.listen(BACKLOG)
}

/// Serves until `stop` is done, then lets open requests finish. A reader that takes nothing for `write_timeout` is cut;
/// it can resume.
pub(crate) async fn serve(
    listener: TcpListener,
    router: Router,
    write_timeout: Duration,
    metrics: Arc<Metrics>,
    stop: impl Future<Output = ()>,
) {
    let graceful = GracefulShutdown::new();
    let places = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    tokio::pin!(stop);
    loop {
        let place = tokio::select! {
            place = Arc::clone(&places).acquire_owned() => place,
            () = &mut stop => break,
        };
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = &mut stop => break,
        };
        let stream = match accepted {
            Ok((stream, _)) => stream,
            Err(error) => {
                tracing::warn!(%error, "a connection could not be accepted");
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let connection = graceful.watch(connection(stream, router.clone(), write_timeout));
        let open = Open::connection(&metrics);
        tokio::spawn(async move {
            if let Err(error) = connection.await {
                tracing::trace!(%error, "a connection ended early");
            }
            drop((open, place));
        });
    }
    drop(listener);
    if tokio::time::timeout(GOODBYE, graceful.shutdown()).await.is_err() {
        tracing::warn!("some connections did not end in time");
    }
}

type Io = TokioIo<std::pin::Pin<Box<TimeoutStream<TcpStream>>>>;

fn connection(
    stream: TcpStream,
    router: Router,
    write_timeout: Duration,
) -> http1::Connection<
    Io,
    impl hyper::service::Service<
        hyper::Request<Incoming>,
        Response = axum::response::Response,
        Error = Infallible,
        Future: Send,
    >,
> {
    // Tokens are small and should not wait for each other.
    let _ = stream.set_nodelay(true);
    let mut stream = TimeoutStream::new(stream);
    stream.set_write_timeout(Some(write_timeout));
    let service = hyper::service::service_fn(move |request: hyper::Request<Incoming>| {
        let request: Request = request.map(Body::new);
        router.clone().oneshot(request)
    });
    http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_TIMEOUT)
        .max_headers(MAX_HEADERS)
        .serve_connection(TokioIo::new(Box::pin(stream)), service)
}
