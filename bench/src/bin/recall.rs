//! `recall`: how often a search of an agent's memory finds the right answer, on the labelled set of
//! `data/retrieval`.

#![allow(clippy::print_stdout, reason = "a benchmark says what it measured")]

use std::collections::BTreeMap;

use anyhow::{Context, ensure};
use clap::Parser;
use codelab_bench::{Labelled, LabelledQuery, LabelledSet, QueryKind, QueryLanguage};
use codelab_memory::{
    CollectionName, EmbeddedOptions, Embedder, EmbedderOptions, Filter, Memory, MemoryEntry,
    MemoryEntryId, MemoryHealth, Query,
};
use codelab_protocol::{AgentName, ProjectId, Timestamp, UserId};

/// A hit counts if it is among the first five. For MRR its rank counts if it is among the first
/// ten.
const RECALL_AT: usize = 5;
const RANKS: usize = 10;
const BATCH: usize = 250;

/// Recall@5 and MRR by words (BM25) and, with an embedding model, by meaning (dense) and by both
/// (fused).
#[derive(Parser)]
struct Options {
    /// Server with an OpenAI-compatible /v1/embeddings
    #[arg(long, requires = "model")]
    embeddings: Option<String>,
    /// Embedding model
    #[arg(long, requires = "embeddings")]
    model: Option<String>,
    /// Print, for every query that missed, what was wanted and what was found
    #[arg(long)]
    misses: bool,
}

/// The hits of one way of searching: for each query the ids, best first.
struct Run {
    name: &'static str,
    found: Vec<Vec<u64>>,
}

#[derive(Default)]
struct Score {
    queries: usize,
    recall: f64,
    reciprocal_rank: f64,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let options = Options::parse();
    let set = LabelledSet::read()?;
    let mut runs = vec![Run {
        name: "BM25",
        found: search(&set, None).await?,
    }];
    if let Some((url, model)) = options.embeddings.as_ref().zip(options.model.as_ref()) {
        let embedder = || Embedder::new(EmbedderOptions::new(url, model));
        runs.push(Run {
            name: "dense",
            found: nearest(&set, &embedder()?).await?,
        });
        runs.push(Run {
            name: "fused",
            found: search(&set, Some(embedder()?)).await?,
        });
    }
    if options.misses {
        print_misses(&set, &runs);
    }
    println!(
        "{} interactions, {} queries",
        set.interactions.len(),
        set.queries.len()
    );
    print_table(&set.queries, &runs);
    Ok(())
}

/// The product's own search: by words, or by words and meaning if there is a model.
async fn search(set: &LabelledSet, embedder: Option<Embedder>) -> anyhow::Result<Vec<Vec<u64>>> {
    let folder = tempfile::tempdir()?;
    let memory = Memory::embedded(EmbeddedOptions::new(folder.path()), embedder);
    let user = UserId::new(1).context("an id must be positive")?;
    let project = ProjectId::new(1).context("an id must be positive")?;
    let name = CollectionName::new(user, project, &AgentName::parse("agent_coder")?)?;
    memory.create(&name).await?;
    for batch in set.interactions.chunks(BATCH) {
        memory
            .add(&name, batch.iter().map(interaction).collect())
            .await?;
    }
    let mut found = Vec::new();
    for query in &set.queries {
        let query = Query {
            text: query.text.clone(),
            top_k: RANKS,
            filter: Filter::default(),
        };
        found.push(
            memory
                .search(&name, &query)
                .await?
                .iter()
                .map(|hit| hit.id.0)
                .collect(),
        );
    }
    // A search still works when the model fails. Without this check a result could be that of words
    // alone.
    ensure!(
        memory.health().await == MemoryHealth::Healthy,
        "the embedding model failed"
    );
    memory.close().await;
    Ok(found)
}

