//! What a run has done, in numbers.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use crate::workload::ledger::{Attempt, Ledger, Outcome};

#[derive(Debug, Default)]
pub struct Tally {
    /// By kind: `SIGKILL`, under load or when idle, or the place where the process aborted.
    pub kills: BTreeMap<String, u64>,
    pub sessions: u64,
    pub messages: u64,
    pub unanswered_messages: u64,
    pub results: u64,
    pub repeated_results: u64,
    pub decisions: u64,
    pub refused_decisions: u64,
    pub cancels: u64,
    pub switches: u64,
    pub events: u64,
    pub model_requests: u64,
    /// Model calls that were under way when the server died.
    pub repeated_model_calls: u64,
    /// Requests that were sent and not answered.
    pub lost_requests: u64,
    pub approvals_back: u64,
    pub slowest_approval: Duration,
}

impl Tally {
    pub fn killed(&mut self, how: &str) {
        *self.kills.entry(how.to_owned()).or_default() += 1;
    }

    /// An approval was back this long after the server was started.
    pub fn approval_back(&mut self, after: Duration) {
        self.approvals_back += 1;
        self.slowest_approval = self.slowest_approval.max(after);
    }

    /// Adds a session that has ended.
    pub fn add(&mut self, ledger: &Ledger) {
        let taken = |outcome: Outcome| u64::from(outcome.is_taken());
        self.sessions += 1;
        let lost = |attempt: &Attempt| u64::from(attempt.outcome == Outcome::Unknown);
        for sent in &ledger.messages {
            self.lost_requests += sent.attempts.iter().map(lost).sum::<u64>();
            self.messages += taken(sent.outcome());
            self.unanswered_messages += u64::from(sent.outcome() == Outcome::Unknown);
        }
        for call in ledger.calls.values() {
            self.lost_requests += call
                .results
                .iter()
                .map(|result| lost(&result.attempt))
                .sum::<u64>();
            self.lost_requests += call
                .decisions
                .iter()
                .map(|decision| lost(&decision.attempt))
                .sum::<u64>();
            let results: u64 = call
                .results
                .iter()
                .map(|result| taken(result.attempt.outcome))
                .sum();
            self.results += results.min(1);
            self.repeated_results += results.saturating_sub(1);
            self.decisions += taken(call.decided());
            let refused = call
                .decisions
                .iter()
                .filter(|decision| decision.attempt.outcome == Outcome::Refused);
            self.refused_decisions += refused.count() as u64;
        }
        self.cancels += ledger
            .cancels
            .iter()
            .map(|cancel| taken(cancel.attempt.outcome))
            .sum::<u64>();
        self.switches += ledger
            .switches
            .iter()
            .map(|switch| taken(switch.attempt.outcome))
            .sum::<u64>();
        self.events += ledger.events.len() as u64;
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kills: Vec<String> = self
            .kills
            .iter()
            .map(|(how, count)| format!("{how} {count}"))
            .collect();
        writeln!(f, "kills: {}", kills.join(", "))?;
        writeln!(
            f,
            "acknowledged in {} sessions: {} messages, {} results ({} repeats), {} decisions, {} cancels, {} switches",
            self.sessions,
            self.messages,
            self.results,
            self.repeated_results,
            self.decisions,
            self.cancels,
            self.switches
        )?;
        writeln!(
            f,
            "not answered: {} requests; {} messages among them were never sent again; {} second decisions refused",
            self.lost_requests, self.unanswered_messages, self.refused_decisions
        )?;
        write!(
            f,
            "checked: {} events, {} model requests ({} calls made again), {} approvals back, the slowest {} ms after the start",
            self.events,
            self.model_requests,
            self.repeated_model_calls,
            self.approvals_back,
            self.slowest_approval.as_millis()
        )
    }
}
