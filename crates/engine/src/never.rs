//! What cannot happen, said out loud.
//!
//! Where the engine would have to be wrong for a case to occur, the code says so with [`never!`] and
//! then does the least harmful thing, usually nothing. A case that can occur (an outcome that comes
//! late or twice) is no such case: it has a comment that says why it is ignored.

use std::fmt::Arguments;
use std::panic::Location;

/// Reports a state that cannot happen. Debug builds (all tests, the simulator) panic; a release
/// build logs an error and goes on with what follows, which must be safe.
macro_rules! never {
    ($($message:tt)+) => {
        $crate::never::report(format_args!($($message)+), cfg!(debug_assertions))
    };
}

#[track_caller]
pub(crate) fn report(message: Arguments<'_>, panics: bool) {
    let at = Location::caller();
    assert!(!panics, "this cannot happen: {message} ({at})");
    tracing::error!(%at, "engine reached a state that cannot happen: {message}");
}

#[cfg(test)]
mod tests {
    use super::report;

    #[test]
    #[should_panic(expected = "this cannot happen: a turn without an end")]
    fn a_debug_build_stops_where_the_engine_is_wrong() {
        never!("a turn without an {}", "end");
    }

    #[test]
    fn a_release_build_goes_on() {
        report(format_args!("a turn without an end"), false);
    }
}
