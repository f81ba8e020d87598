//! When something that goes on and on is told again.

use std::time::{Duration, Instant};

/// One line a minute about the same thing, however often it happens. The time is the caller's.
#[derive(Debug, Clone, Copy, Default)]
pub struct Reminder {
    told_at: Option<Instant>,
}

impl Reminder {
    pub const EVERY: Duration = Duration::from_secs(60);

    /// Whether to tell now. Whoever gets `true` tells.
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
