//! The client against a server that answers byte for byte what a test tells it to.

#![allow(
    clippy::unwrap_used,
    reason = "the functions that tests share are tests too"
)]

mod calls;
mod chats;
mod resume;
mod scripted;
mod streams;
