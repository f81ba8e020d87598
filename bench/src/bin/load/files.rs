//! The limit of open files. Every process of a run raises its own limit.

use rustix::process::{Resource, getrlimit, setrlimit};

/// The number to use if the system sets no limit.
const ENOUGH: u64 = 1 << 20;

/// Raises the limit to the highest value that the system allows this process.
pub fn raise() {
    let mut limit = getrlimit(Resource::Nofile);
    if limit.current.is_some() && limit.current != limit.maximum {
        limit.current = limit.maximum.or(Some(ENOUGH));
        // If that is not allowed, `ensure` says how many files are missing.
        let _kept = setrlimit(Resource::Nofile, limit);
    }
}

pub fn ensure(wanted: u64) -> anyhow::Result<()> {
    match getrlimit(Resource::Nofile).current {
        Some(limit) if limit < wanted => {
            anyhow::bail!(
                "this run needs {wanted} open files, the limit is {limit}: try 'ulimit -n {wanted}'"
            )
        }
        _ => Ok(()),
    }
}
