//! Waiting for what has no event of its own.

use std::fmt::Debug;
use std::time::{Duration, Instant};

/// How long anything may take beside a loaded machine.
const DEADLINE: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_millis(10);

/// Looks again and again until it is so, and gives what was found; what it last saw is told when it
/// never is.
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
