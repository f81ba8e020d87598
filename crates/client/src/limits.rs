//! Every bound of the client, by name.

use std::time::Duration;

/// Bounds of one [`crate::Client`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClientLimits {
    pub connect_timeout_ms: u64,
    /// For a plain call: until the whole answer is there. For a stream: until it starts.
    pub answer_timeout_ms: u64,
    /// For a message to one agent whose answer is awaited: a direct call may work for ten minutes,
    /// and may wait 30 s for its turn.
    pub direct_timeout_ms: u64,
    /// The longest silence on an open stream. The server sends a heartbeat every 15 s.
    pub idle_timeout_ms: u64,
    /// The largest plain answer, in bytes.
    pub answer_bytes: usize,
    /// The largest single event, in bytes. The server takes bodies of 8 MiB, which may come back
    /// inside an event.
    pub event_bytes: usize,
    /// Connections kept open for reuse.
    pub idle_connections: usize,
    pub idle_connection_timeout_ms: u64,
}

impl Default for ClientLimits {
    fn default() -> Self {
        Self {
            connect_timeout_ms: 5_000,
            answer_timeout_ms: 30_000,
            direct_timeout_ms: 660_000,
            idle_timeout_ms: 45_000,
            answer_bytes: 64 << 20,
            event_bytes: 16 << 20,
            idle_connections: 256,
            idle_connection_timeout_ms: 30_000,
        }
    }
}

/// How a reader that lost its stream comes back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Backoff {
    pub first_delay_ms: u64,
    pub max_delay_ms: u64,
    /// How many times in a row a stream may fail before its first byte until the reader gives up.
    pub attempts: u32,
    /// The longest `Retry-After` that is honoured.
    pub max_retry_after_ms: u64,
}

impl Default for Backoff {
    fn default() -> Self {
        Self {
            first_delay_ms: 50,
            max_delay_ms: 5_000,
            attempts: 60,
            max_retry_after_ms: 60_000,
        }
    }
}

impl Backoff {
    /// The wait after `barren` streams in a row that brought nothing new. Half of it is random, so
    /// that the readers of a restarted server do not all come back in the same instant.
    pub fn delay(self, barren: u32) -> Duration {
        let doubled = self.first_delay_ms.saturating_mul(1 << barren.min(20));
        let full_ms = doubled.min(self.max_delay_ms);
        // Without entropy every reader waits the full time, which is only less polite.
        let random = getrandom::u32().unwrap_or(u32::MAX);
        let jitter_ms =
            (u128::from(full_ms / 2) * u128::from(random) / u128::from(u32::MAX)) as u64;
        Duration::from_millis(full_ms - full_ms / 2 + jitter_ms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_grow_to_their_bound_and_keep_at_least_half() {
        let backoff = Backoff {
            first_delay_ms: 100,
            max_delay_ms: 1_000,
            ..Backoff::default()
        };
        for (barren, full_ms) in [(0, 100), (1, 200), (3, 800), (4, 1_000), (u32::MAX, 1_000)] {
            for _ in 0..50 {
                let delay_ms = backoff.delay(barren).as_millis();
                assert!(
                    (full_ms / 2..=full_ms).contains(&delay_ms),
                    "{barren}: {delay_ms}"
                );
            }
        }
    }
}
