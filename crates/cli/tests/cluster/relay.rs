//! The way from the other servers to one server, which can be blocked.

use std::sync::Arc;

use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinSet};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Passage {
    Open,
    /// Connections are closed as soon as they are made.
    Refused,
    /// Connections are accepted, and nothing comes back.
    Silent,
}

/// A TCP port that leads to another one. Dropping it closes the port and every connection.
pub struct Relay {
    pub port: u16,
    passage: Arc<watch::Sender<Passage>>,
    serving: AbortHandle,
}

impl Relay {
    pub async fn start(target: u16) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let passage = Arc::new(watch::Sender::new(Passage::Open));
        let serving = tokio::spawn(serve(listener, target, Arc::clone(&passage))).abort_handle();
        Self {
            port,
            passage,
            serving,
        }
    }

    /// Whatever is connected is cut by a change.
    pub fn set(&self, passage: Passage) {
        self.passage.send_replace(passage);
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

/// Connections are in the set, so that aborting this task ends all of them.
async fn serve(listener: TcpListener, target: u16, passage: Arc<watch::Sender<Passage>>) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                if let Ok((socket, _)) = accepted {
                    connections.spawn(pass(socket, target, passage.subscribe()));
                }
            }
            Some(_) = connections.join_next() => {}
        }
    }
}

async fn pass(mut from: TcpStream, target: u16, mut passage: watch::Receiver<Passage>) {
    let now = *passage.borrow_and_update();
    let through = async {
        match now {
            Passage::Refused => {}
            Passage::Silent => std::future::pending().await,
            Passage::Open => {
                if let Ok(mut to) = TcpStream::connect(("127.0.0.1", target)).await {
                    // Without it a delta waits for the acknowledgement of the one before.
                    let _best_effort = (from.set_nodelay(true), to.set_nodelay(true));
                    let _ended = copy_bidirectional(&mut from, &mut to).await;
                }
            }
        }
    };
    tokio::select! {
        () = through => {}
        _ = passage.changed() => {}
    }
}
