//! Single cases that need no rounds.

mod limits;
mod moving;
mod standby;
mod strangers;
mod terminal;
