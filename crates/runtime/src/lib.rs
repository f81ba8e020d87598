//! Performs what the engine decides: one owner per session takes its inputs in order, commits what they cause through
//! the store, shows it to readers, then starts or stops model calls.
//!
//! Nothing is shown or acknowledged before it is committed. No decision is made here.

mod clock;
mod commit;
mod error;
mod failpoint;
mod feed;
mod history;
mod ids;
mod metrics;
mod owner;
mod reader;
mod registry;
mod runtime;
mod timers;

pub use clock::now;
pub use error::RuntimeError;
pub use failpoint::Failpoint;
pub use ids::{random_hex, random_u32};
pub use metrics::Metrics;
pub use reader::{Item, Reader};
pub use runtime::{LiveLimits, Parts, Retention, Runtime, SessionView};
