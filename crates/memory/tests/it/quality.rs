//! What is found by words alone, measured on the labelled set of `bench/data/retrieval`.

use std::collections::BTreeMap;
use std::path::PathBuf;

use codelab_memory::Query;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::bed::{Bed, asked, ids, said, unused_name};

/// Higher than the goal of 0.85, which was left behind: what is lost again must be seen.
const MIN_RECALL: f64 = 0.95;
const TOP_K: usize = 5;

#[derive(Deserialize)]
struct Said {
    id: u64,
    text: String,
}

#[derive(Deserialize)]
struct Asked {
    lang: String,
    kind: String,
    text: String,
    relevant: Vec<u64>,
}

#[tokio::test(flavor = "multi_thread")]
async fn words_in_other_forms_are_found_in_every_language() {
    let (bed, name) = (Bed::embedded(), unused_name());
    let memory = bed.open();
    memory.create(&name).await.unwrap();
    let interactions: Vec<Said> = lines("interactions.jsonl");
    for batch in interactions.chunks(250) {
        memory
            .add(
                &name,
                batch.iter().map(|one| said(one.id, &one.text)).collect(),
            )
            .await
            .unwrap();
    }

    let mut shares: BTreeMap<(String, String), Vec<f64>> = BTreeMap::new();
    for query in lines::<Asked>("queries.jsonl") {
        let found = memory
            .search(
                &name,
                &Query {
                    top_k: TOP_K,
                    ..asked(&query.text)
                },
            )
            .await
            .unwrap();
        let hits = ids(&found)
            .iter()
            .filter(|id| query.relevant.contains(id))
            .count();
        let share = hits as f64 / query.relevant.len() as f64;
        shares
            .entry((query.kind, query.lang))
            .or_default()
            .push(share);
    }
    for kind in ["exact", "word_form", "mixed"] {
        for lang in ["en", "ru", "uk"] {
            let shares = &shares[&(kind.to_owned(), lang.to_owned())];
            let recall = shares.iter().sum::<f64>() / shares.len() as f64;
            assert!(
                recall >= MIN_RECALL,
                "recall@{TOP_K} of {kind} queries in {lang} is {recall:.3}"
            );
        }
    }
}

fn lines<T: DeserializeOwned>(file: &str) -> Vec<T> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../bench/data/retrieval");
    let text = std::fs::read_to_string(folder.join(file)).unwrap();
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}
