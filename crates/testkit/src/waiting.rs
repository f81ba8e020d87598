//! Waiting for something that has no event of its own.

use std::fmt::Debug;
use std::time::{Duration, Instant};

/// How long anything may take on a loaded machine.
const DEADLINE: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_millis(10);

/// Repeats the check until it succeeds, and returns what it found. Panics after the deadline with
/// what the check saw last.
pub async fn eventually<R, T: Debug>(what: &str, mut look: impl AsyncFnMut() -> Result<R, T>) -> R {
    let deadline = Instant::now() + DEADLINE;
    loop {
        match look().await {
            Ok(found) => return found,
            Err(seen) => assert!(
                Instant::now() < deadline,
                "never: {what}; last seen {seen:?}"
            ),
        }
        tokio::time::sleep(PAUSE).await;
    }
}
