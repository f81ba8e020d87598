//! Ctrl-C during one task: the first one cancels the task, the second one ends the process.

use super::super::StopSignals;

/// After this many signals nothing is awaited any more.
const MAX_SIGNALS: u32 = 2;

pub(super) struct ExecDeadline {
    signals: StopSignals,
    received: u32,
}

impl ExecDeadline {
    pub fn new() -> anyhow::Result<Self> {
        Ok(Self {
            signals: StopSignals::new()?,
            received: 0,
        })
    }

    pub fn is_over(&self) -> bool {
        self.received >= MAX_SIGNALS
    }

    /// The next signal. Dropping the future loses nothing.
    pub async fn signal(&mut self) {
        self.signals.next().await;
        self.received += 1;
    }

    /// The result of the work, or `None` if a signal comes first.
    pub async fn unless<T>(&mut self, work: impl Future<Output = T>) -> Option<T> {
        tokio::select! {
            done = work => Some(done),
            () = self.signal() => None,
        }
    }

    /// Waits for the work, until it is done or the second signal comes.
    pub async fn wait_for(&mut self, work: impl Future<Output = ()>) {
        tokio::pin!(work);
        while !self.is_over() {
            tokio::select! {
                () = &mut work => return,
                () = self.signal() => {}
            }
        }
    }
}
