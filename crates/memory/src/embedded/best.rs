//! Selects the best documents without sorting all of them.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

/// A document with its score. Ordered by score, then by age: the greatest is the best, and among
/// equal scores the newest.
#[derive(Debug, Clone, Copy)]
pub struct Ranked {
    pub score: f32,
    pub timestamp: i64,
    pub document: u32,
}

impl Ord for Ranked {
    fn cmp(&self, other: &Self) -> Ordering {
        let by_score = self.score.total_cmp(&other.score);
        by_score
            .then(self.timestamp.cmp(&other.timestamp))
            .then(other.document.cmp(&self.document))
    }
}

impl PartialOrd for Ranked {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Ranked {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Ranked {}

/// Keeps the best `limit` of the offered documents.
pub struct Best {
    limit: usize,
    worst_first: BinaryHeap<Reverse<Ranked>>,
}

impl Best {
    pub fn new(limit: usize) -> Self {
        Self {
            limit,
            worst_first: BinaryHeap::with_capacity(limit + 1),
        }
    }

    /// Documents below this score are not kept.
    pub fn floor(&self) -> f32 {
        match self.worst_first.peek() {
            Some(Reverse(worst)) if self.worst_first.len() == self.limit => worst.score,
            _ => f32::NEG_INFINITY,
        }
    }

    pub fn offer(&mut self, ranked: Ranked) {
        self.worst_first.push(Reverse(ranked));
        if self.worst_first.len() > self.limit {
            self.worst_first.pop();
        }
    }

    pub fn into_best_first(self) -> Vec<Ranked> {
        let mut all: Vec<Ranked> = self
            .worst_first
            .into_iter()
            .map(|Reverse(ranked)| ranked)
            .collect();
        all.sort_unstable_by(|left, right| right.cmp(left));
        all
    }
}
