//! What the rounds of one installation have done, in numbers.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use crate::fault::{Fault, Load};
use crate::workload::tally::Tally;

#[derive(Debug, Default)]
pub struct Summary {
    pub tally: Tally,
    /// Per fault: how often, how long all together, and the slowest time until everybody was
    /// served.
    faults: BTreeMap<Fault, (u64, Duration, Duration)>,
    /// Errors after which clients sent their requests again.
    trouble: BTreeMap<String, u64>,
    /// Streams that were cut and resumed.
    cuts: u64,
}

impl Summary {
    pub fn round(&mut self, fault: Fault, took: Duration, served_after: Option<Duration>) {
        let (times, all, slowest) = self.faults.entry(fault).or_default();
        *times += 1;
        *all += took;
        *slowest = served_after.unwrap_or_default().max(*slowest);
    }

    /// Adds sessions that have ended.
    pub fn add(&mut self, load: &Load) {
        for watched in &load.sessions {
            let ledger = watched.ledger();
            self.tally.add(&ledger);
            self.cuts += ledger.cuts.len() as u64;
            self.note(&ledger.trouble);
        }
        for person in &load.people {
            self.tally.messages += person.plans().len() as u64;
            self.tally.sessions += 1;
            self.note(&person.trouble());
        }
    }

    fn note(&mut self, trouble: &BTreeMap<String, u64>) {
        for (kind, times) in trouble {
            *self.trouble.entry(kind.clone()).or_default() += times;
        }
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (fault, (times, all, slowest)) in &self.faults {
            let each = all.as_millis() / u128::from(*times);
            write!(f, "{}: {times} rounds of {each} ms", fault.name())?;
            if !slowest.is_zero() {
                write!(f, ", the slowest served after {} ms", slowest.as_millis())?;
            }
            writeln!(f)?;
        }
        writeln!(f, "sent again after: {:?}", self.trouble)?;
        writeln!(f, "streams of all events that were cut: {}", self.cuts)?;
        write!(f, "{}", self.tally)
    }
}
