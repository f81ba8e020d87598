//! This machine's clock beside those of others. Tokens, approvals and leases depend on it.

use super::report::DoctorFinding;
use crate::commands::now;

/// The clocks of two machines at one moment.
pub struct ClockComparison {
    pub whose: &'static str,
    /// How far this machine is ahead; negative when it is behind.
    pub ahead_ms: i64,
}

/// The `Date` of an answer has whole seconds, and an answer takes its time.
const TOLERATED_MS: u64 = 5_000;
/// Tokens and logins that were just made can be refused from here on.
const WRONG_MS: u64 = 60_000;

pub fn check(clocks: impl Iterator<Item = ClockComparison>) -> DoctorFinding {
    let Some(worst) = clocks.max_by_key(|clock| clock.ahead_ms.unsigned_abs()) else {
        let found = format!(
            "It is {}. No PostgreSQL and no model server answered, so nothing was compared.",
            now()
        );
        return DoctorFinding::ok("clock", found);
    };
    let ClockComparison { whose, ahead_ms } = worst;
    let off = ahead_ms.unsigned_abs();
    let way = if ahead_ms > 0 { "ahead of" } else { "behind" };
    let found = format!(
        "This machine's clock is {} {way} that of {whose}.",
        span(off)
    );
    let advice = "Set the clock, for example with `timedatectl set-ntp true`: tokens, logins and approvals would expire \
                  too early or too late.";
    match off {
        0..TOLERATED_MS => DoctorFinding::ok(
            "clock",
            format!("The same time as {whose}, within a few seconds."),
        ),
        TOLERATED_MS..WRONG_MS => DoctorFinding::warning("clock", found, advice),
        _ => DoctorFinding::problem("clock", found, advice),
    }
}

fn span(ms: u64) -> String {
    match ms / 1000 {
        seconds @ 0..120 => format!("{seconds} seconds"),
        seconds @ 120..7200 => format!("{} minutes", seconds / 60),
        seconds @ 7200..172_800 => format!("{} hours", seconds / 3600),
        seconds => format!("{} days", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::super::report::Status;
    use super::*;

    #[test]
    fn the_clock_that_differs_most_counts() {
        let found = |clocks: &[i64]| {
            check(clocks.iter().map(|&ahead_ms| ClockComparison {
                whose: "PostgreSQL",
                ahead_ms,
            }))
        };
        assert_eq!(found(&[]).status, Status::Ok);
        assert_eq!(found(&[4_000, -3_000]).status, Status::Ok);
        assert_eq!(found(&[0, -59_000]).status, Status::Warning);
        let wrong = found(&[1, -7_300_000]);
        assert_eq!(wrong.status, Status::Problem);
        assert!(
            wrong.found.contains("2 hours behind that of PostgreSQL"),
            "{}",
            wrong.found
        );
    }
}
