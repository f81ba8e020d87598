//! Fuses the results of the search by words with those of the search by meaning. This is done here
//! and not by the engine, so that every engine gives the same order.

use std::collections::HashMap;

use crate::Hit;

/// A rank weighs 1/(K + rank). K is small, as in Qdrant, so that the first of either list stays
/// near the top. A question in other words than the text finds only chance hits by words. With a
/// large K, such hits that also appear far down in the list by meaning would displace its best
/// ones.
const RRF_K: f32 = 2.0;

/// Merges lists that are sorted best first. A single list keeps its scores.
pub(crate) fn lists(mut lists: Vec<Vec<Hit>>, top_k: usize) -> Vec<Hit> {
    if lists.len() > 1 {
        return best(reciprocal_ranks(lists), top_k);
    }
    best(lists.pop().unwrap_or_default(), top_k)
}

fn reciprocal_ranks(lists: Vec<Vec<Hit>>) -> Vec<Hit> {
    let mut fused: HashMap<u64, Hit> = HashMap::new();
    for list in lists {
        for (rank, hit) in (1u16..).zip(list) {
            let share = 1.0 / (RRF_K + f32::from(rank));
            fused
                .entry(hit.id.0)
                .or_insert(Hit { score: 0.0, ..hit })
                .score += share;
        }
    }
    fused.into_values().collect()
}

/// Best first. Among equal scores the newest comes first.
fn best(mut hits: Vec<Hit>, top_k: usize) -> Vec<Hit> {
    hits.sort_by(|left, right| {
        let by_score = right.score.total_cmp(&left.score);
        by_score
            .then(right.timestamp.cmp(&left.timestamp))
            .then(left.id.cmp(&right.id))
    });
    hits.truncate(top_k);
    hits
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MemoryEntryId;
    use codelab_protocol::Timestamp;

    fn list(ids: &[u64]) -> Vec<Hit> {
        let hit = |&id: &u64| Hit {
            id: MemoryEntryId(id),
            text: String::new(),
            score: 1.0,
            kind: String::new(),
            success: true,
            task_id: None,
            timestamp: Timestamp::from_millis(id as i64),
            metadata: serde_json::Map::new(),
        };
        ids.iter().map(hit).collect()
    }

    fn ids(hits: &[Hit]) -> Vec<u64> {
        hits.iter().map(|hit| hit.id.0).collect()
    }

    #[test]
    fn what_both_lists_know_comes_first() {
        assert_eq!(
            ids(&lists(vec![list(&[1, 2, 3]), list(&[4, 3])], 3)),
            [3, 4, 1]
        );
        assert_eq!(ids(&lists(vec![list(&[1, 2]), list(&[])], 9)), [1, 2]);
        assert_eq!(ids(&lists(vec![], 9)), [0; 0]);
    }

    #[test]
    fn the_first_of_one_list_outranks_what_is_far_down_in_both() {
        let by_words: Vec<u64> = (10..50).collect();
        let by_meaning: Vec<u64> = std::iter::once(1).chain((10..49).rev()).collect();
        assert!(ids(&lists(vec![list(&by_words), list(&by_meaning)], 5)).contains(&1));
    }

    #[test]
    fn among_equals_the_newest_comes_first() {
        assert_eq!(ids(&lists(vec![list(&[1, 3, 2])], 2)), [3, 2]);
    }
}
