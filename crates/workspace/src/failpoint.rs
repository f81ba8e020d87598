//! Named places where a crash test can make the client die. Release builds have none.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// At most one armed place, given as `name:n`: the process aborts when it passes there for the n-th
/// time. Clones count together.
#[derive(Debug, Clone, Default)]
pub struct ClientFailpoint {
    armed: Option<Arc<(String, AtomicU64)>>,
}

impl ClientFailpoint {
    pub fn parse(text: &str) -> Option<Self> {
        let (name, passes) = text.split_once(':')?;
        let passes = AtomicU64::new(passes.parse().ok()?);
        Some(Self {
            armed: Some(Arc::new((name.to_owned(), passes))),
        })
    }

    /// Nothing happens elsewhere than at the armed place.
    pub fn pass(&self, name: &str) {
        if cfg!(debug_assertions)
            && let Some(armed) = &self.armed
            && armed.0 == name
            && armed.1.fetch_sub(1, Ordering::Relaxed) == 1
        {
            std::process::abort();
        }
    }
}
