//! Search by meaning. Every vector is compared in a rounded form with one byte per number. The best
//! are compared again with the exact vectors from the file.

use super::best::{Best, Ranked};

/// Candidates that are compared exactly, for each requested hit.
const CANDIDATES_PER_HIT: usize = 2;

/// The vectors of a collection, rounded.
pub struct RoundedVectors {
    size: usize,
    documents: Vec<u32>,
    scales: Vec<f32>,
    /// `size` numbers for each document.
    values: Vec<i8>,
}

impl RoundedVectors {
    pub fn new(size: usize) -> Self {
        Self {
            size,
            documents: Vec::new(),
            scales: Vec::new(),
            values: Vec::new(),
        }
    }

    pub fn add(&mut self, document: u32, vector: &[f32]) {
        if vector.len() != self.size {
            return;
        }
        let scale = rounded(vector, &mut self.values);
        self.documents.push(document);
        self.scales.push(scale);
    }

    /// Candidates for the best `limit`, among documents that are wanted.
    pub fn candidates(
        &self,
        query: &[f32],
        limit: usize,
        is_wanted: impl Fn(u32) -> bool,
    ) -> Vec<u32> {
        let mut asked = Vec::new();
        rounded(query, &mut asked);
        let mut best = Best::new(limit * CANDIDATES_PER_HIT);
        let vectors = self.values.chunks_exact(self.size.max(1));
        for ((&document, &scale), vector) in self.documents.iter().zip(&self.scales).zip(vectors) {
            if !is_wanted(document) {
                continue;
            }
            let score = product(&asked, vector) as f32 * scale;
            if score >= best.floor() {
                best.offer(Ranked {
                    score,
                    timestamp: 0,
                    document,
                });
            }
        }
        best.into_best_first()
            .into_iter()
            .map(|ranked| ranked.document)
            .collect()
    }
}

/// Rounds a vector to bytes, at the end of `values`, and returns what one of them stands for.
fn rounded(vector: &[f32], values: &mut Vec<i8>) -> f32 {
    let largest = vector
        .iter()
        .fold(0.0_f32, |largest, value| largest.max(value.abs()));
    let scale = if largest > 0.0 {
        largest / f32::from(i8::MAX)
    } else {
        1.0
    };
    values.extend(vector.iter().map(|value| (value / scale).round() as i8));
    scale
}

fn product(left: &[i8], right: &[i8]) -> i32 {
    left.iter()
        .zip(right)
        .map(|(left, right)| i32::from(*left) * i32::from(*right))
        .sum()
}

/// The cosine of the angle between two vectors of length one.
pub fn similarity(left: &[f32], right: &[f32]) -> f32 {
    left.iter()
        .zip(right)
        .map(|(left, right)| left * right)
        .sum()
}

/// The vector with length one; one without length stays as it is.
pub fn normalized(mut vector: Vec<f32>) -> Vec<f32> {
    let length = similarity(&vector, &vector).sqrt();
    if length > 0.0 && length.is_finite() {
        vector.iter_mut().for_each(|value| *value /= length);
    }
    vector
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers without a pattern, the same in every run.
    fn vector(seed: u64, size: usize) -> Vec<f32> {
        let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let mut next = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state % 2001) as f32 / 1000.0 - 1.0
        };
        normalized((0..size).map(|_| next()).collect())
    }

    #[test]
    fn the_exact_best_are_among_the_candidates() {
        let all: Vec<Vec<f32>> = (0..2000).map(|seed| vector(seed, 96)).collect();
        let mut rounded = RoundedVectors::new(96);
        for (document, vector) in (0..).zip(&all) {
            rounded.add(document, vector);
        }
        for seed in 5000..5050 {
            let query = vector(seed, 96);
            let mut exact: Vec<u32> = (0..2000).collect();
            exact.sort_by(|left, right| {
                let score = |document: &u32| similarity(&query, &all[*document as usize]);
                score(right).total_cmp(&score(left))
            });
            let candidates = rounded.candidates(&query, 10, |_| true);
            assert_eq!(candidates.len(), 20);
            assert!(
                exact[..10]
                    .iter()
                    .all(|document| candidates.contains(document)),
                "query {seed}"
            );
            let even = rounded.candidates(&query, 10, |document| document % 2 == 0);
            assert!(even.iter().all(|document| document % 2 == 0));
        }
    }

    #[test]
    fn a_vector_without_length_harms_nothing() {
        assert_eq!(normalized(vec![0.0; 3]), [0.0; 3]);
        let mut rounded = RoundedVectors::new(3);
        rounded.add(0, &[0.0; 3]);
        rounded.add(1, &[0.0, 1.0, 0.0]);
        rounded.add(2, &[1.0]);
        assert_eq!(rounded.candidates(&[0.0, 1.0, 0.0], 1, |_| true), [1, 0]);
    }
}
