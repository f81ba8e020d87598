//! Time limits of a call: one for the whole call, one for the next byte.

use std::future::Future;
use std::pin::{Pin, pin};
use std::time::Duration;

use tokio::time::{Instant, Sleep, sleep_until};

/// Which limit was reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expired {
    Total,
    Idle,
}

/// One timer for a whole call. Resetting a timer for each piece would cost more than reading the
/// piece. So the timer fires, checks when the last piece arrived, and is set again if needed.
pub struct CallDeadline {
    timer: Pin<Box<Sleep>>,
    deadline: Instant,
    idle: Duration,
    /// When the last piece arrived. `None` before the answer begins: then only the total limit
    /// counts, because a model may take long to read its prompt.
    heard: Option<Instant>,
    /// The last piece arrived right after the one before.
    is_burst: bool,
}

/// Pieces that arrive within this time of each other are a burst.
const BURST: Duration = Duration::from_millis(1);

impl CallDeadline {
    pub fn new(total: Duration, idle: Duration) -> Self {
        let deadline = Instant::now() + total;
        Self {
            timer: Box::pin(sleep_until(deadline)),
            deadline,
            idle,
            heard: None,
            is_burst: false,
        }
    }

    /// Runs the work until it is done or a limit is reached.
    pub async fn bound<W: Future>(&mut self, work: W) -> Result<W::Output, Expired> {
        let mut work = pin!(work);
        loop {
            tokio::select! {
                biased;
                output = &mut work => return Ok(output),
                () = self.timer.as_mut() => self.rearm(Instant::now())?,
            }
        }
    }

    /// Records that a piece arrived. Also checks the total limit, because a server that always has
    /// data ready never lets the timer fire.
    pub fn heard(&mut self) -> Result<(), Expired> {
        let now = Instant::now();
        self.is_burst = self.heard.is_some_and(|before| now - before < BURST);
        self.heard = Some(now);
        if now >= self.deadline {
            Err(Expired::Total)
        } else {
            Ok(())
        }
    }

    /// Begins a new attempt.
    pub fn begin(&mut self) {
        self.heard = None;
        self.timer.as_mut().reset(self.deadline);
    }

    /// Applies the idle limit before the answer has begun, too.
    pub fn limit_beginning(&mut self) {
        let now = Instant::now();
        self.heard = Some(now);
        self.timer
            .as_mut()
            .reset(self.deadline.min(now + self.idle));
    }

    /// Records that the answer has begun. From now on the idle limit applies.
    pub fn answered(&mut self) {
        let now = Instant::now();
        self.heard = Some(now);
        // A fast model's first pieces arrive together with the head of the answer.
        self.is_burst = true;
        self.timer
            .as_mut()
            .reset(self.deadline.min(now + self.idle));
    }

    pub fn is_burst(&self) -> bool {
        self.is_burst
    }

    pub fn shorten(&mut self, rest: Duration) {
        self.deadline = self.deadline.min(Instant::now() + rest);
        self.timer.as_mut().reset(self.deadline);
    }

    pub fn remaining(&self) -> Duration {
        self.deadline.saturating_duration_since(Instant::now())
    }

    fn rearm(&mut self, now: Instant) -> Result<(), Expired> {
        if now >= self.deadline {
            return Err(Expired::Total);
        }
        let quiet_until = self.heard.map_or(self.deadline, |heard| heard + self.idle);
        if now >= quiet_until {
            return Err(Expired::Idle);
        }
        self.timer.as_mut().reset(quiet_until.min(self.deadline));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[tokio::test(start_paused = true)]
    async fn silence_ends_by_the_idle_limit_and_dribbling_by_the_total() {
        let mut deadline = CallDeadline::new(10 * SECOND, 3 * SECOND);
        let begun = Instant::now();
        assert_eq!(
            deadline.bound(std::future::pending::<()>()).await,
            Err(Expired::Total),
            "before the answer begins"
        );
        assert_eq!(begun.elapsed().as_secs(), 10);

        let mut deadline = CallDeadline::new(10 * SECOND, 3 * SECOND);
        let begun = Instant::now();
        deadline.answered();
        assert_eq!(
            deadline.bound(std::future::pending::<()>()).await,
            Err(Expired::Idle)
        );
        assert_eq!(begun.elapsed().as_secs(), 3);

        let mut deadline = CallDeadline::new(10 * SECOND, 3 * SECOND);
        deadline.answered();
        let begun = Instant::now();
        let expired = loop {
            if let Err(expired) = deadline.bound(tokio::time::sleep(2 * SECOND)).await {
                break expired;
            }
            if let Err(expired) = deadline.heard() {
                break expired;
            }
        };
        assert_eq!(expired, Expired::Total);
        assert_eq!(begun.elapsed().as_secs(), 10);
    }

    #[tokio::test(start_paused = true)]
    async fn work_that_is_always_ready_ends_too() {
        let mut deadline = CallDeadline::new(10 * SECOND, 10 * SECOND);
        tokio::time::advance(11 * SECOND).await;
        assert_eq!(deadline.bound(std::future::ready(())).await, Ok(()));
        assert_eq!(deadline.heard(), Err(Expired::Total));
    }

    #[tokio::test(start_paused = true)]
    async fn a_shortened_wait_ends_early() {
        let mut deadline = CallDeadline::new(10 * SECOND, 10 * SECOND);
        deadline.shorten(SECOND);
        let begun = Instant::now();
        assert_eq!(
            deadline.bound(std::future::pending::<()>()).await,
            Err(Expired::Total)
        );
        assert_eq!(begun.elapsed().as_secs(), 1);
    }
}
