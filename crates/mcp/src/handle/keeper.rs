//! The task behind a handle: starts the server, follows what it offers, starts it again after a
//! failure with growing pauses, stops it when nobody uses it.

use std::sync::Arc;
use std::time::Duration;

use codelab_protocol::McpStatus;
use tokio::time::{Instant, sleep, sleep_until};

use super::{Place, ServerState, Shared};
use crate::config::ServerConfig;
use crate::connection::{Connection, Happened, Listed, NoConnection};

/// A server that announces changes all the time is asked no more often than this.
const LIST_PAUSE: Duration = Duration::from_secs(1);

pub struct Keeper {
    config: ServerConfig,
    place: Place,
    shared: Arc<Shared>,
    /// Failures in a row.
    failures: u32,
}

/// Why a connection is over.
enum Over {
    Stopped,
    Idle,
    Failed(NoConnection),
}

impl Keeper {
    pub fn new(config: ServerConfig, place: Place, shared: Arc<Shared>) -> Self {
        Self {
            config,
            place,
            shared,
            failures: 0,
        }
    }

    pub async fn run(mut self) {
        while !self.shared.stop.is_cancelled() {
            self.shared.begin_attempt();
            self.show(McpStatus::Starting, None);
            let over = self.serve_once().await;
            let go_on = match over {
                Over::Stopped => false,
                Over::Idle => {
                    self.show(McpStatus::Idle, None);
                    self.woken().await
                }
                Over::Failed(NoConnection::Unauthorized { reason, challenge }) => {
                    self.shared.note_challenge(challenge);
                    self.show(McpStatus::Unauthorized, Some(reason));
                    self.woken().await
                }
                Over::Failed(NoConnection::Failed(reason)) => self.pause(reason).await,
            };
            if !go_on {
                break;
            }
        }
        self.shared.live.send_replace(None);
    }

    /// One life of the server.
    async fn serve_once(&mut self) -> Over {
        let shared = self.shared.clone();
        let limits = &shared.limits;
        // It looks at `stop` itself, so that what it started is ended when this returns.
        let opened = Connection::open(&self.config, &self.place, limits, &shared.stop).await;
        let mut connection = match opened {
            Ok(connection) => connection,
            Err(_) if shared.stop.is_cancelled() => return Over::Stopped,
            Err(error) => return Over::Failed(error),
        };
        let listed = tokio::select! {
            listed = connection.list(limits) => listed,
            () = shared.stop.cancelled() => {
                connection.close().await;
                return Over::Stopped;
            }
        };
        let over = match listed {
            Ok(listed) => {
                self.offer(listed);
                connection.subscribe(limits).await;
                shared.touch();
                shared.live.send_replace(Some(connection.live.clone()));
                let started = Instant::now();
                let over = self.follow(&mut connection).await;
                shared.live.send_replace(None);
                let lasted = started.elapsed() > limits.longest_restart_pause;
                if lasted || shared.take_proof() {
                    self.failures = 0;
                }
                over
            }
            Err(error) => Over::Failed(error),
        };
        connection.close().await;
        over
    }

    /// Until the connection is over.
    async fn follow(&self, connection: &mut Connection) -> Over {
        let shared = &self.shared;
        loop {
            let idle_at = shared.idle_at();
            let idle = async {
                match idle_at {
                    Some(instant) => sleep_until(instant).await,
                    None => sleep(shared.limits.idle_timeout).await,
                }
            };
            let happened = tokio::select! {
                happened = connection.happens() => happened,
                () = shared.stop.cancelled() => return Over::Stopped,
                () = idle => {
                    if shared.idle_at().is_some_and(|instant| instant <= Instant::now()) {
                        return Over::Idle;
                    }
                    continue;
                }
            };
            match happened {
                Happened::ToolsChanged => match connection.list(&shared.limits).await {
                    Ok(listed) => self.offer(listed),
                    Err(error) => return Over::Failed(error),
                },
                Happened::Closed => {
                    let text = connection.live.last_words.explain("it ended");
                    return Over::Failed(NoConnection::Failed(text));
                }
            }
            tokio::select! {
                () = sleep(LIST_PAUSE) => {}
                () = shared.stop.cancelled() => return Over::Stopped,
            }
        }
    }

    fn offer(&self, listed: Listed) {
        self.shared.state.send_replace(ServerState {
            status: McpStatus::Ready,
            error: listed.problem,
            tools: listed.tools,
        });
    }

    fn show(&self, status: McpStatus, error: Option<String>) {
        self.shared.state.send_modify(|state| {
            state.status = status;
            state.error = error;
        });
    }

    /// Waits until somebody needs the server; false when it is to be stopped.
    async fn woken(&self) -> bool {
        tokio::select! {
            () = self.shared.wake.notified() => true,
            () = self.shared.stop.cancelled() => false,
        }
    }

    /// After a failure. False when the server is to be stopped.
    async fn pause(&mut self, reason: String) -> bool {
        let limits = &self.shared.limits;
        self.failures = self.failures.saturating_add(1);
        if self.failures > limits.max_restarts {
            let times = self.failures;
            let text = format!("{reason}; it failed {times} times, and the next call tries again");
            self.show(McpStatus::Failed, Some(text));
            return self.woken().await;
        }
        let doublings = self.failures.saturating_sub(1).min(16);
        let pause = limits.first_restart_pause * 2u32.pow(doublings);
        let pause = pause.min(limits.longest_restart_pause);
        let text = format!("{reason}; it is started again in {} s", pause.as_secs_f64());
        self.show(McpStatus::Failed, Some(text));
        tokio::select! {
            () = sleep(pause) => true,
            () = self.shared.stop.cancelled() => false,
        }
    }
}
