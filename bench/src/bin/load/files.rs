//! The limit of open files: every part of a run raises its own.

use rustix::process::{Resource, getrlimit, setrlimit};

/// Where the system sets no limit.
const ENOUGH: u64 = 1 << 20;

/// As many as the system lets this process have.
pub fn raise() {
    let mut limit = getrlimit(Resource::Nofile);
    if limit.current.is_some() && limit.current != limit.maximum {
        limit.current = limit.maximum.or(Some(ENOUGH));
        // Where that is not allowed, `ensure` names what is missing.
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
