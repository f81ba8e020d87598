//! Several servers as one installation: what servers say to each other.

pub(crate) mod user_events;
