//! The names of a session inside the store.

use std::fmt;

/// A session's number in every table. Chosen by the caller, so that a commit can name its session
/// before it exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SessionKey(i64);

impl SessionKey {
    const RANDOM_BITS: u32 = 20;

    /// The time comes first, so that new sessions are appended to the tables. The random part makes
    /// keys of several servers differ.
    pub fn allocate(now_ms: i64, random: u32) -> Self {
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
    fn keys_grow_with_time_and_differ_within_a_millisecond() {
        let now = 1_768_334_400_000;
        let (a, b) = (SessionKey::allocate(now, 1), SessionKey::allocate(now, 2));
        assert_ne!(a, b);
        assert!(SessionKey::allocate(now, u32::MAX) < SessionKey::allocate(now + 1, 0));
        assert!(a.get() > 0 && SessionKey::allocate(i64::MAX, u32::MAX).get() > 0);
    }
}