/// By meaning alone: compares every interaction, by the cosine of the angle like the product's
/// dense vectors.
async fn nearest(set: &LabelledSet, embedder: &Embedder) -> anyhow::Result<Vec<Vec<u64>>> {
    let texts: Vec<&str> = set
        .interactions
        .iter()
        .map(|interaction| interaction.text.as_str())
        .collect();
    let asked: Vec<&str> = set
        .queries
        .iter()
        .map(|query| query.text.as_str())
        .collect();
    let said = embedder
        .vectors(&texts)
        .await
        .context("the embedding model failed")?;
    let asked = embedder
        .vectors(&asked)
        .await
        .context("the embedding model failed")?;
    let ranked = |query: &Vec<f32>| {
        let mut scores: Vec<(f32, u64)> = said
            .iter()
            .zip(&set.interactions)
            .map(|(vector, one)| (cosine(query, vector), one.id))
            .collect();
        scores.sort_by(|left, right| right.0.total_cmp(&left.0));
        scores.into_iter().take(RANKS).map(|(_, id)| id).collect()
    };
    Ok(asked.iter().map(ranked).collect())
}

fn cosine(left: &[f32], right: &[f32]) -> f32 {
    let dot = |left: &[f32], right: &[f32]| left.iter().zip(right).map(|(l, r)| l * r).sum::<f32>();
    dot(left, right)
        / (dot(left, left) * dot(right, right))
            .sqrt()
            .max(f32::MIN_POSITIVE)
}

fn interaction(labelled: &Labelled) -> MemoryEntry {
    MemoryEntry {
        id: MemoryEntryId(labelled.id),
        text: labelled.text.clone(),
        kind: labelled.kind.clone(),
        success: labelled.success,
        task_id: None,
        session_id: None,
        timestamp: Timestamp::from_millis(labelled.id as i64),
        metadata: serde_json::Map::new(),
    }
}

fn print_misses(set: &LabelledSet, runs: &[Run]) {
    let text = |id: &u64| {
        set.interactions
            .iter()
            .find(|one| one.id == *id)
            .map_or("", |one| one.text.as_str())
    };
    for run in runs {
        for (query, found) in set
            .queries
            .iter()
            .zip(&run.found)
            .filter(|(query, found)| recall(query, found) < 1.0)
        {
            println!("{}, {}: {}", run.name, query.kind, query.text);
            query
                .relevant
                .iter()
                .for_each(|id| println!("    wanted {id} {}", text(id)));
            found
                .iter()
                .take(RECALL_AT)
                .for_each(|id| println!("    found  {id} {}", text(id)));
        }
    }
}

fn print_table(queries: &[LabelledQuery], runs: &[Run]) {
    print!("{:<10} {:<10} {:>7}", "kind", "language", "queries");
    runs.iter()
        .for_each(|run| print!("  {:>5} r@{RECALL_AT}   MRR", run.name));
    println!();
    let mut rows: BTreeMap<(QueryKind, Option<QueryLanguage>), Vec<Score>> = BTreeMap::new();
    for (at, query) in queries.iter().enumerate() {
        for language in [Some(query.lang), None] {
            let scores = rows.entry((query.kind, language)).or_default();
            scores.resize_with(runs.len(), Score::default);
            scores
                .iter_mut()
                .zip(runs)
                .for_each(|(score, run)| score.count(query, &run.found[at]));
        }
    }
    for ((kind, language), scores) in rows {
        let language = language.map_or("all".into(), |language| language.to_string());
        print!("{kind:<10} {language:<10} {:>7}", scores[0].queries);
        for score in scores {
            let share = |sum: f64| sum / score.queries as f64;
            print!(
                "  {:>9.3} {:>5.3}",
                share(score.recall),
                share(score.reciprocal_rank)
            );
        }
        println!();
    }
}

impl Score {
    fn count(&mut self, query: &LabelledQuery, found: &[u64]) {
        let rank = found.iter().position(|id| query.relevant.contains(id));
        self.queries += 1;
        self.recall += recall(query, found);
        self.reciprocal_rank += rank.map_or(0.0, |rank| 1.0 / (rank + 1) as f64);
    }
}

/// The share of the answers that are among the first hits.
fn recall(query: &LabelledQuery, found: &[u64]) -> f64 {
    let hits = found
        .iter()
        .take(RECALL_AT)
        .filter(|id| query.relevant.contains(id))
        .count();
    hits as f64 / query.relevant.len() as f64
}
