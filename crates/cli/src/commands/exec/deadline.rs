//! Ctrl-C during one task: the first one cancels it, the second one waits for nothing.

use super::super::StopSignals;

/// As many signals end everything.
const ENOUGH: u32 = 2;

pub(super) struct ExecDeadline {
    signals: StopSignals,
    heard: u32,
}

impl ExecDeadline {
    pub fn new() -> anyhow::Result<Self> {
        Ok(Self {
            signals: StopSignals::new()?,
            heard: 0,
        })
    }

    pub fn is_over(&self) -> bool {
        self.heard >= ENOUGH
    }

    /// The next signal. Dropping the future loses nothing.
    pub async fn signal(&mut self) {
        self.signals.next().await;
        self.heard += 1;
    }

    /// What comes of this, unless a signal comes first.
    pub async fn unless<T>(&mut self, work: impl Future<Output = T>) -> Option<T> {
        tokio::select! {
            done = work => Some(done),
            () = self.signal() => None,
        }
    }

    /// Goes on with what is left to do until that is done or the patience is over.
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
