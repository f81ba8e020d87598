//! The names of a session inside the store.

use std::fmt;
use std::sync::atomic::{AtomicI64, Ordering};

/// A session's number in every table. Chosen by the caller, so that a commit can name its session
/// before it exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SessionKey(i64);

impl SessionKey {
    const RANDOM_BITS: u32 = 20;

    /// The time comes first, so that new sessions are appended to the tables.
    fn at(now_ms: i64, random: u32) -> Self {
        let random = i64::from(random & ((1 << Self::RANDOM_BITS) - 1));
        Self((now_ms << Self::RANDOM_BITS | random) & i64::MAX)
    }

    pub const fn from_raw(raw: i64) -> Self {
        Self(raw)
    }

    pub const fn get(self) -> i64 {
        self.0
    }
}

/// Gives the keys of one server. No two of them are the same, and the random part makes those of
/// several servers differ.
#[derive(Debug, Default)]
pub struct SessionKeys {
    last: AtomicI64,
}

impl SessionKeys {
    pub fn allocate(&self, now_ms: i64, random: u32) -> SessionKey {
        let wanted = SessionKey::at(now_ms, random).0;
        let after = |last: i64| wanted.max(last.saturating_add(1));
        let last = self
            .last
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |last| {
                Some(after(last))
            });
        SessionKey(last.map_or(wanted, after))
    }
}

impl fmt::Display for SessionKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Counts the owners of a session. A commit with an older epoch fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Epoch(pub u64);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_grow_with_time_and_are_never_given_twice() {
        let (now, keys) = (1_768_334_400_000, SessionKeys::default());
        let mut given = Vec::new();
        // Whatever chance says, and if the clock goes back.
        for (time, random) in [(now, 7), (now, 7), (now, 7), (now, 3), (now - 9, u32::MAX)] {
            given.push(keys.allocate(time, random));
        }
        given.push(keys.allocate(now, u32::MAX));
        given.push(keys.allocate(now + 1, 0));
        assert!(given.is_sorted_by(|a, b| a < b), "{given:?}");
        assert!(given[0].get() > 0 && SessionKey::at(i64::MAX, u32::MAX).get() > 0);
    }
}
