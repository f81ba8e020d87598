//! Named places where a crash test can make the process die. Release builds have none.

use std::sync::atomic::{AtomicU64, Ordering};

/// At most one armed place, given as `name:n`: the process aborts when it passes there for the n-th
/// time.
#[derive(Debug, Default)]
pub struct Failpoint {
    armed: Option<(String, AtomicU64)>,
}

impl Failpoint {
    /// `before_commit`, `after_commit`, `after_show` or `model_finished`; anything else is never
    /// passed.
    pub fn parse(text: &str) -> Option<Self> {
        let (name, passes) = text.split_once(':')?;
        Some(Self {
            armed: Some((name.to_owned(), AtomicU64::new(passes.parse().ok()?))),
        })
    }

    pub(crate) fn pass(&self, name: &str) {
        if cfg!(debug_assertions)
            && let Some((armed, left)) = &self.armed
            && armed == name
            && left.fetch_sub(1, Ordering::Relaxed) == 1
        {
            std::process::abort();
        }
    }
}
