//! Holds a reply until the test lets it continue.

use tokio::sync::watch;

/// Holds every reply that reaches it until [`Gate::open`]. Clones are the same gate.
#[derive(Debug, Clone)]
pub struct Gate {
    open: watch::Sender<bool>,
    reached: watch::Sender<usize>,
}

impl Default for Gate {
    fn default() -> Self {
        Self::new()
    }
}

impl Gate {
    pub fn new() -> Self {
        Self {
            open: watch::Sender::new(false),
            reached: watch::Sender::new(0),
        }
    }

    /// Lets every reply pass, now and later.
    pub fn open(&self) {
        self.open.send_replace(true);
    }

    /// Returns once a reply has reached this gate, also if it has passed.
    pub async fn reached(&self) {
        wait_for(&self.reached, |count| *count > 0).await;
    }

    pub(crate) async fn pass(&self) {
        self.reached.send_modify(|count| *count += 1);
        wait_for(&self.open, |open| *open).await;
    }
}

/// Waits for a state. The sender itself stays alive, so the channel cannot close meanwhile.
pub(crate) async fn wait_for<T>(state: &watch::Sender<T>, wanted: impl FnMut(&T) -> bool) {
    let mut receiver = state.subscribe();
    let _alive = receiver.wait_for(wanted).await;
}
