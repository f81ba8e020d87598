//! Single cases that need no rounds.

mod limits;
mod standby;
mod strangers;
mod terminal;
