//! Rates, their medians and how they compare.

use std::time::Duration;

use crate::WRITERS;

/// The goal for many writers, as a multiple of the bare loop.
const GOAL: f64 = 8.0;

#[derive(Default)]
pub struct Figures {
    pub bare: Rates,
    pub one: Rates,
    pub many: Rates,
    /// Appends per transaction when many write.
    pub shared_by: Vec<f64>,
}

/// Appends per second, one for each round.
#[derive(Default)]
pub struct Rates(Vec<f64>);

impl Rates {
    pub fn push(&mut self, appends: u64, took: Duration) {
        self.0.push(appends as f64 / took.as_secs_f64());
    }

    fn median(&self) -> f64 {
        median(&self.0)
    }
}

impl Figures {
    pub fn print(&self, database: &str) {
        let times = |rates: &Rates| {
            // A round is compared only with itself, because the disk's speed changes between
            // rounds.
            let ratios: Vec<f64> = rates
                .0
                .iter()
                .zip(&self.bare.0)
                .map(|(rate, bare)| rate / bare)
                .collect();
            median(&ratios)
        };
        let reached = times(&self.many);
        let verdict = if reached >= GOAL { "met" } else { "MISSED" };
        println!(
            "{database}: durable appends per second, median of {} rounds",
            self.bare.0.len()
        );
        println!("  bare loop          {:>9.0}", self.bare.median());
        println!(
            "  store, 1 writer    {:>9.0}   {:>5.2}x",
            self.one.median(),
            times(&self.one)
        );
        println!(
            "  store, {WRITERS} writers  {:>9.0}   {reached:>5.2}x   goal {GOAL}x: {verdict}; {:.1} appends share a transaction",
            self.many.median(),
            median(&self.shared_by)
        );
    }
}

fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    match sorted.len() {
        0 => f64::NAN,
        length if length % 2 == 1 => sorted[length / 2],
        length => f64::midpoint(sorted[length / 2 - 1], sorted[length / 2]),
    }
}
