//! The load on sessions that the crash program and the cluster program share: what clients do, the
//! ledger of what was acknowledged, and the comparison with what is found.

pub mod check;
pub mod found;
pub mod ledger;
pub mod plan;
pub mod report;
pub mod requests;
pub mod rng;
pub mod tally;
pub mod visit;
