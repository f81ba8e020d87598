//! Limits how often the same trouble is logged.

use std::time::{Duration, Instant};

/// Allows one log line a minute about the same thing. The caller passes the time.
#[derive(Debug, Clone, Copy, Default)]
pub struct Reminder {
    told_at: Option<Instant>,
}

impl Reminder {
    pub const EVERY: Duration = Duration::from_secs(60);

    /// Whether to log now. A caller that gets `true` must log.
    pub fn is_due(&mut self, now: Instant) -> bool {
        let is_due = self
            .told_at
            .is_none_or(|at| now.saturating_duration_since(at) >= Self::EVERY);
        if is_due {
            self.told_at = Some(now);
        }
        is_due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_goes_on_is_told_once_a_minute() {
        let begun = Instant::now();
        let mut reminder = Reminder::default();
        let told = (0..130).filter(|second| reminder.is_due(begun + Duration::from_secs(*second)));
        assert_eq!(told.collect::<Vec<_>>(), [0, 60, 120]);
    }
}
