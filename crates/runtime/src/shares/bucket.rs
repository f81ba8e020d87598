//! A rate as a bucket: it holds what may be taken at once and fills up again with time.

use std::time::Duration;

use tokio::time::Instant;

/// Full from the beginning.
#[derive(Debug, Default)]
pub(super) struct Bucket {
    /// What is missing of a full bucket, and when that was so.
    missing: f64,
    at: Option<Instant>,
}

impl Bucket {
    /// Takes one of `limit` in `time`; false where none is left.
    pub fn take(&mut self, limit: u32, time: Duration, now: Instant) -> bool {
        let limit = f64::from(limit);
        let passed = self.at.map_or(time, |at| now.saturating_duration_since(at));
        let missing = (self.missing - limit * passed.as_secs_f64() / time.as_secs_f64()).max(0.0);
        let is_left = missing + 1.0 <= limit;
        if is_left {
            self.missing = missing + 1.0;
            self.at = Some(now);
        }
        is_left
    }

    /// Whatever its limit, it is full again after `time`.
    pub fn is_full(&self, time: Duration, now: Instant) -> bool {
        self.at
            .is_none_or(|at| now.saturating_duration_since(at) >= time)
    }
}
